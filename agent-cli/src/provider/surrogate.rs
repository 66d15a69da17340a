//! Models sometimes write half of a surrogate pair (`\ud83d`) into JSON. No Rust string can hold it and a
//! JSON parser refuses the whole text; here it becomes U+FFFD before parsing. Must not change anything else.

use std::borrow::Cow;

/// The JSON text with every lone surrogate escape replaced by `\ufffd`.
pub(super) fn replace_lone_surrogates(json: &str) -> Cow<'_, str> {
    let mut clean = String::new();
    let mut kept = 0_usize;
    let mut rest = json;
    while let Some(found) = rest.find('\\') {
        let at = json.len().saturating_sub(rest.len()).saturating_add(found);
        let escape = json.get(at..).unwrap_or_default();
        let length = match (code_unit(escape), escape.get(6..).and_then(code_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                clean.push_str(json.get(kept..at).unwrap_or_default());
                clean.push_str("\\ufffd");
                kept = at.saturating_add(6);
                6
            }
            (Some(_), _) => 6,
            // `\n`, `\"`, `\\`: the second character is taken too, so that `\\ud83d` is left alone.
            (None, _) => 1_usize.saturating_add(escape.chars().nth(1).map_or(0, char::len_utf8)),
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    if clean.is_empty() {
        return Cow::Borrowed(json);
    }
    clean.push_str(json.get(kept..).unwrap_or_default());
    Cow::Owned(clean)
}

/// The code unit of a `\uXXXX` at the start of the text.
fn code_unit(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if hex {
        u32::from_str_radix(digits, 16).ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn only_lone_surrogates_are_replaced() {
        let cases = [
            (r#""plain""#, r#""plain""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""a\ude00b""#, r#""a\ufffdb""#),
            (
                r#""\ud83d\ud83d\ude00\ude00""#,
                r#""\ufffd\ud83d\ude00\ufffd""#,
            ),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\u00e9\uD83D""#, r#""\u00e9\ufffd""#),
            (r#""\"#, r#""\"#),
            (r#""\ud8"#, r#""\ud8"#),
            ("\"那\\ud83d那\"", "\"那\\ufffd那\""),
            ("\"\\那\\ud83d\"", "\"\\那\\ufffd\""),
        ];
        for (json, expected) in cases {
            assert_eq!(replace_lone_surrogates(json), expected, "{json}");
        }
    }

    proptest! {
        #[test]
        fn any_string_of_code_units_parses_afterwards(units in prop::collection::vec(any::<u16>(), 0..20)) {
            let escapes: Vec<String> = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let escapes = escapes.concat();
            let json = format!("\"{escapes}\"");
            let parsed: Value = serde_json::from_str(&replace_lone_surrogates(&json)).unwrap();
            prop_assert_eq!(parsed.as_str().unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
