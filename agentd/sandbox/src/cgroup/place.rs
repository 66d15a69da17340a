//! Where the hierarchies are mounted and where this process is in them. Pure parsers of
//! `/proc/self/mountinfo` and `/proc/self/cgroup`.

use std::{
    ffi::OsString,
    os::unix::ffi::OsStringExt,
    path::{Component, Path, PathBuf},
};

/// A mounted hierarchy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mount {
    /// Where.
    pub(super) point: PathBuf,
    /// Which of its groups stands there, `/` for the whole hierarchy.
    pub(super) root: PathBuf,
    /// Controllers of a version 1 hierarchy; `None` for the unified one.
    pub(super) controllers: Option<Vec<String>>,
}

/// One line of `/proc/self/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Membership {
    /// Controllers of a version 1 hierarchy; `None` for the unified one.
    pub(super) controllers: Option<Vec<String>>,
    /// The group, from the root of the cgroup namespace.
    pub(super) path: PathBuf,
}

/// A hierarchy with the places in it where groups may be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its mount point.
    pub(super) top: PathBuf,
    /// This process's own group; `None` when it is not below the mount.
    pub(super) own: Option<PathBuf>,
}

/// The hierarchies in a `mountinfo`.
pub(super) fn mounts(mountinfo: &str) -> Vec<Mount> {
    mountinfo.lines().filter_map(mount).collect()
}

fn mount(line: &str) -> Option<Mount> {
    // Optional fields stand between the sixth and a lone hyphen.
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ');
    let root = unescape(place.nth(3)?);
    let point = unescape(place.next()?);
    let mut kind = kind.split(' ');
    let controllers = match kind.next()? {
        "cgroup2" => None,
        "cgroup" => Some(list(kind.nth(1)?)),
        _ => return None,
    };
    Some(Mount {
        point,
        root,
        controllers,
    })
}

/// The lines of a `/proc/self/cgroup`.
pub(super) fn memberships(text: &str) -> Vec<Membership> {
    text.lines().filter_map(membership).collect()
}

fn membership(line: &str) -> Option<Membership> {
    // A path may hold colons.
    let mut fields = line.splitn(3, ':');
    let id = fields.next()?;
    let controllers = fields.next()?;
    let path = PathBuf::from(fields.next()?);
    id.parse::<u32>().ok()?;
    Some(Membership {
        controllers: (id != "0").then(|| list(controllers)),
        path,
    })
}

fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::to_owned).collect()
}

/// The unified hierarchy, or the one with this version 1 controller.
pub(super) fn find(
    mounts: &[Mount],
    memberships: &[Membership],
    controller: Option<&str>,
) -> Option<Place> {
    let has = |controllers: &Option<Vec<String>>| match (controllers, controller) {
        (None, None) => true,
        (Some(list), Some(wanted)) => list.iter().any(|name| name == wanted),
        (Some(_), None) | (None, Some(_)) => false,
    };
    let mount = mounts.iter().find(|mount| has(&mount.controllers))?;
    let own = memberships
        .iter()
        .find(|membership| has(&membership.controllers))
        .and_then(|membership| below(mount, &membership.path));
    Some(Place {
        top: mount.point.clone(),
        own,
    })
}

/// A group's directory, if it is below the mount.
fn below(mount: &Mount, group: &Path) -> Option<PathBuf> {
    let relative = group
        .strip_prefix(&mount.root)
        .or_else(|_outside| group.strip_prefix("/"))
        .ok()?;
    let plain = relative
        .components()
        .all(|part| matches!(part, Component::Normal(_)));
    plain.then(|| mount.point.join(relative))
}

/// Undoes the octal escapes of `mountinfo`.
pub(crate) fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(octal).filter(|_| *first == b'\\');
        bytes.push(code.unwrap_or(*first));
        rest = match code {
            Some(_) => tail.get(3..).unwrap_or_default(),
            None => tail,
        };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

fn octal(digits: &[u8]) -> Option<u8> {
    let text = std::str::from_utf8(digits).ok()?;
    let plain = text.bytes().all(|digit| (b'0'..=b'7').contains(&digit));
    u8::from_str_radix(text, 8).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 master:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 /docker/ab /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime - cgroup2 cgroup2 rw,nsdelegate
";

    const MEMBER: &str = "\
9:name=systemd:/a:b
4:memory:/docker/ab/x
2:cpu,cpuacct:/
0::/../other
";

    fn place(controller: Option<&str>) -> Option<Place> {
        find(&mounts(HYBRID), &memberships(MEMBER), controller)
    }

    #[test]
    fn every_hierarchy_is_found_with_the_own_group_in_it() {
        let at = |top: &str, own: Option<&str>| {
            Some(Place {
                top: top.into(),
                own: own.map(PathBuf::from),
            })
        };
        for (controller, expected) in [
            (
                Some("memory"),
                at("/sys/fs/cgroup/memory", Some("/sys/fs/cgroup/memory/x")),
            ),
            (
                Some("cpuacct"),
                at(
                    "/sys/fs/cgroup/cpu,cpuacct",
                    Some("/sys/fs/cgroup/cpu,cpuacct"),
                ),
            ),
            (Some("pids"), None),
            (None, at("/sys/fs/cgroup/uni fied", None)),
        ] {
            assert_eq!(place(controller), expected, "{controller:?}");
        }
    }

    #[test]
    fn a_path_may_hold_colons_and_an_empty_list_is_the_unified_hierarchy() {
        let lines = memberships(MEMBER);
        assert_eq!(lines.first().unwrap().path, PathBuf::from("/a:b"));
        assert_eq!(lines.last().unwrap().controllers, None);
        for bad in ["", "x", "1:memory", "x:memory:/"] {
            assert_eq!(memberships(bad), [], "{bad:?}");
        }
    }

    #[test]
    fn only_octal_escapes_are_undone() {
        for (text, plain) in [
            ("/a\\040b", "/a b"),
            ("/a\\134", "/a\\"),
            ("/a\\9", "/a\\9"),
            ("\\", "\\"),
            ("/\\+12", "/\\+12"),
        ] {
            assert_eq!(unescape(text), PathBuf::from(plain), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_the_parsers_fail(text in "[ -~\\n]{0,300}") {
            let (mounts, memberships) = (mounts(&text), memberships(&text));
            for controller in [None, Some("memory")] {
                let found = find(&mounts, &memberships, controller);
                prop_assert!(found.is_none_or(|place| place.own.is_none_or(|own| own.starts_with(&place.top))));
            }
        }
    }
}
