//! The tools that need a session: how they find what they are about.

use std::sync::Arc;

use agentd_proto::v1 as pb;

use crate::{
    rpc::{Daemon, convert::Asker, status::Problem},
    session::{Kind, Known, Session},
};

/// Most commands that are named where an id is unknown.
const MAX_NAMED: usize = 20;

/// What there is instead of a command.
pub(super) enum Missing {
    /// The model is told, with the remedy.
    Told(String),
    /// The request itself is refused.
    Refused(Problem),
}

impl From<Problem> for Missing {
    fn from(problem: Problem) -> Self {
        Self::Refused(problem)
    }
}

/// The session of a call; what the model is told when the call has none.
pub(super) fn of(
    daemon: &Daemon,
    asker: Asker<'_>,
    call: &pb::CallToolRequest,
) -> Result<Arc<Session>, Missing> {
    if call.session_id.is_empty() {
        return Err(Missing::Told(format!(
            "Error: {} needs a session, and this conversation has none. Run the command with bash and wait for its end.",
            crate::text::neutralise(&call.name)
        )));
    }
    Ok(daemon.session(asker, &call.session_id)?)
}

/// A command of the session; what the model is told when there is none of this id.
pub(super) fn find(session: &Session, id: &str) -> Result<Known, Missing> {
    session.find(id).ok_or_else(|| {
        Missing::Told(format!(
            "Error: there is no command {:?} in this session. {}",
            crate::text::neutralise(id),
            known(session)
        ))
    })
}

fn known(session: &Session) -> String {
    let background: Vec<_> = session
        .known()
        .into_iter()
        .filter(|known| known.kind == Kind::Background)
        .collect();
    if background.is_empty() {
        return "Nothing was started in the background, or it is forgotten by now; start it with bash and background.".to_owned();
    }
    let describe = |known: &Known| {
        let state = if known.is_running() {
            "running"
        } else {
            "ended"
        };
        format!("{:?} ({state})", known.exec.id().as_str())
    };
    let skipped = background.len().saturating_sub(MAX_NAMED);
    let named: Vec<_> = background.iter().skip(skipped).map(describe).collect();
    format!("In the background: {}.", named.join(", "))
}
