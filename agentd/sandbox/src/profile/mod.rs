//! Profiles: TOML text in, a checked and resolved value out. Pure except for `catalogue`, which reads
//! directories.

mod commands;

pub use commands::{CommandRule, CommandRules, LiteralRule};
