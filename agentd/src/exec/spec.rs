//! A validated request to run something. `rpc::convert` makes it from the wire; nothing else does.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use agentd_sandbox::{
    monitor::ExecKey,
    policy::{Carried, Invocation, Program, Stdin},
};
use sha2::{Digest, Sha256};
use tonic::codegen::Bytes;

use super::{Attachment, OutputRoom};

/// How long a request waits for its turn unless it says otherwise.
pub const DEFAULT_QUEUE_TIMEOUT: Duration = Duration::from_secs(30);

/// Longest time that it can ask for.
pub const MAX_QUEUE_TIMEOUT: Duration = Duration::from_secs(600);

/// Bytes of output that are kept in a file unless the request says otherwise.
pub const DEFAULT_OUTPUT_FILE: u64 = 64 * 1024 * 1024;

/// Most that it can ask for.
pub const MAX_OUTPUT_FILE: u64 = 256 * 1024 * 1024;

/// Longest time a command may live on without a reader.
pub const MAX_GRACE: Duration = Duration::from_secs(600);

/// Default of the same: longer than a client needs to come back after a dropped connection.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(60);

/// Free labels.
pub type Labels = BTreeMap<String, String>;

/// Id of an execution, 1 to 64 characters of `[A-Za-z0-9_-]`; unique per caller.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExecId(String);

impl ExecId {
    /// `None` when the text is not an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        ((1..=64).contains(&text.len()) && text.chars().all(legal)).then(|| Self(text.to_owned()))
    }

    /// An id chosen by the daemon: part of its boot id, so that ids of an earlier daemon never come
    /// again, and a number.
    #[must_use]
    pub fn generated(boot_id: &str, key: ExecKey) -> Self {
        let boot: String = boot_id
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .take(8)
            .collect();
        Self(format!("x{boot}-{}", key.0))
    }

    /// True for an id that a daemon chose in another boot than this: what it named is gone.
    #[must_use]
    pub fn is_of_another_boot(&self, boot_id: &str) -> bool {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        let own = Self::generated(boot_id, ExecKey(0));
        let parts = |id: &str| {
            let (boot, number) = id.strip_prefix('x')?.rsplit_once('-')?;
            is_number(number).then(|| boot.to_owned())
        };
        match (parts(&self.0), parts(&own.0)) {
            (Some(theirs), Some(ours)) => {
                theirs != ours && theirs.len() == ours.len() && !theirs.contains(['-', '_'])
            }
            (_, _) => false,
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExecId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What becomes of a command without readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disconnect {
    /// It is ended after this time.
    Grace(Duration),
    /// It runs to its timeout.
    Keep,
}

impl Default for Disconnect {
    fn default() -> Self {
        Self::Grace(DEFAULT_GRACE)
    }
}

/// What a command left behind in its session.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionEnd {
    /// Working directory of the next command; empty when unknown.
    pub cwd: String,
    /// Remarks for a person.
    pub notes: Vec<String>,
}

/// How a session hears of the end of its commands.
pub trait SessionHook: fmt::Debug + Send + Sync {
    /// A command ended and reported this (nothing, when it could not). Called exactly once for a command
    /// that was started, before its terminal event can be seen, so that whoever sees the event starts the
    /// next command where this one stopped.
    fn ended(&self, exec: &ExecId, report: &[u8]) -> SessionEnd;

    /// Id of the session.
    fn session_id(&self) -> &str;

    /// Room for kept output that the commands of the session share.
    fn output_room(&self) -> OutputRoom {
        OutputRoom::default()
    }
}

/// The session of a command. Equal when the session is the same.
#[derive(Debug, Clone)]
pub struct Hook(pub Arc<dyn SessionHook>);

impl PartialEq for Hook {
    fn eq(&self, other: &Self) -> bool {
        self.0.session_id() == other.0.session_id()
    }
}

impl Eq for Hook {}

/// A validated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSpec {
    /// Id chosen by the client.
    pub id: Option<ExecId>,
    /// What to run, where, as whom, within which limits.
    pub invocation: Invocation,
    /// The script; present exactly when the program is one.
    pub script: Option<Bytes>,
    /// The session it belongs to. Where the session stands (`in_session.carried`) is no part of the
    /// request's digest.
    pub hook: Option<Hook>,
    /// What becomes of it without readers.
    pub disconnect: Disconnect,
    /// How long it may wait for its turn. No part of the request's digest.
    pub queue_timeout: Duration,
    /// Most bytes of output kept in the file that `in_session.output_file` names.
    pub output_file_bytes: u64,
    /// Labels.
    pub labels: Labels,
}

impl ExecSpec {
    /// Does it run on a terminal?
    #[must_use]
    pub fn has_terminal(&self) -> bool {
        self.invocation.terminal.is_some()
    }

    /// Is its input a pipe?
    #[must_use]
    pub fn has_stdin_pipe(&self) -> bool {
        self.invocation.stdin == Stdin::Pipe && !self.has_terminal()
    }

    /// Does it report its session's state?
    #[must_use]
    pub fn reports_state(&self) -> bool {
        let session = self.invocation.in_session.as_deref();
        session.is_some_and(|session| session.report_state)
    }

    /// What it is given beside output.
    #[must_use]
    pub fn attachment(&self) -> Attachment {
        if self.has_terminal() {
            Attachment::Terminal
        } else if self.has_stdin_pipe() {
            Attachment::StdinPipe
        } else {
            Attachment::None
        }
    }

    /// Two requests with equal digests are the same request: a retry, not a new command.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        let mut hash = Sha256::new();
        // An invocation holds only maps that are ordered, so equal ones have equal JSON. It always
        // encodes: it holds no map with keys that are not strings.
        let mut invocation = self.invocation.clone();
        if let Some(session) = &mut invocation.in_session {
            // A retry arrives when its session may have moved on.
            session.carried = Carried::default();
        }
        let invocation = serde_json::to_vec(&invocation).unwrap_or_default();
        let rest = format!(
            "{:?}{:?}{}",
            self.disconnect, self.labels, self.output_file_bytes
        );
        let script = self.script.as_deref().unwrap_or_default();
        for part in [invocation.as_slice(), rest.as_bytes(), script] {
            // The length keeps parts apart: moving a byte from one to the next changes the digest.
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    }

    /// The text that the blacklist looks at: the script, or the arguments as a shell would be given
    /// them.
    #[must_use]
    pub fn blacklist_text(&self) -> Vec<u8> {
        match &self.invocation.program {
            Program::Script => self.script.as_deref().unwrap_or_default().to_vec(),
            Program::Argv(words) => {
                let quoted: Vec<_> = words.iter().map(|word| quote(word)).collect();
                quoted.join(&b' ')
            }
        }
    }
}

/// A word in single quotes.
fn quote(word: &[u8]) -> Vec<u8> {
    let mut quoted = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => quoted.extend_from_slice(b"'\\''"),
            other => quoted.push(*other),
        }
    }
    quoted.push(b'\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launcher_link::fake::script_spec;

    #[test]
    fn ids_are_short_and_plain() {
        for good in ["a", "A-z_0", &"x".repeat(64)] {
            assert!(ExecId::parse(good).is_some(), "{good}");
        }
        for bad in ["", "a b", "../x", "é", "a\0", &"x".repeat(65)] {
            assert!(ExecId::parse(bad).is_none(), "{bad}");
        }
        let own = ExecId::generated("1b4e28ba-2fa1-11d2", ExecKey(u64::MAX));
        assert!(ExecId::parse(own.as_str()).is_some());
    }

    #[test]
    fn any_difference_in_a_request_is_another_digest() {
        let spec = script_spec("a", "true");
        assert_eq!(spec.digest(), spec.clone().digest());
        let mut others = vec![script_spec("a", "false"), spec.clone(), spec.clone()];
        others[1].labels.insert("k".to_owned(), "v".to_owned());
        others[2].invocation.limits.timeout_ms = Some(1);
        for other in others {
            assert_ne!(spec.digest(), other.digest());
        }
    }

    #[test]
    fn where_the_session_stands_and_how_long_to_queue_are_no_part_of_a_request() {
        use agentd_sandbox::policy::{InSession, SessionKey};
        let mut spec = script_spec("a", "true");
        spec.invocation.in_session = Some(Box::new(InSession {
            session: SessionKey(1),
            carried: Carried::default(),
            report_state: true,
            output_file: Some("a".to_owned()),
        }));
        let mut later = spec.clone();
        later.queue_timeout = Duration::ZERO;
        later.invocation.in_session.as_mut().unwrap().carried.cwd = Some("/w/sub".into());
        assert_eq!(spec.digest(), later.digest());
        later.invocation.in_session.as_mut().unwrap().session = SessionKey(2);
        assert_ne!(spec.digest(), later.digest());
    }

    #[test]
    fn only_an_id_that_another_boot_chose_is_of_another_boot() {
        let boot = "1b4e28ba-2fa1-11d2";
        for (id, expected) in [
            ("x00000000-7", true),
            ("xdeadbeef-123", true),
            ("x1b4e28ba-7", false),
            ("x0000000-7", false),
            ("x00000000-", false),
            ("x00000000-7a", false),
            ("toolu_01", false),
            ("x-1", false),
        ] {
            let id = ExecId::parse(id).unwrap();
            assert_eq!(id.is_of_another_boot(boot), expected, "{id}");
        }
    }

    #[test]
    fn arguments_are_checked_as_quoted_words() {
        let mut spec = script_spec("a", "");
        spec.invocation.program = Program::Argv(vec![b"sudo".to_vec(), b"it's $x".to_vec()]);
        assert_eq!(spec.blacklist_text(), br"'sudo' 'it'\''s $x'");
    }
}
