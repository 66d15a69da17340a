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
