//! Policy engine, jail and launcher of agentd.
//!
//! The pure half (`profile`, `policy`, `explain`, `plan`, `seccomp`) turns a profile and a request
//! into an inert plan; the other half (`probe`, `launch`, `monitor`, `launcher`) carries a plan out.
//! This crate knows nothing of gRPC, of async runtimes, or of models. Only `sys` contains `unsafe`.

pub mod explain;
pub mod monitor;
pub mod policy;
pub mod profile;
mod sys;
