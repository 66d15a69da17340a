//! agent-cli: the program. Everything is in the library.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    agent_cli::app::main(std::env::args_os())
}
