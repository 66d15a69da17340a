//! Drives one execution from its admission to its end: its turn, the blacklist, the launcher's answer.
//! What happens while it runs is in `running`.

mod stillborn;

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use agentd_sandbox::{
    monitor::{Event, Request, StopReason},
    policy::Limits,
};
use stillborn::{Stillborn, Stopped};
use tokio::sync::mpsc;

use super::{
    Disconnect, Exec, ExecSpec, ExitReason, ExitResult, Hook, NotStarted, SessionEnd, StartReport,
    Stats,
    admission::{Entry, Slot, Waiting},
    pipes,
    progress::Control,
    running::Running,
};
use crate::{
    commands::{self, Blocked},
    launcher_link::{Delivery, Link},
};

/// Longest wait for the blacklist's answer. It is advisory: a command is not kept from running by it.
const CHECK_PATIENCE: Duration = Duration::from_secs(3);

/// What a driver needs.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) exec: Arc<Exec>,
    pub(super) spec: ExecSpec,
    pub(super) inbox: mpsc::UnboundedReceiver<Control>,
    pub(super) link: Link,
    pub(super) stats: Arc<Stats>,
    /// Hears of the end.
    pub(super) ending: Ending,
}

impl Job {
    /// Asks the launcher for something.
    pub(super) fn tell(&self, request: &Request) {
        if let Err(error) = self.link.tell(request) {
            // The launcher is gone; the end of the events says the same and ends the execution.
            tracing::debug!(exec = %self.exec.id(), %error, "cannot tell the launcher");
        }
    }
}

/// Drives an execution to its end, which it records exactly once.
pub(super) async fn drive(mut job: Job, entry: Entry) {
    let slot = match turn(&mut job, entry).await {
        Ok(slot) => slot,
        Err(stillborn) => return stillborn.record(&job),
    };
    let check = blacklisted(&job);
    let blocked = match attend(&mut job, check).await {
        Ok(blocked) => blocked,
        Err(stillborn) => {
            drop(slot);
            return stillborn.record(&job);
        }
    };
    if let Some(blocked) = blocked {
        Stats::add(&job.stats.blocked, 1);
        drop(slot);
        job.exec.record_end(ExitResult {
            blocked: Some(blocked),
            ..ExitResult::without_run(ExitReason::Blocked)
        });
        return;
    }
    match start(&mut job).await {
        Ok(running) => {
            let result = running.run(&mut job).await;
            Stats::add(&job.stats.dropped_bytes, result.dropped_bytes);
            Stats::add(&job.stats.leftover, u64::from(result.leftover));
            // ORDER: who sees the end finds the slot free.
            drop(slot);
            job.exec.record_end(result);
        }
        Err(stillborn) => {
            drop(slot);
            stillborn.record(&job);
        }
    }
}

/// Sees to it that an execution ends: its session hears of the end of a command that started, exactly
/// once, and no waiter waits for ever, even when the driver goes without a word (a panic, or the runtime
/// shutting down).
#[derive(Debug)]
pub(super) struct Ending {
    exec: Arc<Exec>,
    hook: Option<Hook>,
}

impl Ending {
    pub(super) fn new(exec: &Arc<Exec>, hook: Option<Hook>) -> Self {
        Self {
            exec: Arc::clone(exec),
            hook,
        }
    }

    /// Tells the session, which answers with where its next command starts.
    pub(super) fn tell_session(&mut self, report: &[u8]) -> SessionEnd {
        self.hook
            .take()
            .map(|hook| hook.0.ended(self.exec.id(), report))
            .unwrap_or_default()
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.exec.finished_at().is_none() {
            if self.exec.start_report().is_some() {
                self.tell_session(&[]);
            }
            self.exec.record_end(ExitResult {
                proven: false,
                ..ExitResult::without_run(ExitReason::Lost)
            });
        }
    }
}

/// Waits for a slot.
async fn turn(job: &mut Job, entry: Entry) -> Result<Slot, Stillborn> {
    let mut waiting = match entry {
        Entry::Now(slot) => return Ok(slot),
        Entry::Later(waiting) => waiting,
    };
    let patience = job.spec.queue_timeout;
    let turn = tokio::time::timeout(patience, waiting.turn());
    match attend(job, turn).await? {
        Ok(Some(slot)) => Ok(slot),
        Ok(None) => Err(Stillborn::NotStarted(sent_away(&waiting))),
        Err(_) => Err(Stillborn::NotStarted(NotStarted::Full(
            waiting.max_running(),
        ))),
    }
}

/// Waits for something that comes before the command, as long as nobody ends it and somebody waits for it.
async fn attend<T>(job: &mut Job, wait: impl Future<Output = T>) -> Result<T, Stillborn> {
    let mut wait = std::pin::pin!(wait);
    // Who went away during an earlier wait is gone now as well.
    let mut alone = match (job.exec.readers_so_far(), job.spec.disconnect) {
        (Some(0), Disconnect::Grace(grace)) => Instant::now().checked_add(grace),
        (Some(_) | None, _) => None,
    };
    loop {
        let control = tokio::select! {
            came = &mut wait => return Ok(came),
            control = job.inbox.recv() => control,
            () = sleep_until(alone) => {
                return Err(Stopped::unasked(StopReason::Disconnected).into());
            }
        };
        match (control, job.spec.disconnect) {
            (Some(Control::Stop(stop)), _) => {
                return Err(Stopped::unasked(stop.reason).into());
            }
            (Some(Control::Readers(0)), Disconnect::Grace(grace)) => {
                alone = Instant::now().checked_add(grace);
            }
            (Some(Control::Readers(_)), _) => alone = None,
            // There is nothing yet that they could reach. The sender lives in the execution.
            (Some(Control::Signal(..) | Control::Resize(_)) | None, _) => {}
        }
    }
}

fn sent_away(waiting: &Waiting) -> NotStarted {
    if waiting.is_closed() {
        NotStarted::Draining
    } else {
        NotStarted::Full(waiting.max_running())
    }
}

/// The blacklist's answer. The parser reads hostile text, so it works on a thread of its own and its
/// failure is no answer, nor is one that comes too late: it is advisory, the kernel is the boundary.
fn blacklisted(job: &Job) -> impl Future<Output = Option<Blocked>> + use<> {
    let profile = &job.spec.invocation.profile;
    let profiles = job.link.profiles();
    // An unknown profile is the launcher's to refuse.
    let rules = profiles.iter().find(|p| p.name == *profile);
    let rules = rules.map(|profile| profile.commands.clone());
    let script = job.spec.blacklist_text();
    async move {
        let rules = rules?;
        let check = tokio::task::spawn_blocking(move || commands::check(&rules, &script).blocked);
        match tokio::time::timeout(CHECK_PATIENCE, check).await {
            Ok(Ok(blocked)) => blocked,
            Ok(Err(error)) => {
                tracing::warn!(%error, "the command blacklist failed on a command");
                None
            }
            Err(_) => {
                tracing::warn!("the command blacklist took too long for a command");
                None
            }
        }
    }
}

async fn start(job: &mut Job) -> Result<Running, Stillborn> {
    let (ends, fds) = pipes::make(&job.spec)
        .map_err(|error| Stillborn::NotStarted(NotStarted::Resources(error.to_string())))?;
    let key = job.exec.key();
    let invocation = job.spec.invocation.clone();
    let mut events = job.link.spawn(key, invocation, fds.into_fds())?;
    // From here on the launcher may have it.
    let mut early = VecDeque::new();
    let Some(Delivery { event, fds }) = answer(job, &mut events, &mut early).await else {
        return Err(Stillborn::Lost);
    };
    let Event::Started {
        report,
        limits,
        cwd,
        notes,
        output_file,
        ..
    } = event
    else {
        return Err(Stillborn::told_by(event));
    };
    Stats::add(&job.stats.started, 1);
    let running = Running::new(
        job,
        ends,
        Beginning {
            events,
            fds,
            limits,
            output_file,
            early,
        },
    );
    // ORDER: last, so that whoever sees it running finds its input.
    job.exec.record_start(StartReport {
        jail: *report,
        limits,
        cwd,
        at: SystemTime::now(),
        notes,
    });
    Ok(running)
}

/// The launcher's first word about a command. To build a jail can take long, so whoever ends the command
/// meanwhile is heard; what else clients ask for is kept until it runs.
async fn answer(
    job: &mut Job,
    events: &mut mpsc::UnboundedReceiver<Delivery>,
    early: &mut VecDeque<Control>,
) -> Option<Delivery> {
    loop {
        let control = tokio::select! {
            delivery = events.recv() => return delivery,
            Some(control) = job.inbox.recv() => control,
        };
        if let Control::Stop(stop) = &control {
            job.tell(&stop.request(job.exec.key()));
        }
        // A stop as well: the word that the command runs may have crossed it, and then it counts as any other.
        early.push_back(control);
    }
}

/// What came with the launcher's word that a command runs.
#[derive(Debug)]
pub(super) struct Beginning {
    pub(super) events: mpsc::UnboundedReceiver<Delivery>,
    pub(super) fds: Vec<std::os::fd::OwnedFd>,
    pub(super) limits: Limits,
    pub(super) output_file: String,
    /// What clients asked for before.
    pub(super) early: VecDeque<Control>,
}

/// Sleeps until then; for ever without a time.
pub(super) async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// A duration in milliseconds, as a limit says it.
pub(super) fn millis(value: Option<u64>) -> Option<Duration> {
    value.map(Duration::from_millis)
}

#[cfg(test)]
mod tests;
