//! A launcher that is killed leaves nothing: its janitor removes what it could not.

use std::{fs, time::Duration};

use agentd_tests::harness::{World, children_of, in_every_mode, is_running, wait_until};

use super::{
    client::{Launcher, alone, in_session, kept},
    shared::directories,
};

const SOON: Duration = Duration::from_secs(6);

#[test]
fn a_killed_launcher_leaves_no_process_directory_or_mount() {
    in_every_mode(|mode| {
        for round in 0..5 {
            let world = World::new(mode);
            let mut launcher = Launcher::start(&world);
            let pid = launcher.pid();
            for key in [1, 2] {
                launcher.open(key, &world);
                let fill = "mkdir -p ${TMPDIR:-/tmp}/a/b; echo x >${TMPDIR:-/tmp}/a/b/c; chmod 0 ${TMPDIR:-/tmp}/a";
                launcher.run(key, &world, fill).good();
            }
            let busy =
                "trap '' TERM; echo up; while :; do mkdir -p ${TMPDIR:-/tmp}/$RANDOM/x; done";
            let mut one = launcher.spawn(kept(&world, 1, "o"), busy).unwrap();
            let mut two = launcher.spawn(alone(&world), busy).unwrap();
            let mut three = launcher
                .spawn(in_session(&world, 2), "setsid sleep 600 & echo up; wait")
                .unwrap();
            for running in [&mut one, &mut two, &mut three] {
                assert_eq!(running.line(), "up");
            }
            let family = children_of(i32::try_from(pid).unwrap());
            assert!(
                family.iter().any(|child| child.name == "agentd-janitor"),
                "{family:?}"
            );
            assert!(
                family.len() >= 4 && !directories(pid).is_empty(),
                "{family:?}"
            );
            launcher.kill();
            let gone = wait_until(SOON, || directories(pid).is_empty());
            assert!(gone, "round {round}: {:?}", directories(pid));
            let ended = wait_until(SOON, || family.iter().all(|child| !is_running(child.pid)));
            assert!(ended, "round {round}: {family:?}");
            let gone = wait_until(SOON, || world.everything().is_empty());
            assert!(gone, "round {round}: {:?}", world.everything());
            let mounts = fs::read_to_string("/proc/mounts").unwrap();
            assert!(!mounts.contains(&format!("agentd-{pid}")), "{mounts}");
        }
    });
}

#[test]
fn an_orderly_end_leaves_nothing_either_not_even_the_janitor() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        let pid = launcher.pid();
        launcher.open(1, &world);
        let mut running = launcher
            .spawn(in_session(&world, 1), "echo up; sleep 600")
            .unwrap();
        assert_eq!(running.line(), "up");
        let family = children_of(i32::try_from(pid).unwrap());
        launcher.leave();
        assert_eq!(directories(pid), [""; 0]);
        assert!(
            family.iter().all(|child| !is_running(child.pid)),
            "{family:?}"
        );
    });
}
