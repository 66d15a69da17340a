//! Wire to domain: everything untrusted is checked here, once. What passes is well-formed, not yet
//! allowed; the policy decides that.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_proto::v1 as pb;
use agentd_sandbox::policy::{
    Caller, Invocation, Lifetime, LimitRequest, Program, Stdin, TerminalSize,
};
use tonic::codegen::Bytes;

use super::{features, status::Problem};
use crate::exec::{
    DEFAULT_GRACE, DEFAULT_QUEUE_TIMEOUT, Disconnect, ExecId, ExecSpec, Labels, MAX_GRACE,
    MAX_OUTPUT_FILE, MAX_QUEUE_TIMEOUT,
};

/// Longest script in bytes.
pub(super) const MAX_SCRIPT: usize = 1024 * 1024;

const MAX_ARGS: usize = 4096;
const MAX_ARG_BYTES: usize = 128 * 1024;
const MAX_ENV_BYTES: usize = 64 * 1024;
const MAX_PATH_BYTES: usize = 4096;
const MAX_NAME_BYTES: usize = 255;
const MAX_LABELS: usize = 16;
const MAX_LABEL_BYTES: usize = 64;

/// Most columns or rows of a terminal.
const MAX_TERMINAL: u32 = 4096;

/// What a request is completed with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker<'a> {
    /// Who asks.
    pub(super) caller: Caller,
    /// Profile of requests that name none.
    pub(super) default_profile: &'a str,
    /// Features that are honoured here.
    pub(super) features: &'static [&'static str],
}

/// Checks a whole execution request.
pub(super) fn exec_spec(spec: pb::ExecSpec, asker: Asker<'_>) -> Result<ExecSpec, Problem> {
    features::require(&spec.required_features, asker.features)?;
    refuse_without_session(&spec)?;
    let id = exec_id(&spec.exec_id)?;
    let command = spec
        .command
        .ok_or_else(|| Problem::invalid("'command' is required"))?;
    let (program, script) = program(command.command)?;
    let (profile, workspace) = sandbox(spec.sandbox, asker)?;
    let cwd = working_directory(&command.cwd, &workspace)?;
    let (env_set, env_unset) = environment(command.env.unwrap_or_default())?;
    let io = spec.io.unwrap_or_default();
    Ok(ExecSpec {
        id,
        invocation: Invocation {
            profile,
            workspace,
            cwd,
            program,
            env_set,
            env_unset,
            limits: limits(spec.limits.unwrap_or_default())?,
            caller: asker.caller,
            stdin: if io.stdin { Stdin::Pipe } else { Stdin::Null },
            terminal: io.pty.map(terminal_size).transpose()?,
            lifetime: Lifetime::Call,
            in_session: None,
        },
        script,
        hook: None,
        disconnect: disconnect(spec.on_disconnect)?,
        queue_timeout: queue_timeout(spec.queue_timeout)?,
        output_file_bytes: io.output_file_bytes.min(MAX_OUTPUT_FILE),
        labels: labels(spec.labels)?,
    })
}

/// What only makes sense in a session.
fn refuse_without_session(spec: &pb::ExecSpec) -> Result<(), Problem> {
    let io = spec.io.unwrap_or_default();
    if io.output_file_bytes > 0 && spec.session_id.is_empty() {
        return Err(Problem::invalid(
            "'io.output_file_bytes' needs a session, whose commands read the file; create one, or \
             leave it out",
        ));
    }
    Ok(())
}

/// A size that a terminal can have.
pub(super) fn terminal_size(size: pb::PtySize) -> Result<TerminalSize, Problem> {
    let number = |what: &str, value: u32| {
        u16::try_from(value)
            .ok()
            .filter(|_| (1..=MAX_TERMINAL).contains(&value))
            .ok_or_else(|| {
                Problem::invalid(format!(
                    "a terminal has 1 to {MAX_TERMINAL} {what}, not {value}"
                ))
            })
    };
    Ok(TerminalSize {
        columns: number("columns", size.columns)?,
        rows: number("rows", size.rows)?,
    })
}

fn queue_timeout(value: Option<prost_types::Duration>) -> Result<Duration, Problem> {
    match value {
        Some(value) => Ok(duration("queue_timeout", value)?.min(MAX_QUEUE_TIMEOUT)),
        None => Ok(DEFAULT_QUEUE_TIMEOUT),
    }
}

/// An id; absent when empty.
pub(super) fn exec_id(text: &str) -> Result<Option<ExecId>, Problem> {
    if text.is_empty() {
        return Ok(None);
    }
    let id = ExecId::parse(text).ok_or_else(|| {
        Problem::invalid("an execution id has 1 to 64 characters of [A-Za-z0-9_-]")
    })?;
    Ok(Some(id))
}

fn program(
    command: Option<pb::command_spec::Command>,
) -> Result<(Program, Option<Bytes>), Problem> {
    match command {
        Some(pb::command_spec::Command::Shell(shell)) => {
            Ok((Program::Script, Some(script(shell.script)?)))
        }
        Some(pb::command_spec::Command::Argv(argv)) => Ok((Program::Argv(arguments(argv)?), None)),
        None => Err(Problem::invalid("'command' needs 'shell' or 'argv'")),
    }
}

/// A script that can be run.
pub(super) fn script(script: Bytes) -> Result<Bytes, Problem> {
    if script.is_empty() {
        return Err(Problem::invalid("the script is empty"));
    }
    if script.len() > MAX_SCRIPT {
        return Err(Problem::invalid(format!(
            "the script has {} bytes, the most is {MAX_SCRIPT}; write it to a file and run that",
            script.len()
        )));
    }
    Ok(script)
}

fn arguments(argv: pb::Argv) -> Result<Vec<Vec<u8>>, Problem> {
    let words = argv.argv;
    if words.first().is_none_or(Bytes::is_empty) {
        return Err(Problem::invalid(
            "'argv' needs a program as its first element",
        ));
    }
    if words.len() > MAX_ARGS {
        return Err(Problem::invalid(format!(
            "'argv' has {} elements, the most is {MAX_ARGS}",
            words.len()
        )));
    }
    if words.iter().any(|word| word.len() > MAX_ARG_BYTES) {
        return Err(Problem::invalid(format!(
            "an element of 'argv' is longer than {MAX_ARG_BYTES} bytes; use a script"
        )));
    }
    if words.iter().any(|word| word.contains(&0)) {
        return Err(Problem::invalid("an element of 'argv' holds a NUL"));
    }
    Ok(words.into_iter().map(Into::into).collect())
}

/// Profile and workspace.
pub(super) fn sandbox(
    sandbox: Option<pb::SandboxSpec>,
    asker: Asker<'_>,
) -> Result<(String, PathBuf), Problem> {
    let sandbox = sandbox.unwrap_or_default();
    let profile = profile_name(sandbox.profile, asker);
    short("profile", &profile)?;
    let workspace = absolute("workspace", &sandbox.workspace)?;
    Ok((profile, workspace))
}

/// A name: none is longer than this.
pub(super) fn short(field: &str, text: &str) -> Result<(), Problem> {
    if text.len() > MAX_NAME_BYTES {
        return Err(Problem::invalid(format!(
            "'{field}' has {} bytes, the most is {MAX_NAME_BYTES}",
            text.len()
        )));
    }
    Ok(())
}

/// The profile named, or the default.
pub(super) fn profile_name(name: String, asker: Asker<'_>) -> String {
    if name.is_empty() {
        asker.default_profile.to_owned()
    } else {
        name
    }
}

/// A path that is absolute and could exist.
pub(super) fn absolute(field: &str, text: &str) -> Result<PathBuf, Problem> {
    if text.is_empty() {
        return Err(Problem::invalid(format!("'{field}' is required")));
    }
    if text.contains('\0') || text.len() > MAX_PATH_BYTES {
        return Err(Problem::invalid(format!(
            "'{field}' holds a NUL or is longer than {MAX_PATH_BYTES} bytes"
        )));
    }
    if !text.starts_with('/') {
        return Err(Problem::invalid(format!(
            "'{field}' must be an absolute path, not '{}'",
            crate::text::neutralise(text)
        )));
    }
    Ok(text.into())
}

/// A directory, where a relative one is taken from the workspace; `None` when empty.
pub(super) fn working_directory(text: &str, workspace: &Path) -> Result<Option<PathBuf>, Problem> {
    match text {
        "" => Ok(None),
        absolute_path if absolute_path.starts_with('/') => absolute("cwd", text).map(Some),
        relative => {
            let joined = workspace.join(relative);
            absolute("cwd", &joined.to_string_lossy()).map(Some)
        }
    }
}

/// Variables to set and names to unset.
pub(super) fn environment(
    env: pb::EnvSpec,
) -> Result<(BTreeMap<String, String>, Vec<String>), Problem> {
    let bytes = env.set.iter().fold(0_usize, |sum, (name, value)| {
        sum.saturating_add(name.len()).saturating_add(value.len())
    });
    let unset = env.unset.iter().map(String::len).sum();
    for (field, bytes) in [("env.set", bytes), ("env.unset", unset)] {
        if bytes > MAX_ENV_BYTES {
            return Err(Problem::invalid(format!(
                "'{field}' has {bytes} bytes, the most is {MAX_ENV_BYTES}"
            )));
        }
    }
    let is_name = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let mut names = env.set.keys().chain(&env.unset);
    if let Some(name) = names.find(|name| !is_name(name)) {
        return Err(Problem::invalid(format!(
            "'{}' is not a name of an environment variable",
            crate::text::neutralise(name)
        )));
    }
    if env.set.values().any(|value| value.contains('\0')) {
        return Err(Problem::invalid("a value of 'env.set' holds a NUL"));
    }
    Ok((env.set.into_iter().collect(), env.unset))
}

/// Limits, in form; the profile clamps them.
pub(super) fn limits(limits: pb::LimitRequest) -> Result<LimitRequest, Problem> {
    let zeroes = [
        ("cpu_seconds", limits.cpu_seconds),
        ("memory_bytes", limits.memory_bytes),
        ("pids", limits.pids),
        ("open_files", limits.open_files),
    ];
    if let Some((name, _)) = zeroes.iter().find(|(_, value)| *value == Some(0)) {
        return Err(Problem::invalid(format!(
            "'limits.{name}' is 0, with which nothing can run; leave it out for the profile's"
        )));
    }
    Ok(LimitRequest {
        timeout_ms: positive("timeout", limits.timeout)?,
        idle_timeout_ms: positive("idle_timeout", limits.idle_timeout)?,
        kill_grace_ms: millis("kill_grace", limits.kill_grace)?,
        cpu_seconds: limits.cpu_seconds,
        memory_bytes: limits.memory_bytes,
        pids: limits.pids,
        file_size_bytes: limits.file_size_bytes,
        open_files: limits.open_files,
        output_bytes: limits.output_bytes,
        disk_bytes: limits.disk_bytes,
    })
}

fn positive(field: &str, value: Option<prost_types::Duration>) -> Result<Option<u64>, Problem> {
    match millis(field, value)? {
        Some(0) => Err(Problem::invalid(format!(
            "'limits.{field}' is shorter than a millisecond; leave it out for the profile's"
        ))),
        other => Ok(other),
    }
}

fn millis(field: &str, value: Option<prost_types::Duration>) -> Result<Option<u64>, Problem> {
    let duration = value.map(|value| duration(field, value)).transpose()?;
    Ok(duration.map(|d| u64::try_from(d.as_millis()).unwrap_or(u64::MAX)))
}

/// A duration that is not negative.
pub(super) fn duration(field: &str, value: prost_types::Duration) -> Result<Duration, Problem> {
    Duration::try_from(value)
        .ok()
        .ok_or_else(|| Problem::invalid(format!("'{field}' is not a duration, or negative")))
}

fn disconnect(policy: Option<pb::DisconnectPolicy>) -> Result<Disconnect, Problem> {
    use pb::disconnect_policy::Policy;
    match policy.and_then(|policy| policy.policy) {
        None => Ok(Disconnect::Grace(DEFAULT_GRACE)),
        Some(Policy::Grace(grace)) => {
            let grace = duration("on_disconnect.grace", grace)?;
            Ok(Disconnect::Grace(grace.min(MAX_GRACE)))
        }
        Some(Policy::KillNow(true)) => Ok(Disconnect::Grace(Duration::ZERO)),
        Some(Policy::Keep(true)) => Ok(Disconnect::Keep),
        Some(Policy::KillNow(false) | Policy::Keep(false)) => Err(Problem::invalid(
            "'on_disconnect' is set to false; leave it out for the default",
        )),
    }
}

/// Labels.
pub(super) fn labels(
    labels: impl IntoIterator<Item = (String, String)>,
) -> Result<Labels, Problem> {
    let labels: Labels = labels.into_iter().collect();
    let too_long = |text: &String| text.len() > MAX_LABEL_BYTES;
    if labels.len() > MAX_LABELS || labels.iter().any(|(k, v)| too_long(k) || too_long(v)) {
        return Err(Problem::invalid(format!(
            "at most {MAX_LABELS} labels of at most {MAX_LABEL_BYTES} bytes"
        )));
    }
    Ok(labels)
}

#[cfg(test)]
mod tests;
