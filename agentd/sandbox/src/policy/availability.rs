//! Whether a host can enforce a profile at all, before any request.

use super::{HostFacts, Layer, NetMode, Refusal, Tier};
use crate::profile::Profile;

/// Refuses when the host lacks what the profile requires.
pub(super) fn check(profile: &Profile, facts: &HostFacts) -> Result<(), Refusal> {
    if facts.landlock_abi < profile.require.landlock_abi.max(1) {
        return Err(Refusal::LayerMissing {
            profile: profile.name.clone(),
            layer: Layer::Landlock,
            remedy: landlock_remedy(profile.require.landlock_abi.max(1), facts.landlock_abi),
        });
    }
    if facts.tier < profile.require.tier {
        return Err(Refusal::TierTooLow {
            profile: profile.name.clone(),
            required: profile.require.tier,
            available: facts.tier,
            remedy: facts.tier_reason.clone(),
        });
    }
    for layer in &profile.require.layers {
        if let Some(remedy) = missing(*layer, profile, facts) {
            let profile = profile.name.clone();
            return Err(Refusal::LayerMissing {
                profile,
                layer: *layer,
                remedy,
            });
        }
    }
    Ok(())
}

/// Why this host cannot enforce `profile`, with the remedy; `None` when it can. What depends on the
/// caller is decided per request.
#[must_use]
pub fn unavailable(profile: &Profile, facts: &HostFacts) -> Option<String> {
    check(profile, facts)
        .err()
        .map(|refusal| refusal.to_string())
}

/// Why a required layer is not in force; `None` when it is, or when it depends on the caller.
fn missing(layer: Layer, profile: &Profile, facts: &HostFacts) -> Option<String> {
    match layer {
        Layer::Rlimits
        | Layer::NoCapabilities
        | Layer::NoNewPrivs
        | Layer::Landlock
        | Layer::Seccomp
        | Layer::Tripwire => None,
        Layer::PidNamespace
        | Layer::MountNamespace
        | Layer::IpcNamespace
        | Layer::UtsNamespace
        | Layer::CgroupNamespace
        | Layer::OwnRoot => (facts.tier == Tier::Nested).then(|| facts.tier_reason.clone()),
        Layer::NetNamespace => match (profile.net, facts.tier) {
            (NetMode::Host, _) => Some("write `net.mode = \"none\"` in the profile".to_owned()),
            (NetMode::None, Tier::Nested) => Some(facts.tier_reason.clone()),
            (NetMode::None, Tier::Rootless | Tier::HostRoot) => None,
        },
        Layer::UserNamespace => (facts.tier != Tier::Rootless).then(|| {
            "only the rootless tier has one; require `tier` instead of this layer".to_owned()
        }),
        Layer::Subreaper => (facts.tier != Tier::Nested).then(|| {
            "only the nested tier has one, others have a pid namespace; remove it".to_owned()
        }),
        Layer::EphemeralUid => (!ephemeral_possible(facts)).then(|| ephemeral_remedy(facts)),
        Layer::Cgroup => {
            (!facts.cgroup.memory || !facts.cgroup.pids).then(|| facts.cgroup.remedy.clone())
        }
    }
}

/// A throw-away uid can be used here.
pub(super) fn ephemeral_possible(facts: &HostFacts) -> bool {
    facts.launcher_uid == 0 && facts.tier == Tier::HostRoot && facts.idmap
}

/// What would make a throw-away uid possible.
pub(super) fn ephemeral_remedy(facts: &HostFacts) -> String {
    if facts.launcher_uid != 0 || facts.tier != Tier::HostRoot {
        return "run agentd as a system service, as root with CAP_SYS_ADMIN".to_owned();
    }
    "the workspace's file system cannot be mounted with mapped owners; move it to ext4, xfs, btrfs or \
     tmpfs on Linux 5.12 or later"
        .to_owned()
}

fn landlock_remedy(required: u32, available: u32) -> String {
    let kernel = match required {
        0 | 1 => "5.13",
        2 => "5.19",
        3 => "6.2",
        4 => "6.7",
        5 => "6.10",
        6 => "6.12",
        7 => "6.15",
        8 => "7.0",
        9 => "7.1",
        _ => "of the year 2026 or later",
    };
    let found = match available {
        0 => "this kernel has none".to_owned(),
        abi => format!("this kernel has ABI {abi}"),
    };
    format!(
        "ABI {required} is needed, {found}; use Linux {kernel} or later with Landlock built in and \
         `landlock` in the `lsm=` boot parameter"
    )
}
