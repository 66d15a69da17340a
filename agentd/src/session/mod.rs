//! Sessions: policy, workspace, working directory, exported environment and a lease; not a live shell.
//!
//! The launcher keeps what outlives a command (private files, namespaces); this side keeps where the
//! next command starts, who may use the session, and when it is over. Knows nothing of the wire format.

mod base;
mod declare;
mod handle;
mod hook;
mod id;
mod life;
mod registry;
mod report;
mod seat;
mod spec;
mod state;
mod work;

#[cfg(test)]
mod tests;

pub use handle::Session;
pub use hook::NOT_KEPT;
pub use id::SessionId;
pub use registry::{CreateError, DeleteError, Registry, Room, Unknown};
pub use seat::{Kind, Seat, SeatError, Wish};
pub use spec::{DEFAULT_LEASE, MAX_LEASE, NotOpened, Phase, SessionSpec};
pub use work::Known;
