//! Finding out which hierarchies can be used, by using them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Cgroups,
    group::{Dir, Group, Placing, Role},
    obstacle::{self, Obstacle},
    place::{self, Membership, Mount, Place},
    remove::{self, own_name},
    unified,
};
use crate::{
    claim::Claim,
    policy::{CgroupFacts, CgroupKind, Limits},
};

/// What helps where only root can make groups.
const AS_ROOT: &str = "run agentd as a root service";
/// What helps where a service manager can hand out groups.
const DELEGATED: &str = "run agentd as a root service, or with systemd's `Delegate=yes`";
/// The same, for whoever looks closer.
const EXAMPLE: &str = "for example: systemd-run --user --scope -p Delegate=yes agentd serve; in a container: a writable /sys/fs/cgroup";

/// Tries the unified hierarchy, then those of version 1.
pub(super) fn discover(own: &[i32]) -> Cgroups {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mounts = place::mounts(&read("/proc/self/mountinfo"));
    let memberships = place::memberships(&read("/proc/self/cgroup"));
    if mounts.is_empty() {
        let none = Obstacle::other("no control group file system is mounted");
        return refused(&[none], DELEGATED);
    }
    let mut all = match version_2(&mounts, &memberships, own) {
        Ok(found) => return found,
        Err(obstacles) => obstacles,
    };
    // Where it has no controllers, nobody can delegate them.
    let remedy = if all.is_empty() { AS_ROOT } else { DELEGATED };
    match version_1(&mounts, &memberships) {
        Ok(found) => return found,
        Err(obstacles) => all.extend(obstacles),
    }
    refused(&all, remedy)
}

/// Nothing can be used.
fn refused(obstacles: &[Obstacle], remedy: &str) -> Cgroups {
    let uid = nix::unistd::geteuid().as_raw();
    Cgroups {
        tried: tried(obstacles, remedy),
        ..Cgroups::none(&format!("{}: {remedy}", obstacle::cause(obstacles, uid)))
    }
}

/// Every attempt, and what could be done in detail.
fn tried(obstacles: &[Obstacle], remedy: &str) -> Vec<String> {
    let example = (remedy == DELEGATED).then(|| EXAMPLE.to_owned());
    let lines = obstacles.iter().map(Obstacle::line);
    lines.chain(example).collect()
}

/// Where groups can be made: in the own group if it may be divided; in the one above it, if whoever
/// delegated that put the daemon into a leaf of it (systemd's `DelegateSubgroup=`); else, as root, at
/// the top, where the rule about processes in inner groups does not hold.
fn candidates(place: &Place) -> Vec<&Path> {
    let mut all: Vec<&Path> = place.own.iter().map(PathBuf::as_path).collect();
    all.extend(
        place
            .own
            .as_deref()
            .and_then(|own| delegated_above(place, own)),
    );
    if nix::unistd::geteuid().is_root() && place.own.as_deref() != Some(&place.top) {
        all.push(&place.top);
    }
    all
}

/// The group above, unless the own one is a unit of a service manager: then that one is the manager's.
fn delegated_above<'a>(place: &Place, own: &'a Path) -> Option<&'a Path> {
    let name = own.file_name()?.to_string_lossy();
    let is_unit = [".service", ".scope", ".slice"]
        .iter()
        .any(|kind| name.ends_with(kind));
    let above = own.parent()?;
    (!is_unit && above != place.top && above.starts_with(&place.top)).then_some(above)
}

fn version_2(
    mounts: &[Mount],
    memberships: &[Membership],
    own: &[i32],
) -> Result<Cgroups, Vec<Obstacle>> {
    let Some(place) = place::find(mounts, memberships, None) else {
        return Err(Vec::new());
    };
    // In a hybrid set-up the unified hierarchy exists, but its controllers are elsewhere.
    let has = |name| super::knob::lists(&place.top, "cgroup.controllers", name);
    if !has("memory") && !has("pids") {
        return Err(Vec::new());
    }
    let mut obstacles = Vec::new();
    for base in candidates(&place) {
        match unified::try_below(base, own) {
            Ok(found) => {
                return Ok(Cgroups {
                    facts: CgroupFacts {
                        kind: CgroupKind::V2,
                        memory: true,
                        pids: true,
                        cpu: true,
                        remedy: String::new(),
                    },
                    placing: found.placing,
                    roots: vec![Dir {
                        role: Role::Unified,
                        path: found.root,
                    }],
                    claims: vec![found.claim],
                    supervisor: found.supervisor,
                    ..Cgroups::none("")
                });
            }
            Err(obstacle) => obstacles.push(obstacle),
        }
    }
    if obstacles.is_empty() {
        obstacles.push(Obstacle::other(
            "the daemon's own group is outside of what is mounted",
        ));
    }
    Err(obstacles)
}

/// This launcher's groups in every hierarchy that has a use.
#[derive(Default)]
struct Made {
    roots: Vec<Dir>,
    claims: Vec<Claim>,
    /// Why there is none in some.
    obstacles: Vec<Obstacle>,
}

fn make_roots(mounts: &[Mount], memberships: &[Membership]) -> Made {
    let mut made = Made::default();
    for (role, controller) in [
        (Role::Unified, None),
        (Role::Memory, Some("memory")),
        (Role::Pids, Some("pids")),
        (Role::Cpu, Some("cpuacct")),
        (Role::Freezer, Some("freezer")),
    ] {
        // The unified hierarchy kills and counts CPU time as well.
        let unified = made.roots.iter().any(|dir| dir.role == Role::Unified);
        if unified && matches!(role, Role::Cpu | Role::Freezer) {
            continue;
        }
        let Some(place) = place::find(mounts, memberships, controller) else {
            continue;
        };
        match make_root(role, &place) {
            Ok((root, claim)) => {
                made.roots.push(root);
                made.claims.extend(claim);
            }
            Err(obstacle) => made.obstacles.push(obstacle),
        }
    }
    made
}

fn version_1(mounts: &[Mount], memberships: &[Membership]) -> Result<Cgroups, Vec<Obstacle>> {
    let Made {
        roots,
        claims,
        obstacles,
    } = make_roots(mounts, memberships);
    let is_there = |wanted| roots.iter().any(|dir: &Dir| dir.role == wanted);
    let unified = is_there(Role::Unified);
    let kind = if unified {
        CgroupKind::Hybrid
    } else {
        CgroupKind::V1
    };
    let (memory, pids) = (is_there(Role::Memory), is_there(Role::Pids));
    let cpu = unified || is_there(Role::Cpu);
    let paths: Vec<_> = roots.iter().map(|root| root.path.clone()).collect();
    if !memory && !pids {
        remove::remove_all(&paths);
        return Err(obstacles);
    }
    if let Err(error) = probe(kind, &roots) {
        remove::remove_all(&paths);
        let text = format!("limits cannot be set in version 1: {error}");
        return Err(vec![Obstacle::other(text)]);
    }
    let none = if memory && pids && cpu {
        Cgroups::none("")
    } else {
        refused(&obstacles, AS_ROOT)
    };
    Ok(Cgroups {
        facts: CgroupFacts {
            kind,
            memory,
            pids,
            cpu,
            ..none.facts
        },
        placing: Placing::Write,
        roots,
        claims,
        ..none
    })
}

/// This launcher's group in a hierarchy, and the claim on it if it was made now.
fn make_root(role: Role, place: &Place) -> Result<(Dir, Option<Claim>), Obstacle> {
    let mut obstacle = Obstacle::other("the daemon's own group is outside of what is mounted");
    for base in candidates(place) {
        remove::remove_stale(base);
        let path = base.join(own_name());
        match Claim::make(&path) {
            // A unified hierarchy that cannot kill (before Linux 5.14) is of no use.
            Ok(_) if role == Role::Unified && !path.join("cgroup.kill").exists() => {
                remove::remove_one(&path).unwrap_or_default();
                obstacle = Obstacle::other("the kernel is older than 5.14");
            }
            Ok(claim) => return Ok((Dir { role, path }, Some(claim))),
            // Two roles in one hierarchy.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Ok((Dir { role, path }, None));
            }
            Err(error) => obstacle = Obstacle::of("no group can be made in", base, &error),
        }
    }
    Err(obstacle)
}

/// Makes a group with limits as an execution's, and removes it.
fn probe(kind: CgroupKind, roots: &[Dir]) -> std::io::Result<()> {
    let limits = Limits {
        timeout_ms: 0,
        idle_timeout_ms: None,
        kill_grace_ms: 0,
        cpu_seconds: None,
        memory_bytes: Some(1 << 30),
        pids: Some(64),
        file_size_bytes: None,
        open_files: 0,
        output_bytes: None,
        disk_bytes: None,
    };
    let dirs = roots
        .iter()
        .map(|root| Dir {
            role: root.role,
            path: root.path.join("probe"),
        })
        .collect();
    let group = Group::create(kind, dirs, &limits, 0)?;
    for dir in &group.dirs {
        remove::remove_one(&dir.path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_made_near_the_own_one_and_never_among_a_managers_units() {
        let top = PathBuf::from("/sys/fs/cgroup");
        for (own, above) in [
            ("a/main", Some("a")),
            (
                "system.slice/agentd.service/main",
                Some("system.slice/agentd.service"),
            ),
            ("system.slice/agentd.service", None),
            ("user.slice/user-1.slice/session-2.scope", None),
            ("user.slice/user-1.slice", None),
            ("main", None),
            ("", None),
        ] {
            let own = if own.is_empty() {
                top.clone()
            } else {
                top.join(own)
            };
            let place = Place {
                top: top.clone(),
                own: Some(own.clone()),
            };
            let expected = above.map(|above| top.join(above));
            let found = delegated_above(&place, &own).map(PathBuf::from);
            assert_eq!(found, expected, "{}", own.display());
            let all = candidates(&place);
            assert_eq!(all.first(), Some(&own.as_path()));
            let is_root = nix::unistd::geteuid().is_root();
            assert_eq!(all.contains(&top.as_path()), is_root || own == top);
        }
    }
}
