//! The soak: thousands of executions of every kind leave agentd and its launcher as large as they were
//! after the first part of them.

mod load;

use std::{sync::Arc, time::Duration};

use agentd_tests::harness::{
    Api, Daemon, Footprint, Mode, Random, World, children_of, rounds, state_of, wait_until,
};
use tokio::{sync::Semaphore, task::JoinSet};

use crate::load::{Load, Site};

/// Executions at once. Enough to see queues and races, few enough for two processors.
const AT_ONCE: usize = 4;

/// Growth that counts as none, in percent.
const PERCENT: u64 = 5;

/// The allocator hands memory back in pieces: what one busy moment may hold that another did not, in KiB.
/// A leak of 110 bytes per execution would show after the full number.
const RSS_SLACK_KIB: u64 = 2048;

/// The same for a short run, whose first part does not yet fill the daemon's memory of finished
/// executions.
const SHORT_RSS_SLACK_KIB: u64 = 10 * 1024;

/// Executions at their end when a number is read: each has a few descriptors.
const COUNT_SLACK: u64 = 2;

#[derive(Debug, Clone, Copy)]
struct Both {
    agentd: Footprint,
    launcher: Footprint,
}

#[test]
fn thousands_of_executions_leave_memory_descriptors_and_threads_as_they_were() {
    let total = rounds(600, 20_000);
    let first = (total / 2).min(1000);
    let mode = *Mode::possible().first().expect("some kind of host");
    let world = World::new(mode);
    let daemon = Daemon::start(&world);
    let launcher = daemon.launcher();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let site = runtime.block_on(Site::open(world, &daemon.socket));
    let site = Arc::new(site);
    let measure = || {
        settle(&daemon, launcher);
        Both {
            agentd: Footprint::of(daemon.pid()),
            launcher: Footprint::of(launcher),
        }
    };
    runtime.block_on(run(&site, 0..first));
    let before = measure();
    runtime.block_on(run(&site, first..total));
    let after = measure();
    eprintln!("after {first}: {before:?}\nafter {total}: {after:?}");
    let slack = if first < 1000 {
        SHORT_RSS_SLACK_KIB
    } else {
        RSS_SLACK_KIB
    };
    within("agentd", slack, before.agentd, after.agentd);
    within(
        "the launcher",
        RSS_SLACK_KIB,
        before.launcher,
        after.launcher,
    );
    let zombies: Vec<_> = [daemon.pid(), launcher]
        .into_iter()
        .flat_map(children_of)
        .filter(|child| state_of(child.pid) == Some('Z'))
        .collect();
    assert!(zombies.is_empty(), "{zombies:?}");
    runtime.block_on(site.close());
    let gone = wait_until(Duration::from_secs(5), || {
        site.world().processes().is_empty()
    });
    assert!(gone, "left behind: {:?}", site.world().processes());
}

/// Waits until nothing of any command is there, so that two measurements see the same work.
fn settle(daemon: &Daemon, launcher: i32) {
    let own = daemon.own_processes(launcher);
    let quiet = wait_until(Duration::from_secs(20), || {
        children_of(launcher)
            .iter()
            .all(|child| own.contains(&child.pid))
    });
    assert!(quiet, "jails are left: {:?}", children_of(launcher));
}

#[track_caller]
fn within(name: &str, rss_slack: u64, before: Footprint, after: Footprint) {
    let most = |number: u64, slack: u64| number + (number * PERCENT / 100).max(slack);
    assert!(
        after.rss_kib <= most(before.rss_kib, rss_slack),
        "memory of {name}: {before:?} became {after:?}"
    );
    assert!(
        after.descriptors <= most(before.descriptors, COUNT_SLACK),
        "descriptors of {name}: {before:?} became {after:?}"
    );
    assert!(
        after.threads <= most(before.threads, COUNT_SLACK),
        "threads of {name}: {before:?} became {after:?}"
    );
}

async fn run(site: &Arc<Site>, numbers: std::ops::Range<u64>) {
    let slots = Arc::new(Semaphore::new(AT_ONCE));
    let mut tasks = JoinSet::new();
    for number in numbers {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("a slot");
        let site = Arc::clone(site);
        tasks.spawn(async move {
            let mut random = Random::new(number, "soak");
            let load = Load::random(&mut random, &site);
            load.run(&site, number, &mut random).await;
            drop(slot);
        });
        // Nobody collects results for minutes: failures show at once.
        while let Some(done) = tasks.try_join_next() {
            done.expect("an execution went wrong");
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("an execution went wrong");
    }
}

/// A connection as every client makes one.
async fn dial(socket: &std::path::Path) -> Api {
    Api::dial(socket).await.expect("the daemon answers")
}
