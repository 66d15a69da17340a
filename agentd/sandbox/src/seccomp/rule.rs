//! What a rule of the filter is made of.

use crate::policy::{NetMode, SyscallBase, Tier};

/// What the table depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The profile's base.
    pub base: SyscallBase,
    /// The tier: without a network namespace sockets themselves are refused.
    pub tier: Tier,
    /// The network.
    pub net: NetMode,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is carried out.
    Allow,
    /// It fails with this errno.
    Errno(u16),
    /// The whole process is killed.
    Kill,
}

/// A condition on the arguments. Comparisons are made on the low 32 bits where the kernel itself looks
/// only at those: comparing all 64 let `TIOCSTI` through elsewhere (CVE-2019-10063).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArgCheck {
    /// Refused whatever the arguments.
    Always,
    /// Refused when the argument shares a bit with the mask.
    AnyBit {
        /// Argument index.
        arg: u8,
        /// Mask over the low 32 bits.
        mask: u32,
    },
    /// Refused when the argument is one of these.
    OneOf {
        /// Argument index.
        arg: u8,
        /// Values of the low 32 bits.
        values: Vec<u32>,
    },
    /// Refused unless the argument is one of these.
    NoneOf {
        /// Argument index.
        arg: u8,
        /// Values of the low 32 bits.
        values: Vec<u32>,
    },
    /// Refused when a file would be created with one of these mode bits: the mode counts only when the
    /// flags say that a file may be created.
    CreateMode {
        /// Argument with the open flags.
        flags: u8,
        /// Argument with the mode.
        mode: u8,
    },
    /// Refused unless a target is named by "myself": two arguments say what kind of target it is and which.
    NotSelf {
        /// Argument with the kind.
        kind: u8,
        /// Argument with the number; 0 is the caller.
        which: u8,
        /// The kind whose 0 is more than the caller: every process of its user.
        user: u32,
    },
    /// The rules of `socket`: family, and the protocol where it matters.
    Socket {
        /// Families that are allowed.
        families: Vec<u32>,
        /// What the others get.
        refused: u16,
    },
}

/// Why a call is refused; also a grouping for documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Changes mounts, roots or namespaces.
    Namespaces,
    /// Reaches into other processes.
    OtherProcesses,
    /// Loads code into the kernel or replaces it.
    Kernel,
    /// A large kernel attack surface that developer tools do without.
    AttackSurface,
    /// Belongs to the administrator of the machine.
    Administration,
    /// Injects input into a terminal.
    Terminal,
    /// A way around the network rules.
    Network,
    /// A nested Landlock domain can switch off the record of denials.
    DenialRecords,
    /// Runs code that no path rule saw.
    PathlessExecution,
    /// Makes a file that runs as its owner, whoever starts it.
    SetId,
}

impl Reason {
    /// One clause for a person.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Namespaces => "it changes mounts, roots or namespaces",
            Self::OtherProcesses => "it reaches into other processes",
            Self::Kernel => "it loads code into the kernel or replaces it",
            Self::AttackSurface => "it opens a large part of the kernel to attack",
            Self::Administration => "it belongs to the administrator of the machine",
            Self::Terminal => "it injects input into a terminal",
            Self::Network => "it is a way around the network rules",
            Self::DenialRecords => "a nested domain could hide denials",
            Self::PathlessExecution => "it runs code that no path rule saw",
            Self::SetId => "it can make a file that runs as its owner, outside the jail too",
        }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// System call name.
    pub name: &'static str,
    /// System call number on this architecture.
    pub number: u32,
    /// When it is refused.
    pub check: ArgCheck,
    /// What happens then.
    pub action: Action,
    /// Why.
    pub reason: Reason,
}
