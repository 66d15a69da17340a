//! What the launcher and a jail's init say to each other, in fixed-size datagrams.

/// Launcher to init.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Command {
    /// TERM to every process of the jail.
    Terminate = b'T',
    /// KILL to every process, then report and end.
    Kill = b'K',
}

impl Command {
    pub(super) fn decode(byte: u8) -> Option<Self> {
        [Self::Terminate, Self::Kill]
            .into_iter()
            .find(|known| *known as u8 == byte)
    }
}

/// Init to launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Report {
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
    },
}

/// Bytes of an encoded report.
pub(crate) const ENCODED: usize = 32;

impl Report {
    pub(super) fn encode(self) -> [u8; ENCODED] {
        let mut bytes = [0; ENCODED];
        let (kind, word, longs) = match self {
            Self::LeaderExited { status } => (1, status.to_le_bytes(), [0; 3]),
            Self::Empty {
                leftover,
                user_us,
                system_us,
                max_rss_bytes,
            } => (
                2,
                leftover.to_le_bytes(),
                [user_us, system_us, max_rss_bytes],
            ),
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
            }),
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
            Report::LeaderExited { status: -3 },
            Report::Empty {
                leftover: 7,
                user_us: 1,
                system_us: u64::MAX,
                max_rss_bytes: 1 << 40,
            },
        ];
        for report in reports {
            assert_eq!(Report::decode(&report.encode()), Some(report));
        }
        assert_eq!(Report::decode(&[9; ENCODED]), None);
        assert_eq!(Report::decode(&[1; 4]), None);
    }
}
