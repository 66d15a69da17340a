//! The client against the strict mock of the Messages API, with the real daemon and jail behind it.

mod credentials;
mod endings;
mod permissions;
mod raw;
mod session;
mod stage;
mod transport;
