//! Streams and calls under adverse conditions: readers that stall, calls that are cancelled, a daemon
//! that is busy.

use std::{collections::BTreeMap, future::Future, os::fd::OwnedFd, sync::Mutex, time::Duration};

use agentd_proto::v1::exec_service_server::ExecService;
use agentd_sandbox::policy::{Caller, Stdin};
use tonic::{Request as Call, Status};

use super::*;
use crate::{
    exec::Tuning,
    rpc::{PeerInfo, exec::Execs},
};

const ME: Caller = Caller { uid: 1, gid: 1 };

/// The commands that a fake launcher has been asked for, with their descriptors.
type Commands = Arc<Mutex<BTreeMap<u64, Vec<OwnedFd>>>>;

/// A daemon whose commands run until they are stopped; those without a `cwd` exit at once.
fn stage(registry: Registry) -> (Arc<Daemon>, Commands) {
    let commands = Commands::default();
    let seen = Arc::clone(&commands);
    let link = launcher(move |side, request, fds| {
        if let Request::Spawn { exec, invocation } = &request
            && invocation.cwd.is_some()
        {
            seen.lock().unwrap().insert(exec.0, fds);
            side.send(&started(*exec));
            return;
        }
        if let Request::Stop { exec, .. } = &request {
            seen.lock().unwrap().insert(exec.0, Vec::new());
        }
        play(side, request, fds);
    });
    (daemon_of(Executor::new(registry, link), vec![]), commands)
}

fn call<T>(message: T) -> Call<T> {
    let mut call = Call::new(message);
    call.extensions_mut().insert(PeerInfo { caller: ME });
    call
}

fn details(status: &Status) -> String {
    String::from_utf8_lossy(status.details()).into_owned()
}

async fn descriptors(commands: &Commands, key: u64) -> Vec<OwnedFd> {
    loop {
        if let Some(fds) = commands.lock().unwrap().get(&key) {
            return fds.iter().map(|fd| fd.try_clone().unwrap()).collect();
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_takes_nothing_loses_its_stream_and_nobody_else_does() {
    use tokio_stream::StreamExt;
    let tuning = Tuning {
        stall: Duration::from_millis(100),
        ..Tuning::default()
    };
    let (daemon, commands) = stage(Registry::new(4, "boot").with_tuning(tuning));
    let execs = Execs(Arc::clone(&daemon));
    let mut stalled = execs
        .run(call(run("a", "/w/sub")))
        .await
        .unwrap()
        .into_inner();
    let attach = pb::AttachRequest {
        exec_id: "a".to_owned(),
        after_seq: 0,
        strict: false,
    };
    let mut live = execs.attach(call(attach)).await.unwrap().into_inner();
    let mut out = std::fs::File::from(descriptors(&commands, 1).await.remove(0));
    let reading = tokio::spawn(async move {
        let mut bytes = 0;
        while let Some(message) = live.next().await {
            match message.unwrap().event.unwrap().event {
                Some(pb::exec_event::Event::Output(output)) => bytes += output.data.len(),
                Some(pb::exec_event::Event::Gap(gap)) => {
                    bytes += usize::try_from(gap.stdout_bytes).unwrap();
                }
                Some(_) | None => {}
            }
            if bytes == 8 << 20 {
                break;
            }
        }
    });
    let printing = tokio::task::spawn_blocking(move || out.write_all(&vec![b'y'; 8 << 20]));
    printing.await.unwrap().unwrap();
    reading.await.unwrap();
    while crate::exec::Stats::get(&daemon.executor.stats().slow_readers) == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let mut events = 0;
    let error = loop {
        match stalled.next().await.expect("it ends with an error") {
            Ok(_) => events += 1,
            Err(status) => break status,
        }
    };
    assert_eq!(error.code(), Code::Aborted);
    assert!(details(&error).contains("SLOW_CONSUMER") && details(&error).contains("last_seq"));
    assert!(events <= 5, "what is buffered for it is bounded: {events}");
    assert!(stalled.next().await.is_none());
    assert_eq!(
        daemon.executor.registry().running(),
        1,
        "its command goes on"
    );
}

/// Polls a future that many times, then drops it.
async fn poll_times<F: Future>(future: F, times: usize) -> Option<F::Output> {
    let mut future = std::pin::pin!(future);
    for _ in 0..times {
        let poll =
            std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context)));
        if let std::task::Poll::Ready(output) = poll.await {
            return Some(output);
        }
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    None
}

/// remote.md C6: a call that goes away at any point leaves one execution, no task and no panic.
#[tokio::test]
async fn calls_cancelled_at_any_point_leave_one_execution_each_and_no_task() {
    let (daemon, commands) = stage(Registry::new(256, "boot"));
    let execs = Execs(Arc::clone(&daemon));
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let baseline = tasks();
    let mut started = 0;
    for polls in 0..25 {
        for kind in 0..2 {
            let id = format!("e{polls}-{kind}");
            let start = pb::StartRequest {
                spec: Some(spec(&id, "/w/sub")),
            };
            match kind {
                0 => drop(poll_times(execs.start(call(start.clone())), polls).await),
                _ => drop(poll_times(execs.run(call(run(&id, "/w/sub"))), polls).await),
            }
            let again = execs.start(call(start)).await.unwrap().into_inner();
            started += 1;
            assert!(again.created || polls > 0, "{id}");
            let attach = pb::AttachRequest {
                exec_id: id.clone(),
                after_seq: 0,
                strict: false,
            };
            drop(poll_times(execs.attach(call(attach)), polls).await);
            let wait = pb::WaitRequest {
                exec_id: id.clone(),
                wait: None,
            };
            drop(poll_times(execs.wait(call(wait)), polls).await);
            let terminate = pb::TerminateRequest {
                exec_id: id.clone(),
                grace: None,
            };
            drop(poll_times(execs.terminate(call(terminate.clone())), polls).await);
            execs.terminate(call(terminate)).await.unwrap();
            let delete = pb::DeleteExecRequest {
                exec_id: id,
                force: true,
            };
            drop(poll_times(execs.delete(call(delete.clone())), polls).await);
            // It may be gone already.
            drop(execs.delete(call(delete)).await);
        }
    }
    assert_eq!(
        commands.lock().unwrap().len(),
        started,
        "one command per id"
    );
    assert_eq!(daemon.executor.registry().list(ME).len(), 0);
    for _ in 0..1000 {
        if tasks() <= baseline {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{} tasks are left of {baseline}", tasks());
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story")]
async fn input_is_refused_where_there_is_none_and_acknowledged_by_offset_where_there_is() {
    let (daemon, commands) = stage(Registry::new(8, "boot"));
    let execs = Execs(daemon);
    let write = |id: &str, offset, data: &[u8], eof| {
        call(pb::WriteStdinRequest {
            exec_id: id.to_owned(),
            offset,
            data: data.to_vec().into(),
            eof,
        })
    };
    let plain = pb::StartRequest {
        spec: Some(spec("plain", "/w/sub")),
    };
    execs.start(call(plain)).await.unwrap();
    let status = execs
        .write_stdin(write("plain", 0, b"x", false))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert!(details(&status).contains("NO_STDIN"));
    let resize = pb::ResizePtyRequest {
        exec_id: "plain".to_owned(),
        size: Some(pb::PtySize {
            columns: 80,
            rows: 24,
        }),
    };
    let status = execs.resize_pty(call(resize)).await.unwrap_err();
    assert!(details(&status).contains("NO_TERMINAL"));

    let mut with_stdin = spec("cat", "/w/sub");
    with_stdin.io = Some(pb::IoSpec {
        stdin: true,
        ..pb::IoSpec::default()
    });
    let start = pb::StartRequest {
        spec: Some(with_stdin),
    };
    execs.start(call(start)).await.unwrap();
    let fds = descriptors(&commands, 2).await;
    assert_eq!(
        fds.len(),
        4,
        "stdout, stderr, script, stdin: {:?}",
        Stdin::Pipe
    );
    let answer = execs
        .write_stdin(write("cat", 0, b"abc", false))
        .await
        .unwrap();
    assert_eq!(answer.into_inner().accepted_offset, 3);
    let hole = execs
        .write_stdin(write("cat", 7, b"x", false))
        .await
        .unwrap_err();
    assert_eq!(hole.code(), Code::OutOfRange);
    assert!(details(&hole).contains("expected_offset"));
    let large = vec![0; 64 * 1024 + 1];
    let status = execs
        .write_stdin(write("cat", 3, &large, false))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let answer = execs
        .write_stdin(write("cat", 2, b"cd", true))
        .await
        .unwrap();
    assert!(answer.into_inner().closed);
    let status = execs
        .write_stdin(write("cat", 4, b"e", false))
        .await
        .unwrap_err();
    assert!(details(&status).contains("STDIN_CLOSED"));
    let mut text = [0; 16];
    let length = std::io::Read::read(
        &mut std::fs::File::from(fds.into_iter().nth(3).unwrap()),
        &mut text,
    );
    assert_eq!(&text[..length.unwrap()], b"abcd");

    let terminate = pb::TerminateRequest {
        exec_id: "cat".to_owned(),
        grace: None,
    };
    execs.terminate(call(terminate)).await.unwrap();
    let status = execs
        .write_stdin(write("cat", 4, b"", true))
        .await
        .unwrap_err();
    assert!(details(&status).contains("EXEC_ENDED"));
    let signal = pb::SignalRequest {
        exec_id: "cat".to_owned(),
        signal: 15,
        scope: pb::SignalScope::Tree.into(),
    };
    assert!(
        !execs
            .signal(call(signal))
            .await
            .unwrap()
            .into_inner()
            .delivered
    );
}

#[tokio::test]
async fn an_id_of_another_boot_is_told_from_one_that_was_never_there() {
    let (daemon, _) = stage(Registry::new(8, "11111111-boot"));
    let execs = Execs(daemon);
    for (id, reason) in [
        ("x00000000-7", "INSTANCE_RESTARTED"),
        ("x11111111-7", "EXEC_EXPIRED"),
        ("toolu_1", "EXEC_EXPIRED"),
        ("not an id", "EXEC_EXPIRED"),
    ] {
        let get = pb::GetExecRequest {
            exec_id: id.to_owned(),
        };
        let status = execs.get(call(get)).await.unwrap_err();
        assert_eq!(status.code(), Code::NotFound, "{id}");
        assert!(details(&status).contains(reason), "{id}");
    }
}

#[tokio::test]
async fn a_request_that_was_meant_for_an_earlier_daemon_starts_nothing() {
    use pb::tool_service_server::ToolService;
    let (daemon, commands) = stage(Registry::new(8, "boot"));
    let execs = Execs(Arc::clone(&daemon));
    let tools = crate::rpc::tool::Tools(Arc::clone(&daemon));
    let meant_for = |boot: &str| pb::ExecSpec {
        expected_boot_id: boot.to_owned(),
        ..spec("a", "/w/sub")
    };
    let tool = |name: &str, boot: &str| pb::CallToolRequest {
        name: name.to_owned(),
        input_json: match name {
            "bash" => r#"{"command":"true"}"#,
            _ => r#"{"bash_id":"a"}"#,
        }
        .to_owned(),
        sandbox: meant_for(boot).sandbox,
        call_id: "b".to_owned(),
        expected_boot_id: boot.to_owned(),
        ..pb::CallToolRequest::default()
    };
    for boot in ["earlier", "boot-", "BOOT"] {
        let wire = || Some(meant_for(boot));
        let mut refused = vec![
            execs
                .start(call(pb::StartRequest { spec: wire() }))
                .await
                .unwrap_err(),
            execs
                .run(call(pb::RunRequest { spec: wire() }))
                .await
                .map(drop)
                .unwrap_err(),
        ];
        for name in ["bash", "bash_output", "bash_kill"] {
            refused.push(
                tools
                    .call_tool(call(tool(name, boot)))
                    .await
                    .map(drop)
                    .unwrap_err(),
            );
        }
        for status in refused {
            assert_eq!(status.code(), Code::NotFound, "{boot}: {status}");
            assert!(details(&status).contains("INSTANCE_RESTARTED"), "{boot}");
        }
    }
    assert!(commands.lock().unwrap().is_empty());
    assert!(daemon.executor.registry().list(ME).is_empty());
    for boot in ["boot", ""] {
        let spec = Some(meant_for(boot));
        execs.start(call(pb::StartRequest { spec })).await.unwrap();
    }
    tools
        .call_tool(call(tool("bash", "boot")))
        .await
        .map(drop)
        .unwrap();
    assert_eq!(daemon.executor.registry().list(ME).len(), 2);
}

/// Asks for a start that waits so long for its turn, in milliseconds.
fn patient_start(id: &str, millis: i32) -> Call<pb::StartRequest> {
    let mut spec = spec(id, "/w/sub");
    spec.queue_timeout = Some(prost_types::Duration {
        seconds: 0,
        nanos: millis.saturating_mul(1_000_000),
    });
    call(pb::StartRequest { spec: Some(spec) })
}

#[tokio::test]
async fn a_full_daemon_says_when_to_come_back_and_shows_what_waits() {
    let (daemon, _) = stage(Registry::new(1, "boot").with_queue(1));
    let execs = Execs(Arc::clone(&daemon));
    execs.start(patient_start("a", 0)).await.unwrap();
    for millis in [0, 30] {
        let status = execs.start(patient_start("b", millis)).await.unwrap_err();
        assert_eq!(status.code(), Code::ResourceExhausted, "{millis}");
        assert!(details(&status).contains("LIMIT_EXECS") && details(&status).contains("RetryInfo"));
    }
    let waiting = tokio::spawn({
        let execs = execs.clone();
        let start = patient_start("c", 900);
        async move { execs.start(start).await }
    });
    let list = pb::ListExecsRequest {
        state: pb::ExecState::Queued.into(),
        ..pb::ListExecsRequest::default()
    };
    while execs
        .list(call(list.clone()))
        .await
        .unwrap()
        .into_inner()
        .execs
        .is_empty()
    {
        tokio::task::yield_now().await;
    }
    assert_eq!(daemon.executor.registry().queued(), 1);
    let delete = pb::DeleteExecRequest {
        exec_id: "c".to_owned(),
        force: true,
    };
    execs.delete(call(delete)).await.unwrap();
    let answer = waiting.await.unwrap().unwrap().into_inner().exec.unwrap();
    let result = answer.result.unwrap();
    assert_eq!(result.reason(), pb::ExitReason::Cancelled);
    assert_eq!(daemon.executor.registry().queued(), 0);
}

/// Its client has gone when the queue gives it up: whoever else asks is told why, or that there is none.
#[tokio::test]
async fn what_was_given_up_in_the_queue_is_never_an_end_without_a_result() {
    let (daemon, _) = stage(Registry::new(1, "boot").with_queue(1));
    let execs = Execs(daemon);
    execs.start(patient_start("a", 0)).await.unwrap();
    let wait = || pb::WaitRequest {
        exec_id: "b".to_owned(),
        wait: None,
    };
    let terminate = || pb::TerminateRequest {
        exec_id: "b".to_owned(),
        grace: None,
    };
    let waited = {
        let mut started = execs.start(patient_start("b", 100));
        tokio::select! {
            biased;
            _ = &mut started => panic!("there is no slot"),
            () = std::future::ready(()) => {}
        }
        drop(started);
        execs.wait(call(wait())).await.unwrap_err()
    };
    assert!(details(&waited).contains("LIMIT_EXECS"), "{waited}");
    let get = pb::GetExecRequest {
        exec_id: "b".to_owned(),
    };
    for status in [
        execs.get(call(get)).await.unwrap_err(),
        execs.wait(call(wait())).await.unwrap_err(),
        execs.terminate(call(terminate())).await.unwrap_err(),
    ] {
        assert!(details(&status).contains("EXEC_EXPIRED"), "{status}");
    }
    for state in [pb::ExecState::Unspecified, pb::ExecState::Ended] {
        let list = pb::ListExecsRequest {
            state: state.into(),
            ..pb::ListExecsRequest::default()
        };
        let listed = execs.list(call(list)).await.unwrap().into_inner().execs;
        assert!(listed.iter().all(|exec| exec.exec_id == "a"), "{listed:?}");
    }
}

/// A launcher that hangs: the answer is that nothing is known yet, never that it is killed, and never none.
#[tokio::test]
async fn a_command_that_does_not_end_is_told_to_be_ending() {
    let tuning = Tuning {
        end: Duration::from_millis(40),
        ..Tuning::default()
    };
    let hung: Arc<Mutex<Option<(Side, ExecKey)>>> = Arc::default();
    let asked = Arc::clone(&hung);
    let link = launcher(move |side, request, fds| {
        if let Request::Stop { exec, .. } = request {
            *asked.lock().unwrap() = Some((side.clone(), exec));
        } else {
            play(side, request, fds);
        }
    });
    let registry = Registry::new(4, "boot").with_tuning(tuning);
    let execs = Execs(daemon_of(Executor::new(registry, link), vec![]));
    let spec = Some(spec("a", "/w/sub"));
    execs.start(call(pb::StartRequest { spec })).await.unwrap();
    let terminate = || pb::TerminateRequest {
        exec_id: "a".to_owned(),
        grace: Some(prost_types::Duration {
            seconds: 0,
            nanos: 1_000_000,
        }),
    };
    let delete = pb::DeleteExecRequest {
        exec_id: "a".to_owned(),
        force: true,
    };
    for status in [
        execs.terminate(call(terminate())).await.unwrap_err(),
        execs.delete(call(delete)).await.unwrap_err(),
        execs.terminate(call(terminate())).await.unwrap_err(),
    ] {
        assert_eq!(status.code(), Code::Unavailable);
        let details = details(&status);
        assert!(details.contains("EXEC_ENDING") && details.contains("RetryInfo"));
    }
    let (side, exec) = hung.lock().unwrap().take().unwrap();
    let cause = Cause::Stopped(agentd_sandbox::monitor::StopReason::Cancelled);
    side.send(&ended(exec, cause, LeaderStatus::Unknown));
    let wait = pb::WaitRequest {
        exec_id: "a".to_owned(),
        wait: None,
    };
    let exec = execs
        .wait(call(wait))
        .await
        .unwrap()
        .into_inner()
        .exec
        .unwrap();
    assert_eq!(exec.state(), pb::ExecState::Ended);
}

/// remote.md G7, H6: four commands print as fast as they can, each with a reader, and health is asked all
/// the while.
#[test]
fn health_is_answered_while_commands_print_at_full_speed() {
    const MOST: Duration = Duration::from_millis(if cfg!(debug_assertions) { 250 } else { 50 });
    let (connections, incoming) = tokio::sync::mpsc::channel::<std::io::Result<Connection>>(8);
    let serving = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let link = launcher(|side, request, fds| flood(side, &request, fds));
            let daemon = daemon_of(Executor::new(Registry::new(8, "boot"), link), vec![]);
            let router = router(&daemon).unwrap();
            let incoming = tokio_stream::wrappers::ReceiverStream::new(incoming);
            // Ends with the connections' sender.
            drop(router.serve_with_incoming(incoming).await);
        });
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let slowest = runtime.block_on(async {
        for number in 0..4 {
            let mut client = ExecServiceClient::new(dial(&connections).await);
            tokio::spawn(async move {
                let id = format!("flood{number}");
                let mut stream = client.run(run(&id, "/w/sub")).await.unwrap().into_inner();
                while stream
                    .message()
                    .await
                    .is_ok_and(|message| message.is_some())
                {}
            });
        }
        ask_health(dial(&connections).await).await
    });
    drop((runtime, connections));
    serving.join().unwrap();
    assert!(slowest < MOST, "health took {slowest:?}");
}

/// Commands that print until nobody listens.
fn flood(side: &Side, request: &Request, fds: Vec<OwnedFd>) {
    if let Request::Spawn { exec, .. } = request {
        side.send(&started(*exec));
        std::thread::spawn(move || {
            let mut out = std::fs::File::from(fds.into_iter().next().unwrap());
            let block = b"y\n".repeat(4096);
            while out.write_all(&block).is_ok() {}
        });
    }
}

async fn dial(connections: &tokio::sync::mpsc::Sender<std::io::Result<Connection>>) -> Channel {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    ours.set_nonblocking(true).unwrap();
    // Watched by this runtime, which only costs a hop: the daemon's own work is on its thread.
    let slot = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
    let theirs = tokio::net::UnixStream::from_std(theirs).unwrap();
    connections
        .send(Connection::accept(theirs, slot))
        .await
        .unwrap();
    let ours = tokio::net::UnixStream::from_std(ours).unwrap();
    let mut ours = Some(TokioIo::new(ours));
    Endpoint::from_static("http://agentd.test")
        .connect_with_connector(tower::service_fn(move |_| {
            let once = ours.take().ok_or_else(|| std::io::Error::other("once"));
            async { once }
        }))
        .await
        .unwrap()
}

/// The slowest of some answers.
async fn ask_health(channel: Channel) -> Duration {
    let mut health = HealthClient::new(channel);
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let since = Instant::now();
        let answer = health.check(HealthCheckRequest::default()).await.unwrap();
        slowest = slowest.max(since.elapsed());
        assert_eq!(answer.into_inner().status, 1);
    }
    slowest
}
