//! The `agentd.v1` API: generated messages, clients and servers.
//!
//! Nothing in this crate is Linux-only: clients on any system use it.

#![forbid(unsafe_code)]

/// Messages, clients and servers of the package `agentd.v1`.
#[expect(
    clippy::too_many_arguments,
    reason = "the generators' own limits, not ours"
)]
pub mod v1 {
    tonic::include_proto!("agentd.v1");
}

/// The encoded `FileDescriptorSet` of the package, for reflection and for the snapshot test.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/agentd.v1.bin"));

/// Domain of every `google.rpc.ErrorInfo` that agentd attaches to an error.
pub const ERROR_DOMAIN: &str = "agentd";
