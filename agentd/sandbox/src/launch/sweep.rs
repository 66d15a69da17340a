//! Signalling the descendants of this process where no pid namespace does it: best effort, by reading
//! the kernel's lists of children, one for every thread. System calls only, no allocation.

use std::os::fd::{AsFd, OwnedFd};

use nix::{fcntl::OFlag, sys::stat::Mode};

use crate::sys::{files, wait};

/// Descendants that are found in one sweep. A KILL is repeated until nobody is left.
const MOST: usize = 4096;
const BUFFER: usize = 2048;

/// Processes, parents before their children.
struct Found {
    pids: [libc::pid_t; MOST],
    count: usize,
}

/// Signals every descendant that can be found but `done`, which got the signal already (0: none).
/// Parents first: a killed one cannot fork any more.
pub(super) fn signal_descendants(signal: libc::c_int, done: libc::pid_t) {
    let send = |pid: libc::pid_t| {
        if pid != done {
            // ESRCH only says that it has ended by itself.
            wait::signal_pid(pid, signal).unwrap_or_default();
        }
    };
    let own = nix::unistd::getpid().as_raw();
    if signal == libc::SIGKILL {
        // ORDER: at once, before it can fork any more: children that it leaves become this process's and
        // are met in the next sweep.
        Found::below(own, send);
    } else {
        // ORDER: after everybody was found: the children of one that ends would be looked for in vain, and
        // nothing is repeated.
        let found = Found::below(own, |_| {});
        found.all().iter().copied().for_each(send);
    }
}

impl Found {
    /// Everybody below `root`; `visit` is called for each before its children are looked for.
    fn below(root: libc::pid_t, visit: impl Fn(libc::pid_t)) -> Self {
        let mut found = Self {
            pids: [0; MOST],
            count: 0,
        };
        found.add_children(root);
        let mut next = 0;
        while let Some(pid) = found.all().get(next).copied() {
            visit(pid);
            found.add_children(pid);
            next = next.saturating_add(1);
        }
        found
    }

    fn all(&self) -> &[libc::pid_t] {
        self.pids.get(..self.count).unwrap_or_default()
    }

    fn add(&mut self, pid: libc::pid_t) {
        if let Some(slot) = self.pids.get_mut(self.count) {
            *slot = pid;
            self.count = self.count.saturating_add(1);
        }
    }

    fn add_children(&mut self, parent: libc::pid_t) {
        let mut path = PathBuffer::new();
        path.push(b"/proc/");
        path.push_number(parent);
        path.push(b"/task");
        let Some(tasks) = path.open(OFlag::O_DIRECTORY) else {
            return;
        };
        let mut buffer = [0; BUFFER];
        while let Ok(count @ 1..) = files::read_entries(tasks.as_fd(), &mut buffer) {
            for name in files::entry_names(buffer.get(..count).unwrap_or_default()) {
                if let Some(thread) = parse(name) {
                    self.add_children_of_thread(parent, thread);
                }
            }
        }
    }

    fn add_children_of_thread(&mut self, parent: libc::pid_t, thread: libc::pid_t) {
        let mut path = PathBuffer::new();
        path.push(b"/proc/");
        path.push_number(parent);
        path.push(b"/task/");
        path.push_number(thread);
        path.push(b"/children");
        let Some(list) = path.open(OFlag::empty()) else {
            return;
        };
        let mut buffer = [0; BUFFER];
        // Bytes of a number that the end of the buffer cut off.
        let mut kept = 0;
        while let Some(free) = buffer.get_mut(kept..)
            && let Ok(count @ 1..) = files::read(list.as_fd(), free)
        {
            let end = kept.saturating_add(count);
            let read = buffer.get(..end).unwrap_or_default();
            // Every pid ends in a space.
            let whole = read.iter().rposition(|byte| *byte == b' ');
            let whole = whole.map_or(0, |space| space.saturating_add(1));
            for pid in read
                .get(..whole)
                .unwrap_or_default()
                .split(|byte| *byte == b' ')
            {
                if let Some(pid) = parse(pid) {
                    self.add(pid);
                }
            }
            buffer.copy_within(whole..end, 0);
            kept = end.saturating_sub(whole);
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

    fn open(&self, flags: OFlag) -> Option<OwnedFd> {
        let flags = OFlag::O_RDONLY | OFlag::O_CLOEXEC | flags;
        nix::fcntl::open(self.as_c_str()?, flags, Mode::empty()).ok()
    }

    fn as_c_str(&self) -> Option<&std::ffi::CStr> {
        std::ffi::CStr::from_bytes_until_nul(&self.bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        process::{Child, Command, Stdio},
        sync::mpsc,
        thread,
        time::{Duration, Instant},
    };

    use super::*;

    /// A process group of its own; killed at the end.
    struct Tree(Child);

    impl Tree {
        fn new(script: &str) -> Self {
            #[expect(clippy::disallowed_methods, reason = "a test")]
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::null());
            Self(command.process_group(0).spawn().unwrap())
        }

        fn pid(&self) -> libc::pid_t {
            i32::try_from(self.0.id()).unwrap()
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            wait::signal_pid(self.pid().saturating_neg(), libc::SIGKILL).unwrap_or_default();
            drop(self.0.wait());
        }
    }

    fn awaited(root: libc::pid_t, enough: impl Fn(&[libc::pid_t]) -> bool) -> bool {
        let since = Instant::now();
        while !enough(Found::below(root, |_| {}).all()) {
            if since.elapsed() > Duration::from_secs(60) {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        true
    }

    #[test]
    fn descendants_are_found_however_deep_they_are_and_however_many() {
        for (script, count) in [
            (
                "f() { if [ $1 -gt 0 ]; then (f $(($1 - 1)); :); else sleep 300; fi; }; f 20; :",
                21,
            ),
            // Their numbers are more than one buffer's.
            ("for _ in $(seq 900); do sleep 300 & done; wait", 900),
        ] {
            let tree = Tree::new(script);
            let enough = |found: &[libc::pid_t]| found.len() >= count;
            assert!(awaited(tree.pid(), enough), "{script}");
            let found = Found::below(tree.pid(), |_| {});
            // Each is a process, and nobody is in it twice.
            let mut all = found.all().to_vec();
            all.sort_unstable();
            all.dedup();
            assert_eq!(all.len(), found.count, "{script}");
            for pid in all {
                assert_eq!(wait::signal_pid(pid, 0), Ok(()), "{script}: {pid}");
            }
        }
    }

    #[test]
    fn the_child_of_a_thread_is_found() {
        let (told, started) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let holder = thread::spawn(move || {
            let tree = Tree::new("sleep 300; :");
            told.send(tree.pid()).unwrap();
            ended.recv().unwrap_err();
        });
        let child = started.recv().unwrap();
        let own = nix::unistd::getpid().as_raw();
        assert!(awaited(own, |found| found.contains(&child)));
        drop(end);
        holder.join().unwrap();
    }

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
