//! Ids that no other client and no other call has. They are names, not secrets.

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    process,
    time::{SystemTime, UNIX_EPOCH},
};

/// `prefix-` and 16 random hexadecimal digits: what `agentd.v1` accepts as an id.
#[must_use]
pub fn unique(prefix: &str) -> String {
    let mut hasher = RandomState::new().build_hasher();
    hasher.write_u32(process::id());
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    hasher.write_u128(now.map_or(0, |now| now.as_nanos()));
    format!("{prefix}-{:016x}", hasher.finish())
}

/// A number from 0 to 255 that differs from call to call, to spread what many clients do at once.
#[must_use]
pub fn chance() -> u8 {
    let hash = RandomState::new().build_hasher().finish();
    hash.to_le_bytes().first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::unique;
    use std::collections::HashSet;

    #[test]
    fn ids_differ_and_have_the_form_of_the_wire() {
        let ids: HashSet<String> = (0..1000).map(|_| unique("exec")).collect();
        assert_eq!(ids.len(), 1000);
        assert!(ids.iter().all(|id| {
            id.len() == 21 && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        }));
    }
}
