//! The bytes of a request. Messages come last and are taken over as they were serialised once, so a later
//! body is an earlier one without its last two bytes, and more. Must not put anything that changes (a time, a
//! moving cache marker) anywhere.

use serde_json::{Value, json};

use crate::agent::ports::{Preamble, Request};

/// Which cache markers a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CacheMarkers {
    /// On the frozen part only: gateways may reject the top-level field.
    Frozen,
    /// Also the top-level one, with which the vendor caches the whole prefix by itself.
    Automatic,
}

/// The body of a request.
pub(super) fn body(request: Request<'_>, cache: CacheMarkers) -> String {
    let mut body = frozen(request.preamble, cache);
    body.push_str("\"messages\":[");
    for (index, message) in request.messages.iter().enumerate() {
        if index > 0 {
            body.push(',');
        }
        body.push_str(message.json());
    }
    body.push_str("]}");
    body
}

/// Everything before the messages; the same bytes for a whole session.
fn frozen(preamble: &Preamble, cache: CacheMarkers) -> String {
    let marker = || json!({"type": "ephemeral"});
    let mut fields = vec![
        ("model", json!(preamble.model)),
        ("max_tokens", json!(preamble.max_tokens)),
        ("stream", json!(true)),
    ];
    if cache == CacheMarkers::Automatic {
        fields.push(("cache_control", marker()));
    }
    if !preamble.system.trim().is_empty() {
        let block = json!({"type": "text", "text": preamble.system, "cache_control": marker()});
        fields.push(("system", Value::Array(vec![block])));
    }
    if !preamble.tools.is_empty() {
        fields.push(("tools", tools(preamble, &marker())));
    }
    let mut text = "{".to_owned();
    for (name, value) in fields {
        text.extend(["\"", name, "\":", &value.to_string(), ","]);
    }
    text
}

fn tools(preamble: &Preamble, marker: &Value) -> Value {
    let mut tools: Vec<Value> = preamble
        .tools
        .iter()
        .map(|tool| {
            json!({
                "name": tool.name,
                "description": tool.description,
                "input_schema": tool.input_schema,
            })
        })
        .collect();
    if let Some(fields) = tools.last_mut().and_then(Value::as_object_mut) {
        fields.insert("cache_control".to_owned(), marker.clone());
    }
    Value::Array(tools)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Message, Role, ToolDefinition, text_block};

    fn preamble() -> Preamble {
        let schema =
            serde_json::from_str(r#"{"type":"object","properties":{"z":{},"a":{}}}"#).unwrap();
        let tool = ToolDefinition {
            name: "bash".into(),
            description: "d".into(),
            input_schema: schema,
        };
        Preamble {
            model: "m".into(),
            system: "s".into(),
            tools: vec![tool],
            max_tokens: 8000,
        }
    }

    #[test]
    fn a_body_has_these_bytes() {
        let preamble = preamble();
        let messages = [Message::new(Role::User, vec![text_block("hi \"there\"\n")])];
        let body = body(
            Request {
                preamble: &preamble,
                messages: &messages,
            },
            CacheMarkers::Frozen,
        );
        expect_test::expect![[r#"{"model":"m","max_tokens":8000,"stream":true,"system":[{"type":"text","text":"s","cache_control":{"type":"ephemeral"}}],"tools":[{"name":"bash","description":"d","input_schema":{"type":"object","properties":{"z":{},"a":{}}},"cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"hi \"there\"\n"}]}]}"#]]
        .assert_eq(&body);
    }

    #[test]
    fn a_longer_conversation_extends_the_bytes_of_a_shorter_one() {
        let preamble = preamble();
        let messages = ["a", "b", "c"].map(|text| Message::new(Role::User, vec![text_block(text)]));
        for markers in [CacheMarkers::Frozen, CacheMarkers::Automatic] {
            let at = |count: usize| {
                body(
                    Request {
                        preamble: &preamble,
                        messages: &messages[..count],
                    },
                    markers,
                )
            };
            for count in 1..3 {
                let (shorter, longer) = (at(count), at(count + 1));
                assert!(
                    longer.starts_with(shorter.strip_suffix("]}").unwrap()),
                    "{longer}"
                );
            }
        }
    }

    #[test]
    fn a_body_is_valid_json_with_at_most_four_markers_also_without_tools_and_system() {
        let mut preamble = preamble();
        let messages = [Message::new(Role::User, vec![text_block("x")])];
        let body_of = |preamble: &Preamble| {
            body(
                Request {
                    preamble,
                    messages: &messages,
                },
                CacheMarkers::Automatic,
            )
        };
        assert_eq!(body_of(&preamble).matches("cache_control").count(), 3);
        preamble.tools.clear();
        preamble.system.clear();
        let value: Value = serde_json::from_str(&body_of(&preamble)).unwrap();
        assert_eq!(value["cache_control"]["type"], "ephemeral");
        assert!(
            value.get("tools").is_none() && value.get("system").is_none(),
            "{value}"
        );
    }
}
