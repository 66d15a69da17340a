//! Tests of profiles: what is accepted, what is refused and how, inheritance, trust, digests.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use super::{
    Catalogue, Profile, ProfileError, check, digest, fragment::Fragment, inherit, locate::Source,
    shipped::SHIPPED,
};
use crate::policy::{Exposure, NetMode, Tier};

/// A file that extends `base` and adds `body`.
fn child(name: &str, body: &str) -> String {
    format!("schema = 1\nname = \"{name}\"\nextends = \"base\"\ndescription = \"d\"\n{body}")
}

/// The shipped files and these.
fn fragments(extra: &[(&str, &str)]) -> Result<BTreeMap<String, Fragment>, ProfileError> {
    let mut all = BTreeMap::new();
    for (name, text) in extra {
        let file = format!("{name}.toml");
        let fragment = check::parse(Source { file: &file, text })?;
        all.insert(fragment.name.clone(), fragment);
    }
    for (file, text) in SHIPPED {
        let fragment = check::parse(Source { file, text })?;
        all.insert(fragment.name.clone(), fragment);
    }
    Ok(all)
}

fn resolve(extra: &[(&str, &str)]) -> Result<Profile, ProfileError> {
    let all = fragments(extra)?;
    inherit::resolve(&all[extra[0].0], &all)
}

fn one(body: &str) -> Result<Profile, ProfileError> {
    resolve(&[("x", &child("x", body))])
}

fn exposure(profile: &Profile, path: &str) -> Option<(Exposure, String)> {
    let rule = profile
        .fs
        .rules
        .iter()
        .find(|rule| rule.path.to_string() == path)?;
    Some((rule.exposure, rule.rule.to_string()))
}

#[test]
fn the_shipped_profiles_load() {
    let catalogue = Catalogue::load(&[]).unwrap();
    let names: Vec<&str> = catalogue
        .iter()
        .map(|profile| profile.name.as_str())
        .collect();
    assert_eq!(names, ["base", "read-only", "strict", "workspace"]);
    let usable: Vec<&str> = catalogue
        .usable()
        .map(|profile| profile.name.as_str())
        .collect();
    assert_eq!(usable, ["read-only", "strict", "workspace"]);
    for profile in catalogue.iter() {
        assert_eq!(profile.net, NetMode::None, "{}", profile.name);
        assert_eq!(profile.digest.len(), 64);
        assert!(!profile.commands.rules.is_empty(), "{}", profile.name);
    }
    assert_eq!(
        catalogue.get("strict").unwrap().require.tier,
        Tier::Rootless
    );
    assert_eq!(
        catalogue.get("workspace").unwrap().parents,
        ["read-only", "base"]
    );
}

#[test]
fn no_shipped_profile_names_a_place_of_secrets() {
    let secrets = [
        ".ssh",
        ".aws",
        ".netrc",
        ".npmrc",
        ".pypirc",
        "credentials",
        "shadow",
        "sudoers",
        ".gnupg",
        ".kube",
        ".docker",
        "keyring",
        "settings.xml",
        "/etc/ssh",
        "/root",
        "private",
    ];
    for profile in Catalogue::load(&[]).unwrap().iter() {
        for rule in &profile.fs.rules {
            let path = rule.path.to_string();
            let hit = secrets.iter().find(|secret| path.contains(*secret));
            assert_eq!(hit, None, "{}: {path}", profile.name);
            assert_ne!(path, "${home}");
            assert_ne!(path, "/etc");
        }
    }
}

#[test]
fn a_wrong_profile_is_refused_with_place_key_and_remedy() {
    for (body, parts) in [
        (
            "[fs]\nraed = []",
            &["x.toml:6", "unknown key `raed`", "did you mean `read`?"][..],
        ),
        (
            "[net]\nallow = [\"a:1\"]",
            &["x.toml:6", "unknown key `allow`", "mode"],
        ),
        ("surprise = 1", &["x.toml:5", "unknown key `surprise`"]),
        (
            "[fs.tmp]\nsize = \"1M\"\ninodes = 1\nmode = 3",
            &["x.toml:8", "unknown key `mode`"],
        ),
        (
            "[[commands.deny]]\nreason = \"r\"\nprogram = [\"x\"]",
            &["x.toml:7", "`programs`?"],
        ),
        (
            "[limits]\nmemory = \"1.5G\"",
            &["x.toml:6", "`limits.memory`", "unit", "write"],
        ),
        (
            "[limits]\nmemory = 1.5",
            &["x.toml:6", "`limits.memory`", "not a whole number"],
        ),
        ("[limits]\nmemory = -1", &["x.toml:6", "negative"]),
        (
            "[limits]\nmemory = \"99999999T\"",
            &["x.toml:6", "larger than"],
        ),
        (
            "[limits]\nwall = 120",
            &["x.toml:6", "`limits.wall`", "no unit"],
        ),
        ("[limits]\nwall = \"0s\"", &["x.toml:6", "zero"]),
        (
            "[limits]\nwall = \"2h\"",
            &["x.toml:6", "larger than `limits.wall_max`"],
        ),
        (
            "[limits]\npids = true",
            &["x.toml:6", "whole number", "pids = true"],
        ),
        (
            "[fs]\nworkspace = \"rw\"",
            &["x.toml:6", "\"rw\" is not known", "write"],
        ),
        (
            "[fs]\nworkspace = \"deny\"",
            &["x.toml:6", "write \"read\" or \"write\""],
        ),
        (
            "[fs]\nread = [\n  \"/usr\",\n  \"/opt/*\"]",
            &["x.toml:8", "`fs.read`", "pattern"],
        ),
        (
            "[fs]\nwrite = [\"${workspace}\"]",
            &["x.toml:6", "workspace = \"read\""],
        ),
        ("[fs]\nwrite = [\"/dev/kvm\"]", &["x.toml:6", "own /dev"]),
        ("[fs]\nread = [\"/dev/null\"]", &["x.toml:6", "own /dev"]),
        (
            "[fs]\ndeny = [\"/proc/sys\"]",
            &["x.toml:6", "own /dev and /proc"],
        ),
        ("[fs]\nwrite = [\"/tmp\"]", &["x.toml:6", "set `tmp`"]),
        (
            "[fs]\ndeny = [\"relative\"]",
            &["x.toml:6", "`fs.deny`", "not absolute"],
        ),
        (
            "[env]\npass = [\"AWS_SESSION\"]",
            &["x.toml:6", "`env.pass`", "secret"],
        ),
        (
            "[env]\nset = { LD_PRELOAD = \"x\" }",
            &["x.toml:6", "`env.set.LD_PRELOAD`", "starts"],
        ),
        (
            "[env]\nset = { A = \"${user}\" }",
            &["x.toml:6", "unknown variable `user`"],
        ),
        (
            "[env]\ndeny = [\"A*B\"]",
            &["x.toml:6", "`env.deny`", "pattern"],
        ),
        (
            "[net]\nmode = \"proxy\"",
            &["x.toml:6", "`net.mode`", "none, host"],
        ),
        (
            "[syscalls]\nbase = \"debug\"",
            &["x.toml:6", "`syscalls.base`"],
        ),
        (
            "[require]\ntier = \"root\"",
            &["x.toml:6", "`require.tier`"],
        ),
        (
            "[require]\nlayers = [\"landlok\"]",
            &["x.toml:6", "did you mean `landlock`?"],
        ),
        ("[require]\nlandlock_abi = 0", &["x.toml:6", "from 1 on"]),
        ("[identity]\numask = \"999\"", &["x.toml:6", "octal"]),
        ("[identity]\numask = \"+7\"", &["x.toml:6", "octal"]),
        ("[identity]\nhostname = \"a.b\"", &["x.toml:6", "letters"]),
        ("[meta]\nx = [1]", &["x.toml:6", "`meta.x`"]),
        (
            "[[commands.deny]]\nreason = \"r\"",
            &["x.toml:5", "matches every command"],
        ),
        (
            "[[commands.deny]]\nreason = \" \"\nprograms = [\"x\"]",
            &["x.toml:5", "no `reason`"],
        ),
        (
            "[[commands.deny]]\nreason = \"r\"\nprograms = [\"*\"]",
            &["everything"],
        ),
        (
            "[[commands.deny]]\nreason = \"r\"\nprograms = [\"/bin/x\"]",
            &["slash"],
        ),
        (
            "[[commands.literal]]\ntext = \"\"\nreason = \"r\"",
            &["x.toml:5", "`commands.literal`"],
        ),
        ("[net", &["x.toml:5"]),
    ] {
        let error = one(body).expect_err(body).to_string();
        for part in parts {
            assert!(
                error.contains(part),
                "{body:?}\n  gives {error:?}\n  without {part:?}"
            );
        }
    }
}

#[test]
fn a_wrong_head_is_refused() {
    for (text, part) in [
        ("", "missing field `schema`"),
        (
            "schema = 2\nname = \"x\"\ndescription = \"d\"",
            "schema 2 is not known",
        ),
        (
            "schema = 1\nname = \"y\"\ndescription = \"d\"",
            "must agree",
        ),
        (
            "schema = 1\nname = \"X\"\ndescription = \"d\"",
            "`a` to `z`",
        ),
        (
            "schema = 1\nname = \"x\"\ndescription = \" \"",
            "one sentence",
        ),
        (
            "schema = 1\nname = \"x\"\ndescription = \"d\"",
            "no value for `fs.workspace`",
        ),
        (
            "schema = 1\nname = \"x\"\ndescription = \"d\"\nextends = \"x\"",
            "extends itself",
        ),
        (
            "schema = 1\nname = \"x\"\ndescription = \"d\"\nextends = \"y\"",
            "there is no profile",
        ),
    ] {
        let error = resolve(&[("x", text)]).expect_err(text).to_string();
        assert!(error.contains(part), "{text:?} gives {error:?}");
    }
}

#[test]
fn a_chain_of_parents_is_bounded_and_has_no_circle() {
    let link = |name: &str, parent: &str| {
        child(name, "").replace("extends = \"base\"", &format!("extends = \"{parent}\""))
    };
    let circle = [
        ("a", link("a", "b")),
        ("b", link("b", "c")),
        ("c", link("c", "a")),
    ];
    let circle: Vec<(&str, &str)> = circle
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    assert!(
        resolve(&circle)
            .unwrap_err()
            .to_string()
            .contains("extends itself")
    );

    // base is the parent of p1; pN has N parents.
    let names: Vec<String> = (0..=9).map(|number| format!("p{number}")).collect();
    let mut texts = vec![child("p0", "")];
    texts.extend((1..=9).map(|number| link(&names[number], &names[number - 1])));
    let parents_of = |number: usize| {
        let mut files: Vec<(&str, &str)> = names
            .iter()
            .map(String::as_str)
            .zip(texts.iter().map(String::as_str))
            .collect();
        files.swap(0, number);
        resolve(&files)
    };
    assert_eq!(parents_of(7).unwrap().parents.len(), 8);
    assert!(
        parents_of(8)
            .unwrap_err()
            .to_string()
            .contains("more than 8 parents")
    );
}

#[test]
fn on_one_path_the_stronger_rule_wins_whoever_gives_it() {
    let profile = one(
        "[fs]\nwrite = [\"/usr\", \"/usr/local\", \"${workspace}/.git/hooks\"]\n\
                       deny = [\"/opt\"]",
    )
    .unwrap();
    let got = |path| exposure(&profile, path).map(|(exposure, _)| exposure);
    assert_eq!(got("/usr"), Some(Exposure::Write));
    assert_eq!(got("/usr/local"), Some(Exposure::Write));
    assert_eq!(
        got("${workspace}/.git/hooks"),
        Some(Exposure::Readonly),
        "a carve-out stays"
    );
    assert_eq!(got("/opt"), Some(Exposure::Deny));
    assert_eq!(exposure(&profile, "/opt").unwrap().1, "x.toml:7");
}

#[test]
fn single_values_of_the_child_win_and_keep_their_place() {
    let profile = one("[limits]\nmemory = \"1G\"\n[fs]\nworkspace = \"write\"").unwrap();
    assert_eq!(profile.limits.defaults.memory_bytes, Some(1 << 30));
    assert_eq!(profile.limits.defaults.timeout_ms, 120_000);
    assert_eq!(profile.sources["limits.memory"].to_string(), "x.toml:6");
    assert!(
        profile.sources["limits.wall"]
            .to_string()
            .starts_with("base.toml:")
    );
    assert_eq!(
        exposure(&profile, "${workspace}"),
        Some((Exposure::Write, "x.toml:8".to_owned()))
    );
}

#[test]
fn a_limit_that_is_no_exact_positive_amount_is_refused_with_its_key_value_and_line() {
    let sizes = ["memory", "file_size", "output", "disk"];
    let counts = ["pids", "open_files"];
    let times = ["wall", "wall_max", "idle", "grace", "grace_max", "cpu"];
    let everywhere = [
        "-1", "\"-1\"", "1.0", "1e3", "nan", "\"1e3G\"", "\"\"", "\"1.5\"", "\" 1\"",
    ];
    let of_size = [
        "\"17179869184G\"",
        "\"99999999999999999999\"",
        "\"1e9\"",
        "\"8EiB\"",
        "0",
    ];
    let of_count = ["\"1K\"", "9223372036854775807", "0"];
    let of_time = ["\"99999999999999999h\"", "60", "\"1d\"", "\"-5s\""];
    let table = [
        (&sizes[..], &of_size[..]),
        (&counts, &of_count),
        (&times, &of_time),
    ];
    for (keys, own) in table {
        for (key, value) in keys
            .iter()
            .flat_map(|key| everywhere.iter().chain(own).map(move |value| (key, value)))
        {
            let text = one(&format!("[limits]\n{key} = {value}"))
                .expect_err(&format!("{key} = {value}"))
                .to_string();
            assert!(text.contains("x.toml:6"), "{key} = {value}: {text}");
            assert!(
                text.contains(&format!("`limits.{key}`")),
                "{key} = {value}: {text}"
            );
        }
    }
    let profile = one("[limits]\ndisk = \"1G\"").unwrap();
    assert_eq!(profile.limits.defaults.disk_bytes, Some(1 << 30));
}

#[test]
fn the_blacklist_is_inherited_unless_it_is_replaced() {
    let rule = "[[commands.deny]]\nprograms = [\"x\"]\nreason = \"r\"";
    let base = one("").unwrap().commands;
    let extended = one(rule).unwrap().commands;
    assert_eq!(extended.rules.len(), base.rules.len() + 1);
    assert_eq!(extended.rules[0].rule, "x.toml:5");
    let replaced = one(&format!("[commands]\ninherit = false\n{rule}"))
        .unwrap()
        .commands;
    assert_eq!((replaced.rules.len(), replaced.literals.len()), (1, 0));
}

#[test]
fn the_digest_is_about_what_is_said_and_not_how() {
    let plain = one("[fs]\nread = [\"/a\", \"/b\"]\n[env]\nset = { X = \"1\" }").unwrap();
    let same = one("# why\n[env]\nset = { X = '1' }\n\n[fs]\nread = [\n\"/b\",\n\"/a\",\n\"/a\"]")
        .unwrap();
    assert_eq!(digest::canonical(&plain), digest::canonical(&same));
    assert_eq!(plain.digest, same.digest);
    for other in [
        "[fs]\nread = [\"/a\"]\n[env]\nset = { X = \"1\" }",
        "[fs]\nread = [\"/a\", \"/b\"]\n[env]\nset = { X = \"2\" }",
        "[fs]\nread = [\"/a\", \"/b\"]\n[env]\nset = { X = \"1\" }\n[meta]\nticket = 1",
    ] {
        assert_ne!(one(other).unwrap().digest, plain.digest, "{other}");
    }
}

#[test]
fn the_canonical_text_is_sorted_and_holds_no_place() {
    let text = digest::canonical(&one("[meta]\nb = 1\na = \"\\u00e9\\n\"").unwrap());
    assert!(
        text.starts_with("{\"abstract\":false,\"commands\":{\"deny\":["),
        "{text}"
    );
    assert!(
        text.contains("\"meta\":{\"a\":\"é\\n\",\"b\":\"1\"}"),
        "{text}"
    );
    assert!(!text.contains(".toml"), "{text}");
}

/// A directory of its own, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("agentd-profile-{}-{name}", std::process::id()));
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    fn write(&self, file: &str, text: &str, mode: u32) -> PathBuf {
        let path = self.0.join(file);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn load(&self) -> Result<Catalogue, ProfileError> {
        Catalogue::load(std::slice::from_ref(&self.0))
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn a_directory_adds_profiles_and_an_absent_one_adds_none() {
    let dir = Dir::new("adds");
    dir.write("mine.toml", &child("mine", ""), 0o644);
    dir.write("notes.txt", "not a profile", 0o644);
    let catalogue = dir.load().unwrap();
    assert_eq!(catalogue.get("mine").unwrap().parents, ["base"]);
    assert_eq!(catalogue.iter().count(), 5);
    let absent = Catalogue::load(&[PathBuf::from("/nonexistent/profiles")]).unwrap();
    assert_eq!(absent.iter().count(), 4);
}

#[test]
fn a_file_or_directory_that_others_can_write_is_refused() {
    let dir = Dir::new("trust");
    let file = dir.write("mine.toml", &child("mine", ""), 0o664);
    let error = dir.load().unwrap_err().to_string();
    assert!(
        error.contains("mine.toml") && error.contains("chmod go-w"),
        "{error}"
    );
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(dir.load().unwrap_err().to_string().contains("chmod go-w"));
    fs::set_permissions(&dir.0, fs::Permissions::from_mode(0o755)).unwrap();
    dir.load().unwrap();
}

#[test]
fn a_link_is_followed_into_trusted_directories_only() {
    let dir = Dir::new("link");
    let open = Dir::new("link-target");
    let target = open.write("mine.toml", &child("mine", ""), 0o644);
    symlink(&target, dir.0.join("mine.toml")).unwrap();
    dir.load().unwrap();
    fs::set_permissions(&open.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(dir.load().unwrap_err().to_string().contains("chmod go-w"));
}

#[test]
fn what_is_no_profile_file_is_refused() {
    let dir = Dir::new("kinds");
    fs::create_dir(dir.0.join("mine.toml")).unwrap();
    assert!(
        dir.load()
            .unwrap_err()
            .to_string()
            .contains("not a regular file")
    );
    fs::remove_dir(dir.0.join("mine.toml")).unwrap();
    dir.write("mine.toml", &"#".repeat(256 * 1024 + 1), 0o644);
    assert!(
        dir.load()
            .unwrap_err()
            .to_string()
            .contains("larger than 256 KiB")
    );
    symlink(Path::new("/nonexistent"), dir.0.join("a.toml")).unwrap();
    assert!(matches!(dir.load(), Err(ProfileError::Read { .. })));
}

#[test]
fn a_second_profile_of_one_name_is_refused() {
    let first = Dir::new("first");
    let second = Dir::new("second");
    for dir in [&first, &second] {
        dir.write("mine.toml", &child("mine", ""), 0o644);
    }
    let error = Catalogue::load(&[first.0.clone(), second.0.clone()])
        .unwrap_err()
        .to_string();
    assert!(error.contains("another directory"), "{error}");
    let shipped = Dir::new("shipped");
    shipped.write("strict.toml", &child("strict", ""), 0o644);
    assert!(
        shipped
            .load()
            .unwrap_err()
            .to_string()
            .contains("it is built in")
    );
}

#[test]
fn an_unknown_and_an_abstract_profile_name_the_usable_ones() {
    let catalogue = Catalogue::load(&[]).unwrap();
    for name in ["nope", "base"] {
        let error = catalogue.select(name).unwrap_err().to_string();
        assert!(error.contains("read-only, strict, workspace"), "{error}");
    }
    assert_eq!(catalogue.select("workspace").unwrap().name, "workspace");
}
