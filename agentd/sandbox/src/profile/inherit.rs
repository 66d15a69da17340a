//! From checked files to whole profiles: follows `extends`, merges, and insists that every setting has
//! a value. There is no built-in default for anything that decides about security.

use std::collections::BTreeMap;

use super::{
    FsRules, IdentityRules, LimitRules, Profile, ProfileError, Require, digest,
    fragment::{Fragment, Settings},
};
use crate::policy::Limits;

/// Longest chain of parents.
const DEEPEST: usize = 8;

/// The profile that `fragment` describes together with its parents.
pub(super) fn resolve(
    fragment: &Fragment,
    all: &BTreeMap<String, Fragment>,
) -> Result<Profile, ProfileError> {
    let chain = chain(fragment, all)?;
    let parents = chain
        .iter()
        .skip(1)
        .map(|parent| parent.name.clone())
        .collect();
    let settings = chain
        .iter()
        .rev()
        .map(|fragment| fragment.settings.clone())
        .reduce(|parent, child| child.over(parent))
        .unwrap_or_default();
    let mut profile = whole(fragment, parents, settings)?;
    profile.digest = digest::of(&profile);
    Ok(profile)
}

/// The fragment and its parents, the nearest first.
fn chain<'f>(
    fragment: &'f Fragment,
    all: &'f BTreeMap<String, Fragment>,
) -> Result<Vec<&'f Fragment>, ProfileError> {
    let mut chain = vec![fragment];
    let mut last = fragment;
    while let Some((name, at)) = &last.extends {
        let problem = match all.get(name) {
            None => {
                let known: Vec<&str> = all.keys().map(String::as_str).collect();
                format!(
                    "there is no profile \"{name}\"; known: {}",
                    known.join(", ")
                )
            }
            Some(parent) if chain.iter().any(|seen| seen.name == parent.name) => {
                format!("\"{name}\" extends itself in the end; remove one of the `extends`")
            }
            Some(_) if chain.len() > DEEPEST => {
                format!("more than {DEEPEST} parents; merge some of them")
            }
            Some(parent) => {
                chain.push(parent);
                last = parent;
                continue;
            }
        };
        return Err(ProfileError::Inheritance {
            at: at.clone(),
            problem,
        });
    }
    Ok(chain)
}

fn whole(
    fragment: &Fragment,
    parents: Vec<String>,
    settings: Settings,
) -> Result<Profile, ProfileError> {
    let missing = |key: &str| ProfileError::Incomplete {
        file: fragment.file.clone(),
        key: key.to_owned(),
    };
    if settings.workspace.is_none() {
        return Err(missing("fs.workspace"));
    }
    let mut layers = settings.layers.clone();
    layers.sort();
    layers.dedup();
    Ok(Profile {
        name: fragment.name.clone(),
        description: fragment.description.clone(),
        file: fragment.file.clone(),
        parents,
        is_abstract: fragment.is_abstract,
        meta: fragment.meta.clone(),
        require: Require {
            tier: settings.tier.ok_or_else(|| missing("require.tier"))?,
            landlock_abi: settings
                .landlock_abi
                .and_then(|abi| u32::try_from(abi).ok())
                .ok_or_else(|| missing("require.landlock_abi"))?,
            layers,
        },
        identity: IdentityRules {
            user: settings.user.ok_or_else(|| missing("identity.user"))?,
            umask: settings.umask.ok_or_else(|| missing("identity.umask"))?,
            hostname: settings
                .hostname
                .clone()
                .ok_or_else(|| missing("identity.hostname"))?,
        },
        fs: FsRules {
            rules: settings.exposure_rules(),
            exec: settings.exec_rules(),
            tmp: settings.tmp.ok_or_else(|| missing("fs.tmp"))?,
        },
        net: settings.net.ok_or_else(|| missing("net.mode"))?,
        syscalls: settings.syscalls.ok_or_else(|| missing("syscalls.base"))?,
        limits: limits(fragment, &settings)?,
        env: settings.env,
        commands: settings.commands,
        sources: settings.sources,
        digest: String::new(),
    })
}

fn limits(fragment: &Fragment, settings: &Settings) -> Result<LimitRules, ProfileError> {
    let limits = settings.limits;
    let need = |value: Option<u64>, key: &str| {
        value.ok_or_else(|| ProfileError::Incomplete {
            file: fragment.file.clone(),
            key: key.to_owned(),
        })
    };
    let rules = LimitRules {
        defaults: Limits {
            timeout_ms: need(limits.wall_ms, "limits.wall")?,
            idle_timeout_ms: limits.idle_ms,
            kill_grace_ms: need(limits.grace_ms, "limits.grace")?,
            cpu_seconds: limits.cpu_seconds,
            memory_bytes: limits.memory_bytes,
            pids: limits.pids,
            file_size_bytes: limits.file_size_bytes,
            open_files: need(limits.open_files, "limits.open_files")?,
            output_bytes: limits.output_bytes,
            disk_bytes: limits.disk_bytes,
        },
        max_timeout_ms: need(limits.wall_max_ms, "limits.wall_max")?,
        max_grace_ms: need(limits.grace_max_ms, "limits.grace_max")?,
    };
    for (key, value, largest) in [
        (
            "limits.wall",
            rules.defaults.timeout_ms,
            rules.max_timeout_ms,
        ),
        (
            "limits.grace",
            rules.defaults.kill_grace_ms,
            rules.max_grace_ms,
        ),
    ] {
        if value > largest {
            let at = settings
                .sources
                .get(key)
                .unwrap_or(&fragment.name_at)
                .clone();
            let problem = format!("is larger than `{key}_max`; raise that one or lower this one");
            return Err(ProfileError::Value {
                at,
                key: key.to_owned(),
                problem,
            });
        }
    }
    Ok(rules)
}
