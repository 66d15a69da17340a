//! What bash runs before a script that reports its state: it installs the report and leaves no other trace.

use std::path::{Path, PathBuf};

use crate::policy::{Policy, Program};

/// Sourced by bash through `BASH_ENV`, and only by the one that runs the script: the variable is unset at
/// once, and a subshell or a child has no EXIT trap. The format of the report is described at
/// [`crate::policy::InSession::report_state`].
///
/// Nothing of it may show: not in `$?`, `$_`, `$0`, `$LINENO` or `$BASH_SOURCE` (hence the function, whose
/// argument becomes `$_` again), not through `set -x` with or without `BASH_XTRACEFD` (hence that
/// redirection), nor through DEBUG and ERR traps or functions and aliases of the builtins' names. A trap's
/// text is read like any other, so that one line shows under `set -v`; it is the line that ends `set -v`.
/// No reader, and no descriptor, is no error: the script's own status stays.
pub(super) const TEXT: &[u8] = br#"__agentd_prelude() {
\builtin unset -v BASH_ENV
\builtin unset -f __agentd_prelude
\builtin trap '{ \builtin set +evxu; } >/dev/null 2>&1 {BASH_XTRACEFD}>/dev/null
{ \builtin trap - DEBUG ERR
if [[ ${BASHPID-} = "$$" ]]; then
\builtin trap "" PIPE
{ \builtin pwd -P; \builtin printf "\0"; \builtin declare -px; \builtin printf "\0"; } >&254
fi; } >/dev/null 2>&1' EXIT
}
__agentd_prelude "$_"
"#;

/// Whether a program can report its state: only a script, and not in POSIX mode, in which bash reads no
/// `BASH_ENV` and would leave it to its children.
pub(super) fn can_report(policy: &Policy, program: &Program) -> bool {
    *program == Program::Script && !policy.env.contains_key("POSIXLY_CORRECT")
}

/// Where the prelude of a script lies where both are files of the host.
pub(crate) fn beside(script: &Path) -> PathBuf {
    script.with_extension("prelude")
}

#[cfg(test)]
mod tests;
