//! Real binaries on three kinds of host: started, fed, watched and cleaned up.

mod api;
mod binaries;
mod daemon;
mod follow;
mod measure;
mod mode;
mod program;
mod proxy;
mod random;
mod residue;
mod survivors;
mod transcript;
mod wait;
mod world;

pub use api::{Api, Pings, script, wire};
pub use binaries::binaries;
pub use daemon::Daemon;
pub use follow::follow;
pub use measure::Footprint;
pub use mode::{Mode, in_every_mode, in_every_mode_at_once};
pub use program::{Ended, Program, Running};
pub use proxy::{Fate, Fault, Pace, Proxy};
pub use random::{Random, rounds, seeds};
pub use residue::{adopt_orphans, bury_orphans, members_of_cgroups, residue};
pub use survivors::{
    Process, below, children_of, is_running, parent_of, processes_named, processes_with, state_of,
    zombies_below,
};
pub use transcript::{Track, Transcript};
pub use wait::wait_until;
pub use world::World;
