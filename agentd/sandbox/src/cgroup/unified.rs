//! The unified hierarchy as the only one: a group may hold processes or hand controllers to groups
//! below it, but not both. So whoever lives in the daemon's own group has to move into a leaf first.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd},
    path::{Path, PathBuf},
};

use nix::errno::Errno;

use super::{
    group::Placing,
    knob,
    obstacle::Obstacle,
    remove::{self, own_name},
};
use crate::{
    claim::Claim,
    sys::{
        exec,
        fork::{self, Forked},
        signals, wait,
    },
};

/// Controllers that are needed. Not `cpu`: CPU time is counted without it, and handing it out would
/// change how the host schedules.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// The leaf for the daemon's own processes.
const SUPERVISOR: &str = "agentd-supervisor";

/// How often the leaf is made again.
const TRIES: u32 = 10;

/// The daemon's own group, and the leaf below it that its processes were moved to.
#[derive(Debug)]
pub(super) struct Supervisor {
    base: PathBuf,
    /// Controllers that it handed out.
    enabled: Vec<&'static str>,
}

/// What stands after an attempt that worked.
#[derive(Debug)]
pub(super) struct Unified {
    pub(super) root: PathBuf,
    pub(super) claim: Claim,
    pub(super) placing: Placing,
    pub(super) supervisor: Option<Supervisor>,
}

/// Tries to make groups below `base`; of the processes in it only those in `own` may be moved. Everything is undone when that fails.
pub(super) fn try_below(base: &Path, own: &[i32]) -> Result<Unified, Obstacle> {
    let failed = |what: &str, error: &io::Error| Obstacle::of(what, base, error);
    remove::remove_stale(base);
    remove_stale_leaf(base);
    let root = base.join(own_name());
    let claim = Claim::make(&root).map_err(|error| failed("no group can be made in", &error))?;
    let supervisor = match hand_out(base, own) {
        Ok(supervisor) => supervisor,
        Err(text) => {
            remove::remove_one(&root).unwrap_or_default();
            return Err(text);
        }
    };
    let tried = enable(&root)
        .and_then(|()| probe(&root))
        .map_err(|error| failed("limits cannot be set below", &error));
    match tried {
        Ok(placing) => Ok(Unified {
            root,
            claim,
            placing,
            supervisor,
        }),
        Err(text) => {
            remove::remove_tree(&root).unwrap_or_default();
            if let Some(supervisor) = supervisor {
                supervisor.leave();
            }
            Err(text)
        }
    }
}

/// Hands the controllers to the groups below `base`.
fn hand_out(base: &Path, own: &[i32]) -> Result<Option<Supervisor>, Obstacle> {
    let error = match enable(base) {
        Ok(()) => return Ok(None),
        Err(error) => error,
    };
    if error.raw_os_error() != Some(libc::EBUSY) {
        return Err(Obstacle::of(
            "controllers cannot be handed out by",
            base,
            &error,
        ));
    }
    let all = knob::processes(base)
        .map_err(|error| Obstacle::of("nobody can see who is in", base, &error))?;
    // Others' processes are not ours to move.
    if let Some(other) = all.iter().find(|pid| !own.contains(pid)) {
        return Err(Obstacle::other(format!(
            "{} also holds other processes than agentd's, such as {other}",
            base.display()
        )));
    }
    Supervisor::enter(base, &all)
        .map(Some)
        .map_err(|error| Obstacle::of("agentd cannot be moved to a leaf of", base, &error))
}

/// Controllers that are not handed to the groups below yet.
fn missing(group: &Path) -> Vec<&'static str> {
    let is_on = |name: &&str| knob::lists(group, "cgroup.subtree_control", name);
    CONTROLLERS
        .into_iter()
        .filter(|name| !is_on(name))
        .collect()
}

/// Hands the missing controllers to the groups below.
fn enable(group: &Path) -> io::Result<()> {
    for controller in missing(group) {
        knob::write(group, "cgroup.subtree_control", &format!("+{controller}"))?;
    }
    Ok(())
}

impl Supervisor {
    fn enter(base: &Path, processes: &[i32]) -> io::Result<Self> {
        let leaf = base.join(SUPERVISOR);
        let supervisor = Self {
            base: base.to_owned(),
            enabled: missing(base),
        };
        let moved = occupy(&leaf, processes).and_then(|()| enable(base));
        match moved {
            Ok(()) => Ok(supervisor),
            Err(error) => {
                supervisor.leave();
                Err(error)
            }
        }
    }

    /// Moves the processes back and removes the leaf. For the end: what fails is left to whoever made
    /// the daemon's group.
    pub(super) fn leave(self) {
        let leaf = self.base.join(SUPERVISOR);
        for controller in self.enabled {
            // EBUSY while somebody else still has a group there.
            knob::write(
                &self.base,
                "cgroup.subtree_control",
                &format!("-{controller}"),
            )
            .unwrap_or_default();
        }
        let processes = knob::processes(&leaf).unwrap_or_default();
        let left = move_all(&processes, &self.base).and_then(|()| remove::remove_one(&leaf));
        if let Err(error) = left {
            crate::launcher::complain(format_args!("{} remains: {error}", leaf.display()));
        }
    }
}

/// Makes the leaf and moves there. An agentd that starts beside may take it for one that was left behind
/// while it is still empty.
fn occupy(leaf: &Path, processes: &[i32]) -> io::Result<()> {
    let mut tries = TRIES;
    loop {
        match fs::create_dir(leaf) {
            // Of an earlier agentd that was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
        match move_all(processes, leaf) {
            Err(error) if is_gone(&error) && tries > 0 => tries = tries.saturating_sub(1),
            result => return result,
        }
    }
}

/// The group was removed before or while it was written to.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENODEV))
}

/// Removes the leaf of an agentd that is gone: nobody lives in it.
fn remove_stale_leaf(base: &Path) {
    // EBUSY: somebody does.
    remove::remove_one(&base.join(SUPERVISOR)).unwrap_or_default();
}

fn move_all(processes: &[i32], group: &Path) -> io::Result<()> {
    for pid in processes {
        match knob::write(group, "cgroup.procs", &pid.to_string()) {
            // It has ended meanwhile.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            result => result?,
        }
    }
    Ok(())
}

/// Makes a group with limits as an execution's, sees how a process gets in, and removes it.
fn probe(root: &Path) -> io::Result<Placing> {
    let group = root.join("probe");
    fs::create_dir(&group)?;
    let limited = knob::write(&group, "memory.max", "1073741824")
        .and_then(|()| knob::write(&group, "pids.max", "64"));
    let placing = match fs::File::open(&group) {
        Ok(directory) if clone_into(directory.as_fd()).is_ok() => Placing::Clone,
        Ok(_) | Err(_) => Placing::Write,
    };
    limited.and_then(|()| remove_soon(&group))?;
    Ok(placing)
}

/// The kernel lets go of the last process a moment after it was reaped.
fn remove_soon(group: &Path) -> io::Result<()> {
    let mut result = remove::remove_one(group);
    for _ in 0..100 {
        if result.is_ok() {
            break;
        }
        signals::poll(&mut [], 1)?;
        result = remove::remove_one(group);
    }
    result
}

/// Starts a process in the group, which ends at once.
fn clone_into(group: BorrowedFd<'_>) -> Result<(), Errno> {
    match fork::clone_process(0, Some(group))? {
        Forked::Child(_) => exec::exit_now(0),
        Forked::Parent { pid, pidfd } => {
            let mut ended = [signals::readable(pidfd.as_raw_fd())];
            // It does nothing but end.
            while matches!(wait::reap(pid), Ok(None)) {
                signals::poll(&mut ended, 1_000)?;
            }
            Ok(())
        }
    }
}
