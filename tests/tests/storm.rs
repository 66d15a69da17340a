//! Resource storms, apart from the other tests: on the tier without namespaces the limit on processes
//! counts every process of the user, so that a storm would starve tests beside it.

use std::time::Duration;

use agentd_tests::harness::{Mode, World, in_every_mode, wait_until};
use nix::sys::signal::Signal;

const MOST: usize = 700;

/// What a storm may take to reach its limit, and to be ended, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn a_fork_storm_stops_at_the_process_limit_and_leaves_nothing() {
    let storms = [
        // codex#38909, both: many at once, and each starts the next one and waits for it.
        "for n in $(seq 3000); do sleep 60 & done; echo all",
        "f() { bash -c \"$(declare -f f); f\"; }; f",
        // cc#62193, NemoClaw#809: each starts as many as it may, and so do those.
        "python3 -c 'import os, sys, time
while True:
  try: os.fork()
  except OSError as error: print(error, file=sys.stderr, flush=True); time.sleep(60)'",
    ];
    in_every_mode(|mode| {
        for script in storms {
            storm(mode, script);
        }
    });
}

fn storm(mode: Mode, script: &str) {
    let world = World::new(mode);
    let running = world.exec(&["--timeout", "100s"], script).start();
    let mut most = 0;
    // The control of the storm: it does run into the limit.
    let refused = wait_until(PATIENCE, || {
        most = most.max(world.processes().len());
        running
            .stderr()
            .contains("Resource temporarily unavailable")
    });
    assert!(refused, "{script}: {most} processes: {}", running.stderr());
    let grows = wait_until(Duration::from_secs(2), || {
        most = most.max(world.processes().len());
        most >= MOST
    });
    assert!(!grows, "{script}, {mode:?}: {most} processes at once");
    running.signal(Signal::SIGINT);
    running.wait(PATIENCE).expect_code(130);
    let gone = wait_until(Duration::from_secs(1), || world.everything().is_empty());
    assert!(gone, "{script}: {:?}", world.everything());
}
