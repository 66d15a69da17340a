//! What the launcher and a jail's init say to each other, in fixed-size datagrams.

use crate::monitor::SignalScope;

/// Launcher to init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Command {
    /// KILL to every process, then report and end.
    Kill,
    /// A signal.
    Signal {
        /// Number, 1 to 64.
        signal: u8,
        /// Whom it reaches.
        scope: SignalScope,
    },
}

/// Bytes of an encoded command.
pub(super) const COMMAND: usize = 2;

impl Command {
    /// TERM to every process of the jail.
    pub(crate) const TERMINATE: Self = Self::Signal {
        signal: 15,
        scope: SignalScope::Tree,
    };

    pub(crate) fn encode(self) -> [u8; COMMAND] {
        match self {
            Self::Kill => [b'K', 0],
            Self::Signal { signal, scope } => {
                let kind = match scope {
                    SignalScope::Tree => b'T',
                    SignalScope::Group => b'G',
                    SignalScope::Leader => b'L',
                };
                [kind, signal]
            }
        }
    }

    /// Decodes what the launcher wrote; `None` for anything else.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let [kind, signal] = *bytes else {
            return None;
        };
        let scope = match kind {
            b'K' if signal == 0 => return Some(Self::Kill),
            b'T' => SignalScope::Tree,
            b'G' => SignalScope::Group,
            b'L' => SignalScope::Leader,
            _ => return None,
        };
        (1..=64)
            .contains(&signal)
            .then_some(Self::Signal { signal, scope })
    }
}

/// Init to launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
    /// The terminal's master comes beside this message.
    Terminal,
    /// The leader has ended with this raw wait status.
    LeaderExited {
        /// Raw wait status.
        status: i32,
    },
    /// No process is left; init ends after this.
    Empty {
        /// Processes killed after the leader had ended.
        leftover: u32,
        /// User CPU time of all reaped processes in microseconds.
        user_us: u64,
        /// System CPU time of all reaped processes in microseconds.
        system_us: u64,
        /// Largest resident set in bytes.
        max_rss_bytes: u64,
        /// Ends of reaped processes other than the leader that tell of a limit.
        ends: LimitEnds,
    },
}

/// How many processes a signal of a limit ended, counted up to 255.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LimitEnds {
    /// `SIGXCPU`.
    pub(crate) cpu: u8,
    /// `SIGXFSZ`.
    pub(crate) file_size: u8,
}

/// Bytes of an encoded report.
pub(crate) const ENCODED: usize = 32;

impl Report {
    pub(super) fn encode(self) -> [u8; ENCODED] {
        let mut bytes = [0; ENCODED];
        let (kind, word, longs) = match self {
            Self::Terminal => (3, [0; 4], [0; 3]),
            Self::LeaderExited { status } => (1, status.to_le_bytes(), [0; 3]),
            Self::Empty {
                leftover,
                user_us,
                system_us,
                max_rss_bytes,
                ends,
            } => {
                bytes[1..3].copy_from_slice(&[ends.cpu, ends.file_size]);
                let longs = [user_us, system_us, max_rss_bytes];
                (2, leftover.to_le_bytes(), longs)
            }
        };
        bytes[0] = kind;
        bytes[4..8].copy_from_slice(&word);
        for (slot, value) in bytes[8..].chunks_exact_mut(8).zip(longs) {
            slot.copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Decodes what init wrote; `None` for anything else.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; ENCODED] = bytes.try_into().ok()?;
        let word = [bytes[4], bytes[5], bytes[6], bytes[7]];
        let mut longs = [0; 3];
        for (value, slot) in longs.iter_mut().zip(bytes[8..].chunks_exact(8)) {
            *value = u64::from_le_bytes(slot.try_into().ok()?);
        }
        let [user_us, system_us, max_rss_bytes] = longs;
        match bytes[0] {
            1 => Some(Self::LeaderExited {
                status: i32::from_le_bytes(word),
            }),
            2 => Some(Self::Empty {
                leftover: u32::from_le_bytes(word),
                user_us,
                system_us,
                max_rss_bytes,
                ends: LimitEnds {
                    cpu: bytes[1],
                    file_size: bytes[2],
                },
            }),
            3 => Some(Self::Terminal),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_the_crossing() {
        let reports = [
            Report::Terminal,
            Report::LeaderExited { status: -3 },
            Report::Empty {
                leftover: 7,
                user_us: 1,
                system_us: u64::MAX,
                max_rss_bytes: 1 << 40,
                ends: LimitEnds {
                    cpu: 3,
                    file_size: 255,
                },
            },
        ];
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        assert_eq!(Report::decode(&[9; ENCODED]), None);
        assert_eq!(Report::decode(&[1; 4]), None);
    }

    #[test]
    fn commands_survive_the_crossing_and_nothing_else_is_one() {
        let mut commands = vec![Command::Kill, Command::TERMINATE];
        for scope in [SignalScope::Tree, SignalScope::Group, SignalScope::Leader] {
            commands.extend([1, 9, 64].map(|signal| Command::Signal { signal, scope }));
        }
        for command in commands {
            assert_eq!(Command::decode(&command.encode()), Some(command));
        }
        for bytes in [
            &b""[..],
            b"K",
            b"KK",
            b"T\0",
            b"T\x41",
            b"L\0",
            b"X\x09",
            b"T\x0f\0",
        ] {
            assert_eq!(Command::decode(bytes), None, "{bytes:?}");
        }
    }
}
