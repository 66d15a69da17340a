//! Ids of sessions: like those of executions, unique per caller.

use std::fmt;

use agentd_sandbox::policy::SessionKey;

/// What an id chosen by a daemon begins with.
const OWN: char = 's';

/// Characters of the boot id in an id chosen by a daemon.
const BOOT_CHARS: usize = 8;

/// Id of a session, 1 to 64 characters of `[A-Za-z0-9_-]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(String);

impl SessionId {
    /// `None` when the text is not an id.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        ((1..=64).contains(&text.len()) && text.chars().all(legal)).then(|| Self(text.to_owned()))
    }

    /// An id chosen by the daemon: part of its boot id, so that ids of an earlier daemon never come
    /// again, and a number.
    #[must_use]
    pub fn generated(boot_id: &str, key: SessionKey) -> Self {
        Self(format!("{OWN}{}-{}", boot_part(boot_id), key.0))
    }

    /// An earlier daemon chose this id: its session did not outlive that daemon.
    #[must_use]
    pub fn is_of_another_boot(&self, boot_id: &str) -> bool {
        let parts = self.0.strip_prefix(OWN).and_then(|id| id.split_once('-'));
        parts.is_some_and(|(boot, number)| {
            boot.len() == BOOT_CHARS
                && boot.chars().all(|c| c.is_ascii_hexdigit())
                && !number.is_empty()
                && number.chars().all(|c| c.is_ascii_digit())
                && boot != boot_part(boot_id)
        })
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The part of a boot id that ids hold.
fn boot_part(boot_id: &str) -> String {
    boot_id
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(BOOT_CHARS)
        .collect()
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: &str = "1b4e28ba-2fa1-11d2-883f-0016d3cca427";

    #[test]
    fn ids_are_short_and_plain() {
        for good in ["a", "A-z_0", &"x".repeat(64)] {
            assert!(SessionId::parse(good).is_some(), "{good}");
        }
        for bad in ["", "a b", "../x", "é", "a\0", &"x".repeat(65)] {
            assert!(SessionId::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn an_id_tells_whether_an_earlier_daemon_chose_it() {
        let own = SessionId::generated(BOOT, SessionKey(7));
        assert!(SessionId::parse(own.as_str()).is_some());
        assert!(!own.is_of_another_boot(BOOT));
        assert!(own.is_of_another_boot("00000000-2fa1"));
        for chosen_by_a_client in [
            "s",
            "s-1",
            "sdeadbeef-",
            "sdeadbeef-x",
            "xdeadbeef-1",
            "s1-1",
        ] {
            let id = SessionId::parse(chosen_by_a_client).unwrap();
            assert!(!id.is_of_another_boot(BOOT), "{chosen_by_a_client}");
        }
    }
}
