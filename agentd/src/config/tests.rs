//! Settings from the file and the command line together.

use std::{collections::BTreeMap, ffi::OsString};

use super::*;

fn environment(uid: u32, vars: &[(&str, &str)]) -> Environment {
    let vars: BTreeMap<&str, &str> = vars.iter().copied().collect();
    Environment::from(|name| vars.get(name).map(OsString::from), uid)
}

fn config(text: &str, args: &ServeArgs, uid: u32) -> Result<Config, ConfigError> {
    let environment = environment(uid, &[("XDG_RUNTIME_DIR", "/run/user/5")]);
    Config::check(parse(text).unwrap(), args, (&environment, Purpose::Serve))
}

#[test]
fn defaults_are_private_to_the_user_and_root() {
    let config = config("", &ServeArgs::default(), 5).unwrap();
    assert_eq!(config.listen, [Path::new("/run/user/5/agentd/agentd.sock")]);
    assert_eq!(
        config.allowed,
        Allowed {
            uids: vec![0, 5],
            gids: vec![]
        }
    );
    assert_eq!(config.default_profile, "workspace");
    assert_eq!(config.others, Others::Excluded);
    let room = Room {
        per_user: 64,
        in_all: 512,
    };
    assert_eq!(config.sessions, room);
}

#[test]
fn root_listens_in_run() {
    let config = config("", &ServeArgs::default(), 0).unwrap();
    assert_eq!(config.listen, [Path::new("/run/agentd/agentd.sock")]);
}

#[test]
fn the_command_line_wins_over_the_file() {
    let args = ServeArgs {
        listen: vec!["unix:/a".to_owned()],
        default_profile: Some("strict".to_owned()),
        ..ServeArgs::default()
    };
    let text =
        "listen = ['unix:/b']\ndefault-profile = 'read-only'\nmax-execs = 3\nallow-uids = [7]";
    let config = config(text, &args, 5).unwrap();
    assert_eq!(config.listen, [Path::new("/a")]);
    assert_eq!(config.default_profile, "strict");
    assert_eq!((config.max_execs, config.others), (3, Others::Checked));
    assert_eq!(config.allowed.uids, [0, 5, 7]);
    assert_eq!(
        config.operators,
        [0, 5],
        "who may connect may not therefore administer"
    );
}

#[test]
fn no_more_commands_are_promised_than_files_can_be_opened_for() {
    let with = |text: &str, open_files: u64| {
        let mut environment = environment(0, &[]);
        environment.open_files = open_files;
        let raw = parse(text).unwrap();
        Config::check(raw, &ServeArgs::default(), (&environment, Purpose::Serve))
            .map(|config| (config.max_execs, config.max_queued))
    };
    assert_eq!(with("", 1024).unwrap(), (64, 256));
    assert_eq!(with("", 256).unwrap(), (38, 152), "a default gives way");
    assert_eq!(with("", 10).unwrap(), (1, 4));
    assert_eq!(with("max-execs = 192", 1024).unwrap().0, 192);
    assert_eq!(with("max-execs = 4096", 1 << 20).unwrap().0, 4096);
    for (number, open_files, most) in [(193, 1024, "192"), (4096, 4096, "806"), (1, 64, "0")] {
        let error = with(&format!("max-execs = {number}"), open_files).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("at most {most} commands")), "{text}");
        assert!(text.contains("LimitNOFILE"), "{text}");
    }
}

#[test]
fn the_queue_and_the_times_of_a_drain_and_of_slow_readers_can_be_set() {
    let args = ServeArgs::default();
    let plain = config("max-execs = 3", &args, 5).unwrap();
    assert_eq!(
        (plain.max_queued, plain.drain_timeout),
        (12, Duration::ZERO)
    );
    assert_eq!(plain.tuning, Tuning::default());
    let text = "max-queued = 0\ndrain-timeout = '30s'\nslow-reader-timeout = '5s'";
    let set = config(text, &args, 5).unwrap();
    assert_eq!(
        (set.max_queued, set.drain_timeout),
        (0, Duration::from_secs(30))
    );
    assert_eq!(set.tuning.stall, Duration::from_secs(5));
}

#[test]
fn unknown_keys_and_bad_values_are_errors() {
    for text in [
        "lisen = []",
        "max_execs = 3",
        "allow-uids = [-1]",
        "listen = 'x'",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
    let (line, message) = parse("max-execs = 3\n\nlisen = []").unwrap_err();
    assert_eq!(line, 3);
    assert!(message.contains("lisen") && message.contains("listen"));
    for text in [
        "listen = ['tcp:1.2.3.4:1']",
        "listen = ['unix:rel']",
        "max-execs = 0",
        "max-queued = 65537",
        "slow-reader-timeout = '10ms'",
        "max-sessions = 0",
        "max-sessions = 100000",
    ] {
        assert!(config(text, &ServeArgs::default(), 5).is_err(), "{text}");
    }
}

#[test]
fn without_a_runtime_directory_the_remedy_is_named() {
    let check = |purpose| {
        let environment = environment(5, &[]);
        Config::check(
            RawConfig::default(),
            &ServeArgs::default(),
            (&environment, purpose),
        )
    };
    let error = check(Purpose::Serve).unwrap_err();
    assert!(error.to_string().contains("--listen"));
    // What is only looked at needs no listener.
    assert!(check(Purpose::Inspect).unwrap().listen.is_empty());
}

#[test]
fn only_harmless_variables_are_passed() {
    let vars = [
        ("LANG", "C"),
        ("TZ", "UTC"),
        ("SECRET_TOKEN", "x"),
        ("LD_PRELOAD", "y"),
    ];
    let environment = environment(5, &vars);
    let names: Vec<_> = environment.pass.keys().map(String::as_str).collect();
    assert_eq!(names, ["LANG", "TZ"]);
}
