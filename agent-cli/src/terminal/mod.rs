//! What a person sees and types. Everything that comes from a model, a tool or a repository is made
//! harmless first.

mod call;
mod input;
mod neutral;
mod page;
#[cfg(test)]
mod paper;
mod screen;
mod style;

pub use call::headline;
pub use input::{Input, Line, Question, confirm};
pub use neutral::{Neutraliser, excerpt, neutral};
pub use screen::{Screen, Voice};
pub use style::{Ink, Style};
