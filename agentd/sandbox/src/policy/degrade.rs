//! Which guarantees are absent although the profile would use them, and what that means in practice.

use super::{Degradation, Exposure, HostFacts, Identity, Layer, NetMode, Policy, Tier};

/// Most carve-outs named in one text.
const MOST_NAMES: usize = 16;

/// Everything that is absent, in the order of the layers.
pub(super) fn list(policy: &Policy, facts: &HostFacts) -> Vec<Degradation> {
    let mut degraded = match policy.tier {
        Tier::Nested => nested(policy, facts),
        Tier::Rootless | Tier::HostRoot => Vec::new(),
    };
    if policy.identity == Identity::RootWithoutCapabilities {
        degraded.push(Degradation {
            layer: Layer::EphemeralUid,
            guarantee: "commands run as uid 0, without any capability: files of root that a rule \
                        exposes can be changed as far as the rule goes"
                .to_owned(),
            reason: super::availability::ephemeral_remedy(facts),
        });
    }
    degraded.extend(limits(policy, facts));
    degraded.sort_by_key(|degradation| degradation.layer);
    degraded
}

/// Limits that are not enforced, or in another way than the profile means them.
fn limits(policy: &Policy, facts: &HostFacts) -> Vec<Degradation> {
    let mut degraded = Vec::new();
    let cgroup = &facts.cgroup;
    let missing = |guarantee: String| Degradation {
        layer: Layer::Cgroup,
        guarantee,
        reason: cgroup.remedy.clone(),
    };
    if let Some(bytes) = policy.limits.memory_bytes.filter(|_| !cgroup.memory) {
        // A limit of address space (`RLIMIT_AS`, `RLIMIT_DATA`) is no substitute: it counts what is only
        // reserved, so that Go, Java, Node and sanitizers do not even start, and one process, not the tree.
        degraded.push(missing(format!(
            "the memory limit of {bytes} bytes is not enforced"
        )));
    }
    if policy.limits.cpu_seconds.is_some() && !cgroup.cpu {
        degraded.push(missing(
            "the CPU limit holds for each process, not for the tree".to_owned(),
        ));
    }
    if let Some(pids) = policy.limits.pids.filter(|_| !cgroup.pids)
        && shares_user(policy)
    {
        degraded.push(missing(format!(
            "the limit of {pids} processes counts all processes of your user, so that commands can use \
             up each other's"
        )));
    }
    if policy.identity == Identity::RootWithoutCapabilities
        && policy.limits.pids.is_some()
        && !cgroup.pids
    {
        degraded.push(Degradation {
            layer: Layer::Rlimits,
            guarantee: "the number of processes is not limited: the kernel exempts uid 0"
                .to_owned(),
            reason: super::availability::ephemeral_remedy(facts),
        });
    }
    degraded
}

/// The kernel counts the command's processes together with others of the same user.
fn shares_user(policy: &Policy) -> bool {
    matches!(policy.identity, Identity::Caller { .. }) && policy.tier != Tier::Rootless
}

/// What the nested tier lacks.
fn nested(policy: &Policy, facts: &HostFacts) -> Vec<Degradation> {
    let missing = |layer: Layer, guarantee: &str| Degradation {
        layer,
        guarantee: guarantee.to_owned(),
        reason: facts.tier_reason.clone(),
    };
    let mut degraded = vec![
        missing(
            Layer::PidNamespace,
            "processes that outlive a command are found and killed as well as possible, not for \
             certain; names and arguments of other processes are visible in /proc",
        ),
        missing(
            Layer::MountNamespace,
            "the temporary directory is a private directory and not /tmp, without a size of its own; \
             /dev/shm and new terminals (/dev/pts) are not available",
        ),
        missing(
            Layer::OwnRoot,
            "names, sizes and times of files outside the rules are visible, and modes, owners and \
             times of your own files outside the rules can be changed",
        ),
        missing(
            Layer::IpcNamespace,
            "System V IPC objects of the host are visible",
        ),
        missing(Layer::UtsNamespace, "the host's name is visible"),
        missing(
            Layer::CgroupNamespace,
            "the host's cgroup paths are visible",
        ),
    ];
    let names = |exposure| carve_outs(policy, exposure);
    if let Some(names) = names(Exposure::Readonly) {
        let text = format!(
            "read-only paths inside writable directories ({names}) can be changed; only new ones are \
             removed again after the command"
        );
        degraded.push(missing(Layer::OwnRoot, &text));
    }
    if let Some(names) = names(Exposure::Deny) {
        let text = format!(
            "hidden paths inside granted directories ({names}) are not hidden: what holds for the \
             directory holds for them"
        );
        degraded.push(missing(Layer::OwnRoot, &text));
    }
    if policy.net == NetMode::None {
        degraded.push(missing(
            Layer::NetNamespace,
            "there is no loopback interface of its own: system calls that make sockets are refused, so \
             local servers and their tests do not work",
        ));
    }
    degraded.extend(landlock(facts));
    degraded
}

/// The carve-outs of one kind, as many as a person reads.
fn carve_outs(policy: &Policy, exposure: Exposure) -> Option<String> {
    let mut names: Vec<String> = policy
        .fs
        .rules
        .iter()
        .filter(|rule| rule.exposure == exposure && policy.fs.is_carve_out(rule))
        .map(|rule| {
            let inside = rule.path.strip_prefix(&policy.workspace);
            inside.unwrap_or(&rule.path).display().to_string()
        })
        .collect();
    let hidden = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    if hidden > 0 {
        names.push(format!("{hidden} more"));
    }
    (!names.is_empty()).then(|| names.join(", "))
}

/// What older Landlock versions leave open, where nothing else closes it.
fn landlock(facts: &HostFacts) -> Vec<Degradation> {
    let rows = [
        (
            3,
            "6.2",
            "files outside the rules can be truncated by path where file modes allow it",
        ),
        (
            5,
            "6.10",
            "device files that a rule exposes accept every ioctl that their driver permits",
        ),
        (
            6,
            "6.12",
            "signals can be sent to your own processes outside the jail",
        ),
    ];
    rows.into_iter()
        .filter(|(abi, _, _)| facts.landlock_abi < *abi)
        .map(|(abi, kernel, guarantee)| Degradation {
            layer: Layer::Landlock,
            guarantee: guarantee.to_owned(),
            reason: format!(
                "Landlock ABI {} here, ABI {abi} closes it; use Linux {kernel} or later",
                facts.landlock_abi
            ),
        })
        .collect()
}
