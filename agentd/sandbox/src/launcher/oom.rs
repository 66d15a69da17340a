//! Whether the leader of a command was the victim of a want of memory. The kernel counts its victims and
//! does not name them: a counter that rose at about the time when the leader died of a KILL that nobody
//! here sent is taken for it; one that rose long before is another process's.

use super::lifecycle::Millis;

/// Time between two looks at the counter.
pub(super) const EVERY_MS: u64 = 500;
/// Longest time between the rise of the counter being seen and the death: a large process takes a while
/// to give back its memory.
const DYING_MS: u64 = 1_000;

/// The counter of one command.
#[derive(Debug)]
pub(crate) struct Oom {
    kills: u64,
    rose_at: Option<Millis>,
    pub(super) next: Millis,
    victim: bool,
}

impl Oom {
    /// A counter that stands at `kills`.
    pub(crate) fn new(now: Millis, kills: u64) -> Self {
        Self {
            kills,
            rose_at: None,
            next: now.after(EVERY_MS),
            victim: false,
        }
    }

    /// Takes what the counter says now.
    pub(crate) fn see(&mut self, now: Millis, kills: u64) {
        if kills > self.kills {
            (self.kills, self.rose_at) = (kills, Some(now));
        }
        self.next = now.after(EVERY_MS);
    }

    /// The leader has just ended. The last look: nothing later is about it.
    pub(crate) fn leader_ended(&mut self, now: Millis, kills: u64) {
        self.see(now, kills);
        self.next = Millis::NEVER;
        self.victim = self
            .rose_at
            .is_some_and(|rose| now.0.saturating_sub(rose.0) <= DYING_MS);
    }

    /// The leader ended while the counter rose.
    pub(crate) fn leader_was_there(&self) -> bool {
        self.victim
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_rise_at_about_the_death_is_about_the_leader() {
        // When the counter was looked at and what it said; the last look is at the death.
        for (looks, victim) in [
            (&[(700, 0)][..], false),
            (&[(700, 1)], true),
            // Seen while it was dying.
            (&[(500, 1), (1_400, 1)], true),
            // Another process's, long before.
            (&[(500, 1), (1_000, 1), (1_500, 1), (9_000, 1)], false),
            (&[(500, 1), (1_000, 1), (9_000, 2)], true),
        ] {
            let mut oom = Oom::new(Millis(0), 0);
            let (death, before) = looks.split_last().unwrap();
            for (at, kills) in before {
                oom.see(Millis(*at), *kills);
                assert_eq!(oom.next, Millis(at + EVERY_MS));
            }
            oom.leader_ended(Millis(death.0), death.1);
            assert_eq!(oom.leader_was_there(), victim, "{looks:?}");
            assert_eq!(oom.next, Millis::NEVER);
        }
    }

    #[test]
    fn what_was_counted_before_the_command_is_not_its_own() {
        let mut oom = Oom::new(Millis(0), 3);
        oom.leader_ended(Millis(10), 3);
        assert!(!oom.leader_was_there());
    }
}
