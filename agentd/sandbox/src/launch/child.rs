//! The first process of a jail, after the fork: builds the jail around itself, forks the command, and
//! becomes its reaper. Nothing here allocates, formats, locks or logs.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use super::{
    failure::{Failure, Stage},
    leader,
    message::Report,
    oom,
    prepare::{PreparedJail, Stdio},
    reaper, root,
};
use crate::{
    policy::Tier,
    sys::{
        caps, exec,
        files::{self, Resolve},
        fork::{self, ForkedProcess},
        ids, net, signals, socket, terminal,
    },
};

const FAILED: i32 = 125;

/// Runs the jail. `errors` carries records (see [`super::failure`]) and closes when the command has been
/// executed, or when it never will be.
pub(super) fn enter(jail: &PreparedJail, errors: &OwnedFd, proof: &ForkedProcess) -> ! {
    match set_up(jail, errors, proof) {
        Ok((leader, signals)) => reaper::run(jail, (leader, &signals)),
        Err(failure) => fail(errors, failure),
    }
}

/// Reports a failure and ends.
pub(super) fn fail(errors: &OwnedFd, failure: Failure) -> ! {
    // If even this fails the launcher sees the end without a report, which it treats as a failure too.
    if files::write_once(errors.as_fd(), &failure.encode()).is_err() {
        exec::exit_now(FAILED);
    }
    exec::exit_now(FAILED)
}

fn set_up(
    jail: &PreparedJail,
    errors: &OwnedFd,
    proof: &ForkedProcess,
) -> Result<(libc::pid_t, OwnedFd), Failure> {
    // ORDER: the launcher's end of the conversation was copied by the fork; while init holds it, the
    // launcher's death shows on no descriptor.
    files::close_number(jail.launcher_end.as_raw_fd()).map_err(Failure::at(Stage::Attributes))?;
    // Whoever kills launchers by their name must not hit the one who cleans up after them.
    caps::set_name(c"agentd-init").map_err(Failure::at(Stage::Attributes))?;
    // ORDER: then at once, so that a launcher that dies during set-up takes this process along.
    if jail.tier > Tier::Nested {
        caps::set_parent_death_signal().map_err(Failure::at(Stage::Attributes))?;
    } else {
        // Without a pid namespace this process must outlive the launcher long enough to kill the tree:
        // it watches its end of the conversation instead.
        caps::set_subreaper().map_err(Failure::at(Stage::Attributes))?;
    }
    if jail.tier == Tier::Rootless {
        map_user((&jail.uid_map, &jail.gid_map)).map_err(Failure::at(Stage::UserNamespace))?;
    }
    // ORDER: into the group before anything is built or forked, so that all of it is limited, counted and
    // killed with it; and while there is the right to make the namespace, whose root the group becomes.
    let cgroup = Failure::at(Stage::Cgroup);
    jail.resources.entry.enter_as_init().map_err(&cgroup)?;
    if jail.tier > Tier::Nested {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWCGROUP).map_err(&cgroup)?;
    }
    // ORDER: opened while `/proc` is the host's and there is the right to.
    let oom_score = oom::open(jail.tier);
    if jail.tier > Tier::Nested {
        if jail.has_new_net() {
            net::loopback_up().map_err(Failure::at(Stage::Loopback))?;
        }
        net::set_hostname(&jail.hostname).map_err(Failure::at(Stage::Hostname))?;
        nix::sys::stat::umask(nix::sys::stat::Mode::empty());
        root::build(jail)?;
    }
    // ORDER: the terminal is made where the command will see it, and while its owner can still be set.
    let slave = own_terminal(jail).map_err(Failure::at(Stage::Terminal))?;
    give_up_privilege(jail)?;
    let children = signals::bit(libc::SIGCHLD);
    let failed = Failure::at(Stage::Fork);
    // Init never dies of a signal that can be blocked; its leader starts with an empty mask.
    signals::set_mask(u64::MAX).map_err(&failed)?;
    let signals = signals::signalfd(children).map_err(&failed)?;
    oom::prefer_commands(oom_score.as_ref());
    let init = nix::unistd::getpid();
    let pid = fork::fork_again(proof).map_err(&failed)?;
    if pid == 0 {
        leader::run(jail, (init, slave.as_ref()), errors);
    }
    oom::spare_init(oom_score.as_ref(), &jail.oom_score);
    Ok((pid, signals))
}

/// Makes the terminal among the jail's own, if there is to be one. Its master goes to the launcher at once:
/// this process keeps neither side.
fn own_terminal(jail: &PreparedJail) -> Result<Option<OwnedFd>, nix::errno::Errno> {
    let size = match &jail.resources.stdio {
        Stdio::Pipes(_) | Stdio::HostTerminal(_) => return Ok(None),
        Stdio::Terminal(size) => *size,
    };
    let master = files::open(
        None,
        c"/dev/pts/ptmx",
        terminal::OPEN_FLAGS,
        Resolve::NoSymlinks,
    )?;
    let slave = terminal::open_peer(master.as_fd())?;
    terminal::set_size(master.as_fd(), size)?;
    if let Some((uid, gid)) = jail.switch_to {
        nix::unistd::fchown(slave.as_fd(), Some(uid.into()), Some(gid.into()))?;
    }
    socket::send_with_fds(
        jail.init_end.as_fd(),
        &Report::Terminal.encode(),
        &[master.as_fd()],
    )?;
    Ok(Some(slave))
}

/// Maps the one user that this process is; nobody else exists in the namespace.
pub(super) fn map_user((uid_map, gid_map): (&[u8], &[u8])) -> Result<(), nix::errno::Errno> {
    // The launcher is undumpable, and so is its copy; the files below belong to root then.
    caps::set_dumpable()?;
    // The kernel lets an unprivileged process map its group only once `setgroups` is off.
    for (path, content) in [
        (c"/proc/self/setgroups", &b"deny"[..]),
        (c"/proc/self/uid_map", uid_map),
        (c"/proc/self/gid_map", gid_map),
    ] {
        // `/proc/self` is a link of the kernel's own; nothing else is followed.
        let file = nix::fcntl::open(
            path,
            nix::fcntl::OFlag::O_WRONLY | nix::fcntl::OFlag::O_CLOEXEC,
            nix::sys::stat::Mode::empty(),
        )?;
        files::write_once(file.as_fd(), content)?;
    }
    Ok(())
}

fn give_up_privilege(jail: &PreparedJail) -> Result<(), Failure> {
    let capabilities = Failure::at(Stage::Capabilities);
    // ORDER: the bounding set needs CAP_SETPCAP, which the change of user takes away. Without that
    // capability (unprivileged, nested) there is nothing to drop: `no_new_privs` keeps it so.
    match caps::drop_bounding_set() {
        Ok(()) => {}
        Err(nix::errno::Errno::EPERM) if jail.tier == Tier::Nested => {}
        Err(errno) => return Err(capabilities(errno)),
    }
    if let Some((uid, gid)) = jail.switch_to {
        // ORDER: groups before user: afterwards there is no right to change them.
        let identity = Failure::at(Stage::Identity);
        ids::clear_groups().map_err(&identity)?;
        ids::set_gid(gid).map_err(&identity)?;
        ids::set_uid(uid).map_err(&identity)?;
    }
    caps::drop_all().map_err(&capabilities)?;
    let attributes = Failure::at(Stage::Attributes);
    caps::set_no_new_privs().map_err(&attributes)?;
    // Nothing in the jail can look into init, which still holds the launcher's memory.
    caps::set_undumpable().map_err(&attributes)?;
    if jail.tier > Tier::Nested {
        // ORDER: again, since the change of user cleared it; then make sure the launcher did not die in
        // between.
        caps::set_parent_death_signal().map_err(&attributes)?;
    }
    let mut watch = [signals::readable(jail.init_end.as_raw_fd())];
    match signals::poll(&mut watch, 0) {
        Ok(0) => Ok(()),
        Ok(_) => Err(attributes(nix::errno::Errno::EPIPE)),
        Err(errno) => Err(attributes(errno)),
    }
}
