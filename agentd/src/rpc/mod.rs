//! The gRPC face: the only place that knows the wire format. Each service translates, calls the rest
//! of the daemon, and translates back; none of them decides what is allowed.

mod admin;
mod attached;
mod convert;
mod encode;
mod exec;
mod features;
mod file;
mod info;
mod page;
mod peer;
mod policy;
mod seat;
mod server;
mod session;
mod status;
mod stream;
mod tool;
mod tool_text;

#[cfg(test)]
mod tests;

pub use info::Identity;
pub use peer::{Allowed, Connection, PeerInfo};
pub use server::{Daemon, ServerError, router};
