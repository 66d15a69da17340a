//! The compiled program decides what the table says, for every number, ABI and argument edge.

use proptest::prelude::*;

use super::{
    compile::{NATIVE_ARCH, X32_FIRST},
    table::{CREATES, INET, INET6, MPTCP, NETLINK, NETLINK_ROUTE, PROTOCOL_REFUSED, SET_ID},
    *,
};
use crate::policy::{NetMode, SyscallBase, Tier};

fn contexts() -> Vec<Context> {
    let mut all = Vec::new();
    for base in [SyscallBase::Dev, SyscallBase::Strict] {
        for tier in [Tier::Nested, Tier::Rootless, Tier::HostRoot] {
            for net in [NetMode::None, NetMode::Host] {
                all.push(Context { base, tier, net });
            }
        }
    }
    all
}

/// The table, read directly: the oracle for the compiled program.
fn expected(rules: &[Rule], call: &Call) -> Action {
    if call.arch != NATIVE_ARCH {
        return Action::Kill;
    }
    if cfg!(target_arch = "x86_64") && call.number >= X32_FIRST {
        return Action::Errno(38);
    }
    let low = |arg: u8| u32::try_from(call.args[usize::from(arg)] & 0xffff_ffff).unwrap();
    let Some(rule) = rules.iter().find(|rule| rule.number == call.number) else {
        return Action::Allow;
    };
    let refused = match &rule.check {
        ArgCheck::Always => true,
        ArgCheck::AnyBit { arg, mask } => low(*arg) & mask != 0,
        ArgCheck::OneOf { arg, values } => values.contains(&low(*arg)),
        ArgCheck::NoneOf { arg, values } => !values.contains(&low(*arg)),
        ArgCheck::NotSelf { kind, which, user } => low(*which) != 0 || low(*kind) == *user,
        ArgCheck::CreateMode { flags, mode } => {
            low(*flags) & CREATES != 0 && low(*mode) & SET_ID != 0
        }
        ArgCheck::Socket { families, refused } => {
            let (family, protocol) = (low(0), low(2));
            if !families.contains(&family) || (family == NETLINK && protocol != NETLINK_ROUTE) {
                return Action::Errno(*refused);
            }
            if [INET, INET6].contains(&family) && protocol == MPTCP {
                return Action::Errno(PROTOCOL_REFUSED);
            }
            false
        }
    };
    if refused { rule.action } else { Action::Allow }
}

#[test]
fn every_number_on_every_architecture_gets_the_tables_verdict() {
    for context in contexts() {
        let (table, program) = (rules(context), compile(context));
        for arch in [NATIVE_ARCH, 0x4000_0003, 0xc000_00b7, 0] {
            for number in (0..700)
                .chain(X32_FIRST - 2..X32_FIRST + 700)
                .chain([u32::MAX])
            {
                let call = Call {
                    arch,
                    number,
                    args: [0; 6],
                };
                assert_eq!(
                    interpret(&program, &call),
                    Some(expected(&table, &call)),
                    "{context:?} {call:?}"
                );
            }
        }
    }
}

#[test]
fn no_number_has_two_rules() {
    for context in contexts() {
        let table = rules(context);
        for pair in table.windows(2) {
            assert!(
                pair[0].number < pair[1].number,
                "{} and {}",
                pair[0].name,
                pair[1].name
            );
        }
    }
}

#[test]
fn a_terminal_ioctl_with_high_bits_set_is_still_refused() {
    let context = contexts()[0];
    let number = rule_for(context, "ioctl").unwrap().number;
    let args = [0, 0xdead_beef_0000_5412, 0, 0, 0, 0];
    let call = Call {
        arch: NATIVE_ARCH,
        number,
        args,
    };
    assert_eq!(interpret(&compile(context), &call), Some(Action::Errno(1)));
}

#[test]
fn everybody_at_once_is_signalled_only_in_a_pid_namespace() {
    for context in contexts() {
        let program = compile(context);
        // A pid is an int: what stands above it in the register does not count.
        for (pid, everybody) in [
            (u64::MAX, true),
            (0xffff_ffff, true),
            (0, false),
            (1, false),
            (u64::MAX - 1, false),
            (4_194_304, false),
        ] {
            let call = Call {
                arch: NATIVE_ARCH,
                number: u32::try_from(libc::SYS_kill).unwrap(),
                args: [pid, 9, 0, 0, 0, 0],
            };
            let expected = if everybody && context.tier == Tier::Nested {
                Action::Errno(1)
            } else {
                Action::Allow
            };
            let verdict = interpret(&program, &call);
            assert_eq!(verdict, Some(expected), "{context:?} {pid:#x}");
        }
    }
}

#[test]
fn no_call_makes_a_set_user_id_file_and_ordinary_modes_pass() {
    let context = contexts()[0];
    let program = compile(context);
    let verdict = |name: &str, args: [u64; 6]| {
        let number = rule_for(context, name).unwrap().number;
        let arch = NATIVE_ARCH;
        interpret(&program, &Call { arch, number, args })
    };
    let refused = Some(Action::Errno(1));
    let creates = 0o101;
    assert_eq!(verdict("fchmodat", [0, 0, 0o4755, 0, 0, 0]), refused);
    assert_eq!(verdict("fchmod", [0, 0o2755, 0, 0, 0, 0]), refused);
    assert_eq!(
        verdict("fchmod", [0, 0o1777, 0, 0, 0, 0]),
        Some(Action::Allow)
    );
    assert_eq!(verdict("openat", [0, 0, creates, 0o4755, 0, 0]), refused);
    assert_eq!(
        verdict("openat", [0, 0, creates, 0o755, 0, 0]),
        Some(Action::Allow)
    );
    // Without a flag that creates, the mode is whatever the register held.
    assert_eq!(
        verdict("openat", [0, 0, 0, 0o4755, 0, 0]),
        Some(Action::Allow)
    );
    assert_eq!(verdict("openat2", [0; 6]), Some(Action::Errno(38)));
}

#[test]
fn without_a_pid_namespace_nobody_elses_limits_or_scheduling_can_be_changed() {
    let calls = [
        ("prlimit64", 0, &[][..]),
        ("sched_setaffinity", 0, &[]),
        ("sched_setattr", 0, &[]),
        ("sched_setparam", 0, &[]),
        ("sched_setscheduler", 0, &[]),
        // Of the caller's user, of its process group, of itself.
        ("setpriority", 1, &[(2, false), (1, true), (0, true)]),
        ("ioprio_set", 1, &[(3, false), (2, true), (1, true)]),
    ];
    for context in contexts() {
        let program = compile(context);
        for (name, arg, kinds) in calls {
            let rule = rule_for(context, name);
            assert_eq!(rule.is_some(), context.tier == Tier::Nested, "{name}");
            let Some(rule) = rule else { continue };
            let verdict = |kind: u64, which: u64| {
                let mut args = [kind, 0, 0, 0, 0, 0];
                args[arg] = which;
                let (arch, number) = (NATIVE_ARCH, rule.number);
                interpret(&program, &Call { arch, number, args })
            };
            let refused = Some(Action::Errno(1));
            for who in [1, 77, u64::from(u32::MAX), 1 << 32 | 1] {
                assert_eq!(verdict(0, who), refused, "{name} {who}");
            }
            // The kernel looks at 32 bits of a pid.
            assert_eq!(verdict(0, 1 << 32), Some(Action::Allow), "{name}");
            for (kind, allowed) in kinds {
                let expected = if *allowed {
                    Some(Action::Allow)
                } else {
                    refused
                };
                assert_eq!(verdict(*kind, 0), expected, "{name} of kind {kind}");
            }
        }
    }
}

#[test]
fn a_program_stays_far_below_the_kernels_limit() {
    for context in contexts() {
        let length = compile(context).len();
        assert!((50..1000).contains(&length), "{length} instructions");
    }
}

proptest! {
    #[test]
    fn arguments_get_the_tables_verdict(
        which in any::<prop::sample::Index>(),
        context in any::<prop::sample::Index>(),
        args in prop::array::uniform6(prop_oneof![
            any::<u64>(),
            0_u64..64,
            Just(0x5412), Just(0x541c), Just(262), Just(0x2000_0000), Just(0x1000_0000),
            Just(0o100), Just(0o4755), Just(0o2000), Just(0o644),
            any::<u32>().prop_map(|high| u64::from(high) << 32 | 0x5412),
        ]),
    ) {
        let context = *context.get(&contexts());
        let table = rules(context);
        let number = which.get(&table).number;
        let call = Call { arch: NATIVE_ARCH, number, args };
        prop_assert_eq!(interpret(&compile(context), &call), Some(expected(&table, &call)));
    }
}
