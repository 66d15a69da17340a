//! Protected names: found, planned for and watched, or the reason why they cannot be.

use std::{fs, path::Path};

use nix::errno::Errno;

use super::{
    not_started::{NotStarted, at},
    tripwire::{Tripwires, Unset},
};
use crate::{
    launch::{self, Unseen},
    plan::Plan,
    policy::{Policy, Refusal, Tier},
};

/// Rounds in which somebody replaces a protected name just when it is looked at.
const TRIES: u32 = 10;

/// Surveys the host for a policy, compiles the plan and watches what it protects.
pub(super) fn plan(policy: &Policy, landlock_abi: u32) -> Result<(Plan, Tripwires), NotStarted> {
    for _ in 0..TRIES {
        let survey = match launch::survey(policy, landlock_abi) {
            Ok(survey) => survey,
            Err(Unseen::Exhausted(errno)) => return Err(at("survey", errno)),
            Err(Unseen::Guarded(path, errno)) => return Err(unclear(policy, &path, errno)),
        };
        check(policy)?;
        let plan = Plan::compile(policy, &survey);
        // ORDER: after the survey, whose result it compares; before the command can make anything.
        match Tripwires::set(&policy.workspace, &plan) {
            Ok(tripwires) => return Ok((plan, tripwires)),
            Err(Unset::Changed) => {}
            Err(Unset::Unclear(path, errno)) => return Err(unclear(policy, &path, errno)),
            Err(Unset::System(errno)) => return Err(at("tripwire", errno)),
        }
    }
    let reason = "protected names in it are replaced all the time; try again".to_owned();
    Err(refusal(policy, reason))
}

fn unclear(policy: &Policy, path: &Path, errno: Errno) -> NotStarted {
    let reason = format!(
        "{} is protected, and cannot be looked at ({}): let the daemon's user search the directories above it",
        path.display(),
        errno.desc()
    );
    refusal(policy, reason)
}

fn refusal(policy: &Policy, reason: String) -> NotStarted {
    let path = policy.workspace.clone();
    Refusal::BadWorkspace { path, reason }.into()
}

/// A mount cannot protect a name that is a link, or that is reached through one: what is behind it stays
/// writable under its other name.
pub(super) fn check(policy: &Policy) -> Result<(), Refusal> {
    if policy.tier == Tier::Nested {
        // Nothing that exists is protected there, and the result says so.
        return Ok(());
    }
    let is_link =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink());
    let rules = policy.fs.rules.iter();
    let protected = rules.filter(|rule| policy.is_protection(rule));
    for rule in protected {
        let mut parts = rule
            .path
            .ancestors()
            .take_while(|part| **part != *policy.workspace);
        if let Some(link) = parts.find(|part| is_link(part)) {
            return Err(Refusal::BadWorkspace {
                path: policy.workspace.clone(),
                reason: format!(
                    "{} is protected by {}, but {} is a symbolic link, which cannot be protected: \
                     replace it by what it points to",
                    rule.path.display(),
                    rule.rule,
                    link.display()
                ),
            });
        }
    }
    Ok(())
}
