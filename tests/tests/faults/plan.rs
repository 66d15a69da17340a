//! What happens in one round, by its seed.

use std::time::Duration;

use agentd_tests::harness::Random;

use crate::commands::Command;

/// One round.
#[derive(Debug)]
pub(crate) struct Plan {
    /// What runs.
    pub(crate) command: Command,
    /// So many first connections are broken.
    pub(crate) faulty: u64,
    /// The request is sent again this long after the first time.
    pub(crate) again_after: Option<Duration>,
}

impl Plan {
    /// The plan of this seed.
    pub(crate) fn of(seed: u64) -> Self {
        let mut random = Random::new(seed, "plan");
        let again = random.percent(30);
        let delay = Duration::from_millis(random.between(0, 60));
        Self {
            command: Command::random(&mut random),
            faulty: random.between(1, 5),
            again_after: again.then_some(delay),
        }
    }
}
