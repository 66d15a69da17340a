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

/// How many entries may still be removed.
#[derive(Debug)]
pub(crate) struct Allowance(Cell<u64>);

impl Allowance {
    /// This many.
    pub(crate) fn of(entries: u64) -> Self {
        Self(Cell::new(entries))
    }

    /// As many as there are.
    pub(crate) fn unlimited() -> Self {
        Self::of(u64::MAX)
    }

    /// Takes one; `WouldBlock` when it is used up.
    fn take(&self) -> io::Result<()> {
        let left = self.0.get().checked_sub(1);
        self.0.set(left.unwrap_or(0));
        left.map(drop)
            .ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }
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

/// Looks at a name without following it; `NotFound` when there is nothing.
pub(crate) fn look(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<Found> {
    let name = CString::new(name.as_bytes())?;
    let flags = libc::O_PATH | libc::O_NOFOLLOW;
    let fd = files::open(Some(parent), &name, flags, Resolve::Beneath)?;
    let kind = SFlag::from_bits_truncate(fstat(fd.as_fd())?.st_mode) & SFlag::S_IFMT;
    Ok(if kind == SFlag::S_IFDIR {
        Found::Directory(fd)
    } else if kind == SFlag::S_IFLNK {
        Found::Link
    } else {
        Found::Other
    })
}

/// Removes a name and everything below it; `NotFound` when there is nothing, `WouldBlock` when there is more
/// than `allowance` permits.
pub(crate) fn remove(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    allowance: &Allowance,
) -> io::Result<()> {
    let found = look(parent, name)?;
    match remove_whole((parent, name), &found, allowance) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // The directory that holds the name may be closed; it gets its mode back.
            let mode = fstat(parent)?.st_mode;
            open_up(parent)?;
            let result = remove_whole((parent, name), &found, allowance);
            fs::set_permissions(by_descriptor(parent), Permissions::from_mode(mode & 0o7777))?;
            result
        }
        result => result,
    }
}

fn remove_whole(
    (parent, name): (BorrowedFd<'_>, &OsStr),
    found: &Found,
    allowance: &Allowance,
) -> io::Result<()> {
    allowance.take()?;
    let path = by_descriptor(parent).join(name);
    let Found::Directory(top) = found else {
        return fs::remove_file(path);
    };
    let descent = Descent {
        top: top.as_fd(),
        left: DEEPEST,
        allowance,
    };
    for _ in 0..ROUNDS {
        descent.empty(top.as_fd())?;
        match gone_or(fs::remove_dir(&path)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
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
    allowance: &'top Allowance,
}

impl Descent<'_> {
    /// Removes what is in a directory, or moves it to the top when it lies too deep.
    fn empty(self, directory: BorrowedFd<'_>) -> io::Result<()> {
        open_up(directory)?;
        for entry in fs::read_dir(by_descriptor(directory))? {
            let name = entry?.file_name();
            self.allowance.take()?;
            let path = by_descriptor(directory).join(&name);
            let found = match look(directory, &name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                found => found?,
            };
            match (found, self.left.checked_sub(1)) {
                (Found::Directory(below), Some(left)) => {
                    Self { left, ..self }.empty(below.as_fd())?;
                    gone_or(fs::remove_dir(path))?;
                }
                (Found::Directory(below), None) => {
                    // A directory that moves has to be writable itself, for its `..`.
                    open_up(below.as_fd())?;
                    gone_or(fs::rename(
                        path,
                        by_descriptor(self.top).join(unlikely_name()),
                    ))?;
                }
                (Found::Link | Found::Other, _) => gone_or(fs::remove_file(path))?,
            }
        }
        Ok(())
    }
}

/// Somebody else may be removing the same tree: what is gone meanwhile is no failure.
fn gone_or(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// A name that no command guessed.
fn unlikely_name() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!(".deep-{}", now.unwrap_or_default().as_nanos())
}

/// Lets the owner list and change a directory, by descriptor and so without following anything.
fn open_up(directory: BorrowedFd<'_>) -> io::Result<()> {
    fs::set_permissions(by_descriptor(directory), Permissions::from_mode(0o700))
}

/// A path that means exactly what the descriptor names.
fn by_descriptor(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("removal-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir.canonicalize().unwrap()
    }

    fn remove_from(dir: &std::path::Path, name: &str) -> io::Result<()> {
        let dir = fs::File::open(dir).unwrap();
        remove(dir.as_fd(), name.as_ref(), &Allowance::unlimited())
    }

    #[test]
    fn a_tree_deeper_than_any_path_and_any_descent_is_removed() {
        let dir = scratch("deep");
        for levels in [1, DEEPEST, DEEPEST + 1, 3 * DEEPEST + 7] {
            fs::create_dir(dir.join("top")).unwrap();
            let mut below = fs::File::open(dir.join("top")).unwrap();
            for level in 0..levels {
                let place = by_descriptor(below.as_fd());
                fs::write(place.join("file"), "x").unwrap();
                fs::create_dir(place.join("a-long-name")).unwrap();
                let next = fs::File::open(place.join("a-long-name")).unwrap();
                if level % 5 == 0 {
                    fs::set_permissions(place, Permissions::from_mode(0o500)).unwrap();
                }
                below = next;
            }
            remove_from(&dir, "top").unwrap();
            assert!(!dir.join("top").exists(), "{levels} levels");
        }
        fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn what_several_remove_at_the_same_time_is_gone_for_each_of_them() {
        let dir = scratch("together");
        for round in 0..20 {
            for number in 0..100 {
                fs::create_dir_all(dir.join(format!("top/{}/{number}", number % 7))).unwrap();
            }
            std::thread::scope(|scope| {
                let both = [(); 2].map(|()| scope.spawn(|| remove_from(&dir, "top")));
                for one in both {
                    let removed = one.join().unwrap();
                    assert!(
                        removed
                            .as_ref()
                            .is_ok_and(|()| !dir.join("top").exists())
                            // It came when everything was done.
                            || removed.is_err_and(|error| error.kind() == io::ErrorKind::NotFound),
                        "{round}"
                    );
                }
            });
            assert!(!dir.join("top").exists());
        }
        fs::remove_dir(dir).unwrap();
    }

    #[test]
    fn no_link_is_followed() {
        let (dir, outside) = (scratch("links"), scratch("outside"));
        fs::write(outside.join("file"), "x").unwrap();
        fs::create_dir(dir.join("top")).unwrap();
        symlink(&outside, dir.join("top/link")).unwrap();
        symlink(outside.join("file"), dir.join("top/file")).unwrap();
        symlink(&outside, dir.join("alone")).unwrap();
        for name in ["top", "alone"] {
            remove_from(&dir, name).unwrap();
            assert!(fs::symlink_metadata(dir.join(name)).is_err(), "{name}");
        }
        assert!(outside.join("file").exists());
        for dir in [dir, outside] {
            fs::remove_dir_all(dir).unwrap();
        }
    }
}
