//! agentd front end.
