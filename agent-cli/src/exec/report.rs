//! The one JSON object of `exec --json`. Its fields are part of the command line's contract.

use serde::Serialize;

use super::{capture::Capture, follow::Followed};
use crate::daemon::{
    Blocked, Denial, ExitReason, LimitHit, Limits, Outcome, OutputFile, Sandbox, SetupFailure,
};

/// Most bytes kept of each text, half of them from each side.
const KEPT_BYTES: usize = 1 << 20;

/// What is kept of a command's output.
#[derive(Debug, Clone)]
pub struct Captures {
    /// Both streams in order of arrival.
    pub output: Capture,
    /// Standard output.
    pub stdout: Capture,
    /// Standard error.
    pub stderr: Capture,
}

impl Default for Captures {
    /// Nothing yet.
    fn default() -> Self {
        Self {
            output: Capture::new(KEPT_BYTES),
            stdout: Capture::new(KEPT_BYTES),
            stderr: Capture::new(KEPT_BYTES),
        }
    }
}

/// The object.
#[derive(Debug, Serialize)]
pub struct Report<'a> {
    exec_id: &'a str,
    session_id: Option<&'a str>,
    reason: ExitReason,
    exit_code: Option<i32>,
    signal: Option<i32>,
    output: String,
    stdout: String,
    stderr: String,
    stdout_bytes: u64,
    stderr_bytes: u64,
    truncated: bool,
    /// Bytes written but not held in `stdout` and `stderr`.
    dropped_bytes: u64,
    duration_ms: u64,
    leftover_processes: u32,
    cwd: &'a str,
    denials: &'a [Denial],
    limits: Option<&'a Limits>,
    sandbox: Option<&'a Sandbox>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocked: Option<&'a Blocked>,
    #[serde(skip_serializing_if = "Option::is_none")]
    setup_failure: Option<&'a SetupFailure>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'a str>,
    limits_hit: &'a [LimitHit],
    #[serde(skip_serializing_if = "Option::is_none")]
    output_file: Option<&'a OutputFile>,
}

impl<'a> Report<'a> {
    /// Puts together what is known.
    #[must_use]
    pub fn new(exec_id: &'a str, followed: &'a Followed, captures: &Captures) -> Self {
        let outcome: &Outcome = &followed.outcome;
        // Without the daemon's final numbers, what arrived and what was reported as lost is known.
        let lost = followed.lost;
        let stdout_bytes = outcome
            .stdout_bytes
            .max(captures.stdout.seen().saturating_add(lost.stdout));
        let stderr_bytes = outcome
            .stderr_bytes
            .max(captures.stderr.seen().saturating_add(lost.stderr));
        let kept = captures
            .stdout
            .kept()
            .saturating_add(captures.stderr.kept());
        let dropped_bytes = stdout_bytes
            .saturating_add(stderr_bytes)
            .saturating_sub(kept);
        Self {
            exec_id,
            session_id: None,
            reason: outcome.reason,
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            output: captures.output.text(),
            stdout: captures.stdout.text(),
            stderr: captures.stderr.text(),
            stdout_bytes,
            stderr_bytes,
            truncated: dropped_bytes > 0 || captures.output.kept() < captures.output.seen(),
            dropped_bytes,
            duration_ms: outcome.duration_ms,
            leftover_processes: outcome.leftover_processes,
            cwd: cwd(followed),
            denials: &outcome.denials,
            limits: followed.started.as_ref().map(|started| &started.limits),
            sandbox: followed.started.as_ref().map(|started| &started.sandbox),
            blocked: outcome.blocked.as_ref(),
            setup_failure: outcome.setup_failure.as_ref(),
            notes: started_notes(followed)
                .chain(&outcome.notes)
                .map(String::as_str)
                .collect(),
            limits_hit: &outcome.limits_hit,
            output_file: outcome.output_file.as_ref(),
        }
    }

    /// The same, of a command in a session.
    #[must_use]
    pub fn of_session(self, session_id: Option<&'a str>) -> Self {
        Self { session_id, ..self }
    }

    /// The object as one line.
    ///
    /// # Errors
    /// Never for these fields; serde's signature.
    pub fn line(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|text| text + "\n")
    }
}

fn started_notes(followed: &Followed) -> impl Iterator<Item = &String> {
    let started = followed.started.iter();
    started.flat_map(|started| &started.notes)
}

/// Where the command ended, or at least where it started.
fn cwd(followed: &Followed) -> &str {
    match (followed.outcome.cwd.as_str(), &followed.started) {
        ("", Some(started)) => &started.cwd,
        (cwd, _) => cwd,
    }
}

#[cfg(test)]
mod tests {
    use super::{Captures, Report};
    use crate::{
        daemon::{
            Degradation, Denial, ExitReason, LimitHit, Limits, Outcome, OutputFile, OutputStream,
            Sandbox, Started,
        },
        exec::follow::{Followed, LostBytes},
    };

    fn started() -> Started {
        Started {
            sandbox: Sandbox {
                profile: "workspace".into(),
                digest: "d1".into(),
                tier: "T1",
                layers: vec!["landlock".into(), "seccomp".into()],
                degraded: vec![Degradation {
                    layer: "pid-namespace".into(),
                    guarantee: "g".into(),
                    reason: "r".into(),
                }],
                landlock_abi: 7,
                uid: 1000,
                identity: "caller".into(),
                cgroup: "cgroup-v2".into(),
            },
            limits: Limits {
                timeout_ms: Some(120_000),
                idle_timeout_ms: None,
                kill_grace_ms: Some(2_000),
                cpu_seconds: None,
                memory_bytes: None,
                pids: Some(512),
                file_size_bytes: None,
                open_files: Some(1024),
                output_bytes: None,
                disk_bytes: None,
            },
            cwd: "/w".into(),
            notes: vec!["back in the workspace".into()],
        }
    }

    fn denial() -> Denial {
        Denial {
            layer: "landlock".into(),
            access: "read".into(),
            path: Some("/etc/shadow".into()),
            port: None,
            syscall: None,
            rule: "default".into(),
            source: "inferred",
            text: "t".into(),
        }
    }

    #[test]
    fn the_object_has_exactly_the_documented_fields() {
        let mut captures = Captures::default();
        captures.stdout.push(b"hi\n");
        captures.output.push(b"hi\n");
        let followed = Followed {
            started: Some(started()),
            outcome: Outcome {
                reason: ExitReason::Exited,
                exit_code: Some(1),
                stdout_bytes: 3,
                cwd: "/w".into(),
                denials: vec![denial()],
                limits_hit: vec![LimitHit {
                    limit: "memory",
                    count: 2,
                    evidence: "memory.events oom_kill".into(),
                }],
                output_file: Some(OutputFile {
                    path: "/run/output/e1".into(),
                    bytes: 9,
                    missing_bytes: 1,
                }),
                ..Outcome::lost()
            },
            ..Followed::default()
        };
        let report = Report::new("e1", &followed, &captures).of_session(Some("s1"));
        let line = report.line().unwrap();
        expect_test::expect![[r#"
            {"exec_id":"e1","session_id":"s1","reason":"exited","exit_code":1,"signal":null,"output":"hi\n","stdout":"hi\n","stderr":"","stdout_bytes":3,"stderr_bytes":0,"truncated":false,"dropped_bytes":0,"duration_ms":0,"leftover_processes":0,"cwd":"/w","denials":[{"layer":"landlock","access":"read","path":"/etc/shadow","rule":"default","source":"inferred","text":"t"}],"limits":{"timeout_ms":120000,"idle_timeout_ms":null,"kill_grace_ms":2000,"cpu_seconds":null,"memory_bytes":null,"pids":512,"file_size_bytes":null,"open_files":1024,"output_bytes":null,"disk_bytes":null},"sandbox":{"profile":"workspace","digest":"d1","tier":"T1","layers":["landlock","seccomp"],"degraded":[{"layer":"pid-namespace","guarantee":"g","reason":"r"}],"landlock_abi":7,"uid":1000,"identity":"caller","cgroup":"cgroup-v2"},"notes":["back in the workspace"],"limits_hit":[{"limit":"memory","count":2,"evidence":"memory.events oom_kill"}],"output_file":{"path":"/run/output/e1","bytes":9,"missing_bytes":1}}
        "#]]
        .assert_eq(&line);
    }

    #[test]
    fn dropped_bytes_are_those_that_the_object_does_not_hold() {
        let mut followed = Followed::default();
        let mut captures = Captures::default();
        let piece = vec![b'x'; 3 << 20];
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            captures.output.push(&piece);
            match stream {
                OutputStream::Stdout => captures.stdout.push(&piece),
                OutputStream::Stderr => captures.stderr.push(&piece),
            }
        }
        followed.lost = LostBytes {
            stdout: 5,
            stderr: 0,
        };
        let report = Report::new("e", &followed, &captures);
        assert!(report.truncated);
        assert_eq!(report.dropped_bytes, (2 << 20) + (2 << 20) + 5);
        assert_eq!(report.stdout_bytes, (3 << 20) + 5);
        assert_eq!(report.reason, ExitReason::Lost);
    }
}
