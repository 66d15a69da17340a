//! The namespaces of a session. A short-lived process, the anchor, is forked into them, prepares them and
//! hands descriptors of them to the launcher. Nothing else keeps them alive, so they are gone when the
//! launcher has closed the descriptors (or is gone itself) and the last command in them has ended.
//!
//! What is shared by the commands of a session: the loopback interface, when the profile gives no network,
//! and a `/tmp`. Everything else is new for each command.

use std::{
    ffi::CString,
    os::fd::{AsFd, AsRawFd, OwnedFd},
    path::Path,
};

use nix::{errno::Errno, fcntl::OFlag, sys::stat::Mode};

use super::{
    child,
    failure::{Failure, Stage},
    prepare::c_path,
};
use crate::{
    policy::{NetMode, Tier, TmpPolicy},
    sys::{
        caps, exec,
        files::{self, Resolve},
        fork::{self, Forked},
        mount::{self, NO_DEV, NO_SUID},
        net, signals, socket, wait,
    },
};

/// The anchor does what a jail's init does, and less.
const LIMIT_MS: i32 = 10_000;

/// Namespaces that outlive a command.
#[derive(Debug)]
pub(crate) struct Namespaces {
    /// Owner of the others, on the rootless tier.
    pub(super) user: Option<OwnedFd>,
    /// With a loopback interface that is up; `None` when the network is the host's.
    pub(super) net: Option<OwnedFd>,
    /// The host's mounts, and the session's temporary file system.
    pub(super) mount: OwnedFd,
}

/// What a session's namespaces are to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Room<'path> {
    /// Rootless or host-root.
    pub(crate) tier: Tier,
    /// Network of the commands.
    pub(crate) net: NetMode,
    /// Where the temporary file system is mounted: an existing directory of the host.
    pub(crate) tmp: &'path Path,
    /// Its size.
    pub(crate) size: TmpPolicy,
}

/// Everything that the anchor needs, made before the fork.
struct Prepared {
    tier: Tier,
    net: NetMode,
    tmp: CString,
    size: CString,
    inodes: CString,
    uid_map: Vec<u8>,
    gid_map: Vec<u8>,
}

impl Room<'_> {
    /// Makes the namespaces. Waits for it, seconds at most. The process must have one thread.
    pub(crate) fn make(self) -> Result<Namespaces, Failure> {
        let failed = Failure::at(Stage::SessionRoom);
        let prepared = self.prepare().map_err(|_nul| failed(Errno::EINVAL))?;
        let (ours, theirs) = socket::seqpacket_pair().map_err(&failed)?;
        match fork::clone_process(self.flags(), None).map_err(Failure::at(Stage::Fork))? {
            Forked::Child(_) => anchor(&prepared, &theirs),
            Forked::Parent { pid, pidfd } => {
                drop(theirs);
                let result = self.receive(&ours);
                // It has said all it has to say. ESRCH: it has ended already.
                wait::signal_pidfd(pidfd.as_fd(), libc::SIGKILL).unwrap_or_default();
                reap(pid).map_err(&failed)?;
                result
            }
        }
    }

    fn prepare(self) -> Result<Prepared, std::ffi::NulError> {
        let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
        Ok(Prepared {
            tier: self.tier,
            net: self.net,
            tmp: c_path(self.tmp)?,
            size: CString::new(self.size.size_bytes.to_string())?,
            inodes: CString::new(self.size.inodes.to_string())?,
            uid_map: format!("{uid} {uid} 1").into_bytes(),
            gid_map: format!("{gid} {gid} 1").into_bytes(),
        })
    }

    fn flags(self) -> libc::c_int {
        let mut flags = libc::CLONE_NEWNS;
        if self.tier == Tier::Rootless {
            flags |= libc::CLONE_NEWUSER;
        }
        if self.net == NetMode::None {
            flags |= libc::CLONE_NEWNET;
        }
        flags
    }

    /// Takes what the anchor hands over: mount, then net, then user namespace, as far as there are any.
    fn receive(self, socket: &OwnedFd) -> Result<Namespaces, Failure> {
        let failed = Failure::at(Stage::SessionRoom);
        let mut watch = [signals::readable(socket.as_raw_fd())];
        if signals::poll(&mut watch, LIMIT_MS).map_err(&failed)? == 0 {
            return Err(failed(Errno::ETIMEDOUT));
        }
        let mut bytes = [0; 16];
        let received = socket::recv_with_fds(socket.as_fd(), &mut bytes).map_err(&failed)?;
        if received.fds_lost {
            return Err(failed(Errno::EMFILE));
        }
        if let Some(failure) = bytes.get(..received.length).and_then(Failure::decode) {
            return Err(failure);
        }
        let mut fds = received.fds.into_iter();
        // An end without a word: it was killed.
        let mount = fds.next().ok_or_else(|| failed(Errno::EIO))?;
        let mut take = |wanted: bool| match (wanted, fds.next()) {
            (true, None) => Err(failed(Errno::EIO)),
            (true, fd @ Some(_)) => Ok(fd),
            (false, _) => Ok(None),
        };
        let net = take(self.net == NetMode::None)?;
        let user = take(self.tier == Tier::Rootless)?;
        Ok(Namespaces { user, net, mount })
    }
}

/// Reaps a process that is certain to end at once.
pub(super) fn reap(pid: libc::pid_t) -> Result<(), Errno> {
    while wait::reap(pid)?.is_none() {
        signals::poll(&mut [], 1)?;
    }
    Ok(())
}

/// The anchor: system calls only.
fn anchor(room: &Prepared, socket: &OwnedFd) -> ! {
    let outcome = furnish(room).and_then(|()| hand_over(room, socket));
    if let Err(failure) = outcome {
        // If even this fails the launcher sees an end without a word.
        socket::send_with_fds(socket.as_fd(), &failure.encode(), &[]).unwrap_or_default();
        exec::exit_now(1);
    }
    exec::exit_now(0)
}

fn furnish(room: &Prepared) -> Result<(), Failure> {
    caps::set_parent_death_signal().map_err(Failure::at(Stage::Attributes))?;
    if room.tier == Tier::Rootless {
        child::map_user((&room.uid_map, &room.gid_map))
            .map_err(Failure::at(Stage::UserNamespace))?;
    }
    if room.net == NetMode::None {
        net::loopback_up().map_err(Failure::at(Stage::Loopback))?;
    }
    let failed = Failure::at(Stage::SessionRoom);
    // ORDER: cut off from the host before anything is mounted, or the host would see it.
    mount::make_all_slave().map_err(&failed)?;
    let options = [
        (c"mode", c"1777"),
        (c"size", room.size.as_c_str()),
        (c"nr_inodes", room.inodes.as_c_str()),
    ];
    let tmpfs = mount::new_filesystem(c"tmpfs", &options, NO_SUID | NO_DEV).map_err(&failed)?;
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    let place = files::open(None, &room.tmp, flags, Resolve::NoSymlinks).map_err(&failed)?;
    mount::attach(tmpfs.as_fd(), place.as_fd()).map_err(&failed)
}

fn hand_over(room: &Prepared, socket: &OwnedFd) -> Result<(), Failure> {
    let failed = Failure::at(Stage::SessionRoom);
    // `/proc/self` and what is in `ns` are links of the kernel's own.
    let open = |path: &std::ffi::CStr| {
        nix::fcntl::open(path, OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty()).map_err(&failed)
    };
    let mount = open(c"/proc/self/ns/mnt")?;
    let net = match room.net {
        NetMode::None => Some(open(c"/proc/self/ns/net")?),
        NetMode::Host => None,
    };
    let user = match room.tier {
        Tier::Rootless => Some(open(c"/proc/self/ns/user")?),
        Tier::HostRoot | Tier::Nested => None,
    };
    let mut fds = [mount.as_fd(); 3];
    let mut count: usize = 1;
    for fd in [&net, &user].into_iter().flatten() {
        if let Some(slot) = fds.get_mut(count) {
            *slot = fd.as_fd();
            count = count.saturating_add(1);
        }
    }
    let fds = fds.get(..count).unwrap_or_default();
    socket::send_with_fds(socket.as_fd(), b"!", fds).map_err(&failed)
}
