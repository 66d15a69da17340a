//! Configuration: the process environment, read once, and the rules that choose a model, a key and a
//! host. The only place besides `args` that looks at the environment; nothing here changes it.

mod dotenv;
mod environment;
mod model;
mod workspace;

pub use dotenv::DotEnv;
pub use environment::{Environment, KNOWN_KEYS};
pub use model::{ConfigError, Consent, ModelInputs, ModelSettings, resolve};
pub use workspace::{WorkspaceError, start_directory, workspace};
