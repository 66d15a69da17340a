//! An execution request on its way into the daemon: checked, and given its place in a session if it names
//! one.

use std::{path::Path, sync::Arc};

use agentd_proto::v1 as pb;

use super::{
    Daemon,
    convert::{self, Asker},
    features,
    status::Problem,
};
use crate::{
    exec::{Exec, ExecSpec},
    session::{Kind, Seat, Session, Wish},
};

/// A checked request.
#[derive(Debug)]
pub(super) struct Placed {
    /// What to execute.
    pub(super) spec: ExecSpec,
    /// Its place in a session.
    pub(super) seat: Option<Seat>,
}

impl Daemon {
    /// Checks a request as a whole.
    pub(super) fn place(&self, asker: Asker<'_>, wire: pb::ExecSpec) -> Result<Placed, Problem> {
        self.require_boot(&wire.expected_boot_id)?;
        features::require(&wire.required_features, asker.features)?;
        if wire.session_id.is_empty() {
            if wire.background {
                return Err(Problem::invalid(
                    "'background' needs a session to live in; create one and name it in 'session_id'",
                ));
            }
            let spec = convert::exec_spec(wire, asker)?;
            return Ok(Placed { spec, seat: None });
        }
        self.place_in_session(asker, wire)
    }

    fn place_in_session(
        &self,
        asker: Asker<'_>,
        mut wire: pb::ExecSpec,
    ) -> Result<Placed, Problem> {
        let session = self.session(asker, &wire.session_id)?;
        if wire
            .sandbox
            .take()
            .is_some_and(|own| own != pb::SandboxSpec::default())
        {
            return Err(Problem::invalid(
                "'sandbox' is the session's; leave it out, or leave 'session_id' out",
            ));
        }
        let id = convert::exec_id(&wire.exec_id)?;
        let registry = self.executor.registry();
        let seat = session.seat(&Wish {
            known: id.as_ref().and_then(|id| registry.known(asker.caller, id)),
            id,
            kind: if wire.background {
                Kind::Background
            } else {
                Kind::Foreground
            },
            output_file_bytes: wire.io.map_or(0, |io| io.output_file_bytes),
            boot_id: &self.identity.boot_id,
        })?;
        wire.sandbox = Some(jail_of(&session));
        if let Some(command) = &mut wire.command {
            command.cwd = from_directory(&command.cwd, seat.directory());
        }
        let mut spec = convert::exec_spec(wire, asker)?;
        seat.furnish(&mut spec);
        Ok(Placed {
            spec,
            seat: Some(seat),
        })
    }

    /// Refuses a request that was meant for another daemon than this: what that one has run is not run
    /// again here.
    pub(super) fn require_boot(&self, expected: &str) -> Result<(), Problem> {
        let own = &self.identity.boot_id;
        if expected.is_empty() || expected == own {
            return Ok(());
        }
        Err(Problem::other_boot(own))
    }

    /// An open session of the caller; naming it renews its lease.
    pub(super) fn session(&self, asker: Asker<'_>, id: &str) -> Result<Arc<Session>, Problem> {
        self.sessions
            .find(asker.caller, id)
            .map_err(|why| Problem::unknown_session(&crate::text::neutralise(id), why))
    }

    /// Has a checked request executed. The second value: it is new.
    pub(super) fn submit(&self, placed: Placed) -> Result<(Arc<Exec>, bool), Problem> {
        let (exec, is_new) = self.executor.submit(placed.spec)?;
        if let Some(seat) = placed.seat {
            seat.take(&exec);
        }
        Ok((exec, is_new))
    }
}

/// The jail of every command of a session.
pub(super) fn jail_of(session: &Session) -> pb::SandboxSpec {
    pb::SandboxSpec {
        profile: session.spec().profile.clone(),
        workspace: session.spec().workspace.to_string_lossy().into_owned(),
    }
}

/// A request's directory, where a relative one is taken from the session's.
fn from_directory(text: &str, directory: &Path) -> String {
    if text.is_empty() || text.starts_with('/') {
        return text.to_owned();
    }
    directory.join(text).to_string_lossy().into_owned()
}
