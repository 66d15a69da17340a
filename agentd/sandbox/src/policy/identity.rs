//! Under which user a command runs. Never as root with capabilities.

use super::{
    HostFacts, Identity, Invocation, Layer, Refusal, Tier,
    availability::{ephemeral_possible, ephemeral_remedy},
};
use crate::profile::{Profile, UserRule};

/// The user for one execution.
pub(super) fn choose(
    profile: &Profile,
    invocation: &Invocation,
    facts: &HostFacts,
) -> Result<Identity, Refusal> {
    let caller = invocation.caller;
    let ephemeral = ephemeral_possible(facts).then_some(Identity::Ephemeral {
        uid: facts.ephemeral_uid,
        owner_uid: facts.workspace_uid,
        owner_gid: facts.workspace_gid,
    });
    let identity = match profile.identity.user {
        UserRule::Ephemeral => ephemeral.ok_or_else(|| missing(profile, facts))?,
        UserRule::Caller if facts.launcher_uid != 0 => {
            // The launcher cannot become anybody else.
            Identity::Caller {
                uid: facts.launcher_uid,
                gid: facts.launcher_gid,
            }
        }
        UserRule::Caller if caller.uid != 0 && facts.tier == Tier::HostRoot => Identity::Caller {
            uid: caller.uid,
            gid: caller.gid,
        },
        // Root without CAP_SYS_ADMIN, as in a default container: the command would stay root.
        UserRule::Caller if caller.uid != 0 => {
            return Err(Refusal::TierTooLow {
                profile: profile.name.clone(),
                required: Tier::HostRoot,
                available: facts.tier,
                remedy:
                    "the launcher is root without CAP_SYS_ADMIN and cannot run commands as the \
                         caller; give it that capability, or start agentd as the caller"
                        .to_owned(),
            });
        }
        UserRule::Caller => ephemeral.unwrap_or(Identity::RootWithoutCapabilities),
    };
    let required = profile.require.layers.contains(&Layer::EphemeralUid);
    if required && !matches!(identity, Identity::Ephemeral { .. }) {
        return Err(Refusal::LayerMissing {
            profile: profile.name.clone(),
            layer: Layer::EphemeralUid,
            remedy: "write `identity.user = \"ephemeral\"` in the profile".to_owned(),
        });
    }
    Ok(identity)
}

fn missing(profile: &Profile, facts: &HostFacts) -> Refusal {
    Refusal::LayerMissing {
        profile: profile.name.clone(),
        layer: Layer::EphemeralUid,
        remedy: ephemeral_remedy(facts),
    }
}
