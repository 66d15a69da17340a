//! Signalling the descendants of this process where no pid namespace does it: best effort, by reading
//! the kernel's lists of children. System calls only, no allocation.

use std::os::fd::AsFd;

use nix::{fcntl::OFlag, sys::stat::Mode};

use crate::sys::{files, wait};

/// How deep the tree is followed at once. Killed parents leave their children to the subreaper, so
/// repeated sweeps reach any depth.
const DEPTH: u8 = 6;
const LIST_BYTES: usize = 4096;

/// Signals every descendant that can be found but `done`, which got the signal already (0: none).
/// Parents first: a killed one cannot fork any more.
pub(super) fn signal_descendants(signal: libc::c_int, done: libc::pid_t) {
    signal_children(nix::unistd::getpid().as_raw(), (signal, done), DEPTH);
}

fn signal_children(parent: libc::pid_t, what: (libc::c_int, libc::pid_t), depth: u8) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    let mut path = PathBuffer::new();
    path.push(b"/proc/");
    path.push_number(parent);
    path.push(b"/task/");
    path.push_number(parent);
    path.push(b"/children");
    let Some(path) = path.as_c_str() else { return };
    let Ok(file) = nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()) else {
        return;
    };
    let mut list = [0; LIST_BYTES];
    let count = files::read(file.as_fd(), &mut list).unwrap_or(0);
    // Every pid ends in a space; a number that the end of the buffer cut off is another process's.
    let read = list.get(..count).unwrap_or_default();
    let count = read.iter().rposition(|byte| *byte == b' ').unwrap_or(0);
    for pid in list
        .get(..count)
        .unwrap_or_default()
        .split(|byte| *byte == b' ')
    {
        if let Some(pid) = parse(pid) {
            let (signal, done) = what;
            if pid != done {
                // ESRCH only says that it has ended by itself.
                wait::signal_pid(pid, signal).unwrap_or_default();
            }
            signal_children(pid, what, depth);
        }
    }
}

/// Parses a decimal pid above 1.
fn parse(digits: &[u8]) -> Option<libc::pid_t> {
    if digits.is_empty() {
        return None;
    }
    let mut value: libc::pid_t = 0;
    for digit in digits {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 10)?;
        value = value
            .checked_mul(10)?
            .checked_add(libc::pid_t::from(digit))?;
    }
    (value > 1).then_some(value)
}

/// A path built on the stack.
struct PathBuffer {
    bytes: [u8; 64],
    length: usize,
}

impl PathBuffer {
    fn new() -> Self {
        Self {
            bytes: [0; 64],
            length: 0,
        }
    }

    fn push(&mut self, part: &[u8]) {
        let end = self.length.saturating_add(part.len());
        if let Some(slot) = self.bytes.get_mut(self.length..end) {
            slot.copy_from_slice(part);
            self.length = end;
        }
    }

    fn push_number(&mut self, number: libc::pid_t) {
        let mut digits = [0; 10];
        let mut first = digits.len();
        let mut rest = number.unsigned_abs();
        for slot in digits.iter_mut().rev() {
            *slot = b'0'.saturating_add(u8::try_from(rest % 10).unwrap_or(0));
            first = first.saturating_sub(1);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        if let Some(digits) = digits.get(first..) {
            self.push(digits);
        }
    }

    fn as_c_str(&self) -> Option<&std::ffi::CStr> {
        std::ffi::CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_decimal() {
        for number in [2, 10, 4_194_304, i32::MAX] {
            let mut path = PathBuffer::new();
            path.push_number(number);
            assert_eq!(
                path.as_c_str().unwrap().to_str().unwrap(),
                number.to_string()
            );
        }
    }

    #[test]
    fn only_pids_of_others_than_init_are_parsed() {
        assert_eq!(parse(b"4194304"), Some(4_194_304));
        for bad in [&b""[..], b"1", b"0", b"-3", b"x", b"99999999999"] {
            assert_eq!(parse(bad), None);
        }
    }
}
