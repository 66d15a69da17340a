//! Reading what a command writes, beside the test.

use std::{
    fs::File,
    io::Read,
    os::fd::OwnedFd,
    sync::{Arc, Condvar, Mutex},
    thread::JoinHandle,
};

use crate::drive::PATIENCE;

/// Something that is read by a thread of its own until its end.
pub struct Reader {
    got: Arc<(Mutex<Vec<u8>>, Condvar)>,
    thread: JoinHandle<()>,
}

impl Reader {
    pub fn of(fd: OwnedFd) -> Self {
        let got = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
        let shared = Arc::clone(&got);
        let thread = std::thread::spawn(move || {
            let mut file = File::from(fd);
            let mut buffer = [0; 4096];
            // A terminal ends with an error.
            while let Ok(count) = file.read(&mut buffer)
                && count > 0
            {
                let mut bytes = shared.0.lock().expect("a lock");
                bytes.extend_from_slice(&buffer[..count]);
                shared.1.notify_all();
            }
        });
        Self { got, thread }
    }

    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_until(text, |bytes| String::from_utf8_lossy(bytes).contains(text));
    }

    /// Waits until this has come twice.
    #[track_caller]
    pub fn shows_twice(&self, letter: char) {
        let text = letter.to_string();
        self.wait_until(&text, |bytes| {
            String::from_utf8_lossy(bytes).matches(letter).count() == 2
        });
    }

    #[track_caller]
    fn wait_until(&self, text: &str, enough: impl Fn(&[u8]) -> bool) {
        let lacks = |bytes: &mut Vec<u8>| !enough(bytes);
        let bytes = self.got.0.lock().expect("a lock");
        let (bytes, timeout) = self
            .got
            .1
            .wait_timeout_while(bytes, PATIENCE, lacks)
            .expect("a lock");
        let shown = String::from_utf8_lossy(&bytes).into_owned();
        assert!(!timeout.timed_out(), "no {text:?} in {shown:?}");
    }

    /// Everything up to the end.
    pub fn finish(self) -> Vec<u8> {
        self.thread.join().expect("the reader");
        let mut bytes = self.got.0.lock().expect("a lock");
        std::mem::take(&mut bytes)
    }
}
