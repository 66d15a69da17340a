//! What the launcher's janitor removes when the launcher is killed, and what happens when it is killed itself.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::Path,
    time::Duration,
};

use agentd_sandbox::policy::{Caller, Program};
use agentd_tests::harness::{Mode, children_of, in_every_mode, is_running, state_of, wait_until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::drive::Launcher;

/// The janitor waits for 5 s at most for what the launcher left running.
const SOON: Duration = Duration::from_secs(12);

/// Scripts that make protected names, and the names.
const MADE: &[(&str, &[&str])] = &[
    ("echo x >.envrc", &[".envrc"]),
    (
        "mkdir -p .git/hooks/deep; echo x >.git/hooks/deep/x; echo x >.git/hooks/pre-commit; echo x >.envrc",
        &[".git/hooks", ".envrc"],
    ),
    (
        "mkdir -p .git/hooks; echo x >.git/hooks/pre-commit; chmod 0555 .git .git/hooks",
        &[".git/hooks"],
    ),
    (
        "ln -s /etc .git/hooks; mkdir .vscode; ln -s ../kept .envrc",
        &[".git/hooks", ".envrc"],
    ),
];

fn janitors(launcher: &Launcher) -> Vec<i32> {
    let children = children_of(launcher.pid()).into_iter();
    let janitors = children.filter(|child| child.name == "agentd-janitor");
    janitors.map(|child| child.pid).collect()
}

#[track_caller]
fn janitor(launcher: &Launcher) -> i32 {
    let janitors = janitors(launcher);
    assert_eq!(janitors.len(), 1, "{janitors:?}");
    janitors[0]
}

fn exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Starts a script that makes something and then stays.
fn make(launcher: &mut Launcher, script: &str, uid: u32) {
    let mut invocation = launcher.invocation(Program::Script);
    invocation.caller = Caller { uid, gid: uid };
    let script = format!("echo x >kept; {script}; echo up; sleep 600");
    let mut run = launcher.ask(invocation, &script);
    run.started();
    run.shows("up");
}

/// Kills the launcher; afterwards none of the names is there.
#[track_caller]
fn nothing_remains(launcher: &mut Launcher, names: &[&str]) {
    let workspace = launcher.world.workspace.clone();
    for name in names {
        assert!(exists(&workspace.join(name)), "{name} was never made");
    }
    let janitor = janitor(launcher);
    launcher.kill();
    let ended = wait_until(SOON, || !is_running(janitor));
    assert!(ended, "the janitor stays");
    for name in names {
        assert!(!exists(&workspace.join(name)), "{name} remains");
    }
    assert!(exists(&workspace.join("kept")));
    let gone = wait_until(SOON, || launcher.world.processes().is_empty());
    assert!(gone, "{:?}", launcher.world.processes());
}

#[test]
fn protected_names_that_a_command_made_go_when_the_launcher_is_killed() {
    in_every_mode(|mode| {
        for (script, names) in MADE {
            let mut launcher = Launcher::start(mode);
            launcher.world.file(".git/config", "");
            make(&mut launcher, script, mode.uid());
            nothing_remains(&mut launcher, names);
            assert!(exists(&launcher.world.workspace.join(".git/config")));
        }
    });
}

#[test]
fn protected_names_go_from_the_workspace_of_another_user_too() {
    let mut launcher = Launcher::start(Mode::Root);
    launcher.world.file(".git/config", "");
    let workspace = launcher.world.workspace.clone();
    for path in [
        &workspace,
        &workspace.join(".git"),
        &workspace.join(".git/config"),
    ] {
        chown(path, Some(65534), Some(65534)).expect("an owner");
    }
    fs::set_permissions(&workspace, fs::Permissions::from_mode(0o1700)).expect("a mode");
    let script =
        "mkdir -p .git/hooks/a; echo x >.git/hooks/a/b; echo x >.envrc; chmod 0 .git/hooks/a";
    make(&mut launcher, script, 65534);
    nothing_remains(&mut launcher, &[".git/hooks", ".envrc"]);
}

#[test]
fn names_that_a_person_makes_when_no_command_runs_stay() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        launcher.world.file(".git/config", "");
        let hook = launcher.world.workspace.join(".git/hooks/pre-commit");
        launcher.script("mkdir .git/hooks; echo x >.git/hooks/pre-commit; echo x >.envrc");
        assert!(!exists(&hook));
        launcher.world.file(".git/hooks/pre-commit", "mine");
        let janitor = janitor(&launcher);
        launcher.kill();
        assert!(wait_until(SOON, || !is_running(janitor)));
        assert_eq!(fs::read_to_string(hook).expect("the hook"), "mine");
    });
}

#[test]
fn a_janitor_that_dies_is_replaced_by_one_that_knows_everything() {
    in_every_mode(|mode| {
        for (round, (script, names)) in MADE.iter().enumerate() {
            let mut launcher = Launcher::start(mode);
            launcher.world.file(".git/config", "");
            let mut old = janitor(&launcher);
            let replace = |launcher: &Launcher, old: i32| {
                kill(Pid::from_raw(old), Signal::SIGKILL).expect("a KILL");
                let replaced = wait_until(SOON, || {
                    let now = janitors(launcher);
                    now.len() == 1 && now[0] != old && state_of(now[0]) == Some('S')
                });
                assert!(replaced, "no other janitor: {:?}", janitors(launcher));
                assert_eq!(state_of(old), None, "a zombie is left");
                janitor(launcher)
            };
            // Before it was told anything, after, or both.
            if round % 2 == 0 {
                old = replace(&launcher, old);
            }
            make(&mut launcher, script, mode.uid());
            if round < 3 {
                replace(&launcher, old);
            }
            nothing_remains(&mut launcher, names);
        }
    });
}

#[test]
fn a_janitor_that_is_killed_or_stopped_harms_no_command() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        launcher.world.file(".git/config", "");
        launcher.script("true");
        // Killed at any moment of a command, also while it is being told something.
        for _ in 0..8 {
            for pid in janitors(&launcher) {
                kill(Pid::from_raw(pid), Signal::SIGKILL).expect("a KILL");
            }
            let outcome = launcher.script("mkdir .git/hooks; echo good");
            assert_eq!(outcome.stdout, "good\n");
            assert!(!exists(&launcher.world.workspace.join(".git/hooks")));
        }
        assert!(wait_until(SOON, || janitors(&launcher).len() == 1));
        // One that takes nothing more is replaced as soon as it is full, and nobody waits for it.
        let stopped = janitor(&launcher);
        kill(Pid::from_raw(stopped), Signal::SIGSTOP).expect("a STOP");
        let replaced = (0..1_000).find(|_| {
            assert_eq!(launcher.script("echo good").stdout, "good\n");
            state_of(stopped).is_none()
        });
        assert!(replaced.is_some(), "a stopped janitor is still there");
        make(&mut launcher, "mkdir .git/hooks", mode.uid());
        nothing_remains(&mut launcher, &[".git/hooks"]);
    });
}

#[test]
fn an_orderly_end_takes_the_janitor_along() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let old = janitor(&launcher);
        launcher.script("echo x >.envrc");
        kill(Pid::from_raw(old), Signal::SIGKILL).expect("a KILL");
        assert!(wait_until(SOON, || {
            janitors(&launcher).iter().any(|pid| *pid != old)
        }));
        let janitor = janitor(&launcher);
        drop(launcher);
        assert!(!is_running(janitor));
    });
}

/// Two launchers in one workspace: what the command of one has made is there when that of the other begins.
#[test]
fn of_what_another_launchers_command_made_only_what_took_its_place_goes() {
    in_every_mode(|mode| {
        for replaced in [false, true] {
            let mut one = Launcher::start(mode);
            let mut other = Launcher::start(mode);
            let workspace = one.world.workspace.clone();
            let kept = workspace.join(".vscode");
            let script = "mkdir .vscode; until [ -e go ]; do sleep 0.02; done; rmdir .vscode";
            make(&mut one, &format!("{{ ({script}) & }}"), mode.uid());
            assert!(wait_until(SOON, || exists(&kept)));
            let mut invocation = other.invocation(Program::Script);
            invocation.workspace.clone_from(&workspace);
            let again = "until [ ! -e .vscode ]; do sleep 0.02; done; mkdir .vscode; echo made";
            let mut run = other.ask(invocation, &format!("echo up; {again}; sleep 600"));
            run.started();
            run.shows("up");
            if replaced {
                one.world.file("go", "");
                run.shows("made");
            }
            let janitor = janitor(&other);
            other.kill();
            assert!(wait_until(SOON, || !is_running(janitor)));
            assert_eq!(exists(&kept), !replaced);
        }
    });
}
