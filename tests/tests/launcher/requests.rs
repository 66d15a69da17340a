//! What the launcher takes from a front end, and what it does not.

use std::fs::File;

use agentd_sandbox::{
    monitor::Event,
    policy::{Program, Refusal},
};
use agentd_tests::harness::{children_of, in_every_mode};

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

/// Whoever is killed before `execve` was never the command. The race is lost at every possible moment;
/// whatever comes of it, it is exactly one beginning and one end, or one failure.
#[test]
fn a_jail_that_is_killed_while_it_is_built_is_never_announced_as_running() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let (mut failed, mut ran) = (0, 0);
        for round in 0..60 {
            let pid = launcher.pid();
            let program =
                launcher.invocation(Program::Argv(vec![b"echo".to_vec(), b"ran".to_vec()]));
            let run = launcher.ask(program, "");
            if round % 3 != 0 {
                for child in children_of(pid) {
                    let pid = nix::unistd::Pid::from_raw(child.pid);
                    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL)
                        .unwrap_or_default();
                }
            }
            match run.launcher.event().0 {
                Event::SetupFailed { failure, .. } => {
                    failed += 1;
                    assert_eq!(run.stdout.expect("a pipe").finish(), b"", "{failure:?}");
                }
                Event::Started { .. } => {
                    ran += 1;
                    let mut event = run.launcher.event().0;
                    if matches!(event, Event::LeaderExited { .. }) {
                        let exec = run.exec;
                        let finish = agentd_sandbox::monitor::Request::Finish { exec };
                        run.launcher.send(&finish, &[]);
                        event = run.launcher.event().0;
                    }
                    assert!(matches!(event, Event::Ended { .. }), "{event:?}");
                }
                event => panic!("{event:?}"),
            }
        }
        assert!(ran >= 20, "{mode:?}: {failed} failed, {ran} ran");
        eprintln!("{mode:?}: {failed} failed, {ran} ran");
    });
}
