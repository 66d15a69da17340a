//! Nothing allocates between fork and exec: a lock that another moment of the launcher held would never
//! be released in the child. Every real jail that `probe` builds runs under an allocator that aborts in
//! any process but the one that started, and so does every jail in a session. Without the libtest
//! harness, since a fork wants one thread.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test, although without the harness that clippy knows"
)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    process::ExitCode,
    sync::atomic::{AtomicU32, Ordering},
};

use agentd_sandbox::{policy::Tier, probe};

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

fn main() -> ExitCode {
    // Control: the same allocator does abort elsewhere.
    if std::env::args().any(|argument| argument == "--violate") {
        ALLOWED.store(std::process::id().wrapping_add(1), Ordering::Relaxed);
        drop(vec![0_u8; 4096]);
        return ExitCode::SUCCESS;
    }
    let own = std::env::current_exe().unwrap();
    #[expect(clippy::disallowed_methods, reason = "a test")]
    let violation = std::process::Command::new(own)
        .arg("--violate")
        .output()
        .unwrap();
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
    println!("test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out");
    ExitCode::SUCCESS
}
