//! Broken connections between client and daemon: whatever happens to the bytes between them, there is one
//! execution, its output is the same or the missing part is counted exactly, and its end is the daemon's.
//!
//! A failure names its seed: `AGENTD_SEED=N AGENTD_ROUNDS=1 cargo test -p agentd-tests --test faults`.

mod client;
mod commands;
mod plan;

use std::{fs, sync::Arc, time::Duration};

use agentd_proto::v1;
use agentd_tests::harness::{
    Api, Daemon, Fate, Mode, Proxy, Random, Transcript, World, follow, seeds,
};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::{commands::Command, plan::Plan};

/// Rounds at once: enough to keep the machine busy, and few enough for its two processors.
const AT_ONCE: usize = 4;

/// A round takes a second or two; what takes this long has hung.
const PATIENCE: Duration = Duration::from_secs(25);

struct Stage {
    world: World,
    daemon: Daemon,
}

#[test]
fn any_fault_between_client_and_daemon_leaves_one_execution_exact_output_and_one_end() {
    let mode = *Mode::possible().first().expect("some kind of host");
    let world = World::new(mode);
    let daemon = Daemon::start(&world);
    let stage = Arc::new(Stage { world, daemon });
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (tally, failures) = runtime.block_on(all(&stage));
    assert!(
        failures.is_empty(),
        "{} rounds failed; daemon: {}\n{}",
        failures.len(),
        stage.daemon.log(),
        failures.join("\n")
    );
    // The control: the rounds did break connections, and readers did fall behind.
    assert!(
        tally.connections > tally.rounds * 3 / 2,
        "{tally:?}: the proxy broke nothing"
    );
    eprintln!("{tally:?}");
}

/// What all rounds together did.
#[derive(Debug, Default)]
struct Tally {
    rounds: u64,
    connections: u64,
    gaps: u64,
    twice: u64,
}

async fn all(stage: &Arc<Stage>) -> (Tally, Vec<String>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut rounds = JoinSet::new();
    for seed in seeds(60, 1000) {
        let (slots, stage) = (Arc::clone(&slots), Arc::clone(stage));
        rounds.spawn(async move {
            let _slot = slots.acquire_owned().await.expect("a slot");
            (seed, round(&stage, seed).await)
        });
    }
    let (mut tally, mut failures) = (Tally::default(), Vec::new());
    while let Some(joined) = rounds.join_next().await {
        let (seed, outcome) = joined.expect("a round does not panic");
        match outcome {
            Ok(one) => {
                tally.rounds += 1;
                tally.connections += one.connections;
                tally.gaps += one.gaps;
                tally.twice += one.twice;
            }
            Err(why) => failures.push(format!("AGENTD_SEED={seed}: {why}")),
        }
    }
    (tally, failures)
}

async fn round(stage: &Stage, seed: u64) -> Result<Tally, String> {
    let Stage { world, daemon } = stage;
    let plan = Plan::of(seed);
    let mut fates = Random::new(seed, "fates");
    let (faulty, socket) = (plan.faulty, world.base.join(format!("proxy{seed}")));
    let proxy = Proxy::start(&socket, &daemon.socket, move |number| {
        if number < faulty {
            Fate::random(&mut fates)
        } else {
            Fate::CLEAN
        }
    });
    let id = format!("fault-{seed}");
    let spec = plan.command.spec(world, &id);
    let first = async { follow(&proxy.socket, &spec, PATIENCE).await };
    let second = async {
        // The same request once more while the first connection may still be alive.
        match plan.again_after {
            Some(delay) => {
                tokio::time::sleep(delay).await;
                follow(&proxy.socket, &spec, PATIENCE).await.map(Some)
            }
            None => Ok(None),
        }
    };
    let (first, second) = tokio::join!(first, second);
    let told = |why| format!("{why}\n  {plan:?}");
    let first = first.map_err(told)?;
    let second = second.map_err(told)?;
    judge(stage, &plan.command, &id, &first)
        .await
        .map_err(told)?;
    if let Some(second) = &second {
        judge(stage, &plan.command, &id, second)
            .await
            .map_err(told)?;
    }
    Ok(Tally {
        rounds: 1,
        connections: proxy.connections(),
        gaps: u64::from(first.gaps),
        twice: u64::from(second.is_some()),
    })
}

async fn judge(
    stage: &Stage,
    command: &Command,
    id: &str,
    transcript: &Transcript,
) -> Result<(), String> {
    command.judge(transcript)?;
    let api = Api::dial(&stage.daemon.socket).await;
    let api = api.map_err(|error| error.to_string())?;
    let exec = api.get(id).await.map_err(|status| status.to_string())?;
    if exec.result != transcript.exited {
        return Err(format!(
            "told {:?}, but the daemon says {:?}",
            transcript.exited, exec.result
        ));
    }
    let request = v1::ListExecsRequest {
        page_size: 1000,
        ..v1::ListExecsRequest::default()
    };
    let list = api.execs().list(request).await;
    let list = list.map_err(|status| status.to_string())?;
    let same = list
        .get_ref()
        .execs
        .iter()
        .filter(|exec| exec.exec_id == id)
        .count();
    if same != 1 {
        return Err(format!("{same} executions of one id"));
    }
    let runs = fs::read_to_string(stage.world.workspace.join(id)).unwrap_or_default();
    if runs != "ran\n" {
        return Err(format!("the command ran {} times", runs.lines().count()));
    }
    Ok(())
}
