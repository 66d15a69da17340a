//! Which paths lie on file systems that somebody else serves: a machine far away, or a process. A look at such
//! a path waits for the answer, and where the server is dead it waits for ever.

use std::{
    fs::{self, File},
    os::fd::AsRawFd,
    path::{Path, PathBuf},
};

use crate::{cgroup::unescape_mount, sys::signals};

/// Types of such file systems, without those of FUSE.
const FAR: [&str; 16] = [
    "9p", "afs", "autofs", "ceph", "cifs", "coda", "gfs2", "lustre", "ncpfs", "nfs", "nfs4",
    "ocfs2", "orangefs", "smb3", "smbfs", "virtiofs",
];

const MOUNTINFO: &str = "/proc/self/mountinfo";

/// What is mounted, as far as that matters.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    /// Tells of changes; `None` before the first look, or where `/proc` is not to be read.
    changes: Option<File>,
    all: Vec<Mount>,
}

#[derive(Debug, PartialEq, Eq)]
struct Mount {
    point: PathBuf,
    far: bool,
}

impl Mounts {
    /// Reads the mounts again if they have changed.
    pub(crate) fn refresh(&mut self) {
        let known = self.changes.as_ref().is_some_and(|file| !changed(file));
        if !known {
            // ORDER: opened before it is read, so that what changes in between is told.
            self.changes = self.changes.take().or_else(|| File::open(MOUNTINFO).ok());
            self.all = parse(&fs::read_to_string(MOUNTINFO).unwrap_or_default());
        }
    }

    /// There is a far file system anywhere.
    pub(crate) fn have_far(&self) -> bool {
        self.all.iter().any(|mount| mount.far)
    }

    /// Whether `path` lies on one.
    pub(crate) fn is_far(&self, path: &Path) -> bool {
        let above = self
            .all
            .iter()
            .filter(|mount| path.starts_with(&mount.point));
        // Of several on the same point the last is on top, and the last of equals is what this gives.
        above
            .max_by_key(|mount| mount.point.components().count())
            .is_some_and(|mount| mount.far)
    }
}

/// The kernel marks the file as urgent when a mount came or went since the last question.
fn changed(file: &File) -> bool {
    let mut watched = [signals::readable(file.as_raw_fd())];
    let [entry] = &mut watched;
    entry.events = libc::POLLPRI;
    signals::poll(&mut watched, 0) != Ok(0)
}

fn parse(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // Id, parent, device, root, point, options, and any number of tags; then type, source, options.
    let (before, after) = line.split_once(" - ")?;
    let point = before.split(' ').nth(4)?;
    let kind = after.split(' ').next()?;
    let fuse = kind == "fuse" || kind == "fuseblk" || kind.starts_with("fuse.");
    Some(Mount {
        point: unescape_mount(point),
        far: fuse || FAR.contains(&kind),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
23 22 0:5 / /proc rw - proc proc rw\n\
24 22 0:40 / /home rw shared:2 master:1 - nfs4 server:/home rw,vers=4.2\n\
25 24 8:2 / /home/local rw - xfs /dev/sdb1 rw\n\
26 22 0:41 / /mnt/with\\040blank rw - fuse.sshfs me@there: rw\n\
27 22 0:42 / /mnt/over rw - fuse.sshfs me@there: rw\n\
28 22 0:43 / /mnt/over rw - tmpfs none rw\n\
29 22 8:3 / /mnt/ntfs rw - fuseblk /dev/sdc1 rw\n\
30 22 0:44 / /mnt/fusectl rw - fusectl none rw\n\
not a line\n";

    #[test]
    fn the_innermost_mount_decides_and_of_two_on_one_point_the_last() {
        let mounts = Mounts {
            changes: None,
            all: parse(TEXT),
        };
        assert!(mounts.have_far());
        for (path, far) in [
            ("/", false),
            ("/srv/x", false),
            ("/home", true),
            ("/home/me/project", true),
            ("/homes", false),
            ("/home/local/project", false),
            ("/mnt/with blank/x", true),
            ("/mnt/with", false),
            ("/mnt/over/x", false),
            ("/mnt/ntfs/x", true),
            ("/mnt/fusectl", false),
        ] {
            assert_eq!(mounts.is_far(Path::new(path)), far, "{path}");
        }
    }

    #[test]
    fn without_far_mounts_nothing_is_far() {
        let mounts = Mounts {
            changes: None,
            all: parse("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"),
        };
        assert!(!mounts.have_far());
        assert!(!Mounts::default().is_far(Path::new("/x")));
    }

    #[test]
    fn the_mounts_of_this_host_are_read_once_until_they_change() {
        let mut mounts = Mounts::default();
        mounts.refresh();
        let read = mounts.all.len();
        assert!(read > 0);
        mounts.all.clear();
        mounts.refresh();
        assert_eq!(mounts.all, [], "nothing has changed");
    }
}
