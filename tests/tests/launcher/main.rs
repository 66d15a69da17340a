//! The launcher driven over its own channel, as the front end does it, on every kind of host.

mod abandoned;
mod directories;
mod drive;
mod janitor;
mod leavings;
mod reader;
mod requests;
mod signals;
mod state;
mod stdin;
mod stillborn;
mod terminal;
