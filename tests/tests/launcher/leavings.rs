//! What commands and sessions leave in the file system: removed without keeping others waiting, and by nobody
//! but their own launcher.

use std::{
    fs,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use agentd_sandbox::{
    monitor::{Event, ExecKey, Request},
    policy::Program,
};
use agentd_tests::harness::{Mode, binaries, in_every_mode, wait_until};

use crate::drive::{Launcher, PATIENCE, exited};

/// Makes more files than are removed while another command starts. In a directory for each thousand.
const MANY: &str = "import os, sys
for number in range(8000):
    place = f'{sys.argv[1]}/{number // 1000}'
    os.makedirs(place, exist_ok=True)
    os.close(os.open(f'{place}/{number}', os.O_CREAT | os.O_WRONLY, 0o644))
";

fn make_many(place: &str) -> String {
    format!("mkdir -p {place}; exec python3 -c \"{MANY}\" {place}")
}

/// Begins a command and lets it come to its end, which is not awaited.
fn leave(launcher: &mut Launcher, script: &str) -> ExecKey {
    let invocation = launcher.invocation(Program::Script);
    let mut run = launcher.ask(invocation, script);
    run.started();
    let exec = run.exec;
    let (event, _) = run.launcher.event();
    let Event::LeaderExited { status, .. } = event else {
        panic!("{event:?}");
    };
    assert_eq!(status, exited(0));
    run.launcher
        .send(&Request::Finish { exec }, &[] as &[OwnedFd]);
    exec
}

/// Runs another command, which has to begin before what is awaited comes; returns that.
fn begin_before(launcher: &mut Launcher) -> Event {
    let invocation = launcher.invocation(Program::Script);
    let mut run = launcher.ask(invocation, "echo other");
    run.started();
    let other = run.exec;
    let mut awaited = None;
    let mut over = false;
    while awaited.is_none() || !over {
        match run.launcher.event().0 {
            Event::LeaderExited { exec, .. } if exec == other => {
                let finish = Request::Finish { exec };
                run.launcher.send(&finish, &[] as &[OwnedFd]);
            }
            Event::Ended { exec, .. } if exec == other => over = true,
            event => assert!(awaited.replace(event).is_none()),
        }
    }
    awaited.expect("it came")
}

#[test]
fn a_command_that_leaves_very_many_files_keeps_nobody_else_waiting() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let hooks = launcher.world.workspace.join(".vscode");
        let mut places = vec![".vscode"];
        if mode == Mode::Nested {
            // Elsewhere it is a file system that ends with the jail.
            places.push("$TMPDIR/many");
        }
        for place in places {
            let left = leave(&mut launcher, &make_many(place));
            let Event::Ended { exec, tripped, .. } = begin_before(&mut launcher) else {
                panic!("{place}");
            };
            assert_eq!(exec, left);
            assert_eq!(
                tripped.len(),
                usize::from(place == ".vscode"),
                "{tripped:?}"
            );
            // On a busy machine the end is told before the removal is done, and then says so.
            let told = tripped.iter().all(|made| made.remains.is_none());
            assert!(!told || !hooks.exists(), "{tripped:?}");
            let gone = || !hooks.exists() && directories(launcher.pid()).is_empty();
            assert!(wait_until(PATIENCE, gone), "{tripped:?}");
        }
    });
}

#[test]
fn a_session_with_very_many_files_keeps_nobody_else_waiting() {
    // Elsewhere its files are in a file system that ends with it.
    if !Mode::possible().contains(&Mode::Nested) {
        return;
    }
    let mut launcher = Launcher::start(Mode::Nested);
    let inside = launcher.session();
    let session = inside.session;
    let mut invocation = launcher.invocation(Program::Script);
    invocation.in_session = Some(Box::new(inside));
    let filled = launcher.run(invocation, &make_many("$TMPDIR/many"));
    assert_eq!(filled.status, exited(0));
    launcher.send(&Request::CloseSession { session }, &[]);
    let closed = begin_before(&mut launcher);
    assert_eq!(closed, Event::SessionClosed { session });
    assert_eq!(directories(launcher.pid()), Vec::<PathBuf>::new());
}

#[test]
fn many_files_of_a_launcher_that_was_killed_do_not_hold_up_the_next() {
    in_every_mode(|mode| {
        // Above the largest pid of any kernel; the namespace is the one that all of these share.
        let namespace = fs::read_link("/proc/self/ns/pid").expect("a namespace");
        let namespace: String = namespace
            .to_string_lossy()
            .chars()
            .filter(char::is_ascii_digit)
            .collect();
        let left = PathBuf::from(format!("/tmp/agentd-4194305-{namespace}-{}", mode.uid()));
        for number in 0..700 {
            let place = left.join((number / 100).to_string());
            fs::create_dir_all(&place).expect("a directory");
            fs::write(place.join(number.to_string()), "").expect("a file");
        }
        give(&left, mode.uid());
        let mut launcher = Launcher::start(mode);
        let gone = wait_until(PATIENCE, || !left.exists());
        assert!(gone, "{}", left.display());
        assert_eq!(launcher.script("echo on").stdout, "on\n");
    });
}

fn give(path: &Path, uid: u32) {
    std::os::unix::fs::lchown(path, Some(uid), Some(uid)).expect("an owner");
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a directory").flatten() {
            give(&entry.path(), uid);
        }
    }
}

/// Two launchers that share `/tmp` and do not see each other's processes.
#[test]
fn a_launcher_of_another_pid_namespace_removes_nothing_of_this_one() {
    in_every_mode(|mode| {
        // Where no user namespace can be made, no pid namespace can: the names are tested beside the code.
        if mode == Mode::Nested {
            return;
        }
        let mut launcher = Launcher::start(mode);
        let inside = launcher.session();
        let before = directories(launcher.pid());
        assert_eq!(before.len(), 1);
        let mut words = vec!["--pid", "--fork", "--mount-proc", "--kill-child"];
        if mode == Mode::Rootless {
            words.extend(["--user", "--map-current-user"]);
        }
        let cli = binaries().join("agent-cli");
        let program = launcher.world.program("unshare").args(&words).args([cli]);
        let ended = program
            .args(["exec", "--", "echo there; ls /proc | grep -c ^1$"])
            .run();
        assert_eq!(ended.stdout, "there\n1\n", "{ended:?}");
        assert_eq!(directories(launcher.pid()), before);
        let mut invocation = launcher.invocation(Program::Script);
        invocation.in_session = Some(Box::new(inside));
        assert_eq!(launcher.run(invocation, "echo here").stdout, "here\n");
    });
}

/// Directories of a launcher on the host.
fn directories(launcher: i32) -> Vec<PathBuf> {
    let prefix = format!("agentd-{launcher}-");
    let entries = fs::read_dir("/tmp").expect("/tmp").flatten();
    let ours = entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
    ours.map(|entry| entry.path()).collect()
}
