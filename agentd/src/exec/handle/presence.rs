//! Who cares about a command.

use std::sync::{Arc, atomic::Ordering};

use super::{Control, Exec};

/// Somebody who cares about a command. While there is one, the command is not ended for lack of readers.
#[derive(Debug)]
pub struct Presence(Arc<Exec>);

impl Drop for Presence {
    fn drop(&mut self) {
        let before = self.0.readers.fetch_sub(1, Ordering::AcqRel);
        self.0.tell_readers(before.saturating_sub(1));
    }
}

impl Exec {
    /// Counts the holder as somebody who cares about the command, until dropped.
    #[must_use]
    pub fn presence(self: &Arc<Self>) -> Presence {
        self.was_read.store(true, Ordering::Release);
        let before = self.readers.fetch_add(1, Ordering::AcqRel);
        self.tell_readers(before.saturating_add(1));
        Presence(Arc::clone(self))
    }

    fn tell_readers(&self, count: usize) {
        drop(self.control.send(Control::Readers(count)));
    }
}
