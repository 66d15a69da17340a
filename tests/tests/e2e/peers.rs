//! Who may speak to a daemon, and what it leaves on the host.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use agentd_tests::harness::{Daemon, Mode, World, in_every_mode};
use nix::unistd::geteuid;

#[test]
fn the_socket_is_for_its_user_and_group_only() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let bits = fs::metadata(&daemon.socket)
            .expect("the socket")
            .permissions()
            .mode();
        assert_eq!(bits & 0o777, 0o660, "{bits:o}");
        daemon.cli(&world, &["status"]).run().expect_code(0);
    });
}

#[test]
fn another_user_is_refused_by_credentials_even_when_the_file_lets_it_in() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: needs root to be two users");
        return;
    }
    let (owner, other) = (World::new(Mode::Root), World::new(Mode::Rootless));
    let daemon = Daemon::start(&owner);
    let directory = daemon.socket.parent().expect("its directory");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("a mode");
    fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).expect("a mode");
    daemon
        .cli(&owner, &["exec", "--", "true"])
        .run()
        .expect_code(0);
    let refused = daemon.cli(&other, &["exec", "--", "echo ran"]).run();
    refused.expect_code(125);
    assert_eq!(refused.stdout, "");
    assert!(
        !refused.stderr.is_empty() && !refused.stderr.contains("panicked"),
        "{refused:?}"
    );
}

#[test]
fn running_a_command_leaves_no_trace_on_the_host() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let mounts = || fs::read_to_string("/proc/self/mountinfo").expect("mountinfo");
        let mounts_before = mounts();
        world.file("kept", "text");
        let tree = |world: &World| {
            let mut names: Vec<String> = fs::read_dir(&world.workspace)
                .expect("the workspace")
                .map(|entry| {
                    entry
                        .expect("an entry")
                        .file_name()
                        .to_string_lossy()
                        .into_owned()
                })
                .collect();
            names.sort();
            names
        };
        let before = tree(&world);
        let script =
            "true; ls -a >/dev/null; echo x > \"$TMPDIR/gone-$$\"; echo \"$TMPDIR/gone-$$\"";
        let ended = world.exec(&[], script).run();
        ended.expect_code(0);
        assert_eq!(tree(&world), before);
        assert_eq!(
            fs::read_dir(&world.home).expect("home").count(),
            0,
            "the home was touched"
        );
        assert_eq!(mounts(), mounts_before);
        let private = Path::new(ended.stdout.trim_end());
        assert!(private.is_absolute(), "{ended:?}");
        assert!(!private.exists(), "{} is not private", private.display());
    });
}

#[test]
fn git_sees_no_change_after_a_command() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let setup = "git init -q . && echo a > a && git add a && git -c user.name=t \
                     -c user.email=t@example.org commit -qm a && git status --porcelain";
        let made = world.program("bash").args(["-c", setup]).run();
        made.expect_code(0);
        for (script, code) in [
            ("true", 0),
            ("false", 1),
            (
                "ls -la . .git .git/hooks; cat .bashrc .profile HEAD; true",
                0,
            ),
            ("kill -9 $$", 137),
            ("cd .git && ls objects >/dev/null && exec sleep 600", 124),
        ] {
            let ended = world.exec(&["--timeout", "1s"], script).run();
            assert_eq!(ended.code, code, "{script}: {ended:?}");
        }
        let status = world
            .program("git")
            .args(["status", "--porcelain", "--ignored"])
            .run();
        status.expect_code(0);
        assert_eq!(status.stdout, "", "{mode:?}");
        let inside = world
            .exec(&[], "git status --porcelain && git log --oneline | wc -l")
            .run();
        inside.expect_code(0);
        assert_eq!(inside.stdout, "1\n", "{inside:?}");
    });
}
