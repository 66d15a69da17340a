//! End to end: the real client, daemon, launcher and kernel, on each kind of host.

mod blacklist;
mod crash;
mod demo;
mod errors;
mod exec;
mod kept;
mod output;
mod peers;
mod reopened;
mod terminal;
mod tools;
mod tree;
