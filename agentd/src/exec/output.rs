//! Reading what a command printed as bytes, in order of arrival.

use std::time::Duration;

use tonic::codegen::Bytes;

use super::{EventBody, Exec, ExecState, log::Found};

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
    /// At most `limit` bytes from `offset` on, waiting up to `wait` for the first one.
    pub async fn read_output(&self, offset: u64, limit: usize, wait: Duration) -> OutputPiece {
        let mut enough = std::pin::pin!(tokio::time::sleep(wait));
        let mut progress = self.progress();
        loop {
            // ORDER: mark as seen before looking, so that what comes in between wakes us again.
            progress.borrow_and_update();
            let piece = self.output_now(offset, limit);
            if !piece.data.is_empty() || piece.ended {
                return piece;
            }
            tokio::select! {
                // An error means that the sender is gone; it lives in `self`.
                _ = progress.changed() => {}
                () = &mut enough => return piece,
            }
        }
    }

    fn output_now(&self, offset: u64, limit: usize) -> OutputPiece {
        // ORDER: the state first: what is written before the end is there when the end is seen.
        let ended = match self.state() {
            ExecState::Ended | ExecState::NotStarted(_) => true,
            ExecState::Starting | ExecState::Running => false,
        };
        let (start, data) = self.held(offset, limit);
        OutputPiece {
            data: data.into(),
            offset: start,
            written: self.written().total(),
            ended,
        }
    }

    fn held(&self, offset: u64, limit: usize) -> (u64, Vec<u8>) {
        let mut cursor = self.seek(0);
        let (mut at, mut start, mut data) = (0_u64, offset, Vec::new());
        while data.len() < limit {
            match self.read(&mut cursor) {
                Found::Event(event) => {
                    let EventBody::Output { data: bytes, .. } = event.body else {
                        continue;
                    };
                    let skip = usize::try_from(offset.saturating_sub(at)).unwrap_or(usize::MAX);
                    let rest = bytes.get(skip.min(bytes.len())..).unwrap_or_default();
                    if data.is_empty() && !rest.is_empty() {
                        start = at.max(offset);
                    }
                    let room = limit.saturating_sub(data.len());
                    data.extend_from_slice(rest.get(..room).unwrap_or(rest));
                    at = at.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
                }
                Found::Gap(_, _, lost) => at = at.saturating_add(lost.total()),
                Found::Pending | Found::End => break,
            }
        }
        (start, data)
    }
}
