//! The system call filter: a table of rules with reasons, compiled to BPF, and an interpreter that says
//! what the compiled program decides. Pure.

mod compile;
mod interpret;
mod names;
mod rule;
mod table;
#[cfg(test)]
mod tests;

pub use compile::{Instruction, compile, compile_rules};
pub use interpret::{Call, interpret};
pub use names::is_system_call;
pub use rule::{Action, ArgCheck, Context, Reason, Rule};
pub use table::{front_end_rules, rules};

/// What the filter of `context` says about a system call by name: `None` when no rule names it, so that
/// it is allowed whatever its arguments.
#[must_use]
pub fn rule_for(context: Context, name: &str) -> Option<Rule> {
    rules(context).into_iter().find(|rule| rule.name == name)
}
