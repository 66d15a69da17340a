//! What a client does with a command while it runs: types into it, signals it, sizes its terminal, and
//! reads its output as bytes.

use std::time::Duration;

use agentd_proto::v1 as pb;
use agentd_sandbox::monitor::SignalScope;
use nix::sys::signal::Signal;

use super::{convert, status::Problem};
use crate::exec::{Attachment, Exec, ExecState, StdinInput};

/// Most bytes of one write to stdin.
const MAX_INPUT: usize = 64 * 1024;

/// How long a write to stdin waits for a command that reads slowly.
const INPUT_PATIENCE: Duration = Duration::from_secs(10);

/// Bytes of one read of output, unless asked for.
const DEFAULT_READ: u64 = 64 * 1024;

/// Most bytes of one read of output.
const MAX_READ: u64 = 256 * 1024;

/// Longest wait for output.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Signals that can be sent.
const SIGNALS: [Signal; 10] = [
    Signal::SIGHUP,
    Signal::SIGINT,
    Signal::SIGQUIT,
    Signal::SIGKILL,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGTERM,
    Signal::SIGCONT,
    Signal::SIGSTOP,
    Signal::SIGWINCH,
];

/// See `ExecService.WriteStdin`.
pub(super) async fn write_stdin(
    exec: &Exec,
    ask: pb::WriteStdinRequest,
) -> Result<pb::WriteStdinResponse, Problem> {
    if ask.data.len() > MAX_INPUT {
        return Err(Problem::invalid(format!(
            "'data' has {} bytes, the most is {MAX_INPUT}; send it in parts",
            ask.data.len()
        )));
    }
    let id = exec.id().as_str();
    if exec.attachment() == Attachment::None {
        return Err(Problem::no_stdin(id));
    }
    // Before its start nothing is accepted, and that is an answer.
    let started = tokio::time::timeout(INPUT_PATIENCE, exec.started()).await;
    if started.is_err() {
        return Ok(pb::WriteStdinResponse::default());
    }
    let stdin = exec.stdin().ok_or_else(|| Problem::exec_ended(id))?;
    let input = StdinInput {
        offset: ask.offset,
        data: &ask.data,
        eof: ask.eof,
    };
    let accepted = stdin.write(input, INPUT_PATIENCE).await?;
    Ok(pb::WriteStdinResponse {
        accepted_offset: accepted.offset,
        closed: accepted.closed,
    })
}

/// See `ExecService.Signal`.
pub(super) async fn signal(
    exec: &Exec,
    ask: pb::SignalRequest,
) -> Result<pb::SignalResponse, Problem> {
    let (signal, scope) = checked_signal(&ask)?;
    // A command that waits for its turn has nobody to signal yet.
    let started = exec.started().await.is_ok();
    let delivered = started && exec.state() == ExecState::Running;
    if delivered {
        exec.request_signal(signal, scope);
    }
    Ok(pb::SignalResponse { delivered })
}

fn checked_signal(ask: &pb::SignalRequest) -> Result<(i32, SignalScope), Problem> {
    let scope = match pb::SignalScope::try_from(ask.scope) {
        Ok(pb::SignalScope::Tree) => SignalScope::Tree,
        Ok(pb::SignalScope::Group) => SignalScope::Group,
        Ok(pb::SignalScope::Leader) => SignalScope::Leader,
        Ok(pb::SignalScope::Unspecified) | Err(_) => {
            return Err(Problem::invalid(
                "'scope' is required: TREE, GROUP or LEADER",
            ));
        }
    };
    if SIGNALS.iter().any(|known| *known as i32 == ask.signal) {
        return Ok((ask.signal, scope));
    }
    let known: Vec<_> = SIGNALS
        .iter()
        .map(|signal| {
            format!(
                "{} {}",
                signal.as_str().trim_start_matches("SIG"),
                *signal as i32
            )
        })
        .collect();
    Err(Problem::invalid(format!(
        "signal {} cannot be sent; use one of {}",
        ask.signal,
        known.join(", ")
    )))
}

/// See `ExecService.ResizePty`.
pub(super) async fn resize_pty(
    exec: &Exec,
    ask: pb::ResizePtyRequest,
) -> Result<pb::ResizePtyResponse, Problem> {
    let id = exec.id().as_str();
    if exec.attachment() != Attachment::Terminal {
        return Err(Problem::no_terminal(id));
    }
    let size = ask
        .size
        .ok_or_else(|| Problem::invalid("'size' is required"))?;
    let size = convert::terminal_size(size)?;
    if exec.started().await.is_err() || exec.state() != ExecState::Running {
        return Err(Problem::exec_ended(id));
    }
    exec.request_resize(size);
    Ok(pb::ResizePtyResponse {})
}

/// See `ExecService.ReadOutput`.
pub(super) async fn read_output(
    exec: &std::sync::Arc<Exec>,
    ask: pb::ReadOutputRequest,
) -> Result<pb::ReadOutputResponse, Problem> {
    let limit = match ask.limit {
        0 => DEFAULT_READ,
        limit => limit.min(MAX_READ),
    };
    let wait = match ask.wait {
        Some(wait) => convert::duration("wait", wait)?.min(MAX_WAIT),
        None => Duration::ZERO,
    };
    let _presence = exec.presence();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let piece = exec.read_output(ask.offset, limit, wait).await;
    Ok(pb::ReadOutputResponse {
        data: piece.data,
        offset: piece.offset,
        written: piece.written,
        ended: piece.ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_signals_with_a_scope_pass() {
        let tree = pb::SignalScope::Tree.into();
        let ask = |signal, scope| pb::SignalRequest {
            exec_id: String::new(),
            signal,
            scope,
        };
        for signal in [1, 2, 3, 9, 10, 12, 15, 18, 19, 28] {
            let checked = checked_signal(&ask(signal, tree));
            assert_eq!(checked, Ok((signal, SignalScope::Tree)));
        }
        for signal in [-1, 0, 4, 11, 17, 31, 34, 64, i32::MAX] {
            let problem = checked_signal(&ask(signal, tree)).unwrap_err();
            assert!(problem.message().contains("HUP 1, INT 2"), "{signal}");
        }
        for scope in [0, 4, -1] {
            let problem = checked_signal(&ask(15, scope)).unwrap_err();
            assert!(problem.message().contains("scope"), "{scope}");
        }
    }
}
