//! A strict stand-in for the Anthropic Messages API.
//!
//! It answers from a script, records every request byte for byte, and refuses what the real service
//! refuses (`rules`). It must never be more lenient than the service: a client test that passes here
//! has to mean something. No HTTP library: the server is small enough to read (`http`).

mod http;
mod prefix;
mod reply;
mod rules;
mod server;
mod tool_pairs;

pub use http::Request;
pub use prefix::prefix_extends;
pub use reply::{Fault, Framing, Message, Reply, text, tool_use};
pub use rules::{ApiError, check_body, check_headers};
pub use server::{KEY, MockApi, Recorded};
pub use tool_pairs::results_in_call_order;
