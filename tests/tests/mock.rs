//! The mock judged: one valid request passes, and every way to break it is refused.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use agentd_tests::mock::{
    Fault, Framing, KEY, Message, MockApi, Reply, Request, check_body, check_headers,
    results_in_call_order, text, tool_use,
};
use serde_json::{Value, json};

fn valid() -> Value {
    json!({
        "model": "mock-1",
        "max_tokens": 8000,
        "stream": true,
        "system": [{"type": "text", "text": "You are a coding agent.",
                    "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "bash", "description": "Run a shell command.",
                   "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
                   "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": "list the files"},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "", "signature": "c2ln"},
                {"type": "text", "text": "Two calls."},
                {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {"command": "false"}}
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a b"},
                {"type": "tool_result", "tool_use_id": "toolu_2", "is_error": true,
                 "content": [{"type": "text", "text": "[exit code: 1]"}]},
                {"type": "text", "text": "and now?"}
            ]}
        ]
    })
}

#[test]
fn the_control_request_is_accepted() {
    check_body(valid().to_string().as_bytes()).expect("the control is valid");
    let mut plain = valid();
    plain["messages"] = json!([{"role": "user", "content": "hi"}]);
    plain["system"] = json!("text");
    plain.as_object_mut().unwrap().remove("tools");
    check_body(plain.to_string().as_bytes()).expect("the short form is valid");
}

type Breaker = fn(&mut Value);

const BREAKERS: &[(&str, Breaker)] = &[
    ("no model", |b| {
        drop(b.as_object_mut().unwrap().remove("model"));
    }),
    ("empty model", |b| b["model"] = json!("")),
    ("no max_tokens", |b| {
        drop(b.as_object_mut().unwrap().remove("max_tokens"));
    }),
    ("max_tokens 0", |b| b["max_tokens"] = json!(0)),
    ("max_tokens text", |b| b["max_tokens"] = json!("8000")),
    ("temperature", |b| b["temperature"] = json!(1)),
    ("top_p", |b| b["top_p"] = json!(1)),
    ("unknown field", |b| b["session"] = json!("x")),
    ("stream is no boolean", |b| b["stream"] = json!("yes")),
    ("no messages", |b| b["messages"] = json!([])),
    ("first message is the assistant's", |b| {
        b["messages"].as_array_mut().unwrap().remove(0);
    }),
    ("last message is the assistant's", |b| {
        b["messages"] =
            json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]);
    }),
    ("two user messages in a row", |b| {
        let again = json!({"role": "user", "content": "more"});
        b["messages"].as_array_mut().unwrap().push(again);
    }),
    ("system role", |b| {
        b["messages"][0]["role"] = json!("system");
    }),
    ("extra key in a message", |b| {
        b["messages"][0]["id"] = json!("x");
    }),
    ("empty string content", |b| {
        b["messages"][0]["content"] = json!("");
    }),
    ("blank string content", |b| {
        b["messages"][0]["content"] = json!(" \n");
    }),
    ("empty content list", |b| {
        b["messages"][0]["content"] = json!([]);
    }),
    ("null content", |b| {
        b["messages"][0]["content"] = Value::Null;
    }),
    ("empty text block", |b| {
        b["messages"][1]["content"][1]["text"] = json!("");
    }),
    ("blank text block", |b| {
        b["messages"][1]["content"][1]["text"] = json!("\t ");
    }),
    ("blank text in a result", |b| {
        b["messages"][2]["content"][1]["content"][0]["text"] = json!(" ");
    }),
    ("extra key in a block", |b| {
        b["messages"][1]["content"][1]["index"] = json!(0);
    }),
    ("unknown block", |b| {
        b["messages"][1]["content"][1]["type"] = json!("note");
    }),
    ("tool_use of a user", |b| {
        b["messages"][0]["content"] =
            json!([{"type": "tool_use", "id": "x", "name": "bash", "input": {}}]);
    }),
    ("tool_result of an assistant", |b| {
        b["messages"][1]["content"][1] = json!({"type": "tool_result", "tool_use_id": "toolu_1"});
    }),
    ("thinking without signature", |b| {
        b["messages"][1]["content"][0]["signature"] = json!("");
    }),
    ("orphaned tool_use", |b| {
        b["messages"][2]["content"] = json!([{"type": "text", "text": "and now?"}]);
    }),
    ("one result missing", |b| {
        b["messages"][2]["content"]
            .as_array_mut()
            .unwrap()
            .remove(1);
    }),
    ("orphaned tool_result", |b| {
        b["messages"][0]["content"] =
            json!([{"type": "tool_result", "tool_use_id": "toolu_0", "content": "x"}]);
    }),
    ("result of another call", |b| {
        b["messages"][2]["content"][0]["tool_use_id"] = json!("toolu_9");
    }),
    ("two results of one call", |b| {
        b["messages"][2]["content"][1]["tool_use_id"] = json!("toolu_1");
    }),
    ("a third result", |b| {
        let again = b["messages"][2]["content"][0].clone();
        b["messages"][2]["content"]
            .as_array_mut()
            .unwrap()
            .push(again);
    }),
    ("text before the results", |b| {
        b["messages"][2]["content"]
            .as_array_mut()
            .unwrap()
            .rotate_right(1);
    }),
    ("results one message too late", |b| {
        let late = json!({"role": "assistant", "content": "wait"});
        let early = json!({"role": "user", "content": "go"});
        let messages = b["messages"].as_array_mut().unwrap();
        messages.insert(2, early);
        messages.insert(3, late);
    }),
    ("two calls with one id", |b| {
        b["messages"][1]["content"][3]["id"] = json!("toolu_1");
    }),
    ("an id used again later", |b| {
        let call = b["messages"][1].clone();
        let results = b["messages"][2].clone();
        let messages = b["messages"].as_array_mut().unwrap();
        messages.push(call);
        messages.push(results);
    }),
    ("bad tool id", |b| {
        b["messages"][1]["content"][2]["id"] = json!("a b");
    }),
    ("bad tool name in a call", |b| {
        b["messages"][1]["content"][2]["name"] = json!("ba sh");
    }),
    ("long tool name", |b| {
        b["messages"][1]["content"][2]["name"] = json!("b".repeat(129));
    }),
    ("input is no object", |b| {
        b["messages"][1]["content"][2]["input"] = json!("ls");
    }),
    ("is_error is no boolean", |b| {
        b["messages"][2]["content"][1]["is_error"] = json!(1);
    }),
    ("tools not defined", |b| {
        drop(b.as_object_mut().unwrap().remove("tools"));
    }),
    ("bad tool name", |b| b["tools"][0]["name"] = json!("run!")),
    ("tool name twice", |b| {
        let again = b["tools"][0].clone();
        b["tools"].as_array_mut().unwrap().push(again);
    }),
    ("schema is no object type", |b| {
        b["tools"][0]["input_schema"]["type"] = json!("string");
    }),
    ("empty system", |b| b["system"] = json!("")),
    ("blank system block", |b| {
        b["system"][0]["text"] = json!(" ");
    }),
    ("five cache markers", |b| {
        let marker = json!({"type": "ephemeral"});
        for index in 0..3 {
            b["messages"][2]["content"][index]["cache_control"] = marker.clone();
        }
    }),
    ("cache marker on an empty text", |b| {
        b["messages"][2]["content"][2] =
            json!({"type": "text", "text": "", "cache_control": {"type": "ephemeral"}});
    }),
    ("cache marker on thinking", |b| {
        b["messages"][1]["content"][0]["cache_control"] = json!({"type": "ephemeral"});
    }),
    ("unknown cache marker", |b| {
        b["system"][0]["cache_control"] = json!({"type": "forever"});
    }),
];

#[test]
fn every_broken_body_is_refused_with_400() {
    for (name, breaker) in BREAKERS {
        let mut body = valid();
        breaker(&mut body);
        assert_ne!(body, valid(), "{name}: the breaker changes nothing");
        match check_body(body.to_string().as_bytes()) {
            Err(error) => assert_eq!(error.status, 400, "{name}"),
            Ok(_) => panic!("{name}: accepted {body}"),
        }
    }
}

#[test]
fn invalid_unicode_is_refused() {
    let lone = valid()
        .to_string()
        .replace("list the files", r"\ud83d alone");
    assert!(check_body(lone.as_bytes()).is_err());
    let mut bytes = valid().to_string().into_bytes();
    let at = bytes
        .windows(4)
        .position(|window| window == b"list")
        .unwrap();
    bytes[at] = 0xff;
    assert!(check_body(&bytes).is_err());
}

type Header<'a> = (&'a str, &'a str);

fn request(headers: &[Header]) -> Request {
    let owned = headers
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Request {
        headers: owned.collect(),
        ..Request::default()
    }
}

#[test]
fn credentials_and_version_are_checked() {
    let json = ("content-type", "application/json");
    let version = ("anthropic-version", "2023-06-01");
    let key = ("x-api-key", KEY);
    let bearer_value = format!("Bearer {KEY}");
    let bearer = ("authorization", bearer_value.as_str());
    check_headers(&request(&[json, version, key]), KEY).expect("a key is enough");
    check_headers(&request(&[json, version, bearer]), KEY).expect("a token is enough");
    let broken: &[(&str, &[Header], u16)] = &[
        ("none", &[json, version], 401),
        ("both", &[json, version, key, bearer], 401),
        ("twice", &[json, version, key, key], 401),
        (
            "wrong key",
            &[json, version, ("x-api-key", "sk-other")],
            401,
        ),
        ("empty key", &[json, version, ("x-api-key", "")], 401),
        ("no version", &[json, key], 400),
        (
            "unknown version",
            &[json, key, ("anthropic-version", "2020-01-01")],
            400,
        ),
        ("no content type", &[version, key], 400),
    ];
    for (name, headers, status) in broken {
        let refused = check_headers(&request(headers), KEY);
        assert_eq!(
            refused.map_err(|error| error.status),
            Err(*status),
            "{name}"
        );
    }
}

#[test]
fn the_order_of_results_is_judged_apart() {
    let mut body = valid();
    assert!(results_in_call_order(&body));
    body["messages"][2]["content"]
        .as_array_mut()
        .unwrap()
        .swap(0, 1);
    check_body(body.to_string().as_bytes()).expect("the service accepts any order");
    assert!(!results_in_call_order(&body));
}

fn post(mock: &MockApi, body: &str) -> String {
    let address = mock.base_url().replace("http://", "");
    let mut stream = TcpStream::connect(address).expect("the mock listens");
    let timeout = Some(Duration::from_secs(5));
    stream.set_read_timeout(timeout).unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: mock\r\nconnection: close\r\nx-api-key: {KEY}\r\n\
         anthropic-version: 2023-06-01\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    // A chunk may end in the middle of a character.
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn the_server_streams_its_script_and_records_what_came() {
    let message = Message::new(vec![text("héllo"), tool_use("toolu_3", "ls")]);
    let mock = MockApi::start([
        Reply::Message(message.clone()),
        Reply::Message(message.clone().framed(Framing::Bytes(1))),
        Reply::Fault(Fault::CutAfter(message, 3)),
    ]);
    let whole = post(&mock, &valid().to_string());
    for part in [
        "message_start",
        "input_json_delta",
        r#""stop_reason":"tool_use""#,
        "message_stop",
    ] {
        assert!(whole.contains(part), "{part} in {whole}");
    }
    let bytewise = post(&mock, &valid().to_string());
    assert!(bytewise.len() > whole.len(), "one chunk per byte");
    let cut = post(&mock, &valid().to_string());
    assert!(
        cut.contains("message_start") && !cut.contains("message_stop"),
        "{cut}"
    );
    let refused = post(&mock, "{}");
    assert!(refused.starts_with("HTTP/1.1 400 "), "{refused}");
    let beyond = post(&mock, &valid().to_string());
    assert!(beyond.starts_with("HTTP/1.1 500 "), "{beyond}");
    let recorded = mock.requests();
    assert_eq!(recorded.len(), 5);
    assert_eq!(recorded[0].body(), valid());
    assert!(recorded[0].refused.is_none() && recorded[3].refused.is_some());
    assert_eq!(mock.unused(), 0);
    assert!(mock.wait_for_requests(5, Duration::from_secs(1)));
    assert!(!mock.wait_for_requests(6, Duration::from_millis(1)));
}
