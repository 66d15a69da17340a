//! The beginning of a command that runs: what came with the start is taken over.

use std::{fs::File, os::fd::OwnedFd, sync::Arc, time::Instant};

use agentd_sandbox::terminal::Peer;

use super::{
    super::{
        DEFAULT_OUTPUT_FILE, OutputRoom, Stdin,
        courtesy::Courtesy,
        driver::{Beginning, Job, millis},
        kept::Keeper,
        lifecycle::{Lifecycle, Settings},
        pipes::{Ends, OutputPipe},
        terminal::Terminal,
    },
    Running,
};

impl Running {
    /// Takes over what came with the start.
    pub(in crate::exec) fn new(job: &Job, ends: Ends, beginning: Beginning) -> Self {
        let mut fds = beginning.fds.into_iter();
        let mut notes = Vec::new();
        let (mut main, mut stdin) = (ends.main, ends.stdin.map(Stdin::pipe));
        let master = job.spec.has_terminal().then(|| terminal(fds.next()));
        let file = (!beginning.output_file.is_empty()).then(|| fds.next());
        match master {
            Some(Ok(terminal)) => {
                main = OutputPipe::of_terminal(Arc::clone(&terminal));
                stdin = Some(Stdin::terminal(terminal, fds.next().map(Peer::of)));
            }
            Some(Err(why)) => notes.push(format!("its terminal cannot be used: {why}")),
            None => {}
        }
        if let Some(stdin) = stdin {
            job.exec.set_stdin(stdin);
        }
        let cap = match job.spec.output_file_bytes {
            0 => DEFAULT_OUTPUT_FILE,
            bytes => bytes,
        };
        let keeper = file
            .flatten()
            .map(|fd| Keeper::new(File::from(fd), beginning.output_file, cap));
        let open = |pipe: &OutputPipe| u8::from(pipe.is_open());
        let settings = Settings {
            idle_timeout: millis(beginning.limits.idle_timeout_ms),
            output_limit: beginning.limits.output_bytes,
            disconnect: job.spec.disconnect,
            streams: open(&main).saturating_add(open(&ends.errors)),
        };
        let now = Instant::now();
        Self {
            life: Lifecycle::new(settings, job.exec.readers_so_far(), now),
            main,
            errors: ends.errors,
            state: ends.state,
            keeper: keeper.map(|keeper| keeper.on(job.exec.disk()).within(room(job))),
            events: beginning.events,
            since: now,
            courtesy: Courtesy::new(now),
            early: beginning.early,
            ended: None,
            notes,
        }
    }
}

/// What its output file takes its bytes from.
fn room(job: &Job) -> OutputRoom {
    let hook = job.spec.hook.as_ref();
    hook.map(|hook| hook.0.output_room()).unwrap_or_default()
}

fn terminal(master: Option<OwnedFd>) -> Result<Arc<Terminal>, String> {
    let master = master.ok_or("the launcher sent none")?;
    let terminal = Terminal::watch(master).map_err(|error| error.to_string())?;
    Ok(Arc::new(terminal))
}
