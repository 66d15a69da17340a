//! Commands of which every byte and the end are known beforehand.

use std::{fmt::Write as _, time::Duration};

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{Random, Transcript, World, script, wire};

/// A command.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Command {
    /// So many numbers on both streams, then an exit code.
    Numbers { out: u64, err: u64, code: i32 },
    /// Lines with pauses, so that faults fall into a running command.
    Slow { lines: u64 },
    /// More output than the daemon keeps.
    Flood { numbers: u64 },
    /// Characters of several bytes, written in pieces that cut them.
    Characters { count: u64 },
    /// Bytes that are no text.
    Binary { bytes: u64 },
    /// A signal ends it.
    Killed { numbers: u64, signal: i32 },
    /// The timeout ends it.
    Endless { numbers: u64, timeout_ms: u64 },
}

impl Command {
    /// One of the kinds, with random sizes.
    pub(crate) fn random(random: &mut Random) -> Self {
        let small = random.between(0, 3000);
        match random.between(0, 99) {
            0..30 => Self::Numbers {
                out: small,
                err: random.between(0, 2000),
                code: random.pick(&[0, 0, 1, 7, 124, 255]),
            },
            30..55 => Self::Slow {
                lines: random.between(5, 40),
            },
            55..63 => Self::Flood {
                numbers: random.between(400_000, 900_000),
            },
            63..73 => Self::Characters {
                count: random.between(1, 60_000),
            },
            73..83 => Self::Binary {
                bytes: random.between(1, 400_000),
            },
            83..92 => Self::Killed {
                numbers: small,
                signal: random.pick(&[6, 9, 11, 15]),
            },
            _ => Self::Endless {
                numbers: small,
                timeout_ms: random.between(300, 700),
            },
        }
    }

    /// The request. Its first act is to leave a trace of having run.
    pub(crate) fn spec(&self, world: &World, id: &str) -> v1::ExecSpec {
        let mut limits = v1::LimitRequest::default();
        if let Some(timeout) = self.timeout() {
            limits.timeout = wire(timeout);
            limits.kill_grace = wire(Duration::from_millis(50));
        }
        v1::ExecSpec {
            limits: Some(limits),
            ..script(world, id, &self.text(id))
        }
    }

    /// The same for agent-cli.
    pub(crate) fn client_words(&self, id: &str) -> Vec<String> {
        let mut words = vec!["exec".to_owned()];
        if let Some(timeout) = self.timeout() {
            words.extend(["--timeout".to_owned(), format!("{}ms", timeout.as_millis())]);
        }
        words.extend(["--".to_owned(), self.text(id)]);
        words
    }

    fn timeout(&self) -> Option<Duration> {
        match self {
            Self::Endless { timeout_ms, .. } => Some(Duration::from_millis(*timeout_ms)),
            Self::Numbers { .. }
            | Self::Slow { .. }
            | Self::Flood { .. }
            | Self::Characters { .. }
            | Self::Binary { .. }
            | Self::Killed { .. } => None,
        }
    }

    fn text(&self, id: &str) -> String {
        let rest = match *self {
            Self::Numbers { out, err, code } => format!("seq {out}; seq {err} >&2; exit {code}"),
            Self::Slow { lines } => {
                format!("for n in $(seq {lines}); do echo $n; sleep 0.01; done")
            }
            Self::Flood { numbers } => format!("seq {numbers}"),
            // dd writes pieces of seven bytes, which no character of three fits into.
            Self::Characters { count } => format!(
                "yes 漢 | tr -d '\\n' | head -c {} | dd bs=7 status=none",
                count * 3
            ),
            Self::Binary { bytes } => format!("head -c {bytes} /dev/zero | tr '\\0' '\\377'"),
            Self::Killed { numbers, signal } => {
                format!("seq {numbers}; kill -{signal} $$; echo survived")
            }
            Self::Endless { numbers, .. } => format!("seq {numbers}; sleep 600; echo survived"),
        };
        format!("echo ran >>{id}\n{rest}\n")
    }

    /// Compares what agent-cli printed and returned with what this command does.
    pub(crate) fn judge_client(&self, code: i32, stdout: &[u8]) -> Result<(), String> {
        let expected = match *self {
            Self::Numbers { code, .. } => code,
            Self::Slow { .. }
            | Self::Flood { .. }
            | Self::Characters { .. }
            | Self::Binary { .. } => 0,
            Self::Killed { signal, .. } => 128 + signal,
            Self::Endless { .. } => 124,
        };
        if code != expected {
            return Err(format!("exit code {code}, expected {expected}"));
        }
        let (mut out, _) = self.output();
        if matches!(self, Self::Endless { .. }) {
            out.truncate(stdout.len());
        }
        // The harness reads text: what is none has become replacement characters, one each.
        let out = String::from_utf8_lossy(&out);
        if out.as_bytes() != stdout {
            return Err(format!(
                "{} bytes printed, expected {}",
                stdout.len(),
                out.len()
            ));
        }
        Ok(())
    }

    /// Compares what a reader was told with what this command does.
    pub(crate) fn judge(&self, told: &Transcript) -> Result<(), String> {
        let (mut out, err) = self.output();
        if let (Self::Endless { .. }, Some(end)) = (self, &told.exited) {
            // On a busy machine the timeout may come before the last number.
            out.truncate(usize::try_from(end.stdout_bytes).expect("a size"));
        }
        told.stdout.compare(&out)?;
        told.stderr.compare(&err)?;
        let end = told.exited.as_ref().ok_or("no end")?;
        let (reason, code, signal) = match *self {
            Self::Numbers { code, .. } => (ExitReason::Exited, Some(code), None),
            Self::Slow { .. }
            | Self::Flood { .. }
            | Self::Characters { .. }
            | Self::Binary { .. } => (ExitReason::Exited, Some(0), None),
            Self::Killed { signal, .. } => (ExitReason::Signaled, None, Some(signal)),
            Self::Endless { .. } => (ExitReason::Timeout, end.exit_code, end.signal),
        };
        if (end.reason(), end.exit_code, end.signal) != (reason, code, signal) {
            return Err(format!("ended as {end:?}"));
        }
        if (end.stdout_bytes, end.stderr_bytes) != (out.len() as u64, err.len() as u64) {
            return Err(format!("counted {end:?}"));
        }
        Ok(())
    }

    /// What it writes to stdout and stderr.
    fn output(&self) -> (Vec<u8>, Vec<u8>) {
        let numbers = |count: u64| {
            let mut text = String::new();
            (1..=count).for_each(|number| writeln!(text, "{number}").expect("text"));
            text.into_bytes()
        };
        let size = |count: u64| usize::try_from(count).expect("a size");
        match *self {
            Self::Numbers { out, err, .. } => (numbers(out), numbers(err)),
            Self::Slow { lines } => (numbers(lines), Vec::new()),
            Self::Flood { numbers: count }
            | Self::Killed { numbers: count, .. }
            | Self::Endless { numbers: count, .. } => (numbers(count), Vec::new()),
            Self::Characters { count } => ("漢".repeat(size(count)).into_bytes(), Vec::new()),
            Self::Binary { bytes } => (vec![0xff; size(bytes)], Vec::new()),
        }
    }
}
