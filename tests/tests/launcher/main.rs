//! The launcher driven over its own channel, as the front end does it, on every kind of host.

mod client;
mod directories;
mod drive;
mod requests;
mod residue;
mod sessions;
mod signals;
mod state;
mod stdin;
mod terminal;
