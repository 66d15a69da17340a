//! The privileged half of agentd. Started by agentd, never by hand.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    agentd_sandbox::launcher::main()
}
