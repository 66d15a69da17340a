//! The same faults before agent-cli itself: what a person sees is exact too, or says that it is not known.

use std::{fs, sync::Arc, time::Duration};

use agentd_tests::harness::{Daemon, Ended, Fate, Fault, Mode, Proxy, Random, World, seeds};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::commands::Command;

/// Clients at once.
const AT_ONCE: usize = 4;

/// A client notices a silent connection by its pings, which takes up to 25 seconds.
const PATIENCE: Duration = Duration::from_secs(100);

/// What became of a round.
enum Round {
    /// The client has the whole result.
    Whole,
    /// The first connection broke before anything was asked: nothing ran, and the client says so.
    Unreached,
}

#[test]
fn whatever_breaks_the_clients_result_is_whole_or_nothing_ran() {
    let mode = *Mode::possible().first().expect("some kind of host");
    let world = Arc::new(World::new(mode));
    let daemon = Arc::new(Daemon::start(&world));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (whole, failures) = runtime.block_on(async {
        let slots = Arc::new(Semaphore::new(AT_ONCE));
        let mut rounds = JoinSet::new();
        for seed in seeds(30, 300) {
            let slot = Arc::clone(&slots).acquire_owned().await.expect("a slot");
            let (world, daemon) = (Arc::clone(&world), Arc::clone(&daemon));
            rounds.spawn(async move {
                let outcome = round(world, &daemon, seed).await;
                drop(slot);
                outcome.map_err(|why| format!("AGENTD_SEED={seed}: {why}"))
            });
        }
        let (mut whole, mut failures) = (0, Vec::new());
        while let Some(joined) = rounds.join_next().await {
            match joined.expect("a round does not panic") {
                Ok(Round::Whole) => whole += 1,
                Ok(Round::Unreached) => {}
                Err(why) => failures.push(why),
            }
        }
        (whole, failures)
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(whole > 0, "no client ever reached its daemon");
}

/// The fate of a connection of a client, whose pings are slow: few connections go silent for ever.
fn fate(random: &mut Random) -> Fate {
    let fate = Fate::random(random);
    if fate.fault == Fault::Hole && random.percent(90) {
        return Fate {
            fault: Fault::Cut,
            ..fate
        };
    }
    fate
}

async fn round(world: Arc<World>, daemon: &Daemon, seed: u64) -> Result<Round, String> {
    let mut random = Random::new(seed, "client");
    let (command, faulty) = loop {
        let command = Command::random(&mut random);
        // A client that prints cannot show a gap as bytes; the other suite counts them.
        if !matches!(command, Command::Flood { .. }) {
            break (command, random.between(1, 4));
        }
    };
    let id = format!("client-{seed}");
    let mut fates = Random::new(seed, "client fates");
    let socket = world.base.join(format!("client{seed}.sock"));
    let proxy = Proxy::start(&socket, &daemon.socket, move |number| {
        if number < faulty {
            fate(&mut fates)
        } else {
            Fate::CLEAN
        }
    });
    world.give(&socket);
    let words = command.client_words(&id);
    let url = format!("unix://{}", socket.display());
    let program = world.cli(["--connect", &url]).args(words);
    let ended = tokio::task::spawn_blocking(move || program.start().wait(PATIENCE));
    let ended = ended
        .await
        .map_err(|error| format!("{command:?}: {error}"))?;
    let told = |why: String| {
        format!(
            "{why}\n  {command:?}, {} connections: {ended:?}",
            proxy.connections()
        )
    };
    judge(&world, &command, &id, &ended).map_err(told)
}

fn judge(world: &World, command: &Command, id: &str, ended: &Ended) -> Result<Round, String> {
    let runs = fs::read_to_string(world.workspace.join(id)).unwrap_or_default();
    if ended.code == 125 && runs.is_empty() && ended.stdout.is_empty() {
        return Ok(Round::Unreached);
    }
    if runs != "ran\n" {
        return Err(format!("the command ran {} times", runs.lines().count()));
    }
    command.judge_client(ended.code, ended.stdout.as_bytes())?;
    Ok(Round::Whole)
}
