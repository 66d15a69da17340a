//! Control groups: limits that hold for a whole tree of processes, counters that prove which limit was
//! hit, and a kill that nothing in the tree can outrun.
//!
//! Which hierarchies are used is found out once, by making a group, setting limits and removing it
//! again (`discover`). Every execution gets one group in each of them (`group`).

mod counters;
mod discover;
mod entry;
mod group;
mod knob;
mod obstacle;
mod place;
mod remove;
mod unified;

use std::{io, path::PathBuf};

pub(crate) use counters::Counters;
pub(crate) use entry::Entry;
pub(crate) use group::Group;
pub(crate) use place::unescape as unescape_mount;
pub(crate) use remove::remove_all;

use group::{Dir, Placing};
use unified::Supervisor;

use crate::{
    claim::Claim,
    policy::{CgroupFacts, CgroupKind, Limits, Tier},
    probe::Capability,
};

/// Whether to use control groups at all.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Where they can be used.
    #[default]
    Auto,
    /// Not at all.
    None,
}

/// Shortest and longest wait before a group that is still busy is removed again, in milliseconds.
const RETRY_MS: (u64, u64) = (5, 1_000);

/// The groups of one launcher.
#[derive(Debug)]
pub(crate) struct Cgroups {
    facts: CgroupFacts,
    placing: Placing,
    /// This launcher's directory in each hierarchy.
    roots: Vec<Dir>,
    /// What shows that it lives.
    claims: Vec<Claim>,
    supervisor: Option<Supervisor>,
    /// What was tried in vain, one line each.
    tried: Vec<String>,
    retired: Vec<Group>,
    retry_ms: u64,
}

impl Cgroups {
    /// Finds out what can be used here. Makes this launcher's directories and removes those of
    /// launchers that are gone. The process must have one thread.
    ///
    /// Processes other than those in `own` are never moved.
    pub(crate) fn open(choice: Choice, own: &[i32]) -> Self {
        match choice {
            Choice::Auto => discover::discover(own),
            Choice::None => Self::none("switched off: start agentd without `--cgroup none`"),
        }
    }

    /// No control groups.
    fn none(remedy: &str) -> Self {
        Self {
            facts: CgroupFacts::none(remedy),
            placing: Placing::Write,
            roots: Vec::new(),
            claims: Vec::new(),
            supervisor: None,
            tried: Vec::new(),
            retired: Vec::new(),
            retry_ms: RETRY_MS.0,
        }
    }

    /// What they do for commands.
    pub(crate) fn facts(&self) -> &CgroupFacts {
        &self.facts
    }

    /// This launcher's directories, for whoever cleans up after it.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|root| root.path.clone()).collect()
    }

    /// Makes the group of an execution, with its limits; `None` without control groups.
    pub(crate) fn create(
        &self,
        exec: u64,
        limits: &Limits,
        tier: Tier,
    ) -> io::Result<Option<(Group, Entry)>> {
        if self.roots.is_empty() {
            return Ok(None);
        }
        let dirs = self
            .roots
            .iter()
            .map(|root| Dir {
                role: root.role,
                path: root.path.join(exec.to_string()),
            })
            .collect();
        // Init is in the group too, except on the nested tier.
        let extra_pids = u64::from(tier > Tier::Nested);
        let group = Group::create(self.facts.kind, dirs, limits, extra_pids)?;
        match group.entry(tier, self.placing) {
            Ok(entry) => Ok(Some((group, entry))),
            Err(error) => {
                for dir in &group.dirs {
                    // The first error is the one that matters.
                    remove::remove_one(&dir.path).unwrap_or_default();
                }
                Err(error)
            }
        }
    }

    /// Takes the group of an execution that is over, to be removed by [`Self::tidy`].
    pub(crate) fn retire(&mut self, group: Group) {
        self.retired.push(group);
        self.retry_ms = RETRY_MS.0;
    }

    /// Removes retired groups. Returns after how many milliseconds to come back because some are still
    /// busy: the kernel lets go of the last process a moment after it was reaped.
    pub(crate) fn tidy(&mut self) -> Option<u64> {
        self.retired.retain(|group| {
            let mut removed = true;
            for dir in &group.dirs {
                removed &= remove::remove_one(&dir.path).is_ok();
            }
            if !removed {
                // Nothing may live on in the group of a command whose end was told.
                group.kill();
            }
            !removed
        });
        if self.retired.is_empty() {
            return None;
        }
        let wait = self.retry_ms;
        self.retry_ms = wait.saturating_mul(2).min(RETRY_MS.1);
        Some(wait)
    }

    /// Kills what is left and removes everything. Waits for up to two seconds.
    pub(crate) fn close(&mut self) {
        self.retired.clear();
        if !self.roots.is_empty() {
            remove_all(&self.roots());
            self.roots.clear();
            self.claims.clear();
        }
        if let Some(supervisor) = self.supervisor.take() {
            supervisor.leave();
        }
        self.facts = CgroupFacts::none("the launcher is ending");
    }

    /// What is told of them about this host: one line, and one more for each attempt that failed.
    pub(crate) fn capability(&self) -> Capability {
        let CgroupFacts {
            kind,
            memory,
            pids,
            cpu,
            remedy,
        } = &self.facts;
        let missing = match (memory, pids) {
            (true, true) if *cpu => {
                "memory, processes and CPU time of a command's tree are limited and counted"
            }
            (true, true) => "memory and processes are limited",
            (true, false) => "memory is limited, processes only per user",
            (false, true) => "processes are limited, memory is not",
            (false, false) => "memory is not limited, processes only per user",
        };
        let per_process = if *cpu {
            ""
        } else {
            "; CPU time is limited for each process, not for the tree"
        };
        let remedy = match remedy.as_str() {
            "" => String::new(),
            text => format!(" ({text})"),
        };
        let short = format!("{kind}: {missing}{per_process}{remedy}");
        let lines = std::iter::once(&short).chain(&self.tried);
        Capability {
            name: "cgroup",
            available: *memory && *pids && *cpu,
            detail: lines.map(String::as_str).collect::<Vec<_>>().join("\n"),
        }
    }

    /// The kind, for reports.
    pub(crate) fn kind(&self) -> CgroupKind {
        self.facts.kind
    }
}
