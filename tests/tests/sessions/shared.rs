//! What the commands of a session share, and what they do not.

use std::{fs, io::Write, os::unix::fs::PermissionsExt, path::Path, time::Duration};

use agentd_sandbox::{
    monitor::LeaderStatus,
    policy::{Caller, Invocation, Refusal},
};
use agentd_tests::harness::{Mode, World, in_every_mode, wait_until};

use super::client::{Launcher, alone, in_session, kept};

/// Answers every connection; says when it listens.
const SERVER: &str = r#"exec perl -MIO::Socket::INET -e '
    $s = IO::Socket::INET->new(Listen => 5, LocalAddr => "127.0.0.1", LocalPort => 18765) or die "$!";
    $| = 1; print "listening\n";
    while ($c = $s->accept) { print $c "answer\n"; close $c }'"#;
const CLIENT: &str = "exec 3<>/dev/tcp/127.0.0.1/18765 && cat <&3";

#[test]
fn temporary_files_last_as_long_as_their_session_and_belong_to_it_alone() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        launcher.open(1, &world);
        launcher.open(2, &world);
        let place = "${TMPDIR:-/tmp}";
        let write = format!("mkdir {place}/d && echo kept >{place}/d/f && chmod 600 {place}/d/f");
        launcher.run(1, &world, &write).good();
        for round in 0..3 {
            let read =
                format!("cat {place}/d/f && echo {round} >>{place}/d/f; stat -c %U {place}/d");
            let seen = launcher.run(1, &world, &read).good();
            assert!(seen.starts_with("kept\n"), "{seen}");
        }
        for script in [
            "ls -A ${TMPDIR:-/tmp}",
            "find /tmp /run /dev -name f -path '*/d/f' 2>/dev/null || :",
        ] {
            let other = launcher.run(2, &world, script).good();
            assert!(
                !other.contains("d/f") && !other.lines().any(|line| line == "d"),
                "{other}"
            );
        }
        let running = launcher
            .spawn(alone(&world), "ls -A ${TMPDIR:-/tmp}")
            .unwrap();
        let listed = launcher.finish(running).good();
        assert!(!listed.lines().any(|line| line == "d"), "{listed}");
        launcher.close(1);
        launcher.open(3, &world);
        let listed = launcher.run(3, &world, "ls -A ${TMPDIR:-/tmp}").good();
        assert!(!listed.lines().any(|line| line == "d"), "{listed}");
        launcher.leave();
    });
}

#[test]
fn what_commands_do_to_the_shared_temporary_directory_leads_nowhere_and_stops_nothing() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let base = world
            .base
            .strip_prefix("/tmp")
            .expect("the world is below /tmp");
        let base = base.display();
        // The workspace is below /tmp: what leads to it there is part of the session's /tmp.
        for trick in [
            format!("mv /tmp/{base} /tmp/away; ln -s /etc /tmp/{base}"),
            format!("mv /tmp/{base} /tmp/away; echo >/tmp/{base}"),
            format!("mv /tmp/{base} /tmp/away; ln -s away /tmp/{base}"),
            format!("chmod 0 /tmp/{base}"),
            "rm -rf /tmp/* /tmp/.[!.]*; ln -s /etc ${TMPDIR:-/tmp}/script".to_owned(),
        ] {
            // Without a mount namespace it is the host's directory, and its owner may close it to himself.
            let owns = mode == Mode::Nested && !nix::unistd::geteuid().is_root();
            if owns && trick.starts_with("chmod") {
                continue;
            }
            let mut launcher = Launcher::start(&world);
            launcher.open(1, &world);
            let script = format!("exec 2>/dev/null; cd /; {trick}; :");
            launcher.run(1, &world, &script).good();
            for _ in 0..2 {
                let ended = launcher.run(1, &world, "pwd; echo x >file; cat file");
                let expected = format!("{}\nx\n", world.workspace.display());
                assert_eq!(ended.good(), expected, "{trick}");
            }
            launcher.leave();
        }
        assert!(!Path::new("/etc/workspace").exists());
    });
}

#[test]
fn a_server_is_reached_by_later_commands_of_its_session_and_by_nobody_else() {
    in_every_mode(|mode| {
        if mode == Mode::Nested {
            // There is no loopback interface of its own there, and every socket is refused.
            return;
        }
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        launcher.open(1, &world);
        launcher.open(2, &world);
        let mut server = launcher.spawn(in_session(&world, 1), SERVER).unwrap();
        assert_eq!(server.line(), "listening");
        for _ in 0..3 {
            assert_eq!(launcher.run(1, &world, CLIENT).good(), "answer\n");
        }
        let other = launcher.run(2, &world, CLIENT);
        assert_ne!(other.status, LeaderStatus::Exited(0), "{}", other.output);
        let none = launcher.spawn(alone(&world), CLIENT).unwrap();
        assert_ne!(launcher.finish(none).status, LeaderStatus::Exited(0));
        assert!(std::net::TcpStream::connect("127.0.0.1:18765").is_err());
        // Processes are not shared: none sees another's.
        let seen = launcher.run(1, &world, "cat /proc/[0-9]*/comm").good();
        assert!(!seen.contains("perl"), "{seen}");
        launcher.close(1);
        let ended = launcher.ended(&mut server);
        assert!(
            matches!(ended.status, LeaderStatus::Signaled { .. }),
            "{ended:?}"
        );
        launcher.leave();
    });
}

#[test]
fn kept_output_is_read_by_later_commands_and_changed_by_none() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        launcher.open(1, &world);
        let mut running = launcher
            .spawn(kept(&world, 1, "out-1"), "echo hello")
            .unwrap();
        let path = running.output_file.clone();
        if mode == Mode::Nested {
            assert!(path.ends_with("/output/out-1"), "{path}");
        } else {
            assert_eq!(path, "/run/output/out-1");
        }
        // The front end writes it.
        let mut file = running
            .file
            .take()
            .expect("a descriptor of the output file");
        let text = "first line\nsecond line\n";
        file.write_all(text.as_bytes()).unwrap();
        assert_eq!(launcher.finish(running).good(), "hello\n");
        let read = format!("cat {path}; ls $(dirname {path})");
        assert_eq!(
            launcher.run(1, &world, &read).good(),
            format!("{text}out-1\n")
        );
        for attempt in [
            "echo x >{}",
            "echo x >>{}",
            ": >{}",
            "truncate -s 0 {}",
            "rm -f {} && ! test -e {}",
            "mv {} {}.old",
            "ln -sf /etc/passwd {}",
            "ln /etc/hostname $(dirname {})/l",
            "echo x >$(dirname {})/new",
            "mkdir $(dirname {})/new",
            "rm -rf $(dirname {}) && ! test -e {}",
            "mv $(dirname {}) /tmp/gone",
            "chmod 777 $(dirname {}); echo x >$(dirname {})/new",
            "echo x >/proc/self/root{}",
            "dd if=/dev/zero of={} conv=notrunc bs=1 count=1",
        ] {
            let script = attempt.replace("{}", &path);
            let ended = launcher.run(1, &world, &script);
            assert_ne!(
                ended.status,
                LeaderStatus::Exited(0),
                "{script}: {}",
                ended.output
            );
        }
        assert_eq!(
            launcher.run(1, &world, &read).good(),
            format!("{text}out-1\n")
        );
        // Control: its owner could.
        file.write_all(b"more\n").unwrap();
        assert!(
            launcher
                .run(1, &world, &format!("cat {path}"))
                .good()
                .ends_with("more\n")
        );
        launcher.leave();
    });
}

#[test]
fn an_output_file_that_nothing_was_written_to_goes_and_a_bad_name_is_refused() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        launcher.open(1, &world);
        let running = launcher.spawn(kept(&world, 1, "empty"), ":").unwrap();
        let directory = running.output_file.trim_end_matches("empty").to_owned();
        launcher.finish(running).good();
        // Not at once: a front end may still be reading what the command wrote.
        let gone = wait_until(Duration::from_secs(60), || {
            let list = format!("ls -A {directory}");
            launcher.run(1, &world, &list).good().is_empty()
        });
        assert!(gone, "it is still there");
        let long = "x".repeat(65);
        for name in ["", ".", "..", "a/b", "../x", "a.b", "ä", "a\0b", &long] {
            let refused = launcher.spawn(kept(&world, 1, name), ":");
            assert!(matches!(refused, Err(Refusal::Malformed(_))), "{name:?}");
        }
        let mut first = launcher.spawn(kept(&world, 1, "twice"), ":").unwrap();
        first.file.take().unwrap().write_all(b"x").unwrap();
        launcher.finish(first).good();
        let refused = launcher.spawn(kept(&world, 1, "twice"), ":");
        let refused = refused.err();
        assert!(
            matches!(&refused, Some(Refusal::Malformed(text)) if text.contains("twice")),
            "{refused:?}"
        );
        launcher.leave();
    });
}

#[test]
fn closing_a_session_kills_what_runs_in_it_and_removes_what_it_had() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        let base = directories(launcher.pid());
        launcher.open(1, &world);
        launcher.open(2, &world);
        let stubborn =
            "trap '' TERM HUP INT; setsid sleep 600 & echo up; while :; do sleep 600; done";
        let mut first = launcher.spawn(in_session(&world, 1), stubborn).unwrap();
        let mut second = launcher.spawn(in_session(&world, 1), stubborn).unwrap();
        let mut other = launcher
            .spawn(in_session(&world, 2), "echo up; sleep 600")
            .unwrap();
        for running in [&mut first, &mut second, &mut other] {
            assert_eq!(running.line(), "up");
        }
        launcher.close(1);
        for mut running in [first, second] {
            let ended = launcher.ended(&mut running);
            assert!(
                matches!(ended.status, LeaderStatus::Signaled { .. }),
                "{ended:?}"
            );
        }
        assert_eq!(directories(launcher.pid()).len(), base.len() + 1);
        launcher.close(2);
        launcher.ended(&mut other);
        assert_eq!(directories(launcher.pid()), base);
        launcher.close(77);
        launcher.leave();
    });
}

#[test]
fn only_an_open_session_of_the_same_user_profile_and_workspace_takes_commands() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let elsewhere = world.workspace.join("below");
        fs::create_dir(&elsewhere).unwrap();
        world.give(&elsewhere);
        let mut launcher = Launcher::start(&world);
        launcher.open(1, &world);
        let own = in_session(&world, 1);
        let strangers: [(&str, Invocation); 4] = [
            ("unknown", in_session(&world, 2)),
            (
                "workspace",
                Invocation {
                    workspace: elsewhere,
                    ..own.clone()
                },
            ),
            (
                "profile",
                Invocation {
                    profile: "read-only".into(),
                    ..own.clone()
                },
            ),
            (
                "caller",
                Invocation {
                    caller: Caller {
                        uid: 4_242,
                        gid: 4_242,
                    },
                    ..own.clone()
                },
            ),
        ];
        for (what, invocation) in strangers {
            let refused = launcher.spawn(invocation, ":");
            assert!(matches!(refused, Err(Refusal::NoSession(_))), "{what}");
        }
        // Control.
        let running = launcher.spawn(own.clone(), "echo in").unwrap();
        assert_eq!(launcher.finish(running).good(), "in\n");
        assert!(
            launcher.try_open(1, &world.workspace).is_err(),
            "it is open already"
        );
        launcher.close(1);
        assert!(matches!(
            launcher.spawn(own, ":"),
            Err(Refusal::NoSession(_))
        ));
        for bad in ["/", "/etc", "/nonexistent/workspace", "relative"] {
            assert!(launcher.try_open(9, Path::new(bad)).is_err(), "{bad}");
        }
        launcher.leave();
    });
}

#[test]
fn a_hundred_sessions_leave_descriptors_processes_and_directories_as_they_were() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mut launcher = Launcher::start(&world);
        let round = |launcher: &mut Launcher, key: u64| {
            launcher.open(key, &world);
            let mut kept = launcher
                .spawn(kept(&world, key, "o"), "echo x >${TMPDIR:-/tmp}/x")
                .unwrap();
            kept.file.take().unwrap().write_all(b"output").unwrap();
            launcher.finish(kept).good();
            let background = launcher
                .spawn(in_session(&world, key), "echo up; sleep 600")
                .unwrap();
            launcher.close(key);
            drop(background);
        };
        round(&mut launcher, 1);
        let before = Held::of(&launcher);
        for key in 2..102 {
            round(&mut launcher, key);
        }
        let held = || wait_until(Duration::from_secs(2), || Held::of(&launcher) == before);
        assert!(held(), "{:?} became {before:?}", Held::of(&launcher));
        launcher.leave();
    });
}

/// What a launcher holds.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    /// Root alone may look at them.
    descriptors: Option<usize>,
    children: usize,
    directories: Vec<String>,
}

impl Held {
    fn of(launcher: &Launcher) -> Self {
        let pid = launcher.pid();
        let fds = fs::read_dir(format!("/proc/{pid}/fd"));
        assert!(fds.is_ok() || !nix::unistd::geteuid().is_root(), "{fds:?}");
        let children = agentd_tests::harness::children_of(i32::try_from(pid).unwrap());
        Self {
            descriptors: fds.ok().map(Iterator::count),
            children: children.len(),
            directories: directories(pid),
        }
    }
}

/// Directories of a launcher on the host.
pub fn directories(launcher: u32) -> Vec<String> {
    let prefix = format!("agentd-{launcher}-");
    let entries = fs::read_dir("/tmp").expect("/tmp").flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| name.starts_with(&prefix)).collect();
    names.sort();
    for name in &names {
        let mode = fs::metadata(format!("/tmp/{name}")).map(|meta| meta.permissions().mode());
        assert_eq!(mode.unwrap_or(0o700) & 0o077, 0, "{name} is open to others");
    }
    names
}
