//! How many sessions there may be.

use super::ConfigError;
use crate::session::Room;

/// Sessions of one user at once, unless configured.
const DEFAULT: usize = 64;

/// Most that can be configured: each takes descriptors, a directory and up to 64 KiB.
pub(super) const MOST: usize = 1024;

/// Users that can have all their sessions at the same time.
const USERS: usize = 8;

/// From the key `max-sessions`.
pub(super) fn parse(max_sessions: Option<usize>) -> Result<Room, ConfigError> {
    let per_user = max_sessions.unwrap_or(DEFAULT);
    if !(1..=MOST).contains(&per_user) {
        return Err(ConfigError::MaxSessions(per_user));
    }
    Ok(Room {
        per_user,
        in_all: per_user.saturating_mul(USERS),
    })
}
