//! The services over a real connection, with a launcher that a thread plays.

mod streams;

use std::{collections::BTreeMap, io::Write, os::fd::OwnedFd, sync::Arc, time::Instant};

use agentd_proto::v1::{
    self as pb, admin_service_client::AdminServiceClient, exec_service_client::ExecServiceClient,
    file_service_client::FileServiceClient, info_service_client::InfoServiceClient,
    policy_service_client::PolicyServiceClient, tool_service_client::ToolServiceClient,
};
use agentd_sandbox::{
    explain::Verdict,
    monitor::{Cause, Event, ExecKey, LeaderStatus, Request, Usage},
    policy::{Layer, Refusal, Tier},
};
use hyper_util::rt::TokioIo;
use tokio::sync::Semaphore;
use tonic::{
    Code,
    transport::{Channel, Endpoint},
};
use tonic_health::{
    pb::{HealthCheckRequest, health_client::HealthClient},
    server::HealthReporter,
};

use super::{Connection, Daemon, Identity, router};
use crate::{
    exec::{Executor, Registry},
    launcher_link::{
        HostReport,
        fake::{Side, launcher, started},
    },
    session::{self, Room},
    startup::Memory,
};

mod sessions;

fn ended(exec: ExecKey, cause: Cause, status: LeaderStatus) -> Event {
    Event::Ended {
        exec,
        cause,
        status,
        leftover: 1,
        usage: Usage::default(),
        tripped: Vec::new(),
        hits: Vec::new(),
        proven: true,
    }
}

/// With a working directory a command runs until it is stopped; without one it prints its profile and
/// exits 4.
fn play(side: &Side, request: Request, fds: Vec<OwnedFd>) {
    match request {
        Request::Spawn { exec, invocation } if invocation.profile == "nosuch" => {
            let refusal = Refusal::UnknownProfile {
                name: invocation.profile,
                known: "workspace".to_owned(),
            };
            side.send(&Event::Refused { exec, refusal });
        }
        Request::Spawn { exec, invocation } => {
            side.send(&started(exec));
            let mut out = std::fs::File::from(fds.into_iter().next().unwrap());
            writeln!(out, "in {}", invocation.profile).unwrap();
            if invocation.cwd.is_none() {
                let status = LeaderStatus::Exited(4);
                drop(out);
                side.send(&Event::LeaderExited { exec, status });
            }
        }
        Request::Finish { exec } => {
            side.send(&ended(exec, Cause::Leader, LeaderStatus::Exited(4)));
        }
        Request::Stop { exec, reason, .. } => {
            side.send(&ended(exec, Cause::Stopped(reason), LeaderStatus::Unknown));
        }
        Request::Explain { id, queries, .. } => {
            let verdict = |_| Verdict {
                allowed: false,
                rule: "base.toml:7".to_owned(),
                layers: vec![Layer::Landlock],
                text: "no".to_owned(),
            };
            let result = Ok(queries.iter().map(verdict).collect());
            side.send(&Event::Explained { id, result });
        }
        Request::Signal { .. } | Request::Resize { .. } => {}
        Request::OpenSession { session, .. } => side.send(&Event::SessionOpened {
            session,
            result: Ok(BTreeMap::new()),
        }),
        Request::CloseSession { session } => side.send(&Event::SessionClosed { session }),
        Request::Reload => {
            let result = Err("x.toml:1: broken".to_owned());
            side.send(&Event::Reloaded { result });
        }
    }
}

fn daemon(operators: Vec<u32>) -> Arc<Daemon> {
    daemon_of(
        Executor::new(Registry::new(64, "boot"), launcher(play)),
        operators,
    )
}

fn daemon_of(executor: Executor, operators: Vec<u32>) -> Arc<Daemon> {
    let room = Room {
        per_user: 4,
        in_all: 8,
    };
    Arc::new(Daemon {
        sessions: session::Registry::new(executor.link().clone(), "boot", room),
        executor,
        host: HostReport {
            tier: Tier::Rootless,
            tier_reason: "not root".to_owned(),
            landlock_abi: 7,
            capabilities: Vec::new(),
            cgroup: "none".to_owned(),
        },
        identity: Identity {
            boot_id: "boot".to_owned(),
            instance_id: "here".to_owned(),
            kernel: "6".to_owned(),
        },
        default_profile: "workspace".to_owned(),
        operators,
        since: Instant::now(),
        memory: Memory::open(),
        health: HealthReporter::new(),
    })
}

/// A connection to a daemon of its own.
async fn connect(operators: Vec<u32>) -> Channel {
    connect_to(&daemon(operators)).await
}

async fn connect_to(daemon: &Arc<Daemon>) -> Channel {
    let (ours, theirs) = tokio::net::UnixStream::pair().unwrap();
    let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let connection = Connection::accept(theirs, slot).unwrap();
    let router = router(daemon).unwrap();
    let incoming = tokio_stream::once(Ok::<_, std::io::Error>(connection));
    tokio::spawn(router.serve_with_incoming(incoming));
    let mut ours = Some(TokioIo::new(ours));
    Endpoint::from_static("http://agentd.test")
        .connect_with_connector(tower::service_fn(move |_| {
            let once = ours.take().ok_or_else(|| std::io::Error::other("once"));
            async { once }
        }))
        .await
        .unwrap()
}

fn me() -> u32 {
    nix::unistd::Uid::current().as_raw()
}

/// With a `cwd` the fake command runs until it is stopped.
fn spec(id: &str, cwd: &str) -> pb::ExecSpec {
    pb::ExecSpec {
        exec_id: id.to_owned(),
        command: Some(pb::CommandSpec {
            command: Some(pb::command_spec::Command::Shell(pb::ShellScript {
                script: "true".into(),
            })),
            cwd: cwd.to_owned(),
            env: None,
        }),
        sandbox: Some(pb::SandboxSpec {
            profile: String::new(),
            workspace: "/w".to_owned(),
        }),
        ..pb::ExecSpec::default()
    }
}

fn run(id: &str, cwd: &str) -> pb::RunRequest {
    pb::RunRequest {
        spec: Some(spec(id, cwd)),
    }
}

#[tokio::test]
async fn run_streams_events_in_order_and_ends_with_one_result() {
    use pb::exec_event::Event as Wire;
    let mut client = ExecServiceClient::new(connect(vec![]).await);
    let mut stream = client.run(run("a", "")).await.unwrap().into_inner();
    let mut events = Vec::new();
    while let Some(message) = stream.message().await.unwrap() {
        events.push(message.event.unwrap());
    }
    let seqs: Vec<_> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, [1, 2, 3]);
    let bodies: Vec<_> = events.into_iter().filter_map(|event| event.event).collect();
    let [
        Wire::Started(start),
        Wire::Output(output),
        Wire::Exited(end),
    ] = bodies.as_slice()
    else {
        panic!("unexpected events: {bodies:?}")
    };
    assert_eq!(start.sandbox.as_ref().unwrap().tier(), pb::Tier::Rootless);
    assert_eq!(output.data.as_ref(), b"in workspace\n");
    assert_eq!(
        (end.reason(), end.exit_code),
        (pb::ExitReason::Exited, Some(4))
    );
    assert_eq!(end.leftover_processes, 1);

    let ask = pb::AttachRequest {
        exec_id: "a".to_owned(),
        after_seq: 2,
        strict: true,
    };
    let mut again = client.attach(ask).await.unwrap().into_inner();
    let event = again.message().await.unwrap().unwrap().event.unwrap();
    assert!(matches!(event.event, Some(Wire::Exited(_))));
    assert_eq!(again.message().await.unwrap(), None);
}

#[tokio::test]
async fn terminate_wait_get_list_and_delete_see_one_execution() {
    let mut client = ExecServiceClient::new(connect(vec![]).await);
    let start = pb::StartRequest {
        spec: Some(spec("a", "/w/sub")),
    };
    let started = client.start(start).await.unwrap().into_inner();
    assert!(started.created);
    let id = || "a".to_owned();
    let wait = pb::WaitRequest {
        exec_id: id(),
        wait: Some(prost_types::Duration {
            seconds: 0,
            nanos: 1,
        }),
    };
    let waited = client.wait(wait).await.unwrap().into_inner().exec.unwrap();
    assert_eq!(waited.state(), pb::ExecState::Running);
    let delete = |force| pb::DeleteExecRequest {
        exec_id: id(),
        force,
    };
    let refused = client.delete(delete(false)).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);

    let terminate = pb::TerminateRequest {
        exec_id: id(),
        grace: None,
    };
    let first = client
        .terminate(terminate.clone())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(first.outcome(), pb::TerminateOutcome::Killed);
    let end = first.exec.unwrap().result.unwrap();
    assert_eq!(
        (end.reason(), end.exit_code),
        (pb::ExitReason::Cancelled, None)
    );
    let second = client.terminate(terminate).await.unwrap().into_inner();
    assert_eq!(second.outcome(), pb::TerminateOutcome::AlreadyExited);

    let listed = client.list(pb::ListExecsRequest::default()).await.unwrap();
    assert_eq!(listed.into_inner().execs.len(), 1);
    client.delete(delete(false)).await.unwrap();
    let gone = client
        .get(pb::GetExecRequest { exec_id: id() })
        .await
        .unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[tokio::test]
async fn a_list_comes_in_pages_without_loss() {
    let mut client = ExecServiceClient::new(connect(vec![]).await);
    for id in ["a", "b", "c"] {
        let start = pb::StartRequest {
            spec: Some(spec(id, "/w/sub")),
        };
        client.start(start).await.unwrap();
    }
    let (mut token, mut seen) = (String::new(), Vec::new());
    loop {
        let ask = pb::ListExecsRequest {
            page_size: 2,
            page_token: token,
            ..pb::ListExecsRequest::default()
        };
        let page = client.list(ask).await.unwrap().into_inner();
        seen.extend(page.execs.into_iter().map(|exec| exec.exec_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, ["a", "b", "c"]);
}

#[tokio::test]
async fn refusals_are_statuses_and_nothing_runs() {
    let mut client = ExecServiceClient::new(connect(vec![]).await);
    let mut unknown = run("a", "");
    unknown
        .spec
        .as_mut()
        .unwrap()
        .sandbox
        .as_mut()
        .unwrap()
        .profile = "nosuch".to_owned();
    let status = client.run(unknown).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert!(status.message().contains("known profiles: workspace"));
    client.run(run("b", "/w/sub")).await.unwrap();
    let status = client.run(run("b", "/w/other")).await.unwrap_err();
    assert_eq!(status.code(), Code::AlreadyExists);
    let ask = pb::AttachRequest::default();
    let status = client.attach(ask).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
}

#[tokio::test]
async fn a_tool_call_ends_with_the_text_for_the_model() {
    use pb::call_tool_response::Message;
    let mut client = ToolServiceClient::new(connect(vec![]).await);
    let tools = client
        .list_tools(pb::ListToolsRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(tools.tools[0].name, "bash");
    let call = pb::CallToolRequest {
        name: "bash".to_owned(),
        input_json: r#"{"command":"x"}"#.to_owned(),
        call_id: "call".to_owned(),
        sandbox: spec("", "").sandbox,
        ..pb::CallToolRequest::default()
    };
    let mut stream = client.call_tool(call).await.unwrap().into_inner();
    let mut last = None;
    while let Some(message) = stream.message().await.unwrap() {
        assert!(
            !matches!(last, Some(Message::Result(_))),
            "the result comes last"
        );
        last = message.message;
    }
    let Some(Message::Result(result)) = last else {
        panic!("no result")
    };
    assert!(
        result.text.starts_with("in workspace\n[exit code: 4]"),
        "{}",
        result.text
    );
    assert!(!result.is_error);
    assert_eq!(result.exec_id, "call");
}

#[tokio::test]
async fn policy_questions_reach_the_policy() {
    let mut client = PolicyServiceClient::new(connect(vec![]).await);
    let profiles = client
        .list_profiles(pb::ListProfilesRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(profiles.profiles[0].is_default);
    let ask = pb::ExplainRequest {
        sandbox: spec("", "").sandbox,
        query: Some(pb::explain_request::Query::Syscall("mount".to_owned())),
    };
    let answer = client.explain(ask).await.unwrap().into_inner();
    assert_eq!(
        (answer.allowed, answer.rule.as_str()),
        (false, "base.toml:7")
    );
    let check = pb::CheckCommandRequest {
        profile: "nosuch".to_owned(),
        script: "true".into(),
    };
    let status = client.check_command(check).await.unwrap_err();
    assert!(status.message().contains("workspace"));
}

#[tokio::test]
async fn only_operators_administer() {
    let mut stranger = AdminServiceClient::new(connect(vec![]).await);
    let status = stranger
        .get_stats(pb::GetStatsRequest {})
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    let channel = connect(vec![me()]).await;
    let mut operator = AdminServiceClient::new(channel.clone());
    let counters = operator
        .get_stats(pb::GetStatsRequest {})
        .await
        .unwrap()
        .into_inner();
    assert!(counters.rss_bytes > 0);
    let status = operator
        .reload_policy(pb::ReloadPolicyRequest {})
        .await
        .unwrap_err();
    assert!(status.message().contains("x.toml:1"));

    let mut health = HealthClient::new(channel.clone());
    let mut status = async || {
        let answer = health.check(HealthCheckRequest::default()).await.unwrap();
        answer.into_inner().status
    };
    assert_eq!(status().await, 1, "serving");
    operator.drain(pb::DrainRequest::default()).await.unwrap();
    assert_eq!(status().await, 2, "not serving");
    let refused = ExecServiceClient::new(channel)
        .run(run("a", ""))
        .await
        .unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
}

#[tokio::test]
async fn what_is_not_there_yet_says_so() {
    let channel = connect(vec![]).await;
    let status = FileServiceClient::new(channel.clone())
        .stat(pb::StatRequest::default())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    let info = InfoServiceClient::new(channel)
        .get_server_info(pb::GetServerInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!((info.tier(), info.landlock_abi), (pb::Tier::Rootless, 7));
    assert!(info.features.contains(&"attach".to_owned()));
}
