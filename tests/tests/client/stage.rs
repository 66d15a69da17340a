//! What every client test does: start the client against a mock, and judge all that the mock saw.

use agentd_tests::{
    harness::{Mode, Program, World},
    mock::{KEY, MockApi, prefix_extends, results_in_call_order},
};
use serde_json::Value;

/// The client is the same on every kind of host; one with namespaces is enough.
pub(crate) fn world() -> World {
    let possible = Mode::possible();
    let mode = if possible.contains(&Mode::Rootless) {
        Some(&Mode::Rootless)
    } else {
        possible.first()
    };
    World::new(*mode.expect("some kind of host"))
}

/// `agent-cli` with the mock as its API.
pub(crate) fn client(world: &World, mock: &MockApi, words: &[&str]) -> Program {
    world
        .cli(words)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", &mock.base_url())
        .env("MODEL_ID", "mock-1")
}

/// Fails if any request broke a rule of the service or of ours, or did not extend the one before it.
/// Returns the bodies.
#[track_caller]
pub(crate) fn judge(mock: &MockApi) -> Vec<Value> {
    let recorded = mock.requests();
    for (index, one) in recorded.iter().enumerate() {
        assert_eq!(one.refused, None, "request {index}: {}", one.body());
        assert!(
            results_in_call_order(&one.body()),
            "request {index}: {}",
            one.body()
        );
    }
    for (index, pair) in recorded.windows(2).enumerate() {
        let [before, after] = pair else { continue };
        // A retry repeats a request byte for byte; everything else extends it.
        if before.request.body != after.request.body {
            prefix_extends(&before.request.body, &after.request.body)
                .unwrap_or_else(|error| panic!("request {} after {index}: {error}", index + 1));
        }
    }
    recorded
        .iter()
        .map(agentd_tests::mock::Recorded::body)
        .collect()
}

/// The results in the last message of a request, by the id of their call.
pub(crate) fn results(body: &Value) -> Vec<(&str, String, bool)> {
    let last = body["messages"].as_array().and_then(|list| list.last());
    let blocks = last.and_then(|message| message["content"].as_array());
    let blocks = blocks.map_or(&[][..], Vec::as_slice);
    blocks
        .iter()
        .filter(|block| block["type"] == "tool_result")
        .map(|block| {
            let id = block["tool_use_id"].as_str().unwrap_or_default();
            (id, text_of(&block["content"]), block["is_error"] == true)
        })
        .collect()
}

/// The text of a content, whether a string or a list of blocks.
pub(crate) fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect::<Vec<_>>()
            .join("\n"),
        _ => String::new(),
    }
}
