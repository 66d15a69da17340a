//! The group of one execution: one directory in each hierarchy that is used.

use std::{
    fs::{self, File},
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use super::{Entry, counters, counters::Counters, knob, remove};
use crate::policy::{CgroupKind, Limits, Tier};

/// The kernel takes no larger number of processes.
const MOST_PIDS: u64 = 4_000_000;

/// What a hierarchy is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The unified hierarchy: kills, counts CPU time, and as the only one limits everything.
    Unified,
    /// Version 1: limits memory.
    Memory,
    /// Version 1: limits processes.
    Pids,
    /// Version 1: counts CPU time.
    Cpu,
    /// Version 1: freezes, for killing.
    Freezer,
}

/// A directory and what it is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dir {
    pub(super) role: Role,
    pub(super) path: PathBuf,
}

/// How a jail of some tier gets into its group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placing {
    /// `clone3` with `CLONE_INTO_CGROUP` works.
    Clone,
    /// By writing into `cgroup.procs`.
    Write,
}

/// The group of one execution. Its directories outlive it; [`super::Cgroups::retire`] removes them.
#[derive(Debug)]
pub(crate) struct Group {
    pub(super) kind: CgroupKind,
    pub(super) dirs: Vec<Dir>,
}

impl Group {
    /// Makes the directories and sets the limits. What was made is removed when this fails.
    pub(super) fn create(
        kind: CgroupKind,
        dirs: Vec<Dir>,
        limits: &Limits,
        extra_pids: u64,
    ) -> io::Result<Self> {
        let group = Self { kind, dirs };
        let made = group.make(limits, extra_pids);
        if made.is_err() {
            for dir in &group.dirs {
                // The first error is the one that matters.
                remove::remove_one(&dir.path).unwrap_or_default();
            }
        }
        made.map(|()| group)
    }

    fn make(&self, limits: &Limits, extra_pids: u64) -> io::Result<()> {
        for Dir { role, path } in &self.dirs {
            match fs::create_dir(path) {
                // Two roles in one hierarchy.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                result => result?,
            }
            let (memory, pids) = match (role, self.kind) {
                (Role::Unified, CgroupKind::V2) => (true, true),
                (Role::Memory, _) => (true, false),
                (Role::Pids, _) => (false, true),
                (Role::Unified | Role::Cpu | Role::Freezer, _) => (false, false),
            };
            if let Some(bytes) = limits.memory_bytes.filter(|_| memory) {
                limit_memory(path, bytes)?;
            }
            if let Some(most) = limits.pids.filter(|_| pids) {
                let most = most.saturating_add(extra_pids).min(MOST_PIDS);
                set_if_there(path, "pids.max", most)?;
            }
        }
        Ok(())
    }

    /// The way in for a jail of this tier.
    pub(super) fn entry(&self, tier: Tier, placing: Placing) -> io::Result<Entry> {
        if tier == Tier::Nested {
            return Ok(Entry::LeaderWrites(self.open_procs()?));
        }
        match (placing, self.dirs.first()) {
            (Placing::Clone, Some(dir)) => Ok(Entry::Cloned(File::open(&dir.path)?.into())),
            (Placing::Clone | Placing::Write, _) => Ok(Entry::InitWrites(self.open_procs()?)),
        }
    }

    fn open_procs(&self) -> io::Result<Vec<OwnedFd>> {
        let open = |dir: &Dir| knob::open(&dir.path, "cgroup.procs").map(OwnedFd::from);
        self.dirs.iter().map(open).collect()
    }

    /// What the kernel has counted.
    pub(crate) fn counters(&self) -> Counters {
        let mut all = Counters::default();
        for Dir { role, path } in &self.dirs {
            match (role, self.kind) {
                (Role::Unified, CgroupKind::V2) => counters::read_v2(path, &mut all),
                (Role::Unified, _) => counters::read_cpu_v2(path, &mut all),
                (Role::Memory, _) => counters::read_v1_memory(path, &mut all),
                (Role::Pids, _) => counters::read_pids(path, &mut all),
                (Role::Cpu, _) => counters::read_cpu_v1(path, &mut all),
                (Role::Freezer, _) => {}
            }
        }
        all
    }

    /// CPU time that the whole tree has used so far, in microseconds.
    pub(crate) fn cpu_us(&self) -> Option<u64> {
        self.dirs.iter().find_map(|dir| match dir.role {
            Role::Unified => counters::cpu_v2(&dir.path),
            Role::Cpu => counters::cpu_v1(&dir.path),
            Role::Memory | Role::Pids | Role::Freezer => None,
        })
    }

    /// Processes of the tree that were killed for want of memory so far; `None` where none are counted.
    pub(crate) fn oom_kills(&self) -> Option<u64> {
        self.dirs
            .iter()
            .find_map(|dir| match (dir.role, self.kind) {
                (Role::Unified, CgroupKind::V2) => counters::oom_kills_v2(&dir.path),
                (Role::Memory, _) => counters::oom_kills_v1(&dir.path),
                (Role::Unified | Role::Pids | Role::Cpu | Role::Freezer, _) => None,
            })
    }

    /// KILL to every process in it, at once where the kernel can, else one by one: then it has to be
    /// repeated until the group is empty.
    pub(crate) fn kill(&self) {
        if let Some(dir) = self.dir(Role::Unified)
            && knob::write(dir, "cgroup.kill", "1").is_ok()
        {
            return;
        }
        let order = [Role::Unified, Role::Freezer, Role::Pids, Role::Memory];
        if let Some(dir) = order.into_iter().find_map(|role| self.dir(role)) {
            remove::kill_each(dir);
        }
    }

    /// No process is in it.
    pub(crate) fn is_empty(&self) -> bool {
        if let Some(dir) = self.dir(Role::Unified) {
            return knob::entry(dir, "cgroup.events", "populated") == Some(0);
        }
        let empty = |dir: &Dir| knob::processes(&dir.path).is_ok_and(|all| all.is_empty());
        !self.dirs.is_empty() && self.dirs.iter().all(empty)
    }

    fn dir(&self, role: Role) -> Option<&Path> {
        let dir = self.dirs.iter().find(|dir| dir.role == role);
        dir.map(|dir| dir.path.as_path())
    }
}

/// Only memory that was touched counts, so programs that reserve much address space run. Without swap:
/// a limit that a swap file stretches is none. The kernel picks single processes to kill rather than the
/// whole group (`memory.oom.group` stays 0): a shell then lives to say which of its commands died, and
/// what it printed until then is not lost.
fn limit_memory(group: &Path, bytes: u64) -> io::Result<()> {
    for (limit, swap, swap_value) in [
        ("memory.max", "memory.swap.max", 0),
        (
            "memory.limit_in_bytes",
            "memory.memsw.limit_in_bytes",
            bytes,
        ),
    ] {
        if group.join(limit).exists() {
            knob::write(group, limit, &bytes.to_string())?;
            // Not there on a kernel that does not count swap.
            set_if_there(group, swap, swap_value)?;
        }
    }
    Ok(())
}

fn set_if_there(group: &Path, file: &str, value: u64) -> io::Result<()> {
    match knob::write(group, file, &value.to_string()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
