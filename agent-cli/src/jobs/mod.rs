//! `ps`, `logs`, `kill`, `wait`: commands that a daemon runs for nobody in particular. Useful with a daemon
//! that stays; a private one has none.

use std::{
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use thiserror::Error;

use crate::{
    agent::ExitCode,
    args::{GlobalArgs, KillArgs, LogsArgs, PsArgs, WaitArgs},
    complaint,
    config::Environment,
    daemon::{Daemon, DaemonError, Ending, ExitReason, Job},
    exec, stdout,
    terminal::neutral,
};

/// How long the daemon waits for output before it answers that there is none yet.
const FOLLOW: Duration = Duration::from_secs(20);
/// Exit code of `kill` when there was nothing to be told.
const ENDED_BEFORE: u8 = 1;

/// Why a question about commands has no answer.
#[derive(Debug, Error)]
pub enum JobsError {
    /// The daemon failed or refused.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// It cannot be written.
    #[error("standard output cannot be written; check where it is redirected to")]
    Write(#[source] io::Error),
}

impl JobsError {
    /// `failure`, 2 for a wrong address, or 141 when the reader of the output went away.
    #[must_use]
    pub fn exit_code(&self, failure: u8) -> u8 {
        match self {
            Self::Daemon(error) if error.is_usage() && failure != exec::FAILURE => {
                ExitCode::Usage.code()
            }
            Self::Daemon(_) => failure,
            Self::Write(error) => stdout::exit_code(error, failure),
        }
    }
}

/// Lists the commands that the daemon knows. Returns 0.
///
/// # Errors
/// See [`JobsError`].
pub async fn list(
    args: PsArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, JobsError> {
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let jobs = daemon.jobs().await;
    daemon.close().await;
    let jobs = jobs?;
    let text = if args.json {
        json_lines(&jobs).map_err(|error| JobsError::Write(error.into()))?
    } else {
        table(&jobs, now())
    };
    stdout::write(text.as_bytes()).map_err(JobsError::Write)?;
    Ok(0)
}

fn json_lines(jobs: &[Job]) -> Result<String, serde_json::Error> {
    let mut text = String::new();
    for job in jobs {
        text.push_str(&serde_json::to_string(job)?);
        text.push('\n');
    }
    Ok(text)
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(i64::MAX))
}

/// The commands as lines: id, session, age, state.
fn table(jobs: &[Job], now: i64) -> String {
    let mut lines = vec![format!(
        "{:<26} {:<20} {:>6}  STATE",
        "EXEC_ID", "SESSION", "AGE"
    )];
    lines.extend(jobs.iter().map(|job| {
        format!(
            "{:<26} {:<20} {:>6}  {}",
            job.exec_id,
            job.session_id.as_deref().unwrap_or("-"),
            age(now.saturating_sub(job.created_at)),
            state(job),
        )
    }));
    neutral(&(lines.join("\n") + "\n"))
}

fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..=119 => format!("{seconds}s"),
        seconds @ 120..=7199 => format!("{}m", seconds.div_euclid(60)),
        seconds => format!("{}h", seconds.div_euclid(3600)),
    }
}

fn state(job: &Job) -> String {
    match (job.reason, job.exit_code, job.signal) {
        (None, _, _) => job.state.to_owned(),
        (Some(ExitReason::Exited), Some(code), _) => format!("exited {code}"),
        (Some(reason), _, _) => reason.as_str().to_owned(),
    }
}

/// Prints what a command has printed. Returns 0.
///
/// # Errors
/// See [`JobsError`].
pub async fn logs(
    args: &LogsArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, JobsError> {
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let printed = print(&daemon, args).await;
    daemon.close().await;
    printed.map(|()| 0)
}

async fn print(daemon: &Daemon, args: &LogsArgs) -> Result<(), JobsError> {
    let wait = if args.follow { FOLLOW } else { Duration::ZERO };
    let mut offset = args.from;
    loop {
        let piece = daemon.printed(&args.exec_id.0, offset, wait).await?;
        let missing = piece.offset.saturating_sub(offset);
        if missing > 0 {
            complaint::line(&format!("{missing} bytes of output are no longer held"));
        }
        stdout::write(&piece.data).map_err(JobsError::Write)?;
        let length = u64::try_from(piece.data.len()).unwrap_or(u64::MAX);
        offset = offset.max(piece.offset).saturating_add(length);
        // An empty piece behind the end means that there is nothing more.
        let all = offset >= piece.written || piece.data.is_empty();
        if all && (piece.ended || !args.follow) {
            return Ok(());
        }
    }
}

/// Ends or signals a command. Returns 0, or 1 when it had ended before.
///
/// # Errors
/// See [`JobsError`].
pub async fn kill(
    args: &KillArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, JobsError> {
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let id = &args.exec_id.0;
    let told = match args.signal {
        Some(signal) => daemon.signal(id, signal.0).await,
        None => daemon.end(id).await.map(|ending| {
            if ending == Ending::Unproven {
                complaint::line(UNPROVEN);
            }
            ending != Ending::AlreadyEnded
        }),
    };
    daemon.close().await;
    if told? {
        return Ok(0);
    }
    complaint::line(&format!("{id} had ended before"));
    Ok(ENDED_BEFORE)
}

const UNPROVEN: &str =
    "every process that could be found was killed; this host offers no proof that none was missed";

/// Waits for the end of a command. Returns the exit code that `exec` would have had.
///
/// # Errors
/// See [`JobsError`].
pub async fn wait(
    args: &WaitArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<u8, JobsError> {
    let daemon = Daemon::connect(global.connect.as_deref(), environment).await?;
    let outcome = daemon.wait_for(&args.exec_id.0).await;
    daemon.close().await;
    let (outcome, limits) = outcome?;
    let lost = exec::LostBytes::default();
    for note in exec::notes(&args.exec_id.0, &outcome, (lost, limits.as_ref())) {
        complaint::line(&note);
    }
    Ok(exec::exit_code(&outcome))
}

#[cfg(test)]
mod tests {
    use super::{json_lines, table};
    use crate::daemon::{ExitReason, Job};

    fn job(exec_id: &str, created_at: i64) -> Job {
        Job {
            exec_id: exec_id.into(),
            session_id: Some("s1".into()),
            state: "running",
            created_at,
            reason: None,
            exit_code: None,
            signal: None,
            outcome: None,
        }
    }

    fn jobs() -> Vec<Job> {
        let ended = |reason, exit_code, signal| Job {
            state: "ended",
            session_id: None,
            reason: Some(reason),
            exit_code,
            signal,
            ..job("exec-2", 10_000)
        };
        vec![
            job("exec-1", 1_000),
            ended(ExitReason::Exited, Some(3), None),
            ended(ExitReason::OomKilled, None, Some(9)),
        ]
    }

    #[test]
    fn a_person_sees_which_command_is_in_which_state_since_when() {
        expect_test::expect![[r"
            EXEC_ID                    SESSION                 AGE  STATE
            exec-1                     s1                       2h  running
            exec-2                     -                       30s  exited 3
            exec-2                     -                       30s  oom-killed
        "]]
        .assert_eq(&table(&jobs(), 10_030));
    }

    #[test]
    fn a_program_reads_one_object_a_line() {
        expect_test::expect![[r#"
            {"exec_id":"exec-1","session_id":"s1","state":"running","created_at":1000,"reason":null,"exit_code":null,"signal":null}
            {"exec_id":"exec-2","session_id":null,"state":"ended","created_at":10000,"reason":"exited","exit_code":3,"signal":null}
            {"exec_id":"exec-2","session_id":null,"state":"ended","created_at":10000,"reason":"oom-killed","exit_code":null,"signal":9}
        "#]]
        .assert_eq(&json_lines(&jobs()).unwrap());
    }
}
