//! What is known about an execution: plain values that go into JSON output and into notes for a person.

use serde::Serialize;

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitReason {
    /// With an exit code.
    Exited,
    /// By a signal that the daemon did not send.
    Signaled,
    /// Its time was up.
    Timeout,
    /// It was silent for too long.
    IdleTimeout,
    /// This client ended it.
    Cancelled,
    /// Out of memory.
    OomKilled,
    /// Too much output.
    OutputLimit,
    /// Out of CPU time.
    CpuLimit,
    /// A file was to grow past its limit, or the disks grew past theirs; the limits that were hit tell which.
    DiskLimit,
    /// The system call filter killed it.
    SandboxKilled,
    /// Nothing ran: the jail or the program could not be started.
    SetupFailed,
    /// Nothing ran: the command blacklist refused it.
    Blocked,
    /// The client was gone for too long.
    Disconnected,
    /// The daemon was shut down.
    Drained,
    /// Unknown.
    Lost,
}

impl ExitReason {
    /// Its name, as in JSON.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exited => "exited",
            Self::Signaled => "signaled",
            Self::Timeout => "timeout",
            Self::IdleTimeout => "idle-timeout",
            Self::Cancelled => "cancelled",
            Self::OomKilled => "oom-killed",
            Self::OutputLimit => "output-limit",
            Self::CpuLimit => "cpu-limit",
            Self::DiskLimit => "disk-limit",
            Self::SandboxKilled => "sandbox-killed",
            Self::SetupFailed => "setup-failed",
            Self::Blocked => "blocked",
            Self::Disconnected => "disconnected",
            Self::Drained => "drained",
            Self::Lost => "lost",
        }
    }
}

/// The jail as it was applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Sandbox {
    /// Profile.
    pub profile: String,
    /// SHA-256 of the resolved profile, in hex.
    pub digest: String,
    /// `T1`, `T2` or `T3`.
    pub tier: &'static str,
    /// Layers, in the order in which they were applied.
    pub layers: Vec<String>,
    /// Guarantees that are absent.
    pub degraded: Vec<Degradation>,
    /// Landlock ABI of the kernel.
    pub landlock_abi: u32,
    /// User id inside the jail.
    pub uid: u32,
    /// How that identity was chosen.
    pub identity: String,
    /// What limits and kills the tree: `cgroup-v2`, `cgroup-hybrid`, `cgroup-v1` or `none`.
    pub cgroup: String,
}

/// A guarantee that is absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Degradation {
    /// The missing layer.
    pub layer: String,
    /// What is not guaranteed.
    pub guarantee: String,
    /// Why, and how to get it.
    pub reason: String,
}

/// Something the jail refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Denial {
    /// Layer that refused it.
    pub layer: String,
    /// What was tried.
    pub access: String,
    /// Path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// TCP port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u32>,
    /// System call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub syscall: Option<String>,
    /// Rule as `file:line`, or `default`.
    pub rule: String,
    /// `kernel` or `inferred`.
    pub source: &'static str,
    /// One sentence for a person.
    pub text: String,
}

/// Limits in force; `None` where nothing limits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Wall clock.
    pub timeout_ms: Option<u64>,
    /// Longest silence.
    pub idle_timeout_ms: Option<u64>,
    /// Time between TERM and KILL.
    pub kill_grace_ms: Option<u64>,
    /// CPU seconds of one process.
    pub cpu_seconds: Option<u64>,
    /// Memory of the tree.
    pub memory_bytes: Option<u64>,
    /// Processes and threads.
    pub pids: Option<u64>,
    /// Bytes of one file.
    pub file_size_bytes: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Bytes of output.
    pub output_bytes: Option<u64>,
    /// Growth of the disks in bytes.
    pub disk_bytes: Option<u64>,
}

/// A limit that a command ran into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitHit {
    /// `wall`, `idle`, `cpu`, `memory`, `pids`, `file-size`, `disk`, `output` or `unknown`.
    pub limit: &'static str,
    /// How often.
    pub count: u64,
    /// Where this is known from.
    pub evidence: String,
}

/// The whole output, kept as a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OutputFile {
    /// Path at which later commands of the session can read it.
    pub path: String,
    /// Bytes in it.
    pub bytes: u64,
    /// Bytes that are not in it.
    pub missing_bytes: u64,
}

/// Why nothing ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetupFailure {
    /// `jail`, `not-found`, `permission-denied`, `not-executable`, `bad-cwd` or `resource-limit`.
    pub kind: &'static str,
    /// Stage.
    pub stage: String,
    /// Number of the system error.
    pub errno: i32,
    /// Its name.
    pub errno_name: String,
}

/// Why the command blacklist refused a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Blocked {
    /// Rule as `file:line`.
    pub rule: String,
    /// The part that matched.
    pub matched: String,
    /// The profile's reason.
    pub reason: String,
}

/// A command has started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Started {
    /// The jail.
    pub sandbox: Sandbox,
    /// The limits.
    pub limits: Limits,
    /// Working directory.
    pub cwd: String,
    /// Remarks for a person.
    pub notes: Vec<String>,
}

/// A command has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// How.
    pub reason: ExitReason,
    /// Exit code, when it returned one.
    pub exit_code: Option<i32>,
    /// Signal, when one ended it.
    pub signal: Option<i32>,
    /// Name of that signal.
    pub signal_name: String,
    /// From the start to the death of the last process.
    pub duration_ms: u64,
    /// Bytes written to standard output.
    pub stdout_bytes: u64,
    /// Bytes written to standard error.
    pub stderr_bytes: u64,
    /// Processes that outlived their leader and were killed.
    pub leftover_processes: u32,
    /// Working directory at the end; empty when unknown.
    pub cwd: String,
    /// What the jail refused.
    pub denials: Vec<Denial>,
    /// Set when the reason is `setup-failed`.
    pub setup_failure: Option<SetupFailure>,
    /// Set when the reason is `blocked`.
    pub blocked: Option<Blocked>,
    /// Remarks for a person.
    pub notes: Vec<String>,
    /// Limits that it ran into.
    pub limits_hit: Vec<LimitHit>,
    /// It is proven that no process of it is left.
    pub proven: bool,
    /// The whole output as a file, when one was kept.
    pub output_file: Option<OutputFile>,
}

impl Outcome {
    /// The outcome of a command whose end nobody can tell.
    #[must_use]
    pub fn lost() -> Self {
        Self {
            reason: ExitReason::Lost,
            exit_code: None,
            signal: None,
            signal_name: String::new(),
            duration_ms: 0,
            stdout_bytes: 0,
            stderr_bytes: 0,
            leftover_processes: 0,
            cwd: String::new(),
            denials: Vec::new(),
            setup_failure: None,
            blocked: None,
            notes: Vec::new(),
            limits_hit: Vec::new(),
            proven: false,
            output_file: None,
        }
    }
}
