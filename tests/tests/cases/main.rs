//! Failures of other tools that ran commands for agents, each tried here as one of its kind. A row of a
//! table names where it was reported; `docs/cases.md` maps every report to its test.

mod bytes;
mod clients;
mod death;
mod floods;
mod health;
mod inherit;
mod input;
mod output;
mod quiet;
mod quoting;
mod returns;
mod room;
mod setup;
mod stalled;
mod store;
mod streams;
mod told;
mod zombies;
