//! The program `agentd`. Everything is in the library.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    agentd::main()
}
