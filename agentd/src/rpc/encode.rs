//! Domain to wire. Total: everything the daemon knows can be said.

use std::time::{Duration, SystemTime};

use agentd_proto::v1 as pb;
use agentd_sandbox::{
    monitor::{self, JailReport, SetupFailure, Usage},
    policy::{Identity, Limits, Tier},
};
use nix::{errno::Errno, sys::signal::Signal};

use crate::{
    commands::Blocked,
    exec::{
        Denial, DenialSource, Event, EventBody, Exec, ExecState, ExitReason, ExitResult, LimitHit,
        LimitKind, NotStarted, OutputStream, ReadItem, StartReport,
    },
};

/// One execution. An error for one that was never started: there is nothing to tell of it but why.
pub(super) fn exec(exec: &Exec, boot_id: &str) -> Result<pb::Exec, NotStarted> {
    let report = exec.start_report();
    let state = match exec.state() {
        ExecState::Starting => pb::ExecState::Queued,
        ExecState::Running => pb::ExecState::Running,
        ExecState::Ended => pb::ExecState::Ended,
        ExecState::NotStarted(why) => return Err(why),
    };
    Ok(pb::Exec {
        exec_id: exec.id().to_string(),
        session_id: exec.session_id().unwrap_or_default().to_owned(),
        state: state.into(),
        sandbox: report.as_ref().map(|report| sandbox(&report.jail)),
        limits: report.as_ref().map(|report| limits(&report.limits)),
        result: exec.result().map(|end| result(&end)),
        created_at: Some(exec.created_at().into()),
        labels: exec.labels().clone().into_iter().collect(),
        boot_id: boot_id.to_owned(),
        last_seq: exec.last_seq(),
    })
}

/// What a reader got.
pub(super) fn item(exec_id: &str, item: ReadItem) -> pb::ExecEvent {
    use pb::exec_event::Event as Wire;
    let (seq, event) = match item {
        ReadItem::Event(Event { seq, body }) => (seq, body_event(body)),
        ReadItem::Gap {
            from_seq,
            to_seq,
            lost,
        } => (
            0,
            Wire::Gap(pb::Gap {
                from_seq,
                to_seq,
                stdout_bytes: lost.stdout,
                stderr_bytes: lost.stderr,
                pty_bytes: lost.terminal,
            }),
        ),
        ReadItem::Heartbeat { seen, running } => (
            0,
            Wire::Heartbeat(pb::Heartbeat {
                stdout_offset: seen.stdout,
                stderr_offset: seen.stderr,
                pty_offset: seen.terminal,
                running: Some(duration(running)),
            }),
        ),
    };
    pb::ExecEvent {
        exec_id: exec_id.to_owned(),
        seq,
        event: Some(event),
    }
}

fn body_event(body: EventBody) -> pb::exec_event::Event {
    use pb::exec_event::Event as Wire;
    match body {
        EventBody::Started(report) => Wire::Started(started(&report)),
        EventBody::Output {
            stream,
            offset,
            data,
        } => {
            let stream = match stream {
                OutputStream::Stdout => pb::Stream::Stdout,
                OutputStream::Stderr => pb::Stream::Stderr,
                OutputStream::Terminal => pb::Stream::Pty,
            };
            Wire::Output(pb::Output {
                stream: stream.into(),
                offset,
                data,
            })
        }
        EventBody::Exited(end) => Wire::Exited(result(&end)),
    }
}

fn started(report: &StartReport) -> pb::Started {
    pb::Started {
        sandbox: Some(sandbox(&report.jail)),
        limits: Some(limits(&report.limits)),
        started_at: Some(report.at.into()),
        cwd: report.cwd.clone(),
        notes: report.notes.clone(),
    }
}

fn sandbox(jail: &JailReport) -> pb::AppliedSandbox {
    let identity = match jail.identity {
        Identity::Caller { .. } => "caller",
        Identity::Ephemeral { .. } => "ephemeral",
        Identity::RootWithoutCapabilities => "root-without-capabilities",
    };
    pb::AppliedSandbox {
        profile: jail.profile.clone(),
        profile_digest: jail.digest.clone(),
        tier: tier(jail.tier).into(),
        layers: jail.layers.iter().map(ToString::to_string).collect(),
        degraded: jail
            .degraded
            .iter()
            .map(|absent| pb::Degradation {
                layer: absent.layer.to_string(),
                guarantee: absent.guarantee.clone(),
                reason: absent.reason.clone(),
            })
            .collect(),
        landlock_abi: jail.landlock_abi,
        uid: jail.uid,
        identity: identity.to_owned(),
        cgroup: jail.cgroup.clone(),
    }
}

/// A tier.
pub(super) fn tier(tier: Tier) -> pb::Tier {
    match tier {
        Tier::Nested => pb::Tier::Nested,
        Tier::Rootless => pb::Tier::Rootless,
        Tier::HostRoot => pb::Tier::HostRoot,
    }
}

fn limits(limits: &Limits) -> pb::EffectiveLimits {
    pb::EffectiveLimits {
        timeout: Some(millis(limits.timeout_ms)),
        idle_timeout: limits.idle_timeout_ms.map(millis),
        kill_grace: Some(millis(limits.kill_grace_ms)),
        cpu_seconds: limits.cpu_seconds,
        memory_bytes: limits.memory_bytes,
        pids: limits.pids,
        file_size_bytes: limits.file_size_bytes,
        open_files: Some(limits.open_files),
        output_bytes: limits.output_bytes,
        disk_bytes: limits.disk_bytes,
    }
}

/// The end of an execution.
pub(super) fn result(end: &ExitResult) -> pb::ExitResult {
    pb::ExitResult {
        reason: reason(end.reason).into(),
        exit_code: end.exit_code,
        signal: end.signal,
        signal_name: end.signal.map(signal_name).unwrap_or_default(),
        started_at: end.started_at.map(timestamp),
        duration: Some(duration(end.duration)),
        usage: Some(usage(end.usage)),
        stdout_bytes: end.stdout_bytes,
        stderr_bytes: end.stderr_bytes,
        dropped_bytes: end.dropped_bytes,
        output_complete: end.output_complete,
        leftover_processes: end.leftover,
        cwd: end.cwd.clone(),
        denials: end.denials.iter().map(denial).collect(),
        setup_failure: end.setup.as_ref().map(setup_failure),
        blocked: end.blocked.as_ref().map(blocked),
        notes: end.notes.clone(),
        limits_hit: end.hits.iter().map(hit).collect(),
        tree_proven_empty: end.proven,
        pipes_held: end.pipes_held,
        output_file: end.output_file.as_ref().map(|file| pb::OutputFile {
            path: file.path.clone(),
            bytes: file.bytes,
            missing_bytes: file.missing,
        }),
    }
}

fn reason(reason: ExitReason) -> pb::ExitReason {
    match reason {
        ExitReason::Exited => pb::ExitReason::Exited,
        ExitReason::Signaled => pb::ExitReason::Signaled,
        ExitReason::Timeout => pb::ExitReason::Timeout,
        ExitReason::IdleTimeout => pb::ExitReason::IdleTimeout,
        ExitReason::Cancelled => pb::ExitReason::Cancelled,
        ExitReason::OutputLimit => pb::ExitReason::OutputLimit,
        ExitReason::OomKilled => pb::ExitReason::OomKilled,
        ExitReason::CpuLimit => pb::ExitReason::CpuLimit,
        ExitReason::DiskLimit => pb::ExitReason::DiskLimit,
        ExitReason::SetupFailed => pb::ExitReason::SetupFailed,
        ExitReason::Blocked => pb::ExitReason::Blocked,
        ExitReason::Disconnected => pb::ExitReason::Disconnected,
        ExitReason::Drained => pb::ExitReason::Drained,
        ExitReason::Lost => pb::ExitReason::Lost,
    }
}

fn usage(usage: Usage) -> pb::ResourceUsage {
    pb::ResourceUsage {
        user_time: Some(duration(Duration::from_micros(usage.user_us))),
        system_time: Some(duration(Duration::from_micros(usage.system_us))),
        max_rss_bytes: usage.max_rss_bytes,
        peak_memory_bytes: usage.peak_memory_bytes,
        peak_pids: usage.peak_pids,
    }
}

fn hit(hit: &LimitHit) -> pb::LimitHit {
    let limit = match hit.limit {
        LimitKind::Wall => pb::LimitKind::Wall,
        LimitKind::Idle => pb::LimitKind::Idle,
        LimitKind::Output => pb::LimitKind::Output,
        LimitKind::Watched(watched) => match watched {
            monitor::LimitKind::Cpu => pb::LimitKind::Cpu,
            monitor::LimitKind::Memory => pb::LimitKind::Memory,
            monitor::LimitKind::Pids => pb::LimitKind::Pids,
            monitor::LimitKind::FileSize => pb::LimitKind::FileSize,
            monitor::LimitKind::Disk => pb::LimitKind::Disk,
        },
    };
    pb::LimitHit {
        limit: limit.into(),
        count: hit.count,
        evidence: hit.evidence.clone(),
    }
}

fn denial(denial: &Denial) -> pb::Denial {
    let source = match denial.source {
        DenialSource::Kernel => pb::DenialSource::Kernel,
        DenialSource::Inferred => pb::DenialSource::Inferred,
    };
    pb::Denial {
        access: denial.access.to_owned(),
        path: denial.path.clone(),
        port: denial.port.into(),
        syscall: String::new(),
        layer: denial.layer.clone(),
        rule: denial.rule.clone(),
        source: source.into(),
        text: denial.text.clone(),
    }
}

fn setup_failure(failure: &SetupFailure) -> pb::SetupFailure {
    pb::SetupFailure {
        kind: setup_kind(failure).into(),
        stage: failure.stage.clone(),
        errno: failure.errno,
        errno_name: errno_name(failure.errno),
    }
}

fn setup_kind(failure: &SetupFailure) -> pb::setup_failure::Kind {
    use pb::setup_failure::Kind;
    let errno = Errno::from_raw(failure.errno);
    match (failure.stage.as_str(), errno) {
        (_, Errno::EAGAIN | Errno::ENOMEM | Errno::EMFILE | Errno::ENFILE) => Kind::ResourceLimit,
        ("cwd", _) => Kind::BadCwd,
        ("exec", Errno::ENOENT | Errno::ENOTDIR) => Kind::NotFound,
        ("exec", Errno::EACCES | Errno::EPERM) => Kind::PermissionDenied,
        ("exec", Errno::ENOEXEC | Errno::EISDIR | Errno::ELIBBAD) => Kind::NotExecutable,
        _ => Kind::Jail,
    }
}

/// A blacklist hit.
pub(super) fn blocked(blocked: &Blocked) -> pb::Blocked {
    pb::Blocked {
        rule: blocked.rule.clone(),
        matched: blocked.matched.clone(),
        reason: blocked.reason.clone(),
    }
}

/// Symbolic name of an errno, such as `ENOENT`.
pub(super) fn errno_name(errno: i32) -> String {
    format!("{:?}", Errno::from_raw(errno))
}

/// Name of a signal, such as `SIGKILL`; for a real-time signal its number.
pub(super) fn signal_name(signal: i32) -> String {
    Signal::try_from(signal).map_or_else(|_| format!("SIG{signal}"), |s| s.as_str().to_owned())
}

/// A duration; one too long for the wire becomes its longest.
pub(super) fn duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration::try_from(duration).unwrap_or(prost_types::Duration {
        seconds: i64::MAX,
        nanos: 0,
    })
}

fn millis(millis: u64) -> prost_types::Duration {
    duration(Duration::from_millis(millis))
}

fn timestamp(at: SystemTime) -> prost_types::Timestamp {
    at.into()
}

#[cfg(test)]
mod tests {
    use pb::setup_failure::Kind;

    use super::*;

    #[test]
    fn a_program_that_does_not_start_is_told_apart_from_a_jail_that_does_not() {
        let table = [
            ("exec", Errno::ENOENT, Kind::NotFound),
            ("exec", Errno::EACCES, Kind::PermissionDenied),
            ("exec", Errno::ENOEXEC, Kind::NotExecutable),
            ("cwd", Errno::ENOENT, Kind::BadCwd),
            ("fork", Errno::EAGAIN, Kind::ResourceLimit),
            ("mount", Errno::EPERM, Kind::Jail),
            ("landlock", Errno::ENOENT, Kind::Jail),
        ];
        for (stage, errno, kind) in table {
            let failure = SetupFailure {
                stage: stage.to_owned(),
                errno: errno as i32,
                detail: String::new(),
            };
            assert_eq!(setup_kind(&failure), kind, "{stage} {errno}");
        }
        assert_eq!(errno_name(2), "ENOENT");
    }

    #[test]
    fn an_end_without_exit_code_never_reads_as_zero() {
        let wire = result(&ExitResult::without_run(ExitReason::Lost));
        assert_eq!((wire.exit_code, wire.signal), (None, None));
        assert_eq!(wire.reason(), pb::ExitReason::Lost);
    }

    #[test]
    fn signals_have_names() {
        assert_eq!(signal_name(9), "SIGKILL");
        assert_eq!(signal_name(40), "SIG40");
    }
}
