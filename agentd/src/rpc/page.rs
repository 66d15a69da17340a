//! Pages of the list of executions.

use std::sync::Arc;

use agentd_proto::v1 as pb;
use prost::Message;

use super::status::Problem;
use crate::exec::{Exec, ExecState};

const MAX_PAGE: usize = 1000;
const DEFAULT_PAGE: usize = 100;

/// Most bytes of a page, so that no client refuses the message for its size (4 MiB by default). A page
/// may hold fewer executions than asked for.
const MAX_BYTES: usize = 2 * 1024 * 1024;

/// A page that is asked for.
pub(super) struct Page {
    size: usize,
    after: u64,
    state: Option<pb::ExecState>,
    session: String,
}

impl Page {
    /// Checks the request.
    pub(super) fn of(ask: &pb::ListExecsRequest) -> Result<Self, Problem> {
        let size = match usize::try_from(ask.page_size).unwrap_or(usize::MAX) {
            0 => DEFAULT_PAGE,
            size => size.min(MAX_PAGE),
        };
        let after = match ask.page_token.as_str() {
            "" => 0,
            token => token
                .parse()
                .ok()
                .ok_or_else(|| Problem::invalid("'page_token' is not one of this daemon's"))?,
        };
        let state = pb::ExecState::try_from(ask.state)
            .ok()
            .ok_or_else(|| Problem::invalid("'state' is not a state that this daemon knows"))?;
        Ok(Self {
            size,
            after,
            state: (state != pb::ExecState::Unspecified).then_some(state),
            session: ask.session_id.clone(),
        })
    }

    /// The answer, from all executions in order of creation that `encode` has something to say of.
    pub(super) fn fill(
        &self,
        execs: &[Arc<Exec>],
        encode: impl Fn(&Exec) -> Option<pb::Exec>,
    ) -> pb::ListExecsResponse {
        let mut page = pb::ListExecsResponse::default();
        let (mut bytes, mut last) = (0_usize, None);
        for exec in execs.iter().filter(|exec| self.matches(exec)) {
            if page.execs.len() >= self.size || bytes > MAX_BYTES {
                page.next_page_token = last.map(|key: u64| key.to_string()).unwrap_or_default();
                break;
            }
            let Some(wire) = encode(exec) else { continue };
            bytes = bytes.saturating_add(wire.encoded_len());
            last = Some(exec.key().0);
            page.execs.push(wire);
        }
        page
    }

    fn matches(&self, exec: &Exec) -> bool {
        let state = match exec.state() {
            ExecState::Starting => pb::ExecState::Queued,
            ExecState::Running => pb::ExecState::Running,
            ExecState::Ended => pb::ExecState::Ended,
            ExecState::NotStarted(_) => return false,
        };
        (self.session.is_empty() || exec.session_id() == Some(self.session.as_str()))
            && exec.key().0 > self.after
            && self.state.is_none_or(|wanted| wanted == state)
    }
}
