//! A file system whose server does not answer holds up the command that needs it, and nobody else.

use std::{fs, path::Path, process::Command};

use agentd_sandbox::{
    monitor::{Event, LeaderStatus, Request},
    policy::{Caller, Refusal, SessionKey},
};
use agentd_tests::harness::{Mode, binaries};

use super::{launcher::Launcher, possible};

/// Mounts a file system of which nobody is the server in a mount namespace that the launcher is in.
const MOUNT: &str = r#"exec 9<>/dev/fuse &&
mount -i -t fuse stalled "$1" -o fd=9,rootmode=40000,user_id=0,group_id=0 &&
exec "$2""#;

fn beside_a_dead_server(directory: &Path) -> Launcher {
    let mut command: Command = Mode::Root.command("unshare".as_ref());
    command.args(["--mount", "bash", "-c", MOUNT, "bash"]);
    command
        .arg(directory)
        .arg(binaries().join("agentd-launcher"));
    Launcher::of(Mode::Root, command)
}

fn is_about_the_server(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::BadWorkspace { reason, .. } if reason.contains("does not answer"))
}

#[test]
fn a_workspace_whose_file_system_does_not_answer_is_refused_while_others_work() {
    if !possible(Mode::Root) {
        return;
    }
    let name = format!("agentd-stalled-{}", std::process::id());
    let dead = std::env::temp_dir().canonicalize().unwrap().join(name);
    fs::create_dir_all(&dead).unwrap();
    let mut launcher = beside_a_dead_server(&dead);
    let stuck = launcher.begin(&dead);
    launcher.tell(&Request::OpenSession {
        session: SessionKey(7),
        profile: "workspace".to_owned(),
        workspace: dead.clone(),
        caller: Caller { uid: 0, gid: 0 },
    });
    launcher.tell(&Request::Explain {
        id: 8,
        invocation: Box::new(launcher.invocation_in(&dead)),
        queries: Vec::new(),
    });
    let own = launcher.world.workspace.canonicalize().unwrap();
    let fine = launcher.begin(&own);
    let mut left = 4;
    while left > 0 {
        let answered = match launcher.event() {
            Event::Refused { exec, refusal } => {
                assert_eq!(exec, stuck, "{refusal:?}");
                assert!(is_about_the_server(&refusal), "{refusal:?}");
                true
            }
            Event::SessionOpened { session, result } => {
                assert_eq!(session, SessionKey(7));
                assert!(is_about_the_server(&result.unwrap_err()));
                true
            }
            Event::Explained { id, result } => {
                assert_eq!(id, 8);
                assert!(is_about_the_server(&result.unwrap_err()));
                true
            }
            Event::LeaderExited { exec, status } => {
                assert_eq!((exec, status), (fine, LeaderStatus::Exited(0)));
                launcher.tell(&Request::Finish { exec });
                false
            }
            Event::Ended { exec, .. } => {
                assert_eq!(exec, fine);
                true
            }
            Event::Started { exec, .. } => {
                assert_eq!(exec, fine);
                false
            }
            other => panic!("{other:?}"),
        };
        left -= u32::from(answered);
    }
    // Nobody waits any more: the next command in a living workspace works as before.
    let ended = launcher.bash("echo fine", super::NONE);
    assert_eq!(ended.output, "fine\n");
    drop(launcher);
    fs::remove_dir(&dead).unwrap();
}
