//! The directories of a session.

use std::path::{Path, PathBuf};

use super::{Exposure, FsRule, OUTPUT_DIR, RuleRef, Tier};

/// What a session keeps on the host for its commands. The directories outlive each command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDirs {
    /// Private temporary files: in the session's mount namespace the mount point of what commands see as
    /// `/tmp`; on the nested tier the directory itself.
    pub tmp: PathBuf,
    /// Kept output of earlier commands; commands only read it.
    pub output: PathBuf,
    /// Where the script of this command is placed on the nested tier; commands only read its directory.
    pub script: PathBuf,
}

impl SessionDirs {
    /// Where a command finds the kept output.
    #[must_use]
    pub fn output_inside(&self, tier: Tier) -> &Path {
        match tier {
            Tier::Nested => &self.output,
            Tier::Rootless | Tier::HostRoot => Path::new(OUTPUT_DIR),
        }
    }

    /// Rules for what is not the temporary directory.
    pub(super) fn rules(&self, tier: Tier, rule: &RuleRef) -> Vec<FsRule> {
        let scripts = match tier {
            Tier::Nested => self.script.parent(),
            Tier::Rootless | Tier::HostRoot => None,
        };
        [Some(self.output_inside(tier)), scripts]
            .into_iter()
            .flatten()
            .map(|path| FsRule {
                path: path.to_path_buf(),
                exposure: Exposure::Read,
                rule: rule.clone(),
            })
            .collect()
    }
}
