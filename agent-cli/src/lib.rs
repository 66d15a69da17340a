//! agent-cli.
