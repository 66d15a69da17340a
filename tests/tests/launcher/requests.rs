//! What the launcher takes from a front end, and what it does not.

use std::{
    fs::File,
    time::{Duration, Instant},
};

use agentd_sandbox::{
    monitor::Event,
    policy::{Program, Refusal},
};
use agentd_tests::harness::in_every_mode;
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::drive::{Launcher, exited, sealed, unsealed};

#[test]
fn only_a_sealed_script_of_at_most_a_mebibyte_is_run() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let file = launcher.world.file("script", "echo no");
        let mut long = b"echo yes; exit 3\n".to_vec();
        long.resize(1 << 20, b'#');
        let mut longer = long.clone();
        longer.push(b'#');
        for (what, script) in [
            ("no seals", unsealed(b"echo no")),
            ("a file", File::open(&file).expect("a file").into()),
            (
                "a device",
                File::open("/dev/zero").expect("a device").into(),
            ),
            ("a directory", File::open("/").expect("a directory").into()),
            ("too long", sealed(&longer)),
        ] {
            let invocation = launcher.invocation(Program::Script);
            let answer = launcher.ask_with(invocation, Some(script)).not_started();
            assert!(
                matches!(answer, Err(Refusal::Malformed(_))),
                "{what}: {answer:?}"
            );
        }
        let invocation = launcher.invocation(Program::Script);
        let mut run = launcher.ask_with(invocation, Some(sealed(&long)));
        let started = run.started();
        let outcome = run.end(started);
        assert_eq!(
            (outcome.stdout.as_str(), outcome.status),
            ("yes\n", exited(3))
        );
    });
}

#[test]
fn missing_and_surplus_descriptors_are_refused() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let argv = || Program::Argv(vec![b"true".to_vec()]);
        let script = launcher.invocation(Program::Script);
        let answer = launcher.ask_with(script, None).not_started();
        assert!(matches!(answer, Err(Refusal::Malformed(_))), "{answer:?}");
        let program = launcher.invocation(argv());
        let answer = launcher.ask_with(program, Some(sealed(b""))).not_started();
        assert!(matches!(answer, Err(Refusal::Malformed(_))), "{answer:?}");
        let program = launcher.invocation(argv());
        assert_eq!(launcher.run(program, "").status, exited(0));
    });
}

#[test]
fn an_argument_of_a_hundred_kibibytes_arrives_byte_for_byte() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for (argument, length) in [
            ("x".repeat(100 * 1024).into_bytes(), 102_400),
            ("üñ\n\"\\".repeat(10_000).into_bytes(), 70_000),
            (vec![0xff; 20 * 1024], 20_480),
            (Vec::new(), 0),
        ] {
            let words = [b"printf".to_vec(), b"%s".to_vec(), argument.clone()];
            let script = b"printf %s \"$3\" | wc -c; \"$@\" | cksum".to_vec();
            let argv = [
                vec![b"bash".to_vec(), b"-c".to_vec(), script, b"sh".to_vec()],
                words.into(),
            ];
            let program = launcher.invocation(Program::Argv(argv.concat()));
            let outcome = launcher.run(program, "");
            assert!(
                outcome.stdout.starts_with(&format!("{length}\n")),
                "{outcome:?}"
            );
        }
    });
}

/// The children of a process, by the one read that is fast enough for a race.
fn children(pid: i32) -> Vec<Pid> {
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let pids = list.unwrap_or_default();
    pids.split_whitespace()
        .filter_map(|pid| pid.parse().ok().map(Pid::from_raw))
        .collect()
}

/// Kills the init of the next jail, a little later each round. What the launcher keeps for itself is `helpers`.
fn kill_next(launcher: i32, helpers: &[Pid], after: Duration) {
    let patience = Instant::now() + Duration::from_secs(5);
    while Instant::now() < patience {
        let children = children(launcher);
        if let Some(init) = children.iter().find(|child| !helpers.contains(child)) {
            let then = Instant::now() + after;
            while Instant::now() < then {
                std::hint::spin_loop();
            }
            // Gone already is as good.
            kill(*init, Signal::SIGKILL).unwrap_or_default();
            return;
        }
    }
    panic!("no jail came");
}

/// Whoever is killed before `execve` was never the command. The race is lost at every possible moment;
/// whatever comes of it, it is exactly one beginning and one end, or one failure.
#[test]
fn a_jail_that_is_killed_while_it_is_built_is_never_announced_as_running() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let program = Program::Argv(vec![
            b"sh".to_vec(),
            b"-c".to_vec(),
            b"echo ran; sleep 60".to_vec(),
        ]);
        // The first command makes what later ones share; its helper processes are not meant here.
        launcher.script("true");
        let helpers = children(launcher.pid());
        let (mut failed, mut ran) = (0, 0);
        for round in 0..80 {
            let pid = launcher.pid();
            let invocation = launcher.invocation(program.clone());
            let mut run = launcher.ask(invocation, "");
            kill_next(pid, &helpers, Duration::from_micros(200 * round));
            let mut event = run.launcher.event().0;
            if let Event::SetupFailed { failure, .. } = &event {
                failed += 1;
                let output = run.stdout.take().expect("a pipe").finish();
                assert_eq!(output, b"", "{failure:?}");
                continue;
            }
            ran += 1;
            assert!(matches!(event, Event::Started { .. }), "{event:?}");
            event = run.launcher.event().0;
            // On the nested tier the command is killed by the end of its init, on the others with it.
            assert!(matches!(event, Event::Ended { .. }), "{event:?}");
        }
        assert!(failed > 0, "{mode:?}: all {ran} ran");
        eprintln!("{mode:?}: {failed} failed, {ran} ran");
    });
}
