//! Commands in the background as a model has them: `bash` with `background`, `bash_output`, `bash_kill`.

use std::time::{Duration, Instant};

use agentd_proto::v1::{self, ExitReason, call_tool_response::Message};
use agentd_tests::harness::{Api, Mode, in_every_mode, wait_until};
use serde_json::{Value, json};
use tonic::Code;

use crate::site::{PROMPT, Site, close, end_of, open};

async fn try_call(
    api: &Api,
    session: &str,
    (name, input): (&str, Value),
) -> Result<v1::ToolResult, tonic::Status> {
    let request = v1::CallToolRequest {
        name: name.to_owned(),
        input_json: input.to_string(),
        session_id: session.to_owned(),
        ..v1::CallToolRequest::default()
    };
    let mut stream = api.tools().call_tool(request).await?.into_inner();
    let mut last = None;
    while let Some(response) = stream.message().await? {
        assert!(last.is_none(), "a message after the result");
        if let Some(Message::Result(result)) = response.message {
            last = Some(result);
        }
    }
    Ok(last.expect("exactly one result"))
}

async fn call(api: &Api, session: &str, name: &str, input: Value) -> v1::ToolResult {
    let called = tokio::time::timeout(PROMPT * 3, try_call(api, session, (name, input.clone())));
    let called = called
        .await
        .unwrap_or_else(|_| panic!("{name} hangs: {input}"));
    called.unwrap_or_else(|status| panic!("{name} {input}: {status:?}"))
}

async fn begin(api: &Api, session: &str, command: &str) -> String {
    let input = json!({ "command": command, "background": true });
    let told = call(api, session, "bash", input).await;
    assert!(!told.is_error, "{told:?}");
    for word in [told.exec_id.as_str(), "bash_output", "bash_kill"] {
        assert!(told.text.contains(word), "{word}: {}", told.text);
    }
    told.exec_id
}

/// Listens on a port of the loopback interface; says when it does.
const SERVER: &str = "python3 -u -c 'import http.server as h, sys
class H(h.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b\"served\\n\")
s = h.HTTPServer((\"127.0.0.1\", 18231), H); print(\"listening\", flush=True); s.serve_forever()'";
const CLIENT: &str = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:18231/\", timeout=10).read().decode(), end=\"\")' 2>&1 | tail -1";

#[test]
fn a_server_in_the_background_is_there_for_the_next_calls_and_ends_with_the_session() {
    in_every_mode(|mode| {
        if mode == Mode::Nested {
            // No loopback interface of its own: every socket is refused there.
            return;
        }
        let site = &Site::new(mode);
        site.call(|api| async move {
            for id in ["a", "b"] {
                open(&api, site.session(id)).await;
            }
            let server = begin(&api, "a", SERVER).await;
            let input = json!({ "bash_id": server, "wait_ms": 30_000 });
            let told = call(&api, "a", "bash_output", input).await;
            assert!(told.text.starts_with("listening\n"), "{}", told.text);
            for _ in 0..3 {
                let told = call(&api, "a", "bash", json!({ "command": CLIENT })).await;
                assert_eq!(told.text.trim_end(), "served", "{told:?}");
            }
            let told = call(&api, "b", "bash", json!({ "command": CLIENT })).await;
            assert!(told.text.contains("refused"), "{told:?}");
            assert_eq!(close(&api, "a").await.expect("it is there"), 1);
            site.is_empty_now("the server");
        });
    });
}

#[test]
fn a_read_waits_on_the_daemon_until_there_is_something_to_say() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let waits = "until [ -e go ]; do sleep 0.05; done; printf 'now\\nthen\\n'; until [ -e end ]; do sleep 0.05; done; exit 3";
            let id = begin(&api, "s", waits).await;
            let now = call(&api, "s", "bash_output", json!({ "bash_id": id })).await;
            assert!(now.text.contains("(no new output)") && now.text.contains("[running"), "{now:?}");
            let began = Instant::now();
            let short = json!({ "bash_id": id, "wait_ms": 300 });
            call(&api, "s", "bash_output", short).await;
            assert!(began.elapsed() >= Duration::from_millis(290));
            let (other, of) = (api.clone(), id.clone());
            let long = tokio::spawn(async move {
                let input = json!({ "bash_id": of, "wait_ms": 60_000 });
                call(&other, "s", "bash_output", input).await
            });
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert!(!long.is_finished(), "there was nothing to say");
            site.world.file("go", "");
            let told = long.await.expect("an answer");
            assert!(told.text.starts_with("now\nthen\n"), "{told:?}");
            assert!(told.exit.is_none() && !told.is_error, "{told:?}");
            let (other, of) = (api.clone(), id.clone());
            let last = tokio::spawn(async move {
                let input = json!({ "bash_id": of, "wait_ms": 60_000 });
                call(&other, "s", "bash_output", input).await
            });
            site.world.file("end", "");
            let told = last.await.expect("an answer");
            assert!(!told.text.contains("now"), "told twice: {told:?}");
            assert!(told.text.contains("exit code: 3"), "{told:?}");
            assert_eq!(told.exit.expect("an end").exit_code, Some(3));
            let again = json!({ "bash_id": id, "after": 4 });
            let told = call(&api, "s", "bash_output", again).await;
            assert!(told.text.starts_with("then\n"), "{told:?}");
        });
    });
}

#[test]
fn a_kill_says_what_became_of_the_command_and_nothing_of_it_is_left() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            for tree in [
                "sleep 600",
                "echo up; trap '' TERM; while :; do sleep 0.1; done",
                "setsid sleep 600 & setsid nohup sleep 600 >/dev/null 2>&1 & wait",
            ] {
                let id = begin(&api, "s", tree).await;
                let runs = wait_until(PROMPT, || !site.world.processes().is_empty());
                assert!(runs, "{tree}");
                let told = call(&api, "s", "bash_kill", json!({ "bash_id": id })).await;
                assert!(
                    told.text.starts_with(&format!("{id} was ended")),
                    "{told:?}"
                );
                assert!(!told.is_error, "{told:?}");
                site.is_empty_now(tree);
                let end = told.exit.expect("an end");
                assert_eq!(end.reason(), ExitReason::Cancelled, "{tree}");
                let again = call(&api, "s", "bash_kill", json!({ "bash_id": id })).await;
                assert!(
                    again.text.starts_with(&format!("{id} had already ended")),
                    "{again:?}"
                );
                assert_eq!(end_of(api.wait(&id).await.expect("known")), end);
            }
        });
    });
}

#[test]
fn what_a_model_gets_wrong_is_answered_with_the_remedy() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for id in ["s", "other"] {
                open(&api, site.session(id)).await;
            }
            let none = call(&api, "s", "bash_output", json!({ "bash_id": "nope" })).await;
            assert!(
                none.is_error && none.text.contains("Nothing was started"),
                "{none:?}"
            );
            let one = begin(&api, "s", "sleep 600").await;
            let two = begin(&api, "s", "true").await;
            api.wait(&two).await.expect("it is known");
            for name in ["bash_output", "bash_kill"] {
                for id in ["nope", "", "../x", &two.replace('-', "_")] {
                    let told = call(&api, "s", name, json!({ "bash_id": id })).await;
                    assert!(told.is_error, "{told:?}");
                    for word in [format!("{one:?} (running)"), format!("{two:?} (ended)")] {
                        assert!(told.text.contains(&word), "{word}: {}", told.text);
                    }
                }
                // Another session's commands are not there.
                let told = call(&api, "other", name, json!({ "bash_id": one })).await;
                assert!(told.is_error && !told.text.contains(&two), "{told:?}");
                let told = call(&api, "", name, json!({ "bash_id": one })).await;
                assert!(
                    told.is_error && told.text.contains("needs a session"),
                    "{told:?}"
                );
            }
            for (name, input) in [
                ("bash_output", json!({})),
                ("bash_output", json!({ "bash_id": 1 })),
                ("bash_kill", json!({ "bash_id": "x", "more": 1 })),
                ("bash", json!({ "command": "true", "background": "yes" })),
            ] {
                let answer = try_call(&api, "s", (name, input)).await;
                assert_eq!(answer.expect_err(name).code(), Code::InvalidArgument);
            }
            let ended = close(&api, "s").await.expect("it is there");
            assert_eq!(ended, 1);
        });
    });
}

#[test]
fn a_person_starts_reads_and_ends_commands_in_the_background() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        let cli = |words: &[&str]| site.daemon.cli(&site.world, words).run();
        let started = cli(&[
            "exec",
            "--session",
            "p",
            "--background",
            "--",
            "echo up; sleep 600",
        ]);
        let id = started.expect_code(0).stdout.trim().to_owned();
        assert!(!id.is_empty(), "{started:?}");
        let up = wait_until(PROMPT, || cli(&["logs", &id]).stdout.contains("up"));
        assert!(up, "{:?}", cli(&["logs", &id]));
        assert!(cli(&["ps"]).stdout.contains(&id));
        cli(&[
            "exec",
            "--session",
            "p",
            "--",
            "export A=1; mkdir -p q; cd q",
        ])
        .expect_code(0);
        let next = cli(&["exec", "--session", "p", "--", "echo $A ${PWD##*/}"]);
        assert_eq!(next.expect_code(0).stdout, "1 q\n");
        cli(&["kill", &id]).expect_code(0);
        // A second one finds it ended; so does whoever waits.
        cli(&["kill", &id]).expect_code(1);
        let list = cli(&["ps", "--json"]).stdout;
        let line = list.lines().find(|line| line.contains(&id));
        assert!(
            line.is_some_and(|line| line.contains("\"cancelled\"")),
            "{list}"
        );
        assert_ne!(cli(&["wait", &id]).code, 0);
        site.is_empty_now("killed");
    });
}
