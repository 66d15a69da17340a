//! Naming the limits that a command ran into, from what the kernel counted. Pure: nothing is guessed
//! from an exit code.

use super::lifecycle::End;
use crate::{
    cgroup::Counters,
    monitor::{Cause, LeaderStatus, LimitHit, LimitKind, Usage},
    policy::Limits,
};

/// What is known at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known<'a> {
    /// Limits of the execution.
    pub(crate) limits: &'a Limits,
    /// What its group counted; all zero without one.
    pub(crate) counters: &'a Counters,
    /// Bytes by which file systems grew, where that is limited.
    pub(crate) growth: Option<u64>,
}

/// The hits, one per limit.
pub(crate) fn name(end: &End, known: Known<'_>) -> Vec<LimitHit> {
    [
        cpu(end, known).or_else(|| cpu_of_another(end, known)),
        memory(known.counters),
        pids(known.counters),
        file_size(end.status, known.limits).or_else(|| file_size_of_another(end, known)),
        disk(end, known),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The resource use with what the group counted.
pub(crate) fn usage(usage: Usage, counters: &Counters) -> Usage {
    let reaped = usage.user_us.saturating_add(usage.system_us);
    // Processes that nobody waited for are only in the group's count.
    let unseen = counters.cpu_us.unwrap_or(0).saturating_sub(reaped);
    Usage {
        user_us: usage.user_us.saturating_add(unseen),
        peak_memory_bytes: counters.peak_memory_bytes,
        peak_pids: counters.peak_pids,
        ..usage
    }
}

fn hit(limit: LimitKind, count: u64, evidence: String) -> Option<LimitHit> {
    (count > 0).then_some(LimitHit {
        limit,
        count,
        evidence,
    })
}

fn signaled_by(status: LeaderStatus, wanted: i32) -> bool {
    match status {
        LeaderStatus::Signaled { signal, .. } => signal == wanted,
        LeaderStatus::Exited(_) | LeaderStatus::Unknown => false,
    }
}

/// Of the CPU time that the kernel counts by ticks before it sends SIGXCPU, so much shows at least in what
/// it counts exactly: a command can send itself that signal at any time.
const SEEN_BY_TICKS: (u64, u64) = (3, 4);

fn cpu(end: &End, known: Known<'_>) -> Option<LimitHit> {
    let seconds = known.limits.cpu_seconds?;
    let budget = seconds.saturating_mul(1_000_000);
    let Counters {
        cpu_us, cpu_file, ..
    } = known.counters;
    let evidence = match cpu_us.filter(|used| *used >= budget) {
        Some(used) => format!("{cpu_file}: {used} us of {budget}"),
        None => per_process(end, budget)?,
    };
    hit(LimitKind::Cpu, 1, evidence)
}

/// A process other than the leader, which nobody of the command waited for.
fn cpu_of_another(end: &End, known: Known<'_>) -> Option<LimitHit> {
    let budget = known.limits.cpu_seconds?.saturating_mul(1_000_000);
    let used = end.usage.user_us.saturating_add(end.usage.system_us);
    // Anybody can send the signal; only who used as much can have been sent it by the kernel.
    let count = if used >= budget { end.ends.cpu } else { 0 };
    let evidence = "SIGXCPU, of a process that was not the leader".to_owned();
    hit(LimitKind::Cpu, u64::from(count), evidence)
}

/// As [`cpu_of_another`].
fn file_size_of_another(end: &End, known: Known<'_>) -> Option<LimitHit> {
    known.limits.file_size_bytes?;
    let evidence = "SIGXFSZ, of a process that was not the leader".to_owned();
    hit(LimitKind::FileSize, u64::from(end.ends.file_size), evidence)
}

/// The kernel's word to a process at its own limit, and its last to one that ignores it.
fn per_process(end: &End, budget: u64) -> Option<String> {
    let (of, all) = SEEN_BY_TICKS;
    let (signal, least) = if signaled_by(end.status, libc::SIGXCPU) {
        ("SIGXCPU", budget.saturating_mul(of).checked_div(all)?)
    } else if signaled_by(end.status, libc::SIGKILL) && end.cause == Cause::Leader {
        ("SIGKILL", budget)
    } else {
        return None;
    };
    let used = end.usage.user_us.saturating_add(end.usage.system_us);
    (used >= least).then(|| format!("{signal} after {used} us of CPU time of {budget}"))
}

fn memory(counters: &Counters) -> Option<LimitHit> {
    let file = counters.oom_file;
    let evidence = if counters.memory_limit_reached > 0 {
        format!("{file} oom_kill")
    } else {
        // Not the command's own limit: the host's memory, or that of a group around the daemon.
        format!("{file} oom_kill, of a group around the command's or of the host")
    };
    hit(LimitKind::Memory, counters.oom_kills, evidence)
}

fn pids(counters: &Counters) -> Option<LimitHit> {
    let whose = match counters.pids_limit_reached {
        Some(true) => "",
        Some(false) => ", of a group around the command's",
        None => ", of the command's group or of one around it",
    };
    let evidence = format!("pids.events max{whose}");
    hit(LimitKind::Pids, counters.refused_forks, evidence)
}

/// The kernel leaves no other trace of it than the signal.
fn file_size(status: LeaderStatus, limits: &Limits) -> Option<LimitHit> {
    let bytes = limits.file_size_bytes?;
    let count = u64::from(signaled_by(status, libc::SIGXFSZ));
    let evidence = format!("SIGXFSZ: a file was to grow past {bytes} bytes");
    hit(LimitKind::FileSize, count, evidence)
}

fn disk(end: &End, known: Known<'_>) -> Option<LimitHit> {
    let budget = known.limits.disk_bytes?;
    let growth = known.growth.unwrap_or(0);
    let passed = growth > budget || end.cause == Cause::Limit(LimitKind::Disk);
    let evidence =
        format!("the writable file systems grew by {growth} bytes of {budget} (statvfs)");
    hit(LimitKind::Disk, u64::from(passed), evidence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::LimitEnds;

    const NO_LIMITS: Limits = Limits {
        timeout_ms: 1,
        idle_timeout_ms: None,
        kill_grace_ms: 1,
        cpu_seconds: None,
        memory_bytes: None,
        pids: None,
        file_size_bytes: None,
        open_files: 1,
        output_bytes: None,
        disk_bytes: None,
    };

    fn end(cause: Cause, status: LeaderStatus) -> End {
        End {
            cause,
            status,
            leftover: 0,
            usage: Usage::default(),
            ends: LimitEnds::default(),
            proven: true,
        }
    }

    fn signaled(signal: i32) -> LeaderStatus {
        LeaderStatus::Signaled {
            signal,
            core: false,
        }
    }

    fn named(end: &End, limits: Limits, counters: Counters) -> Vec<(LimitKind, u64, String)> {
        let known = Known {
            limits: &limits,
            counters: &counters,
            growth: limits.disk_bytes.map(|bytes| bytes.saturating_add(1)),
        };
        name(end, known)
            .into_iter()
            .map(|hit| (hit.limit, hit.count, hit.evidence))
            .collect()
    }

    #[test]
    fn a_kill_or_its_exit_code_alone_is_no_limit() {
        for status in [
            signaled(libc::SIGKILL),
            LeaderStatus::Exited(137),
            LeaderStatus::Exited(152),
            LeaderStatus::Exited(153),
            LeaderStatus::Unknown,
            // What anybody can send: nothing was used up, and no file size is limited.
            signaled(libc::SIGXCPU),
            signaled(libc::SIGXFSZ),
            signaled(libc::SIGSYS),
        ] {
            let limits = Limits {
                cpu_seconds: Some(3),
                memory_bytes: Some(1 << 20),
                pids: Some(3),
                ..NO_LIMITS
            };
            let counters = Counters {
                cpu_us: Some(2_999_999),
                // Page cache was given back.
                memory_limit_reached: 9,
                ..Counters::default()
            };
            let hits = named(&end(Cause::Leader, status), limits, counters);
            assert_eq!(hits, [], "{status:?}");
        }
    }

    #[test]
    fn every_limit_is_named_with_its_proof() {
        let counters = Counters {
            oom_kills: 2,
            memory_limit_reached: 1,
            oom_file: "memory.events",
            refused_forks: 7,
            pids_limit_reached: Some(true),
            cpu_us: Some(3_000_000),
            cpu_file: "cpu.stat",
            ..Counters::default()
        };
        let limits = Limits {
            cpu_seconds: Some(3),
            file_size_bytes: Some(4096),
            disk_bytes: Some(100),
            ..NO_LIMITS
        };
        let hits = named(
            &end(Cause::Leader, signaled(libc::SIGXFSZ)),
            limits,
            counters,
        );
        let expected = [
            (LimitKind::Cpu, 1, "cpu.stat: 3000000 us of 3000000"),
            (LimitKind::Memory, 2, "memory.events oom_kill"),
            (LimitKind::Pids, 7, "pids.events max"),
            (
                LimitKind::FileSize,
                1,
                "SIGXFSZ: a file was to grow past 4096 bytes",
            ),
            (
                LimitKind::Disk,
                1,
                "the writable file systems grew by 101 bytes of 100 (statvfs)",
            ),
        ];
        let expected = expected.map(|(kind, count, text)| (kind, count, text.to_owned()));
        assert_eq!(hits, expected);
    }

    #[test]
    fn an_oom_kill_without_the_own_limit_says_so() {
        let counters = Counters {
            oom_kills: 1,
            oom_file: "memory.events",
            ..Counters::default()
        };
        let hits = named(
            &end(Cause::Leader, signaled(libc::SIGKILL)),
            NO_LIMITS,
            counters,
        );
        assert_eq!(hits.len(), 1);
        assert!(hits[0].2.ends_with("of the host"), "{hits:?}");
    }

    #[test]
    fn a_refused_fork_without_the_own_limit_says_so() {
        for (own, expected) in [
            (Some(true), "pids.events max"),
            (
                Some(false),
                "pids.events max, of a group around the command's",
            ),
            (
                None,
                "pids.events max, of the command's group or of one around it",
            ),
        ] {
            let counters = Counters {
                refused_forks: 2,
                pids_limit_reached: own,
                ..Counters::default()
            };
            let ended = end(Cause::Leader, LeaderStatus::Exited(0));
            let hits = named(&ended, NO_LIMITS, counters);
            assert_eq!(hits, [(LimitKind::Pids, 2, expected.to_owned())]);
        }
    }

    #[test]
    fn the_per_process_cpu_limit_is_told_by_its_signals_and_the_time_used() {
        let limits = Limits {
            cpu_seconds: Some(2),
            ..NO_LIMITS
        };
        let with = |status, user_us| End {
            usage: Usage {
                user_us,
                ..Usage::default()
            },
            ..end(Cause::Leader, status)
        };
        for (status, user_us, is_hit) in [
            (signaled(libc::SIGXCPU), 1_000, false),
            (signaled(libc::SIGXCPU), 1_499_999, false),
            // Ticks and the exact count differ a little.
            (signaled(libc::SIGXCPU), 1_900_000, true),
            (signaled(libc::SIGXCPU), 2_000_000, true),
            (signaled(libc::SIGKILL), 4_000_000, true),
            (signaled(libc::SIGKILL), 1_999_999, false),
            (signaled(libc::SIGTERM), 4_000_000, false),
            (LeaderStatus::Exited(0), 4_000_000, false),
        ] {
            let hits = named(&with(status, user_us), limits, Counters::default());
            assert_eq!(hits.len(), usize::from(is_hit), "{status:?} {user_us}");
        }
    }

    #[test]
    fn a_limit_that_ended_another_process_is_named_where_there_is_one() {
        let ends = LimitEnds {
            cpu: 2,
            file_size: 3,
        };
        let limited = Limits {
            cpu_seconds: Some(1),
            file_size_bytes: Some(1),
            ..NO_LIMITS
        };
        let cpu = (LimitKind::Cpu, 2);
        let file_size = (LimitKind::FileSize, 3);
        for (limits, user_us, expected) in [
            (limited, 1_000_000, &[cpu, file_size][..]),
            // Somebody of the command sent the signal.
            (limited, 999_999, &[file_size]),
            (NO_LIMITS, 1_000_000, &[]),
        ] {
            let usage = Usage {
                user_us,
                ..Usage::default()
            };
            let end = End {
                usage,
                ends,
                ..end(Cause::Leader, LeaderStatus::Exited(0))
            };
            let hits = named(&end, limits, Counters::default());
            let hits: Vec<_> = hits.iter().map(|hit| (hit.0, hit.1)).collect();
            assert_eq!(hits, expected);
        }
    }

    #[test]
    fn cpu_time_nobody_waited_for_is_added_and_nothing_is_taken_away() {
        let reaped = Usage {
            user_us: 100,
            system_us: 50,
            ..Usage::default()
        };
        for (counted, user_us) in [(None, 100), (Some(120), 100), (Some(400), 350)] {
            let counters = Counters {
                cpu_us: counted,
                ..Counters::default()
            };
            assert_eq!(usage(reaped, &counters).user_us, user_us, "{counted:?}");
        }
    }
}
