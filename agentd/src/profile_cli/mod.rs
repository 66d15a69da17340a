//! `agentd profile …`: questions about profiles, answered here and now by the same pure engine that the
//! launcher uses. Nothing is started and nothing is changed.

mod args;
mod host;
mod report;
#[cfg(test)]
mod tests;

pub use args::{AccessArg, ExplainArgs, ListArgs, ProfileCommand, ShowArgs};

use crate::{
    exit::Exit,
    run::{complain, print},
};

/// Runs a subcommand: one answer on stdout, or one line on stderr.
#[must_use]
pub fn run(command: &ProfileCommand) -> Exit {
    let answer = match command {
        ProfileCommand::List(args) => {
            host::open(&args.profile_dir).map(|host| report::list(&host, args))
        }
        ProfileCommand::Show(args) => {
            host::open(&args.profile_dir).and_then(|host| report::show(&host, args))
        }
        ProfileCommand::Explain(args) => {
            host::open(&args.profile_dir).and_then(|host| report::explain(&host, args))
        }
    };
    match answer {
        Ok(answer) => print(answer.text.as_bytes(), answer.exit),
        Err(error) => {
            let exit = error.exit();
            complain(&error, exit)
        }
    }
}

/// What is printed, and the code that goes with it.
#[derive(Debug)]
struct Answer {
    text: String,
    exit: Exit,
}
