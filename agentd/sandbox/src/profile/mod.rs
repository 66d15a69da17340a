//! Profiles: TOML text in, a checked and resolved value out. Pure except for `catalogue` and `trust`,
//! which read directories.
//!
//! `text → raw (as typed) → fragment (one file, checked) → Profile (parents merged, digest)`.

mod amount;
mod catalogue;
mod check;
mod check_commands;
mod check_env;
mod commands;
mod describe;
mod digest;
mod error;
mod fragment;
mod inherit;
mod locate;
mod model;
mod raw;
mod shipped;
mod template;
mod trust;

#[cfg(test)]
mod tests;

pub use catalogue::Catalogue;
pub use commands::{CommandRule, CommandRules, LiteralRule};
pub use describe::{describe, describe_json};
pub use error::ProfileError;
pub use model::{FsRules, IdentityRules, LimitRules, PathRule, Profile, Require, UserRule};
pub use template::PathTemplate;
pub(crate) use template::{Variables, fill_value};
