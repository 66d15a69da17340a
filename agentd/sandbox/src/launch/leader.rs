//! The process that becomes the command. System calls only; ends in `execve`.

use std::os::fd::{AsFd, OwnedFd};

use nix::{errno::Errno, sys::resource::setrlimit, sys::stat::Mode};

use super::{
    child::fail,
    failure::{Failure, Stage},
    prepare::PreparedJail,
};
use crate::sys::{caps, exec, files, landlock, seccomp, signals};

/// Applies the last layers and executes the program.
pub(super) fn run(jail: &PreparedJail, errors: &OwnedFd) -> ! {
    match confine_and_execute(jail) {
        Ok(never) => match never {},
        Err(failure) => fail(errors, failure),
    }
}

fn confine_and_execute(jail: &PreparedJail) -> Result<std::convert::Infallible, Failure> {
    // ORDER: first, so that nothing of the command is outside of its group.
    let cgroup = Failure::at(Stage::Cgroup);
    jail.resources.entry.enter_as_leader().map_err(cgroup)?;
    // A session and process group of its own, and so no controlling terminal.
    nix::unistd::setsid().map_err(Failure::at(Stage::Session))?;
    // The command dies with its init, which matters where there is no pid namespace.
    caps::set_parent_death_signal().map_err(Failure::at(Stage::Attributes))?;
    nix::sys::stat::umask(Mode::from_bits_truncate(jail.umask));
    let stdio = Failure::at(Stage::Stdio);
    for (fd, target) in jail.resources.stdio.iter().zip(0..) {
        files::duplicate_to(fd.as_fd(), target).map_err(&stdio)?;
    }
    nix::unistd::chdir(jail.cwd.as_c_str()).map_err(Failure::at(Stage::Cwd))?;
    for (index, limit) in jail.rlimits.iter().enumerate() {
        setrlimit(limit.resource, limit.soft, limit.hard)
            .map_err(Failure::at_index(Stage::Rlimit, index))?;
    }
    // ORDER: everything above 2, also what the launcher inherited from whoever started it, is gone
    // after `execve`; the error pipe is among it and so tells the launcher of the success.
    files::close_on_exec_from(3).map_err(&stdio)?;
    signals::reset_all().map_err(&stdio)?;
    // ORDER: Landlock before seccomp, whose filter refuses the Landlock calls.
    landlock::restrict_self(jail.ruleset.as_fd(), jail.landlock_flags)
        .map_err(Failure::at(Stage::Landlock))?;
    // ORDER: seccomp last: what follows is one kind of call, which it allows.
    seccomp::install(&jail.filter).map_err(Failure::at(Stage::Seccomp))?;
    Err(Failure::at(Stage::Exec)(execute(jail)))
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
