//! Removal of what commands leave, on real directories.

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

/// Another user id than this process has.
const NOBODY: u32 = 65_534;

/// Runs it in a thread without root's rights on files, which is what a launcher without privilege has.
fn unprivileged(dir: &std::path::Path, act: impl FnOnce() + Send) {
    let is_root = nix::unistd::geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(dir, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(move || {
            if is_root {
                // Of this thread alone, and with it go the rights on files.
                nix::unistd::setfsuid(NOBODY.into());
                let closed = dir.join("closed");
                fs::create_dir(&closed).unwrap();
                fs::set_permissions(&closed, Permissions::from_mode(0o0)).unwrap();
                fs::read_dir(&closed).unwrap_err();
                fs::remove_dir(closed).unwrap();
            }
            act();
        });
        thread.join().unwrap();
    });
}

#[test]
fn a_directory_that_its_owner_closed_keeps_nothing_and_has_its_mode_back() {
    let dir = scratch("closed");
    for mode in [0o0, 0o111, 0o444, 0o555, 0o222, 0o311] {
        unprivileged(&dir, || {
            fs::create_dir_all(dir.join("parent/name/below")).unwrap();
            fs::write(dir.join("parent/name/below/file"), "x").unwrap();
            fs::write(dir.join("parent/file"), "x").unwrap();
            symlink("name", dir.join("parent/link")).unwrap();
            let parent = crate::launch::open_name(&dir.join("parent")).unwrap();
            for closed in ["parent/name/below", "parent/name", "parent"] {
                fs::set_permissions(dir.join(closed), Permissions::from_mode(mode)).unwrap();
            }
            let found = look(parent.as_fd(), "name".as_ref()).unwrap();
            assert!(matches!(found, Found::Directory(_)), "{mode:o}");
            let absent = look(parent.as_fd(), "absent".as_ref()).unwrap_err();
            assert_eq!(absent.kind(), io::ErrorKind::NotFound, "{mode:o}");
            for name in ["name", "file", "link"] {
                let all = Allowance::unlimited();
                let removed = remove(parent.as_fd(), name.as_ref(), &all);
                assert!(removed.is_ok(), "{mode:o} {name}: {removed:?}");
            }
            let after = fs::metadata(dir.join("parent")).unwrap().permissions();
            assert_eq!(after.mode() & 0o7777, mode);
            open_up(parent.as_fd()).unwrap();
            assert_eq!(fs::read_dir(dir.join("parent")).unwrap().count(), 0);
            fs::remove_dir(dir.join("parent")).unwrap();
        });
    }
    fs::remove_dir(dir).unwrap();
}

#[test]
fn what_cannot_be_removed_keeps_nothing_else() {
    // Only root can make what somebody else owns.
    let dir = scratch("obstacle");
    if !nix::unistd::geteuid().is_root() {
        return fs::remove_dir(dir).unwrap();
    }
    for name in ["a", "m", "z"] {
        fs::create_dir_all(dir.join("top/own").join(name)).unwrap();
        fs::write(dir.join("top/own").join(name).join("file"), "x").unwrap();
    }
    for own in ["top", "top/own", "top/own/a", "top/own/z"] {
        std::os::unix::fs::chown(dir.join(own), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    unprivileged(&dir, || {
        let error = remove_from(&dir, "top").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        let left = fs::read_dir(dir.join("top/own")).unwrap();
        let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["m"]);
    });
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn with_an_owner_only_what_is_the_owners_is_removed() {
    let dir = scratch("owner");
    let own = nix::unistd::geteuid().as_raw();
    let take = |owner: u32| {
        let allowance = Allowance::unlimited().only_of(Some(owner));
        let parent = fs::File::open(&dir).unwrap();
        remove(parent.as_fd(), "top".as_ref(), &allowance)
    };
    fs::create_dir_all(dir.join("top/dir/deep")).unwrap();
    fs::write(dir.join("top/dir/file"), "x").unwrap();
    fs::set_permissions(dir.join("top"), Permissions::from_mode(0o751)).unwrap();
    let error = take(own.wrapping_add(1)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("another user"), "{error}");
    assert!(dir.join("top/dir/file").exists() && dir.join("top/dir/deep").exists());
    let mode = fs::metadata(dir.join("top")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o751, "nor is it opened");
    take(own).unwrap();
    assert!(!dir.join("top").exists());
    fs::remove_dir(dir).unwrap();
}

#[test]
fn what_a_command_moved_into_its_own_directory_stays_when_it_is_somebody_elses() {
    // Only root can make what somebody else owns.
    let dir = scratch("moved");
    if !nix::unistd::geteuid().is_root() {
        return fs::remove_dir(dir).unwrap();
    }
    let deep = "d/".repeat(usize::try_from(DEEPEST).unwrap() + 3);
    let places = ["top/data", "top", "top/z", &format!("top/{deep}")];
    for (name, place) in places.into_iter().enumerate() {
        fs::create_dir_all(dir.join("top/z")).unwrap();
        fs::create_dir_all(dir.join(place)).unwrap();
        fs::write(dir.join(place).join(format!("{name}-of-root")), "x").unwrap();
        fs::write(dir.join("top/payload"), "x").unwrap();
        let mut below = dir.join("top");
        give(&below);
        while let Some(next) = [below.join("d"), below.join("data"), below.join("z")]
            .into_iter()
            .find(|next| next.exists())
        {
            give(&next);
            below = next;
        }
        give(&dir.join("top/payload"));
        give(&dir.join("top/z"));
        let allowance = Allowance::unlimited().only_of(Some(NOBODY));
        let parent = fs::File::open(&dir).unwrap();
        let error = remove(parent.as_fd(), "top".as_ref(), &allowance).unwrap_err();
        assert!(
            error.to_string().contains("another user"),
            "{place}: {error}"
        );
        assert!(!dir.join("top/payload").exists(), "{place}");
        // Root itself may.
        remove_from(&dir, "top").unwrap();
    }
    fs::remove_dir(dir).unwrap();
}

fn give(path: &std::path::Path) {
    std::os::unix::fs::lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

#[test]
fn however_deep_it_lies_something_is_removed_each_time() {
    let dir = scratch("turns");
    for (levels, most) in [(DEEPEST + 50, 7), (2 * DEEPEST, DEEPEST), (40, 1)] {
        let mut place = dir.join("top");
        for _ in 0..levels {
            place.push("d");
        }
        fs::create_dir_all(place).unwrap();
        let parent = fs::File::open(&dir).unwrap();
        let mut turns = 0;
        while let Err(error) = remove(parent.as_fd(), "top".as_ref(), &Allowance::of(most.into())) {
            assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
            turns += 1;
            assert!(turns <= 2 * levels / most + 2, "{levels} by {most}");
        }
    }
    fs::remove_dir(dir).unwrap();
}

#[test]
fn want_of_descriptors_or_memory_is_not_final() {
    for (errno, kind) in [
        (libc::EMFILE, io::ErrorKind::WouldBlock),
        (libc::ENFILE, io::ErrorKind::WouldBlock),
        (libc::ENOMEM, io::ErrorKind::WouldBlock),
        (libc::EACCES, io::ErrorKind::PermissionDenied),
        (libc::ENOENT, io::ErrorKind::NotFound),
        (libc::EROFS, io::ErrorKind::ReadOnlyFilesystem),
    ] {
        let error = postponed(io::Error::from_raw_os_error(errno));
        assert_eq!(error.kind(), kind, "{errno}");
    }
}
