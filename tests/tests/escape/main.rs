//! The escape suite: attempts to get out of the jail, each with a control that succeeds outside it.
//!
//! A case is data (`case`): a probe in Python that prints `DONE` when the attack succeeded and
//! `REFUSED <errno>` when it did not. `arena` runs it outside (the control), inside, and looks at the
//! host afterwards. The numbers are those of the project's list of attempts.

mod arena;
mod case;
mod files;
mod git;
mod processes;
mod races;
mod reads;
mod special;
mod together;
mod writes;

use case::Case;

/// Runs a table of cases on every kind of host, under every profile, and reports all failures at once.
fn judge(cases: &[Case]) {
    agentd_tests::harness::in_every_mode(|mode| {
        let arena = arena::Arena::new(mode);
        let mut failures = Vec::new();
        for case in cases {
            failures.extend(arena.judge(case));
        }
        arena.daemon_is_alive();
        assert!(failures.is_empty(), "{mode:?}:\n{}", failures.join("\n"));
    });
}
