//! Sessions against a launcher that a thread plays.
