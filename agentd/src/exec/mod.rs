//! Executions: what the daemon knows of a command between its request and its one terminal event.
//!
//! Nothing here knows the wire format (`rpc` translates) or starts a process (the launcher does).

mod conclude;
mod driver;
mod end;
mod event;
mod executor;
mod handle;
mod lifecycle;
mod log;
mod output;
mod pipes;
mod reader;
mod registry;
mod spec;
mod stats;

pub use end::{Denial, DenialSource, ExitReason, ExitResult, LimitHit, LimitKind, OutputFile};
pub use event::{Event, EventBody, Offsets, OutputStream, StartReport};
pub use executor::{Drained, Executor, SubmitError};
pub use handle::{Exec, ExecState, NotStarted, Presence};
pub use log::{Excerpt, RING_BYTES};
pub use output::OutputPiece;
pub use reader::{ReadItem, Reader};
pub use registry::{AdmitError, Registry};
pub use spec::{
    DEFAULT_GRACE, Disconnect, ExecId, ExecSpec, Hook, Labels, MAX_GRACE, SessionEnd, SessionHook,
};
pub use stats::Stats;
