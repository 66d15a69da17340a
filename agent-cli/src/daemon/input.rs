//! What a running command reads: bytes at absolute offsets, so that writing them again after a broken
//! connection writes nothing twice; and the size of its terminal.

use std::{sync::Arc, time::Duration};

use agentd_proto::v1;
use tokio::time::sleep;

use super::{
    DaemonError, TerminalSize,
    command::wire_size,
    exec::client,
    follow::{self, backoff},
    link::Link,
};
use crate::ids;

/// Most bytes of one message.
pub const PIECE: usize = 64 << 10;
/// A new size of the terminal is not worth more.
const RESIZE_PATIENCE: Duration = Duration::from_secs(5);

/// Whether the command still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// It has taken everything, and may take more.
    All,
    /// Its standard input is closed.
    Closed,
}

/// The standard input of a running command.
#[derive(Debug)]
pub struct Input {
    link: Arc<Link>,
    exec_id: String,
    offset: u64,
}

impl Input {
    /// The standard input of a command that has started, from its first byte on.
    #[must_use]
    pub fn of(link: &Arc<Link>, exec_id: &str) -> Self {
        Self {
            link: Arc::clone(link),
            exec_id: exec_id.to_owned(),
            offset: 0,
        }
    }

    /// Writes bytes and returns when the daemon has taken all of them. They are cut into pieces.
    ///
    /// # Errors
    /// The command has ended or has no standard input, or the daemon cannot be reached any more.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<Taken, DaemonError> {
        let mut idle: u32 = 0;
        while !bytes.is_empty() {
            let piece = bytes.get(..PIECE).unwrap_or(bytes);
            let answer = self.send(piece, End::Open).await?;
            if answer.closed {
                return Ok(Taken::Closed);
            }
            let taken = answer.accepted_offset.saturating_sub(self.offset);
            let taken = usize::try_from(taken).unwrap_or(usize::MAX);
            self.offset = self.offset.max(answer.accepted_offset);
            bytes = bytes.get(taken..).unwrap_or_default();
            if taken == 0 {
                // The pipe is full, and the command does not read for now.
                sleep(backoff(idle, ids::chance())).await;
                idle = idle.saturating_add(1);
            } else {
                idle = 0;
            }
        }
        Ok(Taken::All)
    }

    /// Closes the command's standard input.
    ///
    /// # Errors
    /// As for [`Input::write`].
    pub async fn close(&mut self) -> Result<(), DaemonError> {
        self.send(&[], End::Close).await.map(drop)
    }

    async fn send(&self, data: &[u8], end: End) -> Result<v1::WriteStdinResponse, DaemonError> {
        let request = v1::WriteStdinRequest {
            exec_id: self.exec_id.clone(),
            offset: self.offset,
            data: data.to_vec().into(),
            eof: matches!(end, End::Close),
        };
        let answer = self
            .link
            .ask("ExecService.WriteStdin", follow::PATIENCE, |channel| {
                let request = request.clone();
                async move { client(channel).write_stdin(request).await }
            });
        Ok(answer.await?.into_inner())
    }
}

/// Whether more may follow.
#[derive(Debug, Clone, Copy)]
enum End {
    Open,
    Close,
}

/// Tells a running command the new size of its terminal.
///
/// # Errors
/// It has ended or has no terminal, or the daemon cannot be reached.
pub(crate) async fn resize(
    link: &Link,
    exec_id: &str,
    size: TerminalSize,
) -> Result<(), DaemonError> {
    let request = v1::ResizePtyRequest {
        exec_id: exec_id.to_owned(),
        size: Some(wire_size(size)),
    };
    let told = link.ask("ExecService.ResizePty", RESIZE_PATIENCE, |channel| {
        let request = request.clone();
        async move { client(channel).resize_pty(request).await }
    });
    told.await.map(drop)
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::{Input, Taken};
    use crate::daemon::fake::{self, How};

    #[tokio::test]
    async fn every_byte_is_written_once_however_little_is_taken_and_whatever_breaks() {
        let fake = fake::start().await;
        let mut input = Input::of(&fake.link, "e-1");
        let breaks = [0, 1, 2, 3, 4].map(|_| (0, How::Reset));
        fake.told.cuts.lock().unwrap().extend(breaks);
        for piece in [&b"0123456789"[..], b"", b"abc", b"defghij\n"] {
            assert_eq!(input.write(piece).await.unwrap(), Taken::All);
        }
        input.close().await.unwrap();
        let (bytes, closed) = fake.told.stdin.lock().unwrap().clone();
        assert_eq!(bytes, b"0123456789abcdefghij\n");
        assert!(closed);
        assert_eq!(input.write(b"more").await.unwrap(), Taken::Closed);
    }
}
