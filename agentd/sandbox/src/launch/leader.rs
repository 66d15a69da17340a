//! The process that becomes the command. System calls only; ends in `execve`.

use std::os::fd::{AsFd, OwnedFd};

use nix::{errno::Errno, sys::resource::setrlimit, sys::stat::Mode, unistd::Pid};

use super::{
    child::fail,
    failure::{Failure, Notice, Stage},
    prepare::{PreparedJail, Stdio},
};
use crate::sys::{caps, exec, files, landlock, seccomp, signals, terminal};

/// Where a command that reports its state finds the pipe for it, across `execve`. High, so that no
/// script meets it by chance; the launcher keeps the number free (see [`reserve_state_fd`]).
pub(crate) const STATE_FD: i32 = 254;

/// Occupies [`STATE_FD`] in this process, so that no descriptor that a leader still needs has that
/// number by chance. To be called once, before any jail is made.
pub(crate) fn reserve_state_fd() -> Result<(), Errno> {
    let null = nix::fcntl::open(
        c"/dev/null",
        nix::fcntl::OFlag::O_RDONLY | nix::fcntl::OFlag::O_CLOEXEC,
        Mode::empty(),
    )?;
    files::reserve(null.as_fd(), STATE_FD)
}

/// Applies the last layers and executes the program. From init come its own pid and the terminal.
pub(super) fn run(jail: &PreparedJail, from_init: (Pid, Option<&OwnedFd>), errors: &OwnedFd) -> ! {
    match confine_and_execute(jail, from_init, errors) {
        Ok(never) => match never {},
        Err(failure) => fail(errors, failure),
    }
}

fn confine_and_execute(
    jail: &PreparedJail,
    (init, slave): (Pid, Option<&OwnedFd>),
    errors: &OwnedFd,
) -> Result<std::convert::Infallible, Failure> {
    // ORDER: first, so that nothing of the command is outside of its group.
    let cgroup = Failure::at(Stage::Cgroup);
    jail.resources.entry.enter_as_leader().map_err(cgroup)?;
    // A session and process group of its own, and so no controlling terminal.
    nix::unistd::setsid().map_err(Failure::at(Stage::Session))?;
    // The command dies with its init, which matters where there is no pid namespace.
    let attributes = Failure::at(Stage::Attributes);
    caps::die_with(init).map_err(&attributes)?;
    nix::sys::stat::umask(Mode::from_bits_truncate(jail.umask));
    let stdio = Failure::at(Stage::Stdio);
    set_stdio(jail, slave)?;
    // ORDER: everything above 2, also what the launcher inherited from whoever started it, is gone
    // after `execve`; the error pipe is among it and so tells the launcher of the success.
    files::close_on_exec_from(3).map_err(&stdio)?;
    if let Some(state) = &jail.resources.state {
        // ORDER: after the mark above, since this one stays; before the limits, which may be lower
        // than the number.
        files::duplicate_to(state.as_fd(), STATE_FD).map_err(&stdio)?;
    }
    enter_directory(jail, errors)?;
    for (index, limit) in jail.rlimits.iter().enumerate() {
        setrlimit(limit.resource, limit.soft, limit.hard)
            .map_err(Failure::at_index(Stage::Rlimit, index))?;
    }
    signals::reset_all().map_err(&stdio)?;
    // ORDER: Landlock before seccomp, whose filter refuses the Landlock calls.
    landlock::restrict_self(jail.ruleset.as_fd(), jail.landlock_flags)
        .map_err(Failure::at(Stage::Landlock))?;
    // ORDER: seccomp last: what follows are two kinds of call, which it allows.
    seccomp::install(&jail.filter).map_err(Failure::at(Stage::Seccomp))?;
    // ORDER: the last thing before `execve`: whoever is killed earlier was never the command.
    files::write_once(errors.as_fd(), &Notice::Executing.encode())
        .map_err(Failure::at(Stage::Exec))?;
    Err(Failure::at(Stage::Exec)(execute(jail)))
}

/// Standard input, output and error: the descriptors that came with the request, or the terminal, which
/// then is the controlling one of the session that this process has just made.
fn set_stdio(jail: &PreparedJail, slave: Option<&OwnedFd>) -> Result<(), Failure> {
    let failed = Failure::at(Stage::Stdio);
    let slave = match &jail.resources.stdio {
        Stdio::Pipes(pipes) => {
            for (fd, target) in pipes.iter().zip(0..) {
                files::duplicate_to(fd.as_fd(), target).map_err(&failed)?;
            }
            return Ok(());
        }
        Stdio::Terminal(_) => slave,
        Stdio::HostTerminal(slave) => Some(slave),
    };
    let no_terminal = Failure::at(Stage::Terminal);
    let slave = slave.ok_or(Errno::ENOTTY).map_err(&no_terminal)?;
    terminal::make_controlling(slave.as_fd()).map_err(&no_terminal)?;
    for target in 0..3 {
        files::duplicate_to(slave.as_fd(), target).map_err(&failed)?;
    }
    Ok(())
}

/// The working directory, or where there is one the directory to fall back to.
fn enter_directory(jail: &PreparedJail, errors: &OwnedFd) -> Result<(), Failure> {
    let failed = Failure::at(Stage::Cwd);
    match (nix::unistd::chdir(jail.cwd.as_c_str()), &jail.fallback_cwd) {
        (Ok(()), _) => Ok(()),
        (Err(errno), None) => Err(failed(errno)),
        (Err(_), Some(fallback)) => {
            nix::unistd::chdir(fallback.as_c_str()).map_err(&failed)?;
            files::write_once(errors.as_fd(), &Notice::CwdFellBack.encode()).map_err(&failed)
        }
    }
}

/// Tries the candidates as a shell does: the first one that exists wins, and a file that exists but may
/// not be executed is remembered.
fn execute(jail: &PreparedJail) -> Errno {
    let mut verdict = Errno::ENOENT;
    for program in &jail.programs {
        let errno = exec::execve(program, &jail.argv, &jail.envp);
        if errno == Errno::EACCES {
            verdict = errno;
        } else if errno != Errno::ENOENT && errno != Errno::ENOTDIR {
            return errno;
        }
    }
    verdict
}
