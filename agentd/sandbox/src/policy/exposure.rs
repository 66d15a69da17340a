//! From a profile's path rules to the file system rules of one execution: variables filled, ties
//! decided, and put into a form in which every layer means the same:
//!
//! - `readonly` stands exactly where something readable lies below something writable, so that what it
//!   takes away can be seen; everything else readable is `read`;
//! - a rule that repeats what the nearest one above it says is dropped;
//! - an exec rule covers exposed paths only, for the kernel could execute what it may not read.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{Exposure, FsPolicy, FsRule, HostFacts, RuleRef, Tier, resolve::built_in};
use crate::profile::{Profile, Variables};

/// Directories of which a jail with its own root has its own. On the nested tier they would be the
/// host's: other people's terminals and files.
const OWN_INSTANCES: [&str; 2] = ["/dev/ptmx", "/dev/pts"];

/// The file system rules.
pub(super) fn rules(profile: &Profile, variables: &Variables<'_>, facts: &HostFacts) -> FsPolicy {
    let tier = facts.tier;
    let private = private_directories(profile, variables, tier);
    let filled = profile.fs.rules.iter().map(|rule| FsRule {
        path: rule.path.fill(variables),
        exposure: rule.exposure,
        rule: rule.rule.clone(),
    });
    let shared_with_host = |rule: &FsRule| {
        tier == Tier::Nested && OWN_INSTANCES.iter().any(|own| rule.path == Path::new(own))
    };
    let filled = filled.filter(|rule| !shared_with_host(rule));
    let place = tmp_place(profile);
    let session = facts
        .session
        .iter()
        .flat_map(|dirs| dirs.rules(tier, &place));
    let all = filled.chain(private.iter().cloned()).chain(session);
    let rules = settle(strongest(all));
    let exec = profile.fs.exec.iter().map(|rule| FsRule {
        path: rule.path.fill(variables),
        exposure: Exposure::Read,
        rule: rule.rule.clone(),
    });
    let private_exec = private.into_iter().map(|rule| FsRule {
        exposure: Exposure::Read,
        ..rule
    });
    let exec: Vec<FsRule> = private_exec.chain(exec).collect();
    let mut policy = FsPolicy {
        rules,
        exec: Vec::new(),
        tmp: profile.fs.tmp,
    };
    policy.exec = exposed_only(&exec, &policy);
    policy
}

/// The private temporary directories, always writable.
fn private_directories(profile: &Profile, variables: &Variables<'_>, tier: Tier) -> Vec<FsRule> {
    let rule = tmp_place(profile);
    let shm = match tier {
        Tier::Nested => None,
        Tier::Rootless | Tier::HostRoot => Some(Path::new("/dev/shm")),
    };
    std::iter::once(variables.tmp)
        .chain(shm)
        .map(|path| FsRule {
            path: path.to_path_buf(),
            exposure: Exposure::Write,
            rule: rule.clone(),
        })
        .collect()
}

/// Where the profile speaks of temporary files.
fn tmp_place(profile: &Profile) -> RuleRef {
    profile
        .sources
        .get("fs.tmp")
        .cloned()
        .unwrap_or_else(|| built_in(profile))
}

/// One rule per path: the strongest, and of equals the first. Sorted, so that an ancestor comes before
/// what is below it.
fn strongest(rules: impl Iterator<Item = FsRule>) -> Vec<FsRule> {
    let mut by_path: BTreeMap<PathBuf, FsRule> = BTreeMap::new();
    for rule in rules {
        match by_path.get(&rule.path) {
            Some(kept) if kept.exposure >= rule.exposure => {}
            Some(_) | None => {
                by_path.insert(rule.path.clone(), rule);
            }
        }
    }
    by_path.into_values().collect()
}

/// Carve-outs made explicit, and dropped where they carve nothing.
pub(super) fn settle(rules: Vec<FsRule>) -> Vec<FsRule> {
    let mut settled: Vec<FsRule> = Vec::with_capacity(rules.len());
    for mut rule in rules {
        let above = || {
            settled
                .iter()
                .filter(|other| rule.path.starts_with(&other.path))
        };
        let below_writable = above().any(|other| other.exposure == Exposure::Write);
        let nearest = above().max_by_key(|other| other.path.components().count());
        let nearest = nearest.map(|other| other.exposure);
        rule.exposure = match rule.exposure {
            Exposure::Read | Exposure::Readonly if below_writable => Exposure::Readonly,
            Exposure::Read | Exposure::Readonly => Exposure::Read,
            Exposure::Write => Exposure::Write,
            Exposure::Deny => Exposure::Deny,
        };
        // Nothing below a readonly rule is readable only, and the like: the same answer again.
        if nearest != Some(rule.exposure) || rule.exposure == Exposure::Write {
            settled.push(rule);
        }
    }
    settled
}

/// Exec rules cut down to what is exposed.
fn exposed_only(exec: &[FsRule], policy: &FsPolicy) -> Vec<FsRule> {
    let mut by_path: BTreeMap<PathBuf, FsRule> = BTreeMap::new();
    for rule in exec {
        let exposed = |exposure: Exposure| exposure != Exposure::Deny;
        if policy
            .deciding(&rule.path)
            .is_some_and(|found| exposed(found.exposure))
        {
            by_path
                .entry(rule.path.clone())
                .or_insert_with(|| rule.clone());
            continue;
        }
        let below = policy
            .rules
            .iter()
            .filter(|found| exposed(found.exposure) && found.path.starts_with(&rule.path));
        for found in below {
            let narrowed = FsRule {
                path: found.path.clone(),
                ..rule.clone()
            };
            by_path.entry(found.path.clone()).or_insert(narrowed);
        }
    }
    by_path.into_values().collect()
}
