//! Policy engine, jail and launcher of agentd.
//!
//! The pure half (`profile`, `policy`, `explain`, `plan`, `seccomp`) turns a profile and a request
//! into an inert plan; the other half (`probe`, `launch`, `launcher`, `monitor`) carries a plan out.
//! This crate knows nothing of gRPC, of async runtimes, or of models. Only `sys` contains `unsafe`.

mod cgroup;
mod claim;
pub mod confine;
pub mod explain;
mod launch;
pub mod launcher;
pub mod monitor;
pub mod plan;
pub mod policy;
pub mod probe;
pub mod profile;
pub mod seccomp;
mod sys;
pub mod terminal;
