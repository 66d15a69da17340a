//! One step of making a jail's root directory, as data.

use std::path::PathBuf;

/// How a bound path may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindMode {
    /// Nothing can be written.
    ReadOnly,
    /// Writable.
    Writable,
}

/// One step. Paths are absolute as the command sees them; a bound path is the same outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountStep {
    /// Makes a directory on a file system of the jail's own.
    Dir(PathBuf),
    /// Makes an empty file there.
    File(PathBuf),
    /// Makes a symbolic link there.
    Symlink {
        /// Where.
        path: PathBuf,
        /// To what.
        target: PathBuf,
    },
    /// Mounts a host path at the same place.
    Bind {
        /// Path.
        path: PathBuf,
        /// Mode.
        mode: BindMode,
        /// Its owner is mapped to the throw-away uid.
        mapped: bool,
    },
    /// Mounts a host device node at the same place.
    Device(PathBuf),
    /// Hides a path behind an empty directory or file.
    Mask {
        /// Path.
        path: PathBuf,
        /// A path that does not exist needs no mask.
        optional: bool,
    },
    /// Makes a path of the jail's own file systems read-only.
    Seal {
        /// Path.
        path: PathBuf,
        /// A path that does not exist needs no seal.
        optional: bool,
    },
    /// Mounts an empty, size-limited file system.
    Tmpfs {
        /// Where.
        path: PathBuf,
        /// Bytes.
        size: u64,
        /// Inodes.
        inodes: u64,
    },
    /// Mounts a directory of the session, which is elsewhere outside.
    Shared {
        /// Where.
        path: PathBuf,
        /// The directory outside.
        source: PathBuf,
        /// Mode.
        mode: BindMode,
    },
    /// Mounts the pid namespace's own `/proc`.
    Proc(PathBuf),
    /// Mounts terminals of its own.
    Devpts(PathBuf),
    /// Copies the script to this path.
    Script(PathBuf),
    /// Puts what bash runs before the script there, when the command reports its state.
    Prelude(PathBuf),
}
