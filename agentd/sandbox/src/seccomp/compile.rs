//! Rules to classic BPF: an architecture guard, then a binary search over the numbers, so that the cost
//! of a call hardly grows with the table.

use super::{
    Action, ArgCheck, Context, Rule,
    table::{CREATES, INET, INET6, MPTCP, NETLINK, NETLINK_ROUTE, PROTOCOL_REFUSED, SET_ID},
};

/// One BPF instruction, with the layout of the kernel's `sock_filter`.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instruction {
    /// Operation.
    pub code: u16,
    /// Instructions to skip when a comparison holds.
    pub jt: u8,
    /// Instructions to skip when it does not.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

const _LAYOUT: () = assert!(size_of::<Instruction>() == size_of::<libc::sock_filter>());

pub(super) const LOAD: u16 = 0x20;
pub(super) const JUMP: u16 = 0x05;
pub(super) const IF_EQUAL: u16 = 0x15;
pub(super) const IF_GREATER_OR_EQUAL: u16 = 0x35;
pub(super) const IF_ANY_BIT: u16 = 0x45;
pub(super) const RETURN: u16 = 0x06;

pub(super) const RET_KILL_PROCESS: u32 = 0x8000_0000;
pub(super) const RET_ERRNO: u32 = 0x0005_0000;
pub(super) const RET_ALLOW: u32 = 0x7fff_0000;

pub(super) const OFFSET_NUMBER: u32 = 0;
pub(super) const OFFSET_ARCH: u32 = 4;
const OFFSET_ARGS: u32 = 16;

#[cfg(target_arch = "x86_64")]
pub(super) const NATIVE_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
pub(super) const NATIVE_ARCH: u32 = 0xc000_00b7;

/// First number of the x32 calling convention, which shares the architecture value of x86-64 but numbers
/// its calls from here: a table of ordinary numbers says nothing about them.
pub(super) const X32_FIRST: u32 = 0x4000_0000;
const ENOSYS: u16 = 38;

/// Compiles the table of a context.
#[must_use]
pub fn compile(context: Context) -> Vec<Instruction> {
    compile_rules(&super::rules(context))
}

/// Compiles rules, which must be sorted by number.
#[must_use]
pub fn compile_rules(rules: &[Rule]) -> Vec<Instruction> {
    let mut program = vec![
        load(OFFSET_ARCH),
        branch(IF_EQUAL, NATIVE_ARCH, (1, 0)),
        ret(Action::Kill),
        load(OFFSET_NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        program.push(branch(IF_GREATER_OR_EQUAL, X32_FIRST, (0, 1)));
        program.push(ret(Action::Errno(ENOSYS)));
    }
    program.extend(search(rules));
    program
}

fn search(rules: &[Rule]) -> Vec<Instruction> {
    let (left, right) = rules.split_at(rules.len() / 2);
    let (Some(pivot), false) = (right.first(), left.is_empty()) else {
        return rules.first().map_or_else(|| vec![ret(Action::Allow)], leaf);
    };
    let below = search(left);
    let above = search(right);
    let mut program = Vec::with_capacity(below.len().saturating_add(above.len()).saturating_add(2));
    if let Ok(skip) = u8::try_from(below.len()) {
        program.push(branch(IF_GREATER_OR_EQUAL, pivot.number, (skip, 0)));
    } else {
        // A conditional jump reaches 255 instructions; a longer way takes an unconditional one.
        let skip = u32::try_from(below.len()).unwrap_or(u32::MAX);
        program.push(branch(IF_GREATER_OR_EQUAL, pivot.number, (0, 1)));
        program.push(Instruction {
            code: JUMP,
            jt: 0,
            jf: 0,
            k: skip,
        });
    }
    program.extend(below);
    program.extend(above);
    program
}

fn leaf(rule: &Rule) -> Vec<Instruction> {
    let block = checks(rule);
    let skip = u8::try_from(block.len()).unwrap_or(u8::MAX);
    debug_assert_eq!(
        usize::from(skip),
        block.len(),
        "an argument check has to fit a jump"
    );
    let mut program = vec![branch(IF_EQUAL, rule.number, (0, skip))];
    program.extend(block);
    program.push(ret(Action::Allow));
    program
}

/// The instructions for a matching number; every way through them ends in a return.
fn checks(rule: &Rule) -> Vec<Instruction> {
    match &rule.check {
        ArgCheck::Always => vec![ret(rule.action)],
        ArgCheck::AnyBit { arg, mask } => vec![
            load_arg(*arg),
            branch(IF_ANY_BIT, *mask, (0, 1)),
            ret(rule.action),
            ret(Action::Allow),
        ],
        ArgCheck::OneOf { arg, values } => one_of(*arg, values, (rule.action, Action::Allow)),
        ArgCheck::NoneOf { arg, values } => one_of(*arg, values, (Action::Allow, rule.action)),
        ArgCheck::CreateMode { flags, mode } => vec![
            load_arg(*flags),
            branch(IF_ANY_BIT, CREATES, (0, 2)),
            load_arg(*mode),
            branch(IF_ANY_BIT, SET_ID, (1, 0)),
            ret(Action::Allow),
            ret(rule.action),
        ],
        ArgCheck::NotSelf { kind, which, user } => vec![
            load_arg(*which),
            branch(IF_EQUAL, 0, (0, 2)),
            load_arg(*kind),
            branch(IF_EQUAL, *user, (0, 1)),
            ret(rule.action),
            ret(Action::Allow),
        ],
        ArgCheck::Socket { families, refused } => socket(families, *refused),
    }
}

fn one_of(arg: u8, values: &[u32], then_else: (Action, Action)) -> Vec<Instruction> {
    let mut program = vec![load_arg(arg)];
    for value in values {
        program.push(branch(IF_EQUAL, *value, (0, 1)));
        program.push(ret(then_else.0));
    }
    program.push(ret(then_else.1));
    program
}

/// Family first; then the protocol, for the families where it decides.
fn socket(families: &[u32], refused: u16) -> Vec<Instruction> {
    let mut program = vec![load_arg(0)];
    for family in families {
        let block = match *family {
            NETLINK => vec![
                load_arg(2),
                branch(IF_EQUAL, NETLINK_ROUTE, (0, 1)),
                ret(Action::Allow),
                ret(Action::Errno(refused)),
            ],
            INET | INET6 => vec![
                load_arg(2),
                branch(IF_EQUAL, MPTCP, (0, 1)),
                ret(Action::Errno(PROTOCOL_REFUSED)),
                ret(Action::Allow),
            ],
            _ => vec![ret(Action::Allow)],
        };
        let skip = u8::try_from(block.len()).unwrap_or(u8::MAX);
        program.push(branch(IF_EQUAL, *family, (0, skip)));
        program.extend(block);
    }
    program.push(ret(Action::Errno(refused)));
    program
}

fn load(offset: u32) -> Instruction {
    Instruction {
        code: LOAD,
        jt: 0,
        jf: 0,
        k: offset,
    }
}

/// Loads the low half of an argument (both supported architectures are little-endian).
fn load_arg(arg: u8) -> Instruction {
    load(OFFSET_ARGS.saturating_add(u32::from(arg).saturating_mul(8)))
}

fn branch(code: u16, k: u32, skips: (u8, u8)) -> Instruction {
    Instruction {
        code,
        jt: skips.0,
        jf: skips.1,
        k,
    }
}

fn ret(action: Action) -> Instruction {
    let k = match action {
        Action::Allow => RET_ALLOW,
        Action::Errno(errno) => RET_ERRNO | u32::from(errno),
        Action::Kill => RET_KILL_PROCESS,
    };
    Instruction {
        code: RETURN,
        jt: 0,
        jf: 0,
        k,
    }
}
