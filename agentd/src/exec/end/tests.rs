//! Every cause and status has its reason; every limit is named.

use super::*;

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_cause_and_status_has_its_reason() {
    let signaled = |signal: Signal| LeaderStatus::Signaled {
        signal: signal as i32,
        core: false,
    };
    let table = [
        (Cause::Leader, LeaderStatus::Exited(0), ExitReason::Exited),
        (Cause::Leader, LeaderStatus::Exited(152), ExitReason::Exited),
        (
            Cause::Leader,
            signaled(Signal::SIGSEGV),
            ExitReason::Signaled,
        ),
        (
            Cause::Leader,
            signaled(Signal::SIGKILL),
            ExitReason::Signaled,
        ),
        (
            Cause::Leader,
            signaled(Signal::SIGXCPU),
            ExitReason::Signaled,
        ),
        (
            Cause::Leader,
            signaled(Signal::SIGXFSZ),
            ExitReason::Signaled,
        ),
        (
            Cause::Leader,
            signaled(Signal::SIGSYS),
            ExitReason::Signaled,
        ),
        (
            Cause::Leader,
            LeaderStatus::Signaled {
                signal: 40,
                core: false,
            },
            ExitReason::Signaled,
        ),
        (Cause::Leader, LeaderStatus::Unknown, ExitReason::Lost),
        (Cause::Timeout, LeaderStatus::Exited(0), ExitReason::Timeout),
        (
            Cause::Timeout,
            signaled(Signal::SIGKILL),
            ExitReason::Timeout,
        ),
        (
            Cause::Stopped(StopReason::Cancelled),
            signaled(Signal::SIGTERM),
            ExitReason::Cancelled,
        ),
        (
            Cause::Stopped(StopReason::OutputLimit),
            signaled(Signal::SIGSYS),
            ExitReason::OutputLimit,
        ),
        (Cause::InitDied, LeaderStatus::Unknown, ExitReason::Lost),
    ];
    for (cause, status, expected) in table {
        assert_eq!(
            ExitReason::decide(cause, status, &[]),
            expected,
            "{cause:?} {status:?}"
        );
    }
}

fn watched(limit: monitor::LimitKind) -> monitor::LimitHit {
    monitor::LimitHit {
        limit,
        count: 2,
        evidence: "counter".to_owned(),
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_signal_is_named_only_with_proof_and_only_when_it_hit_the_leader() {
    use monitor::LimitKind::{Cpu, FileSize, Memory, Pids};
    let by = |signal: Signal| LeaderStatus::Signaled {
        signal: signal as i32,
        core: false,
    };
    let (killed, xcpu, xfsz) = (
        by(Signal::SIGKILL),
        by(Signal::SIGXCPU),
        by(Signal::SIGXFSZ),
    );
    let cancelled = Cause::Stopped(StopReason::Cancelled);
    for (cause, status, hits, expected) in [
        // Who was killed for want of memory is the launcher's to say; a child was, and the leader later.
        (Cause::Leader, killed, &[Memory][..], ExitReason::Signaled),
        (
            Cause::Limit(Memory),
            killed,
            &[Memory],
            ExitReason::OomKilled,
        ),
        (Cause::Leader, killed, &[Cpu], ExitReason::CpuLimit),
        (Cause::Leader, killed, &[Cpu, Memory], ExitReason::CpuLimit),
        (Cause::Leader, killed, &[Pids], ExitReason::Signaled),
        (Cause::Leader, killed, &[], ExitReason::Signaled),
        (Cause::Leader, xcpu, &[Cpu], ExitReason::CpuLimit),
        (
            Cause::Leader,
            xcpu,
            &[FileSize, Memory],
            ExitReason::Signaled,
        ),
        (Cause::Leader, xfsz, &[FileSize], ExitReason::DiskLimit),
        (Cause::Leader, xfsz, &[Cpu], ExitReason::Signaled),
        (
            Cause::Leader,
            by(Signal::SIGSYS),
            &[Cpu],
            ExitReason::Signaled,
        ),
        // A child was killed; what the leader made of it is its own end.
        (
            Cause::Leader,
            LeaderStatus::Exited(137),
            &[Memory],
            ExitReason::Exited,
        ),
        (
            Cause::Leader,
            LeaderStatus::Exited(0),
            &[Memory],
            ExitReason::Exited,
        ),
        // Somebody of us sent the KILL.
        (cancelled, killed, &[Memory], ExitReason::Cancelled),
        (Cause::Timeout, killed, &[Memory], ExitReason::Timeout),
        (
            Cause::Limit(Cpu),
            LeaderStatus::Exited(0),
            &[Cpu],
            ExitReason::CpuLimit,
        ),
    ] {
        let hits: Vec<_> = hits.iter().map(|limit| watched(*limit)).collect();
        assert_eq!(
            ExitReason::decide(cause, status, &hits),
            expected,
            "{cause:?} {status:?} {hits:?}"
        );
    }
}

#[test]
fn limits_of_ours_are_named_beside_those_of_the_kernel() {
    let named = |cause| -> Vec<_> {
        let all = hits(cause, vec![watched(monitor::LimitKind::Pids)]);
        all.into_iter().map(|hit| (hit.limit, hit.count)).collect()
    };
    let pids = (LimitKind::Watched(monitor::LimitKind::Pids), 2);
    for (cause, own) in [
        (Cause::Leader, None),
        (Cause::Timeout, Some(LimitKind::Wall)),
        (
            Cause::Stopped(StopReason::IdleTimeout),
            Some(LimitKind::Idle),
        ),
        (
            Cause::Stopped(StopReason::OutputLimit),
            Some(LimitKind::Output),
        ),
        (Cause::Stopped(StopReason::Cancelled), None),
        (Cause::Limit(monitor::LimitKind::Cpu), None),
    ] {
        let expected: Vec<_> = own
            .map(|limit| (limit, 1))
            .into_iter()
            .chain([pids])
            .collect();
        assert_eq!(named(cause), expected, "{cause:?}");
    }
}
