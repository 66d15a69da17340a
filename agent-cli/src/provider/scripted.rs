//! A recorded conversation as a model. It is a provider like any other: the loop, the daemon and the jail
//! around it are real. A reply may state what must have come back before; when reality differs the call
//! fails, so a script cannot pretend. Must not run anything or look anywhere but at the request.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::ProviderError;
use crate::agent::ports::{BoxFuture, Provider, ReplySink, Request};
use crate::model::{
    Message, Reply, ReplyBlock, StopReason, Usage, block_field, block_text, block_type,
};

/// A recorded conversation could not be read or does not fit what happened.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The file cannot be read.
    #[error("cannot read the recorded conversation {}; check the path after `scripted:`", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a recording.
    #[error(
        "the recorded conversation is not valid; it must be a JSON list of replies {{content, stop_reason, usage?, expect_contains?}}"
    )]
    Parse {
        /// Where and why.
        #[source]
        source: serde_json::Error,
    },
    /// Nothing recorded is left.
    #[error(
        "the recorded conversation has {recorded} replies and the loop asked for one more; record what comes next"
    )]
    Exhausted {
        /// Replies in the recording.
        recorded: usize,
    },
    /// Reality differs from what the recording expects.
    #[error(
        "reply {reply} of the recorded conversation expects {expected:?} in what came back, but it was:\n{actual}"
    )]
    Unexpected {
        /// Number of the reply, from 1.
        reply: usize,
        /// The text that was not there.
        expected: String,
        /// What was there.
        actual: String,
    },
}

/// One recorded reply.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedReply {
    content: Vec<Value>,
    stop_reason: String,
    #[serde(default)]
    usage: RecordedUsage,
    /// Each of these must occur in the user message that this reply answers (prompt or tool results).
    #[serde(default)]
    expect_contains: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RecordedUsage {
    input_tokens: u64,
    output_tokens: u64,
}

/// A model that answers from a recording, one reply per request.
#[derive(Debug)]
pub struct ScriptedProvider {
    replies: Vec<RecordedReply>,
    next: AtomicUsize,
}

impl ScriptedProvider {
    /// Reads a recording from a file. `placeholders` are (name, value) pairs: `${name}` in any string of
    /// the recording becomes the value; other `${…}` are left alone, they may be bash.
    pub fn open(path: &Path, placeholders: &[(&str, &str)]) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path).map_err(|source| ScriptError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::from_json(&text, placeholders)
    }

    /// Reads a recording from JSON text. See [`ScriptedProvider::open`].
    pub fn from_json(json: &str, placeholders: &[(&str, &str)]) -> Result<Self, ScriptError> {
        let mut recording: Value =
            serde_json::from_str(json).map_err(|source| ScriptError::Parse { source })?;
        substitute(&mut recording, placeholders);
        let replies =
            serde_json::from_value(recording).map_err(|source| ScriptError::Parse { source })?;
        Ok(Self {
            replies,
            next: AtomicUsize::new(0),
        })
    }

    /// Recorded replies that have not been used yet.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.replies
            .len()
            .saturating_sub(self.next.load(Ordering::Relaxed))
    }

    fn answer(&self, messages: &[Message], sink: &dyn ReplySink) -> Result<Reply, ScriptError> {
        let index = self.next.load(Ordering::Relaxed);
        let recorded = self.replies.get(index).ok_or(ScriptError::Exhausted {
            recorded: self.replies.len(),
        })?;
        let number = index.saturating_add(1);
        let actual = messages.last().map(came_back).unwrap_or_default();
        if let Some(expected) = recorded
            .expect_contains
            .iter()
            .find(|text| !actual.contains(*text))
        {
            let expected = expected.clone();
            return Err(ScriptError::Unexpected {
                reply: number,
                expected,
                actual,
            });
        }
        self.next.store(number, Ordering::Relaxed);
        let reply = recorded.to_reply(number);
        for block in &reply.blocks {
            if let ("text", Some(text)) = (block_type(&block.value), block_text(&block.value)) {
                sink.text_delta(text);
            }
        }
        Ok(reply)
    }
}

impl Provider for ScriptedProvider {
    fn complete<'a>(
        &'a self,
        request: Request<'a>,
        sink: &'a dyn ReplySink,
    ) -> BoxFuture<'a, Result<Reply, ProviderError>> {
        Box::pin(async move { Ok(self.answer(request.messages, sink)?) })
    }
}

impl RecordedReply {
    fn to_reply(&self, number: usize) -> Reply {
        let blocks = self.content.iter().enumerate().map(|(index, block)| {
            let mut value = block.clone();
            if let ("tool_use", Some(fields)) = (block_type(block), value.as_object_mut()) {
                give_id(fields, number, index);
            }
            ReplyBlock::from(value)
        });
        Reply {
            blocks: blocks.collect(),
            stop_reason: StopReason::parse(&self.stop_reason),
            usage: Usage {
                input: self.usage.input_tokens,
                output: self.usage.output_tokens,
                ..Usage::default()
            },
        }
    }
}

/// Recordings need not number their calls: a call without an id gets one from its place.
fn give_id(fields: &mut Map<String, Value>, reply: usize, index: usize) {
    if !fields.contains_key("id") {
        fields.insert(
            "id".to_owned(),
            Value::String(format!("call_{reply}_{index}")),
        );
    }
}

/// The readable text of the message that a reply answers.
fn came_back(message: &Message) -> String {
    let texts = message
        .content()
        .iter()
        .filter_map(|block| match block_type(block) {
            "tool_result" => block_field(block, "content"),
            _ => block_text(block),
        });
    texts.collect::<Vec<_>>().join("\n")
}

fn substitute(value: &mut Value, placeholders: &[(&str, &str)]) {
    match value {
        Value::String(text) => {
            for (name, replacement) in placeholders {
                let pattern = format!("${{{name}}}");
                if text.contains(&pattern) {
                    *text = text.replace(&pattern, replacement);
                }
            }
        }
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| substitute(item, placeholders)),
        Value::Object(fields) => fields
            .values_mut()
            .for_each(|item| substitute(item, placeholders)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::agent::ports::{Preamble, RetryNotice};
    use crate::model::{Role, ToolOutcome, text_block, tool_result_block};

    #[derive(Default)]
    struct Texts(Mutex<Vec<String>>);

    impl ReplySink for Texts {
        fn text_delta(&self, text: &str) {
            self.0.lock().unwrap().push(text.to_owned());
        }
        fn thinking_delta(&self, _text: &str) {}
        fn retry(&self, _notice: &RetryNotice) {}
    }

    const RECORDING: &str = r#"[
        {"content": [{"type": "text", "text": "in ${workspace}"},
                     {"type": "tool_use", "name": "bash", "input": {"command": "cd ${workspace}; echo ${HOME}"}}],
         "stop_reason": "tool_use"},
        {"expect_contains": ["from ${workspace}"], "content": [{"type": "text", "text": "ok"}],
         "stop_reason": "end_turn", "usage": {"output_tokens": 3}}
    ]"#;

    async fn ask(
        provider: &ScriptedProvider,
        messages: &[Message],
    ) -> Result<Reply, ProviderError> {
        let preamble = Preamble {
            model: "m".into(),
            system: "s".into(),
            tools: Vec::new(),
            max_tokens: 1,
        };
        provider
            .complete(
                Request {
                    preamble: &preamble,
                    messages,
                },
                &Texts::default(),
            )
            .await
    }

    fn conversation(result: &str) -> Vec<Message> {
        let outcome = ToolOutcome::failed(result);
        vec![
            Message::new(Role::User, vec![text_block("go")]),
            Message::new(Role::User, vec![tool_result_block("call_1_1", &outcome)]),
        ]
    }

    #[tokio::test]
    async fn known_placeholders_are_replaced_and_bash_variables_are_not() {
        let provider = ScriptedProvider::from_json(RECORDING, &[("workspace", "/w")]).unwrap();
        let reply = ask(&provider, &conversation("")).await.unwrap();
        assert_eq!(reply.text(), "in /w");
        let call = &reply.blocks[1].value;
        assert_eq!(call["input"]["command"], "cd /w; echo ${HOME}");
        assert_eq!(call["id"], "call_1_1");
    }

    #[tokio::test]
    async fn a_script_fails_when_reality_differs_and_goes_on_when_it_fits() {
        let provider = ScriptedProvider::from_json(RECORDING, &[("workspace", "/w")]).unwrap();
        ask(&provider, &conversation("")).await.unwrap();
        let error = ask(&provider, &conversation("from /elsewhere"))
            .await
            .unwrap_err();
        assert!(error.to_string().contains("\"from /w\""), "{error}");
        assert!(error.to_string().contains("from /elsewhere"), "{error}");
        let reply = ask(&provider, &conversation("it came from /w."))
            .await
            .unwrap();
        assert_eq!((reply.text().as_str(), reply.usage.output), ("ok", 3));
        assert_eq!(provider.remaining(), 0);
    }

    #[tokio::test]
    async fn a_script_that_is_used_up_says_so() {
        let provider = ScriptedProvider::from_json("[]", &[]).unwrap();
        let error = ask(&provider, &conversation("")).await.unwrap_err();
        assert!(error.to_string().contains("has 0 replies"), "{error}");
    }

    #[test]
    fn a_recording_with_an_unknown_key_is_refused() {
        let json = r#"[{"content": [], "stop_reason": "end_turn", "expects_contain": []}]"#;
        let error = ScriptedProvider::from_json(json, &[]).unwrap_err();
        assert!(matches!(error, ScriptError::Parse { .. }), "{error}");
    }
}
