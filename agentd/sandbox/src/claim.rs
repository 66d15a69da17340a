//! Directories that show whether their maker lives: it holds a lock on each, which the kernel drops when it
//! dies, however that happens. A pid in a name says less: it means something in one pid namespace only, and
//! comes back.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::sys::signals;

/// Rounds of making a directory that somebody takes away again, and the pause between two.
const TRIES: u32 = 50;
const PAUSE_MS: i32 = 2;

/// A directory of this process's. Dropping it gives up the claim and leaves the directory.
#[derive(Debug, Default)]
pub(crate) struct Claim {
    /// `None` on a file system without locks: then nobody can find out that the maker is gone either.
    _lock: Option<Flock<File>>,
}

/// What a lock says about the maker of a directory.
#[derive(Debug)]
pub(crate) enum Maker {
    /// It lives.
    Alive,
    /// It is gone. Whoever holds this is the only one to take the directory away.
    Gone(Claim),
    /// The file system has no locks, or the directory cannot be opened.
    Unknown,
}

/// The number of this process's pid namespace; 0, which is none, when `/proc` does not tell it.
pub(crate) fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

impl Claim {
    /// Makes a directory for its owner alone, and claims it. `AlreadyExists` when it was there before.
    pub(crate) fn make(path: &Path) -> io::Result<Self> {
        create(path)?;
        let mut made: io::Result<()> = Ok(());
        for _ in 0..TRIES {
            match made {
                Ok(()) => {
                    if let Some(claim) = Self::of_new(path)? {
                        return Ok(claim);
                    }
                }
                // The rest of the last round.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
            signals::poll(&mut [], PAUSE_MS)?;
            made = create(path);
        }
        Err(Errno::EBUSY.into())
    }

    /// Claims a directory that was just made; `None` when somebody takes it for abandoned in this moment.
    fn of_new(path: &Path) -> io::Result<Option<Self>> {
        let file = match open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            result => result?,
        };
        if file.metadata()?.uid() != nix::unistd::geteuid().as_raw() {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => lock,
            Err((_, Errno::EWOULDBLOCK)) => return Ok(None),
            Err((_, _)) => return Ok(Some(Self { _lock: None })),
        };
        Ok(is_at(path, &lock).then_some(Self { _lock: Some(lock) }))
    }
}

/// Whether the maker of a directory lives.
pub(crate) fn maker_of(path: &Path) -> Maker {
    let Ok(file) = open(path) else {
        return Maker::Unknown;
    };
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) if is_at(path, &lock) => Maker::Gone(Claim { _lock: Some(lock) }),
        // When it was locked too late, what has its name now is another one, or nothing.
        Ok(_) | Err((_, Errno::EWOULDBLOCK)) => Maker::Alive,
        Err((_, _)) => Maker::Unknown,
    }
}

/// Whether a locked directory is still the one of this name.
fn is_at(path: &Path, directory: &File) -> bool {
    // ORDER: asked with the lock held, since it does not go away any more then.
    let opened = directory.metadata();
    opened.is_ok_and(|opened| {
        fs::symlink_metadata(path)
            .is_ok_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino()))
    })
}

/// Not for others: who can open a directory can hold a lock on it.
fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn open(path: &Path) -> io::Result<File> {
    let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        sync::atomic::{AtomicBool, Ordering},
    };

    use super::*;

    fn scratch(name: &str) -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("claim-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_directory_is_its_makers_until_the_maker_is_gone() {
        let dir = scratch("life");
        let path = dir.join("a");
        let claim = Claim::make(&path).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        assert!(matches!(maker_of(&path), Maker::Alive));
        let again = Claim::make(&path).unwrap_err();
        assert_eq!(again.kind(), io::ErrorKind::AlreadyExists);
        drop(claim);
        let gone = maker_of(&path);
        assert!(matches!(gone, Maker::Gone(_)));
        // Only one at a time takes it away.
        assert!(matches!(maker_of(&path), Maker::Alive));
        drop(gone);
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn what_is_no_directory_says_nothing() {
        let dir = scratch("kinds");
        fs::write(dir.join("file"), "").unwrap();
        symlink(&dir, dir.join("link")).unwrap();
        for name in ["file", "link", "missing"] {
            assert!(
                matches!(maker_of(&dir.join(name)), Maker::Unknown),
                "{name}"
            );
        }
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn whoever_sweeps_never_gets_a_directory_that_was_claimed() {
        let dir = scratch("race");
        let (path, over) = (dir.join("a"), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        if let Maker::Gone(_claim) = maker_of(&path) {
                            fs::remove_dir(&path).unwrap_or_default();
                        }
                        // Launchers start now and then, not all the time.
                        signals::poll(&mut [], 1).unwrap();
                    }
                });
            }
            let mut all_held = true;
            for _ in 0..40 {
                let claim = Claim::make(&path);
                all_held &= claim.is_ok() && path.exists();
                std::thread::yield_now();
                all_held &= fs::remove_dir(&path).is_ok();
                drop(claim);
            }
            // ORDER: before anything that can fail, or the others go on for ever.
            over.store(true, Ordering::Relaxed);
            assert!(all_held);
        });
        fs::remove_dir_all(dir).unwrap();
    }
}
