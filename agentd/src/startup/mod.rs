//! Everything that happens before the runtime exists, while there is one thread: start the launcher,
//! bind, look up what later cannot be opened any more, give up privilege. In that order.

mod facts;
mod launcher;
mod listener;
pub(crate) mod open_files;
mod privilege;

pub use facts::{Memory, identity};
pub use launcher::{BootError, Booted, LauncherCommand, LauncherProcess};
pub use listener::{ListenError, Listening, Others, Reach, embedded};
pub use privilege::{PrivilegeError, Unprivileged};
