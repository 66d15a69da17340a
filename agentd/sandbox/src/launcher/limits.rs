//! Limits that the kernel does not enforce by itself: CPU time of a whole tree and growth of file
//! systems. They are sampled, a few times a second, and only for executions that have them. So is the
//! count of victims of a want of memory, which has to be known at the leader's end.

use std::{
    collections::BTreeMap,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use nix::sys::{stat::fstat, statvfs::fstatvfs};

use super::{far::Mounts, far_disk::FarDisk, lifecycle::Millis, oom::Oom, scout::Scout};
use crate::{
    cgroup::Group,
    launch::open_name,
    monitor::LimitKind,
    plan::made_by_jail,
    policy::{Exposure, Policy, Tier},
};

/// Shortest time between two samples of CPU time.
const CPU_EVERY_MS: u64 = 250;
/// Time between two samples of the file systems.
const DISK_EVERY_MS: u64 = 500;
/// Most file systems that are watched.
const MOST_FILE_SYSTEMS: usize = 32;

/// The sampled limits of one execution.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    cpu: Option<Cpu>,
    disk: Option<Disk>,
    oom: Option<Oom>,
}

#[derive(Debug)]
struct Cpu {
    budget_us: u64,
    next: Millis,
}

#[derive(Debug)]
struct Disk {
    budget: u64,
    next: Millis,
    file_systems: BTreeMap<u64, FileSystem>,
    far: Option<FarDisk>,
}

#[derive(Debug)]
struct FileSystem {
    directory: OwnedFd,
    /// Bytes in use when the command began.
    before: u64,
}

impl Watch {
    /// Starts watching what `policy` limits; CPU time only with a group that counts it.
    pub(crate) fn new(
        now: Millis,
        policy: &Policy,
        group: Option<&Group>,
        mounts: &Mounts,
    ) -> Self {
        let counted = group.is_some_and(|group| group.cpu_us().is_some());
        let cpu = policy
            .limits
            .cpu_seconds
            .filter(|_| counted)
            .map(|seconds| Cpu {
                budget_us: seconds.saturating_mul(1_000_000),
                next: now.after(CPU_EVERY_MS),
            });
        let disk = policy.limits.disk_bytes.map(|budget| Disk {
            budget,
            next: now.after(DISK_EVERY_MS),
            file_systems: file_systems(policy, |path| !mounts.is_far(path)),
            far: FarDisk::new(now, far_paths(policy, mounts)),
        });
        let oom = group
            .and_then(Group::oom_kills)
            .map(|kills| Oom::new(now, kills));
        Self { cpu, disk, oom }
    }

    /// When the next sample is due.
    pub(crate) fn due(&self) -> Option<Millis> {
        let cpu = self.cpu.as_ref().map(|cpu| cpu.next);
        let disk = self.disk.as_ref().map(Disk::due);
        let oom = self.oom.as_ref().map(|oom| oom.next);
        let due = [cpu, disk, oom].into_iter().flatten().min();
        due.filter(|due| *due < Millis::NEVER)
    }

    /// Takes the samples that are due. Returns the limit that was passed, once.
    pub(crate) fn sample(&mut self, now: Millis, group: Option<&Group>) -> Option<LimitKind> {
        if let Some(oom) = &mut self.oom
            && now >= oom.next
        {
            oom.see(now, victims(group));
        }
        if let Some(cpu) = &mut self.cpu
            && now >= cpu.next
            && cpu.is_over(now, group)
        {
            self.cpu = None;
            return Some(LimitKind::Cpu);
        }
        if let Some(disk) = &mut self.disk
            && now >= disk.due()
        {
            if let Some(far) = &mut disk.far
                && now >= far.next
            {
                far.sample(now);
            }
            disk.next = now.after(DISK_EVERY_MS);
            if disk.growth() > disk.budget {
                // What was measured stays known for the report.
                disk.next = Millis::NEVER;
                if let Some(far) = &mut disk.far {
                    far.next = Millis::NEVER;
                }
                return Some(LimitKind::Disk);
            }
        }
        None
    }

    /// The leader has just ended.
    pub(crate) fn leader_ended(&mut self, now: Millis, group: Option<&Group>) {
        if let Some(oom) = &mut self.oom {
            oom.leader_ended(now, victims(group));
        }
    }

    /// The leader ended while the kernel killed for want of memory.
    pub(crate) fn ended_for_want_of_memory(&self) -> bool {
        self.oom.as_ref().is_some_and(Oom::leader_was_there)
    }

    /// Whether this is the pid of its scout.
    pub(crate) fn holds(&self, pid: libc::pid_t) -> bool {
        let far = self.disk.as_ref().and_then(|disk| disk.far.as_ref());
        far.is_some_and(|far| far.holds(pid))
    }

    /// A scout that is on its way, for whoever reaps it. The last call.
    pub(crate) fn into_scout(self) -> Option<Scout> {
        self.disk?.far?.into_scout()
    }

    /// Also watches a private directory that only came up with the jail.
    pub(crate) fn also(&mut self, directory: OwnedFd) {
        if let Some(disk) = &mut self.disk {
            add(&mut disk.file_systems, directory);
        }
    }

    /// Bytes by which the watched file systems have grown; `None` without a limit on it.
    pub(crate) fn growth(&self) -> Option<u64> {
        self.disk.as_ref().map(Disk::growth)
    }
}

impl Cpu {
    fn is_over(&mut self, now: Millis, group: Option<&Group>) -> bool {
        let used = group.and_then(Group::cpu_us).unwrap_or(0);
        let left = self.budget_us.saturating_sub(used);
        // The tree cannot use it up sooner than with every processor at once.
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let processors = u64::try_from(processors).unwrap_or(1).saturating_mul(1_000);
        let soonest = left.checked_div(processors).unwrap_or(0);
        self.next = now.after(soonest.max(CPU_EVERY_MS));
        left == 0
    }
}

impl Disk {
    fn due(&self) -> Millis {
        let far = self.far.as_ref().map(|far| far.next);
        far.map_or(self.next, |far| far.min(self.next))
    }

    fn growth(&self) -> u64 {
        self.file_systems
            .values()
            .map(|watched| {
                let used = used(&watched.directory).unwrap_or(watched.before);
                used.saturating_sub(watched.before)
            })
            .chain(self.far.as_ref().map(FarDisk::growth))
            .fold(0, u64::saturating_add)
    }
}

fn victims(group: Option<&Group>) -> u64 {
    group.and_then(Group::oom_kills).unwrap_or(0)
}

/// The file systems that the command can write to. Each is counted once.
fn file_systems(policy: &Policy, wanted: impl Fn(&Path) -> bool) -> BTreeMap<u64, FileSystem> {
    let mut all = BTreeMap::new();
    for path in writable(policy).filter(|path| wanted(path)) {
        if all.len() < MOST_FILE_SYSTEMS
            && let Ok(directory) = open_name(path)
        {
            add(&mut all, directory);
        }
    }
    all
}

/// Paths of the host that the command can write below: the workspace, those of writable rules, and on the
/// nested tier the private directory. Where the jail has its own `/tmp` the host's is none of them.
fn writable(policy: &Policy) -> impl Iterator<Item = &PathBuf> {
    let own_root = policy.tier > Tier::Nested;
    let workspace = policy.fs.deciding(&policy.workspace);
    let workspace = workspace.filter(|rule| rule.exposure == Exposure::Write);
    let rules = policy.fs.rules.iter();
    let paths = rules
        .filter(|rule| rule.exposure == Exposure::Write)
        .map(|rule| &rule.path)
        .filter(move |path| !path.starts_with("/dev"))
        .filter(move |path| !(own_root && made_by_jail(policy, path)));
    workspace
        .map(|_| &policy.workspace)
        .into_iter()
        .chain(paths)
}

/// What is left to scouts.
fn far_paths(policy: &Policy, mounts: &Mounts) -> Vec<PathBuf> {
    let far = writable(policy).filter(|path| mounts.is_far(path));
    far.take(MOST_FILE_SYSTEMS).cloned().collect()
}

/// Looks at the file systems once, for a scout.
pub(crate) fn look(policy: &Policy) {
    if policy.limits.disk_bytes.is_some() {
        drop(file_systems(policy, |_| true));
    }
}

fn add(all: &mut BTreeMap<u64, FileSystem>, directory: OwnedFd) {
    if let (Ok(stat), Some(before)) = (fstat(&directory), used(&directory)) {
        all.entry(stat.st_dev)
            .or_insert(FileSystem { directory, before });
    }
}

/// Bytes in use on a file system.
pub(super) fn used(directory: &OwnedFd) -> Option<u64> {
    let stat = fstatvfs(directory).ok()?;
    let blocks = stat.blocks().saturating_sub(stat.blocks_free());
    Some(blocks.saturating_mul(stat.fragment_size()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{
        Tier, resolve,
        tests::{facts, invocation, profile_with},
    };

    /// Nothing is far.
    fn near() -> Mounts {
        Mounts::default()
    }

    fn policy(limits: &str) -> Policy {
        let profile = profile_with(&format!("[fs]\nworkspace = \"write\"\n[limits]\n{limits}"));
        resolve(&profile, &invocation("x"), &facts(Tier::HostRoot)).unwrap()
    }

    #[test]
    fn nothing_is_sampled_without_a_limit() {
        let mut watch = Watch::new(Millis(0), &policy("wall = \"5s\""), None, &near());
        assert_eq!(watch.due(), None);
        assert_eq!(watch.sample(Millis(10_000), None), None);
        assert_eq!(watch.growth(), None);
    }

    #[test]
    fn cpu_time_is_only_sampled_where_a_group_counts_it() {
        let watch = Watch::new(Millis(0), &policy("cpu = \"5s\""), None, &near());
        assert_eq!(watch.due(), None);
    }

    #[test]
    fn only_what_the_command_can_write_to_is_watched() {
        let workspace = PathBuf::from("/home/dev/project");
        for tier in [Tier::HostRoot, Tier::Rootless, Tier::Nested] {
            // Elsewhere the jail has a directory of its own, which is none of the host's.
            let private = (tier == Tier::Nested).then(|| facts(tier).nested_tmp);
            for (exposure, written) in [("write", Some(&workspace)), ("read", None)] {
                let text = format!("[fs]\nworkspace = \"{exposure}\"\n[limits]\ndisk = \"1M\"");
                let profile = profile_with(&text);
                let policy = resolve(&profile, &invocation("x"), &facts(tier)).unwrap();
                let mut found: Vec<PathBuf> = writable(&policy).cloned().collect();
                found.sort();
                found.dedup();
                let expected: Vec<PathBuf> = written.into_iter().chain(&private).cloned().collect();
                assert_eq!(found, expected, "{tier} {exposure}");
            }
        }
    }

    #[test]
    fn growth_is_measured_from_the_start_and_passes_the_limit_once() {
        let policy = Policy {
            workspace: std::env::temp_dir().canonicalize().unwrap(),
            ..policy("disk = \"1M\"")
        };
        let mut watch = Watch::new(Millis(0), &policy, None, &near());
        assert_eq!(watch.due(), Some(Millis(DISK_EVERY_MS)));
        assert_eq!(watch.sample(Millis(1), None), None, "not due");
        let disk = watch.disk.as_mut().unwrap();
        assert!(!disk.file_systems.is_empty());
        for watched in disk.file_systems.values_mut() {
            watched.before = watched.before.saturating_sub(64 << 20);
        }
        assert!(watch.growth().unwrap() >= 32 << 20);
        assert_eq!(watch.sample(Millis(600), None), Some(LimitKind::Disk));
        assert_eq!(watch.sample(Millis(9_000), None), None, "told already");
        assert!(watch.growth().unwrap() >= 32 << 20);
    }
}
