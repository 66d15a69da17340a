//! The model providers behind one port, and how one is chosen. A provider turns a request into a reply;
//! it must not look at the conversation's meaning, run tools, or keep state of the turn.

pub mod anthropic;
mod choice;
mod error;
pub mod scripted;
mod surrogate;

pub use choice::{ChoiceError, ProviderChoice};
pub use error::{ErrorClass, ProviderError};
