//! Streams as the API and its gateways send them.

use serde_json::json;

use super::*;

fn event(data: &Value) -> SseEvent {
    let name = data["type"].as_str().unwrap_or_default().to_owned();
    SseEvent {
        name,
        data: data.to_string(),
    }
}

fn run(events: &[Value]) -> (Result<Reply, StreamProblem>, Vec<Delta>) {
    let mut assembler = Assembler::default();
    let mut deltas = Vec::new();
    for data in events {
        match assembler.take(&event(data)) {
            Ok(delta) => deltas.extend(delta),
            Err(problem) => return (Err(problem), deltas),
        }
    }
    (assembler.finish(), deltas)
}

fn reply(events: &[Value]) -> Reply {
    run(events).0.unwrap()
}

fn start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u64, delta: &Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn input(index: u64, json: &str) -> Value {
    delta(
        index,
        &json!({"type": "input_json_delta", "partial_json": json}),
    )
}

fn text(index: u64, text: &str) -> Value {
    delta(index, &json!({"type": "text_delta", "text": text}))
}

fn end(stop: &str) -> [Value; 2] {
    let delta = json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 9}});
    [delta, json!({"type": "message_stop"})]
}

fn tool(id: &str) -> Value {
    json!({"type": "tool_use", "id": id, "name": "bash", "input": {}})
}

#[test]
fn a_whole_stream_becomes_a_reply_and_its_text_is_shown_as_it_comes() {
    let mut events = vec![
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}}),
        start(
            0,
            &json!({"type": "thinking", "thinking": "", "signature": ""}),
        ),
        delta(0, &json!({"type": "thinking_delta", "thinking": "hm"})),
        delta(0, &json!({"type": "signature_delta", "signature": "c2ln"})),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "ping"}),
        start(1, &json!({"type": "text", "text": ""})),
        text(1, "hel"),
        text(1, "lo"),
        start(2, &tool("t1")),
        input(2, "{\"comm"),
        input(2, "and\":\"ls\"}"),
        json!({"type": "a_new_event", "index": 2}),
    ];
    events.extend(end("tool_use"));
    let (result, deltas) = run(&events);
    let reply = result.unwrap();
    let blocks: Vec<Value> = reply
        .blocks
        .iter()
        .map(|block| block.value.clone())
        .collect();
    assert_eq!(
        json!(blocks),
        json!([
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "text", "text": "hello"},
            {"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}},
        ])
    );
    assert_eq!(reply.stop_reason, StopReason::ToolUse);
    assert_eq!((reply.usage.input, reply.usage.output), (5, 9));
    let shown = [
        Delta::Thinking("hm".into()),
        Delta::Text("hel".into()),
        Delta::Text("lo".into()),
    ];
    assert_eq!(deltas, shown);
}

#[test]
fn the_key_order_of_an_input_is_kept_and_numbers_too() {
    let mut events = vec![
        start(0, &tool("t")),
        input(0, r#"{"z":1,"a":1.50,"m":{"y":0,"b":-1}}"#),
    ];
    events.extend(end("tool_use"));
    let text = reply(&events).blocks[0].value["input"].to_string();
    assert_eq!(text, r#"{"z":1,"a":1.5,"m":{"y":0,"b":-1}}"#);
}

#[test]
fn inputs_come_whole_in_pieces_or_broken() {
    let not_json = |fault: &Option<BlockFault>| matches!(fault, Some(BlockFault::InputNotJson(_)));
    let cases: [(Value, &[&str], Value); 7] = [
        (tool("t"), &[], json!({})),
        (tool("t"), &["", " "], json!({})),
        (
            json!({"type": "tool_use", "id": "t", "name": "bash"}),
            &[],
            json!({}),
        ),
        (
            json!({"type": "tool_use", "id": "t", "name": "bash", "input": {"a": 1}}),
            &[""],
            json!({"a": 1}),
        ),
        (
            json!({"type": "tool_use", "id": "t", "name": "bash", "input": ""}),
            &["{\"a\":", "2}"],
            json!({"a": 2}),
        ),
        (tool("t"), &[r#"{"a":"\ud83d"}"#], json!({"a": "\u{fffd}"})),
        (
            tool("t"),
            &[r#"{"a":"\ud8"#, r#"3d\ude00"}"#],
            json!({"a": "😀"}),
        ),
    ];
    for (block, pieces, expected) in cases {
        let mut events = vec![start(0, &block)];
        events.extend(pieces.iter().map(|piece| input(0, piece)));
        events.extend(end("tool_use"));
        let block = &reply(&events).blocks[0];
        assert_eq!(
            (&block.value["input"], &block.fault),
            (&expected, &None),
            "{pieces:?}"
        );
    }
    for (json, is_expected) in [
        ("{\"a\":", true),
        ("{\"a\":\"x\"} trailing", true),
        ("[1]", false),
        ("\"s\"", false),
    ] {
        let mut events = vec![start(0, &tool("t")), input(0, json)];
        events.extend(end("max_tokens"));
        let block = &reply(&events).blocks[0];
        assert_eq!(block.value["input"], json!({}), "{json}");
        assert_eq!(
            not_json(&block.fault),
            is_expected,
            "{json}: {:?}",
            block.fault
        );
        assert!(block.fault.is_some());
    }
}

#[test]
fn deltas_and_blocks_of_unknown_kinds_are_kept() {
    let mut events = vec![
        start(0, &json!({"type": "compaction", "content": null})),
        delta(0, &json!({"type": "compaction_delta", "content": "sum"})),
        delta(
            0,
            &json!({"type": "compaction_delta", "content": "mary", "extra": 1}),
        ),
        start(1, &json!({"type": "text", "text": "a"})),
        delta(1, &json!({"type": "citations_delta", "citation": {"n": 1}})),
        delta(1, &json!({"type": "citations_delta", "citation": {"n": 2}})),
        json!({"type": "content_block_delta", "index": 1}),
        json!({"type": "content_block_start", "index": 2}),
    ];
    events.extend(end("end_turn"));
    let blocks: Vec<Value> = reply(&events)
        .blocks
        .into_iter()
        .map(|block| block.value)
        .collect();
    assert_eq!(
        json!(blocks),
        json!([
            {"type": "compaction", "content": "summary", "extra": 1},
            {"type": "text", "text": "a", "citations": [{"n": 1}, {"n": 2}]},
        ])
    );
}

#[test]
fn gateways_that_repeat_indices_or_leave_starts_out_are_understood() {
    let mut repeated = vec![
        start(0, &json!({"type": "text", "text": ""})),
        text(0, "a"),
        start(0, &tool("t")),
        input(0, "{\"x\":1}"),
    ];
    repeated.extend(end("tool_use"));
    let blocks = reply(&repeated).blocks;
    assert_eq!(
        (&blocks[0].value["text"], &blocks[1].value["input"]["x"]),
        (&json!("a"), &json!(1))
    );

    let mut without_start = vec![text(0, "a"), text(0, "b")];
    without_start.extend(end("end_turn"));
    assert_eq!(reply(&without_start).text(), "ab");
}

#[test]
fn the_type_inside_counts_when_the_event_has_no_name() {
    let mut assembler = Assembler::default();
    for data in [
        text(0, "x").to_string(),
        json!({"type": "message_stop"}).to_string(),
        "[DONE]".into(),
        String::new(),
    ] {
        assembler
            .take(&SseEvent {
                name: String::new(),
                data,
            })
            .unwrap();
    }
    let reply = assembler.finish().unwrap();
    assert_eq!(
        (reply.text().as_str(), reply.stop_reason),
        ("x", StopReason::Unknown(String::new()))
    );
}

#[test]
fn what_does_not_end_with_message_stop_is_no_reply() {
    let [stop_reason, _] = end("end_turn");
    for events in [vec![], vec![text(0, "x")], vec![text(0, "x"), stop_reason]] {
        let (result, _) = run(&events);
        assert!(
            matches!(result, Err(StreamProblem::Broken(_))),
            "{result:?}"
        );
    }
}

#[test]
fn an_error_event_ends_the_stream_and_garbage_too() {
    let error =
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let (result, deltas) = run(&[text(0, "x"), error]);
    let Err(StreamProblem::Api(problem)) = result else {
        panic!("{result:?}")
    };
    assert!(problem.is_passing());
    assert_eq!(deltas.len(), 1);

    let garbage = SseEvent {
        name: "message_stop".into(),
        data: "{oops".into(),
    };
    assert!(matches!(
        Assembler::default().take(&garbage),
        Err(StreamProblem::Broken(_))
    ));
}

#[test]
fn a_lone_surrogate_in_a_text_delta_becomes_the_replacement_character() {
    let mut assembler = Assembler::default();
    let data = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a\ud83db"}}"#;
    let delta = assembler
        .take(&SseEvent {
            name: String::new(),
            data: data.into(),
        })
        .unwrap();
    assert_eq!(delta, Some(Delta::Text("a\u{fffd}b".into())));
}
