//! User namespaces that exist only to map the ids of a mount.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
};

use nix::errno::Errno;

use crate::{
    plan::IdMap,
    sys::{
        caps, exec, files,
        fork::{self, Forked},
        signals, wait,
    },
};

/// Namespaces made so far. Bounded: the pool of throw-away ids is.
#[derive(Debug, Default)]
pub(crate) struct IdMaps {
    made: BTreeMap<IdMap, Rc<OwnedFd>>,
}

/// Namespaces kept; each one is a descriptor and a little kernel memory.
const KEPT: usize = 64;

impl IdMaps {
    /// The namespace for a mapping.
    pub(crate) fn get(&mut self, map: IdMap) -> Result<Rc<OwnedFd>, Errno> {
        if let Some(known) = self.made.get(&map) {
            return Ok(Rc::clone(known));
        }
        if self.made.len() >= KEPT {
            self.made.clear();
        }
        let namespace = Rc::new(make(map)?);
        self.made.insert(map, Rc::clone(&namespace));
        Ok(namespace)
    }
}

/// A process is needed for as long as it takes to open its namespace.
fn make(map: IdMap) -> Result<OwnedFd, Errno> {
    let launcher = nix::unistd::getpid();
    match fork::clone_process(libc::CLONE_NEWUSER, None)? {
        Forked::Child(_) => {
            // It must neither outlive the launcher nor hold any of its descriptors.
            if caps::die_with(launcher).is_err() || files::close_all_but(&[]).is_err() {
                exec::exit_now(1);
            }
            loop {
                if signals::poll(&mut [], -1).is_err() {
                    exec::exit_now(1);
                }
            }
        }
        Forked::Parent { pid, pidfd } => {
            let opened = write_maps(pid, map)
                .and_then(|()| File::open(format!("/proc/{pid}/ns/user")))
                .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
            let killed = wait::signal_pidfd(pidfd.as_fd(), libc::SIGKILL);
            // The KILL is certain, so this wait is short.
            while killed.is_ok() && wait::reap(pid)?.is_none() {
                signals::poll(&mut [], 1)?;
            }
            killed?;
            opened.map(OwnedFd::from)
        }
    }
}

fn write_maps(pid: libc::pid_t, map: IdMap) -> std::io::Result<()> {
    // For a mount the "inside" of the map is the id on disk, and the "outside" the id that is seen.
    fs::write(
        format!("/proc/{pid}/uid_map"),
        format!("{} {} 1", map.owner_uid, map.inside),
    )?;
    fs::write(
        format!("/proc/{pid}/gid_map"),
        format!("{} {} 1", map.owner_gid, map.inside),
    )
}
