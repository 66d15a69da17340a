//! The beginning of a command that runs: what came with the start is taken over.

use std::{fs::File, os::fd::OwnedFd, sync::Arc, time::Instant};

use super::{
    super::{
        DEFAULT_OUTPUT_FILE, Stdin,
        courtesy::Courtesy,
        driver::{Beginning, Job, millis},
        kept::Keeper,
        lifecycle::{Lifecycle, Settings},
        pipes::{Ends, OutputPipe},
        stdin::StdinEnd,
        terminal::Terminal,
    },
    Running,
};

impl Running {
    /// Takes over what came with the start.
    pub(in crate::exec) fn new(job: &Job, ends: Ends, beginning: Beginning) -> Self {
        let mut fds = beginning.fds.into_iter();
        let mut notes = Vec::new();
        let (mut main, mut stdin) = (ends.main, ends.stdin.map(StdinEnd::Pipe));
        if job.spec.has_terminal() {
            match terminal(fds.next()) {
                Ok(terminal) => {
                    main = OutputPipe::of_terminal(Arc::clone(&terminal));
                    stdin = Some(StdinEnd::Terminal(terminal));
                }
                Err(why) => notes.push(format!("its terminal cannot be used: {why}")),
            }
        }
        if let Some(stdin) = stdin {
            job.exec.set_stdin(Stdin::new(stdin));
        }
        let cap = match job.spec.output_file_bytes {
            0 => DEFAULT_OUTPUT_FILE,
            bytes => bytes,
        };
        let keeper = fds
            .next()
            .filter(|_| !beginning.output_file.is_empty())
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
            life: Lifecycle::new(settings, job.exec.readers(), now),
            main,
            errors: ends.errors,
            state: ends.state,
            keeper,
            events: beginning.events,
            since: now,
            courtesy: Courtesy::new(now),
            ended: None,
            notes,
        }
    }
}

fn terminal(master: Option<OwnedFd>) -> Result<Arc<Terminal>, String> {
    let master = master.ok_or("the launcher sent none")?;
    let terminal = Terminal::watch(master).map_err(|error| error.to_string())?;
    Ok(Arc::new(terminal))
}
