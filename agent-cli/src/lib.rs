//! agent-cli: the thin client of agentd. It runs the model loop, holds the API key, asks the person for
//! permission and shows what happens; it executes nothing itself.

#![forbid(unsafe_code)]

pub mod agent;
pub mod app;
pub mod args;
pub mod complaint;
pub mod config;
pub mod connect;
pub mod daemon;
pub mod demo;
pub mod exec;
pub mod history;
pub mod ids;
pub mod jobs;
pub mod local;
pub mod model;
pub mod permission;
pub mod provider;
pub mod repl;
pub mod run;
pub mod session;
pub mod signals;
pub mod status;
pub mod stdout;
pub mod step;
pub mod terminal;
