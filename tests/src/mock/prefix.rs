//! The prefix property: each request extends the previous one's bytes, so that a provider's prompt
//! cache always hits. Compares bytes, never parsed values.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

type Parts = BTreeMap<String, Box<RawValue>>;

/// Checks that `next` has the same `system` and `tools` bytes as `previous`, and that its `messages`
/// array begins with the bytes of the previous one and holds more.
pub fn prefix_extends(previous: &[u8], next: &[u8]) -> Result<(), String> {
    let previous: Parts = parse(previous)?;
    let next: Parts = parse(next)?;
    for key in ["model", "system", "tools"] {
        let (before, after) = (raw(&previous, key), raw(&next, key));
        if before != after {
            return Err(format!("`{key}` changed from {before:?} to {after:?}"));
        }
    }
    let before = raw(&previous, "messages").ok_or("the previous request has no `messages`")?;
    let after = raw(&next, "messages").ok_or("the next request has no `messages`")?;
    let open = before
        .strip_suffix(']')
        .ok_or("the previous `messages` is no array")?;
    match after.strip_prefix(open) {
        Some(rest) if rest.starts_with(',') => Ok(()),
        Some(_) => Err("the next request adds no message".to_owned()),
        None => Err(first_difference(open, after)),
    }
}

fn parse(body: &[u8]) -> Result<Parts, String> {
    serde_json::from_slice(body).map_err(|error| format!("the body is no JSON object: {error}"))
}

fn raw<'a>(parts: &'a Parts, key: &str) -> Option<&'a str> {
    parts.get(key).map(|value| value.get())
}

fn first_difference(before: &str, after: &str) -> String {
    let same = before
        .bytes()
        .zip(after.bytes())
        .take_while(|(left, right)| left == right)
        .count();
    let around = |text: &str| {
        let bytes = text.as_bytes();
        let window = &bytes[same.saturating_sub(40)..bytes.len().min(same + 40)];
        String::from_utf8_lossy(window).into_owned()
    };
    format!(
        "`messages` differ at byte {same}: before …{}… after …{}…",
        around(before),
        around(after)
    )
}

#[cfg(test)]
mod tests {
    use super::prefix_extends;

    const BEFORE: &str = r#"{"model":"m","system":"s","tools":[1],"messages":[{"a":1}]}"#;

    #[test]
    fn an_added_message_extends() {
        let next = r#"{"system":"s","model":"m","tools":[1],"messages":[{"a":1},{"b":2}]}"#;
        prefix_extends(BEFORE.as_bytes(), next.as_bytes()).expect("extends");
    }

    #[test]
    fn anything_else_does_not() {
        let cases = [
            ("same", BEFORE.to_owned()),
            ("system", BEFORE.replace(r#""s""#, r#""t""#)),
            ("tools", BEFORE.replace("[1]", "[2]")),
            ("no tools", BEFORE.replace(r#""tools":[1],"#, "")),
            ("space", BEFORE.replace(r#"{"a":1}]"#, r#"{"a": 1},{}]"#)),
            ("changed", BEFORE.replace(r#"{"a":1}]"#, r#"{"a":2},{}]"#)),
            ("inserted", BEFORE.replace(r#"{"a":1}]"#, r#"{},{"a":1}]"#)),
            ("inside", BEFORE.replace(r#"{"a":1}]"#, r#"{"a":1,"b":2}]"#)),
        ];
        for (name, next) in cases {
            assert!(
                prefix_extends(BEFORE.as_bytes(), next.as_bytes()).is_err(),
                "{name}: {next}"
            );
        }
    }
}
