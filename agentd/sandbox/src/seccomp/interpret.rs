//! Runs a compiled filter on a described call, as the kernel would: for tests and for `explain`.

use super::{
    compile::{
        IF_ANY_BIT, IF_EQUAL, IF_GREATER_OR_EQUAL, Instruction, JUMP, LOAD, OFFSET_ARCH,
        OFFSET_NUMBER, RET_ALLOW, RET_ERRNO, RETURN,
    },
    rule::Action,
};

/// A system call as a filter sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// Audit architecture value.
    pub arch: u32,
    /// Number.
    pub number: u32,
    /// Arguments.
    pub args: [u64; 6],
}

impl Call {
    fn word(&self, offset: u32) -> Option<u32> {
        match offset {
            OFFSET_NUMBER => Some(self.number),
            OFFSET_ARCH => Some(self.arch),
            _ => {
                let index = offset.checked_sub(16)?;
                let arg = *self.args.get(usize::try_from(index / 8).ok()?)?;
                let half = if index % 8 == 0 { arg } else { arg >> 32 };
                u32::try_from(half & 0xffff_ffff).ok()
            }
        }
    }
}

/// What `program` decides about `call`. `None` when the program is malformed: it leaves its end, reads
/// outside the call, or uses an operation that the compiler never emits.
#[must_use]
pub fn interpret(program: &[Instruction], call: &Call) -> Option<Action> {
    let mut position = 0_usize;
    let mut accumulator = 0_u32;
    loop {
        let instruction = *program.get(position)?;
        position = position.checked_add(1)?;
        let skip = match instruction.code {
            LOAD => {
                accumulator = call.word(instruction.k)?;
                0
            }
            RETURN => return action(instruction.k),
            JUMP => usize::try_from(instruction.k).ok()?,
            IF_EQUAL => chosen(instruction, accumulator == instruction.k),
            IF_GREATER_OR_EQUAL => chosen(instruction, accumulator >= instruction.k),
            IF_ANY_BIT => chosen(instruction, accumulator & instruction.k != 0),
            _ => return None,
        };
        position = position.checked_add(skip)?;
    }
}

#[expect(
    clippy::fn_params_excessive_bools,
    reason = "the outcome of the comparison itself"
)]
fn chosen(instruction: Instruction, holds: bool) -> usize {
    usize::from(if holds {
        instruction.jt
    } else {
        instruction.jf
    })
}

fn action(k: u32) -> Option<Action> {
    match (k & 0xffff_0000, u16::try_from(k & 0xffff).ok()?) {
        (RET_ALLOW, _) => Some(Action::Allow),
        (RET_ERRNO, errno) => Some(Action::Errno(errno)),
        (super::compile::RET_KILL_PROCESS, _) => Some(Action::Kill),
        _ => None,
    }
}
