//! Pseudo-terminals, by descriptor: no name below `/dev/pts` is ever looked up.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use nix::{errno::Errno, fcntl::OFlag, sys::stat::Mode};

/// Flags to open a terminal with: it does not become the controlling one by the way.
pub(crate) const OPEN_FLAGS: libc::c_int = libc::O_RDWR | libc::O_NOCTTY;

/// The other side of a freshly opened master (a descriptor of a `ptmx` device), unlocked first.
pub(crate) fn open_peer(master: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let unlocked: libc::c_int = 0;
    // SAFETY: the descriptor is open by `BorrowedFd`; TIOCSPTLCK reads one valid `int`.
    let result = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked) };
    Errno::result(result)?;
    let flags = OPEN_FLAGS | libc::O_CLOEXEC;
    // SAFETY: the descriptor is open by `BorrowedFd`; TIOCGPTPEER takes flags by value.
    let peer = unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCGPTPEER, flags) };
    let peer = Errno::result(peer)?;
    // SAFETY: the kernel just installed `peer` for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(peer) })
}

/// A terminal of the host of this many columns and rows: its master, and the side for a command.
pub(crate) fn open_host(size: (u16, u16)) -> Result<(OwnedFd, OwnedFd), Errno> {
    // The name is a link on some hosts, and nobody without privilege can change where it leads.
    let flags = OFlag::from_bits_retain(OPEN_FLAGS | libc::O_CLOEXEC);
    let master = nix::fcntl::open(c"/dev/ptmx", flags, Mode::empty())?;
    let peer = open_peer(master.as_fd())?;
    set_size(master.as_fd(), size)?;
    Ok((master, peer))
}

/// Sets the size in characters; what runs in the foreground of the terminal gets WINCH when it changes.
pub(crate) fn set_size(terminal: BorrowedFd<'_>, (columns, rows): (u16, u16)) -> Result<(), Errno> {
    let size = libc::winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is open by `BorrowedFd`; TIOCSWINSZ reads one valid `winsize`.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
    Errno::result(result).map(drop)
}

/// How many bytes of input could be read now on a terminal's side for a command.
pub(crate) fn unread(peer: BorrowedFd<'_>) -> Result<usize, Errno> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the descriptor is open by `BorrowedFd`; FIONREAD writes one `int`.
    let result = unsafe { libc::ioctl(peer.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    Errno::result(result)?;
    Ok(usize::try_from(bytes).unwrap_or_default())
}

/// Makes `terminal` the controlling one of this process's session, which it must lead and which must
/// have none.
pub(crate) fn make_controlling(terminal: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; TIOCSCTTY takes an integer by value.
    let result = unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSCTTY, 0) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use std::{fs, io::Read, io::Write};

    use nix::sys::termios::tcgetattr;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        open_host((80, 24)).unwrap()
    }

    #[test]
    fn what_is_written_on_one_side_comes_out_of_the_other() {
        let (master, peer) = pair();
        fs::File::from(peer).write_all(b"a\nb").unwrap();
        let mut text = Vec::new();
        // The other side is closed: the end is an error on a terminal.
        let end = fs::File::from(master).read_to_end(&mut text).unwrap_err();
        assert_eq!(end.raw_os_error(), Some(libc::EIO));
        assert_eq!(text, b"a\r\nb");
    }

    #[test]
    fn no_side_is_anything_but_a_terminal() {
        let (master, peer) = pair();
        for size in [(80, 24), (1, 1), (4096, 4096)] {
            set_size(master.as_fd(), size).unwrap();
        }
        tcgetattr(peer.as_fd()).unwrap();
        let null: OwnedFd = fs::File::open("/dev/null").unwrap().into();
        assert_eq!(open_peer(null.as_fd()).unwrap_err(), Errno::ENOTTY);
        assert_eq!(unread(null.as_fd()), Err(Errno::ENOTTY));
        assert_eq!(set_size(null.as_fd(), (1, 1)), Err(Errno::ENOTTY));
        assert_eq!(make_controlling(null.as_fd()), Err(Errno::ENOTTY));
    }
}
