//! Sizes, durations and counts in profiles: whole numbers with one unit letter, checked arithmetic.
//! Nothing is rounded and nothing wraps: what does not fit exactly is an error.

use super::raw::Amount;

/// Largest value: above it a JSON number is not exact, and no limit means anything.
pub(super) const LARGEST: u64 = (1 << 53) - 1;

/// What an amount counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bytes: a plain number, or K, M, G, T as powers of 1024.
    Bytes,
    /// Milliseconds: `ms`, `s`, `m`, `h`; a unit is required.
    Milliseconds,
    /// Seconds: `s`, `m`, `h`; a unit is required.
    Seconds,
    /// Things: a plain number.
    Count,
}

impl Unit {
    fn factors(self) -> &'static [(&'static str, u64)] {
        match self {
            Self::Bytes => &[
                ("", 1),
                ("K", 1 << 10),
                ("M", 1 << 20),
                ("G", 1 << 30),
                ("T", 1 << 40),
            ],
            Self::Milliseconds => &[("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000)],
            Self::Seconds => &[("s", 1), ("m", 60), ("h", 3_600)],
            Self::Count => &[("", 1)],
        }
    }

    fn example(self) -> &'static str {
        match self {
            Self::Bytes => "a number of bytes, or a text with K, M, G or T such as \"512M\"",
            Self::Milliseconds => "a text with ms, s, m or h such as \"120s\"",
            Self::Seconds => "a text with s, m or h such as \"10m\"",
            Self::Count => "a whole number such as 512",
        }
    }
}

/// The amount as a number of its unit; what is wrong with it otherwise.
pub(super) fn parse(amount: &Amount, unit: Unit) -> Result<u64, String> {
    let example = unit.example();
    let value = match amount {
        Amount::Number(number) => {
            let plain = unit.factors().iter().any(|(suffix, _)| suffix.is_empty());
            if !plain {
                return Err(format!("{number} has no unit; write {example}"));
            }
            u64::try_from(*number)
                .map_err(|_negative| format!("{number} is negative; write {example}"))?
        }
        Amount::Float(text) => {
            return Err(format!("{text} is not a whole number; write {example}"));
        }
        Amount::Text(text) => parse_text(text, unit)?,
    };
    if value > LARGEST {
        return Err(format!(
            "{value} is larger than {LARGEST}; write a smaller number"
        ));
    }
    Ok(value)
}

fn parse_text(text: &str, unit: Unit) -> Result<u64, String> {
    let example = unit.example();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, suffix) = text.split_at_checked(digits).unwrap_or(("", text));
    if number.is_empty() {
        return Err(format!(
            "\"{text}\" does not start with a digit; write {example}"
        ));
    }
    let factor = unit.factors().iter().find(|(name, _)| *name == suffix);
    let Some((_, factor)) = factor else {
        return Err(format!(
            "\"{text}\" has the unknown unit \"{suffix}\"; write {example}"
        ));
    };
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(*factor))
        .ok_or_else(|| format!("\"{text}\" is larger than {LARGEST}; write a smaller number"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(value: &str) -> Amount {
        Amount::Text(value.to_owned())
    }

    #[test]
    fn amounts_are_exact() {
        for (amount, unit, value) in [
            (text("512M"), Unit::Bytes, 512 << 20),
            (text("0"), Unit::Bytes, 0),
            (text("4G"), Unit::Bytes, 4 << 30),
            (Amount::Number(17), Unit::Bytes, 17),
            (text("1500ms"), Unit::Milliseconds, 1_500),
            (text("120s"), Unit::Milliseconds, 120_000),
            (text("1h"), Unit::Milliseconds, 3_600_000),
            (text("10m"), Unit::Seconds, 600),
            (Amount::Number(512), Unit::Count, 512),
        ] {
            assert_eq!(parse(&amount, unit), Ok(value), "{amount:?}");
        }
    }

    #[test]
    fn what_is_not_a_plain_amount_is_refused_with_a_remedy() {
        for (amount, unit) in [
            (text("-1"), Unit::Bytes),
            (text("+1"), Unit::Bytes),
            (text("1.5G"), Unit::Bytes),
            (text("1e9"), Unit::Bytes),
            (text("0x10"), Unit::Bytes),
            (text(" 1G"), Unit::Bytes),
            (text("1 G"), Unit::Bytes),
            (text("1GB"), Unit::Bytes),
            (text("1g"), Unit::Bytes),
            (text(""), Unit::Bytes),
            (text("١G"), Unit::Bytes),
            (text("16777216T"), Unit::Bytes),
            (text("99999999999999999999"), Unit::Bytes),
            (text("120"), Unit::Milliseconds),
            (text("5ms"), Unit::Seconds),
            (text("1d"), Unit::Milliseconds),
            (text("1K"), Unit::Count),
            (Amount::Number(-1), Unit::Bytes),
            (Amount::Number(120), Unit::Milliseconds),
            (Amount::Number(i64::MAX), Unit::Bytes),
            (Amount::Float("1.5".to_owned()), Unit::Bytes),
        ] {
            let problem = parse(&amount, unit).expect_err(&format!("{amount:?} was accepted"));
            assert!(problem.contains("write"), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn sizes_agree_with_wide_arithmetic(number in any::<u64>(), letter in "[KMGT]?") {
            let shift = match letter.as_str() { "K" => 10, "M" => 20, "G" => 30, "T" => 40, _ => 0 };
            let exact = u128::from(number) << shift;
            let parsed = parse(&text(&format!("{number}{letter}")), Unit::Bytes);
            prop_assert_eq!(parsed.ok().map(u128::from), Some(exact).filter(|value| *value <= u128::from(LARGEST)));
        }

        #[test]
        fn small_sizes_agree_with_wide_arithmetic(number in 0_u64..10_000, letter in "[KMGT]?") {
            let shift = match letter.as_str() { "K" => 10, "M" => 20, "G" => 30, "T" => 40, _ => 0 };
            let exact = u128::from(number) << shift;
            let parsed = parse(&text(&format!("{number}{letter}")), Unit::Bytes);
            prop_assert_eq!(parsed.ok().map(u128::from), Some(exact).filter(|value| *value <= u128::from(LARGEST)));
        }

        #[test]
        fn no_text_makes_the_parser_fail_otherwise(value in ".{0,40}") {
            for unit in [Unit::Bytes, Unit::Milliseconds, Unit::Seconds, Unit::Count] {
                if let Ok(parsed) = parse(&text(&value), unit) {
                    prop_assert!(parsed <= LARGEST);
                }
            }
        }
    }
}
