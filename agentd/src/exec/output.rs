//! Reading what a command printed as bytes, in order of arrival: from the file that keeps it, else from
//! the record.

use std::{io, sync::Arc, time::Duration};

use tonic::codegen::Bytes;

use super::{Exec, ExecState, kept::KeptFile};

/// A piece of the output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputPiece {
    /// Bytes; none: there is nothing here yet, or nothing more.
    pub data: Bytes,
    /// Offset of the first one; larger than the one asked for when that is no longer held.
    pub offset: u64,
    /// Bytes written so far.
    pub written: u64,
    /// The command is over, and nothing will be added.
    pub ended: bool,
}

impl Exec {
    /// At most `limit` bytes from `offset` on, waiting up to `wait` for the first one, and some seconds
    /// more for a disk that hangs.
    pub async fn read_output(&self, offset: u64, limit: usize, wait: Duration) -> OutputPiece {
        let mut enough = std::pin::pin!(tokio::time::sleep(wait));
        let mut progress = self.progress();
        loop {
            // ORDER: mark as seen and listen before looking, so that what comes in between wakes us again.
            progress.borrow_and_update();
            let file = self.kept();
            let kept = file.as_ref().map(|kept| kept.changed());
            let piece = self.output_now(offset, limit).await;
            if !piece.data.is_empty() || piece.ended {
                return piece;
            }
            tokio::select! {
                // An error means that the sender is gone; it lives in `self`.
                _ = progress.changed() => {}
                () = async { match kept {
                    Some(changed) => changed.await,
                    None => std::future::pending().await,
                } } => {}
                () = &mut enough => return piece,
            }
        }
    }

    async fn output_now(&self, offset: u64, limit: usize) -> OutputPiece {
        // ORDER: the state first: what is written before the end is there when the end is seen.
        let ended = match self.state() {
            ExecState::Ended | ExecState::NotStarted(_) => true,
            ExecState::Starting | ExecState::Running => false,
        };
        let written = self.written().total();
        let piece = |offset, data| OutputPiece {
            data,
            offset,
            written,
            ended,
        };
        let Some(kept) = self.kept() else {
            let (start, pieces) = self.bytes_from(offset, limit);
            return piece(start, join(pieces));
        };
        if offset < kept.bytes() {
            match self.read_kept(&kept, offset, limit).await {
                Ok(data) => return piece(offset, data.into()),
                Err(error) => {
                    tracing::warn!(exec = %self.id(), %error, "cannot read kept output");
                }
            }
        }
        let (start, pieces) = self.bytes_from(offset, limit);
        if start > offset && offset < kept.promised() && !ended {
            // No longer in the record, and on its way into the file.
            return piece(offset, Bytes::new());
        }
        piece(start, join(pieces))
    }
}

impl Exec {
    async fn read_kept(
        &self,
        kept: &Arc<KeptFile>,
        offset: u64,
        limit: usize,
    ) -> io::Result<Vec<u8>> {
        let kept = Arc::clone(kept);
        let read = self.disk().run(move || kept.read_at(offset, limit));
        // A read whose turn never comes is dropped undone.
        tokio::time::timeout(self.disk().patience(), read).await??
    }
}

fn join(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        0 => Bytes::new(),
        1 => pieces.swap_remove(0),
        _ => pieces.concat().into(),
    }
}
