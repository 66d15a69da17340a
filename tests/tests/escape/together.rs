//! Commands that run side by side in one workspace: where one lets go of a protected name that it has made, the
//! mounts on it are gone in all others, and another could make it to stay. Also what must not be taken for that.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
};

use agentd_tests::harness::{Daemon, Mode, in_every_mode};

use crate::{
    arena::{Arena, Places, STUCK},
    case::ORIGINAL,
};

/// A protected name, how to make it, and how to make it so that it does harm later.
const NAMES: [(&str, &str, &str); 4] = [
    (
        ".vscode",
        "mkdir .vscode",
        "mkdir .vscode; echo payload >.vscode/tasks.json",
    ),
    (
        ".git/hooks",
        "mkdir .git/hooks",
        "mkdir .git/hooks; echo payload >.git/hooks/pre-commit",
    ),
    (".mcp.json", "echo {} >.mcp.json", "echo payload >.mcp.json"),
    (".env", "echo A=1 >.env", "echo payload >.env"),
];

/// How the first lets go of what it has made. At its end, everything that it made is removed.
const WAYS: [&str; 3] = [":", "rm -r NAME", "mv NAME elsewhere"];

fn first(row: (&str, &str, &str), way: &str) -> String {
    let way = way.replace("NAME", row.0);
    format!(
        "{}; echo made; until [ -e go ]; do sleep 0.02; done; {way}; echo end",
        row.1
    )
}

fn second(row: (&str, &str, &str)) -> String {
    let (name, _, again) = row;
    format!(
        "echo ready; until [ -e again ] && [ ! -e {name} ]; do sleep 0.02; done; {again}; echo end"
    )
}

fn repository(places: &Places) {
    places.world.file(".git/HEAD", "ref: refs/heads/main\n");
    places.world.file(".git/config", ORIGINAL);
}

#[test]
fn what_one_command_lets_go_of_no_other_can_make_to_stay() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let other = arena.places();
        let other_daemon = Daemon::start(&other.world);
        for daemon in [arena.daemon(), &other_daemon] {
            for row in NAMES {
                for way in WAYS {
                    let places = arena.places();
                    repository(&places);
                    let place = format!("{} by `{way}`", row.0);
                    let exec = |daemon: &Daemon, script: &str| {
                        let words = ["exec", "--json", "--timeout", "50s", "--", script];
                        daemon.cli(&places.world, &words).start()
                    };
                    let signal = |name: &str| places.world.file(name, "");
                    let plain = ["exec", "--timeout", "50s", "--", &first(row, way)];
                    let maker = arena.daemon().cli(&places.world, &plain).start();
                    maker.wait_for_stdout("made");
                    let taker = places.world.workspace.join("taker-runs");
                    let script = format!("touch taker-runs; {}", second(row));
                    let again = exec(daemon, &script);
                    let runs = agentd_tests::harness::wait_until(STUCK, || taker.exists());
                    assert!(runs, "{place}: {}", again.stderr());
                    signal("go");
                    maker.wait(STUCK).expect_code(0);
                    signal("again");
                    let answer = again.wait(STUCK).json();
                    let left = fs::symlink_metadata(places.world.workspace.join(row.0));
                    assert!(left.is_err(), "{place}: it stays; {answer}");
                    let denials = answer["denials"].as_array().expect("denials").clone();
                    let named = denials.iter().any(|denial| {
                        denial["layer"] == "tripwire" && denial.to_string().contains(row.0)
                    });
                    assert!(named, "{place}: {answer}");
                }
            }
        }
        arena.daemon_is_alive();
    });
}

/// Outside of any jail the second one's work stays.
#[test]
fn without_a_jail_what_the_second_makes_stays() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        for row in NAMES {
            let places = arena.places();
            repository(&places);
            for name in ["go", "again"] {
                places.world.file(name, "");
            }
            for script in [first(row, WAYS[1]), second(row)] {
                let program = places.world.program("bash").args(["-c", &script]);
                program.run().expect_code(0);
            }
            let path = places.world.workspace.join(row.0);
            assert!(fs::symlink_metadata(path).is_ok(), "{}", row.0);
        }
    });
}

/// Editors and git write a new file and rename it over the old one. Nobody but the person did that.
#[test]
fn what_the_person_replaces_meanwhile_stays() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        repository(&places);
        places.world.file(".vscode/settings.json", ORIGINAL);
        let script = "echo ready; until [ -e go ]; do sleep 0.02; done";
        let words = ["exec", "--", script];
        let ours = arena.daemon().cli(&places.world, &words);
        let one = ours.start();
        one.wait_for_stdout("ready");
        let two = arena.daemon().cli(&places.world, &words).start();
        two.wait_for_stdout("ready");
        let workspace = &places.world.workspace;
        places.world.file("new", "new\n");
        fs::rename(workspace.join("new"), workspace.join(".git/config")).expect("renamed");
        fs::rename(workspace.join(".vscode"), workspace.join("old")).expect("renamed");
        places.world.file(".vscode/settings.json", "new\n");
        places.world.file("go", "");
        for running in [one, two] {
            running.wait(STUCK).expect_code(0);
        }
        for name in [".git/config", ".vscode/settings.json"] {
            let text = fs::read_to_string(workspace.join(name)).expect(name);
            assert_eq!(text, "new\n", "{name}");
        }
    });
}

/// A command can lock whatever it can open; launchers do not take that for each other's word, not even about
/// what the person replaces meanwhile.
#[test]
fn a_command_that_claims_names_has_nothing_removed() {
    let claim = "exec python3 -c 'if True:
        import fcntl, os, struct, time
        fd = os.open(\".\", os.O_RDONLY)
        everything = struct.pack(\"hhqqi4x\", fcntl.F_RDLCK, 0, 0, 0, 0)
        fcntl.fcntl(fd, 37, everything)
        print(\"claimed\", flush=True)
        while not os.path.exists(\"go\"): time.sleep(0.02)'";
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        repository(&places);
        places.world.file(".vscode/settings.json", ORIGINAL);
        let start = |script: &str| {
            let words = ["exec", "--", script];
            arena.daemon().cli(&places.world, &words).start()
        };
        let forger = start(claim);
        forger.wait_for_stdout("claimed");
        let words = ["exec", "--json", "--", "cat .git/config >/dev/null; ls -a"];
        let answer = arena.daemon().cli(&places.world, &words).run().json();
        assert_eq!(answer["exit_code"], 0, "{answer}");
        assert_eq!(
            answer["denials"].as_array().map_or(0, Vec::len),
            0,
            "{answer}"
        );
        let innocent = start("echo ready; until [ -e go ]; do sleep 0.02; done");
        innocent.wait_for_stdout("ready");
        let workspace = &places.world.workspace;
        places.world.file("new", "new\n");
        fs::rename(workspace.join("new"), workspace.join(".git/config")).expect("renamed");
        places.world.file("go", "");
        for running in [innocent, forger] {
            running.wait(STUCK).expect_code(0);
        }
        for (name, expected) in [
            (".git/config", "new\n"),
            (".vscode/settings.json", ORIGINAL),
        ] {
            let text = fs::read_to_string(workspace.join(name)).expect(name);
            assert_eq!(text, expected, "{name}");
        }
    });
}

/// Where nobody can look, nobody knows what is missing: a command that closes a directory must not make the next
/// one's protection vanish, nor have what is in it removed.
#[test]
fn a_directory_that_a_command_closes_is_not_an_empty_one() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        for (closed, open) in [
            ("chmod 0 .git", "chmod 755 .git"),
            ("chmod 0 .", "chmod 755 ."),
        ] {
            let places = arena.places();
            repository(&places);
            places.world.file(".git/hooks/pre-commit", ORIGINAL);
            places.world.file(".env", "KEY=secret\n");
            let workspace = &places.world.workspace;
            let closing = arena.daemon().cli(&places.world, &["exec", "--", closed]);
            closing.run().expect_code(0);
            let script = format!(
                "cd /tmp; W={}; (cd $W && {open}); cat $W/.env; echo x >$W/.git/hooks/new",
                workspace.display()
            );
            // Nobody but root can start a program in a closed directory.
            let place = workspace.display().to_string();
            let words = ["exec", "--workspace", &place, "--", &script];
            let second = arena.daemon().cli(&places.world, &words);
            let second = second.current_dir(&places.world.home).run();
            let mode_now = fs::Permissions::from_mode(0o755);
            for name in ["", ".git"] {
                fs::set_permissions(workspace.join(name), mode_now.clone()).expect("its owner's");
            }
            assert!(!second.stdout.contains("secret"), "{closed}: {second:?}");
            if mode != Mode::Root {
                // For root's daemon nothing is closed.
                second.expect_code(125);
                assert!(second.stderr.contains("cannot be looked at"), "{second:?}");
            }
            let hooks = fs::read_dir(workspace.join(".git/hooks")).expect("they stay");
            let names: Vec<_> = hooks.flatten().map(|entry| entry.file_name()).collect();
            let only_the_old = names == ["pre-commit"];
            assert!(only_the_old || mode == Mode::Nested, "{closed}: {names:?}");
            assert!(
                names.iter().any(|name| name == "pre-commit"),
                "{closed}: {names:?}"
            );
        }
    });
}

/// Some tools keep `.git` elsewhere and leave a link.
#[test]
fn a_link_of_the_persons_stays_where_it_is() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        for target in ["of-git", "../of-git", "nowhere"] {
            let places = arena.places();
            let workspace = &places.world.workspace;
            fs::create_dir(workspace.join("of-git")).expect("made");
            symlink(target, workspace.join(".git")).expect("made");
            let ran = arena
                .daemon()
                .cli(&places.world, &["exec", "--", "true"])
                .run();
            let link = fs::read_link(workspace.join(".git")).expect("it stays");
            assert_eq!(link.to_str(), Some(target), "{ran:?}");
        }
    });
}
