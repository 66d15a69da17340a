//! The services of the daemon as their clients meet them: sessions, background commands, input, signals,
//! terminals, limits, queues and ends, over gRPC against a real daemon on every kind of host.

mod background;
mod ids;
mod limits;
mod output;
mod queue;
mod readers;
mod sessions;
mod shutdown;
mod signals;
mod site;
mod state;
mod stdin;
mod terminal;
mod terminate;
