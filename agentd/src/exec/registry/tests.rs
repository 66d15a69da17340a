//! Identity, limits and forgetting.

use std::time::Duration;

use super::{
    retention::{KEPT, KEPT_FOR},
    spent::SPENT_FOR,
    *,
};
use crate::{
    exec::{ExitReason, ExitResult},
    launcher_link::fake::script_spec,
};

const ME: Caller = Caller { uid: 1, gid: 1 };

fn registry() -> Registry {
    Registry::new(3, "1b4e28ba-2fa1-11d2")
}

fn end(exec: &Exec) {
    exec.record_end(ExitResult::without_run(ExitReason::Exited));
}

#[tokio::test]
async fn the_same_request_under_the_same_id_is_the_same_execution() {
    let registry = registry();
    let first = registry.admit(&script_spec("a", "true")).unwrap();
    assert!(first.work.is_some());
    let again = registry.admit(&script_spec("a", "true")).unwrap();
    assert!(again.work.is_none());
    assert!(Arc::ptr_eq(&first.exec, &again.exec));
    end(&first.exec);
    let later = registry.admit(&script_spec("a", "true")).unwrap();
    assert!(
        Arc::ptr_eq(&first.exec, &later.exec),
        "also when it is over"
    );
}

#[tokio::test]
async fn another_request_under_the_same_id_is_a_conflict() {
    let registry = registry();
    let _first = registry.admit(&script_spec("a", "true")).unwrap();
    let conflict = registry.admit(&script_spec("a", "false")).unwrap_err();
    assert!(matches!(conflict, AdmitError::Conflict(id) if id.as_str() == "a"));
}

#[tokio::test]
async fn callers_do_not_see_each_other() {
    let registry = registry();
    let mine = registry.admit(&script_spec("a", "true")).unwrap().exec;
    let mut other = script_spec("a", "false");
    other.invocation.caller = Caller { uid: 2, gid: 1 };
    let theirs = registry.admit(&other).unwrap().exec;
    assert!(!Arc::ptr_eq(&mine, &theirs));
    assert!(Arc::ptr_eq(&registry.get(ME, "a").unwrap(), &mine));
    assert!(registry.get(Caller { uid: 3, gid: 1 }, "a").is_none());
    assert_eq!(registry.list(ME).len(), 1);
}

#[tokio::test]
async fn only_so_many_run_at_once_and_a_retry_is_not_one_more() {
    let registry = registry();
    let mut admitted: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|id| registry.admit(&script_spec(id, "true")).unwrap())
        .collect();
    let full = registry.admit(&script_spec("d", "true")).unwrap_err();
    assert_eq!(full, AdmitError::Full(3));
    registry.admit(&script_spec("a", "true")).unwrap();
    assert_eq!(registry.running(), 3);
    admitted.remove(0);
    registry.admit(&script_spec("d", "true")).unwrap();
}

#[tokio::test]
async fn a_request_that_waits_is_known_and_one_that_was_never_started_is_not() {
    let registry = registry().with_queue(2);
    let running: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|id| registry.admit(&script_spec(id, "true")).unwrap())
        .collect();
    let mut spec = script_spec("d", "true");
    spec.queue_timeout = Duration::from_secs(30);
    let waiting = registry.admit(&spec).unwrap();
    assert!(matches!(waiting.work, Some((_, Entry::Later(_)))));
    assert_eq!((registry.running(), registry.queued()), (3, 1));
    assert_eq!(registry.list(ME).len(), 4);
    let retry = registry.admit(&spec).unwrap();
    assert!(retry.work.is_none() && Arc::ptr_eq(&retry.exec, &waiting.exec));
    waiting
        .exec
        .record_not_started(super::super::NotStarted::Full(3));
    drop((running, waiting.work));
    let again = registry.admit(&spec).unwrap();
    assert!(again.work.is_some() && !Arc::ptr_eq(&again.exec, &waiting.exec));
}

#[tokio::test]
async fn draining_admits_nothing_new_and_names_what_runs() {
    let registry = registry();
    let running = registry.admit(&script_spec("a", "true")).unwrap().exec;
    let over = registry.admit(&script_spec("b", "true")).unwrap().exec;
    end(&over);
    let rest = registry.drain();
    assert_eq!(rest.len(), 1);
    assert!(Arc::ptr_eq(&rest[0], &running));
    assert_eq!(
        registry.admit(&script_spec("c", "true")).unwrap_err(),
        AdmitError::Draining
    );
    // A retry still finds its own.
    registry.admit(&script_spec("a", "true")).unwrap();
}

#[tokio::test]
async fn old_ones_are_forgotten_and_the_newest_never() {
    let registry = registry();
    for number in 0..KEPT + 10 {
        let spec = script_spec(&format!("e{number}"), "true");
        end(&registry.admit(&spec).unwrap().exec);
    }
    let kept = registry.list(ME);
    assert_eq!(kept.len(), KEPT);
    assert_eq!(kept.last().unwrap().id().as_str(), format!("e{}", KEPT + 9));
    assert!(registry.get(ME, "e0").is_none());
    let mut inner = registry.lock();
    inner.forget_old(Instant::now() + KEPT_FOR + Duration::from_secs(1));
    assert_eq!(inner.execs.len(), 0);
}

fn spec_of(uid: u32, id: &str) -> ExecSpec {
    let mut spec = script_spec(id, "true");
    spec.invocation.caller = Caller { uid, gid: 1 };
    spec
}

#[tokio::test]
async fn an_id_that_was_forgotten_is_spent_and_never_run_again_in_silence() {
    let registry = registry();
    for number in 0..KEPT + 2 {
        let id = format!("e{number}");
        end(&registry.admit(&script_spec(&id, "true")).unwrap().exec);
    }
    for (id, script) in [("e0", "true"), ("e1", "true"), ("e0", "false")] {
        let late = registry.admit(&script_spec(id, script)).unwrap_err();
        assert!(matches!(late, AdmitError::Expired(spent) if spent.as_str() == id));
    }
    let known = registry.admit(&script_spec("e2", "true")).unwrap();
    assert!(known.work.is_none());
    // What its client has deleted is free, as it was told.
    registry.forget(&known.exec);
    drop(known);
    end(&registry.admit(&script_spec("e2", "true")).unwrap().exec);
    let after = Instant::now() + KEPT_FOR + Duration::from_secs(1);
    registry.lock().forget_old(after);
    let late = registry.admit(&script_spec("e9", "true")).unwrap_err();
    assert!(matches!(late, AdmitError::Expired(_)), "by age");
    registry.lock().forget_old(after + SPENT_FOR);
    assert!(
        registry
            .admit(&script_spec("e9", "true"))
            .unwrap()
            .work
            .is_some()
    );
}

#[tokio::test]
async fn nobodys_commands_make_the_daemon_forget_those_of_somebody_else() {
    let registry = registry();
    let mine = registry.admit(&spec_of(1, "mine")).unwrap().exec;
    end(&mine);
    for number in 0..2 * KEPT {
        let spec = spec_of(2, &format!("e{number}"));
        end(&registry.admit(&spec).unwrap().exec);
    }
    let again = registry.admit(&spec_of(1, "mine")).unwrap();
    assert!(again.work.is_none() && Arc::ptr_eq(&again.exec, &mine));
    assert!(
        registry.admit(&spec_of(1, "e0")).unwrap().work.is_some(),
        "other users' ids"
    );
}

#[tokio::test]
async fn chosen_ids_differ_and_forgetting_spares_a_namesake() {
    let registry = registry();
    let unnamed = || {
        let mut spec = script_spec("a", "true");
        spec.id = None;
        registry.admit(&spec).unwrap().exec
    };
    let (one, two) = (unnamed(), unnamed());
    assert_ne!(one.id(), two.id());
    let id = one.id().as_str().to_owned();
    registry.forget(&one);
    let namesake = registry.admit(&script_spec(&id, "true")).unwrap().exec;
    registry.forget(&one);
    assert!(Arc::ptr_eq(&registry.get(ME, &id).unwrap(), &namesake));
}
