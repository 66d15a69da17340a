//! A command that runs: carries inputs from the pipes, the launcher and the clients to the lifecycle, and
//! its effects back. Decides nothing itself.

mod begin;

use std::{collections::VecDeque, sync::atomic::Ordering, time::Instant};

use agentd_sandbox::monitor::{Event, Request};
use tokio::sync::mpsc;

use super::{
    Exec, ExitResult, OutputStream,
    conclude::{Ended, conclude, note_on},
    courtesy::{Courtesy, Outcome},
    driver::{Job, sleep_until},
    kept::Keeper,
    lifecycle::{Effect, Input, Lifecycle},
    pipes::{OutputPipe, Took},
    progress::Control,
    state::StatePipe,
};
use crate::launcher_link::Delivery;

/// Reads of one stream before everybody else on this thread gets a turn. Fewer would cost throughput,
/// more would keep others waiting.
const BATCH: usize = 4;

/// Most reads of each stream when the launcher is gone: more than the pipes hold, whoever keeps on
/// writing into them.
const LAST_READS: usize = 32;

/// A command that runs.
pub(super) struct Running {
    life: Lifecycle,
    main: OutputPipe,
    errors: OutputPipe,
    state: Option<StatePipe>,
    keeper: Option<Keeper>,
    events: mpsc::UnboundedReceiver<Delivery>,
    since: Instant,
    /// For the readers.
    courtesy: Courtesy,
    /// What clients asked for before it ran.
    early: VecDeque<Control>,
    ended: Option<Ended>,
    notes: Vec<String>,
}

/// How reading went.
struct Drained {
    /// All output was read.
    output_complete: bool,
    /// Some process still held an output stream open after the drain.
    pipes_held: bool,
}

enum Wake {
    Read(OutputStream, Took),
    Launcher(Option<Event>),
    Client(Option<Control>),
    /// A reader has read, or there was none for long.
    ReadOn,
    /// Something was carried on that the lifecycle does not care about.
    Aside,
    Timer,
}

impl Running {
    /// Runs to the end, and says how it went.
    pub(super) async fn run(mut self, job: &mut Job) -> ExitResult {
        let drained = loop {
            let effect = match self.wake(job).await {
                Wake::Read(stream, took) => {
                    let effect = self.took(job, stream, took);
                    // Readers get their turn, or a loud command would push events out of the record
                    // before anybody on this thread could send them.
                    tokio::task::yield_now().await;
                    effect
                }
                Wake::Launcher(Some(event)) => self.heard(job, event),
                Wake::Launcher(None) => {
                    let_go(&job.exec);
                    break Drained {
                        output_complete: self.sweep_all(job),
                        pipes_held: false,
                    };
                }
                Wake::Client(control) => self.asked(job, control.as_ref()),
                Wake::ReadOn => {
                    self.hold(job);
                    Effect::None
                }
                Wake::Aside => Effect::None,
                Wake::Timer => self.sweep(job),
            };
            match effect {
                Effect::None => {}
                Effect::Finish => {
                    let exec = job.exec.key();
                    job.tell(&Request::Finish { exec });
                }
                Effect::Stop(stop) => job.tell(&stop.request(job.exec.key())),
                Effect::Complete {
                    output_complete,
                    pipes_held,
                } => {
                    break Drained {
                        output_complete,
                        pipes_held,
                    };
                }
            }
        };
        self.end(job, drained).await
    }

    async fn end(mut self, job: &mut Job, drained: Drained) -> ExitResult {
        // Frees the pipes: from here on nothing of the command is listened to.
        drop((self.main, self.errors));
        let report = self.state.map(StatePipe::finish).unwrap_or_default();
        let mut output_file = None;
        if let Some(mut keeper) = self.keeper {
            let total = job.exec.with_log(|log| {
                keeper.follow(log);
                log.written().total()
            });
            if let Some((file, note)) = keeper.finish(total).await {
                output_file = Some(file);
                self.notes.extend(note);
            }
        }
        let ended = Ended {
            output_complete: drained.output_complete,
            ..self.ended.unwrap_or_else(|| Ended::lost(self.since))
        };
        let mut result = conclude(job, ended).await;
        // What was ended from outside moves its session nowhere, whether or not its shell could still
        // report within the grace.
        let by_itself = result.reason.is_own_end();
        let report: &[u8] = if by_itself { &report } else { &[] };
        let session = job.ending.tell_session(report);
        result.pipes_held = drained.pipes_held;
        result.output_file = output_file;
        result.cwd = session.cwd;
        result.notes.extend(self.notes);
        if by_itself {
            result.notes.extend(session.notes);
        }
        result
    }

    async fn wake(&mut self, job: &mut Job) -> Wake {
        if let Some(control) = self.early.pop_front() {
            return Wake::Client(Some(control));
        }
        let deadline = self.life.deadline();
        let full = self.keeper.as_ref().is_some_and(Keeper::is_full);
        let held = self.courtesy.until();
        let reads = held.is_none() && !full;
        let (main, errors) = (self.main.stream(), self.errors.stream());
        let on_terminal = main == OutputStream::Terminal;
        // Not biased: a command that prints without end must not starve the launcher and the clients.
        tokio::select! {
            took = self.main.read(), if reads && self.main.is_open() => Wake::Read(main, took),
            took = self.errors.read(), if reads && self.errors.is_open() => Wake::Read(errors, took),
            event = self.events.recv(), if self.ended.is_none() =>
                Wake::Launcher(event.map(|delivery| delivery.event)),
            control = job.inbox.recv() => Wake::Client(control),
            () = job.exec.read_on(), if held.is_some() => Wake::ReadOn,
            () = sleep_until(held), if held.is_some() => Wake::ReadOn,
            () = report(&mut self.state) => Wake::Aside,
            () = keep(&mut self.keeper) => Wake::Aside,
            () = tell_end(&job.exec), if on_terminal => Wake::Aside,
            () = sleep_until(deadline), if deadline.is_some() => Wake::Timer,
        }
    }

    /// Takes what a read brought, and a few more of the same stream when they are there already.
    fn took(&mut self, job: &Job, stream: OutputStream, first: Took) -> Effect {
        let mut effect = self.took_one(job, stream, first);
        for _ in 1..BATCH {
            if effect != Effect::None || self.keeper.as_ref().is_some_and(Keeper::is_full) {
                break;
            }
            let more = match stream {
                OutputStream::Stderr => self.errors.read_more(),
                OutputStream::Stdout | OutputStream::Terminal => self.main.read_more(),
            };
            if more == Took::Nothing {
                break;
            }
            effect = self.took_one(job, stream, more);
        }
        job.exec.announce_output();
        self.hold(job);
        effect
    }

    /// Waits for readers that are far behind, within reason.
    fn hold(&mut self, job: &Job) {
        let look = job.exec.look_at_readers();
        match self.courtesy.look(Instant::now(), look) {
            Outcome::Fine => {}
            Outcome::InVain => job.exec.give_up_on_readers(),
        }
    }

    fn took_one(&mut self, job: &Job, stream: OutputStream, took: Took) -> Effect {
        let now = Instant::now();
        match took {
            Took::Nothing => Effect::None,
            Took::End => self.life.step(now, Input::EndOfFile),
            Took::Data(data) => {
                let length = data.len();
                job.exec.with_log(|log| {
                    if let Some(keeper) = &mut self.keeper {
                        keeper.before_push(log, stream, length);
                    }
                    log.push(stream, data);
                });
                if let Some(keeper) = &self.keeper
                    && keeper.has_begun()
                {
                    job.exec.set_kept(keeper.kept());
                }
                let bytes = u64::try_from(length).unwrap_or(u64::MAX);
                job.stats.output_bytes.fetch_add(bytes, Ordering::Relaxed);
                self.life.step(now, Input::Output(bytes))
            }
        }
    }

    fn heard(&mut self, job: &Job, event: Event) -> Effect {
        let now = Instant::now();
        match event {
            Event::LeaderExited { .. } => {
                let_go(&job.exec);
                self.life.step(now, Input::LeaderExited)
            }
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
                let_go(&job.exec);
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
                    note: note_on(cause, status),
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

    fn asked(&mut self, job: &Job, control: Option<&Control>) -> Effect {
        let now = Instant::now();
        let exec = job.exec.key();
        match control {
            Some(Control::Stop(stop)) => self.life.step(now, Input::Stop(*stop)),
            Some(Control::Readers(count)) => self.life.step(now, Input::Readers(*count)),
            Some(Control::Signal(signal, scope)) => {
                let (signal, scope) = (*signal, *scope);
                job.tell(&Request::Signal {
                    exec,
                    signal,
                    scope,
                });
                Effect::None
            }
            Some(Control::Resize(size)) => {
                job.tell(&Request::Resize { exec, size: *size });
                Effect::None
            }
            // The sender lives in the execution, which the job holds.
            None => Effect::None,
        }
    }

    /// A deadline passed: look once more whether anything is readable before believing the clock.
    fn sweep(&mut self, job: &Job) -> Effect {
        let mut effect = Effect::None;
        let mut found = false;
        for stream in [self.main.stream(), self.errors.stream()] {
            let took = match stream {
                OutputStream::Stderr => self.errors.read_now(),
                OutputStream::Stdout | OutputStream::Terminal => self.main.read_now(),
            };
            found |= took != Took::Nothing;
            let next = self.took_one(job, stream, took);
            // What the first one brought about stands; what came on the other still counts.
            if effect == Effect::None {
                effect = next;
            }
        }
        if found {
            job.exec.announce_output();
            effect
        } else {
            self.life.step(Instant::now(), Input::Tick)
        }
    }

    /// The launcher is gone: take what is there. True when both streams had ended.
    fn sweep_all(&mut self, job: &Job) -> bool {
        for _ in 0..LAST_READS {
            // An effect that comes too late to matter.
            let _late = self.sweep(job);
        }
        !self.main.is_open() && !self.errors.is_open()
    }
}

async fn report(state: &mut Option<StatePipe>) {
    match state {
        Some(state) => state.read().await,
        None => std::future::pending().await,
    }
}

async fn keep(keeper: &mut Option<Keeper>) {
    match keeper {
        Some(keeper) => keeper.work().await,
        None => std::future::pending().await,
    }
}

async fn tell_end(exec: &Exec) {
    match exec.stdin() {
        Some(stdin) => stdin.tell_end().await,
        None => std::future::pending().await,
    }
}

/// From here on the end of a terminal's output must be seen.
fn let_go(exec: &Exec) {
    if let Some(stdin) = exec.stdin() {
        stdin.let_go();
    }
}
