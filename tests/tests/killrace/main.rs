//! The kill race: a command that forks as fast as it may is ended at a random moment, in every way there
//! is. Afterwards nothing of it exists: no process, no zombie, no cgroup, no mount, no file.
//!
//! Every command has a limit on its processes, and as root this whole test sits in a cgroup with another
//! one, so that a fault of the product cannot take the machine down.
//!
//! A failure names its seed: `AGENTD_SEED=N AGENTD_ROUNDS=1 cargo test -p agentd-tests --test killrace`.

mod ending;
mod fence;
mod forkers;

use std::time::Duration;

use agentd_proto::v1;
use agentd_tests::harness::{
    Api, Daemon, Mode, Random, World, adopt_orphans, bury_orphans, in_every_mode, is_running,
    members_of_cgroups, residue, script, seeds, wait_until, wire,
};

use crate::{
    ending::{End, Told},
    fence::Fence,
};

/// Processes and threads of one command.
const PIDS: u64 = 48;

/// A jail whose daemon was killed is gone within this time.
const SOON: Duration = Duration::from_secs(3);

/// A daemon and what it is known by, even after it is gone.
struct Stage {
    world: World,
    daemon: Daemon,
    launcher: i32,
}

impl Stage {
    fn new(mode: Mode) -> Self {
        let world = World::new(mode);
        let daemon = Daemon::start(&world);
        let launcher = daemon.launcher();
        Self {
            world,
            daemon,
            launcher,
        }
    }

    /// Processes that may be there while the daemon lives: agentd and its helpers, but no command.
    fn own(&self) -> Vec<i32> {
        self.daemon.own_processes(self.launcher)
    }

    /// What is left although the daemon goes on.
    fn residue_of_command(&self) -> Vec<String> {
        let mut found = residue(&self.world, self.launcher, &self.own());
        // A living daemon may keep empty cgroups and directories of its own; it may keep nobody in them.
        found.retain(|line| line.starts_with("process") || line.starts_with("zombie"));
        found.extend(members_of_cgroups(self.launcher));
        found
    }
}

#[test]
fn nothing_survives_a_command_that_forks_as_fast_as_it_may_however_it_ends() {
    adopt_orphans();
    let fence = Fence::new();
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    in_every_mode(|mode| {
        let mut stage = Stage::new(mode);
        let mut forks = 0;
        for seed in seeds(40, 1000) {
            let mut random = Random::new(seed, "race");
            let end = End::random(&mut random);
            let (name, seen) = runtime.block_on(race(&stage, seed, end, &mut random));
            forks += usize::from(seen > 1);
            if end.kills_the_daemon() {
                stage = bury(stage, &name);
            }
        }
        // The control: the commands did fork.
        assert!(forks > 0, "no command had a child when it was ended");
        orderly(stage);
    });
    drop(fence);
}

/// Runs one command and ends it; returns what it was and how many processes it had at that moment.
async fn race(stage: &Stage, seed: u64, end: End, random: &mut Random) -> (String, usize) {
    let forker = random.pick(forkers::ALL);
    let moment = Duration::from_millis(random.between(0, 80));
    let mode = stage.world.mode;
    let name = format!(
        "AGENTD_SEED={seed}, {mode:?}, {end:?} after {moment:?}, {}",
        forker.name
    );
    let mut spec = script(&stage.world, &format!("race-{seed}"), forker.script);
    let limits = spec.limits.insert(v1::LimitRequest::default());
    limits.pids = Some(PIDS);
    limits.timeout = wire(Duration::from_secs(20));
    limits.kill_grace = wire(Duration::from_millis(random.between(1, 20)));
    end.prepare(&mut spec, moment);
    let api = Api::dial(&stage.daemon.socket).await;
    let told = end.run((api.expect("a daemon"), spec), moment, stage).await;
    if !end.kills_the_daemon() {
        told.judge(end, mode, &name);
        gone(stage, &told, &name);
    }
    (name, told.seen)
}

/// Looks whether everything is gone: at once where the end promises it, soon otherwise.
fn gone(stage: &Stage, told: &Told, name: &str) {
    // Without a pid namespace the sweep is best effort, and says so.
    let at_once = told.after_the_result && stage.world.mode != Mode::Nested;
    let patience = if at_once { Duration::ZERO } else { SOON };
    let mut left = Vec::new();
    let gone = wait_until(patience, || {
        left = stage.residue_of_command();
        left.is_empty()
    });
    assert!(gone, "{name}: left behind:\n{}", left.join("\n"));
}

/// After a daemon process was killed: everything of it is gone, and another daemon can take its place.
fn bury(stage: Stage, name: &str) -> Stage {
    let Stage {
        world,
        daemon,
        launcher,
    } = stage;
    let (mode, agentd) = (world.mode, daemon.pid());
    let mut left = Vec::new();
    let gone = wait_until(SOON * 3, || {
        // Orphans of the killed ones are ours now. The daemon itself is waited for when it is dropped.
        bury_orphans(&[agentd]);
        left = residue(&world, launcher, &[]);
        left.is_empty() && !is_running(agentd)
    });
    assert!(
        gone,
        "{name}: left behind:\n{}\ndaemon: {}",
        left.join("\n"),
        daemon.log()
    );
    drop(daemon);
    drop(world);
    Stage::new(mode)
}

/// An orderly end of the daemon leaves nothing either.
fn orderly(stage: Stage) {
    let Stage {
        world,
        daemon,
        launcher,
    } = stage;
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    daemon.wait(Duration::from_secs(20)).expect_code(0);
    let mut left = Vec::new();
    let gone = wait_until(SOON, || {
        bury_orphans(&[]);
        left = residue(&world, launcher, &[]);
        left.is_empty()
    });
    assert!(gone, "after an orderly end:\n{}", left.join("\n"));
}
