//! A terminal for tests: keeps what is written to it.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex},
};

/// What was written, shared by all clones.
#[derive(Clone, Default)]
pub(super) struct Paper(pub(super) Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
