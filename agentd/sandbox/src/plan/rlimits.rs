//! Resource limits of a policy.

use crate::policy::{Identity, Policy, Tier};

/// One limit; the smaller of it and the inherited one holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rlimit {
    /// Which (`RLIMIT_*`).
    pub resource: nix::sys::resource::Resource,
    /// Soft value.
    pub soft: u64,
    /// Hard value.
    pub hard: u64,
}

/// Bytes of locked memory.
const MEMLOCK: u64 = 64 * 1024;
/// Seconds between SIGXCPU and SIGKILL.
const CPU_GRACE: u64 = 2;
/// By how much the limit of the user's processes is above the group's.
const BEHIND_THE_GROUP: u64 = 16;

/// The user whose tasks have to be counted for the limit of processes; `None` where the count is not used.
pub(crate) fn counted_user(policy: &Policy) -> Option<u32> {
    if policy.limits.pids.is_none() || policy.cgroup.pids || counts_from_zero(policy) {
        return None;
    }
    Some(match policy.identity {
        Identity::Caller { uid, .. } | Identity::Ephemeral { uid, .. } => uid,
        // The kernel exempts root, but not the root of a container's user namespace.
        Identity::RootWithoutCapabilities => 0,
    })
}

/// The kernel's count of the user's tasks holds this command's alone.
fn counts_from_zero(policy: &Policy) -> bool {
    let own_user = matches!(policy.identity, Identity::Ephemeral { .. });
    policy.tier == Tier::Rootless || (own_user && policy.session.is_none())
}

pub(super) fn compile(policy: &Policy, tasks_of_user: u64) -> Vec<Rlimit> {
    use nix::sys::resource::Resource;

    let limits = &policy.limits;
    let same = |resource, value| Rlimit {
        resource,
        soft: value,
        hard: value,
    };
    let mut all = vec![
        // No core: `core_pattern` may start a program of the host.
        same(Resource::RLIMIT_CORE, 0),
        same(Resource::RLIMIT_NOFILE, limits.open_files),
        same(Resource::RLIMIT_MEMLOCK, MEMLOCK),
        same(Resource::RLIMIT_RTPRIO, 0),
        same(Resource::RLIMIT_NICE, 0),
    ];
    if let Some(bytes) = limits.file_size_bytes {
        all.push(same(Resource::RLIMIT_FSIZE, bytes));
    }
    if let Some(seconds) = limits.cpu_seconds {
        let hard = seconds.saturating_add(CPU_GRACE);
        all.push(Rlimit {
            resource: Resource::RLIMIT_CPU,
            soft: seconds,
            hard,
        });
    }
    if let Some(pids) = limits.pids {
        // The kernel counts all tasks of the user. Only a throw-away uid and a user namespace start
        // from zero; elsewhere (also where commands of a session share a throw-away uid) the limit is
        // what the user has now plus what the command may have.
        let base = match (counts_from_zero(policy), policy.cgroup.pids) {
            (true, false) => Some(0),
            // The group's counter comes first, since it says whose limit was hit; this is a second net.
            (true, true) => Some(BEHIND_THE_GROUP),
            (false, false) => Some(tasks_of_user),
            // Commands of one user would use up each other's, and the group counts this one's alone.
            (false, true) => None,
        };
        if let Some(base) = base {
            all.push(same(Resource::RLIMIT_NPROC, base.saturating_add(pids)));
        }
    }
    all
}
