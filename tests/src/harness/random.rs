//! Repeatable chance: every random decision of a test comes from one number, which a failure names.

use std::env;

/// Which part of a suite runs: `full`, or a number of rounds. Without it a short one.
const ROUNDS: &str = "AGENTD_ROUNDS";

/// The first seed of a suite; together with `AGENTD_ROUNDS=1` it repeats one failed round.
const SEED: &str = "AGENTD_SEED";

/// Rounds of a suite: `plain` in an ordinary `cargo test`, `full` with `AGENTD_ROUNDS=full`, or as many as
/// `AGENTD_ROUNDS` says.
pub fn rounds(plain: u64, full: u64) -> u64 {
    match env::var(ROUNDS) {
        Err(_) => plain,
        Ok(word) if word == "full" => full,
        Ok(word) => word
            .parse()
            .unwrap_or_else(|_| panic!("{ROUNDS} is {word:?}; use `full` or a number")),
    }
}

/// Seeds of that many rounds.
pub fn seeds(plain: u64, full: u64) -> impl Iterator<Item = u64> {
    let first = env::var(SEED).map_or(1, |word| {
        word.parse()
            .unwrap_or_else(|_| panic!("{SEED} is {word:?}; use a number"))
    });
    (0..rounds(plain, full)).map(move |round| first + round)
}

/// A small generator (SplitMix64): the same seed gives the same sequence everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// A generator for one purpose within one seed; different purposes do not disturb each other.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut random = Self(seed);
        for byte in purpose.bytes() {
            random.0 = random.next() ^ u64::from(byte);
        }
        random
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "a generator never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        let last = u64::try_from(choices.len()).expect("few choices") - 1;
        choices[usize::try_from(self.between(0, last)).expect("an index")]
    }

    /// True this often out of a hundred times.
    pub fn percent(&mut self, often: u64) -> bool {
        self.between(1, 100) <= often
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn a_seed_repeats_and_purposes_differ() {
        let draw = |seed, purpose| {
            let mut random = Random::new(seed, purpose);
            (0..8).map(|_| random.next()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7, "a"), draw(7, "a"));
        assert_ne!(draw(7, "a"), draw(7, "b"));
        assert_ne!(draw(7, "a"), draw(8, "a"));
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_reach_both() {
        let mut random = Random::new(1, "bounds");
        let drawn: Vec<u64> = (0..1000).map(|_| random.between(3, 6)).collect();
        assert!(drawn.iter().all(|number| (3..=6).contains(number)));
        for bound in 3..=6 {
            assert!(drawn.contains(&bound), "{bound}");
        }
    }
}
