//! What is known of a command's terminal from its master: how what is typed is read, and whether all of it
//! was.

use std::os::fd::{AsFd, OwnedFd};

use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{FlushArg, LocalFlags, SpecialCharacterIndices, Termios, tcflush, tcgetattr},
};

use crate::sys::terminal;

/// How a command reads what is typed, and by which key a person would say that nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// Line by line; the terminal itself knows the key.
    Lines(u8),
    /// Key by key, with keys that signal: an editor of lines, which knows the key too.
    Keys(u8),
    /// Every byte is data, or no key says the end.
    Raw,
}

impl Reading {
    fn of(settings: &Termios) -> Self {
        let key = settings
            .control_chars
            .get(SpecialCharacterIndices::VEOF as usize)
            .copied()
            .unwrap_or(DISABLED);
        let flags = settings.local_flags;
        if key == DISABLED {
            Self::Raw
        } else if flags.contains(LocalFlags::ICANON) {
            Self::Lines(key)
        } else if flags.contains(LocalFlags::ISIG) {
            Self::Keys(key)
        } else {
            Self::Raw
        }
    }
}

/// Stands where a key is switched off.
const DISABLED: u8 = 0;

/// The side of a terminal that its command has. As long as it is open, the end of the command's output
/// cannot be seen.
#[derive(Debug)]
pub struct Peer(OwnedFd);

impl Peer {
    /// Takes over a descriptor of it. The front end gets one from the launcher, since it can open no file.
    #[must_use]
    pub fn of(descriptor: OwnedFd) -> Self {
        Self(descriptor)
    }

    /// How the command reads.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn reading(&self) -> Result<Reading, Errno> {
        tcgetattr(&self.0).map(|settings| Reading::of(&settings))
    }

    /// Something that was typed could be read and was not yet. The beginning of a line cannot.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn has_unread(&self) -> Result<bool, Errno> {
        // ORDER: both, since one does not count an end of input and the other may wait for more bytes.
        let mut fds = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::ZERO)?;
        let readable = fds.iter().any(|fd| fd.any().unwrap_or(false));
        Ok(readable || terminal::unread(self.0.as_fd())? > 0)
    }

    /// Takes back what was typed and not read yet.
    ///
    /// # Errors
    /// The terminal is gone.
    pub fn take_back(&self) -> Result<(), Errno> {
        tcflush(&self.0, FlushArg::TCIFLUSH)
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
        time::{Duration, Instant},
    };

    use nix::sys::termios::{InputFlags, SetArg, cfmakeraw, tcsetattr};

    use super::*;

    fn pair() -> (File, File) {
        let (master, peer) = terminal::open_host((80, 24)).unwrap();
        (master.into(), peer.into())
    }

    fn opened(master: &File) -> Peer {
        Peer::of(terminal::open_peer(master.as_fd()).unwrap())
    }

    fn change(peer: &File, change: impl FnOnce(&mut Termios)) {
        let mut settings = tcgetattr(peer).unwrap();
        change(&mut settings);
        tcsetattr(peer, SetArg::TCSANOW, &settings).unwrap();
    }

    fn looked(master: &File) -> (Reading, bool) {
        let peer = opened(master);
        (peer.reading().unwrap(), peer.has_unread().unwrap())
    }

    /// What is typed arrives a moment later.
    #[expect(clippy::fn_params_excessive_bools, reason = "a value to compare with")]
    fn arrives(master: &File, expected: bool) {
        let began = Instant::now();
        while looked(master).1 != expected {
            assert!(began.elapsed() < Duration::from_secs(10), "{expected}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_way_of_reading_is_the_commands_own() {
        let (master, peer) = pair();
        assert_eq!(looked(&master), (Reading::Lines(4), false));
        change(&peer, |settings| settings.control_chars[4] = b'x');
        assert_eq!(looked(&master).0, Reading::Lines(b'x'));
        change(&peer, |settings| {
            settings.local_flags.remove(LocalFlags::ICANON);
        });
        assert_eq!(looked(&master).0, Reading::Keys(b'x'));
        change(&peer, |settings| settings.control_chars[4] = DISABLED);
        assert_eq!(looked(&master).0, Reading::Raw);
        change(&peer, |settings| settings.control_chars[4] = 4);
        change(&peer, cfmakeraw);
        assert_eq!(looked(&master).0, Reading::Raw);
    }

    #[test]
    fn what_was_typed_is_unread_until_it_is_read_or_taken_back() {
        let (mut master, mut peer) = pair();
        let mut buffer = [0; 64];
        for (typed, length) in [(&b"line\n"[..], 5), (b"\x04", 0), (b"part\x04", 4)] {
            master.write_all(typed).unwrap();
            arrives(&master, true);
            assert_eq!(peer.read(&mut buffer).unwrap(), length, "{typed:?}");
            arrives(&master, false);
            master.write_all(typed).unwrap();
            arrives(&master, true);
            opened(&master).take_back().unwrap();
            assert!(!looked(&master).1, "{typed:?}");
        }
        // One that waits for several bytes has not read the first.
        change(&peer, |settings| {
            settings.local_flags.remove(LocalFlags::ICANON);
            settings.input_flags.remove(InputFlags::ICRNL);
            settings.control_chars[SpecialCharacterIndices::VMIN as usize] = 3;
        });
        master.write_all(b"a").unwrap();
        arrives(&master, true);
    }

    #[test]
    fn a_terminal_is_open_as_long_as_its_peer_is_held() {
        let (mut master, peer) = pair();
        let held = opened(&master);
        drop(peer);
        assert_eq!(held.has_unread(), Ok(false));
        drop(held);
        let end = master.read(&mut [0; 8]).unwrap_err();
        assert_eq!(end.raw_os_error(), Some(libc::EIO));
        let null = Peer::of(File::open("/dev/null").unwrap().into());
        assert_eq!(null.reading(), Err(Errno::ENOTTY));
        assert_eq!(null.take_back(), Err(Errno::ENOTTY));
    }
}
