//! The closed language of the boundary. Anything else is fatal to the connection.
//!
//! One message is one `SOCK_SEQPACKET` datagram of JSON, at most [`super::MAX_MESSAGE`] bytes, with
//! file descriptors beside it where a variant says so. No pids cross. EOF on the socket is the
//! lifecycle: when the front end is gone every jail dies; when the launcher is gone sessions fail.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Serialize};

use crate::{
    explain::{Query, Verdict},
    policy::{
        Caller, Degradation, Identity, Invocation, Layer, Limits, Refusal, SessionKey,
        TerminalSize, Tier,
    },
    profile::CommandRules,
};

/// Names an execution between the two processes. Chosen by the front end, never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecKey(pub u64);

/// Order of the file descriptors of [`Request::Spawn`]: `stdout` and `stderr` (neither with a
/// terminal), then `script` when the program is a script, then `stdin` when it is a pipe and there is no
/// terminal, then the write end of `state` when the state is to be reported.
#[derive(Debug, Clone, Copy)]
pub struct SpawnFds;

/// Order of the file descriptors beside [`Event::Started`]: the terminal's master when there is a
/// terminal, then the output file (readable and writable) when one was asked for, then the terminal's
/// other side, by which the front end sees what was read; that one may be missing.
#[derive(Debug, Clone, Copy)]
pub struct StartedFds;

/// Front end to launcher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Starts a command. File descriptors: see [`SpawnFds`]. Answered by exactly one of `Started`,
    /// `Refused`, `SetupFailed`, `Ended`. `Ended` is the answer to a command that was stopped before it was
    /// executed, and then the last word. After `Started` exactly one `Ended` follows, and before it one
    /// `LeaderExited` where the end of the leader became known.
    Spawn {
        /// Name.
        exec: ExecKey,
        /// What to run.
        invocation: Box<Invocation>,
    },
    /// The leader has ended and its output was drained: kill what is left.
    Finish {
        /// Name. Unknown or ended names are ignored: the event may have crossed this request.
        exec: ExecKey,
    },
    /// TERM, grace, KILL of the whole tree.
    Stop {
        /// Name. Unknown or ended names are ignored.
        exec: ExecKey,
        /// Why.
        reason: StopReason,
        /// Milliseconds between TERM and KILL; `None` for the execution's own; clamped to it.
        grace_ms: Option<u64>,
    },
    /// Sends a signal. Unknown or ended names are ignored.
    Signal {
        /// Name.
        exec: ExecKey,
        /// Signal number; one of HUP INT QUIT KILL USR1 USR2 TERM CONT STOP WINCH.
        signal: i32,
        /// Whom it reaches.
        scope: SignalScope,
    },
    /// Sets the size of the terminal. Ignored without one.
    Resize {
        /// Name.
        exec: ExecKey,
        /// New size.
        size: TerminalSize,
    },
    /// Opens a session. Answered by `SessionOpened`.
    OpenSession {
        /// Name, never used before.
        session: SessionKey,
        /// Profile name.
        profile: String,
        /// Workspace, absolute.
        workspace: PathBuf,
        /// Whose it is.
        caller: Caller,
    },
    /// Ends a session: kills what still runs in it, then removes everything it had. Answered by
    /// `SessionClosed`, also when the name is unknown.
    CloseSession {
        /// Name.
        session: SessionKey,
    },
    /// Asks the policy. Answered by `Explained` with the same `id`.
    Explain {
        /// Chosen by the front end.
        id: u64,
        /// Whose policy: the same fields as for a command; the program is ignored.
        invocation: Box<Invocation>,
        /// The questions, at most 64.
        queries: Vec<Query>,
    },
    /// Reads the profile directories again. Answered by `Profiles`.
    Reload,
}

/// Whom a signal reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignalScope {
    /// Every process of the execution.
    Tree,
    /// The leader's process group.
    Group,
    /// The leader.
    Leader,
}

/// Why the front end ends a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StopReason {
    /// A client asked for it.
    Cancelled,
    /// Silence for too long.
    IdleTimeout,
    /// Too much output.
    OutputLimit,
    /// Its client went away.
    Disconnected,
    /// The daemon is drained.
    Drained,
}

/// Launcher to front end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Event {
    /// First message: the launcher is up. `Profiles` follows for each profile.
    Ready {
        /// Best tier of this host, as tried.
        tier: Tier,
        /// Why it is not higher, and the remedy; empty on T3.
        tier_reason: String,
        /// Landlock ABI.
        landlock_abi: u32,
        /// Every capability that was probed: name, works, detail or remedy.
        capabilities: Vec<(String, bool, String)>,
        /// What limits and kills a command's tree: `cgroup-v2`, `cgroup-hybrid`, `cgroup-v1`, `none`.
        #[serde(default)]
        cgroup: String,
        /// Number of `Profile` events that follow.
        profiles: u32,
    },
    /// One usable profile.
    Profile(Box<ProfileSummary>),
    /// The answer to `Reload`: that many `Profile` events follow, or an error that left everything as
    /// it was.
    Reloaded {
        /// Number of profiles, or what is wrong with them.
        result: Result<u32, String>,
    },
    /// The policy refuses the request; nothing ran.
    Refused {
        /// Name.
        exec: ExecKey,
        /// Why.
        refusal: Refusal,
    },
    /// The jail or the program could not be started; nothing of it ran.
    SetupFailed {
        /// Name.
        exec: ExecKey,
        /// What failed.
        failure: SetupFailure,
    },
    /// The command runs. File descriptors: see [`StartedFds`].
    Started {
        /// Name.
        exec: ExecKey,
        /// The jail as applied.
        report: Box<JailReport>,
        /// Limits in force.
        limits: Limits,
        /// Working directory.
        cwd: String,
        /// Remarks for a person, such as a session's directory that is gone.
        #[serde(default)]
        notes: Vec<String>,
        /// Path of the output file as later commands of the session see it; empty without one.
        #[serde(default)]
        output_file: String,
    },
    /// The leader has ended. Others of its tree may live on until `Finish`.
    LeaderExited {
        /// Name.
        exec: ExecKey,
        /// How.
        status: LeaderStatus,
    },
    /// No process of the command exists any more.
    Ended {
        /// Name.
        exec: ExecKey,
        /// Why it ended.
        cause: Cause,
        /// How the leader ended.
        status: LeaderStatus,
        /// Processes that outlived the leader and were killed.
        leftover: u32,
        /// Resource use of all reaped processes.
        usage: Usage,
        /// Protected names that the command created.
        tripped: Vec<Tripped>,
        /// Limits that it ran into.
        #[serde(default)]
        hits: Vec<LimitHit>,
        /// It is proven that nothing is left: by the pid namespace or by the cgroup.
        #[serde(default)]
        proven: bool,
    },
    /// The answer to `OpenSession`.
    SessionOpened {
        /// Name.
        session: SessionKey,
        /// The environment of a command in it that asks for nothing, or why there is none.
        result: Result<BTreeMap<String, String>, Refusal>,
    },
    /// The answer to `CloseSession`: nothing of it is left.
    SessionClosed {
        /// Name.
        session: SessionKey,
    },
    /// The answer to `Explain`: the verdicts in order, or why there is no policy.
    Explained {
        /// From the request.
        id: u64,
        /// Verdicts.
        result: Result<Vec<Verdict>, Refusal>,
    },
}

/// What brought the end about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The leader ended by itself.
    Leader,
    /// The wall clock ran out.
    Timeout,
    /// The front end asked for it.
    Stopped(StopReason),
    /// The jail's init died; how the leader ended is unknown.
    InitDied,
    /// A limit that the launcher watches was passed; [`LimitKind::Memory`]: the leader was killed by the
    /// kernel for want of memory.
    Limit(LimitKind),
}

/// A limit that the launcher or the kernel enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// CPU time.
    Cpu,
    /// Memory of the tree.
    Memory,
    /// Processes and threads.
    Pids,
    /// Size of one file.
    FileSize,
    /// Disk growth.
    Disk,
}

/// A limit that a command ran into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimitHit {
    /// Which.
    pub limit: LimitKind,
    /// How often, as the kernel counted it; 1 for what ends a command at once.
    pub count: u64,
    /// Where this is known from, such as `memory.events oom_kill`.
    pub evidence: String,
}

/// How the leader ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LeaderStatus {
    /// With an exit code.
    Exited(i32),
    /// By a signal.
    Signaled {
        /// Number.
        signal: i32,
        /// A core was dumped.
        core: bool,
    },
    /// Not known.
    Unknown,
}

/// Resource use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// User CPU time in microseconds.
    pub user_us: u64,
    /// System CPU time in microseconds.
    pub system_us: u64,
    /// Largest resident set of one process in bytes.
    pub max_rss_bytes: u64,
    /// Most memory of the tree at once in bytes; 0 when no cgroup counted it.
    #[serde(default)]
    pub peak_memory_bytes: u64,
    /// Most processes and threads at once; 0 when no cgroup counted them.
    #[serde(default)]
    pub peak_pids: u64,
}

/// A protected name that did not exist before and that the command created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tripped {
    /// Path.
    pub path: String,
    /// Rule that protects it, as `file:line`.
    pub rule: String,
    /// Why it is still there; `None` when it was removed again.
    pub remains: Option<String>,
}

/// A set-up step that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetupFailure {
    /// Stage, such as `mount`, `landlock`, `exec`, `cwd`, `fork`.
    pub stage: String,
    /// errno.
    pub errno: i32,
    /// Detail for a person, such as the path.
    pub detail: String,
}

/// The jail as applied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JailReport {
    /// Profile name.
    pub profile: String,
    /// Profile digest.
    pub digest: String,
    /// Tier.
    pub tier: Tier,
    /// Layers in force, in order of application.
    pub layers: Vec<Layer>,
    /// Absent guarantees.
    pub degraded: Vec<Degradation>,
    /// Landlock ABI.
    pub landlock_abi: u32,
    /// User.
    pub identity: Identity,
    /// User id as the command sees it.
    pub uid: u32,
    /// What limits and kills the tree: `cgroup-v2`, `cgroup-hybrid`, `cgroup-v1`, `none`.
    #[serde(default)]
    pub cgroup: String,
}

/// What the front end has to know of a profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileSummary {
    /// Name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// Digest.
    pub digest: String,
    /// Lowest tier it accepts.
    pub minimum_tier: Tier,
    /// Why this host cannot enforce it; `None` when it can.
    pub unavailable: Option<String>,
    /// Limits when the request asks for none.
    pub limits: Limits,
    /// Largest wall clock a request can ask for, in milliseconds.
    pub max_timeout_ms: u64,
    /// Command blacklist, applied by the front end: it is advisory, and its parser must not run with
    /// privilege.
    pub commands: CommandRules,
    /// Labels for the log.
    #[serde(default)]
    pub meta: BTreeMap<String, String>,
}
