//! Refusals that have to do with sessions.

use tonic::Code;

use super::{Problem, Retry, launcher_gone};
use crate::session::{CreateError, DeleteError, NotOpened, SeatError, Unknown};

impl Problem {
    /// No such session of this caller.
    pub(in crate::rpc) fn unknown_session(id: &str, why: Unknown) -> Self {
        let reason = match why {
            Unknown::OtherBoot => "INSTANCE_RESTARTED",
            Unknown::Ended | Unknown::Never => "SESSION_EXPIRED",
        };
        Self::new(Code::NotFound, reason, format!("session '{id}': {why}"))
    }

    /// A session is there no more, or still.
    pub(in crate::rpc) fn not_deleted(id: &str, why: DeleteError) -> Self {
        match why {
            DeleteError::Unknown(why) => Self::unknown_session(id, why),
            DeleteError::Unfinished => Self {
                retry: Retry::Later,
                ..Self::new(Code::Unavailable, "SESSION_CLOSING", why.to_string())
            },
        }
    }
}

impl From<SeatError> for Problem {
    fn from(error: SeatError) -> Self {
        match error {
            SeatError::Full => Self {
                retry: Retry::Later,
                ..Self::new(Code::ResourceExhausted, "LIMIT_EXECS", error.to_string())
            },
            SeatError::Closing => Self::new(Code::NotFound, "SESSION_EXPIRED", error.to_string()),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        let (code, reason, retry) = match error {
            CreateError::NotOpened(why) => return why.into(),
            CreateError::Conflict(_) => {
                (Code::AlreadyExists, "SESSION_ID_CONFLICT", Retry::Useless)
            }
            CreateError::Full(_) => (Code::ResourceExhausted, "LIMIT_SESSIONS", Retry::Later),
            CreateError::Closing(_) => (Code::Unavailable, "SESSION_CLOSING", Retry::Later),
            CreateError::Draining => (Code::Unavailable, "DRAINING", Retry::Later),
        };
        Self {
            retry,
            ..Self::new(code, reason, error.to_string())
        }
    }
}

impl From<NotOpened> for Problem {
    fn from(error: NotOpened) -> Self {
        match error {
            NotOpened::Refused(refusal) => refusal.into(),
            NotOpened::Late => Self {
                retry: Retry::Later,
                ..Self::new(Code::Unavailable, "LAUNCHER_BUSY", error.to_string())
            },
            NotOpened::LauncherGone => launcher_gone(),
        }
    }
}
