//! Passes a reply on to the observer while it arrives, and remembers its text: an interrupt or a broken
//! connection must not lose what the person has already read.

use std::sync::{Mutex, PoisonError};

use super::ports::{Observer, ReplySink, RetryNotice};

/// A sink that remembers the text.
pub(super) struct ReplyWatch<'a> {
    observer: &'a dyn Observer,
    text: Mutex<String>,
}

impl<'a> ReplyWatch<'a> {
    pub(super) fn new(observer: &'a dyn Observer) -> Self {
        Self {
            observer,
            text: Mutex::default(),
        }
    }

    /// The text so far.
    pub(super) fn partial(&self) -> String {
        self.text
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl ReplySink for ReplyWatch<'_> {
    fn text_delta(&self, text: &str) {
        self.text
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push_str(text);
        self.observer.text_delta(text);
    }

    fn thinking_delta(&self, text: &str) {
        self.observer.thinking_delta(text);
    }

    fn retry(&self, notice: &RetryNotice) {
        self.observer.retry(notice);
    }
}
