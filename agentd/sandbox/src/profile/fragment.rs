//! One checked file: what it says itself, and how it is laid over its parent. Every rule about
//! inheritance stands here and nowhere else.
//!
//! Single values: the child's wins. Lists: the union, so nobody can take a parent's rule away; for one
//! path `deny > readonly > write > read`, so a child can only strengthen a parent's rule on the same
//! path (a longer path may be exposed more). Variables: the child's word about a name wins.

use std::collections::BTreeMap;

use super::{CommandRules, PathRule, PathTemplate, UserRule};
use crate::policy::{EnvPolicy, Exposure, Layer, NetMode, RuleRef, SyscallBase, Tier, TmpPolicy};

/// A checked file.
#[derive(Debug, Clone)]
pub(super) struct Fragment {
    pub(super) file: String,
    pub(super) name: String,
    pub(super) name_at: RuleRef,
    pub(super) extends: Option<(String, RuleRef)>,
    pub(super) description: String,
    pub(super) is_abstract: bool,
    pub(super) meta: BTreeMap<String, String>,
    pub(super) settings: Settings,
}

/// The part of a file that children inherit.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) sources: BTreeMap<String, RuleRef>,
    pub(super) tier: Option<Tier>,
    pub(super) landlock_abi: Option<u64>,
    pub(super) layers: Vec<Layer>,
    pub(super) user: Option<UserRule>,
    pub(super) umask: Option<u32>,
    pub(super) hostname: Option<String>,
    pub(super) workspace: Option<Exposure>,
    pub(super) tmp: Option<TmpPolicy>,
    pub(super) rules: Vec<PathRule>,
    pub(super) exec: Vec<PathRule>,
    pub(super) env: EnvPolicy,
    pub(super) net: Option<NetMode>,
    pub(super) syscalls: Option<SyscallBase>,
    pub(super) limits: LimitSettings,
    pub(super) inherit_commands: Option<bool>,
    pub(super) commands: CommandRules,
}

/// `[limits]`, in milliseconds, seconds, bytes and numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LimitSettings {
    pub(super) wall_ms: Option<u64>,
    pub(super) wall_max_ms: Option<u64>,
    pub(super) idle_ms: Option<u64>,
    pub(super) grace_ms: Option<u64>,
    pub(super) grace_max_ms: Option<u64>,
    pub(super) cpu_seconds: Option<u64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) pids: Option<u64>,
    pub(super) open_files: Option<u64>,
    pub(super) file_size_bytes: Option<u64>,
    pub(super) output_bytes: Option<u64>,
    pub(super) disk_bytes: Option<u64>,
}

impl Settings {
    /// This file's settings over its parent's.
    pub(super) fn over(self, parent: Self) -> Self {
        let mut sources = parent.sources;
        let env = env_over(self.env, parent.env, &mut sources);
        sources.extend(self.sources);
        let commands = match self.inherit_commands {
            Some(false) => self.commands,
            Some(true) | None => CommandRules {
                rules: [self.commands.rules, parent.commands.rules].concat(),
                literals: [self.commands.literals, parent.commands.literals].concat(),
            },
        };
        Self {
            sources,
            tier: self.tier.or(parent.tier),
            landlock_abi: self.landlock_abi.or(parent.landlock_abi),
            layers: [self.layers, parent.layers].concat(),
            user: self.user.or(parent.user),
            umask: self.umask.or(parent.umask),
            hostname: self.hostname.or(parent.hostname),
            workspace: self.workspace.or(parent.workspace),
            tmp: self.tmp.or(parent.tmp),
            rules: [self.rules, parent.rules].concat(),
            exec: [self.exec, parent.exec].concat(),
            env,
            net: self.net.or(parent.net),
            syscalls: self.syscalls.or(parent.syscalls),
            limits: self.limits.over(parent.limits),
            inherit_commands: None,
            commands,
        }
    }

    /// The exposure rules, one per path, sorted; the workspace among them.
    pub(super) fn exposure_rules(&self) -> Vec<PathRule> {
        let workspace =
            self.workspace
                .zip(self.sources.get("fs.workspace"))
                .map(|(exposure, rule)| PathRule {
                    path: PathTemplate::workspace(),
                    exposure,
                    rule: rule.clone(),
                });
        let mut strongest: BTreeMap<&PathTemplate, &PathRule> = BTreeMap::new();
        for rule in self.rules.iter().chain(&workspace) {
            let kept = strongest.entry(&rule.path).or_insert(rule);
            // On equal strength the first one stays: the child's comes before the parent's.
            if rule.exposure > kept.exposure {
                *kept = rule;
            }
        }
        strongest.into_values().cloned().collect()
    }

    /// The exec rules, one per path, sorted.
    pub(super) fn exec_rules(&self) -> Vec<PathRule> {
        let mut first: BTreeMap<&PathTemplate, &PathRule> = BTreeMap::new();
        for rule in &self.exec {
            first.entry(&rule.path).or_insert(rule);
        }
        first.into_values().cloned().collect()
    }
}

impl LimitSettings {
    fn over(self, parent: Self) -> Self {
        Self {
            wall_ms: self.wall_ms.or(parent.wall_ms),
            wall_max_ms: self.wall_max_ms.or(parent.wall_max_ms),
            idle_ms: self.idle_ms.or(parent.idle_ms),
            grace_ms: self.grace_ms.or(parent.grace_ms),
            grace_max_ms: self.grace_max_ms.or(parent.grace_max_ms),
            cpu_seconds: self.cpu_seconds.or(parent.cpu_seconds),
            memory_bytes: self.memory_bytes.or(parent.memory_bytes),
            pids: self.pids.or(parent.pids),
            open_files: self.open_files.or(parent.open_files),
            file_size_bytes: self.file_size_bytes.or(parent.file_size_bytes),
            output_bytes: self.output_bytes.or(parent.output_bytes),
            disk_bytes: self.disk_bytes.or(parent.disk_bytes),
        }
    }
}

/// A name that the child sets is no longer passed, and the other way round.
fn env_over(
    child: EnvPolicy,
    parent: EnvPolicy,
    sources: &mut BTreeMap<String, RuleRef>,
) -> EnvPolicy {
    let mut merged = parent;
    for name in &child.pass {
        merged.set.remove(name);
        sources.remove(&format!("env.set.{name}"));
    }
    merged.pass.retain(|name| !child.set.contains_key(name));
    for name in child.set.keys() {
        sources.remove(&format!("env.pass.{name}"));
    }
    merged.set.extend(child.set);
    merged.pass.extend(child.pass);
    merged.deny.extend(child.deny);
    for list in [&mut merged.pass, &mut merged.deny] {
        list.sort();
        list.dedup();
    }
    merged
}
