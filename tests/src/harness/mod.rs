//! Real binaries on three kinds of host: started, fed, watched and cleaned up.

mod binaries;
mod daemon;
mod mode;
mod program;
mod survivors;
mod wait;
mod world;

pub use binaries::binaries;
pub use daemon::Daemon;
pub use mode::{Mode, in_every_mode};
pub use program::{Ended, Program, Running};
pub use survivors::{Process, children_of, is_running, processes_with};
pub use wait::wait_until;
pub use world::World;
