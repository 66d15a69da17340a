//! Building the root directory of a jail, after the fork: system calls only.

use std::{
    ffi::{CString, NulError},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

use nix::errno::Errno;

use super::{
    entries::{make_dir, make_file, place},
    failure::{Failure, Stage},
    prelude,
    prepare::{PreparedJail, c_path, c_relative},
};
use crate::{
    plan::{self, BindMode, MountStep},
    policy::Tier,
    sys::{
        files::{self, Resolve},
        mount::{self, Depth, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    },
};

/// A mount step with its strings made.
#[derive(Debug)]
pub(super) struct PreparedStep {
    /// Where, relative to the new root.
    place: CString,
    action: Action,
}

#[derive(Debug)]
enum Action {
    Dir {
        parent: CString,
        name: CString,
    },
    File,
    Symlink {
        target: CString,
    },
    Bind {
        source: CString,
        attributes: u64,
        mapping: Mapping,
    },
    Device {
        source: CString,
    },
    Mask {
        dir: CString,
        file: CString,
        absence: Absence,
    },
    Seal {
        absence: Absence,
    },
    Tmpfs {
        size: CString,
        inodes: CString,
    },
    Shared {
        source: CString,
        attributes: u64,
    },
    Proc,
    Devpts,
    Script,
    Prelude,
}

/// Whether a bound tree's ids are mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mapping {
    AsOnDisk,
    Mapped,
}

/// Whether the place may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Absence {
    Allowed,
    Fails,
}

impl Absence {
    #[expect(clippy::fn_params_excessive_bools, reason = "translates a plan's flag")]
    fn of(optional: bool) -> Self {
        if optional { Self::Allowed } else { Self::Fails }
    }
}

impl PreparedStep {
    /// Makes the strings of all steps. Allocates.
    pub(super) fn all(steps: &[MountStep]) -> Result<Vec<Self>, NulError> {
        steps.iter().map(Self::new).collect()
    }

    fn new(step: &MountStep) -> Result<Self, NulError> {
        let (path, action) = match step {
            MountStep::Dir(path) => (path, dir_action(path)?),
            MountStep::File(path) => (path, Action::File),
            MountStep::Symlink { path, target } => (
                path,
                Action::Symlink {
                    target: c_path(target)?,
                },
            ),
            MountStep::Bind { path, mode, mapped } => (path, bind_action(path, *mode, *mapped)?),
            MountStep::Device(path) => (
                path,
                Action::Device {
                    source: c_path(path)?,
                },
            ),
            MountStep::Mask { path, optional } => {
                let action = Action::Mask {
                    dir: c_relative(plan::EMPTY_DIR.as_ref())?,
                    file: c_relative(plan::EMPTY_FILE.as_ref())?,
                    absence: Absence::of(*optional),
                };
                (path, action)
            }
            MountStep::Seal { path, optional } => (
                path,
                Action::Seal {
                    absence: Absence::of(*optional),
                },
            ),
            MountStep::Tmpfs { path, size, inodes } => {
                let size = CString::new(size.to_string())?;
                (
                    path,
                    Action::Tmpfs {
                        size,
                        inodes: CString::new(inodes.to_string())?,
                    },
                )
            }
            MountStep::Shared { path, source, mode } => {
                let attributes = match mode {
                    BindMode::ReadOnly => READ_ONLY | NO_SUID | NO_DEV | NO_EXEC,
                    BindMode::Writable => NO_SUID | NO_DEV,
                };
                let source = c_path(source)?;
                (path, Action::Shared { source, attributes })
            }
            MountStep::Proc(path) => (path, Action::Proc),
            MountStep::Devpts(path) => (path, Action::Devpts),
            MountStep::Script(path) => (path, Action::Script),
            MountStep::Prelude(path) => (path, Action::Prelude),
        };
        Ok(Self {
            place: c_relative(path)?,
            action,
        })
    }
}

fn dir_action(path: &Path) -> Result<Action, NulError> {
    let parent = path.parent().unwrap_or_else(|| Path::new("/"));
    Ok(Action::Dir {
        parent: c_relative(parent)?,
        name: c_path(path.file_name().unwrap_or_default().as_ref())?,
    })
}

#[expect(clippy::fn_params_excessive_bools, reason = "translates a plan's flag")]
fn bind_action(path: &Path, mode: BindMode, mapped: bool) -> Result<Action, NulError> {
    let base = NO_SUID | NO_DEV;
    let attributes = match mode {
        BindMode::ReadOnly => base | READ_ONLY,
        BindMode::Writable => base,
    };
    Ok(Action::Bind {
        source: c_path(path)?,
        attributes,
        mapping: if mapped {
            Mapping::Mapped
        } else {
            Mapping::AsOnDisk
        },
    })
}

/// Builds the root and moves into it.
pub(super) fn build(jail: &PreparedJail) -> Result<(), Failure> {
    let failed = Failure::at(Stage::EnterRoot);
    mount::make_all_private().map_err(&failed)?;
    let root = mount::new_filesystem(
        c"tmpfs",
        &[
            (c"mode", c"0755"),
            (c"size", c"16m"),
            (c"nr_inodes", c"4096"),
        ],
        NO_SUID | NO_DEV,
    )
    .map_err(&failed)?;
    // ORDER: the new root has to be part of this namespace before anything can be mounted on it. It is
    // stacked on the old root, where path lookups that start at the old root do not see it.
    let old_root = files::open(None, c"/", libc::O_PATH, Resolve::NoSymlinks).map_err(&failed)?;
    mount::attach(root.as_fd(), old_root.as_fd()).map_err(&failed)?;
    for (index, step) in jail.steps.iter().enumerate() {
        take(jail, root.as_fd(), step).map_err(Failure::at_index(Stage::Mount, index))?;
    }
    // ORDER: Landlock rules name the jail's own directories, so they come after the last mount; and
    // before the root is entered only because the descriptor is at hand.
    for (index, rule) in jail.inner_rules.iter().enumerate() {
        let failed = Failure::at_index(Stage::LandlockRule, index);
        match place(root.as_fd(), &rule.path) {
            Ok(dir) => add_rule(jail, &dir, rule.access).map_err(&failed)?,
            Err(Errno::ENOENT) => {}
            Err(errno) => return Err(failed(errno)),
        }
    }
    // ORDER: sealing the root is the last change to it.
    mount::restrict(root.as_fd(), READ_ONLY, Depth::One).map_err(&failed)?;
    mount::enter_root(root.as_fd()).map_err(&failed)
}

fn add_rule(jail: &PreparedJail, place: &OwnedFd, access: u64) -> Result<(), Errno> {
    crate::sys::landlock::add_path_rule(jail.ruleset.as_fd(), place.as_fd(), access)
}

fn take(jail: &PreparedJail, root: BorrowedFd<'_>, step: &PreparedStep) -> Result<(), Errno> {
    match &step.action {
        Action::Dir { parent, name } => make_dir(root, &step.place, (parent, name)),
        Action::File => match make_file(root, &step.place) {
            // In the session's `/tmp`, by an earlier command. A link is refused by the mount.
            Err(Errno::EEXIST) if jail.resources.namespaces.is_some() => Ok(()),
            result => result.map(drop),
        },
        Action::Symlink { target } => match mount::make_symlink(root, &step.place, target) {
            // As above; whoever follows it does so inside.
            Err(Errno::EEXIST) if jail.resources.namespaces.is_some() => Ok(()),
            result => result,
        },
        Action::Bind {
            source,
            attributes,
            mapping,
        } => {
            let tree = bound_tree(jail, source, (*attributes, *mapping))?;
            mount::attach(tree.as_fd(), place(root, &step.place)?.as_fd())
        }
        Action::Device { source } => {
            let source = files::open(None, source, libc::O_PATH, Resolve::NoSymlinks)?;
            let tree = mount::clone_tree(source.as_fd(), Depth::One)?;
            mount::restrict(tree.as_fd(), NO_SUID | NO_EXEC, Depth::One)?;
            mount::attach(tree.as_fd(), place(root, &step.place)?.as_fd())
        }
        Action::Mask { dir, file, absence } => mask(root, step, (dir, file, *absence)),
        Action::Seal { absence } => seal(root, step, *absence),
        Action::Tmpfs { size, inodes } => {
            let options = [(c"mode", c"1777"), (c"size", size), (c"nr_inodes", inodes)];
            new_mount(root, step, (c"tmpfs", &options, NO_SUID | NO_DEV))
        }
        Action::Shared { source, attributes } => {
            let source = files::open(None, source, libc::O_PATH, Resolve::NoSymlinks)?;
            let tree = mount::clone_tree(source.as_fd(), Depth::One)?;
            mount::restrict(tree.as_fd(), *attributes, Depth::One)?;
            mount::attach(tree.as_fd(), place(root, &step.place)?.as_fd())
        }
        Action::Proc => proc(jail, root, step),
        Action::Devpts => {
            let options = [(c"mode", c"0620"), (c"ptmxmode", c"0666")];
            new_mount(root, step, (c"devpts", &options, NO_SUID | NO_EXEC))
        }
        Action::Script => match &jail.resources.script {
            Some(script) => {
                let file = make_file(root, &step.place)?;
                files::copy(script.as_fd(), file.as_fd())
            }
            None => Ok(()),
        },
        Action::Prelude => match &jail.resources.state {
            Some(_) => {
                let file = make_file(root, &step.place)?;
                files::write_once(file.as_fd(), prelude::TEXT)
            }
            None => Ok(()),
        },
    }
}

fn seal(root: BorrowedFd<'_>, step: &PreparedStep, absence: Absence) -> Result<(), Errno> {
    let target = match place(root, &step.place) {
        Ok(target) => target,
        Err(Errno::ENOENT) if absence == Absence::Allowed => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let tree = mount::clone_tree(target.as_fd(), Depth::Recursive)?;
    let attributes = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC;
    mount::restrict(tree.as_fd(), attributes, Depth::Recursive)?;
    mount::attach(tree.as_fd(), target.as_fd())
}

fn proc(jail: &PreparedJail, root: BorrowedFd<'_>, step: &PreparedStep) -> Result<(), Errno> {
    let attributes = NO_SUID | NO_DEV | NO_EXEC;
    new_mount(root, step, (c"proc", &[], attributes))?;
    if jail.tier == Tier::Rootless {
        forbid_user_namespaces(root)
    } else {
        Ok(())
    }
}

fn bound_tree(
    jail: &PreparedJail,
    source: &CString,
    how: (u64, Mapping),
) -> Result<OwnedFd, Errno> {
    let (attributes, mapping) = how;
    let source = files::open(None, source, libc::O_PATH, Resolve::NoSymlinks)?;
    match (&jail.resources.id_map, mapping) {
        (Some(namespace), Mapping::Mapped) => {
            // One mount only: another file system below may not support mapped ids.
            let tree = mount::clone_tree(source.as_fd(), Depth::One)?;
            mount::map_ids(tree.as_fd(), namespace.as_fd())?;
            mount::restrict(tree.as_fd(), attributes, Depth::One)?;
            Ok(tree)
        }
        (None, Mapping::Mapped) => Err(Errno::EINVAL),
        (_, Mapping::AsOnDisk) => {
            let tree = mount::clone_tree(source.as_fd(), Depth::Recursive)?;
            mount::restrict(tree.as_fd(), attributes, Depth::Recursive)?;
            Ok(tree)
        }
    }
}

fn mask(
    root: BorrowedFd<'_>,
    step: &PreparedStep,
    with: (&CString, &CString, Absence),
) -> Result<(), Errno> {
    let (dir, file, absence) = with;
    let target = match place(root, &step.place) {
        Ok(target) => target,
        Err(Errno::ENOENT) if absence == Absence::Allowed => return Ok(()),
        Err(errno) => return Err(errno),
    };
    let attributes = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC;
    let attach = |source: &CString| {
        let tree = mount::clone_tree(place(root, source)?.as_fd(), Depth::One)?;
        mount::restrict(tree.as_fd(), attributes, Depth::One)?;
        mount::attach(tree.as_fd(), target.as_fd())
    };
    // A directory can only be mounted on a directory; which one the place is, the kernel says.
    match attach(dir) {
        Err(Errno::ENOTDIR | Errno::EINVAL) => attach(file),
        result => result,
    }
}

fn new_mount(
    root: BorrowedFd<'_>,
    step: &PreparedStep,
    what: (&std::ffi::CStr, &[(&std::ffi::CStr, &std::ffi::CStr)], u64),
) -> Result<(), Errno> {
    let (kind, options, attributes) = what;
    let mounted = mount::new_filesystem(kind, options, attributes)?;
    mount::attach(mounted.as_fd(), place(root, &step.place)?.as_fd())
}

/// A user namespace inside the jail's would bring capabilities back, in it.
fn forbid_user_namespaces(root: BorrowedFd<'_>) -> Result<(), Errno> {
    let setting = files::open(
        Some(root),
        c"proc/sys/user/max_user_namespaces",
        libc::O_WRONLY,
        Resolve::Beneath,
    )?;
    files::write_once(setting.as_fd(), b"0")
}
