//! Nothing allocates between fork and exec: a lock that another moment of the launcher held would never
//! be released in the child. Every real jail that `probe` builds runs under an allocator that aborts in
//! any process but the one that started, so does every jail in a session, and so does the real launcher with
//! a command for which everything is made that can be made. Without the libtest harness, since a fork wants
//! one thread.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test, although without the harness that clippy knows"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    collections::BTreeMap,
    fs,
    io::Write,
    os::fd::{AsFd, OwnedFd},
    process::{Command, ExitCode, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use agentd_sandbox::{
    launcher,
    monitor::{Channel, Event, ExecKey, LeaderStatus, Request},
    policy::{
        Caller, Carried, InSession, Invocation, Lifetime, LimitRequest, Program, SessionKey, Stdin,
        TerminalSize, Tier,
    },
    probe,
};
use nix::{
    fcntl::{FcntlArg, OFlag, SealFlag, fcntl},
    sys::memfd::{MFdFlags, memfd_create},
    unistd::{getegid, geteuid, pipe2},
};

struct OneProcess;

static ALLOWED: AtomicU32 = AtomicU32::new(0);

fn check() {
    let allowed = ALLOWED.load(Ordering::Relaxed);
    if allowed != 0 && allowed != std::process::id() {
        std::process::abort();
    }
}

// SAFETY: every method hands its arguments to the system's allocator unchanged.
#[expect(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for OneProcess {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller's contract is the callee's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        check();
        // SAFETY: the caller's contract is the callee's.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: OneProcess = OneProcess;

/// Makes this program a launcher.
const LAUNCHER: &str = "AGENTD_TEST_IS_LAUNCHER";

fn sealed(script: &[u8]) -> OwnedFd {
    let fd = memfd_create("script", MFdFlags::MFD_ALLOW_SEALING).unwrap();
    let mut file = fs::File::from(fd);
    file.write_all(script).unwrap();
    let seals = SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_WRITE;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals)).unwrap();
    file.into()
}

/// A terminal, a script, a report, and a directory that is gone.
fn invocation(workspace: &std::path::Path) -> Invocation {
    Invocation {
        profile: "workspace".to_owned(),
        workspace: workspace.to_owned(),
        cwd: None,
        program: Program::Script,
        env_set: BTreeMap::new(),
        env_unset: Vec::new(),
        limits: LimitRequest::default(),
        caller: Caller {
            uid: geteuid().as_raw(),
            gid: getegid().as_raw(),
        },
        stdin: Stdin::Null,
        terminal: Some(TerminalSize {
            columns: 80,
            rows: 24,
        }),
        lifetime: Lifetime::Call,
        in_session: Some(Box::new(InSession {
            session: SessionKey(1),
            carried: Carried {
                cwd: Some(workspace.join("gone")),
                ..Carried::default()
            },
            report_state: true,
            output_file: None,
        })),
    }
}

fn next(channel: &Channel<Request, Event>) -> Event {
    loop {
        let event = channel.recv().unwrap().expect("the launcher is there");
        if !matches!(event.message, Event::Ready { .. } | Event::Profile(_)) {
            return event.message;
        }
    }
}

/// A real launcher under the same allocator, and a command with everything.
fn with_everything() {
    let (channel, theirs) = Channel::<Request, Event>::pair().unwrap();
    let own = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test")]
    let mut process = Command::new(own)
        .env(LAUNCHER, "1")
        .stdin(Stdio::from(theirs.into_fd()))
        .spawn()
        .unwrap();
    let name = format!("no-allocation-{}", std::process::id());
    let workspace = std::env::temp_dir().join(name);
    fs::create_dir(&workspace).unwrap();
    let invocation = Box::new(invocation(&workspace));
    let open = Request::OpenSession {
        session: SessionKey(1),
        profile: invocation.profile.clone(),
        workspace: workspace.clone(),
        caller: invocation.caller,
    };
    channel.send(&open, &[]).unwrap();
    let opened = next(&channel);
    assert!(
        matches!(opened, Event::SessionOpened { result: Ok(_), .. }),
        "{opened:?}"
    );
    let exec = ExecKey(1);
    let (report, state) = pipe2(OFlag::O_CLOEXEC).unwrap();
    let fds = [sealed(b"exit 3"), state];
    let fds = fds.each_ref().map(AsFd::as_fd);
    channel
        .send(&Request::Spawn { exec, invocation }, &fds)
        .unwrap();
    let started = next(&channel);
    let leader = next(&channel);
    let expected = Event::LeaderExited {
        exec,
        status: LeaderStatus::Exited(3),
    };
    assert!(
        matches!(&started, Event::Started { notes, .. } if notes.len() == 1),
        "{started:?}"
    );
    assert_eq!(leader, expected);
    drop((channel, report));
    assert!(process.wait().unwrap().success());
    fs::remove_dir(workspace).unwrap();
}

fn main() -> ExitCode {
    if std::env::var_os(LAUNCHER).is_some() {
        ALLOWED.store(std::process::id(), Ordering::Relaxed);
        return launcher::main();
    }
    // Control: the same allocator does abort elsewhere.
    if std::env::args().any(|argument| argument == "--violate") {
        ALLOWED.store(std::process::id().wrapping_add(1), Ordering::Relaxed);
        drop(vec![0_u8; 4096]);
        return ExitCode::SUCCESS;
    }
    let own = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test")]
    let violation = Command::new(own).arg("--violate").output().unwrap();
    assert!(
        !violation.status.success(),
        "the allocator does not notice a violation"
    );

    ALLOWED.store(std::process::id(), Ordering::Relaxed);
    let host = probe::probe();
    let tried: Vec<_> = host
        .capabilities
        .iter()
        .map(|known| (known.name, &known.detail))
        .collect();
    assert!(host.tier.is_some(), "no tier comes up: {tried:#?}");
    let best_possible = if host.uid == 0 {
        "host-root"
    } else {
        "rootless"
    };
    let best = host
        .capabilities
        .iter()
        .find(|known| known.name == best_possible);
    let best = best.expect("the best tier was tried");
    println!("{best_possible}: {}", best.detail);
    assert!(
        best.available || !best.detail.contains("init died"),
        "an allocation after the fork aborts the jail's init: {}",
        best.detail
    );
    // The namespaces of a session are made and entered by forked processes of their own.
    if host.tier.is_some_and(|tier| tier > Tier::Nested) {
        probe::try_session(&host).expect("a jail in a session");
        println!("session: two jails ran in it");
    }
    with_everything();
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
    ExitCode::SUCCESS
}
