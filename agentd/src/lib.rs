//! The unprivileged front end of agentd: listens, authenticates, checks, streams. It starts one process,
//! the launcher, before anything else, and none afterwards; it runs nothing itself.

#![forbid(unsafe_code)]

mod aside;
pub mod cli;
pub mod commands;
pub mod config;
pub mod denials;
pub mod exec;
pub mod exit;
mod inspect;
pub mod launcher_link;
mod logging;
pub mod profile_cli;
pub mod rpc;
mod run;
mod serve;
pub mod session;
pub mod startup;
pub mod text;

use std::process::ExitCode;

/// The whole program.
#[must_use]
pub fn main() -> ExitCode {
    run::run().into()
}
