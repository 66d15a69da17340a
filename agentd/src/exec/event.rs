//! What happens during an execution, as readers see it.

use std::{sync::Arc, time::SystemTime};

use agentd_sandbox::{monitor::JailReport, policy::Limits};
use tonic::codegen::Bytes;

use super::ExitResult;

/// An output stream of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Both, of a command that has a terminal.
    Terminal,
}

/// A position in all streams, in bytes from their starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offsets {
    /// Bytes of stdout.
    pub stdout: u64,
    /// Bytes of stderr.
    pub stderr: u64,
    /// Bytes of the terminal.
    pub terminal: u64,
}

impl Offsets {
    /// The position in one stream.
    #[must_use]
    pub fn of(self, stream: OutputStream) -> u64 {
        match stream {
            OutputStream::Stdout => self.stdout,
            OutputStream::Stderr => self.stderr,
            OutputStream::Terminal => self.terminal,
        }
    }

    /// The position after `bytes` more bytes of `stream`.
    #[must_use]
    pub fn advanced(self, stream: OutputStream, bytes: u64) -> Self {
        match stream {
            OutputStream::Stdout => Self {
                stdout: self.stdout.saturating_add(bytes),
                ..self
            },
            OutputStream::Stderr => Self {
                stderr: self.stderr.saturating_add(bytes),
                ..self
            },
            OutputStream::Terminal => Self {
                terminal: self.terminal.saturating_add(bytes),
                ..self
            },
        }
    }

    /// Bytes of all streams.
    #[must_use]
    pub fn total(self) -> u64 {
        self.stdout
            .saturating_add(self.stderr)
            .saturating_add(self.terminal)
    }
}

/// The command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReport {
    /// The jail as applied.
    pub jail: JailReport,
    /// Limits in force.
    pub limits: Limits,
    /// Working directory in which it started.
    pub cwd: String,
    /// When.
    pub at: SystemTime,
    /// Remarks for a person.
    pub notes: Vec<String>,
}

/// What happened.
#[derive(Debug, Clone)]
pub enum EventBody {
    /// The command runs.
    Started(Arc<StartReport>),
    /// Bytes from it, at most 64 KiB.
    Output {
        /// Stream.
        stream: OutputStream,
        /// Offset of the first byte in the stream.
        offset: u64,
        /// Bytes.
        data: Bytes,
    },
    /// The end; always the last event.
    Exited(Arc<ExitResult>),
}

/// One event. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Event {
    /// Number, from 1, without holes.
    pub seq: u64,
    /// What happened.
    pub body: EventBody,
}
