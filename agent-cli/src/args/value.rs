//! Argument values with a form of their own, checked while the command line is parsed.

use std::{str::FromStr, time::Duration};

use thiserror::Error;

/// Why an argument's value is refused.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ValueError {
    /// Not a time.
    #[error("write a number with a unit, such as 500ms, 90s, 10m or 1h")]
    Time,
    /// Zero.
    #[error("a time limit of zero ends the command before it starts")]
    ZeroTime,
    /// Not `NAME=VALUE`.
    #[error("write NAME=VALUE")]
    EnvPair,
    /// Not an id.
    #[error("write 1 to 64 letters, digits, dashes and underscores")]
    Id,
    /// Not a signal.
    #[error("write one of HUP INT QUIT KILL USR1 USR2 TERM CONT STOP WINCH, or its number")]
    Signal,
    /// Text where only `-` may stand.
    #[error("put the command after `--`, as in: agent-cli exec -- 'echo hi'")]
    NotStdin,
}

/// A time limit, at least one millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutArg(pub Duration);

impl FromStr for TimeoutArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unit_at = text
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len());
        let (digits, unit) = text.split_at(unit_at);
        let number: u64 = digits.parse().map_err(|_source| ValueError::Time)?;
        let factor: u64 = match unit {
            "ms" => 1,
            "" | "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            _ => return Err(ValueError::Time),
        };
        match number.checked_mul(factor) {
            Some(0) => Err(ValueError::ZeroTime),
            Some(millis) => Ok(Self(Duration::from_millis(millis))),
            None => Err(ValueError::Time),
        }
    }
}

/// A variable to add.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvPair {
    /// Name; not empty.
    pub name: String,
    /// Value.
    pub value: String,
}

impl FromStr for EnvPair {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
            Some(_) | None => Err(ValueError::EnvPair),
        }
    }
}

/// The argument `-`: the script comes from standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StdinMark;

impl FromStr for StdinMark {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "-" {
            Ok(Self)
        } else {
            Err(ValueError::NotStdin)
        }
    }
}

/// The name of a session or of a command: at most as long as the wire takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Id(pub String);

impl FromStr for Id {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let fits = (1..=MAX_ID).contains(&text.len())
            && text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
        if fits {
            Ok(Self(text.to_owned()))
        } else {
            Err(ValueError::Id)
        }
    }
}

const MAX_ID: usize = 64;

/// A signal that can be sent to a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SignalArg(pub i32);

/// Those that the daemon passes on, with their numbers on Linux, where commands run.
const SIGNALS: [(&str, i32); 10] = [
    ("HUP", 1),
    ("INT", 2),
    ("QUIT", 3),
    ("KILL", 9),
    ("USR1", 10),
    ("USR2", 12),
    ("TERM", 15),
    ("CONT", 18),
    ("STOP", 19),
    ("WINCH", 28),
];

impl FromStr for SignalArg {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let name = text.to_ascii_uppercase();
        let name = name.strip_prefix("SIG").unwrap_or(&name);
        let number: Option<i32> = name.parse().ok();
        SIGNALS
            .iter()
            .find(|(known, value)| *known == name || Some(*value) == number)
            .map(|(_, value)| Self(*value))
            .ok_or(ValueError::Signal)
    }
}
