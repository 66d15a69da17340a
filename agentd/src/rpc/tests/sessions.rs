//! Sessions and the tools of a session, over a real connection.

#![expect(clippy::too_many_lines, reason = "tables and one long story")]

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek},
    sync::Mutex,
    time::Duration,
};

use agentd_proto::v1::{call_tool_response::Message, session_service_client::SessionServiceClient};
use agentd_sandbox::policy::{InSession, Invocation};
use tonic::Status;

use super::*;

/// What the launcher's side of a test sees and holds.
#[derive(Debug, Default)]
struct Stage {
    /// Commands that were started.
    spawned: Mutex<Vec<Invocation>>,
    /// The standard outputs of those that run, by their scripts.
    outputs: Mutex<BTreeMap<String, File>>,
}

impl Stage {
    fn print(&self, script: &str, bytes: &[u8]) {
        let outputs = self.outputs.lock().unwrap();
        outputs[script]
            .try_clone()
            .unwrap()
            .write_all(bytes)
            .unwrap();
    }

    fn in_session(&self, index: usize) -> InSession {
        let spawned = self.spawned.lock().unwrap();
        *spawned[index].in_session.clone().unwrap()
    }

    /// `serve…` runs until it is stopped; `print WORD COUNT` prints and exits 0; all else exits 0.
    fn play(&self, side: &Side, request: Request, fds: Vec<OwnedFd>) {
        if let Request::Spawn { exec, invocation } = request {
            self.spawned.lock().unwrap().push(*invocation);
            self.run(side, exec, fds);
        } else if let Request::Finish { exec } = request {
            side.send(&ended(exec, Cause::Leader, LeaderStatus::Exited(0)));
        } else {
            if let Request::Stop { .. } = request {
                self.outputs.lock().unwrap().clear();
            }
            play(side, request, fds);
        }
    }

    fn run(&self, side: &Side, exec: ExecKey, fds: Vec<OwnedFd>) {
        let mut files = fds.into_iter().map(File::from);
        let mut out = files.next().unwrap();
        drop(files.next());
        let mut script = String::new();
        let mut source = files.next().unwrap();
        source.rewind().unwrap();
        source.read_to_string(&mut script).unwrap();
        if script.starts_with("serve") {
            // ORDER: whoever hears that it runs can have it print.
            self.outputs.lock().unwrap().insert(script, out);
            side.send(&started(exec));
            return;
        }
        side.send(&started(exec));
        if let Some(print) = script.strip_prefix("print ") {
            let (word, count) = print.split_once(' ').unwrap();
            let text = word.repeat(count.parse().unwrap());
            // In parts, so that a pipe that is full holds up only this thread.
            out.write_all(text.as_bytes()).unwrap();
        }
        drop(out);
        side.send(&Event::LeaderExited {
            exec,
            status: LeaderStatus::Exited(0),
        });
    }
}

struct Client {
    stage: Arc<Stage>,
    sessions: SessionServiceClient<Channel>,
    tools: ToolServiceClient<Channel>,
    execs: ExecServiceClient<Channel>,
    channel: Channel,
}

impl Client {
    async fn new() -> Self {
        let stage = Arc::new(Stage::default());
        let playing = Arc::clone(&stage);
        let link = launcher(move |side: &Side, request, fds| playing.play(side, request, fds));
        let channel = connect_to(&daemon_of(
            Executor::new(Registry::new(64, "boot"), link),
            vec![me()],
        ))
        .await;
        Self {
            stage,
            sessions: SessionServiceClient::new(channel.clone()),
            tools: ToolServiceClient::new(channel.clone()),
            execs: ExecServiceClient::new(channel.clone()),
            channel,
        }
    }

    async fn create(&mut self, id: &str) -> Result<pb::Session, Status> {
        let created = self.sessions.create(create(id)).await?;
        Ok(created.into_inner().session.unwrap())
    }

    async fn call(&mut self, call: pb::CallToolRequest) -> Result<pb::ToolResult, Status> {
        let mut stream = self.tools.call_tool(call).await?.into_inner();
        let mut last = None;
        while let Some(message) = stream.message().await? {
            assert!(
                !matches!(last, Some(Message::Result(_))),
                "the result comes last"
            );
            last = message.message;
        }
        match last {
            Some(Message::Result(result)) => Ok(result),
            other => panic!("no result but {other:?}"),
        }
    }

    async fn tool(&mut self, name: &str, input: &str) -> pb::ToolResult {
        self.call(tool(name, input)).await.unwrap()
    }

    /// Starts a server in the background.
    async fn serve(&mut self, id: &str) {
        let mut call = tool("bash", r#"{"command":"serve","background":true}"#);
        call.call_id = id.to_owned();
        let result = self.call(call).await.unwrap();
        assert!(!result.is_error && result.text.contains(id), "{result:?}");
    }
}

fn create(id: &str) -> pb::CreateSessionRequest {
    pb::CreateSessionRequest {
        session_id: id.to_owned(),
        sandbox: spec("", "").sandbox,
        ..pb::CreateSessionRequest::default()
    }
}

/// A call in session `s`.
fn tool(name: &str, input: &str) -> pb::CallToolRequest {
    pb::CallToolRequest {
        name: name.to_owned(),
        input_json: input.to_owned(),
        session_id: "s".to_owned(),
        ..pb::CallToolRequest::default()
    }
}

/// An execution in session `s`.
fn in_session(id: &str, script: &'static str) -> pb::ExecSpec {
    let mut spec = spec(id, "");
    spec.session_id = "s".to_owned();
    spec.sandbox = None;
    spec.command.as_mut().unwrap().command =
        Some(pb::command_spec::Command::Shell(pb::ShellScript {
            script: script.into(),
        }));
    spec
}

fn start(spec: pb::ExecSpec) -> pb::StartRequest {
    pb::StartRequest { spec: Some(spec) }
}

fn has_reason(status: &Status, reason: &str) -> bool {
    String::from_utf8_lossy(status.details()).contains(reason)
}

#[tokio::test]
async fn a_session_is_created_seen_kept_alive_listed_and_deleted() {
    let mut client = Client::new().await;
    let created = client.create("s").await.unwrap();
    assert_eq!(created.cwd, "/w");
    assert_eq!(created.sandbox.as_ref().unwrap().profile, "workspace");
    assert_eq!(created.lease.as_ref().unwrap().seconds, 300);
    assert_eq!(
        (created.boot_id.as_str(), created.instance_id.as_str()),
        ("boot", "here")
    );
    let ask = pb::GetSessionRequest {
        session_id: "s".to_owned(),
    };
    let got = client.sessions.get(ask).await.unwrap().into_inner();
    assert_eq!(got.session.unwrap().created_at, created.created_at);
    let ask = pb::KeepAliveRequest {
        session_id: "s".to_owned(),
    };
    let kept = client.sessions.keep_alive(ask).await.unwrap().into_inner();
    assert!(kept.expires_at.unwrap().seconds >= created.expires_at.unwrap().seconds);
    client.serve("server").await;
    let ask = pb::GetStatsRequest {};
    let mut admin = AdminServiceClient::new(client.channel.clone());
    let stats = admin.get_stats(ask).await.unwrap().into_inner();
    assert_eq!(stats.sessions_active, 1);
    let ask = || pb::DeleteSessionRequest {
        session_id: "s".to_owned(),
    };
    let deleted = client.sessions.delete(ask()).await.unwrap().into_inner();
    assert_eq!(deleted.terminated_execs, 1);
    let gone = client.sessions.delete(ask()).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    assert!(has_reason(&gone, "SESSION_EXPIRED"), "{gone:?}");
    let gone = client.call(tool("bash", r#"{"command":"x"}"#)).await;
    assert!(has_reason(&gone.unwrap_err(), "SESSION_EXPIRED"));
}

/// Asks for one thing of the execution `server`; what is answered does not matter.
async fn ask_of_server(execs: &mut ExecServiceClient<Channel>, what: &str) {
    let exec_id = "server".to_owned();
    let wait = Some(prost_types::Duration::default());
    match what {
        "Get" => drop(execs.get(pb::GetExecRequest { exec_id }).await),
        "Wait" => drop(execs.wait(pb::WaitRequest { exec_id, wait }).await),
        "Attach" => {
            let (after_seq, strict) = (0, false);
            let ask = pb::AttachRequest {
                exec_id,
                after_seq,
                strict,
            };
            drop(execs.attach(ask).await);
        }
        "ReadOutput" => {
            let ask = pb::ReadOutputRequest {
                exec_id,
                ..pb::ReadOutputRequest::default()
            };
            drop(execs.read_output(ask).await);
        }
        "WriteStdin" => {
            let ask = pb::WriteStdinRequest {
                exec_id,
                data: b"x".to_vec().into(),
                ..pb::WriteStdinRequest::default()
            };
            drop(execs.write_stdin(ask).await);
        }
        "Signal" => {
            let ask = pb::SignalRequest {
                exec_id,
                signal: 1,
                scope: pb::SignalScope::Leader.into(),
            };
            drop(execs.signal(ask).await);
        }
        "ResizePty" => {
            let size = None;
            drop(
                execs
                    .resize_pty(pb::ResizePtyRequest { exec_id, size })
                    .await,
            );
        }
        "Terminate" => {
            let grace = None;
            drop(
                execs
                    .terminate(pb::TerminateRequest { exec_id, grace })
                    .await,
            );
        }
        "Delete" => {
            let force = true;
            drop(execs.delete(pb::DeleteExecRequest { exec_id, force }).await);
        }
        "List" => drop(execs.list(pb::ListExecsRequest::default()).await),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn every_call_that_names_a_command_of_a_session_renews_its_lease() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    let mut spec = in_session("server", "serve");
    spec.background = true;
    client.execs.start(start(spec)).await.unwrap();
    let mut ends = async || {
        let ask = pb::ListSessionsRequest::default();
        let sessions = client.sessions.list(ask).await.unwrap().into_inner();
        let ends = sessions.sessions[0].expires_at.unwrap();
        Duration::new(ends.seconds.unsigned_abs(), ends.nanos.unsigned_abs())
    };
    let pause = Duration::from_millis(200);
    for (what, renews) in [
        ("List", false),
        ("Get", true),
        ("Wait", true),
        ("Attach", true),
        ("ReadOutput", true),
        ("WriteStdin", true),
        ("Signal", true),
        ("ResizePty", true),
        ("Terminate", true),
        ("Delete", true),
        ("List", false),
    ] {
        let before = ends().await;
        tokio::time::sleep(pause).await;
        ask_of_server(&mut client.execs, what).await;
        // Half a pause is far from both answers.
        let renewed = ends().await.saturating_sub(before) > pause / 2;
        assert_eq!(renewed, renews, "{what}");
    }
}

#[tokio::test]
async fn sessions_are_listed_in_pages_without_loss() {
    let mut client = Client::new().await;
    for id in ["c", "a", "b"] {
        client.create(id).await.unwrap();
    }
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let ask = pb::ListSessionsRequest {
            page_size: 2,
            page_token: token,
        };
        let page = client.sessions.list(ask).await.unwrap().into_inner();
        seen.extend(page.sessions.into_iter().map(|session| session.session_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["c", "a", "b"], "oldest first");
}

#[tokio::test]
async fn refusals_of_a_session_have_their_codes_and_reasons() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    let changed = |change: fn(&mut pb::CreateSessionRequest)| {
        let mut ask = create("s");
        change(&mut ask);
        ask
    };
    let seconds = |seconds| Some(prost_types::Duration { seconds, nanos: 0 });
    let table = [
        (
            changed(|ask| ask.cwd = "sub".to_owned()),
            Code::AlreadyExists,
            "SESSION_ID_CONFLICT",
        ),
        (
            changed(|ask| ask.session_id = "a b".to_owned()),
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
        (
            changed(|ask| ask.sandbox = None),
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
        (
            pb::CreateSessionRequest {
                lease: seconds(0),
                ..create("t")
            },
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
        (
            pb::CreateSessionRequest {
                lease: seconds(-1),
                ..create("t")
            },
            Code::InvalidArgument,
            "INVALID_REQUEST",
        ),
        (
            changed(|ask| ask.required_features = vec!["teleport".to_owned()]),
            Code::FailedPrecondition,
            "FEATURE_UNSUPPORTED",
        ),
        // This host has no cgroup: a client that relies on its limits must not be let in.
        (
            changed(|ask| ask.required_features = vec!["cgroup-limits".to_owned()]),
            Code::FailedPrecondition,
            "FEATURE_UNSUPPORTED",
        ),
    ];
    for (ask, code, reason) in table {
        let status = client.sessions.create(ask.clone()).await.unwrap_err();
        assert_eq!(status.code(), code, "{ask:?}");
        assert!(has_reason(&status, reason), "{ask:?}: {status:?}");
    }
    for id in ["t", "u", "v"] {
        client.create(id).await.unwrap();
    }
    let full = client.create("w").await.unwrap_err();
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert!(has_reason(&full, "LIMIT_SESSIONS") && has_reason(&full, "RetryInfo"));
    let unknown = pb::GetSessionRequest {
        session_id: "sdeadbeef-1".to_owned(),
    };
    let status = client.sessions.get(unknown).await.unwrap_err();
    assert!(has_reason(&status, "INSTANCE_RESTARTED"), "{status:?}");
}

#[tokio::test]
async fn a_long_lease_is_clamped() {
    let mut client = Client::new().await;
    let ask = pb::CreateSessionRequest {
        lease: Some(prost_types::Duration {
            seconds: 1_000_000,
            nanos: 0,
        }),
        ..create("s")
    };
    let created = client.sessions.create(ask).await.unwrap().into_inner();
    assert_eq!(created.session.unwrap().lease.unwrap().seconds, 24 * 3600);
}

#[tokio::test]
async fn an_execution_in_a_session_has_the_sessions_jail_and_no_other() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    let started = client.execs.start(start(in_session("x", "serve"))).await;
    let exec = started.unwrap().into_inner().exec.unwrap();
    assert_eq!(exec.session_id, "s");
    let mut relative = in_session("y", "serve y");
    relative.command.as_mut().unwrap().cwd = "sub".to_owned();
    client.execs.start(start(relative)).await.unwrap();
    {
        let spawned = client.stage.spawned.lock().unwrap();
        assert_eq!(spawned[0].profile, "workspace");
        assert_eq!(
            spawned[0].cwd, None,
            "where the session is, the launcher knows"
        );
        assert_eq!(spawned[1].cwd.as_deref(), Some("/w/sub".as_ref()));
    }
    let given = client.stage.in_session(0);
    assert!(given.report_state && given.output_file.is_none());

    let mut other_jail = in_session("z", "true");
    other_jail.sandbox = spec("", "").sandbox;
    let mut background = spec("z", "");
    background.background = true;
    for (bad, word) in [(other_jail, "sandbox"), (background, "session")] {
        let status = client.execs.start(start(bad)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(word), "{status:?}");
    }
    let mut lost = in_session("z", "true");
    lost.session_id = "other".to_owned();
    let status = client.execs.start(start(lost)).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);

    client
        .execs
        .start(start(spec("alone", "/w")))
        .await
        .unwrap();
    let ask = pb::ListExecsRequest {
        session_id: "s".to_owned(),
        ..pb::ListExecsRequest::default()
    };
    let listed = client.execs.list(ask).await.unwrap().into_inner().execs;
    let ids: Vec<_> = listed.iter().map(|exec| exec.exec_id.as_str()).collect();
    assert_eq!(ids, ["x", "y"]);
}

// codex#38495: waiting for a background command takes no turn of a model.
#[tokio::test]
async fn a_background_command_is_read_as_it_prints_and_then_killed() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    client.serve("srv").await;
    let read = client.tool("bash_output", r#"{"bash_id":"srv"}"#).await;
    assert!(
        read.text.starts_with("(no new output)\n[running for "),
        "{}",
        read.text
    );
    assert!(!read.is_error && read.exit.is_none());

    let stage = Arc::clone(&client.stage);
    let printing = tokio::task::spawn_blocking(move || {
        std::thread::sleep(Duration::from_millis(50));
        stage.print("serve", b"ready\nsteady\n");
    });
    let input = r#"{"bash_id":"srv","wait_ms":60000}"#;
    let read = client.tool("bash_output", input).await;
    printing.await.unwrap();
    assert!(
        read.text.starts_with("ready\nsteady\n[running for "),
        "{}",
        read.text
    );

    client.stage.print("serve", b"go \xc3");
    let input = r#"{"bash_id":"srv","wait_ms":60000}"#;
    let read = client.tool("bash_output", input).await;
    assert!(
        read.text.starts_with("go\n"),
        "only what is new, in whole characters: {}",
        read.text
    );
    client.stage.print("serve", b"\xa9!\n");
    let read = client.tool("bash_output", input).await;
    assert!(read.text.starts_with("\u{e9}!\n"), "{}", read.text);
    let input = r#"{"bash_id":"srv","after":6}"#;
    let read = client.tool("bash_output", input).await;
    assert!(
        read.text
            .starts_with("steady\ngo \u{e9}!\n[bytes 6 to 20 of 20 so far"),
        "{}",
        read.text
    );

    let killed = client.tool("bash_kill", r#"{"bash_id":"srv"}"#).await;
    assert!(
        killed
            .text
            .starts_with("srv was ended\n[ended]\n[cancelled"),
        "{}",
        killed.text
    );
    assert!(!killed.is_error);
    let again = client.tool("bash_kill", r#"{"bash_id":"srv"}"#).await;
    assert!(
        again.text.starts_with("srv had already ended\n[ended]"),
        "{}",
        again.text
    );
    let read = client
        .tool("bash_output", r#"{"bash_id":"srv","wait_ms":60000}"#)
        .await;
    assert!(
        read.text.starts_with("(no new output)\n[ended]"),
        "{}",
        read.text
    );
    assert_eq!(read.exit.unwrap().reason(), pb::ExitReason::Cancelled);
}

#[tokio::test]
async fn a_read_that_is_repeated_under_its_call_id_reads_the_same() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    client.serve("srv").await;
    client.stage.print("serve", b"one\n");
    let mut first = tool("bash_output", r#"{"bash_id":"srv","wait_ms":60000}"#);
    first.call_id = "call-1".to_owned();
    let mut second = first.clone();
    second.call_id = "call-2".to_owned();
    let told = client.call(first.clone()).await.unwrap();
    assert!(told.text.starts_with("one\n"));
    client.stage.print("serve", b"two\n");
    let told = client.call(second).await.unwrap();
    assert!(told.text.starts_with("two\n"), "{}", told.text);
    let told = client.call(first).await.unwrap();
    assert!(told.text.starts_with("one\ntwo\n"), "{}", told.text);
}

// codex#6415, #35421: what is left out is counted, and the model is told where it is.
#[tokio::test]
async fn output_that_does_not_fit_is_counted_and_can_be_read_in_pages() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    let mut call = tool("bash", r#"{"command":"print 123456789. 12000"}"#);
    call.call_id = "big".to_owned();
    let told = client.call(call).await.unwrap();
    assert_eq!(told.omitted_chars, 70_000);
    let hint = "[full output: bash_output with bash_id \"big\" and after 0]";
    assert!(told.text.contains(hint), "{}", &told.text[49_000..]);
    let (mut after, mut whole) = (0, String::new());
    while after < 120_000 {
        let input = format!(r#"{{"bash_id":"big","after":{after}}}"#);
        let page = client.tool("bash_output", &input).await;
        let (text, rest) = page.text.split_once("\n[bytes ").unwrap();
        whole.push_str(text);
        let next = rest
            .split_once("after ")
            .unwrap()
            .1
            .split_once(']')
            .unwrap()
            .0;
        after = next.parse().unwrap();
    }
    assert_eq!(whole, "123456789.".repeat(12_000));
    let read = client
        .tool("bash_output", r#"{"bash_id":"big","after":120000}"#)
        .await;
    assert!(
        read.text
            .starts_with("(no output there)\n[ended: exit code 0]"),
        "{}",
        read.text
    );
    let given = client.stage.in_session(0);
    assert_eq!(given.output_file.as_deref(), Some("big-1"));
}

#[tokio::test]
async fn a_model_is_told_what_to_do_about_what_it_asked_wrongly() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    let unknown = client.tool("bash_output", r#"{"bash_id":"x"}"#).await;
    assert!(unknown.is_error);
    assert!(
        unknown.text.contains("Nothing was started"),
        "{}",
        unknown.text
    );
    client.serve("srv").await;
    let unknown = client.tool("bash_kill", r#"{"bash_id":"x"}"#).await;
    assert!(
        unknown
            .text
            .contains("In the background: \"srv\" (running)."),
        "{}",
        unknown.text
    );
    for (name, input) in [
        ("bash", r#"{"command":"x","background":true}"#),
        ("bash_output", r#"{"bash_id":"x"}"#),
        ("bash_kill", r#"{"bash_id":"x"}"#),
    ] {
        let mut call = tool(name, input);
        call.session_id = String::new();
        let told = client.call(call).await.unwrap();
        assert!(
            told.is_error && told.text.contains("needs a session"),
            "{}",
            told.text
        );
    }
    for (name, input) in [
        ("bash", r#"{"command":"x","shell":"zsh"}"#),
        ("bash_output", r#"{"bash_id":7}"#),
        ("bash_kill", "[]"),
    ] {
        let status = client.call(tool(name, input)).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    }
    let status = client.call(tool("python", "{}")).await.unwrap_err();
    assert!(status.message().contains("bash, bash_output, bash_kill"));
}

#[tokio::test]
async fn no_field_of_a_call_is_ignored_by_any_tool() {
    type Change = fn(&mut pb::CallToolRequest);
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    client.serve("srv").await;
    let about = r#"{"bash_id":"srv"}"#;
    for (name, input) in [
        ("bash", r#"{"command":"x"}"#),
        ("bash_output", about),
        ("bash_kill", about),
    ] {
        let mut call = tool(name, input);
        call.required_features = vec!["sessions".to_owned(), "teleport".to_owned()];
        let status = client.call(call).await.unwrap_err();
        assert_eq!(status.code(), Code::FailedPrecondition, "{name}");
        assert!(status.message().contains("teleport"), "{name}: {status}");
    }
    let changes: [(&str, Change); 3] = [
        ("cwd", |call| call.cwd = "sub".to_owned()),
        ("sandbox", |call| {
            call.sandbox = Some(pb::SandboxSpec {
                profile: "strict".to_owned(),
                ..pb::SandboxSpec::default()
            });
        }),
        ("limits", |call| {
            call.limits = Some(pb::LimitRequest {
                pids: Some(1),
                ..pb::LimitRequest::default()
            });
        }),
    ];
    for name in ["bash_output", "bash_kill"] {
        for (field, change) in changes {
            let mut call = tool(name, about);
            change(&mut call);
            let status = client.call(call).await.unwrap_err();
            assert_eq!(status.code(), Code::InvalidArgument, "{name} {field}");
            assert!(status.message().contains(field), "{name}: {status}");
        }
    }
    // The control: it still runs, and what it can ask for it gets.
    let mut call = tool("bash_output", about);
    call.required_features = vec!["sessions".to_owned()];
    let told = client.call(call).await.unwrap();
    assert!(!told.is_error && told.text.contains("running"), "{told:?}");
}

#[tokio::test]
async fn tools_come_in_a_stable_order() {
    let mut client = Client::new().await;
    let ask = pb::ListToolsRequest {};
    let tools = client
        .tools
        .list_tools(ask)
        .await
        .unwrap()
        .into_inner()
        .tools;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["bash", "bash_output", "bash_kill"]);
}

// REMOTE A12: a command that never ends holds up no other one.
#[tokio::test]
async fn a_stuck_command_does_not_block_its_session() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    client
        .execs
        .start(start(in_session("stuck", "serve")))
        .await
        .unwrap();
    let told = client.tool("bash", r#"{"command":"print ok 1"}"#).await;
    assert_eq!(told.text.lines().next(), Some("ok"));
    let ask = pb::GetSessionRequest {
        session_id: "s".to_owned(),
    };
    let session = client.sessions.get(ask).await.unwrap().into_inner().session;
    assert_eq!(session.unwrap().running_execs, 1);
}

#[tokio::test]
async fn a_drain_ends_sessions_and_admits_none() {
    let mut client = Client::new().await;
    client.create("s").await.unwrap();
    client.serve("srv").await;
    let mut admin = AdminServiceClient::new(client.channel.clone());
    let ask = pb::DrainRequest {
        deadline: Some(prost_types::Duration::default()),
    };
    let drained = admin.drain(ask).await.unwrap().into_inner();
    assert_eq!((drained.finished, drained.terminated), (0, 1));
    let stats = admin.get_stats(pb::GetStatsRequest {}).await.unwrap();
    assert_eq!(stats.into_inner().sessions_active, 0);
    let refused = client.create("t").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(has_reason(&refused, "DRAINING"), "{refused:?}");
}
