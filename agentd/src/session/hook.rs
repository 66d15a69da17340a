//! What a session learns when one of its commands ends.

use std::sync::Arc;

use super::{Session, report, state::Beginning};
use crate::exec::{ExecId, OutputRoom, SessionEnd, SessionHook};

/// The remark on a command that hid its end from the session.
pub const NOT_KEPT: &str =
    "directory and exports of this command were not kept: it replaced the shell or its EXIT trap";

/// The remark on a report that is too large or broken.
const NOT_WHOLE: &str = "directory and exports of this command were not kept: it exported too much to be reported; export less";

/// Hears of the end of one command.
#[derive(Debug)]
pub(super) struct StateHook {
    session: Arc<Session>,
    /// What it began with; `None` for one that reports nothing, such as one in the background.
    beginning: Option<Beginning>,
    /// Its script can keep the shell from reporting.
    can_hide: bool,
}

impl StateHook {
    pub(super) fn new(
        session: Arc<Session>,
        beginning: Option<Beginning>,
        script: Option<&[u8]>,
    ) -> Self {
        Self {
            session,
            beginning,
            can_hide: script.is_some_and(can_hide),
        }
    }

    fn notes(&self, exec: &ExecId, report: &[u8]) -> Vec<String> {
        let Some(beginning) = &self.beginning else {
            return Vec::new();
        };
        match report::parse(report) {
            Some(report) => self.session.learn(exec, &report, beginning),
            // Killed before it could say anything, or in the middle of it: nothing has changed.
            None if report.is_empty() && self.can_hide => vec![NOT_KEPT.to_owned()],
            None if report.len() > LARGE => vec![NOT_WHOLE.to_owned()],
            None => Vec::new(),
        }
    }
}

/// Bytes of a broken report from which on its size is what broke it.
const LARGE: usize = 64 * 1024;

/// Whether a script holds a word by which a shell loses its EXIT trap. It may be in a comment: the remark
/// then says too much about a command that was killed, never too little.
fn can_hide(script: &[u8]) -> bool {
    script
        .split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_')
        .any(|word| word == b"exec" || word == b"trap")
}

impl SessionHook for StateHook {
    fn ended(&self, exec: &ExecId, report: &[u8]) -> SessionEnd {
        // The lease counts from the end of what somebody waited for.
        self.session.touch();
        let notes = self.notes(exec, report);
        SessionEnd {
            cwd: self.session.cwd().to_string_lossy().into_owned(),
            notes,
        }
    }

    fn session_id(&self) -> &str {
        self.session.id().as_str()
    }

    fn output_room(&self) -> OutputRoom {
        self.session.output_room()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_can_replace_the_shell_or_its_trap_can_hide() {
        for hides in ["exec true", "trap - EXIT", "cd x; exec bash", "(trap '' 0)"] {
            assert!(can_hide(hides.as_bytes()), "{hides}");
        }
        for plain in ["cd x", "execute", "pexec", "my_trap", "echo $exec_dir"] {
            assert!(!can_hide(plain.as_bytes()), "{plain}");
        }
    }
}
