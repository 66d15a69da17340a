//! Harness for the tests of this workspace: real binaries, three kinds of host, a strict mock of the
//! model API. It is no part of the product and must not be depended on by it.

#![forbid(unsafe_code)]

pub mod harness;
pub mod mock;
