//! `Profile + Invocation + HostFacts → Policy`.
