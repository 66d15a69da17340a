//! Events on their way to the front end. The launcher never waits for it: what the socket does not take
//! is kept, in order.

use std::collections::VecDeque;

use crate::monitor::{Channel, ChannelError, Event, Request};

/// Events not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<Vec<u8>>,
}

impl Outbox {
    /// Adds an event.
    pub(crate) fn push(&mut self, event: &Event) {
        match serde_json::to_vec(event) {
            Ok(bytes) => self.queue.push_back(bytes),
            // Events are made of strings and numbers; if one cannot be written, that is a bug, and the
            // front end will see an execution that never ends unless this is loud.
            Err(error) => drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("agentd-launcher: bug: an event could not be written: {error}\n"),
            )),
        }
    }

    /// Something is waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends as much as the socket takes.
    pub(crate) fn flush(&mut self, channel: &Channel<Event, Request>) -> Result<(), ChannelError> {
        while let Some(bytes) = self.queue.front() {
            match channel.send_encoded(bytes, &[]) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(ChannelError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
