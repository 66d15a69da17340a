//! Long output: its end is never lost, what is left out is counted, and memory stays flat.

use std::time::{Duration, Instant};

use agentd_proto::v1::{self, call_tool_response::Message};
use agentd_tests::harness::{Api, Mode, in_every_mode, script};

use crate::room::{PROMPT, Room};

/// What a model reads of a script.
async fn tool_text(room: &Room, call: &str, command: &str) -> v1::ToolResult {
    let api = Api::dial(&room.daemon.socket).await.expect("a daemon");
    let request = v1::CallToolRequest {
        name: "bash".to_owned(),
        input_json: serde_json::json!({ "command": command }).to_string(),
        call_id: call.to_owned(),
        sandbox: script(&room.world, "", "").sandbox,
        ..v1::CallToolRequest::default()
    };
    let stream = api.tools().call_tool(request).await.expect("it is called");
    let mut stream = stream.into_inner();
    let mut result = None;
    while let Some(message) = stream.message().await.expect("the stream holds") {
        if let Some(Message::Result(end)) = message.message {
            assert!(result.replace(end).is_none(), "two results");
        }
    }
    result.expect("a result")
}

/// Source, script, what the model must see, what it must not.
const TEXTS: &[(&str, &str, &[&str], &[&str])] = &[
    (
        "codex#35421",
        "seq 1 1000000; echo FINAL_ERROR",
        &["1\n2\n3", "FINAL_ERROR", "omitted"],
        &[],
    ),
    (
        "codex#6415",
        "python3 -c \"print('a'*200000)\"; echo 'error: build failed'; exit 1",
        &["error: build failed", "[exit code: 1]", "omitted"],
        &[],
    ),
    (
        "codex#28634",
        "head -c 5000000 /dev/zero | tr '\\0' a",
        &["omitted"],
        &[],
    ),
    (
        "cc#23540",
        "for i in $(seq 5000); do printf '\\r%d' $i; done",
        &["5000"],
        &["\r", "4999"],
    ),
    (
        "cc#16294",
        "python3 -c \"print('😀'*90000)\"",
        &["omitted"],
        &["\u{fffd}"],
    ),
    (
        "cc#19901",
        "seq 1 200000",
        &["1\n2", "199999\n200000", "omitted"],
        &[],
    ),
    (
        "codex#8652",
        "echo partial; kill -SEGV $$",
        &["partial", "SIGSEGV"],
        &["sandbox"],
    ),
    (
        "SWE-agent#1269",
        "for n in 1 2 3; do head -c 1600000 /dev/zero | tr '\\0' b; echo; done; echo END",
        &["END"],
        &[],
    ),
    (
        "cc, E.43",
        "for n in 1 2 3; do echo o$n; echo e$n >&2; done",
        &["o1", "e1", "o3", "e3"],
        &[],
    ),
    (
        "codex#18711",
        "mkdir -p sandbox; ls -d sandbox; exit 1",
        &["sandbox", "[exit code: 1]"],
        &["denied"],
    ),
    (
        "codex#4859",
        "echo 'Permission denied'; bash -c false",
        &["[exit code: 1]"],
        &["[denied"],
    ),
    (
        "cc#40",
        "false | tail -1; echo ${PIPESTATUS[0]}",
        &["1"],
        &["[exit code"],
    ),
    ("codex#20", "true", &["(no output)"], &[]),
];

#[test]
fn a_model_reads_head_tail_and_end_and_what_is_left_out_is_counted() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (index, (source, command, wanted, unwanted)) in TEXTS.iter().enumerate() {
            let call = format!("text-{index}");
            let result = runtime.block_on(tool_text(&room, &call, command));
            let text = &result.text;
            for word in *wanted {
                assert!(text.contains(word), "{source}: no {word:?} in {text:.300}");
            }
            for word in *unwanted {
                assert!(!text.contains(word), "{source}: {word:?} in {text:.300}");
            }
            assert!(
                text.chars().count() < 51_000,
                "{source}: {} characters",
                text.len()
            );
        }
    });
}

/// cc, E.43: the order in which two streams were written was lost. The command writes each line only when
/// the one before has arrived, so that the order is known on a machine as busy as it may be.
#[test]
fn what_two_streams_write_stays_in_order() {
    const LINES: usize = 40;
    let room = Room::new(*Mode::possible().first().expect("some kind of host"));
    let command = format!(
        "wait_for() {{ until [ -e seen-$1 ]; do sleep 0.01; done; }}
         for n in $(seq 0 2 {LINES}); do
           echo o; wait_for $n; echo e >&2; wait_for $((n + 1))
         done"
    );
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let api = Api::dial(&room.daemon.socket).await.expect("a daemon");
        let spec = script(&room.world, "order", &command);
        api.start(spec).await.expect("it starts");
        let mut count = 0;
        let live = streams(&api, |_| {
            room.world.file(&format!("seen-{count}"), "");
            count += 1;
        });
        let live = live.await;
        let replayed = streams(&api, |_| {}).await;
        let expected: Vec<v1::Stream> = [v1::Stream::Stdout, v1::Stream::Stderr]
            .into_iter()
            .cycle()
            .take(LINES + 2)
            .collect();
        assert_eq!(live, expected);
        assert_eq!(replayed, expected, "what is kept has another order");
    });
}

/// The streams of a command's output, event by event, to its end.
async fn streams(api: &Api, mut each: impl FnMut(v1::Stream)) -> Vec<v1::Stream> {
    let request = v1::AttachRequest {
        exec_id: "order".to_owned(),
        ..v1::AttachRequest::default()
    };
    let answer = api.execs().attach(request).await.expect("it is known");
    let mut stream = answer.into_inner();
    let mut seen = Vec::new();
    while let Some(message) = stream.message().await.expect("the stream holds") {
        let event = message.event.and_then(|event| event.event);
        if let Some(v1::exec_event::Event::Output(output)) = event {
            seen.push(output.stream());
            each(output.stream());
        }
    }
    seen
}

/// SWE-agent#1269: megabytes on few lines took for ever, since something looked for the end of each line again and
/// again.
#[test]
fn a_byte_costs_the_same_on_a_long_line_as_on_a_short_one() {
    const SIZE: u64 = 12_000_000;
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let lines = |length: u64| {
        format!("yes $(head -c {length} /dev/zero | tr '\\0' x) | head -c {SIZE}; echo; echo END")
    };
    let shapes = [
        ("short lines", lines(70)),
        ("long lines", lines(100_000)),
        (
            "one line",
            format!("tr '\\0' x </dev/zero | head -c {SIZE}; echo; echo END"),
        ),
        (
            "one line that is drawn again and again",
            format!(
                "yes \"$(printf 'progress\\r')\" | tr -d '\\n' | head -c {SIZE}; echo; echo END"
            ),
        ),
        (
            "one line of wide characters",
            format!("yes 漢 | tr -d '\\n' | head -c {SIZE}; echo; echo END"),
        ),
        (
            "one line of escapes",
            format!(
                "yes \"$(printf '\\033[31mx\\033[0m')\" | tr -d '\\n' | head -c {SIZE}; echo; echo END"
            ),
        ),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let mut took = Vec::new();
        for (n, (name, command)) in shapes.iter().enumerate() {
            // What the daemon makes a model's text of, and what a client shows.
            let began = Instant::now();
            let result = runtime.block_on(tool_text(&room, &format!("line-{n}"), command));
            let text = &result.text;
            assert!(text.contains("\nEND"), "{name}: {text:.300}");
            assert!(text.chars().count() < 51_000, "{name}: {}", text.len());
            let told = result.exit.expect("an end").stdout_bytes;
            assert_eq!(told, SIZE + 5, "{name}");
            let (answer, _) = room.run(&["--timeout", "100s"], command);
            assert_eq!(answer["stdout_bytes"], SIZE + 5, "{name}");
            took.push((*name, began.elapsed()));
        }
        let short = took[0].1;
        for (name, took) in took {
            assert!(
                took < short * 4 + Duration::from_millis(500),
                "{name}, {mode:?}: {took:?}, and {short:?} on short lines"
            );
        }
    });
}

/// codex#41320: a model that is not told what refused it looks for the fault in its own work.
#[test]
fn a_denial_is_told_with_what_was_denied() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let table = [
        ("touch /etc/x", "/etc/x"),
        ("cat /etc/shadow", "/etc/shadow"),
        ("echo x >/usr/newfile", "/usr/newfile"),
        ("mkdir /usr/lib/new", "/usr/lib/new"),
        ("cp /etc/passwd /etc/new", "/etc/new"),
        ("rm -f /usr/bin/env", "/usr/bin/env"),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (n, (command, path)) in table.iter().enumerate() {
            let result = runtime.block_on(tool_text(&room, &format!("denied-{n}"), command));
            let lines = result.text.lines();
            let denial = lines
                .filter(|line| line.starts_with("[denied: "))
                .collect::<Vec<_>>();
            assert!(
                denial.len() == 1 && denial[0].contains(path),
                "{command}, {mode:?}: {}",
                result.text
            );
            let end = result.exit.expect("an end");
            let denial = end.denials.first().expect("the same as data");
            assert_eq!(denial.path, *path, "{command}: {denial:?}");
            assert!(
                !denial.layer.is_empty() && !denial.rule.is_empty(),
                "{denial:?}"
            );
        }
        // The control: what fails by itself is no denial.
        for (n, command) in ["cat no-such-file", "ls /usr/no-such-place", "false"]
            .iter()
            .enumerate()
        {
            let result = runtime.block_on(tool_text(&room, &format!("other-{n}"), command));
            assert!(
                !result.text.contains("[denied"),
                "{command}: {}",
                result.text
            );
        }
    });
}

/// codex#8652, codex#23185: a signal lost the output and was blamed on the sandbox.
#[test]
fn a_death_by_signal_keeps_the_output_and_has_its_own_name() {
    let table = [
        ("SEGV", 11),
        ("ABRT", 6),
        ("KILL", 9),
        ("TERM", 15),
        ("FPE", 8),
        ("USR1", 10),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (name, number) in table {
            let (answer, ended) = room.run(&[], &format!("echo partial; kill -{name} $$"));
            assert_eq!(answer["reason"], "signaled", "{name}: {answer}");
            assert_eq!(answer["stdout"], "partial\n", "{name}: {answer}");
            assert!(answer["exit_code"].is_null(), "{name}: {answer}");
            assert_eq!(ended.code, 128 + number, "{name}: {answer}");
        }
    });
}

/// cubesandbox#136: the end of a program that does not exist never came.
#[test]
fn a_program_that_is_not_there_or_is_none_ends_at_once_with_its_code() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        room.world.file("plain", "no program\n");
        for (words, code) in [
            (&["sh -c 'nosuchcmd'"][..], 127),
            (&["nosuch", "argument"], 127),
            (&["/usr/bin/nosuch", "argument"], 127),
            (&["./plain", "argument"], 126),
            (&["/etc", "argument"], 126),
        ] {
            let ended = room
                .daemon
                .cli(&room.world, &["exec", "--"])
                .args(words)
                .run();
            assert_eq!(ended.code, code, "{words:?}: {ended:?}");
            assert!(ended.elapsed < PROMPT, "{words:?}: {:?}", ended.elapsed);
        }
    });
}

/// cc#11155, `inspect_ai`#3534, toolkit#2303: output was kept whole before it was cut.
#[test]
fn a_flood_that_nobody_reads_leaves_memory_flat() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    in_every_mode(|mode| {
        let room = Room::new(mode);
        room.run(&[], "seq 900000");
        let before = room.daemon.peak_memory_kib();
        let exec = runtime.block_on(async {
            let api = Api::dial(&room.daemon.socket).await.expect("a daemon");
            let flood = "head -c 200000000 /dev/zero; head -c 50000000 /dev/zero >&2";
            let spec = script(&room.world, "flood", flood);
            api.start(spec).await.expect("it starts");
            api.wait("flood").await.expect("it is known")
        });
        let end = exec.result.expect("it has ended");
        assert_eq!(end.stdout_bytes, 200_000_000, "{end:?}");
        assert_eq!(end.stderr_bytes, 50_000_000, "{end:?}");
        assert!(end.dropped_bytes > 240_000_000, "{end:?}");
        let after = room.daemon.peak_memory_kib();
        assert!(after - before < 16 * 1024, "from {before} to {after} KiB");
    });
}
