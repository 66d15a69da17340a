//! The launcher driven over its own channel, as the front end does it, on every kind of host.

mod directories;
mod drive;
mod leavings;
mod reader;
mod requests;
mod signals;
mod state;
mod stdin;
mod stillborn;
mod terminal;
