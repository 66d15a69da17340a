//! Commands that run without a reader: started in a session, listed, waited for, signalled.

use std::time::Duration;

use agentd_proto::v1;
use serde::Serialize;

use super::{
    Daemon, DaemonError, ExecRequest, Limits, Outcome, command::wire_spec, convert, exec::client,
    link::Link,
};

/// How long a question may take while the connection is broken.
const PATIENCE: Duration = Duration::from_secs(10);
/// Bytes that are read at once.
const READ_BYTES: u64 = 256 << 10;
/// Jobs of one page.
const PAGE: u32 = 500;
/// More pages than a daemon has.
const MAX_PAGES: u32 = 100;

const QUEUED: &str = "queued";
const RUNNING: &str = "running";

/// A command that the daemon knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Job {
    /// Id.
    pub exec_id: String,
    /// Session; absent for a command of its own.
    pub session_id: Option<String>,
    /// `queued`, `running` or `ended`.
    pub state: &'static str,
    /// Seconds since 1970 at which it was asked for.
    pub created_at: i64,
    /// How it ended.
    pub reason: Option<super::ExitReason>,
    /// Exit code, when it returned one.
    pub exit_code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
    /// Everything about its end.
    #[serde(skip)]
    pub outcome: Option<Outcome>,
}

/// A piece of what a command has printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Printed {
    /// Bytes of both streams in order of arrival.
    pub data: Vec<u8>,
    /// Offset of the first of them: larger than the one asked for when what was there is no longer held.
    pub offset: u64,
    /// Bytes printed so far.
    pub written: u64,
    /// Nothing will be added.
    pub ended: bool,
}

/// What ending a command came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No process of it is left.
    Killed,
    /// It had ended before.
    AlreadyEnded,
    /// What could be found was killed; this host cannot prove that nothing was missed.
    Unproven,
}

impl Daemon {
    /// Starts a command that lives as long as its session.
    ///
    /// # Errors
    /// The daemon refused it, or the connection broke.
    pub async fn start_background(&self, request: ExecRequest) -> Result<Job, DaemonError> {
        start_background(self.link(), request).await
    }

    /// The caller's commands, oldest first.
    ///
    /// # Errors
    /// The daemon refused, or the connection broke.
    pub async fn jobs(&self) -> Result<Vec<Job>, DaemonError> {
        let mut jobs = Vec::new();
        let mut page_token = String::new();
        for _ in 0..MAX_PAGES {
            let request = v1::ListExecsRequest {
                page_size: PAGE,
                page_token,
                ..v1::ListExecsRequest::default()
            };
            let answer = self.link().ask("ExecService.List", PATIENCE, |channel| {
                let request = request.clone();
                async move { client(channel).list(request).await }
            });
            let answer = answer.await?.into_inner();
            for exec in answer.execs {
                jobs.push(job(Some(exec))?);
            }
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        Ok(jobs)
    }

    /// One command, now.
    ///
    /// # Errors
    /// The daemon does not know it, or the connection broke.
    pub async fn job(&self, exec_id: &str) -> Result<Job, DaemonError> {
        let request = v1::GetExecRequest {
            exec_id: exec_id.to_owned(),
        };
        let answer = self.link().ask("ExecService.Get", PATIENCE, |channel| {
            let request = request.clone();
            async move { client(channel).get(request).await }
        });
        job(answer.await?.into_inner().exec)
    }

    /// Waits for the end of a command, however long that takes.
    ///
    /// # Errors
    /// The daemon does not know it, or the connection broke.
    pub async fn wait_for(&self, exec_id: &str) -> Result<(Outcome, Option<Limits>), DaemonError> {
        wait_for(self.link(), exec_id).await
    }

    /// Reads what a command has printed from `offset` on, and waits up to `wait` for the first byte of it.
    ///
    /// # Errors
    /// The daemon does not know it, or the connection broke.
    pub async fn printed(
        &self,
        exec_id: &str,
        offset: u64,
        wait: Duration,
    ) -> Result<Printed, DaemonError> {
        let request = v1::ReadOutputRequest {
            exec_id: exec_id.to_owned(),
            offset,
            limit: READ_BYTES,
            wait: Some(convert::wire_duration(wait)),
        };
        let answer = self
            .link()
            .ask("ExecService.ReadOutput", PATIENCE, |channel| {
                let request = request.clone();
                async move { client(channel).read_output(request).await }
            });
        let answer = answer.await?.into_inner();
        Ok(Printed {
            data: answer.data.into(),
            offset: answer.offset,
            written: answer.written,
            ended: answer.ended,
        })
    }

    /// Sends a signal to every process of a command; false when it had ended.
    ///
    /// # Errors
    /// The daemon does not know the command or refuses the signal, or the connection broke.
    pub async fn signal(&self, exec_id: &str, signal: i32) -> Result<bool, DaemonError> {
        let request = v1::SignalRequest {
            exec_id: exec_id.to_owned(),
            signal,
            scope: v1::SignalScope::Tree.into(),
        };
        // Asked once: a signal that is sent twice may do something twice.
        let answer = client(self.link().channel()?).signal(request).await;
        let answer = answer.map_err(|status| super::error::call(&status, "ExecService.Signal"))?;
        Ok(answer.into_inner().delivered)
    }

    /// Ends a command with everything it started, and waits until it has ended.
    ///
    /// # Errors
    /// The daemon does not know it, or the connection broke.
    pub async fn end(&self, exec_id: &str) -> Result<Ending, DaemonError> {
        let request = v1::TerminateRequest {
            exec_id: exec_id.to_owned(),
            ..v1::TerminateRequest::default()
        };
        let answer = self
            .link()
            .ask("ExecService.Terminate", PATIENCE, |channel| {
                let request = request.clone();
                async move { client(channel).terminate(request).await }
            });
        Ok(match answer.await?.into_inner().outcome() {
            v1::TerminateOutcome::Killed => Ending::Killed,
            v1::TerminateOutcome::AlreadyExited => Ending::AlreadyEnded,
            v1::TerminateOutcome::Unproven | v1::TerminateOutcome::Unspecified => Ending::Unproven,
        })
    }
}

async fn start_background(link: &Link, request: ExecRequest) -> Result<Job, DaemonError> {
    use v1::disconnect_policy::Policy;
    let mut spec = wire_spec(request, Policy::Keep(true))?;
    spec.background = true;
    // Asked again and again while the connection is broken, but never of a daemon that was restarted.
    spec.expected_boot_id = link.boot()?;
    let answer = link.ask("ExecService.Start", PATIENCE, |channel| {
        let spec = Some(spec.clone());
        async move { client(channel).start(v1::StartRequest { spec }).await }
    });
    job(answer.await?.into_inner().exec)
}

async fn wait_for(link: &Link, exec_id: &str) -> Result<(Outcome, Option<Limits>), DaemonError> {
    loop {
        let request = v1::WaitRequest {
            exec_id: exec_id.to_owned(),
            wait: None,
        };
        let answer = link.ask("ExecService.Wait", PATIENCE, |channel| {
            let request = request.clone();
            async move { client(channel).wait(request).await }
        });
        let exec = answer.await?.into_inner().exec;
        let limits = exec.as_ref().and_then(|exec| exec.limits);
        let job = job(exec)?;
        match (job.outcome, job.state) {
            (Some(outcome), _) => return Ok((outcome, limits.map(convert::limits))),
            // Only what is not over yet may be asked for again.
            (None, QUEUED | RUNNING) => {}
            (None, _) => return Err(DaemonError::Malformed("the result of a command that ended")),
        }
    }
}

fn job(exec: Option<v1::Exec>) -> Result<Job, DaemonError> {
    let exec = exec.ok_or(DaemonError::Malformed("the execution"))?;
    let state = match exec.state() {
        v1::ExecState::Queued => QUEUED,
        v1::ExecState::Running => RUNNING,
        v1::ExecState::Ended => "ended",
        v1::ExecState::Unspecified => "unknown",
    };
    let outcome = exec.result.map(convert::outcome);
    Ok(Job {
        exec_id: exec.exec_id,
        session_id: Some(exec.session_id).filter(|id| !id.is_empty()),
        state,
        created_at: exec.created_at.map_or(0, |at| at.seconds),
        reason: outcome.as_ref().map(|outcome| outcome.reason),
        exit_code: outcome.as_ref().and_then(|outcome| outcome.exit_code),
        signal: outcome.as_ref().and_then(|outcome| outcome.signal),
        outcome,
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::{ExecRequest, start_background, wait_for};
    use crate::daemon::{DaemonError, ExecCommand, ExecInput, ExecPlace, fake};

    #[tokio::test]
    async fn an_end_without_a_result_is_not_waited_for_again_and_again() {
        let fake = fake::start().await;
        let error = wait_for(&fake.link, "a").await.unwrap_err();
        assert!(matches!(error, DaemonError::Malformed(_)), "{error}");
    }

    #[tokio::test]
    async fn a_background_command_is_started_by_the_daemon_that_was_meant_or_not_at_all() {
        let fake = fake::start().await;
        let request = |id: &str| ExecRequest {
            exec_id: id.into(),
            command: ExecCommand::Script(b"true".into()),
            place: ExecPlace::Session("s-1".into()),
            cwd: "".into(),
            env: Vec::new(),
            timeout: None,
            queue: None,
            input: ExecInput::Nothing,
            output_file_bytes: 0,
        };
        start_background(&fake.link, request("a")).await.unwrap();
        fake.told.replace();
        for id in ["a", "b"] {
            let error = start_background(&fake.link, request(id)).await.unwrap_err();
            assert!(error.is_session_gone(), "{id}: {error}");
        }
        assert_eq!(fake.told.begun.load(Ordering::Relaxed), 1);
    }
}
