//! As root, with the control groups that this host has.

use std::{os::unix::fs::chown, time::Instant};

use agentd_sandbox::{
    monitor::{Cause, LeaderStatus, LimitKind},
    policy::{Layer, LimitRequest},
};
use agentd_tests::harness::{Mode, wait_until};

use super::{
    NONE,
    launcher::{Launcher, groups_of},
    possible,
};

const MIB: u64 = 1 << 20;

const KILLED: LeaderStatus = LeaderStatus::Signaled {
    signal: 9,
    core: false,
};

fn by(signal: i32) -> LeaderStatus {
    LeaderStatus::Signaled {
        signal,
        core: false,
    }
}

fn memory(bytes: u64) -> LimitRequest {
    LimitRequest {
        memory_bytes: Some(bytes),
        ..NONE
    }
}

/// With the host's control groups, which must be there.
fn with_groups(test: impl FnOnce(&mut Launcher)) {
    if !possible(Mode::Root) {
        return;
    }
    let mut launcher = Launcher::start(Mode::Root, &[]);
    assert_ne!(launcher.cgroup, "none", "{:?}", launcher.capabilities);
    eprintln!("{}", launcher.cgroup);
    test(&mut launcher);
}

#[test]
fn a_memory_hog_is_killed_and_named_with_proof_and_the_daemon_lives() {
    with_groups(|launcher| {
        for bytes in [32 * MIB, 100 * MIB] {
            // The whole of an endless line is kept in memory.
            let ended = launcher.bash("exec tail </dev/zero", memory(bytes));
            let cause = Cause::Limit(LimitKind::Memory);
            assert_eq!((ended.cause, ended.status), (cause, KILLED), "{ended:?}");
            let hit = ended.hit(LimitKind::Memory);
            assert!(
                hit.is_some_and(|hit| hit.count >= 1 && hit.evidence.ends_with("oom_kill")),
                "{ended:?}"
            );
            let peak = ended.usage.peak_memory_bytes;
            assert!(peak > bytes / 2 && peak <= bytes, "{peak} of {bytes}");
            // The control: it is the limit, not the program.
            let fine = launcher.bash("head -c 10M /dev/zero | tail | wc -c", memory(bytes));
            assert_eq!(fine.output.trim(), (10 * MIB).to_string());
            assert_eq!(fine.hits, []);
        }
    });
}

#[test]
fn a_killed_child_is_named_and_the_end_stays_the_leaders_own() {
    with_groups(|launcher| {
        for (script, code) in [
            ("tail </dev/zero; exit 0", 0),
            ("bash -c 'tail </dev/zero' || exit 7", 7),
            ("tail </dev/zero & wait $!; exit $?", 137),
        ] {
            let ended = launcher.bash(script, memory(48 * MIB));
            assert_eq!(
                (ended.cause, ended.status),
                (Cause::Leader, LeaderStatus::Exited(code)),
                "{script}: {ended:?}"
            );
            assert!(ended.hit(LimitKind::Memory).is_some(), "{ended:?}");
        }
    });
}

#[test]
fn a_kill_that_is_not_the_kernels_is_not_called_a_limit() {
    with_groups(|launcher| {
        for (script, status) in [
            ("kill -9 $$", KILLED),
            ("bash -c 'kill -9 $$'; exit 137", LeaderStatus::Exited(137)),
            ("exit 137", LeaderStatus::Exited(137)),
            ("exit 152", LeaderStatus::Exited(152)),
            ("kill -XCPU $$", by(24)),
            ("sleep 0.2; kill -XCPU $$", by(24)),
            ("kill -SYS $$", by(31)),
        ] {
            let limits = LimitRequest {
                cpu_seconds: Some(20),
                ..memory(64 * MIB)
            };
            let ended = launcher.bash(script, limits);
            assert_eq!(ended.status, status, "{script}");
            assert_eq!(ended.hits, [], "{script}");
        }
    });
}

#[test]
fn a_kill_long_after_a_child_ran_out_of_memory_is_not_called_a_want_of_memory() {
    with_groups(|launcher| {
        for (script, by_a_client) in [
            ("tail </dev/zero; sleep 3; kill -9 $$", false),
            ("tail </dev/zero; echo over; sleep 300", true),
        ] {
            let mut started = launcher.spawn(&["bash", "-c", script], memory(48 * MIB));
            if by_a_client {
                // The shell says first who was killed.
                while started.line() != "over\n" {}
                launcher.kill_leader(started.exec);
            }
            let ended = launcher.finish(started);
            assert_eq!(
                (ended.cause, ended.status),
                (Cause::Leader, KILLED),
                "{script}: {ended:?}"
            );
            // The child's end is told all the same.
            assert!(ended.hit(LimitKind::Memory).is_some(), "{ended:?}");
        }
    });
}

#[test]
fn memory_that_is_only_reserved_does_not_count() {
    let reserve = "import mmap\n\
                   for flags in (mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000,):\n\
                   \x20for prot in (0, 3):\n\
                   \x20 held = mmap.mmap(-1, 16 << 30, flags, prot)\n\
                   print('reserved')";
    with_groups(|launcher| {
        let ended = launcher.run(&["python3", "-c", reserve], memory(64 * MIB));
        assert_eq!(ended.output, "reserved\n", "{ended:?}");
        assert_eq!(ended.hits, []);
    });
}

/// Forks until it may no more, says how often it could, and keeps everybody until told otherwise.
const FORKS: &str = "import os, sys, time\n\
                     count = 0\n\
                     for _ in range(400):\n\
                     \x20try:\n\
                     \x20 if os.fork() == 0: time.sleep(300)\n\
                     \x20 count += 1\n\
                     \x20except BlockingIOError: break\n\
                     print(count, flush=True)\n\
                     if len(sys.argv) > 1: time.sleep(300)";

fn pids(most: u64) -> LimitRequest {
    LimitRequest {
        pids: Some(most),
        ..NONE
    }
}

#[test]
fn a_fork_flood_stops_exactly_at_its_limit_and_is_named() {
    with_groups(|launcher| {
        for most in [8, 50] {
            let ended = launcher.run(&["python3", "-c", FORKS], pids(most));
            assert_eq!(ended.status, LeaderStatus::Exited(0));
            // The leader is one of them.
            assert_eq!(ended.output.trim(), (most - 1).to_string(), "{ended:?}");
            assert_eq!(u64::from(ended.leftover), most - 1);
            let hit = ended.hit(LimitKind::Pids);
            assert!(hit.is_some_and(|hit| hit.count >= 1), "{ended:?}");
            assert!(ended.proven);
            // Older kernels do not keep the peak; init is counted with it.
            let peak = ended.usage.peak_pids;
            assert!(peak == 0 || peak == most + 1, "{peak}");
        }
        let ended = launcher.run(&["true"], pids(8));
        assert_eq!(ended.hits, []);
    });
}

#[test]
fn two_commands_of_one_user_each_have_their_own_limit_of_processes() {
    with_groups(|launcher| {
        for uid in [0, 1234] {
            chown(&launcher.world.workspace, Some(uid), Some(uid)).unwrap();
            let argv = ["python3", "-c", FORKS, "stay"];
            let mut first = launcher.spawn_by(uid, &argv, pids(30));
            assert_eq!(first.line(), "29\n");
            let mut second = launcher.spawn_by(uid, &argv, pids(40));
            assert_eq!(second.line(), "39\n", "beside another at its limit");
            for started in [first, second] {
                launcher.stop(started.exec);
                let ended = launcher.finish(started);
                assert_eq!(ended.hits.len(), 1, "{ended:?}");
                assert!(ended.hit(LimitKind::Pids).is_some(), "{ended:?}");
            }
        }
    });
}

#[test]
fn a_tree_that_spins_uses_up_one_budget_of_cpu_time() {
    let one = LimitRequest {
        cpu_seconds: Some(1),
        ..NONE
    };
    with_groups(|launcher| {
        let spin = "while :; do :; done";
        let mut by_the_tree = 0;
        for script in [
            format!("{spin} & {spin} & {spin}"),
            // One after the other, each below the limit that holds for a process.
            "while :; do timeout 0.3 bash -c 'while :; do :; done'; done".to_owned(),
        ] {
            let since = Instant::now();
            let ended = launcher.bash(&script, one);
            // A processor that is emulated and stalls charges seconds at once, also to the leader.
            let alone = matches!(ended.status, LeaderStatus::Signaled { signal: 24, .. });
            let tree = ended.cause == Cause::Limit(LimitKind::Cpu);
            assert!(tree || alone, "{script}: {ended:?}");
            by_the_tree += u32::from(tree);
            assert!(ended.hit(LimitKind::Cpu).is_some(), "{ended:?}");
            let used = ended.usage.user_us + ended.usage.system_us;
            assert!(used >= 1_000_000, "{used} us");
            assert!(since.elapsed().as_secs() < 30, "{:?}", since.elapsed());
        }
        assert!(by_the_tree > 0);
        // The control: time that passes is not used.
        let three = LimitRequest {
            cpu_seconds: Some(3),
            ..NONE
        };
        let ended = launcher.bash("sleep 4", three);
        assert_eq!((ended.cause, ended.hits), (Cause::Leader, Vec::new()));
    });
}

#[test]
fn filling_the_disk_ends_at_its_budget_wherever_the_command_writes() {
    let budget = LimitRequest {
        disk_bytes: Some(40 * MIB),
        ..NONE
    };
    with_groups(|launcher| {
        for place in ["/tmp/fill", "fill"] {
            let script = format!("head -c 120M /dev/zero >{place}; sleep 60");
            let ended = launcher.bash(&script, budget);
            assert_eq!(
                ended.cause,
                Cause::Limit(LimitKind::Disk),
                "{place}: {ended:?}"
            );
            let hit = ended.hit(LimitKind::Disk);
            assert!(
                hit.is_some_and(|hit| hit.evidence.contains("statvfs")),
                "{ended:?}"
            );
            launcher.bash("rm -f fill", NONE);
        }
        let ended = launcher.bash("head -c 1M /dev/zero >/tmp/fill; sleep 1", budget);
        assert_eq!((ended.cause, ended.hits), (Cause::Leader, Vec::new()));
    });
}

#[test]
fn a_file_that_grows_too_large_is_named_by_its_signal() {
    let limit = LimitRequest {
        file_size_bytes: Some(MIB),
        ..NONE
    };
    with_groups(|launcher| {
        let ended = launcher.bash("exec head -c 3M /dev/zero >/tmp/large", limit);
        assert!(
            matches!(ended.status, LeaderStatus::Signaled { signal: 25, .. }),
            "{ended:?}"
        );
        assert!(ended.hit(LimitKind::FileSize).is_some(), "{ended:?}");
        // One whose parent has ended is seen as well.
        let orphan = "(head -c 3M /dev/zero >/tmp/orphan &); sleep 1; exit 3";
        let ended = launcher.bash(orphan, limit);
        assert_eq!(ended.status, LeaderStatus::Exited(3));
        let hit = ended.hit(LimitKind::FileSize);
        assert!(hit.is_some_and(|hit| hit.count == 1), "{ended:?}");
        let ended = launcher.bash("head -c 1M /dev/zero >/tmp/large", limit);
        assert_eq!(ended.hits, []);
    });
}

#[test]
fn the_group_is_reported_and_invisible_from_inside() {
    with_groups(|launcher| {
        let started = launcher.spawn(&["true"], memory(64 * MIB));
        assert_eq!(started.report.cgroup, launcher.cgroup);
        assert!(started.report.layers.contains(&Layer::Cgroup));
        let absent = started.report.degraded.iter();
        assert!(!absent.clone().any(|absent| absent.layer == Layer::Cgroup));
        assert_eq!(started.limits.memory_bytes, Some(64 * MIB));
        launcher.finish(started);
        let ended = launcher.bash(
            "ls /sys/fs/cgroup 2>&1; grep -E ':(memory|pids|):|^0::' /proc/self/cgroup; \
             find / -xdev -name cgroup.procs 2>/dev/null; mkdir /sys/fs/cgroup/x 2>&1",
            NONE,
        );
        for line in ended.output.lines() {
            let refused = line.contains("No such file") || line.contains("Permission denied");
            // The root of the namespace: no name of a group of the host shows.
            assert!(refused || line.ends_with(":/"), "{line}");
        }
        assert!(ended.output.contains("0::/\n"), "{}", ended.output);
    });
}

#[test]
fn commands_are_killed_before_the_daemon_when_memory_runs_out() {
    for mode in Mode::possible() {
        let mut launcher = Launcher::start(*mode, &[]);
        let ended = launcher.run(&["cat", "/proc/self/oom_score_adj"], NONE);
        assert_eq!(ended.output, "1000\n", "{mode:?}");
    }
}

#[test]
fn groups_of_a_launcher_that_was_killed_are_removed_by_the_next() {
    with_groups(|next| {
        let mut killed = Launcher::start(Mode::Root, &[]);
        let started = killed.spawn(&["sleep", "300"], NONE);
        let pid = killed.pid();
        assert!(!groups_of(pid).is_empty());
        killed.kill();
        drop(started);
        let _after = Launcher::start(Mode::Root, &[]);
        assert!(
            wait_until(std::time::Duration::from_secs(5), || groups_of(pid)
                .is_empty()),
            "{:?}",
            groups_of(pid)
        );
        // The groups of one that lives stay.
        assert!(!groups_of(next.pid()).is_empty());
        assert_eq!(next.run(&["true"], NONE).status, LeaderStatus::Exited(0));
    });
}
