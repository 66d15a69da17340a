//! Resource storms, apart from the other tests: on the tier without namespaces the limit on processes
//! counts every process of the user, so that a storm would starve tests beside it.

use std::time::Duration;

use agentd_tests::harness::{World, in_every_mode, wait_until};

const MOST: usize = 700;

#[test]
fn a_fork_storm_stops_at_the_process_limit_and_leaves_nothing() {
    let script = "for n in $(seq 3000); do sleep 60 & done; echo all";
    in_every_mode(|mode| {
        let world = World::new(mode);
        let options = ["--json", "--timeout", "8s"];
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
    });
}
