//! Without privilege, in control groups that somebody with privilege has delegated.

use std::{
    fs,
    os::unix::fs::chown,
    path::{Path, PathBuf},
    process::Command,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use agentd_sandbox::{
    monitor::{Cause, LeaderStatus, LimitKind},
    policy::{Layer, LimitRequest},
};
use agentd_tests::harness::{Mode, binaries, wait_until};

use super::{NONE, launcher::Launcher, possible};

const MIB: u64 = 1 << 20;

/// Groups that belong to the user of a mode. Dropping it removes them.
struct Delegated(Vec<PathBuf>);

impl Delegated {
    /// In the unified hierarchy alone, or in those of version 1 and the unified one beside them.
    fn to(mode: Mode) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let top = Path::new("/sys/fs/cgroup");
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("agentd-test-{}-{number}", std::process::id());
        let hierarchies: Vec<PathBuf> = if top.join("cgroup.controllers").exists() {
            fs::write(top.join("cgroup.subtree_control"), "+memory +pids").unwrap();
            vec![top.to_owned()]
        } else {
            ["unified", "memory", "pids", "cpuacct", "freezer"]
                .iter()
                .map(|hierarchy| top.join(hierarchy))
                .filter(|hierarchy| hierarchy.join("cgroup.procs").exists())
                .collect()
        };
        let groups = hierarchies.iter().map(|top| top.join(&name)).collect();
        let delegated = Self(groups);
        for group in &delegated.0 {
            fs::create_dir(group).unwrap();
            let files = ["", "cgroup.procs", "cgroup.subtree_control"];
            for file in files.map(|file| group.join(file)) {
                if file.exists() {
                    chown(&file, Some(mode.uid()), Some(mode.uid())).unwrap();
                }
            }
        }
        delegated
    }

    /// A launcher that starts inside.
    fn launcher(&self, mode: Mode) -> Launcher {
        let program = binaries().join("agentd-launcher");
        let inner = mode.command(program.as_os_str());
        let enter = |group: &PathBuf| format!("echo $$ >{}/cgroup.procs\n", group.display());
        let enter = self.0.iter().map(enter).collect::<Vec<_>>().concat();
        let mut command = Command::new("sh");
        command.args(["-euc", &format!("{enter} exec \"$@\""), "sh"]);
        command.arg(inner.get_program()).args(inner.get_args());
        Launcher::of(mode, command)
    }
}

impl Drop for Delegated {
    fn drop(&mut self) {
        let gone = wait_until(Duration::from_secs(5), || {
            self.0
                .iter()
                .all(|group| fs::remove_dir(group).is_ok() || !group.exists())
        });
        if !std::thread::panicking() {
            assert!(gone, "{:?} is not empty", self.0);
        }
    }
}

fn in_delegated_groups(test: impl Fn(Mode, &mut Launcher)) {
    if !possible(Mode::Root) {
        return;
    }
    for mode in [Mode::Rootless, Mode::Nested] {
        if possible(mode) {
            let groups = Delegated::to(mode);
            let mut launcher = groups.launcher(mode);
            assert_ne!(
                launcher.cgroup, "none",
                "{mode:?} {:?}",
                launcher.capabilities
            );
            eprintln!("{mode:?}: {}", launcher.cgroup);
            test(mode, &mut launcher);
        }
    }
}

#[test]
fn memory_and_processes_are_limited_and_named_without_privilege() {
    in_delegated_groups(|mode, launcher| {
        let limits = LimitRequest {
            memory_bytes: Some(48 * MIB),
            pids: Some(30),
            ..NONE
        };
        let started = launcher.spawn(&["bash", "-c", "exec tail </dev/zero"], limits);
        assert!(started.report.layers.contains(&Layer::Cgroup), "{mode:?}");
        assert_eq!(started.limits.memory_bytes, Some(48 * MIB));
        let ended = launcher.finish(started);
        assert!(
            matches!(ended.status, LeaderStatus::Signaled { signal: 9, .. }),
            "{mode:?} {ended:?}"
        );
        assert!(ended.hit(LimitKind::Memory).is_some(), "{mode:?} {ended:?}");
        let forks = "import os, time\nfor count in range(100):\n try:\n  if os.fork() == 0: \
                     time.sleep(300)\n except BlockingIOError: break\nprint(count)";
        let ended = launcher.run(&["python3", "-c", forks], limits);
        assert_eq!(ended.output, "29\n", "{mode:?} {ended:?}");
        assert!(ended.hit(LimitKind::Pids).is_some(), "{mode:?} {ended:?}");
        assert!(ended.proven, "{mode:?}");
    });
}

#[test]
fn whoever_hides_from_the_sweep_is_killed_by_the_group_and_counted() {
    in_delegated_groups(|mode, launcher| {
        for script in [
            "for _ in 1 2 3; do (setsid bash -c 'trap \"\" TERM; sleep 300 & sleep 300' &); done",
            "f() { f & f & }; ulimit -u 200; f 2>/dev/null; sleep 0.5",
        ] {
            let limits = LimitRequest {
                pids: Some(60),
                timeout_ms: Some(8_000),
                ..NONE
            };
            let ended = launcher.bash(script, limits);
            assert!(ended.proven, "{mode:?} {script}: {ended:?}");
            // After a timeout TERM has already ended those that do not hide from it.
            let by_itself = ended.cause == Cause::Leader;
            assert!(
                ended.leftover > 0 || !by_itself,
                "{mode:?} {script}: {ended:?}"
            );
            let left = launcher.world.processes();
            assert!(left.is_empty(), "{mode:?} {script}: {left:?}");
        }
    });
}
