//! The escapes of `$'…'`. What bash would reject or leave alone is decoded as far as it makes sense.

/// Decodes the inside of `$'…'`.
pub(super) fn decode(inside: &str) -> String {
    let mut text = String::with_capacity(inside.len());
    let mut rest = inside;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let mut chars = after.chars();
        let kind = chars.next();
        let after_kind = chars.as_str();
        let (decoded, left) = match kind {
            Some('x') => number(after_kind, 16, 2),
            Some('u') => number(after_kind, 16, 4),
            Some('U') => number(after_kind, 16, 8),
            Some('0'..='7') => number(after, 8, 3),
            Some('n') => (Some('\n'), after_kind),
            Some('t') => (Some('\t'), after_kind),
            Some('r') => (Some('\r'), after_kind),
            Some('a') => (Some('\u{7}'), after_kind),
            Some('b') => (Some('\u{8}'), after_kind),
            Some('e' | 'E') => (Some('\u{1b}'), after_kind),
            Some('f') => (Some('\u{c}'), after_kind),
            Some('v') => (Some('\u{b}'), after_kind),
            other => (other, after_kind),
        };
        text.extend(decoded);
        rest = left;
    }
    text.push_str(rest);
    text
}

/// A character by its number of at most `digits` digits, and what follows.
fn number(text: &str, radix: u32, digits: usize) -> (Option<char>, &str) {
    let end = text
        .char_indices()
        .take(digits)
        .take_while(|(_, c)| c.is_digit(radix))
        .last()
        .map_or(0, |(at, c)| at.saturating_add(c.len_utf8()));
    let (number, rest) = text.split_at_checked(end).unwrap_or((text, ""));
    let decoded = u32::from_str_radix(number, radix)
        .ok()
        .and_then(char::from_u32);
    (decoded, rest)
}
