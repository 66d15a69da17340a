//! From the command line of `exec` to a request: reads the script, decides the directories.

use std::{ffi::OsString, fs, io, io::Read, path::PathBuf, time::Duration};

use thiserror::Error;

use crate::{
    args::{ExecArgs, GlobalArgs},
    config::{self, Environment, WorkspaceError},
    daemon::{ExecCommand, ExecInput, ExecPlace, ExecRequest, SandboxChoice, SessionScope},
    ids, local,
};

/// Longest script the daemon takes, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1 << 20;

/// As much of the output as the daemon keeps of any command, in bytes.
const MAX_KEPT_BYTES: u64 = 256 << 20;

/// Why there is nothing to run.
#[derive(Debug, Error)]
pub enum RequestError {
    /// No workspace.
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    /// The script cannot be read.
    #[error("the script cannot be read from {}; check the path", from.display())]
    ReadScript {
        /// File, or `standard input`.
        from: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Too long.
    #[error("the script is longer than 1 MiB; put it into a file of the workspace and run that")]
    LongScript,
    /// Empty.
    #[error("the script is empty; give one after `--`, with --file, or on standard input with `-`")]
    EmptyScript,
    /// Not text, where arguments cannot be bytes.
    #[error("an argument is not valid Unicode; put the command into a script file")]
    Argument,
}

/// How long a session of `exec --session` lives after its last use.
const SESSION_LEASE: Duration = Duration::from_secs(3600);

/// A request, and the session that it needs.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The request.
    pub request: ExecRequest,
    /// The session in which it runs.
    pub session: Option<NamedSession>,
    /// It is started and left.
    pub background: bool,
}

/// A session that the command line names.
#[derive(Debug, Clone)]
pub struct NamedSession {
    /// What it is made of, if it does not exist.
    pub scope: SessionScope,
    /// The workspace, if the command line names one.
    pub workspace: Option<PathBuf>,
}

/// Builds the request.
///
/// # Errors
/// See [`RequestError`].
pub fn prepare(
    args: ExecArgs,
    global: &GlobalArgs,
    environment: &Environment,
) -> Result<Prepared, RequestError> {
    let here = &environment.current_dir;
    let workspace = config::workspace(global.workspace.as_deref(), here)?;
    let cwd = config::start_directory(args.cwd.as_deref(), here, &workspace);
    let sandbox = SandboxChoice {
        profile: global.profile.clone(),
        workspace: workspace.clone(),
    };
    let session = args.session.as_ref().map(|id| NamedSession {
        scope: SessionScope {
            session_id: id.0.clone(),
            sandbox: sandbox.clone(),
            cwd: config::start_directory(None, here, &workspace),
            lease: Some(SESSION_LEASE),
        },
        workspace: global.workspace.as_ref().map(|_| workspace),
    });
    let request = ExecRequest {
        exec_id: ids::unique("exec"),
        input: input(&args),
        // A session knows where it is.
        cwd: match (&session, &args.cwd) {
            (Some(_), None) => PathBuf::new(),
            (Some(_), Some(_)) | (None, _) => cwd,
        },
        place: match args.session {
            Some(id) => ExecPlace::Session(id.0),
            None => ExecPlace::Sandbox(sandbox),
        },
        command: match (args.file, args.stdin) {
            (Some(path), _) => {
                let opened = fs::File::open(&path);
                ExecCommand::Script(read_script(opened, path)?)
            }
            (None, Some(_)) => ExecCommand::Script(read_script(Ok(io::stdin()), "standard input")?),
            (None, None) => from_words(args.command)?,
        },
        env: args
            .env
            .into_iter()
            .map(|pair| (pair.name, pair.value))
            .collect(),
        timeout: args.timeout.map(|timeout| timeout.0),
        queue: args.queue_timeout.map(|timeout| timeout.0),
        output_file_bytes: if args.keep_output { MAX_KEPT_BYTES } else { 0 },
    };
    Ok(Prepared {
        request,
        session,
        background: args.background,
    })
}

fn input(args: &ExecArgs) -> ExecInput {
    if args.pty {
        ExecInput::Terminal(local::size())
    } else if args.forward_stdin {
        ExecInput::Pipe
    } else {
        ExecInput::Nothing
    }
}

/// One word is a script, several are a program and its arguments.
fn from_words(words: Vec<OsString>) -> Result<ExecCommand, RequestError> {
    let mut argv = words
        .into_iter()
        .map(bytes)
        .collect::<Result<Vec<_>, _>>()?;
    match argv.pop() {
        Some(script) if argv.is_empty() => check_script(script).map(ExecCommand::Script),
        Some(last) => {
            argv.push(last);
            Ok(ExecCommand::Argv(argv))
        }
        None => Err(RequestError::EmptyScript),
    }
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "arguments are bytes only here")]
fn bytes(word: OsString) -> Result<Vec<u8>, RequestError> {
    use std::os::unix::ffi::OsStringExt;
    Ok(word.into_vec())
}

#[cfg(not(unix))]
fn bytes(word: OsString) -> Result<Vec<u8>, RequestError> {
    word.into_string()
        .map(String::into_bytes)
        .map_err(|_word| RequestError::Argument)
}

fn read_script(
    from: io::Result<impl Read>,
    name: impl Into<PathBuf>,
) -> Result<Vec<u8>, RequestError> {
    let mut script = Vec::new();
    // One byte more than allowed, to tell "as long as allowed" from "longer".
    let limit = MAX_SCRIPT_BYTES.saturating_add(1);
    from.and_then(|source| source.take(limit).read_to_end(&mut script))
        .map_err(|source| RequestError::ReadScript {
            from: name.into(),
            source,
        })?;
    check_script(script)
}

fn check_script(script: Vec<u8>) -> Result<Vec<u8>, RequestError> {
    if u64::try_from(script.len()).is_ok_and(|length| length > MAX_SCRIPT_BYTES) {
        Err(RequestError::LongScript)
    } else if script.iter().all(u8::is_ascii_whitespace) {
        Err(RequestError::EmptyScript)
    } else {
        Ok(script)
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_SCRIPT_BYTES, RequestError, from_words, read_script};
    use crate::daemon::ExecCommand;
    use std::{ffi::OsString, io};

    fn words(words: &[&str]) -> Result<ExecCommand, RequestError> {
        from_words(words.iter().map(OsString::from).collect())
    }

    #[test]
    fn one_word_is_a_script_and_several_are_a_program() {
        assert!(matches!(words(&["ls | wc"]), Ok(ExecCommand::Script(s)) if s == b"ls | wc"));
        assert!(matches!(
            words(&["ls", "-l", ""]),
            Ok(ExecCommand::Argv(argv)) if argv == [&b"ls"[..], b"-l", b""]
        ));
        assert!(matches!(words(&[" \n"]), Err(RequestError::EmptyScript)));
        assert!(matches!(words(&[]), Err(RequestError::EmptyScript)));
    }

    #[test]
    fn a_script_is_taken_byte_for_byte_up_to_its_limit() {
        let limit = usize::try_from(MAX_SCRIPT_BYTES).unwrap();
        for (length, fits) in [(1, true), (limit, true), (limit + 1, false)] {
            let script = vec![b'x'; length];
            match read_script(Ok(script.as_slice()), "a") {
                Ok(read) => assert!(fits && read == script),
                Err(error) => assert!(!fits && matches!(error, RequestError::LongScript)),
            }
        }
        let missing: io::Result<&[u8]> = Err(io::ErrorKind::NotFound.into());
        assert!(matches!(
            read_script(missing, "a"),
            Err(RequestError::ReadScript { .. })
        ));
    }
}
