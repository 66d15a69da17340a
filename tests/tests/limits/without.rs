//! Without control groups, on every kind of host: what is left holds and what is missing is said.

use agentd_sandbox::{
    monitor::{Cause, Event, LeaderStatus, LimitKind},
    policy::{Layer, LimitRequest, Refusal},
};
use agentd_tests::harness::Mode;

use super::{NONE, launcher::Launcher};

const MIB: u64 = 1 << 20;

fn without(test: impl Fn(Mode, &mut Launcher)) {
    for mode in Mode::possible() {
        let mut launcher = Launcher::start(*mode, &["--cgroup", "none"]);
        assert_eq!(launcher.cgroup, "none");
        test(*mode, &mut launcher);
    }
}

#[test]
fn the_memory_limit_is_reported_as_absent_and_not_as_in_force() {
    without(|mode, launcher| {
        let started = launcher.spawn(
            &["true"],
            LimitRequest {
                memory_bytes: Some(64 * MIB),
                ..NONE
            },
        );
        let report = &started.report;
        assert!(!report.layers.contains(&Layer::Cgroup), "{mode:?}");
        assert!(
            report.degraded.iter().any(|absent| {
                absent.layer == Layer::Cgroup
                    && absent.guarantee.contains("67108864")
                    && absent.reason.contains("--cgroup none")
            }),
            "{mode:?}: {:?}",
            report.degraded
        );
        assert_eq!(started.limits.memory_bytes, None);
        assert_eq!(report.cgroup, "none");
        let ended = launcher.finish(started);
        assert_eq!(ended.usage.peak_memory_bytes, 0);
        // Proven by the pid namespace; without one nothing proves it.
        assert_eq!(ended.proven, mode != Mode::Nested);
    });
}

#[test]
fn a_profile_that_requires_a_group_is_refused_with_the_remedy() {
    let dir = std::env::temp_dir().join(format!("agentd-limits-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let text = "schema = 1\nname = \"grouped\"\nextends = \"workspace\"\ndescription = \"d\"\n\
                [require]\nlayers = [\"cgroup\"]\n";
    std::fs::write(dir.join("grouped.toml"), text).unwrap();
    let profiles = ["--profile-dir", dir.to_str().unwrap()];
    if super::possible(Mode::Root) {
        let mut launcher =
            Launcher::start(Mode::Root, &[&profiles[..], &["--cgroup", "none"]].concat());
        match launcher.refused("grouped") {
            Some(Event::Refused {
                refusal: Refusal::LayerMissing { layer, remedy, .. },
                ..
            }) => {
                assert_eq!(layer, Layer::Cgroup);
                assert!(remedy.contains("without `--cgroup none`"), "{remedy}");
            }
            other => panic!("{other:?}"),
        }
        let mut launcher = Launcher::start(Mode::Root, &profiles);
        let refused = launcher.refused("grouped");
        assert!(refused.is_none(), "{refused:?}");
    }
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn limits_of_single_processes_hold_everywhere() {
    without(|mode, launcher| {
        let cpu = LimitRequest {
            cpu_seconds: Some(1),
            ..NONE
        };
        let ended = launcher.bash("while :; do :; done", cpu);
        assert_eq!(ended.cause, Cause::Leader, "{mode:?}");
        assert!(
            matches!(ended.status, LeaderStatus::Signaled { signal: 24, .. }),
            "{mode:?} {ended:?}"
        );
        assert!(ended.hit(LimitKind::Cpu).is_some(), "{mode:?} {ended:?}");
        // Ignoring the signal only defers it. Time enough to start, also on an emulated machine.
        let cpu = LimitRequest {
            cpu_seconds: Some(2),
            ..NONE
        };
        let ended = launcher.run(
            &[
                "python3",
                "-c",
                "import signal; signal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass",
            ],
            cpu,
        );
        assert!(
            matches!(ended.status, LeaderStatus::Signaled { signal: 9, .. }),
            "{mode:?} {ended:?}"
        );
        assert!(ended.hit(LimitKind::Cpu).is_some(), "{mode:?} {ended:?}");
        let size = LimitRequest {
            file_size_bytes: Some(MIB),
            ..NONE
        };
        let ended = launcher.bash("exec head -c 3M /dev/zero >large", size);
        assert!(
            ended.hit(LimitKind::FileSize).is_some(),
            "{mode:?} {ended:?}"
        );
        let disk = LimitRequest {
            disk_bytes: Some(40 * MIB),
            ..NONE
        };
        let ended = launcher.bash("head -c 120M /dev/zero >fill; sleep 60", disk);
        assert_eq!(ended.cause, Cause::Limit(LimitKind::Disk), "{mode:?}");
        let cpu = LimitRequest {
            cpu_seconds: Some(20),
            ..NONE
        };
        for signal in ["KILL", "XCPU", "SYS"] {
            let ended = launcher.bash(&format!("rm -f fill; kill -{signal} $$"), cpu);
            assert_eq!(ended.hits, [], "{mode:?} {signal}");
        }
    });
}
