//! Removing what a command made, with the launcher's rights: no link is ever followed, and a directory that
//! its maker closed is opened again first.

use std::{
    cell::Cell,
    ffi::{CString, OsStr},
    fs::{self, Permissions},
    io,
    os::{
        fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
        unix::{ffi::OsStrExt, fs::PermissionsExt},
    },
    path::PathBuf,
};

use nix::sys::stat::{SFlag, fstat};

use crate::sys::files::{self, Resolve};

/// Levels that are descended at once. Each holds descriptors, and a command can make a tree deeper than
/// any stack: what lies deeper is moved up and removed in the next round.
const DEEPEST: u32 = 256;
/// Most rounds; a tree that is so deep takes hours to make.
const ROUNDS: u32 = 4_096;

/// How many entries that have to stay are looked at for each one that may be removed.
const LOOKS: u64 = 16;

/// How many entries may still be removed, and whose.
#[derive(Debug)]
pub(crate) struct Allowance {
    /// What is removed is counted, and not what is looked at on the way down: however deep it lies, something
    /// is removed each time.
    entries: Cell<u64>,
    /// Entries that stay are counted on their own: there may be many of them before the first that goes.
    looks: Cell<u64>,
    owner: Option<u32>,
}

impl Allowance {
    /// This many, of anybody's.
    pub(crate) fn of(entries: u64) -> Self {
        Self {
            entries: Cell::new(entries),
            looks: Cell::new(entries.saturating_mul(LOOKS)),
            owner: None,
        }
    }

    /// As many as there are.
    pub(crate) fn unlimited() -> Self {
        Self::of(u64::MAX)
    }

    /// With an owner: only what belongs to this user id on disk. A command can move what is somebody else's
    /// into a directory of its own, and a launcher with root's rights could remove it where the command could
    /// not; so could it close and open other people's directories.
    pub(crate) fn only_of(self, owner: Option<u32>) -> Self {
        Self { owner, ..self }
    }

    /// Takes one; `WouldBlock` when it is used up.
    fn take(&self) -> io::Result<()> {
        take_from(&self.entries)
    }

    /// Whether an entry may be removed; an error that says why it may not.
    fn permits(&self, belongs_to: u32) -> io::Result<()> {
        match self.owner {
            Some(owner) if owner != belongs_to => Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                "something in it belongs to another user, and remains",
            )),
            Some(_) | None => Ok(()),
        }
    }
}

fn take_from(count: &Cell<u64>) -> io::Result<()> {
    let left = count.get().checked_sub(1);
    count.set(left.unwrap_or(0));
    left.map(drop)
        .ok_or_else(|| io::ErrorKind::WouldBlock.into())
}

/// What a name turned out to be.
#[derive(Debug)]
pub(crate) enum Found {
    /// A directory, opened as a name only.
    Directory(OwnedFd),
    /// A symbolic link.
    Link,
    /// Anything else.
    Other,
}

/// The same, and whose it is.
#[derive(Debug)]
struct Seen {
    found: Found,
    owner: u32,
}

/// Looks at a name without following it; `NotFound` when there is nothing, `WouldBlock` when it cannot be
/// looked at for the moment. A directory that its owner closed is opened for the look.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Found> {
    let seen = inside(parent, || see(parent, name)).map_err(postponed)?;
    Ok(seen.found)
}

/// Opens a name as a name only, without following it.
pub(crate) fn open(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    inside(parent, || open_here(parent, name)).map_err(postponed)
}

fn open_here(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let name = CString::new(name.as_bytes())?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    Ok(files::open(Some(parent), &name, flags, Resolve::Beneath)?)
}

fn see(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Seen> {
    let fd = open_here(parent, name)?;
    let stat = fstat(fd.as_fd())?;
    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
    let found = if kind == SFlag::S_IFDIR {
        Found::Directory(fd)
    } else if kind == SFlag::S_IFLNK {
        Found::Link
    } else {
        Found::Other
    };
    Ok(Seen {
        found,
        owner: stat.st_uid,
    })
}

/// Removes a name and everything below it; `NotFound` when there is nothing, `WouldBlock` when there is more
/// than `allowance` permits or it cannot be done for the moment. What cannot be removed at all keeps nothing
/// else from being removed; the error says why it remains.
pub(crate) fn remove(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    allowance: &Allowance,
) -> io::Result<()> {
    let seen = inside(parent, || see(parent, name)).map_err(postponed)?;
    remove_whole((parent, name), &seen, allowance).map_err(postponed)
}

fn remove_whole(
    (parent, name): (BorrowedFd<'_>, &OsStr),
    seen: &Seen,
    allowance: &Allowance,
) -> io::Result<()> {
    let path = by_descriptor(parent).join(name);
    let Found::Directory(top) = &seen.found else {
        allowance.permits(seen.owner)?;
        allowance.take()?;
        return inside(parent, || fs::remove_file(&path));
    };
    let obstacle = Cell::new(None);
    for _ in 0..ROUNDS {
        let descent = Descent {
            top: top.as_fd(),
            left: DEEPEST,
            moved: &Cell::new(false),
            obstacle: &obstacle,
            allowance,
        };
        descent.empty((top.as_fd(), seen.owner))?;
        allowance.permits(seen.owner)?;
        allowance.take()?;
        match gone_or(inside(parent, || fs::remove_dir(&path))) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                if let Some(obstacle) = obstacle.take().filter(|_| !descent.moved.get()) {
                    return Err(obstacle);
                }
            }
            result => return result,
        }
    }
    Err(io::ErrorKind::DirectoryNotEmpty.into())
}

/// A way down a tree.
#[derive(Clone, Copy)]
struct Descent<'top> {
    /// The directory whose tree it is.
    top: BorrowedFd<'top>,
    /// Levels left.
    left: u32,
    /// Something was moved up.
    moved: &'top Cell<bool>,
    /// Why something remains.
    obstacle: &'top Cell<Option<io::Error>>,
    allowance: &'top Allowance,
}

impl Descent<'_> {
    /// Removes what is in a directory, or moves it to the top when it lies too deep. In somebody else's
    /// directory there may be what is not theirs.
    fn empty(self, (directory, owner): (BorrowedFd<'_>, u32)) -> io::Result<()> {
        if self.allowance.permits(owner).is_ok() {
            // Where that is not permitted it may be open all the same.
            open_up(directory).unwrap_or_default();
        }
        for entry in fs::read_dir(by_descriptor(directory))? {
            let name = entry?.file_name();
            let removed = self.remove(directory, &name).map_err(postponed);
            match gone_or(removed) {
                // Somebody has put something into it meanwhile, or the reason is known: see the next round.
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => self.go_past(error)?,
                result => result?,
            }
        }
        Ok(())
    }

    fn remove(self, directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<()> {
        let seen = see(directory, name)?;
        let path = by_descriptor(directory).join(name);
        let permitted = self.allowance.permits(seen.owner);
        match (seen.found, self.left.checked_sub(1)) {
            (Found::Directory(below), Some(left)) => {
                Self { left, ..self }.empty((below.as_fd(), seen.owner))?;
                permitted?;
                self.allowance.take()?;
                fs::remove_dir(path)
            }
            (Found::Directory(below), None) => {
                permitted?;
                // A directory that moves has to be writable itself, for its `..`.
                open_up(below.as_fd())?;
                self.allowance.take()?;
                fs::rename(path, by_descriptor(self.top).join(unlikely_name()))?;
                self.moved.set(true);
                Ok(())
            }
            (Found::Link | Found::Other, _) => {
                permitted?;
                self.allowance.take()?;
                fs::remove_file(path)
            }
        }
    }

    /// Leaves an entry that cannot be removed.
    fn go_past(self, error: io::Error) -> io::Result<()> {
        let first = self.obstacle.take().unwrap_or(error);
        self.obstacle.set(Some(first));
        take_from(&self.allowance.looks)
    }
}

/// Somebody else may be removing the same tree: what is gone meanwhile is no failure.
fn gone_or(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Want of descriptors or memory says nothing about what is to be removed: it is tried again.
pub(super) fn postponed(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => io::ErrorKind::WouldBlock.into(),
        Some(_) | None => error,
    }
}

/// A name that no command guessed.
fn unlikely_name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!(".deep-{}", now.unwrap_or_default().as_nanos())
}

/// Does something with an entry of a directory. One that its owner closed is opened for that, and has its mode
/// back afterwards.
fn inside<T>(directory: BorrowedFd<'_>, act: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match act() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
            let mode = fstat(directory)?.st_mode;
            if open_up(directory).is_err() {
                return Err(error);
            }
            let result = act();
            fs::set_permissions(
                by_descriptor(directory),
                Permissions::from_mode(mode & 0o7777),
            )?;
            result
        }
        result => result,
    }
}

/// Lets the owner list and change a directory, by descriptor and so without following anything.
fn open_up(directory: BorrowedFd<'_>) -> io::Result<()> {
    let mode = fstat(directory)?.st_mode;
    fs::set_permissions(
        by_descriptor(directory),
        Permissions::from_mode(mode & 0o7777 | 0o700),
    )
}

/// A path that means exactly what the descriptor names.
fn by_descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

#[cfg(test)]
mod tests;
