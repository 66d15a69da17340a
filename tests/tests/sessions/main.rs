//! The launcher, driven over its own channel: sessions, and what is left when it is killed.

mod client;
mod residue;
mod shared;
