//! The facts that a decision needs: about the workspace, the caller's home, mapped ids.

use std::{
    fs,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    sys::stat::{FileStat, SFlag, fstat},
};

use crate::{
    launch::{IdMaps, open_name},
    plan::IdMap,
    policy::{CgroupFacts, HostFacts, Invocation, Refusal, SessionDirs, Tier},
    probe::Host,
    sys::mount::{self, Depth},
};

use super::args::Args;

/// What stays the same for the launcher's life.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// The host as tried.
    pub(crate) host: Host,
    /// Its tier.
    pub(crate) tier: Tier,
    /// The command line.
    pub(crate) args: Args,
    /// Its control groups.
    pub(crate) cgroup: CgroupFacts,
}

/// What is reserved for one execution.
#[derive(Debug)]
pub(crate) struct Reserved {
    /// Throw-away uid.
    pub(crate) uid: u32,
    /// Private directory on the nested tier.
    pub(crate) tmp: PathBuf,
    /// Directories of its session, if it is in one.
    pub(crate) dirs: Option<SessionDirs>,
}

impl Reserved {
    /// For a command outside any session.
    pub(crate) fn own(uid: u32, tmp: impl Into<PathBuf>) -> Self {
        Self {
            uid,
            tmp: tmp.into(),
            dirs: None,
        }
    }
}

/// Gathers the facts for a request.
pub(crate) fn gather(
    surroundings: &Surroundings,
    invocation: &Invocation,
    reserved: &Reserved,
    id_maps: &mut IdMaps,
) -> Result<HostFacts, Refusal> {
    let (workspace, stat) = open_workspace(&invocation.workspace)?;
    let map = IdMap {
        owner_uid: stat.st_uid,
        owner_gid: stat.st_gid,
        inside: reserved.uid,
    };
    let host = &surroundings.host;
    let idmap = surroundings.tier == Tier::HostRoot && can_map(&workspace, map, id_maps).is_ok();
    Ok(HostFacts {
        idmap,
        ephemeral_uid: reserved.uid,
        workspace_uid: stat.st_uid,
        workspace_gid: stat.st_gid,
        home: home_of(user_at_home(host, invocation)),
        nested_tmp: reserved.tmp.clone(),
        session: reserved.dirs.clone(),
        ..general(surroundings)
    })
}

/// The facts for a request as far as they can be told without a look at its paths.
pub(crate) fn without_looking(surroundings: &Surroundings, invocation: &Invocation) -> HostFacts {
    HostFacts {
        home: home_of(user_at_home(&surroundings.host, invocation)),
        ..general(surroundings)
    }
}

/// Whose home directory a profile means.
fn user_at_home(host: &Host, invocation: &Invocation) -> u32 {
    if host.uid == 0 {
        invocation.caller.uid
    } else {
        host.uid
    }
}

/// The facts that hold for every request; those about a workspace are as good as they can be.
pub(crate) fn general(surroundings: &Surroundings) -> HostFacts {
    let host = &surroundings.host;
    HostFacts {
        tier: surroundings.tier,
        landlock_abi: host.landlock_abi,
        tier_reason: host.tier_reason.clone(),
        cgroup: surroundings.cgroup.clone(),
        launcher_uid: host.uid,
        launcher_gid: host.gid,
        environment: surroundings.args.environment.clone(),
        idmap: surroundings.tier == Tier::HostRoot,
        ephemeral_uid: super::uids::FIRST,
        workspace_uid: host.uid,
        workspace_gid: host.gid,
        home: home_of(host.uid),
        nested_tmp: PathBuf::from("/tmp/agentd-private"),
        session: None,
        state_dirs: surroundings.args.state_dirs.clone(),
    }
}

fn open_workspace(path: &Path) -> Result<(OwnedFd, FileStat), Refusal> {
    let refused = |reason: String| Refusal::BadWorkspace {
        path: path.to_owned(),
        reason,
    };
    if !path.is_absolute() {
        return Err(refused("its path is not absolute".to_owned()));
    }
    let fd = open_name(path).map_err(|errno| {
        refused(if errno == Errno::ENOENT {
            "it does not exist".to_owned()
        } else if errno == Errno::ELOOP {
            "it is reached through a symbolic link: name its real path".to_owned()
        } else {
            errno.desc().to_owned()
        })
    })?;
    let stat = fstat(fd.as_fd()).map_err(|errno| refused(errno.desc().to_owned()))?;
    match SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT {
        SFlag::S_IFDIR => Ok((fd, stat)),
        SFlag::S_IFLNK => Err(refused(
            "it is a symbolic link: name its real path".to_owned(),
        )),
        _ => Err(refused("it is not a directory".to_owned())),
    }
}

/// Whether the workspace's file system takes mapped ids, found out on a copy that is never attached.
fn can_map(workspace: &OwnedFd, map: IdMap, id_maps: &mut IdMaps) -> Result<(), Errno> {
    let namespace = id_maps.get(map)?;
    let tree = mount::clone_tree(workspace.as_fd(), Depth::One)?;
    mount::map_ids(tree.as_fd(), namespace.as_fd())
}

/// Home directory of a user by `/etc/passwd`; `/nonexistent` when it names none. The name service
/// switch would load libraries into this process.
fn home_of(uid: u32) -> PathBuf {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let home = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let id = fields.nth(2)?;
        (id.parse() == Ok(uid)).then(|| fields.nth(2))?
    });
    home.filter(|home| home.starts_with('/'))
        .unwrap_or("/nonexistent")
        .into()
}
