//! Watched names, on real directories.

use std::{fs, os::unix::fs::PermissionsExt, slice::from_ref};

use super::*;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tripwire-{name}-{}", std::process::id()));
    fs::create_dir_all(dir.join(".git")).unwrap();
    dir.canonicalize().unwrap()
}

fn wires(workspace: &Path) -> Tripwires {
    let rule = RuleRef {
        file: "t.toml".into(),
        line: 3,
    };
    let names = [".git/hooks", ".envrc"].map(|name| workspace.join(name));
    Tripwires {
        workspace: workspace.to_owned(),
        owner: None,
        names: names.map(|name| Wire::new(&name, &rule, None)).into(),
        claims: None,
    }
}

/// All at once; what was made.
fn spring(mut wires: Tripwires) -> Vec<Tripped> {
    assert_eq!(wires.spring(Allowance::unlimited()), Progress::Done);
    wires.tripped()
}

#[test]
fn what_was_made_is_removed_and_named() {
    let dir = scratch("made");
    fs::create_dir_all(dir.join(".git/hooks/deep")).unwrap();
    fs::write(dir.join(".git/hooks/pre-commit"), "x").unwrap();
    let sprung = spring(wires(&dir));
    assert_eq!(sprung.len(), 1);
    assert_eq!(
        (sprung[0].rule.as_str(), &sprung[0].remains),
        ("t.toml:3", &None)
    );
    assert!(!dir.join(".git/hooks").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_closed_directory_is_removed_all_the_same() {
    let dir = scratch("closed");
    fs::create_dir_all(dir.join(".git/hooks")).unwrap();
    fs::write(dir.join(".git/hooks/pre-commit"), "x").unwrap();
    for closed in [".git/hooks", ".git"] {
        fs::set_permissions(dir.join(closed), fs::Permissions::from_mode(0o555)).unwrap();
    }
    assert_eq!(spring(wires(&dir)).len(), 1);
    assert!(!dir.join(".git/hooks").exists());
    let mode = fs::metadata(dir.join(".git")).unwrap().permissions().mode();
    fs::set_permissions(dir.join(".git"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::remove_dir_all(dir).unwrap();
    assert!([0o555, 0o755].contains(&(mode & 0o777)), "{mode:o}");
}

#[test]
fn a_parent_that_became_a_link_is_removed_itself_and_not_followed() {
    let (dir, outside) = (scratch("link"), scratch("outside"));
    fs::create_dir_all(outside.join("hooks")).unwrap();
    fs::remove_dir(dir.join(".git")).unwrap();
    std::os::unix::fs::symlink(&outside, dir.join(".git")).unwrap();
    assert_eq!(spring(wires(&dir)).len(), 1);
    assert!(
        fs::symlink_metadata(dir.join(".git")).is_err(),
        "the link is gone"
    );
    assert!(outside.join("hooks").exists());
    fs::remove_dir_all(dir).unwrap();
    fs::remove_dir_all(outside).unwrap();
}

#[test]
fn nothing_made_is_nothing_removed() {
    let dir = scratch("clean");
    assert_eq!(spring(wires(&dir)), []);
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_was_there_stays_and_what_took_its_place_is_removed() {
    let dir = scratch("before");
    let opened = |name: &str| {
        fs::create_dir_all(dir.join(name)).unwrap();
        Some(Rc::new(open_name(&dir.join(name)).unwrap()))
    };
    let mut watched = wires(&dir);
    for (wire, name) in watched.names.iter_mut().zip([".git/hooks", ".envrc"]) {
        wire.name.before = opened(name);
    }
    // The number of what is removed is free for what comes next, if nobody holds it.
    fs::remove_dir(dir.join(".envrc")).unwrap();
    fs::create_dir(dir.join(".envrc")).unwrap();
    let sprung = spring(watched);
    assert_eq!(sprung.len(), 1);
    assert_eq!(Path::new(&sprung[0].path), dir.join(".envrc"));
    assert!(dir.join(".git/hooks").exists() && !dir.join(".envrc").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_what_was_replaced() {
    let dir = scratch("unclear");
    fs::create_dir(dir.join(".git/hooks")).unwrap();
    let mut watched = wires(&dir);
    let hooks = &mut watched.names[0].name;
    hooks.before = Some(Rc::new(open_name(&hooks.path).unwrap()));
    // A name longer than any file system takes stands for all that fail in the looking.
    hooks.path = dir.join(".git").join("x".repeat(300));
    assert_eq!(watched.spring(Allowance::unlimited()), Progress::Done);
    let tripped = watched.tripped();
    assert_eq!(tripped.len(), 1);
    assert!(tripped[0].remains.is_some());
    assert!(watched.unfinished().count() == 0, "nobody goes on with it");
    assert!(dir.join(".git/hooks").exists());
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_name_that_was_dealt_with_is_the_persons() {
    let dir = scratch("dealt");
    fs::create_dir(dir.join(".git/hooks")).unwrap();
    for number in 0..100 {
        fs::write(dir.join(format!(".git/hooks/{number}")), "x").unwrap();
    }
    let mut watched = wires(&dir);
    assert_eq!(watched.spring(Allowance::of(50)), Progress::Unfinished);
    fs::write(dir.join(".envrc"), "the person's").unwrap();
    while watched.spring(Allowance::of(50)) == Progress::Unfinished {}
    assert!(dir.join(".envrc").exists() && !dir.join(".git/hooks").exists());
    fs::create_dir(dir.join(".git/hooks")).unwrap();
    assert_eq!(watched.spring(Allowance::unlimited()), Progress::Done);
    assert!(dir.join(".git/hooks").exists());
    assert_eq!(watched.tripped().len(), 1);
    fs::remove_dir_all(dir).unwrap();
}

/// A plan that protects these names: those that a survey found missing, and those that exist.
fn plan(tier: Tier, missing: &[PathBuf], existing: &[PathBuf]) -> Plan {
    let rule = RuleRef {
        file: "t.toml".into(),
        line: 3,
    };
    let names = |paths: &[PathBuf]| paths.iter().map(|p| (p.clone(), rule.clone())).collect();
    let mut plan = crate::plan::tests::any(tier);
    (plan.tripwires, plan.protected) = (names(missing), names(existing));
    plan
}

#[test]
fn names_that_changed_since_the_survey_are_surveyed_again() {
    let dir = scratch("changed");
    fs::create_dir(dir.join(".git/hooks")).unwrap();
    std::os::unix::fs::symlink(".git", dir.join("link")).unwrap();
    let name = |name: &str| dir.join(name);
    let (there, gone, through) = (name(".git/hooks"), name(".envrc"), name("link/config"));
    for (missing, existing, expected) in [
        (&gone, &there, Ok(1)),
        (&there, &there, Err(Unset::Changed)),
        (&gone, &gone, Err(Unset::Changed)),
        (&through, &there, Err(Unset::Changed)),
        (&gone, &through, Err(Unset::Changed)),
    ] {
        let plan = plan(Tier::Rootless, from_ref(missing), from_ref(existing));
        let set = Tripwires::set(&dir, &plan).map(|wires| wires.names.len());
        assert_eq!(set, expected, "{missing:?} {existing:?}");
    }
    // The person's own link is nothing that a command made.
    let nested = plan(Tier::Nested, &[through, gone], &[]);
    let mut set = Tripwires::set(&dir, &nested).unwrap();
    assert_eq!(set.names.len(), 1);
    assert_eq!(set.spring(Allowance::unlimited()), Progress::Done);
    fs::symlink_metadata(dir.join("link")).unwrap();
    let unclear = dir.join("x".repeat(300));
    assert_eq!(
        Tripwires::set(&dir, &plan(Tier::Nested, from_ref(&unclear), &[])).map(drop),
        Err(Unset::Unclear(unclear, Errno::ENAMETOOLONG))
    );
    fs::remove_dir_all(dir).unwrap();
}

#[test]
fn what_is_too_much_at_once_is_removed_bit_by_bit() {
    let dir = scratch("much");
    for name in [".git/hooks", ".envrc"] {
        for number in 0..100 {
            fs::create_dir_all(dir.join(name).join(format!("{number}/deep"))).unwrap();
        }
    }
    let mut watched = wires(&dir);
    let mut turns = 0;
    while watched.spring(Allowance::of(50)) == Progress::Unfinished {
        assert!(watched.unfinished().count() > 0);
        turns += 1;
    }
    assert!((8..20).contains(&turns), "{turns}");
    assert_eq!(watched.tripped().len(), 2);
    assert!(watched.tripped().iter().all(|made| made.remains.is_none()));
    assert!(!dir.join(".git/hooks").exists() && !dir.join(".envrc").exists());
    fs::remove_dir_all(dir).unwrap();
}
