//! Reads what bash's `declare -px` prints. Total and bounded: whatever the bytes are, the answer is the
//! variables or nothing. Pure.

/// One exported variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exported {
    /// Name.
    pub(super) name: Vec<u8>,
    /// Value; `None` when the name is marked for export and has no value, so that no program sees it.
    pub(super) value: Option<Vec<u8>>,
}

/// All of them, in order; `None` when the bytes are not what bash prints.
pub(super) fn parse(bytes: &[u8]) -> Option<Vec<Exported>> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(b"\n") {
            rest = after;
            continue;
        }
        let (exported, after) = declaration(rest)?;
        found.extend(exported);
        rest = after;
    }
    Some(found)
}

/// One `declare -FLAGS NAME[=VALUE]` and what follows it. `None` inside: of a kind that no program is
/// given, such as an array.
fn declaration(bytes: &[u8]) -> Option<(Option<Exported>, &[u8])> {
    let rest = bytes.strip_prefix(b"declare -")?;
    let (flags, rest) = split_at_byte(rest, b' ')?;
    if flags.is_empty() || !flags.iter().all(u8::is_ascii_alphabetic) {
        return None;
    }
    let length = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
    let (name, rest) = rest.split_at_checked(length)?;
    if name.first().is_none_or(u8::is_ascii_digit) {
        return None;
    }
    let is_plain = !flags.iter().any(|flag| matches!(flag, b'a' | b'A' | b'n'));
    let (value, rest) = match rest.strip_prefix(b"=") {
        None => (None, rest),
        Some(array) if array.starts_with(b"(") => (None, skip_line(array)),
        Some(value) => {
            let (value, rest) = quoted(value)?;
            (Some(value), rest)
        }
    };
    let rest = match rest.strip_prefix(b"\n") {
        Some(rest) => rest,
        None if rest.is_empty() => rest,
        None => return None,
    };
    let exported = is_plain.then(|| Exported {
        name: name.to_vec(),
        value,
    });
    Some((exported, rest))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn split_at_byte(bytes: &[u8], separator: u8) -> Option<(&[u8], &[u8])> {
    let at = bytes.iter().position(|byte| *byte == separator)?;
    let (before, from) = bytes.split_at_checked(at)?;
    Some((before, from.get(1..)?))
}

fn skip_line(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    bytes.get(end.unwrap_or(bytes.len())..).unwrap_or_default()
}

/// A value in one of bash's two ways of quoting, and what follows it.
fn quoted(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if let Some(rest) = bytes.strip_prefix(b"\"") {
        return double_quoted(rest);
    }
    bytes.strip_prefix(b"$'").and_then(ansi_quoted)
}

/// Up to the closing `"`. A backslash is one only before the characters it protects.
fn double_quoted(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut rest = bytes;
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'"' => return Some((value, rest)),
            b'\\' => {
                let (next, after) = rest.split_first()?;
                rest = after;
                if !matches!(next, b'"' | b'$' | b'`' | b'\\') {
                    value.push(b'\\');
                }
                value.push(*next);
            }
            other => value.push(*other),
        }
    }
}

/// Up to the closing `'`, with the escapes of `$'…'`.
fn ansi_quoted(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut value = Vec::new();
    let mut rest = bytes;
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match byte {
            b'\'' => return Some((value, rest)),
            b'\\' => {
                let (byte, after) = escape(rest)?;
                value.push(byte);
                rest = after;
            }
            other => value.push(*other),
        }
    }
}

/// The byte that an escape stands for, and what follows it. Only escapes that bash writes.
fn escape(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (kind, rest) = bytes.split_first()?;
    let byte = match kind {
        b'a' => 0x07,
        b'b' => 0x08,
        b'e' | b'E' => 0x1b,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' | b'\'' | b'"' | b'?' => *kind,
        b'0'..=b'7' => return octal(bytes),
        _ => return None,
    };
    Some((byte, rest))
}

fn octal(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let is_octal = |byte: &&u8| (b'0'..=b'7').contains(*byte);
    let digits = bytes.iter().take(3).take_while(is_octal).count();
    let (digits, rest) = bytes.split_at_checked(digits)?;
    let value = digits.iter().fold(0_u32, |sum, digit| {
        sum.saturating_mul(8)
            .saturating_add(u32::from(digit.saturating_sub(b'0')))
    });
    Some((u8::try_from(value).ok()?, rest))
}

#[cfg(test)]
mod tests;
