//! Reports against what their commands began with.

use super::*;

const WORKSPACE: &str = "/w";

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

fn base() -> Base {
    Base::new(map(&[
        ("PATH", "/bin"),
        ("PAGER", "cat"),
        ("TMPDIR", "/tmp"),
    ]))
}

/// A command that began with `PATH` and `PAGER` as the profile gives them ends with these.
fn report(place: Place, exported: &[(&str, &str)]) -> Report {
    Report {
        place,
        exported: map(exported),
        unspeakable: Vec::new(),
    }
}

fn at(directory: &str) -> Place {
    Place::At(directory.to_owned())
}

const UNCHANGED: [(&str, &str); 4] = [
    ("PATH", "/bin"),
    ("PAGER", "cat"),
    ("PWD", "/w"),
    ("TMPDIR", "/tmp"),
];

fn with(more: &[(&'static str, &'static str)]) -> Vec<(&'static str, &'static str)> {
    let mut all = UNCHANGED.to_vec();
    all.retain(|(name, _)| more.iter().all(|(other, _)| other != name));
    all.extend_from_slice(more);
    all
}

/// One command after another, each beginning where the one before ended.
fn then(carried: &mut Carried, report: &Report) -> Vec<String> {
    let beginning = Beginning {
        carried: carried.clone(),
        ..Beginning::default()
    };
    run(carried, report, &beginning, None)
}

fn run(
    carried: &mut Carried,
    report: &Report,
    beginning: &Beginning,
    started_in: Option<&str>,
) -> Vec<String> {
    let context = Context {
        beginning,
        base: &base(),
        started_in,
        workspace: Path::new(WORKSPACE),
    };
    apply(carried, report, &context)
}

#[test]
fn a_command_that_changes_nothing_leaves_nothing() {
    let mut carried = Carried::default();
    let notes = then(&mut carried, &report(at("/w"), &UNCHANGED));
    assert_eq!((carried, notes), (Carried::default(), vec![]));
}

#[test]
fn directory_and_exports_are_carried_until_they_are_changed_again() {
    let mut carried = Carried::default();
    then(&mut carried, &report(at("/w/sub"), &with(&[("A", "1")])));
    assert_eq!(carried.cwd.as_deref(), Some(Path::new("/w/sub")));
    assert_eq!(carried.env_set, map(&[("A", "1")]));
    // Kept by a command that does not touch them.
    then(&mut carried, &report(at("/w/sub"), &with(&[("A", "1")])));
    assert_eq!(carried.env_set, map(&[("A", "1")]));
    // Changed, and another one added.
    let changed = with(&[("A", "2"), ("B", "x\ny")]);
    then(&mut carried, &report(at("/w/sub"), &changed));
    assert_eq!(carried.env_set, map(&[("A", "2"), ("B", "x\ny")]));
    // Unset, and back in the workspace.
    then(&mut carried, &report(at("/w"), &UNCHANGED));
    assert_eq!(carried, Carried::default());
}

#[test]
fn a_variable_of_the_profile_can_be_changed_unset_and_given_back() {
    let mut carried = Carried::default();
    then(
        &mut carried,
        &report(at("/w"), &with(&[("PATH", "/opt:/bin")])),
    );
    assert_eq!(carried.env_set, map(&[("PATH", "/opt:/bin")]));
    let mut without = with(&[]);
    without.retain(|(name, _)| *name != "PATH");
    then(&mut carried, &report(at("/w"), &without));
    assert_eq!(carried.env_set, map(&[]));
    assert_eq!(carried.env_unset, ["PATH"]);
    then(&mut carried, &report(at("/w"), &without));
    assert_eq!(carried.env_unset, ["PATH"], "once");
    then(&mut carried, &report(at("/w"), &UNCHANGED));
    assert_eq!(carried, Carried::default());
}

#[test]
fn what_a_request_sets_for_itself_stays_its_own() {
    let mut carried = Carried {
        cwd: Some("/w/sub".into()),
        env_set: map(&[("A", "session")]),
        env_unset: Vec::new(),
    };
    let before = carried.clone();
    let beginning = Beginning {
        carried: carried.clone(),
        env_set: map(&[("A", "own"), ("B", "own")]),
        env_unset: vec!["PAGER".to_owned()],
        cwd: Some("/w/else".into()),
    };
    let mut exported = with(&[("A", "own"), ("B", "own")]);
    exported.retain(|(name, _)| *name != "PAGER");
    let ended = report(at("/w/else"), &exported);
    run(&mut carried, &ended, &beginning, Some("/w/else"));
    assert_eq!(carried, before);
    // What the command itself does to them counts.
    let mut exported = with(&[("A", "new")]);
    exported.retain(|(name, _)| *name != "PAGER");
    let ended = report(at("/w/third"), &exported);
    run(&mut carried, &ended, &beginning, Some("/w/else"));
    assert_eq!(carried.env_set, map(&[("A", "new")]));
    assert_eq!(carried.cwd.as_deref(), Some(Path::new("/w/third")));
}

#[test]
fn of_commands_at_once_the_last_to_end_wins_and_neither_undoes_the_other() {
    let mut carried = Carried::default();
    let beginning = Beginning::default();
    let first = report(at("/w/one"), &with(&[("A", "1"), ("BOTH", "1")]));
    let second = report(at("/w"), &with(&[("B", "2"), ("BOTH", "2")]));
    run(&mut carried, &first, &beginning, Some("/w"));
    run(&mut carried, &second, &beginning, Some("/w"));
    let expected = map(&[("A", "1"), ("B", "2"), ("BOTH", "2")]);
    assert_eq!(carried.env_set, expected);
    assert_eq!(carried.cwd.as_deref(), Some(Path::new("/w/one")));
    let third = report(at("/w/three"), &UNCHANGED);
    run(&mut carried, &third, &beginning, Some("/w"));
    assert_eq!(carried.cwd.as_deref(), Some(Path::new("/w/three")));
}

// claude-code#18236, #31503, #52747: a removed directory made every later command fail.
#[test]
fn a_directory_that_is_gone_is_replaced_by_the_workspace_and_told() {
    let mut carried = Carried {
        cwd: Some("/w/sub".into()),
        ..Carried::default()
    };
    let notes = then(&mut carried, &report(Place::Gone, &UNCHANGED));
    assert_eq!(carried.cwd, None);
    assert!(notes[0].contains("starts in /w"), "{notes:?}");
    // The launcher fell back; the command went nowhere: that is where the session is now.
    carried.cwd = Some("/w/gone".into());
    let beginning = Beginning {
        carried: carried.clone(),
        ..Beginning::default()
    };
    let ended = report(at("/w"), &UNCHANGED);
    run(&mut carried, &ended, &beginning, Some("/w"));
    assert_eq!(carried.cwd, None);
    let notes = then(&mut carried, &report(Place::Unspeakable, &UNCHANGED));
    assert!(notes[0].contains("not UTF-8"), "{notes:?}");
}

#[test]
fn what_cannot_be_carried_is_named() {
    let mut carried = Carried::default();
    let exported = with(&[("API_TOKEN", "x"), ("LD_PRELOAD", "y"), ("BASH_ENV", "z")]);
    let mut ended = report(at("/w"), &exported);
    ended.unspeakable.push("BINARY".to_owned());
    let notes = then(&mut carried, &ended);
    assert_eq!(carried, Carried::default());
    assert!(notes[0].contains("API_TOKEN, LD_PRELOAD"), "{notes:?}");
    assert!(notes[1].contains("BINARY"), "{notes:?}");
    assert!(!notes.concat().contains("BASH_ENV"), "{notes:?}");
}

#[test]
fn too_much_is_not_carried_at_all_and_what_was_stays() {
    let mut carried = Carried::default();
    then(&mut carried, &report(at("/w"), &with(&[("A", "1")])));
    let huge = "x".repeat(MAX_CARRIED);
    let mut ended = report(at("/w/sub"), &with(&[("B", "2")]));
    ended.exported.insert("HUGE".to_owned(), huge);
    let notes = then(&mut carried, &ended);
    assert_eq!(carried.env_set, map(&[("A", "1")]));
    assert_eq!(carried.cwd.as_deref(), Some(Path::new("/w/sub")));
    assert!(notes[0].contains("not kept"), "{notes:?}");
    assert!(size(&carried) < MAX_CARRIED);
}
