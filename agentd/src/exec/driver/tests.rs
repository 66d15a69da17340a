//! The driver against a launcher that a thread plays: output, its end, sessions, terminals, the queue.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    reason = "an overflow fails the test, and what is not expected is one case"
)]

use std::{
    fs::File,
    io::Write,
    os::fd::OwnedFd,
    sync::{Mutex, mpsc as std_mpsc},
};

use agentd_sandbox::{
    monitor::{Cause, ExecKey, LeaderStatus, Request, SignalScope, Tripped, Usage},
    policy::{InSession, SessionKey, Stdin, TerminalSize},
};

use super::*;
use crate::{
    exec::{
        Accepted, ExecId, Executor, OutputStream, ReadItem, Reader, Registry, SessionHook,
        StdinInput, SubmitError, Tuning, lifecycle::Stop,
    },
    launcher_link::fake::{Side, launcher, script_spec, started},
};

/// What the fake launcher gets of one command, and the commands' ends.
struct Spawned {
    side: Side,
    exec: ExecKey,
    fds: Vec<OwnedFd>,
}

impl Spawned {
    fn file(&mut self, index: usize) -> File {
        self.fds[index].try_clone().unwrap().into()
    }

    fn leader_exits(&self) {
        let status = LeaderStatus::Exited(0);
        self.side.send(&Event::LeaderExited {
            exec: self.exec,
            status,
        });
    }
}

fn ended(exec: ExecKey, cause: Cause) -> Event {
    Event::Ended {
        exec,
        cause,
        status: LeaderStatus::Exited(0),
        leftover: 0,
        usage: Usage::default(),
        tripped: Vec::new(),
        hits: Vec::new(),
        proven: true,
    }
}

/// An executor whose commands the test plays; requests beside Spawn come through the second receiver.
fn stage(
    registry: Registry,
) -> (
    Executor,
    std_mpsc::Receiver<Spawned>,
    std_mpsc::Receiver<Request>,
) {
    let (spawns, spawned) = std_mpsc::channel();
    let (requests, requested) = std_mpsc::channel();
    let link = launcher(move |side, request, fds| match request {
        Request::Spawn { exec, invocation } => {
            // A command with a terminal is started by the test, which has the descriptor.
            if invocation.terminal.is_none() && invocation.in_session.is_none() {
                side.send(&started(exec));
            }
            drop(spawns.send(Spawned {
                side: side.clone(),
                exec,
                fds,
            }));
        }
        Request::Finish { exec } => side.send(&ended(exec, Cause::Leader)),
        Request::Stop { exec, reason, .. } => side.send(&ended(exec, Cause::Stopped(reason))),
        Request::Explain { id, .. } => side.send(&Event::Explained {
            id,
            result: Ok(Vec::new()),
        }),
        other => drop(requests.send(other)),
    });
    (Executor::new(registry, link), spawned, requested)
}

fn registry(max_running: usize) -> Registry {
    Registry::new(max_running, "boot")
}

/// Waits for the fake launcher without keeping the runtime from running.
async fn next<T>(receiver: &std_mpsc::Receiver<T>) -> T {
    for _ in 0..2000 {
        if let Ok(value) = receiver.try_recv() {
            return value;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("nothing came")
}

async fn read_all(mut reader: Reader) -> (Vec<u8>, u64) {
    let (mut bytes, mut lost) = (Vec::new(), 0);
    while let Some(item) = reader.next().await {
        match item {
            ReadItem::Event(event) => {
                if let crate::exec::EventBody::Output { data, .. } = event.body {
                    bytes.extend_from_slice(&data);
                }
            }
            ReadItem::Gap { lost: gone, .. } => lost += gone.total(),
            ReadItem::Heartbeat { .. } => {}
        }
    }
    (bytes, lost)
}

#[tokio::test]
async fn a_reader_that_keeps_up_loses_nothing_of_a_flood() {
    let (executor, spawned, _) = stage(registry(1));
    let (exec, _) = executor.submit(script_spec("a", "flood")).unwrap();
    let reader = Reader::new(&exec, 0);
    let mut command = next(&spawned).await;
    let mut out = command.file(0);
    command.fds.clear();
    let printing = std::thread::spawn(move || {
        let block: Vec<u8> = (0..1_000_003_u32)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect();
        for _ in 0..20 {
            out.write_all(&block).unwrap();
        }
        drop(out);
        command.leader_exits();
    });
    let (bytes, lost) = read_all(reader).await;
    printing.join().unwrap();
    assert_eq!((bytes.len(), lost), (20 * 1_000_003, 0));
    let expected = (0..1_000_003_u32).map(|i| u8::try_from(i % 251).unwrap());
    assert!(bytes.iter().copied().take(1_000_003).eq(expected));
    let result = exec.result().unwrap();
    assert!(result.output_complete && !result.pipes_held && result.proven);
    assert_eq!(result.stdout_bytes, 20 * 1_000_003);
}

#[tokio::test]
async fn a_stalled_reader_holds_up_neither_the_command_nor_another_reader() {
    let (executor, spawned, _) = stage(registry(1));
    let (exec, _) = executor.submit(script_spec("a", "flood")).unwrap();
    let mut stalled = Reader::new(&exec, 0);
    let reader = Reader::new(&exec, 0);
    let mut command = next(&spawned).await;
    let mut out = command.file(0);
    command.fds.clear();
    let printing = std::thread::spawn(move || {
        let block = vec![b'y'; 1 << 20];
        for _ in 0..20 {
            out.write_all(&block).unwrap();
        }
        drop(out);
        command.leader_exits();
    });
    let (bytes, lost) = read_all(reader).await;
    printing.join().unwrap();
    assert_eq!(bytes.len() as u64 + lost, 20 << 20);
    let mut sum = 0;
    while let Some(item) = stalled.next().await {
        match item {
            ReadItem::Event(event) => {
                if let crate::exec::EventBody::Output { data, .. } = event.body {
                    sum += data.len() as u64;
                }
            }
            ReadItem::Gap { lost, .. } => sum += lost.total(),
            ReadItem::Heartbeat { .. } => {}
        }
    }
    assert_eq!(sum, 20 << 20, "what it lost is counted");
}

/// One that goes on taking, a little at a time.
#[tokio::test]
async fn a_slow_reader_holds_up_the_command_and_a_fast_reader_only_for_a_bounded_time() {
    const BYTES: u64 = 96 << 20;
    for with_another in [false, true] {
        let (executor, spawned, _) = stage(registry(1));
        let (exec, _) = executor.submit(script_spec("a", "flood")).unwrap();
        let mut slow = Reader::new(&exec, 0);
        let another = with_another.then(|| tokio::spawn(read_all(Reader::new(&exec, 0))));
        let mut command = next(&spawned).await;
        let mut out = command.file(0);
        command.fds.clear();
        let printing = std::thread::spawn(move || {
            let begun = Instant::now();
            let block = vec![b'y'; 1 << 20];
            for _ in 0..BYTES >> 20 {
                out.write_all(&block).unwrap();
            }
            drop(out);
            command.leader_exits();
            begun.elapsed()
        });
        let trickle = tokio::spawn(async move {
            while slow.next().await.is_some() {
                // 1.6 MB a second: a minute for everything.
                tokio::time::sleep(Duration::from_millis(40)).await;
            }
        });
        exec.ended().await;
        let took = printing.join().unwrap();
        assert!(took < Duration::from_secs(20), "{with_another}: {took:?}");
        if let Some(another) = another {
            let (bytes, lost) = another.await.unwrap();
            assert_eq!((bytes.len() as u64, lost), (BYTES, 0));
        }
        trickle.abort();
    }
}

#[tokio::test]
async fn a_process_that_holds_the_pipe_is_told_and_not_waited_for() {
    let (executor, spawned, _) = stage(registry(1));
    let (exec, _) = executor.submit(script_spec("a", "sleep 99 &")).unwrap();
    let mut command = next(&spawned).await;
    command.file(0).write_all(b"important\n").unwrap();
    let since = Instant::now();
    command.leader_exits();
    exec.ended().await;
    assert!(since.elapsed() < Duration::from_secs(2));
    let result = exec.result().unwrap();
    assert!(result.pipes_held && !result.output_complete);
    assert_eq!(result.stdout_bytes, 10);
}

#[tokio::test]
async fn a_tree_that_is_not_proven_empty_is_told_so_by_a_field_and_by_no_remark() {
    let (executor, spawned, _) = stage(registry(1));
    let (exec, _) = executor.submit(script_spec("a", "true")).unwrap();
    let mut command = next(&spawned).await;
    command.fds.clear();
    command.side.send(&Event::Ended {
        exec: command.exec,
        cause: Cause::Leader,
        status: LeaderStatus::Exited(0),
        leftover: 2,
        usage: Usage::default(),
        tripped: Vec::new(),
        hits: Vec::new(),
        proven: false,
    });
    exec.ended().await;
    let result = exec.result().unwrap();
    assert!(!result.proven);
    assert!(result.notes.is_empty(), "{:?}", result.notes);
}

#[tokio::test]
async fn input_signals_and_sizes_reach_a_command() {
    let (executor, spawned, requested) = stage(registry(1));
    let mut spec = script_spec("a", "cat");
    spec.invocation.stdin = Stdin::Pipe;
    let (exec, _) = executor.submit(spec).unwrap();
    let mut command = next(&spawned).await;
    exec.started().await.unwrap();
    let input = StdinInput {
        offset: 0,
        data: b"hello",
        eof: true,
    };
    let accepted = exec
        .stdin()
        .unwrap()
        .write(input, Duration::from_secs(5))
        .await;
    assert_eq!(
        accepted,
        Ok(Accepted {
            offset: 5,
            closed: true
        })
    );
    let text = std::io::read_to_string(command.file(3)).unwrap();
    assert_eq!(text, "hello");
    exec.request_signal(2, SignalScope::Group);
    let key = command.exec;
    let expected = Request::Signal {
        exec: key,
        signal: 2,
        scope: SignalScope::Group,
    };
    assert_eq!(next(&requested).await, expected);
    let size = TerminalSize {
        columns: 100,
        rows: 30,
    };
    exec.request_resize(size);
    assert_eq!(next(&requested).await, Request::Resize { exec: key, size });
    command.fds.clear();
    command.leader_exits();
    exec.ended().await;
    let late = exec.stdin().unwrap().write(input, Duration::ZERO).await;
    assert!(late.is_err(), "after the end input is refused");
}

#[tokio::test]
async fn a_terminal_is_one_stream_both_ways() {
    let (executor, spawned, _) = stage(registry(1));
    let mut spec = script_spec("a", "vi");
    spec.invocation.terminal = Some(TerminalSize {
        columns: 80,
        rows: 24,
    });
    let (exec, _) = executor.submit(spec).unwrap();
    let reader = Reader::new(&exec, 0);
    let command = next(&spawned).await;
    let pty = nix::pty::openpty(None, None).unwrap();
    command
        .side
        .send_with(&started(command.exec), &[pty.master]);
    exec.started().await.unwrap();
    let mut slave = File::from(pty.slave);
    slave.write_all(b"> ").unwrap();
    let input = StdinInput {
        offset: 0,
        data: b"typed\n",
        eof: false,
    };
    let accepted = exec
        .stdin()
        .unwrap()
        .write(input, Duration::from_secs(5))
        .await;
    assert_eq!(
        accepted,
        Ok(Accepted {
            offset: 6,
            closed: false
        })
    );
    let mut line = [0; 64];
    let length = std::io::Read::read(&mut slave, &mut line).unwrap();
    assert_eq!(&line[..length], b"typed\n");
    drop(slave);
    command.leader_exits();
    let (bytes, _) = read_all(reader).await;
    assert_eq!(
        String::from_utf8(bytes).unwrap(),
        "> typed\r\n",
        "with its echo"
    );
    let result = exec.result().unwrap();
    assert!(result.output_complete);
    assert_eq!((result.stdout_bytes, result.stderr_bytes), (0, 0));
    assert_eq!(exec.written().of(OutputStream::Terminal), 9);
}

/// SIGUSR1 (`signal(7)`).
const USR1: i32 = 10;

/// A command whose start is the test's to report.
fn slow_to_start() -> ExecSpec {
    let mut spec = script_spec("a", "vi");
    spec.invocation.terminal = Some(TerminalSize {
        columns: 80,
        rows: 24,
    });
    spec
}

#[tokio::test]
async fn a_command_that_is_stopped_while_its_jail_is_built_did_not_run() {
    for (reason, expected) in [
        (StopReason::Cancelled, ExitReason::Cancelled),
        (StopReason::Drained, ExitReason::Drained),
    ] {
        let (executor, spawned, _) = stage(registry(1));
        let (exec, _) = executor.submit(slow_to_start()).unwrap();
        let _building = next(&spawned).await;
        // The launcher is asked at once, and answers.
        exec.stop(Stop {
            reason,
            grace_ms: None,
        });
        exec.ended().await;
        let result = exec.result().unwrap();
        assert_eq!((result.reason, result.started_at), (expected, None));
        assert!(result.notes.iter().any(|note| note.contains("nothing ran")));
    }
}

#[tokio::test]
async fn what_the_launcher_says_of_a_command_that_was_stopped_in_its_start_is_kept() {
    let made = Tripped {
        path: "/w/.vscode".to_owned(),
        rule: "t.toml:3".to_owned(),
        remains: None,
    };
    for (is_proven, made) in [
        (true, vec![]),
        (false, vec![]),
        (true, vec![made.clone()]),
        (false, vec![made]),
    ] {
        let (executor, spawned, _) = stage(registry(1));
        let (exec, _) = executor.submit(slow_to_start()).unwrap();
        let command = next(&spawned).await;
        let mut end = ended(command.exec, Cause::Stopped(StopReason::Cancelled));
        if let Event::Ended {
            proven, tripped, ..
        } = &mut end
        {
            *proven = is_proven;
            tripped.clone_from(&made);
        }
        command.side.send(&end);
        exec.ended().await;
        let result = exec.result().unwrap();
        assert_eq!(result.reason, ExitReason::Cancelled);
        assert_eq!(result.proven, is_proven);
        let denied: Vec<_> = result.denials.iter().map(|denial| &denial.path).collect();
        let expected: Vec<_> = made.iter().map(|made| &made.path).collect();
        assert_eq!(denied, expected);
        let nothing_ran = result.notes.iter().any(|note| note.contains("nothing ran"));
        assert_eq!(nothing_ran, made.is_empty(), "{:?}", result.notes);
    }
}

#[tokio::test]
async fn what_is_asked_of_a_command_while_its_jail_is_built_is_done_when_it_runs() {
    let (executor, spawned, requests) = stage(registry(1));
    let (exec, _) = executor.submit(slow_to_start()).unwrap();
    let command = next(&spawned).await;
    exec.request_signal(USR1, SignalScope::Tree);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(
        requests.try_recv().is_err(),
        "there is nobody to get it yet"
    );
    let (master, _slave) = nix::unistd::pipe().unwrap();
    command.side.send_with(&started(command.exec), &[master]);
    let asked = next(&requests).await;
    let expected = Request::Signal {
        exec: command.exec,
        signal: USR1,
        scope: SignalScope::Tree,
    };
    assert_eq!(format!("{asked:?}"), format!("{expected:?}"));
}

/// A session that remembers what it was told.
#[derive(Debug, Default)]
struct Told(Mutex<Vec<Vec<u8>>>);

impl SessionHook for Told {
    fn ended(&self, exec: &ExecId, report: &[u8]) -> SessionEnd {
        assert_eq!(exec.as_str(), "a");
        self.0.lock().unwrap().push(report.to_vec());
        SessionEnd {
            cwd: "/w/sub".to_owned(),
            notes: vec!["from the session".to_owned()],
        }
    }

    fn session_id(&self) -> &'static str {
        "s"
    }
}

fn in_session(hook: &Arc<Told>) -> ExecSpec {
    let mut spec = script_spec("a", "cd sub");
    spec.hook = Some(Hook(Arc::clone(hook) as Arc<dyn SessionHook>));
    spec.invocation.in_session = Some(Box::new(InSession {
        session: SessionKey(1),
        carried: agentd_sandbox::policy::Carried::default(),
        report_state: true,
        output_file: Some("a".to_owned()),
    }));
    spec
}

/// Started with an output file.
fn started_with_file(exec: ExecKey) -> Event {
    match started(exec) {
        Event::Started {
            exec,
            report,
            limits,
            cwd,
            notes,
            ..
        } => Event::Started {
            exec,
            report,
            limits,
            cwd,
            notes,
            output_file: "/run/output/a".to_owned(),
        },
        other => other,
    }
}

fn memory_file() -> OwnedFd {
    nix::sys::memfd::memfd_create("kept", nix::sys::memfd::MFdFlags::MFD_CLOEXEC).unwrap()
}

#[tokio::test]
async fn a_session_hears_of_the_end_once_before_anybody_sees_it() {
    let hook = Arc::new(Told::default());
    let (executor, spawned, _) = stage(registry(1));
    let (exec, _) = executor.submit(in_session(&hook)).unwrap();
    assert_eq!(exec.session_id(), Some("s"));
    let mut command = next(&spawned).await;
    command
        .side
        .send_with(&started_with_file(command.exec), &[memory_file()]);
    let mut state = command.file(3);
    command.fds.clear();
    // More than a pipe holds: it is read while the command runs.
    let report = vec![b'r'; 100_000];
    let expected = report.clone();
    let reporting = std::thread::spawn(move || {
        state.write_all(&report).unwrap();
        command.leader_exits();
    });
    exec.ended().await;
    reporting.join().unwrap();
    assert_eq!(*hook.0.lock().unwrap(), [expected]);
    let result = exec.result().unwrap();
    assert_eq!(result.cwd, "/w/sub");
    assert_eq!(result.notes, ["from the session"]);
    assert_eq!(result.output_file, None, "everything fits into the record");
}

#[tokio::test]
async fn a_session_also_hears_of_a_command_whose_launcher_died() {
    let hook = Arc::new(Told::default());
    let (executor, spawned, _) = stage(registry(1));
    let (exec, _) = executor.submit(in_session(&hook)).unwrap();
    let command = next(&spawned).await;
    command
        .side
        .send_with(&started_with_file(command.exec), &[memory_file()]);
    exec.started().await.unwrap();
    command.side.die();
    // The thread that plays it notices with the next request.
    exec.request_signal(1, SignalScope::Leader);
    drop(command);
    exec.ended().await;
    let result = exec.result().unwrap();
    assert_eq!((result.reason, result.proven), (ExitReason::Lost, false));
    assert_eq!(hook.0.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn output_that_does_not_fit_is_kept_in_the_file_and_read_from_there() {
    let hook = Arc::new(Told::default());
    let (executor, spawned, _) = stage(registry(1));
    let mut spec = in_session(&hook);
    spec.output_file_bytes = 5_000_000;
    let (exec, _) = executor.submit(spec).unwrap();
    let mut command = next(&spawned).await;
    command
        .side
        .send_with(&started_with_file(command.exec), &[memory_file()]);
    let mut out = command.file(0);
    command.fds.clear();
    let all: Vec<u8> = (0..6_000_000_u32)
        .map(|i| u8::try_from(i % 253).unwrap())
        .collect();
    let printed = all.clone();
    let printing = std::thread::spawn(move || {
        out.write_all(&printed).unwrap();
        drop(out);
        command.leader_exits();
    });
    let (mut read, mut holes) = (Vec::new(), 0);
    loop {
        let offset = read.len() as u64 + holes;
        let piece = exec
            .read_output(offset, 100_000, Duration::from_secs(20))
            .await;
        holes += piece.offset - offset;
        if piece.data.is_empty() {
            assert!(piece.ended);
            break;
        }
        let from = usize::try_from(piece.offset).unwrap();
        assert_eq!(piece.data, all[from..from + piece.data.len()]);
        read.extend_from_slice(&piece.data);
    }
    printing.join().unwrap();
    let result = exec.result().unwrap();
    let file = result.output_file.as_ref().unwrap();
    assert_eq!((file.bytes, file.missing), (5_000_000, 1_000_000));
    assert_eq!(file.path, "/run/output/a");
    let again = exec.read_output(0, 4, Duration::ZERO).await;
    assert_eq!((&again.data[..], again.written), (&all[..4], 6_000_000));
    let last = exec.read_output(5_999_990, 100, Duration::ZERO).await;
    assert_eq!(
        last.data,
        all[5_999_990..],
        "the end is still in the record"
    );
}

fn patient(id: &str, patience: Duration) -> ExecSpec {
    ExecSpec {
        queue_timeout: patience,
        ..script_spec(id, "true")
    }
}

const LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn beyond_the_most_that_run_the_next_one_waits_for_its_turn() {
    let (executor, spawned, _) = stage(registry(1));
    let (first, _) = executor.submit(script_spec("a", "true")).unwrap();
    let mut running = next(&spawned).await;
    let refused = executor.submit(script_spec("now", "true")).unwrap_err();
    assert!(matches!(refused, crate::exec::AdmitError::Full(1)));
    let (second, _) = executor.submit(patient("b", LONG)).unwrap();
    let reader = Reader::new(&second, 0);
    assert_eq!(executor.registry().queued(), 1);
    let (short, _) = executor
        .submit(patient("c", Duration::from_millis(20)))
        .unwrap();
    let late = executor.started(&short).await.unwrap_err();
    assert_eq!(late, NotStarted::Full(1));
    assert!(executor.registry().get(second.owner(), "c").is_none());
    running.fds.clear();
    running.leader_exits();
    first.ended().await;
    let mut command = next(&spawned).await;
    command.file(0).write_all(b"my turn").unwrap();
    command.fds.clear();
    command.leader_exits();
    assert_eq!(read_all(reader).await, (b"my turn".to_vec(), 0));
    assert_eq!(
        (executor.registry().running(), executor.registry().queued()),
        (0, 0)
    );
}

/// Whoever asked for it may have gone: nobody else has to notice.
#[tokio::test]
async fn what_was_never_started_is_known_to_nobody_and_its_id_is_free() {
    let (executor, spawned, _) = stage(registry(1));
    executor.submit(script_spec("a", "true")).unwrap();
    let running = next(&spawned).await;
    let (late, _) = executor
        .submit(patient("late", Duration::from_millis(20)))
        .unwrap();
    let (drained, _) = executor.submit(patient("drained", LONG)).unwrap();
    assert_eq!(executor.registry().list(late.owner()).len(), 3);
    late.ended().await;
    assert_eq!(late.started().await, Err(NotStarted::Full(1)));
    let (again, is_new) = executor.submit(patient("late", LONG)).unwrap();
    assert!(is_new && !Arc::ptr_eq(&again, &late));
    executor.registry().drain();
    for exec in [&drained, &again] {
        exec.ended().await;
        let id = exec.id().as_str();
        assert!(executor.registry().get(exec.owner(), id).is_none(), "{id}");
    }
    assert_eq!(executor.registry().list(late.owner()).len(), 1);
    drop(running);
}

#[tokio::test]
async fn what_waits_can_be_ended_drained_and_abandoned() {
    let (executor, spawned, _) = stage(registry(1));
    executor.submit(script_spec("a", "true")).unwrap();
    let _running = next(&spawned).await;
    let (ended, _) = executor.submit(patient("b", LONG)).unwrap();
    ended.request_stop(StopReason::Cancelled, None);
    ended.ended().await;
    let result = ended.result().unwrap();
    assert_eq!(
        (result.reason, result.started_at),
        (ExitReason::Cancelled, None)
    );

    let mut spec = patient("c", LONG);
    spec.disconnect = Disconnect::Grace(Duration::ZERO);
    let (abandoned, _) = executor.submit(spec).unwrap();
    drop(Reader::new(&abandoned, 0));
    abandoned.ended().await;
    assert_eq!(abandoned.result().unwrap().reason, ExitReason::Disconnected);

    let (drained, _) = executor.submit(patient("d", LONG)).unwrap();
    let started = executor.started(&drained);
    executor.registry().drain();
    assert_eq!(started.await, Err(NotStarted::Draining));
    let problem = SubmitError::from(NotStarted::Draining);
    assert!(problem.to_string().contains("drained"));
}

/// A reader hears something even when nothing happens.
#[tokio::test]
async fn silence_is_broken_by_heartbeats() {
    let tuning = Tuning {
        heartbeat: Duration::from_millis(10),
        ..Tuning::default()
    };
    let (executor, spawned, _) = stage(registry(1).with_tuning(tuning));
    let (exec, _) = executor.submit(script_spec("a", "sleep 9")).unwrap();
    let mut reader = Reader::new(&exec, 0);
    let _command = next(&spawned).await;
    let mut heartbeats = 0;
    while heartbeats < 3 {
        match reader.next().await.unwrap() {
            ReadItem::Heartbeat { .. } => heartbeats += 1,
            ReadItem::Event(_) | ReadItem::Gap { .. } => {}
        }
    }
}

/// The threads of the parser hang, whatever for.
#[test]
fn a_parser_that_hangs_keeps_no_command_from_running_or_from_being_ended() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (release, hung) = std_mpsc::channel::<()>();
    runtime.block_on(async {
        let hanging = tokio::task::spawn_blocking(move || hung.recv().unwrap_or(()));
        let (executor, spawned, _) = stage(registry(2));
        let (stopped, _) = executor.submit(script_spec("a", "true")).unwrap();
        let (runs, _) = executor.submit(script_spec("b", "true")).unwrap();
        stopped.request_stop(StopReason::Cancelled, None);
        tokio::time::timeout(CHECK_PATIENCE, stopped.ended())
            .await
            .expect("a stop is heard while the parser hangs");
        assert_eq!(stopped.result().unwrap().reason, ExitReason::Cancelled);
        let mut command = next(&spawned).await;
        runs.started().await.unwrap();
        command.fds.clear();
        command.leader_exits();
        runs.ended().await;
        assert_eq!(runs.result().unwrap().reason, ExitReason::Exited);
        drop(release);
        hanging.await.unwrap();
    });
}
