//! Rules about the repository itself: what may stand where. They read files and never build.

mod boundaries;
mod dependencies;
mod documents;
mod sources;
mod tree;
