//! Floods: memory stays flat, and what is dropped is counted exactly.

use std::time::Duration;

use agentd_tests::harness::{Daemon, World, in_every_mode};

/// The promise is about 3 GB; a debug build proves the same with less patience.
const FLOOD: &str = if cfg!(debug_assertions) { "300M" } else { "3G" };
const FLOOD_BYTES: u64 = if cfg!(debug_assertions) {
    300 << 20
} else {
    3 << 30
};
const GROWTH_KIB: u64 = 24 * 1024;

#[test]
fn a_flood_leaves_the_daemons_memory_flat_and_is_counted_to_the_byte() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        daemon
            .cli(&world, &["exec", "--", "echo warm"])
            .run()
            .expect_code(0);
        let before = daemon.peak_memory_kib();
        let script = format!("yes | head -c {FLOOD}");
        let ended = daemon
            .cli(
                &world,
                &["exec", "--json", "--timeout", "300s", "--", &script],
            )
            .start()
            .wait(Duration::from_secs(300));
        ended.expect_code(0);
        let answer = ended.json();
        let after = daemon.peak_memory_kib();
        assert!(after - before < GROWTH_KIB, "from {before} to {after} KiB");
        assert_eq!(
            answer["stdout_bytes"], FLOOD_BYTES,
            "{}",
            answer["stdout_bytes"]
        );
        assert_eq!(answer["truncated"], true);
        let dropped = answer["dropped_bytes"].as_u64().unwrap();
        let held = answer["stdout"].as_str().unwrap();
        let real: usize = held.lines().filter(|line| *line == "y").count() * 2;
        let kept = u64::try_from(real).unwrap();
        // The seam between head and tail may cut one line in two.
        assert!(
            (dropped + kept).abs_diff(FLOOD_BYTES) <= 4,
            "dropped {dropped} + kept {kept} of {FLOOD_BYTES}"
        );
        assert!(dropped > FLOOD_BYTES / 2, "dropped {dropped}");
    });
}

#[test]
fn a_plain_client_streams_everything() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let ended = world.exec(&[], "seq 200000; seq 200000 >&2").run();
        ended.expect_code(0);
        let numbers: Vec<String> = (1..=200_000).map(|n| n.to_string()).collect();
        let expected = numbers.join("\n") + "\n";
        assert_eq!(ended.stdout.len(), expected.len());
        assert!(ended.stdout == expected, "stdout differs");
        assert!(ended.stderr.contains(&expected), "stderr differs");
    });
}

#[test]
fn an_endless_flood_ends_at_the_timeout_with_the_client_alive() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let answer = world.exec_json(&["--timeout", "2s"], "yes; echo never");
        assert_eq!(answer["reason"], "timeout", "{}", answer["reason"]);
        assert!(answer["stdout_bytes"].as_u64().unwrap() > 1 << 20);
    });
}

#[test]
fn one_line_without_an_end_and_bytes_that_are_no_text_arrive_counted() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let answer = world.exec_json(&[], "head -c 5000000 /dev/zero | tr '\\0' '\\377'");
        assert_eq!(answer["exit_code"], 0);
        assert_eq!(answer["stdout_bytes"], 5_000_000);
        assert_eq!(answer["stderr_bytes"], 0);
    });
}
