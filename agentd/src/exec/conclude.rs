//! Makes the one result of an execution from what is known at its end, asking the policy about paths
//! that the command failed on.

use std::time::{Duration, Instant};

use agentd_sandbox::monitor::{self, Cause, LeaderStatus, Tripped, Usage};

use nix::sys::signal::Signal;

use super::{Denial, DenialSource, ExitReason, ExitResult, driver::Job, end};
use crate::{aside::aside, denials};

/// Bytes at either end of the output that are searched for failed paths.
const SEARCHED: usize = 64 * 1024;

/// Longest wait for suspects, and for the policy's answers about them: a result must not hang on a remark.
const EXPLAIN_PATIENCE: Duration = Duration::from_secs(1);

/// What the launcher said of the end.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) cause: Cause,
    pub(super) status: LeaderStatus,
    pub(super) leftover: u32,
    pub(super) usage: Usage,
    pub(super) tripped: Vec<Tripped>,
    /// Limits that the launcher saw it run into.
    pub(super) hits: Vec<monitor::LimitHit>,
    /// It is proven that nothing is left.
    pub(super) proven: bool,
    pub(super) duration: Duration,
    /// Everything up to the end was read.
    pub(super) output_complete: bool,
    /// Why nothing is known of the end.
    pub(super) note: Option<&'static str>,
}

impl Ended {
    /// The launcher is gone and said nothing.
    pub(super) fn lost(since: Instant) -> Self {
        Self {
            cause: Cause::InitDied,
            status: LeaderStatus::Unknown,
            leftover: 0,
            usage: Usage::default(),
            tripped: Vec::new(),
            hits: Vec::new(),
            proven: false,
            duration: since.elapsed(),
            output_complete: false,
            note: Some("the launcher died; what the command did until then stays done"),
        }
    }
}

/// The kernel tells a parent the signal and not who sent it.
const BAD_SYSTEM_CALL: &str = "SIGSYS may come from the jail, which ends programs that make system calls of another \
                               architecture (32-bit ones), or from the command itself: which one cannot be told";

/// The remark on an end that says too little by itself.
pub(super) fn note_on(cause: Cause, status: LeaderStatus) -> Option<&'static str> {
    match cause {
        Cause::Leader if is_bad_system_call(status) => Some(BAD_SYSTEM_CALL),
        Cause::InitDied => {
            Some("the process that kept the jail died, and everything in the jail with it")
        }
        Cause::Leader | Cause::Timeout | Cause::Stopped(_) | Cause::Limit(_) => None,
    }
}

fn is_bad_system_call(status: LeaderStatus) -> bool {
    match status {
        LeaderStatus::Signaled { signal, .. } => signal == Signal::SIGSYS as i32,
        LeaderStatus::Exited(_) | LeaderStatus::Unknown => false,
    }
}

pub(super) async fn conclude(job: &Job, ended: Ended) -> ExitResult {
    let reason = ExitReason::decide(ended.cause, ended.status, &ended.hits);
    let (exit_code, signal) = match ended.status {
        LeaderStatus::Exited(code) => (Some(code), None),
        LeaderStatus::Signaled { signal, .. } => (None, Some(signal)),
        LeaderStatus::Unknown => (None, None),
    };
    let written = job.exec.written();
    let mut denials: Vec<Denial> = ended.tripped.iter().map(tripwire).collect();
    if reason != ExitReason::Lost {
        denials.extend(inferred(job).await);
    }
    denials.truncate(denials::MAX_DENIALS);
    ExitResult {
        reason,
        exit_code,
        signal,
        started_at: job.exec.start_report().map(|report| report.at),
        duration: ended.duration,
        usage: ended.usage,
        stdout_bytes: written.stdout,
        stderr_bytes: written.stderr,
        dropped_bytes: job.exec.dropped(),
        output_complete: ended.output_complete,
        leftover: ended.leftover,
        cwd: String::new(),
        denials,
        setup: None,
        blocked: None,
        notes: ended.note.map(str::to_owned).into_iter().collect(),
        hits: end::hits(ended.cause, ended.hits),
        proven: ended.proven,
        pipes_held: false,
        output_file: None,
    }
}

pub(super) fn tripwire(tripped: &Tripped) -> Denial {
    let Tripped {
        path,
        rule,
        remains,
    } = tripped;
    let text = match remains {
        None => {
            format!("{path} may not be created ({rule}); what the command made there was removed")
        }
        Some(why) => format!(
            "{path} may not be created ({rule}), and what the command made there could NOT be \
             removed ({why}): remove it yourself"
        ),
    };
    Denial {
        access: "create",
        path: path.clone(),
        port: 0,
        layer: "tripwire".to_owned(),
        rule: rule.clone(),
        source: DenialSource::Kernel,
        text,
    }
}

async fn inferred(job: &Job) -> Vec<Denial> {
    let Ok(suspects) = tokio::time::timeout(EXPLAIN_PATIENCE, suspects(job)).await else {
        tracing::warn!(exec = %job.exec.id(), "looking for failed paths took too long");
        return Vec::new();
    };
    if suspects.is_empty() {
        return Vec::new();
    }
    let queries = suspects.iter().map(denials::Suspect::query).collect();
    let asked = job.link.explain(job.spec.invocation.clone(), queries);
    match tokio::time::timeout(EXPLAIN_PATIENCE, asked).await {
        Ok(Ok(verdicts)) => denials::judge(&suspects, &verdicts),
        Ok(Err(error)) => {
            tracing::warn!(exec = %job.exec.id(), %error, "the policy did not explain failed paths");
            Vec::new()
        }
        Err(_) => {
            tracing::warn!(exec = %job.exec.id(), "the policy took too long to explain failed paths");
            Vec::new()
        }
    }
}

/// What the command may have been refused, as its output and its script say.
async fn suspects(job: &Job) -> Vec<denials::Suspect> {
    let tail = u64::try_from(SEARCHED).unwrap_or(u64::MAX);
    let mut excerpt = job.exec.excerpt(tail);
    excerpt.head.truncate(SEARCHED);
    let script = job.spec.blacklist_text();
    let cwd = job.exec.start_report().map(|report| report.cwd.clone());
    let bytes = [excerpt.head.len(), excerpt.tail.len(), script.len()];
    let search = move || {
        let scene = denials::Scene {
            script: &script,
            cwd: cwd.as_deref().unwrap_or("/"),
        };
        // First, so that what fills the list cannot push it out.
        let mut suspects: Vec<_> = denials::mentioned(&scene).into_iter().collect();
        suspects.extend(denials::suspects(&[&excerpt.head, &excerpt.tail], &scene));
        suspects.truncate(denials::MAX_SUSPECTS);
        suspects
    };
    aside(bytes.iter().sum(), search).await.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_system_call_is_told_with_what_cannot_be_known() {
        let by = |signal: Signal| LeaderStatus::Signaled {
            signal: signal as i32,
            core: false,
        };
        let note = note_on(Cause::Leader, by(Signal::SIGSYS)).unwrap();
        assert!(note.contains("32-bit") && note.contains("cannot be told"));
        for (cause, status) in [
            (Cause::Leader, by(Signal::SIGSEGV)),
            (Cause::Leader, LeaderStatus::Exited(159)),
            (Cause::Timeout, by(Signal::SIGSYS)),
        ] {
            assert_eq!(note_on(cause, status), None, "{cause:?} {status:?}");
        }
    }

    #[test]
    fn what_could_not_be_removed_is_told_with_the_reason() {
        let tripped = |remains: Option<&str>| Tripped {
            path: "/w/.git/hooks/x".to_owned(),
            rule: "base.toml:7".to_owned(),
            remains: remains.map(str::to_owned),
        };
        assert_eq!(
            tripwire(&tripped(None)).text,
            "/w/.git/hooks/x may not be created (base.toml:7); what the command made there was removed"
        );
        assert_eq!(
            tripwire(&tripped(Some("it is busy"))).text,
            "/w/.git/hooks/x may not be created (base.toml:7), and what the command made there \
             could NOT be removed (it is busy): remove it yourself"
        );
    }
}
