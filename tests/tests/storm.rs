//! Resource storms, apart from the other tests: on the tier without namespaces the limit on processes
//! counts every process of the user, so that a storm would starve tests beside it.

use std::time::Duration;

use agentd_tests::harness::{Mode, World, in_every_mode, wait_until};

const MOST: usize = 700;

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
    let options = ["--json", "--timeout", "5s"];
    let mut running = world.exec(&options, script).start();
    let mut most = 0;
    let ended = wait_until(Duration::from_secs(30), || {
        most = most.max(world.processes().len());
        running.try_wait().is_some()
    });
    assert!(ended, "still running: {}", running.stderr());
    let answer = running.wait(Duration::from_secs(1)).json();
    assert!(most < MOST, "{most} processes at once: {answer}");
    // The control of the storm: it did run into the limit.
    let errors = answer["stderr"].as_str().unwrap_or_default();
    assert!(
        errors.contains("Resource temporarily unavailable"),
        "{most}: {answer}"
    );
    let gone = wait_until(Duration::from_secs(1), || world.everything().is_empty());
    assert!(gone, "{:?}", world.everything());
}
