//! Carrying out a plan: look, prepare, spawn, and everything the new processes do.
//!
//! `survey` and `prepare` may open and allocate; `spawn` forks; `child`, `leader` and `reaper` run after
//! the fork and make system calls only, and so do the forked halves of `anchor` and `inside`, which make
//! and enter the namespaces of a session.

mod anchor;
mod child;
mod entries;
mod failure;
mod idmap;
mod inside;
mod leader;
mod message;
mod oom;
mod prelude;
mod prepare;
mod reaper;
mod root;
mod ruleset;
mod spawn;
mod survey;
mod sweep;

pub(crate) use anchor::{Namespaces, Room};
pub(crate) use failure::{ENCODED as RECORD, Failure, Notice, Record, Stage};
pub(crate) use idmap::IdMaps;
pub(crate) use inside::Unstarted;
pub(crate) use leader::{STATE_FD, reserve_state_fd};
pub(crate) use message::{Command, LimitEnds, Report};
pub(crate) use prelude::beside as prelude_beside;
pub(crate) use prepare::{PrepareError, Resources, Stdio, prepare};
pub(crate) use spawn::{Child, spawn};
pub(crate) use survey::{Unseen, open_name, survey};
