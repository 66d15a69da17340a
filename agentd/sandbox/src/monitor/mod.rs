//! The conversation between the front end and the launcher.

mod channel;
mod protocol;

pub use channel::{Channel, ChannelError, MAX_FDS, MAX_MESSAGE, Received};
pub use protocol::{
    Cause, Event, ExecKey, JailReport, LeaderStatus, LimitHit, LimitKind, ProfileSummary, Request,
    SetupFailure, SignalScope, SpawnFds, StartedFds, StopReason, Tripped, Usage,
};
