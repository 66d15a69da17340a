//! Exactness: every byte that a command writes arrives as it was written, a thousand times out of a
//! thousand, whatever the bytes are and however busy the machine is.
//!
//! A failure names its seed: `AGENTD_SEED=N AGENTD_ROUNDS=1 cargo test -p agentd-tests --test exact`.

mod busy;
mod sources;

use std::sync::Arc;

use agentd_proto::v1::ExitReason;
use agentd_tests::harness::{Api, Daemon, Mode, Random, World, follow, in_every_mode, seeds};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{
    busy::Busy,
    sources::{PATIENCE, Source},
};

/// Commands at once.
const AT_ONCE: usize = 4;

/// Runs of one kind of source, all of which must be exact.
fn exact(mode: Mode, source: fn(&mut Random) -> Source) {
    let world = Arc::new(World::new(mode));
    let daemon = Daemon::start(&world);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let failures = runtime.block_on(async {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut runs = JoinSet::new();
        for seed in seeds(30, 1000) {
            let slot = Arc::clone(&slots).acquire_owned().await.expect("a slot");
            let (world, socket) = (Arc::clone(&world), daemon.socket.clone());
            runs.spawn(async move {
                let source = source(&mut Random::new(seed, "source"));
                let id = format!("exact-{seed}");
                let spec = source.spec(&world, &id);
                let told = follow(&socket, &spec, PATIENCE).await;
                drop(slot);
                Source::tidy(&world, &id);
                let told = told.map_err(|why| format!("AGENTD_SEED={seed}: {why}"))?;
                source
                    .judge(&told)
                    .map_err(|why| format!("AGENTD_SEED={seed}: {why}, {source:?}"))?;
                if told.reason() != ExitReason::Exited {
                    return Err(format!("AGENTD_SEED={seed}: {:?}", told.exited));
                }
                let api = Api::dial(&socket).await.map_err(|e| e.to_string())?;
                api.delete(&id).await.map_err(|e| e.to_string())
            });
        }
        let mut failures = Vec::new();
        while let Some(run) = runs.join_next().await {
            failures.extend(run.expect("a run does not panic").err());
        }
        failures
    });
    assert!(
        failures.is_empty(),
        "{} runs were not exact:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

#[test]
fn text_without_a_last_newline_arrives_whole() {
    in_every_mode(|mode| exact(mode, Source::printf));
}

#[test]
fn bursts_of_two_mebibytes_arrive_whole_on_a_busy_machine() {
    let busy = Busy::start();
    exact(
        *Mode::possible().first().expect("some kind of host"),
        Source::burst,
    );
    drop(busy);
}

#[test]
fn characters_cut_anywhere_between_two_writes_arrive_whole() {
    in_every_mode(|mode| exact(mode, Source::characters));
}

#[test]
fn bytes_that_are_no_text_arrive_whole() {
    in_every_mode(|mode| exact(mode, Source::binary));
}
