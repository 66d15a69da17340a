//! What a command of a session reports of its state when it ends, over a pipe of its own.

use std::os::fd::AsFd;

use tokio::{io::AsyncReadExt, net::unix::pipe::Receiver};

use super::pipes::read_once;

/// Most bytes kept; the rest is read and thrown away, so that the shell that reports never meets a
/// closed or a full pipe.
const KEPT: usize = 256 * 1024;

/// Most bytes read at the end of a command.
const LAST: usize = 1024 * 1024;

/// The read end, and what came out of it.
#[derive(Debug)]
pub(super) struct StatePipe {
    pipe: Option<Receiver>,
    kept: Vec<u8>,
}

impl StatePipe {
    /// Nothing has come yet.
    pub(super) fn new(pipe: Receiver) -> Self {
        Self {
            pipe: Some(pipe),
            kept: Vec::new(),
        }
    }

    /// Reads something; pending for ever once it has ended. Dropping the future loses nothing.
    pub(super) async fn read(&mut self) {
        let Some(pipe) = &mut self.pipe else {
            return std::future::pending().await;
        };
        let mut buffer = [0; 4096];
        match pipe.read(&mut buffer).await {
            Ok(length) if length > 0 => self.keep(buffer.get(..length).unwrap_or_default()),
            Ok(_) | Err(_) => self.pipe = None,
        }
    }

    /// The command is over: everything it reported.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let mut buffer = [0; 4096];
        let mut read = 0_usize;
        while read < LAST
            && let Some(pipe) = &self.pipe
            && let Ok(length) = read_once(pipe.as_fd(), &mut buffer)
            && length > 0
        {
            read = read.saturating_add(length);
            self.keep(buffer.get(..length).unwrap_or_default());
        }
        self.kept
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = KEPT.saturating_sub(self.kept.len());
        self.kept
            .extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[tokio::test]
    async fn a_report_is_whole_or_cut_and_never_blocks_its_writer() {
        for length in [0, 1, 70_000, KEPT, KEPT + 100_000] {
            let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
            let mut state = StatePipe::new(Receiver::from_owned_fd(reader).unwrap());
            let writing = std::thread::spawn(move || {
                let mut writer = std::fs::File::from(writer);
                writer.write_all(&vec![b'x'; length]).unwrap();
            });
            while !writing.is_finished() {
                tokio::select! {
                    () = state.read() => {}
                    () = tokio::time::sleep(std::time::Duration::from_millis(1)) => {}
                }
            }
            writing.join().unwrap();
            assert_eq!(state.finish().len(), length.min(KEPT));
        }
    }
}
