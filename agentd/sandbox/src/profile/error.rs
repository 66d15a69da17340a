//! What can be wrong with a profile. Every text names the place, the key and the remedy.

use std::{io, path::PathBuf};

use thiserror::Error;

use crate::policy::RuleRef;

/// A profile that cannot be used. Loading stops at the first one: a catalogue with a broken profile
/// is no catalogue.
#[derive(Debug, Error)]
pub enum ProfileError {
    /// A file or directory cannot be read.
    #[error("cannot read {}; make it readable for the daemon or remove it from the profile directories", path.display())]
    Read {
        /// Path.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// Somebody else could change a file or directory.
    #[error("{} is not trusted: {problem}", path.display())]
    Untrusted {
        /// Path.
        path: PathBuf,
        /// What is wrong and the command that mends it.
        problem: String,
    },
    /// The text is not TOML, or a value has the wrong type.
    #[error("{at}: {problem}; the line reads `{text}`")]
    Syntax {
        /// Place.
        at: RuleRef,
        /// What the parser says.
        problem: String,
        /// The line.
        text: String,
    },
    /// A key that the schema does not know.
    #[error("{at}: unknown key `{key}`: {hint}")]
    UnknownKey {
        /// Place.
        at: RuleRef,
        /// Key.
        key: String,
        /// The nearest known key, or all of them.
        hint: String,
    },
    /// A value that the schema does not allow.
    #[error("{at}: `{key}`: {problem}")]
    Value {
        /// Place.
        at: RuleRef,
        /// Key, such as `limits.memory`.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// A key that neither the profile nor a parent gives.
    #[error(
        "{file}: no value for `{key}` in the profile or its parents; set it or write `extends = \"base\"`"
    )]
    Incomplete {
        /// File.
        file: String,
        /// Key.
        key: String,
    },
    /// The parents do not work out.
    #[error("{at}: `extends`: {problem}")]
    Inheritance {
        /// Place.
        at: RuleRef,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// Two profiles have one name.
    #[error("profile '{name}' in {} exists already: {problem}", path.display())]
    Duplicate {
        /// Name.
        name: String,
        /// The second one.
        path: PathBuf,
        /// Where the first one is, and the remedy.
        problem: String,
    },
}
