//! Reaching processes outside, and identities: cases 39, 43, 45 and 48.

use std::{fs, os::unix::fs::PermissionsExt, os::unix::fs::chown, time::Duration};

use agentd_tests::harness::{Mode, in_every_mode, wait_until};
use nix::unistd::geteuid;

use crate::{
    arena::{Arena, Places},
    case::{Case, Control},
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
    Case::new(
        "48",
        "limit another process of the user",
        "import resource; resource.prlimit(@SIBLING@, resource.RLIMIT_CPU, (10**6, 10**6))",
    )
    .refused_by(NO_SUCH_PROCESS),
    Case::new(
        "48b",
        "hold another process of the user to some processors",
        "os.sched_setaffinity(@SIBLING@, os.sched_getaffinity(0))",
    )
    .refused_by(NO_SUCH_PROCESS),
    Case::new(
        "48c",
        "put another process of the user behind all others",
        "os.sched_setscheduler(@SIBLING@, os.SCHED_BATCH, os.sched_param(0))",
    )
    .refused_by(NO_SUCH_PROCESS),
    Case::new(
        "48d",
        "lower the priority of another process of the user",
        "os.setpriority(os.PRIO_PROCESS, @SIBLING@, 1)",
    )
    .refused_by(NO_SUCH_PROCESS),
    Case::new(
        "48e",
        "lower the priority of a process's input and output",
        "check(libc.syscall(IOPRIO_SET, 1, @SIBLING@, 2 << 13 | 7))",
    )
    .refused_by(NO_SUCH_PROCESS),
    Case::new(
        "48f",
        "lower the priority of everything of the user",
        r"
os.setpriority(os.PRIO_USER, 0, 1)
if os.getpriority(os.PRIO_PROCESS, @SIBLING@) < 1:
    refused('OTHERS')",
    )
    .refused_by(NO_SUCH_PROCESS)
    .control(Control::Never(
        "it would slow down everything of the user that runs the tests",
    )),
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

/// Without open files init can read no list of children, and so sweep nobody.
#[test]
fn a_command_that_limits_its_init_leaves_nobody_behind() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        for script in [
            "(setsid sleep 77.7 &); prlimit --pid $PPID --nofile=0:0; echo tried",
            "(setsid sleep 77.7 &); prlimit --pid $PPID --cpu=0:0 --nproc=0:0; echo tried",
            "(setsid sleep 77.7 &); chrt --idle --pid 0 $PPID; renice 19 $PPID; echo tried",
        ] {
            let places = arena.places();
            let words = ["exec", "--json", "--timeout", "20s", "--", script];
            let answer = arena.daemon().cli(&places.world, &words).run().json();
            assert!(answer["stdout"].to_string().contains("tried"), "{answer}");
            let left = || survivors(&places.world.workspace);
            let gone = wait_until(Duration::from_secs(5), || left().is_empty());
            assert!(gone, "{script}: {:?}; {answer}", left());
        }
        arena.daemon_is_alive();
    });
}

/// Processes whose working directory is this one.
fn survivors(workspace: &std::path::Path) -> Vec<String> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let here = entries.filter(|entry| {
        let cwd = fs::read_link(entry.path().join("cwd"));
        cwd.is_ok_and(|cwd| cwd.starts_with(workspace))
    });
    let names = here.map(|entry| {
        let comm = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        format!(
            "{} {}",
            entry.file_name().to_string_lossy(),
            comm.trim_end()
        )
    });
    names.filter(|name| name.ends_with("sleep")).collect()
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
