//! Durations in the configuration file: a whole number and a unit, such as `"30s"`.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error};

/// Longest: a day.
const LONGEST: Duration = Duration::from_secs(86_400);

/// A duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span(pub(super) Duration);

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let units: [(&str, u64); 4] = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
        units.iter().find_map(|(unit, factor)| {
            let number = text.strip_suffix(unit)?;
            let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
            let millis = number
                .parse::<u64>()
                .ok()
                .filter(|_| digits)?
                .checked_mul(*factor)?;
            let span = Duration::from_millis(millis);
            (span <= LONGEST).then_some(Self(span))
        })
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            let text = crate::text::neutralise(&text);
            D::Error::custom(format!(
                "'{text}' is not a duration of at most a day; write a number with ms, s, m or h such \
                 as \"30s\""
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_and_a_unit_make_a_duration_and_nothing_else_does() {
        for (text, millis) in [
            ("0s", 0),
            ("250ms", 250),
            ("30s", 30_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(
                Span::parse(text),
                Some(Span(Duration::from_millis(millis))),
                "{text}"
            );
        }
        for text in [
            "",
            "s",
            "30",
            "-1s",
            "+1s",
            "1.5s",
            "1 s",
            "25h",
            "99999999999999999999s",
            "1d",
        ] {
            assert_eq!(Span::parse(text), None, "{text}");
        }
    }
}
