//! Reaching processes outside, and identities: cases 39 and 43.

use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::chown};

use agentd_tests::harness::{Mode, in_every_mode};
use nix::unistd::geteuid;

use crate::{
    arena::{Arena, Places},
    case::Case,
    judge,
};

const NO_SUCH_PROCESS: &[&str] = &["ESRCH", "EPERM"];

/// Before ABI 6 it lets signals out, and the report says so.
const OLD_LANDLOCK: &[&str] = &["landlock"];

const CASES: &[Case] = &[
    Case::new(
        "43",
        "signal another process of the user",
        "os.kill(@SIBLING@, 0)",
    )
    .refused_by(NO_SUCH_PROCESS)
    .nested_may_lack(OLD_LANDLOCK),
    Case::new("43b", "signal the daemon", "os.kill(@DAEMON@, 0)")
        .refused_by(NO_SUCH_PROCESS)
        .nested_may_lack(OLD_LANDLOCK),
    Case::new(
        "43c",
        "get a descriptor of another process",
        r"
fd = os.pidfd_open(@SIBLING@)
signal.pidfd_send_signal(fd, 0)",
    )
    .refused_by(&["ESRCH", "EPERM", "ENOSYS"])
    .nested_may_lack(OLD_LANDLOCK),
    Case::new(
        "45",
        "trace another process of the user",
        r"
check(libc.ptrace(16, @SIBLING@, 0, 0))",
    )
    .refused_by(&["ESRCH", "EPERM", "ENOSYS"]),
    Case::new(
        "45b",
        "write to the memory of another process of the user",
        "open('/proc/@SIBLING@/mem', 'r+b')",
    )
    .refused_by(&["ENOENT", "EACCES", "EPERM"]),
];

#[test]
fn no_process_outside_can_be_reached() {
    judge(CASES);
}

/// Real KILLs, which the table above avoids because their control would end the sibling.
#[test]
fn killing_the_daemon_or_everything_changes_nothing_outside() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        let daemon = arena.daemon().pid();
        let sibling = places.fill("@SIBLING@");
        let everybody = "kill -9 -1; echo survived".to_owned();
        let by_pid = [
            format!("kill -9 {daemon}; kill -9 {sibling}; echo survived"),
            "kill -STOP 1; kill -9 1; kill -9 $PPID; echo survived".to_owned(),
        ];
        let report = places.world.exec_json(&[], "true");
        let lets_out = report["sandbox"]["degraded"]
            .to_string()
            .contains("signals can be sent");
        assert!(!lets_out || mode == Mode::Nested, "{report}");
        let scripts = by_pid.into_iter().filter(|_| !lets_out);
        for script in scripts.chain([everybody]) {
            let words = ["exec", "--json", "--timeout", "20s", "--", &script];
            let ended = arena.daemon().cli(&places.world, &words).run();
            let answer = ended.json();
            assert_ne!(answer["reason"], "lost", "{script}: {answer}");
            assert_ne!(answer["reason"], "timeout", "{script}: {answer}");
        }
        arena.daemon_is_alive();
    });
}

/// A set-user-id program in a directory that every profile shows.
fn plant_setuid(places: &Places, owner: u32) {
    let program = places.visible.join("who");
    fs::copy("/usr/bin/id", &program).expect("a program");
    chown(&program, Some(owner), Some(owner)).expect("its owner");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o6755)).expect("its mode");
}

const SETUID: Case = Case::new(
    "39",
    "gain an identity from a set-user-id program",
    r"
out = subprocess.run(['@VISIBLE@/who', '-u'], capture_output=True, text=True)
if out.returncode != 0:
    refused('EACCES')
if int(out.stdout) == os.getuid():
    refused('SAME')",
)
.refused_by(&["SAME", "EACCES", "EPERM"]);

#[test]
fn a_set_user_id_program_gives_no_other_identity() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: needs root to plant a set-user-id program");
        return;
    }
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        // Each gets a program that belongs to somebody else.
        let case = match mode {
            Mode::Root => SETUID.prepare(|places| plant_setuid(places, 65534)),
            Mode::Rootless | Mode::Nested => SETUID.prepare(|places| plant_setuid(places, 0)),
        };
        let failures = arena.judge(&case);
        assert!(failures.is_empty(), "{mode:?}:\n{}", failures.join("\n"));
    });
}
