//! Sessions against a launcher that a thread plays.

use std::{
    collections::BTreeMap,
    io::Write,
    os::fd::OwnedFd,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use agentd_sandbox::{
    monitor::{Cause, Event, ExecKey, LeaderStatus, Request, StopReason, Usage},
    policy::{Caller, Lifetime, Refusal, SessionKey},
};

use nix::sys::memfd::{MFdFlags, memfd_create};

use super::*;
use crate::{
    exec::{self, Disconnect, Exec, ExecId, ExecSpec, Executor, ExitReason, SessionHook},
    launcher_link::{
        Link,
        fake::{Side, launcher, script_spec, started},
    },
};

/// What the launcher was asked about sessions and commands.
type Seen = Arc<Mutex<Vec<Request>>>;

/// What commands of a session begin with.
fn environment() -> BTreeMap<String, String> {
    [("HOME", "/home/x"), ("PATH", "/home/x/bin:/bin")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

/// A launcher whose commands run until they are stopped, except those of the script `true`.
fn play(seen: &Seen) -> impl FnMut(&Side, Request, Vec<OwnedFd>) + Send + 'static {
    let seen = Arc::clone(seen);
    let mut pipes = BTreeMap::new();
    move |side, request, fds| {
        seen.lock().unwrap().push(request.clone());
        match request {
            Request::OpenSession {
                session, profile, ..
            } => {
                let result = match profile.as_str() {
                    "nosuch" => Err(Refusal::Malformed("no such profile".to_owned())),
                    _ => Ok(environment()),
                };
                side.send(&Event::SessionOpened { session, result });
            }
            Request::CloseSession { session } => side.send(&Event::SessionClosed { session }),
            Request::Explain { id, invocation, .. } => {
                let result = if invocation.env_set.contains_key("LD_PRELOAD") {
                    Err(Refusal::Malformed("LD_PRELOAD".to_owned()))
                } else {
                    Ok(Vec::new())
                };
                side.send(&Event::Explained { id, result });
            }
            Request::Spawn { exec, .. } => {
                pipes.insert(exec, fds);
                side.send(&started(exec));
            }
            Request::Stop { exec, reason, .. } => {
                pipes.remove(&exec);
                side.send(&Event::Ended {
                    exec,
                    cause: Cause::Stopped(reason),
                    status: LeaderStatus::Unknown,
                    leftover: 0,
                    usage: Usage::default(),
                    tripped: Vec::new(),
                    hits: Vec::new(),
                    proven: true,
                });
            }
            Request::Finish { .. }
            | Request::Signal { .. }
            | Request::Resize { .. }
            | Request::Reload => {}
        }
    }
}

struct Stage {
    seen: Seen,
    link: Link,
    registry: Registry,
    executor: Executor,
}

impl Stage {
    fn new() -> Self {
        let seen = Seen::default();
        let behaviour = play(&seen);
        Self::with(seen, behaviour)
    }

    fn with(
        seen: Seen,
        behaviour: impl FnMut(&Side, Request, Vec<OwnedFd>) + Send + 'static,
    ) -> Self {
        let link = launcher(behaviour);
        let room = Room {
            per_user: 3,
            in_all: 4,
        };
        Self {
            seen,
            registry: Registry::new(link.clone(), BOOT, room),
            executor: Executor::new(exec::Registry::new(64, BOOT), link.clone()),
            link,
        }
    }

    async fn open(&self, spec: SessionSpec) -> Arc<Session> {
        self.registry.create(spec).await.unwrap().0
    }

    fn wish(&self, id: &str, kind: Kind) -> Wish<'static> {
        let known = |id| self.executor.registry().known(ME, &id);
        Wish {
            known: ExecId::parse(id).and_then(known),
            ..wish(id, kind)
        }
    }

    /// Starts a command in a session.
    fn run(&self, session: &Arc<Session>, id: &str, kind: Kind) -> (Arc<Exec>, ExecSpec) {
        let seat = session.seat(&self.wish(id, kind)).unwrap();
        let mut spec = script_spec("", "sleep");
        seat.furnish(&mut spec);
        let (exec, _) = self.executor.submit(spec.clone()).unwrap();
        seat.take(&exec);
        (exec, spec)
    }

    fn closed(&self, key: SessionKey) -> bool {
        let seen = self.seen.lock().unwrap();
        seen.contains(&Request::CloseSession { session: key })
    }
}

const BOOT: &str = "0b007000-0000";

const ME: Caller = Caller { uid: 1, gid: 1 };

fn wish(id: &str, kind: Kind) -> Wish<'static> {
    Wish {
        id: ExecId::parse(id),
        known: None,
        kind,
        output_file_bytes: 1,
        boot_id: BOOT,
    }
}

fn spec(id: &str) -> SessionSpec {
    SessionSpec {
        id: SessionId::parse(id),
        caller: ME,
        profile: "workspace".to_owned(),
        workspace: "/w".into(),
        cwd: None,
        env_set: BTreeMap::new(),
        env_unset: Vec::new(),
        lease: Duration::from_secs(300),
        labels: BTreeMap::new(),
    }
}

fn with_lease(id: &str, lease: Duration) -> SessionSpec {
    SessionSpec { lease, ..spec(id) }
}

/// Waits for what has to come, without a fixed time.
async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

// REMOTE C9: a lost response and a retry must not make a second one.
#[tokio::test]
async fn the_same_request_is_the_same_session_and_another_one_is_a_conflict() {
    let stage = Stage::new();
    let (first, is_new) = stage.registry.create(spec("a")).await.unwrap();
    assert!(is_new);
    let (again, is_new) = stage.registry.create(spec("a")).await.unwrap();
    assert!(!is_new && Arc::ptr_eq(&first, &again));
    for other in [
        SessionSpec {
            profile: "strict".to_owned(),
            ..spec("a")
        },
        SessionSpec {
            cwd: Some("/w/sub".into()),
            ..spec("a")
        },
        with_lease("a", Duration::from_secs(1)),
    ] {
        let conflict = stage.registry.create(other).await.unwrap_err();
        assert!(matches!(conflict, CreateError::Conflict(_)), "{conflict}");
    }
    // Two at once open one.
    let (one, two) = tokio::join!(
        stage.registry.create(spec("b")),
        stage.registry.create(spec("b"))
    );
    let (one, two) = (one.unwrap(), two.unwrap());
    assert!(Arc::ptr_eq(&one.0, &two.0) && one.1 != two.1);
    let opened = stage.seen.lock().unwrap();
    assert_eq!(opened.len(), 2, "{opened:?}");
}

#[tokio::test]
async fn nobody_sees_the_session_of_somebody_else() {
    let stage = Stage::new();
    let mine = stage.open(spec("a")).await;
    let stranger = Caller { uid: 2, gid: 1 };
    assert_eq!(
        stage.registry.find(stranger, "a").unwrap_err(),
        Unknown::Never
    );
    assert!(stage.registry.list(stranger).is_empty());
    let refused = stage.registry.delete(stranger, "a").await.unwrap_err();
    assert_eq!(refused, DeleteError::Unknown(Unknown::Never));
    let theirs = SessionSpec {
        caller: stranger,
        ..spec("a")
    };
    let theirs = stage.open(theirs).await;
    assert!(!Arc::ptr_eq(&mine, &theirs), "ids belong to callers");
    assert_ne!(mine.key(), theirs.key());
    // The same user by another group is the same user.
    let again = Caller { uid: 1, gid: 9 };
    assert!(Arc::ptr_eq(
        &stage.registry.find(again, "a").unwrap(),
        &mine
    ));
}

#[tokio::test]
async fn their_number_is_bounded_per_user_and_in_all() {
    let stage = Stage::new();
    for id in ["a", "b", "c"] {
        stage.open(spec(id)).await;
    }
    let full = stage.registry.create(spec("d")).await.unwrap_err();
    assert_eq!(full, CreateError::Full(3));
    let of = |uid| SessionSpec {
        caller: Caller { uid, gid: 1 },
        ..spec("d")
    };
    stage.open(of(2)).await;
    let full = stage.registry.create(of(3)).await.unwrap_err();
    assert_eq!(full, CreateError::Full(4));
    stage.registry.delete(ME, "a").await.unwrap();
    stage.open(of(3)).await;
}

#[tokio::test]
async fn a_refused_session_is_none_and_its_id_is_free() {
    let stage = Stage::new();
    let unknown = SessionSpec {
        profile: "nosuch".to_owned(),
        ..spec("a")
    };
    let denied = SessionSpec {
        env_set: [("LD_PRELOAD".to_owned(), "x".to_owned())].into(),
        ..spec("a")
    };
    for (bad, word) in [(unknown, "profile"), (denied, "LD_PRELOAD")] {
        let refused = stage.registry.create(bad).await.unwrap_err();
        assert!(matches!(
            &refused,
            CreateError::NotOpened(NotOpened::Refused(why)) if why.to_string().contains(word)
        ));
        assert_eq!(stage.registry.active(), 0);
    }
    assert!(stage.closed(SessionKey(2)), "what was opened is closed");
    stage.open(spec("a")).await;
}

// REMOTE D16, D12: what was started in the background dies with its session, and nothing is left.
#[tokio::test]
async fn deleting_ends_everything_and_answers_when_nothing_is_left() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (back, _) = stage.run(&session, "back", Kind::Background);
    let (fore, _) = stage.run(&session, "fore", Kind::Foreground);
    for exec in [&back, &fore] {
        exec.started().await.unwrap();
    }
    assert_eq!(session.running(), 2);
    let (one, two) = tokio::join!(
        stage.registry.delete(ME, "a"),
        stage.registry.delete(ME, "a")
    );
    assert_eq!((one, two), (Ok(2), Ok(2)), "a second one joins the first");
    assert!(stage.closed(session.key()));
    for exec in [back, fore] {
        assert_eq!(exec.result().unwrap().reason, ExitReason::Cancelled);
    }
    assert_eq!(stage.registry.find(ME, "a").unwrap_err(), Unknown::Ended);
    let seat = session.seat(&wish("late", Kind::Foreground));
    assert_eq!(seat.unwrap_err(), SeatError::Closing);
    let again = stage.open(spec("a")).await;
    assert_ne!(again.key(), session.key(), "a name is never used again");
}

/// It is gone when the launcher says so, and not when somebody is tired of waiting.
#[tokio::test]
async fn a_session_that_the_launcher_does_not_close_is_closing_and_counts() {
    let seen = Seen::default();
    let mut usual = play(&seen);
    let silent: Arc<Mutex<Option<(Side, SessionKey)>>> = Arc::default();
    let asked = Arc::clone(&silent);
    let link = launcher(move |side, request, fds| {
        if let Request::CloseSession { session } = request {
            *asked.lock().unwrap() = Some((side.clone(), session));
        } else {
            usual(side, request, fds);
        }
    });
    let room = Room {
        per_user: 1,
        in_all: 4,
    };
    let registry = Registry::new(link, BOOT, room).with_patience(Duration::from_millis(60));
    let session = registry.create(spec("a")).await.unwrap().0;
    for _ in 0..2 {
        assert_eq!(registry.delete(ME, "a").await, Err(DeleteError::Unfinished));
    }
    assert_eq!((registry.active(), session.phase()), (1, Phase::Closing));
    let again = registry.create(spec("a")).await.unwrap_err();
    assert!(matches!(again, CreateError::Closing(_)), "{again}");
    let other = registry.create(spec("b")).await.unwrap_err();
    assert_eq!(other, CreateError::Full(1), "it counts");
    let (side, key) = silent.lock().unwrap().take().unwrap();
    side.send(&Event::SessionClosed { session: key });
    until("it is gone", || registry.active() == 0).await;
    assert_eq!(session.phase(), Phase::Closed { terminated: 0 });
    registry.create(spec("a")).await.unwrap();
}

#[tokio::test]
async fn a_place_taken_while_the_session_ends_does_not_outlive_it() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let seat = session.seat(&wish("x", Kind::Background)).unwrap();
    let mut spec = script_spec("", "sleep");
    seat.furnish(&mut spec);
    stage.registry.delete(ME, "a").await.unwrap();
    let (exec, _) = stage.executor.submit(spec).unwrap();
    seat.take(&exec);
    exec.ended().await;
    assert_eq!(exec.result().unwrap().reason, ExitReason::Cancelled);
}

#[tokio::test]
async fn a_lease_that_nobody_renews_ends_the_session_and_what_runs_in_the_background() {
    let stage = Stage::new();
    let session = stage.open(with_lease("a", Duration::from_millis(80))).await;
    let (exec, _) = stage.run(&session, "back", Kind::Background);
    until("expired", || stage.registry.active() == 0).await;
    assert_eq!(exec.result().unwrap().reason, ExitReason::Disconnected);
    assert!(stage.closed(session.key()));
    assert_eq!(stage.registry.find(ME, "a").unwrap_err(), Unknown::Ended);
    assert_eq!(session.phase(), Phase::Closed { terminated: 1 });
}

// REMOTE G9 (cloudflare/sandbox-sdk#101): a long silent run must not lose its session.
#[tokio::test]
async fn a_command_that_somebody_waits_for_and_a_reader_renew_the_lease() {
    let stage = Stage::new();
    let lease = Duration::from_millis(100);
    let session = stage.open(with_lease("a", lease)).await;
    let (exec, spec) = stage.run(&session, "fore", Kind::Foreground);
    exec.started().await.unwrap();
    tokio::time::sleep(lease * 4).await;
    assert_eq!(session.phase(), Phase::Open);
    exec.request_stop(StopReason::Cancelled, None);
    exec.ended().await;
    spec.hook.unwrap().0.ended(exec.id(), b"");

    let (back, _) = stage.run(&session, "back", Kind::Background);
    let presence = back.presence();
    tokio::time::sleep(lease * 4).await;
    assert_eq!(session.phase(), Phase::Open);
    drop(presence);
    until("expired", || stage.registry.active() == 0).await;
}

#[tokio::test]
async fn every_call_renews_the_lease() {
    let stage = Stage::new();
    let session = stage
        .open(with_lease("a", Duration::from_millis(200)))
        .await;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stage.registry.find(ME, "a").unwrap();
    }
    assert_eq!(session.phase(), Phase::Open);
    let left = session.expires_at().duration_since(session.created_at());
    assert!(left.unwrap() >= Duration::from_millis(500));
}

#[tokio::test]
async fn a_drain_admits_nothing_and_ends_all() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (exec, _) = stage.run(&session, "back", Kind::Background);
    exec.started().await.unwrap();
    stage.registry.drain(Duration::from_secs(10)).await;
    assert_eq!(stage.registry.active(), 0);
    assert_eq!(exec.result().unwrap().reason, ExitReason::Drained);
    let refused = stage.registry.create(spec("b")).await.unwrap_err();
    assert_eq!(refused, CreateError::Draining);
}

#[tokio::test]
async fn without_a_launcher_sessions_end_and_none_is_opened() {
    let seen = Seen::default();
    let mut playing = play(&seen);
    let link = launcher(move |side: &Side, request, fds| {
        if request == Request::Reload {
            side.die();
        } else {
            playing(side, request, fds);
        }
    });
    let room = Room {
        per_user: 3,
        in_all: 3,
    };
    let registry = Registry::new(link.clone(), BOOT, room);
    registry.create(spec("a")).await.unwrap();
    drop(link.reload().await);
    until("closed", || registry.active() == 0).await;
    let refused = registry.create(spec("b")).await.unwrap_err();
    assert_eq!(refused, CreateError::NotOpened(NotOpened::LauncherGone));
}

#[tokio::test]
async fn what_the_daemon_chose_in_another_boot_is_told_apart() {
    let stage = Stage::new();
    let own = stage
        .open(SessionSpec {
            id: None,
            ..spec("")
        })
        .await;
    assert!(own.id().as_str().starts_with("s0b007000-"));
    for (id, why) in [
        ("sdeadbeef-1", Unknown::OtherBoot),
        ("s0b007000-999", Unknown::Never),
        ("mine", Unknown::Never),
        ("../x", Unknown::Never),
    ] {
        assert_eq!(stage.registry.find(ME, id).unwrap_err(), why, "{id}");
    }
}

#[tokio::test]
async fn a_place_gives_a_command_what_its_session_has() {
    let stage = Stage::new();
    let asked = SessionSpec {
        cwd: Some("/w/first".into()),
        env_set: [("A".to_owned(), "1".to_owned())].into(),
        ..spec("a")
    };
    let session = stage.open(asked).await;
    let (exec, spec) = stage.run(&session, "x", Kind::Foreground);
    let given = spec.invocation.in_session.as_deref().unwrap();
    assert_eq!(given.session, session.key());
    assert_eq!(given.carried.cwd.as_deref(), Some("/w/first".as_ref()));
    assert_eq!(given.carried.env_set["A"], "1");
    assert!(given.report_state);
    assert_eq!(given.output_file.as_deref(), Some("x-1"));
    assert_eq!(spec.invocation.lifetime, Lifetime::Call);
    assert_eq!(exec.session_id(), Some("a"));
    assert!(session.exported().is_empty(), "no command exported it");

    let (_, spec) = stage.run(&session, "y", Kind::Background);
    let given = spec.invocation.in_session.as_deref().unwrap();
    assert!(!given.report_state, "nothing of it is carried back");
    assert_eq!(spec.invocation.lifetime, Lifetime::Session);
    assert_eq!(spec.disconnect, Disconnect::Keep);
    let end = spec
        .hook
        .unwrap()
        .0
        .ended(&ExecId::parse("y").unwrap(), b"");
    assert_eq!(end.cwd, "/w/first");
    assert!(end.notes.is_empty());
}

#[tokio::test]
async fn the_next_command_begins_where_the_last_one_stopped() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (exec, spec) = stage.run(&session, "x", Kind::Foreground);
    exec.started().await.unwrap();
    let hook = spec.hook.unwrap();
    let report = b"/w/sub\n\0declare -x A=\"1\"\ndeclare -x PWD=\"/w/sub\"\ndeclare -x HOME=\"/home/x\"\ndeclare -x PATH=\"/home/x/bin:/bin\"\n\0";
    let end = hook.0.ended(exec.id(), report);
    assert_eq!((end.cwd.as_str(), end.notes.len()), ("/w/sub", 0));
    assert_eq!(session.exported(), ["A"], "the rest is what it began with");
    let (_, next) = stage.run(&session, "y", Kind::Foreground);
    let carried = next.invocation.in_session.unwrap().carried;
    assert_eq!(carried.cwd.as_deref(), Some("/w/sub".as_ref()));
    assert_eq!(carried.env_set.len(), 1, "{carried:?}");
    assert_eq!(carried.env_set["A"], "1");
    assert!(carried.env_unset.is_empty(), "{carried:?}");
}

// DESIGN 6.10: no report leaves everything as it was; the model hears of it only where that matters.
#[tokio::test]
async fn a_command_without_a_whole_report_changes_nothing() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let whole = b"/w/sub\n\0declare -x A=\"1\"\n\0";
    let table: [(&str, &[u8], bool); 5] = [
        ("sleep 9", b"", false),
        ("exec sleep 9", b"", true),
        ("trap - EXIT; cd /", b"", true),
        ("sleep 9", &whole[..9], false),
        ("exec 3>x; cd sub", &whole[..whole.len() - 1], false),
    ];
    for (script, report, is_told) in table {
        let seat = session.seat(&wish("x", Kind::Foreground)).unwrap();
        let mut spec = script_spec("", script);
        seat.furnish(&mut spec);
        let end = spec
            .hook
            .unwrap()
            .0
            .ended(spec.id.as_ref().unwrap(), report);
        assert_eq!(end.cwd, "/w", "{script}");
        assert_eq!(
            end.notes == [NOT_KEPT],
            is_told,
            "{script}: {:?}",
            end.notes
        );
        assert!(session.exported().is_empty(), "{script}");
    }
    let huge = vec![b'x'; 256 * 1024];
    let (exec, spec) = stage.run(&session, "z", Kind::Foreground);
    let end = spec.hook.unwrap().0.ended(exec.id(), &huge);
    assert!(end.notes[0].contains("too much"), "{:?}", end.notes);
}

// REMOTE A12: one stuck command must not make the session unusable; a flood of them is refused.
#[tokio::test]
async fn commands_run_side_by_side_up_to_a_bound_that_the_background_does_not_count_for() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    for number in 0..20 {
        stage.run(&session, &format!("b{number}"), Kind::Background);
    }
    for number in 0..16 {
        let (exec, _) = stage.run(&session, &format!("f{number}"), Kind::Foreground);
        exec.started().await.unwrap();
    }
    let refused = session.seat(&wish("one-more", Kind::Foreground));
    assert_eq!(refused.unwrap_err(), SeatError::Full);
    // A retry of one that runs is none more, and one in the background is none of them.
    let retry = stage.wish("f3", Kind::Foreground);
    session.seat(&retry).unwrap();
    session.seat(&wish("b20", Kind::Background)).unwrap();
    let first = session.find("f0").unwrap().exec;
    first.request_stop(StopReason::Cancelled, None);
    first.ended().await;
    session.seat(&wish("one-more", Kind::Foreground)).unwrap();
}

#[tokio::test]
async fn a_retry_is_the_same_command_wherever_the_session_stands_by_now() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (first, first_spec) = stage.run(&session, "x", Kind::Foreground);
    let report = b"/w/sub\n\0declare -x A=\"1\"\n\0";
    first_spec.hook.unwrap().0.ended(first.id(), report);
    assert_eq!(session.cwd(), std::path::Path::new("/w/sub"));
    let retry = stage.wish("x", Kind::Foreground);
    let seat = session.seat(&retry).unwrap();
    assert_eq!(seat.directory(), std::path::Path::new("/w"));
    let mut spec = script_spec("", "sleep");
    seat.furnish(&mut spec);
    let (again, is_new) = stage.executor.submit(spec).unwrap();
    assert!(!is_new && Arc::ptr_eq(&first, &again));
}

#[tokio::test]
async fn an_id_that_was_forgotten_gets_another_file_when_it_comes_again() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (exec, _) = stage.run(&session, "x", Kind::Foreground);
    exec.request_stop(StopReason::Cancelled, None);
    exec.ended().await;
    stage.executor.registry().forget(&exec);
    drop(exec);
    until("forgotten", || session.known().is_empty()).await;
    let (_, spec) = stage.run(&session, "x", Kind::Foreground);
    let given = spec.invocation.in_session.unwrap();
    assert_eq!(given.output_file.as_deref(), Some("x-2"));
    let long = "l".repeat(64);
    let (_, spec) = stage.run(&session, &long, Kind::Foreground);
    let name = spec.invocation.in_session.unwrap().output_file.unwrap();
    assert!(ExecId::parse(&name).is_some(), "{name}");
}

#[tokio::test]
async fn an_id_that_is_free_again_names_the_new_command_while_the_old_one_is_still_read() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (old, old_spec) = stage.run(&session, "x", Kind::Background);
    session.has_read(&old, "call-1", (0, 10));
    old.request_stop(StopReason::Cancelled, None);
    old.ended().await;
    stage.executor.registry().forget(&old);
    let (new, new_spec) = stage.run(&session, "x", Kind::Background);
    assert!(!Arc::ptr_eq(&old, &new));
    let file = |spec: ExecSpec| spec.invocation.in_session.unwrap().output_file.unwrap();
    assert_ne!(file(old_spec), file(new_spec), "each has a file of its own");
    let found = session.find("x").unwrap().exec;
    assert!(Arc::ptr_eq(&found, &new));
    assert_eq!(session.running(), 1);
    // What was read of the one says nothing of the other.
    assert_eq!(session.read_from(&new, ""), 0);
    assert_eq!(session.read_from(&new, "call-1"), 0);
    session.has_read(&old, "call-2", (10, 20));
    assert_eq!(session.read_from(&new, ""), 0);
    assert_eq!(session.read_from(&old, "call-1"), 0, "a retry");
    // The session ends it with itself.
    stage.registry.delete(ME, "a").await.unwrap();
    assert_eq!(new.result().unwrap().reason, ExitReason::Cancelled);
}

/// Starts a command that prints more than the record holds, with a file for its output.
fn print_much(side: &Side, exec: ExecKey, mut fds: Vec<OwnedFd>) {
    let Event::Started {
        report,
        limits,
        cwd,
        notes,
        ..
    } = started(exec)
    else {
        panic!("it is one")
    };
    let begun = Event::Started {
        exec,
        report,
        limits,
        cwd,
        notes,
        output_file: "/run/output/x".to_owned(),
    };
    let file = memfd_create(KEPT, MFdFlags::MFD_CLOEXEC).unwrap();
    side.send_with(&begun, &[file]);
    let side = side.clone();
    std::thread::spawn(move || {
        let mut out = std::fs::File::from(fds.remove(0));
        out.write_all(&vec![b'x'; 4 << 20]).unwrap();
        drop((out, fds));
        let status = LeaderStatus::Exited(0);
        side.send(&Event::LeaderExited { exec, status });
    });
}

/// No other file of this process is called so.
const KEPT: &str = "kept-of-a-session-that-goes";

/// How often this process has it open.
fn held() -> usize {
    let fds = std::fs::read_dir("/proc/self/fd").unwrap();
    fds.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok())
        .filter(|target| target.to_string_lossy().contains(KEPT))
        .count()
}

#[tokio::test]
async fn the_output_files_of_a_deleted_session_are_held_by_nobody() {
    let seen = Seen::default();
    let mut others = play(&seen);
    let stage = Stage::with(seen, move |side, request, fds| match request {
        Request::Spawn { exec, .. } => print_much(side, exec, fds),
        Request::Finish { exec } => side.send(&Event::Ended {
            exec,
            cause: Cause::Leader,
            status: LeaderStatus::Exited(0),
            leftover: 0,
            usage: Usage::default(),
            tripped: Vec::new(),
            hits: Vec::new(),
            proven: true,
        }),
        other @ (Request::OpenSession { .. }
        | Request::CloseSession { .. }
        | Request::Explain { .. }
        | Request::Stop { .. }
        | Request::Signal { .. }
        | Request::Resize { .. }
        | Request::Reload) => others(side, other, fds),
    });
    let session = stage.open(spec("a")).await;
    let (exec, _) = stage.run(&session, "x", Kind::Foreground);
    exec.ended().await;
    let kept = exec.result().unwrap().output_file.clone().unwrap();
    assert_eq!(kept.bytes, 4 << 20);
    let first = exec.read_output(0, 10, Duration::ZERO).await;
    assert_eq!((first.offset, &first.data[..]), (0, &b"xxxxxxxxxx"[..]));
    until("the launcher's copy is closed", || held() == 1).await;
    stage.registry.delete(ME, "a").await.unwrap();
    assert_eq!(held(), 0, "although its command is still known");
    let rest = exec.read_output(0, 10, Duration::ZERO).await;
    assert!(rest.offset > 0 && rest.data.len() == 10, "{rest:?}");
}

#[tokio::test]
async fn reads_go_on_where_the_last_one_stopped_and_a_retried_one_begins_where_it_did() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (exec, _) = stage.run(&session, "x", Kind::Background);
    assert_eq!(session.read_from(&exec, "call-1"), 0);
    session.has_read(&exec, "call-1", (0, 10));
    assert_eq!(session.read_from(&exec, "call-2"), 10);
    session.has_read(&exec, "call-2", (10, 25));
    assert_eq!(session.read_from(&exec, "call-1"), 0, "a retry");
    assert_eq!(session.read_from(&exec, "call-2"), 10, "a retry");
    assert_eq!(session.read_from(&exec, ""), 25, "never a retry");
    session.has_read(&exec, "", (25, 30));
    assert_eq!(session.read_from(&exec, ""), 30);
}

#[tokio::test]
async fn the_hook_names_its_session() {
    let stage = Stage::new();
    let session = stage.open(spec("a")).await;
    let (_, spec) = stage.run(&session, "x", Kind::Foreground);
    let hook: Arc<dyn SessionHook> = spec.hook.unwrap().0;
    assert_eq!(hook.session_id(), "a");
    assert!(!stage.link.is_lost());
}
