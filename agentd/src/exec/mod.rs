//! Executions: what the daemon knows of a command between its request and its one terminal event.
//!
//! Nothing here knows the wire format (`rpc` translates) or starts a process (the launcher does).

mod admission;
mod conclude;
mod courtesy;
mod disk;
mod driver;
mod end;
mod event;
mod executor;
mod handle;
mod kept;
mod lifecycle;
mod log;
mod output;
mod pipes;
mod progress;
mod reader;
mod registry;
mod room;
mod running;
mod spec;
mod state;
mod stats;
mod stdin;
mod terminal;
mod tuning;

pub use end::{Denial, DenialSource, ExitReason, ExitResult, LimitHit, LimitKind, OutputFile};
pub use event::{Event, EventBody, Offsets, OutputStream, StartReport};
pub use executor::{Drained, Executor, SubmitError};
pub use handle::{Exec, Presence};
pub use log::{Excerpt, RING_BYTES};
pub use output::OutputPiece;
pub use progress::{Attachment, ExecState, NotStarted};
pub use reader::{ReadItem, Reader};
pub use registry::{AdmitError, Registry};
pub use room::OutputRoom;
pub use spec::{
    DEFAULT_GRACE, DEFAULT_OUTPUT_FILE, DEFAULT_QUEUE_TIMEOUT, Disconnect, ExecId, ExecSpec, Hook,
    Labels, MAX_GRACE, MAX_OUTPUT_FILE, MAX_QUEUE_TIMEOUT, SessionEnd, SessionHook,
};
pub use stats::Stats;
pub use stdin::{Accepted, Input as StdinInput, Stdin, StdinError};
pub use tuning::Tuning;
