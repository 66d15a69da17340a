//! Reaping.

use std::{
    mem,
    os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use nix::{
    errno::Errno,
    sys::wait::{Id, WaitPidFlag, waitid},
    unistd::Pid,
};

/// A reaped child.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reaped {
    /// Its pid.
    pub(crate) pid: libc::pid_t,
    /// Its raw wait status.
    pub(crate) status: libc::c_int,
    /// Its resource use and that of the children it had waited for.
    pub(crate) usage: libc::rusage,
}

/// Reaps one child without waiting: `None` when none has ended, `ECHILD` when there is none.
pub(crate) fn reap_any() -> Result<Option<Reaped>, Errno> {
    reap(-1)
}

/// Reaps this child without waiting.
pub(crate) fn reap(pid: libc::pid_t) -> Result<Option<Reaped>, Errno> {
    let mut status = 0;
    // SAFETY: `rusage` is a C struct of integers for which all zeroes is a valid value.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: `status` and `usage` are valid places for the kernel to write to.
    let pid = unsafe { libc::wait4(pid, &raw mut status, libc::WNOHANG, &raw mut usage) };
    let pid = Errno::result(pid)?;
    Ok((pid != 0).then_some(Reaped { pid, status, usage }))
}

/// A descriptor that names the process which has this pid now, close-on-exec.
pub(crate) fn open_pidfd(pid: libc::pid_t) -> Result<OwnedFd, Errno> {
    // SAFETY: takes integers only.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0_u32) };
    let fd = super::int_result(fd)?;
    // SAFETY: the kernel just installed `fd` for us and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The children of this thread that have ended and are not reaped yet. Where the kernel does not list
/// children, only the first one.
pub(crate) fn ended_children() -> Vec<libc::pid_t> {
    match std::fs::read_to_string("/proc/thread-self/children") {
        Ok(list) => {
            let children = list.split_whitespace().filter_map(|pid| pid.parse().ok());
            let ended = |pid: &libc::pid_t| ended(Id::Pid(Pid::from_raw(*pid))).is_some();
            children.filter(ended).collect()
        }
        Err(_) => ended(Id::All).into_iter().collect(),
    }
}

/// One of these children that has ended and is not reaped yet; `None` when there is none.
fn ended(children: Id<'_>) -> Option<libc::pid_t> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    waitid(children, flags).ok()?.pid().map(Pid::as_raw)
}

/// Sends a signal to the process a pidfd names.
pub(crate) fn signal_pidfd(pidfd: BorrowedFd<'_>, signal: libc::c_int) -> Result<(), Errno> {
    // SAFETY: the descriptor is open by `BorrowedFd`; a NULL siginfo means the default one.
    let result = unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signal,
            0_usize,
            0_u32,
        )
    };
    super::int_result(result).map(drop)
}

/// Sends a signal by pid; `-1` means every process that may be signalled, but not the caller and not
/// the pid namespace's init.
pub(crate) fn signal_pid(pid: libc::pid_t, signal: libc::c_int) -> Result<(), Errno> {
    // SAFETY: `kill` takes any pid and signal and touches no memory of ours.
    let result = unsafe { libc::kill(pid, signal) };
    Errno::result(result).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::zombie_processes, reason = "what is tested tells of zombies")]
    fn who_has_ended_is_told_of_each_and_who_runs_of_none() {
        let child = |script: &str| {
            #[expect(clippy::disallowed_methods, reason = "a test")]
            let mut command = std::process::Command::new("sh");
            let started = command.args(["-c", script]).spawn().unwrap();
            libc::pid_t::try_from(started.id()).unwrap()
        };
        let running = child("exec sleep 100");
        let mut dead = [(); 3].map(|()| child("exit 3")).to_vec();
        // The first to end is not reaped before the others are told of.
        while ended_children().len() < dead.len() {
            std::thread::yield_now();
        }
        let mut told = ended_children();
        told.sort_unstable();
        dead.sort_unstable();
        assert_eq!(told, dead);
        assert!(reap(dead[1]).unwrap().is_some());
        assert_eq!(ended_children().len(), 2);
        signal_pid(running, libc::SIGKILL).unwrap();
        while !ended_children().contains(&running) {
            std::thread::yield_now();
        }
        for pid in [dead[0], dead[2], running] {
            assert!(reap(pid).unwrap().is_some());
        }
        assert!(ended_children().is_empty());
    }
}
