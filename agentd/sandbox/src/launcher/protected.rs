//! Protected names that no mount can protect.

use std::{fs, path::Path};

use crate::policy::{Exposure, Policy, Refusal, Tier};

/// A mount cannot protect a name that is a link, or that is reached through one: what is behind it stays
/// writable under its other name.
pub(super) fn check(policy: &Policy) -> Result<(), Refusal> {
    if policy.tier == Tier::Nested {
        // Nothing that exists is protected there, and the result says so.
        return Ok(());
    }
    let is_link =
        |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_symlink());
    let protected = policy.fs.rules.iter().filter(|rule| {
        matches!(rule.exposure, Exposure::Readonly | Exposure::Deny)
            && rule.path.starts_with(&policy.workspace)
    });
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
