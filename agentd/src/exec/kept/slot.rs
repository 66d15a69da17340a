//! Where an execution has the file that keeps its output.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::KeptFile;

/// The place for it.
#[derive(Debug, Default)]
pub(in crate::exec) struct Slot(Mutex<Content>);

#[derive(Debug, Default)]
enum Content {
    /// Nothing is in the file yet, or there is none.
    #[default]
    Nothing,
    File(Arc<KeptFile>),
    /// It was closed for good.
    LetGo,
}

impl Slot {
    /// The file, while something is in it.
    pub(in crate::exec) fn get(&self) -> Option<Arc<KeptFile>> {
        match &*self.lock() {
            Content::File(file) => Some(Arc::clone(file)),
            Content::Nothing | Content::LetGo => None,
        }
    }

    /// Something is in this file now.
    pub(in crate::exec) fn set(&self, file: &Arc<KeptFile>) {
        let mut content = self.lock();
        match *content {
            Content::Nothing => *content = Content::File(Arc::clone(file)),
            Content::File(_) | Content::LetGo => {}
        }
    }

    /// Closes it for good.
    pub(in crate::exec) fn let_go(&self) {
        *self.lock() = Content::LetGo;
    }

    fn lock(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
