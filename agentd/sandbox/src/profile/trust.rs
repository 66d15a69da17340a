//! Who could change a profile: only root and the daemon's own user may. Checked on the open file, so
//! that what was checked is what is read.

use std::{
    fs::{self, File, Metadata},
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use super::ProfileError;

/// Largest profile, in bytes.
const LARGEST_FILE: u64 = 256 * 1024;
/// Permission bits that let group or others write.
const OTHERS_WRITE: u32 = 0o022;

/// The user besides root whose files are trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner(pub(super) u32);

impl Owner {
    /// The user this process runs as.
    pub(super) fn current() -> Self {
        Self(nix::unistd::geteuid().as_raw())
    }

    /// What speaks against a file of `uid` with `mode`.
    fn objection(self, uid: u32, mode: u32) -> Option<String> {
        if uid != 0 && uid != self.0 {
            return Some(format!(
                "it belongs to uid {uid}, neither to root nor to the daemon; use chown"
            ));
        }
        (mode & OTHERS_WRITE != 0)
            .then(|| "its group or others can write to it; use chmod go-w".to_owned())
    }
}

/// Refuses a directory that others can change.
pub(super) fn directory(dir: &Path, owner: Owner) -> Result<(), ProfileError> {
    let metadata = fs::metadata(dir).map_err(|source| cannot_read(dir, source))?;
    verdict(dir, &metadata, owner)
}

/// The text of a file that nobody else can change. A symbolic link is followed; then the directory it
/// leads to must be trusted as well.
pub(super) fn read(path: &Path, owner: Owner) -> Result<String, ProfileError> {
    let cannot = |source| cannot_read(path, source);
    let real: PathBuf = fs::canonicalize(path).map_err(cannot)?;
    if let Some(parent) = real.parent() {
        directory(parent, owner)?;
    }
    let kind = fs::metadata(&real).map_err(cannot)?;
    // Before opening: opening a pipe would wait for ever.
    if !kind.is_file() {
        return Err(distrust(path, "it is not a regular file; remove it"));
    }
    let mut file = File::open(&real).map_err(cannot)?;
    verdict(path, &file.metadata().map_err(cannot)?, owner)?;
    let mut text = String::new();
    let limit = LARGEST_FILE.saturating_add(1);
    (&mut file)
        .take(limit)
        .read_to_string(&mut text)
        .map_err(cannot)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > LARGEST_FILE) {
        return Err(distrust(path, "it is larger than 256 KiB; split it"));
    }
    Ok(text)
}

fn verdict(path: &Path, metadata: &Metadata, owner: Owner) -> Result<(), ProfileError> {
    match owner.objection(metadata.uid(), metadata.mode()) {
        Some(problem) => Err(distrust(path, &problem)),
        None => Ok(()),
    }
}

fn distrust(path: &Path, problem: &str) -> ProfileError {
    ProfileError::Untrusted {
        path: path.to_path_buf(),
        problem: problem.to_owned(),
    }
}

fn cannot_read(path: &Path, source: io::Error) -> ProfileError {
    ProfileError::Read {
        path: path.to_path_buf(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_root_and_the_daemon_may_be_able_to_write() {
        for (uid, mode, trusted) in [
            (0, 0o100_644, true),
            (1000, 0o100_600, true),
            (1000, 0o040_755, true),
            (1001, 0o100_644, false),
            (0, 0o100_664, false),
            (0, 0o100_646, false),
            (1000, 0o041_777, false),
        ] {
            assert_eq!(
                Owner(1000).objection(uid, mode).is_none(),
                trusted,
                "{uid} {mode:o}"
            );
        }
    }
}
