//! Drives one execution: carries inputs from the pipes, the launcher and the clients to the lifecycle,
//! and its effects back. Decides nothing itself.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant, SystemTime},
};

use agentd_sandbox::{
    monitor::{Event, Request, SetupFailure},
    policy::Limits,
};
use tokio::sync::mpsc;
use tonic::codegen::Bytes;

use super::{
    Exec, ExecSpec, ExitReason, ExitResult, NotStarted, OutputStream, StartReport, Stats,
    conclude::{Ended, conclude, note_on},
    handle::Control,
    lifecycle::{Effect, Input, Lifecycle, Settings, Stop},
    pipes::{self, OutputPipes},
};
use crate::{
    commands::{self, Blocked},
    launcher_link::{Delivery, Link, LinkError},
};

/// Most bytes of one output event.
const CHUNK: usize = 64 * 1024;

/// What a driver needs.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) exec: Arc<Exec>,
    pub(super) spec: ExecSpec,
    pub(super) inbox: mpsc::UnboundedReceiver<Control>,
    pub(super) link: Link,
    pub(super) stats: Arc<Stats>,
}

/// Drives an execution to its end, which it records exactly once.
pub(super) async fn drive(mut job: Job) {
    let _guard = EndGuard(Arc::clone(&job.exec));
    if let Some(blocked) = blacklisted(&job).await {
        Stats::add(&job.stats.blocked, 1);
        job.exec.record_end(ExitResult {
            blocked: Some(blocked),
            ..ExitResult::without_run(ExitReason::Blocked)
        });
        return;
    }
    match start(&mut job).await {
        Ok(running) => finish(&job.exec.clone(), running.run(job).await),
        Err(Stillborn::NotStarted(why)) => job.exec.record_not_started(why),
        Err(Stillborn::Setup(failure)) => job.exec.record_end(ExitResult {
            setup: Some(failure),
            ..ExitResult::without_run(ExitReason::SetupFailed)
        }),
    }
}

/// Records an end when the driver goes without one (a panic, or the runtime shutting down): no waiter
/// waits for ever.
struct EndGuard(Arc<Exec>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        if self.0.finished_at().is_none() {
            self.0.record_end(ExitResult::without_run(ExitReason::Lost));
        }
    }
}

fn finish(exec: &Exec, (result, stats): (ExitResult, Arc<Stats>)) {
    Stats::add(&stats.dropped_bytes, result.dropped_bytes);
    Stats::add(&stats.leftover, u64::from(result.leftover));
    exec.record_end(result);
}

/// The blacklist's answer. The parser reads hostile text, so it works on a thread of its own and its
/// failure is no answer: it is advisory, the kernel is the boundary.
async fn blacklisted(job: &Job) -> Option<Blocked> {
    let profile = &job.spec.invocation.profile;
    let profiles = job.link.profiles();
    // An unknown profile is the launcher's to refuse.
    let rules = profiles
        .iter()
        .find(|p| p.name == *profile)?
        .commands
        .clone();
    let script = job.spec.blacklist_text();
    let checked =
        tokio::task::spawn_blocking(move || commands::check(&rules, &script).blocked).await;
    checked.unwrap_or_else(|error| {
        tracing::warn!(%error, "the command blacklist failed on a command");
        None
    })
}

/// Why there is nothing to drive.
enum Stillborn {
    NotStarted(NotStarted),
    Setup(SetupFailure),
}

impl From<LinkError> for Stillborn {
    fn from(error: LinkError) -> Self {
        Self::NotStarted(match error {
            LinkError::TooLarge(bytes) => NotStarted::TooLarge(bytes),
            LinkError::Gone | LinkError::Watch(_) | LinkError::Channel(_) => {
                NotStarted::LauncherGone
            }
        })
    }
}

async fn start(job: &mut Job) -> Result<Running, Stillborn> {
    let (pipes, fds) = pipes::make(job.spec.script.as_deref())
        .map_err(|error| Stillborn::NotStarted(NotStarted::Resources(error.to_string())))?;
    let key = job.exec.key();
    let invocation = job.spec.invocation.clone();
    let mut events = job.link.spawn(key, invocation, fds.into_fds())?;
    match events.recv().await.map(|delivery| delivery.event) {
        Some(Event::Started {
            report,
            limits,
            cwd,
            notes,
            ..
        }) => {
            Stats::add(&job.stats.started, 1);
            job.exec.record_start(StartReport {
                jail: *report,
                limits,
                cwd,
                at: SystemTime::now(),
                notes,
            });
            Ok(Running::new(job, pipes, events, limits))
        }
        Some(Event::Refused { refusal, .. }) => Err(Stillborn::NotStarted(refusal.into())),
        Some(Event::SetupFailed { failure, .. }) => Err(Stillborn::Setup(failure)),
        Some(
            Event::Ready { .. }
            | Event::Profile(_)
            | Event::Reloaded { .. }
            | Event::LeaderExited { .. }
            | Event::Ended { .. }
            | Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::Explained { .. },
        )
        | None => Err(Stillborn::NotStarted(NotStarted::LauncherGone)),
    }
}

/// A command that runs.
struct Running {
    life: Lifecycle,
    pipes: OutputPipes,
    events: mpsc::UnboundedReceiver<Delivery>,
    buffers: [Vec<u8>; 2],
    since: Instant,
    ended: Option<Ended>,
}

enum Wake {
    Read(OutputStream, Option<usize>),
    Launcher(Option<Event>),
    Client(Option<Control>),
    Timer,
}

impl Running {
    fn new(
        job: &Job,
        pipes: OutputPipes,
        events: mpsc::UnboundedReceiver<Delivery>,
        limits: Limits,
    ) -> Self {
        let settings = Settings {
            idle_timeout: limits.idle_timeout_ms.map(Duration::from_millis),
            output_limit: limits.output_bytes,
            disconnect: job.spec.disconnect,
        };
        let now = Instant::now();
        Self {
            life: Lifecycle::new(settings, job.exec.readers(), now),
            pipes,
            events,
            buffers: [vec![0; CHUNK], vec![0; CHUNK]],
            since: now,
            ended: None,
        }
    }

    async fn run(mut self, mut job: Job) -> (ExitResult, Arc<Stats>) {
        let output_complete = loop {
            let effect = match self.wake(&mut job).await {
                Wake::Read(stream, length) => {
                    let effect = self.took(&job, stream, length);
                    // Readers get their turn after every chunk, or a loud command would push events
                    // out of the ring before anybody on this thread could send them.
                    tokio::task::yield_now().await;
                    effect
                }
                Wake::Launcher(Some(event)) => self.heard(event),
                Wake::Launcher(None) => break self.sweep_all(&job),
                Wake::Client(control) => self.asked(control.as_ref()),
                Wake::Timer => self.sweep(&job),
            };
            match effect {
                Effect::None => {}
                Effect::Finish => tell(
                    &job,
                    &Request::Finish {
                        exec: job.exec.key(),
                    },
                ),
                Effect::Stop(Stop { reason, grace_ms }) => tell(
                    &job,
                    &Request::Stop {
                        exec: job.exec.key(),
                        reason,
                        grace_ms,
                    },
                ),
                Effect::Complete { output_complete } => break output_complete,
            }
        };
        // Frees the pipes: from here on nothing of the command is listened to.
        drop(self.pipes);
        let ended = Ended {
            output_complete,
            ..self.ended.unwrap_or_else(|| Ended::lost(self.since))
        };
        let result = conclude(&job, ended).await;
        (result, job.stats)
    }

    async fn wake(&mut self, job: &mut Job) -> Wake {
        let [out, err] = &mut self.buffers;
        let deadline = self.life.deadline();
        // Not biased: a command that prints without end must not starve the launcher and the clients.
        tokio::select! {
            length = self.pipes.stdout.read(out), if self.pipes.stdout.is_open() =>
                Wake::Read(OutputStream::Stdout, length),
            length = self.pipes.stderr.read(err), if self.pipes.stderr.is_open() =>
                Wake::Read(OutputStream::Stderr, length),
            event = self.events.recv(), if self.ended.is_none() => Wake::Launcher(event.map(|delivery| delivery.event)),
            control = job.inbox.recv() => Wake::Client(control),
            () = sleep_until(deadline) => Wake::Timer,
        }
    }

    fn took(&mut self, job: &Job, stream: OutputStream, length: Option<usize>) -> Effect {
        let now = Instant::now();
        let Some(length) = length else {
            return self.life.step(now, Input::EndOfFile);
        };
        let [out, err] = &self.buffers;
        let buffer = match stream {
            OutputStream::Stdout => out,
            OutputStream::Stderr | OutputStream::Terminal => err,
        };
        let data = Bytes::copy_from_slice(buffer.get(..length).unwrap_or_default());
        let bytes = u64::try_from(length).unwrap_or(u64::MAX);
        job.stats.output_bytes.fetch_add(bytes, Ordering::Relaxed);
        job.exec.record_output(stream, data);
        self.life.step(now, Input::Output(bytes))
    }

    fn heard(&mut self, event: Event) -> Effect {
        let now = Instant::now();
        match event {
            Event::LeaderExited { .. } => self.life.step(now, Input::LeaderExited),
            Event::Ended {
                cause,
                status,
                leftover,
                usage,
                tripped,
                hits,
                proven,
                ..
            } => {
                self.ended = Some(Ended {
                    cause,
                    status,
                    leftover,
                    usage,
                    tripped,
                    hits,
                    proven,
                    duration: now.saturating_duration_since(self.since),
                    output_complete: false,
                    note: note_on(cause),
                });
                self.life.step(now, Input::Ended)
            }
            Event::Ready { .. }
            | Event::Profile(_)
            | Event::Reloaded { .. }
            | Event::Refused { .. }
            | Event::SetupFailed { .. }
            | Event::Started { .. }
            | Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::Explained { .. } => Effect::None,
        }
    }

    fn asked(&mut self, control: Option<&Control>) -> Effect {
        let now = Instant::now();
        match control {
            Some(Control::Stop(stop)) => self.life.step(now, Input::Stop(*stop)),
            Some(Control::Readers(count)) => self.life.step(now, Input::Readers(*count)),
            // The sender lives in the execution, which the job holds.
            None => Effect::None,
        }
    }

    /// A deadline passed: look once more whether anything is readable before believing the clock.
    fn sweep(&mut self, job: &Job) -> Effect {
        let [out, err] = &mut self.buffers;
        let was_open = (self.pipes.stdout.is_open(), self.pipes.stderr.is_open());
        let found = (
            self.pipes.stdout.read_now(out),
            self.pipes.stderr.read_now(err),
        );
        let still_open = (self.pipes.stdout.is_open(), self.pipes.stderr.is_open());
        let mut effect = Effect::None;
        for (stream, length, closed) in [
            (OutputStream::Stdout, found.0, was_open.0 && !still_open.0),
            (OutputStream::Stderr, found.1, was_open.1 && !still_open.1),
        ] {
            if (length.is_some() || closed) && effect == Effect::None {
                effect = self.took(job, stream, length);
            } else if length.is_some() || closed {
                // The first one already brought the end about; what came on the other still counts.
                drop_effect(self.took(job, stream, length));
            }
        }
        match (effect, found) {
            (Effect::None, (None, None)) => self.life.step(Instant::now(), Input::Tick),
            _ => effect,
        }
    }

    /// The launcher is gone: take what is there. True when both streams had ended.
    fn sweep_all(&mut self, job: &Job) -> bool {
        // At most as much as the pipes can hold, whoever keeps on writing into them.
        for _ in 0..32 {
            drop_effect(self.sweep(job));
        }
        !self.pipes.stdout.is_open() && !self.pipes.stderr.is_open()
    }
}

/// An effect that came too late to matter.
fn drop_effect(_: Effect) {}

fn tell(job: &Job, request: &Request) {
    if let Err(error) = job.link.tell(request) {
        // The launcher is gone; the end of the events says the same and ends the execution.
        tracing::debug!(exec = %job.exec.id(), %error, "cannot tell the launcher");
    }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
