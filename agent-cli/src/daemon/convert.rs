//! From `agentd.v1` messages to this crate's values. Pure. An enum value this client does not know becomes
//! the nearest one that promises nothing.

use std::time::Duration;

use agentd_proto::v1;

use super::{
    Blocked, Capability, Degradation, Denial, ExitReason, LimitHit, Limits, Outcome, OutputFile,
    ProfileInfo, Sandbox, ServerInfo, SetupFailure, Started,
};

pub(super) fn started(message: v1::Started) -> Option<Started> {
    Some(Started {
        sandbox: sandbox(message.sandbox?),
        limits: limits(message.limits.unwrap_or_default()),
        cwd: message.cwd,
        notes: message.notes,
    })
}

fn sandbox(message: v1::AppliedSandbox) -> Sandbox {
    Sandbox {
        tier: tier(message.tier()),
        profile: message.profile,
        digest: message.profile_digest,
        layers: message.layers,
        degraded: message.degraded.into_iter().map(degradation).collect(),
        landlock_abi: message.landlock_abi,
        uid: message.uid,
        identity: message.identity,
        cgroup: message.cgroup,
    }
}

fn degradation(message: v1::Degradation) -> Degradation {
    Degradation {
        layer: message.layer,
        guarantee: message.guarantee,
        reason: message.reason,
    }
}

/// The short name of a tier.
fn tier(tier: v1::Tier) -> &'static str {
    match tier {
        v1::Tier::Unspecified => "unknown",
        v1::Tier::Nested => "T1",
        v1::Tier::Rootless => "T2",
        v1::Tier::HostRoot => "T3",
    }
}

pub(super) fn limits(message: v1::EffectiveLimits) -> Limits {
    Limits {
        timeout_ms: message.timeout.map(millis),
        idle_timeout_ms: message.idle_timeout.map(millis),
        kill_grace_ms: message.kill_grace.map(millis),
        cpu_seconds: message.cpu_seconds,
        memory_bytes: message.memory_bytes,
        pids: message.pids,
        file_size_bytes: message.file_size_bytes,
        open_files: message.open_files,
        output_bytes: message.output_bytes,
        disk_bytes: message.disk_bytes,
    }
}

fn denial(message: v1::Denial) -> Denial {
    Denial {
        source: match message.source() {
            v1::DenialSource::Kernel => "kernel",
            // A guess is the weaker claim.
            v1::DenialSource::Inferred | v1::DenialSource::Unspecified => "inferred",
        },
        layer: message.layer,
        access: message.access,
        path: Some(message.path).filter(|path| !path.is_empty()),
        port: Some(message.port).filter(|port| *port != 0),
        syscall: Some(message.syscall).filter(|name| !name.is_empty()),
        rule: message.rule,
        text: message.text,
    }
}

pub(super) fn outcome(message: v1::ExitResult) -> Outcome {
    Outcome {
        reason: reason(message.reason()),
        exit_code: message.exit_code,
        signal: message.signal,
        signal_name: message.signal_name,
        duration_ms: message.duration.map_or(0, millis),
        stdout_bytes: message.stdout_bytes,
        stderr_bytes: message.stderr_bytes,
        leftover_processes: message.leftover_processes,
        cwd: message.cwd,
        denials: message.denials.into_iter().map(denial).collect(),
        setup_failure: message.setup_failure.map(setup_failure),
        blocked: message.blocked.map(blocked),
        notes: message.notes,
        limits_hit: message.limits_hit.into_iter().map(limit_hit).collect(),
        proven: message.tree_proven_empty,
        output_file: message.output_file.map(|file| OutputFile {
            path: file.path,
            bytes: file.bytes,
            missing_bytes: file.missing_bytes,
        }),
    }
}

fn limit_hit(message: v1::LimitHit) -> LimitHit {
    LimitHit {
        limit: match message.limit() {
            v1::LimitKind::Wall => "wall",
            v1::LimitKind::Idle => "idle",
            v1::LimitKind::Cpu => "cpu",
            v1::LimitKind::Memory => "memory",
            v1::LimitKind::Pids => "pids",
            v1::LimitKind::FileSize => "file-size",
            v1::LimitKind::Disk => "disk",
            v1::LimitKind::Output => "output",
            v1::LimitKind::Unspecified => "unknown",
        },
        count: message.count,
        evidence: message.evidence,
    }
}

pub(super) fn reason(reason: v1::ExitReason) -> ExitReason {
    match reason {
        v1::ExitReason::Exited => ExitReason::Exited,
        v1::ExitReason::Signaled => ExitReason::Signaled,
        v1::ExitReason::Timeout => ExitReason::Timeout,
        v1::ExitReason::IdleTimeout => ExitReason::IdleTimeout,
        v1::ExitReason::Cancelled => ExitReason::Cancelled,
        v1::ExitReason::OomKilled => ExitReason::OomKilled,
        v1::ExitReason::OutputLimit => ExitReason::OutputLimit,
        v1::ExitReason::CpuLimit => ExitReason::CpuLimit,
        v1::ExitReason::DiskLimit => ExitReason::DiskLimit,
        v1::ExitReason::SandboxKilled => ExitReason::SandboxKilled,
        v1::ExitReason::SetupFailed => ExitReason::SetupFailed,
        v1::ExitReason::Blocked => ExitReason::Blocked,
        v1::ExitReason::Disconnected => ExitReason::Disconnected,
        v1::ExitReason::Drained => ExitReason::Drained,
        v1::ExitReason::Lost | v1::ExitReason::Unspecified => ExitReason::Lost,
    }
}

fn setup_failure(message: v1::SetupFailure) -> SetupFailure {
    use v1::setup_failure::Kind;
    SetupFailure {
        kind: match message.kind() {
            Kind::Jail | Kind::Unspecified => "jail",
            Kind::NotFound => "not-found",
            Kind::PermissionDenied => "permission-denied",
            Kind::NotExecutable => "not-executable",
            Kind::BadCwd => "bad-cwd",
            Kind::ResourceLimit => "resource-limit",
        },
        stage: message.stage,
        errno: message.errno,
        errno_name: message.errno_name,
    }
}

fn blocked(message: v1::Blocked) -> Blocked {
    Blocked {
        rule: message.rule,
        matched: message.matched,
        reason: message.reason,
    }
}

pub(super) fn server_info(message: v1::GetServerInfoResponse) -> ServerInfo {
    ServerInfo {
        tier: tier(message.tier()),
        version: message.version,
        generation: message.generation,
        kernel: message.kernel,
        landlock_abi: message.landlock_abi,
        default_profile: message.default_profile,
        default_timeout_ms: message.default_timeout.map(millis),
        max_timeout_ms: message.max_timeout.map(millis),
        capabilities: message
            .capabilities
            .into_iter()
            .map(|capability| Capability {
                name: capability.name,
                available: capability.available,
                detail: capability.detail,
            })
            .collect(),
    }
}

pub(super) fn profile(message: v1::Profile) -> ProfileInfo {
    ProfileInfo {
        minimum_tier: tier(message.minimum_tier()),
        name: message.name,
        description: message.description,
        digest: message.digest,
        available: message.available,
        unavailable_reason: message.unavailable_reason,
        is_default: message.is_default,
    }
}

/// Milliseconds of a wire duration; negative and absurd ones become 0 and the maximum.
fn millis(duration: prost_types::Duration) -> u64 {
    let seconds = u64::try_from(duration.seconds).unwrap_or(0);
    let nanos = u64::try_from(duration.nanos).unwrap_or(0);
    seconds
        .saturating_mul(1_000)
        .saturating_add(nanos.div_euclid(1_000_000))
}

/// A duration of the wire, to the millisecond.
pub(super) fn local_duration(duration: prost_types::Duration) -> Duration {
    Duration::from_millis(millis(duration))
}

/// A wire duration.
pub(super) fn wire_duration(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::{ExitReason, millis, outcome, wire_duration};
    use agentd_proto::v1;
    use std::time::Duration;

    #[test]
    fn durations_survive_the_wire() {
        for duration in [0, 1, 999, 120_000, 86_400_000].map(Duration::from_millis) {
            assert_eq!(
                Duration::from_millis(millis(wire_duration(duration))),
                duration
            );
        }
        let broken = prost_types::Duration {
            seconds: -1,
            nanos: -1,
        };
        assert_eq!(millis(broken), 0);
    }

    #[test]
    fn an_end_without_a_reason_is_unknown_and_not_a_success() {
        let empty = outcome(v1::ExitResult::default());
        assert_eq!(empty.reason, ExitReason::Lost);
        assert_eq!(empty.exit_code, None);
    }

    #[test]
    fn absent_parts_of_a_denial_stay_absent() {
        let result = v1::ExitResult {
            denials: vec![v1::Denial {
                path: "/etc/shadow".into(),
                ..v1::Denial::default()
            }],
            ..v1::ExitResult::default()
        };
        let denials = outcome(result).denials;
        assert_eq!(denials[0].path.as_deref(), Some("/etc/shadow"));
        assert_eq!(denials[0].port, None);
        assert_eq!(denials[0].syscall, None);
        assert_eq!(denials[0].source, "inferred");
    }
}
