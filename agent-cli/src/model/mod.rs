//! What goes to and comes from a model, as values: messages, replies, tool calls and their results.
//! Pure data. Must not do IO, decide what the loop does next, or know one vendor's wire format beyond
//! the block shapes of the Messages API, which are our canonical form.

mod call;
mod message;
mod reply;
mod usage;

pub use call::{ToolCall, ToolDefinition, ToolOutcome, ToolStatus};
pub use message::{Message, Role, text_block, tool_result_block};
pub(crate) use message::{block_field, block_text, block_type};
pub use reply::{BlockFault, Reply, ReplyBlock, StopReason};
pub use usage::Usage;
