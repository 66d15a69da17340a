//! Events on their way to the front end. The launcher never waits for it: what the socket does not take
//! is kept, in order.

use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
};

use crate::{
    monitor::{Channel, ChannelError, Event, MAX_MESSAGE, Request, SetupFailure},
    policy::Refusal,
};

/// Events not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    queue: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl Outbox {
    /// Adds an event.
    pub(crate) fn push(&mut self, event: &Event) {
        self.push_with(event, Vec::new());
    }

    /// Adds an event with descriptors beside it, which are closed once they are sent.
    pub(crate) fn push_with(&mut self, event: &Event, fds: Vec<OwnedFd>) {
        match serde_json::to_vec(event) {
            Ok(bytes) if bytes.len() > MAX_MESSAGE => self.push_shorter(event),
            Ok(bytes) => self.queue.push_back((bytes, fds)),
            // Events are made of strings and numbers; if one cannot be written, that is a bug, and the
            // front end will see an execution that never ends unless this is loud.
            Err(error) => drop(std::io::Write::write_fmt(
                &mut std::io::stderr(),
                format_args!("agentd-launcher: bug: an event could not be written: {error}\n"),
            )),
        }
    }

    /// A command has a say in the size of some events: by the paths in questions about its output, by
    /// the names that it makes. None of that may end the conversation.
    fn push_shorter(&mut self, event: &Event) {
        let too_large = || "the answer is larger than a message".to_owned();
        match event {
            Event::Explained { id, result: Ok(_) } => self.push(&Event::Explained {
                id: *id,
                result: Err(Refusal::Malformed(too_large())),
            }),
            Event::Refused { exec, .. } => self.push(&Event::Refused {
                exec: *exec,
                refusal: Refusal::Malformed(too_large()),
            }),
            Event::SetupFailed { exec, failure } => self.push(&Event::SetupFailed {
                exec: *exec,
                failure: SetupFailure {
                    detail: too_large(),
                    ..failure.clone()
                },
            }),
            Event::Ended {
                exec,
                cause,
                status,
                leftover,
                usage,
                proven,
                hits,
                ..
            } => self.push(&Event::Ended {
                exec: *exec,
                cause: *cause,
                status: *status,
                leftover: *leftover,
                usage: *usage,
                tripped: Vec::new(),
                hits: hits.clone(),
                proven: *proven,
            }),
            Event::Ready { .. }
            | Event::Profile(_)
            | Event::Reloaded { .. }
            | Event::Started { .. }
            | Event::LeaderExited { .. }
            | Event::SessionOpened { .. }
            | Event::SessionClosed { .. }
            | Event::Explained { .. } => super::jail::complain(format_args!(
                "an event is larger than {MAX_MESSAGE} bytes and was not sent; is a profile too large?"
            )),
        }
    }

    /// Something is waiting.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.queue.is_empty()
    }

    /// Sends as much as the socket takes.
    pub(crate) fn flush(&mut self, channel: &Channel<Event, Request>) -> Result<(), ChannelError> {
        while let Some((bytes, fds)) = self.queue.front() {
            let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
            match channel.send_encoded(bytes, &fds) {
                Ok(()) => drop(self.queue.pop_front()),
                Err(ChannelError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Verdict;

    #[test]
    fn descriptors_wait_with_their_event_and_arrive_beside_it_alone() {
        let (ours, theirs) = Channel::<Event, Request>::pair().unwrap();
        ours.set_nonblocking().unwrap();
        theirs.set_nonblocking().unwrap();
        let mut outbox = Outbox::default();
        let event = |id| Event::Explained {
            id,
            result: Ok(Vec::new()),
        };
        for id in 0..1000 {
            let fds: Vec<OwnedFd> = (0..id % 3)
                .map(|_| std::fs::File::open("/dev/null").unwrap().into())
                .collect();
            outbox.push_with(&event(id), fds);
        }
        outbox.flush(&ours).unwrap();
        assert!(outbox.is_waiting(), "the socket takes them all at once");
        for id in 0..1000 {
            outbox.flush(&ours).unwrap();
            let received = theirs.recv().unwrap().unwrap();
            assert_eq!(received.message, event(id));
            assert_eq!(received.fds.len() as u64, id % 3);
        }
    }

    #[test]
    fn an_answer_larger_than_a_message_becomes_a_refusal_and_not_the_end() {
        let (ours, theirs) = Channel::<Event, Request>::pair().unwrap();
        let mut outbox = Outbox::default();
        let verdict = Verdict {
            allowed: false,
            rule: "default".into(),
            layers: Vec::new(),
            text: "\u{1}".repeat(60_000),
        };
        outbox.push(&Event::Explained {
            id: 7,
            result: Ok(vec![verdict]),
        });
        outbox.flush(&ours).unwrap();
        let event = theirs.recv().unwrap().unwrap().message;
        assert!(
            matches!(
                event,
                Event::Explained {
                    id: 7,
                    result: Err(_)
                }
            ),
            "{event:?}"
        );
    }
}
