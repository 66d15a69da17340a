//! File system rules.

use super::*;

#[test]
fn the_workspace_profile_exposes_what_it_says() {
    let policy = decide(|_, _| {}).unwrap();
    for (path, expected) in [
        ("/home/dev/project/src/main.rs", Some(Exposure::Write)),
        ("/home/dev/project/.git/index", Some(Exposure::Write)),
        (
            "/home/dev/project/.git/hooks/pre-commit",
            Some(Exposure::Readonly),
        ),
        ("/home/dev/project/.git/config", Some(Exposure::Readonly)),
        ("/home/dev/project/.git/config.lock", Some(Exposure::Write)),
        (
            "/home/dev/project/.vscode/tasks.json",
            Some(Exposure::Readonly),
        ),
        ("/home/dev/project/.env", Some(Exposure::Deny)),
        ("/home/dev/project/.env.example", Some(Exposure::Write)),
        ("/home/dev/.ssh/id_ed25519", None),
        ("/home/dev/.cargo/bin/cargo", Some(Exposure::Read)),
        ("/home/dev/.cargo/credentials.toml", None),
        ("/home/dev/.bashrc", None),
        ("/home/other/x", None),
        ("/etc/passwd", Some(Exposure::Read)),
        ("/etc/passwd-", None),
        ("/etc/shadow", None),
        ("/usr/bin/ls", Some(Exposure::Read)),
        ("/tmp/x", Some(Exposure::Write)),
        ("/dev/shm/x", Some(Exposure::Write)),
        ("/dev/null", Some(Exposure::Write)),
        ("/dev/sda", None),
        ("/run/docker.sock", None),
    ] {
        assert_eq!(exposure(&policy, path), expected, "{path}");
    }
    assert_eq!(policy.tmp, Path::new("/tmp"));
    assert_eq!(policy.env["HOME"], "/home/dev");
    assert_eq!(policy.env["TMPDIR"], "/tmp");
    assert_eq!(policy.env["TZ"], "UTC");
    assert!(!policy.env.contains_key("SECRET"));
}

#[test]
fn the_nested_tier_gets_its_own_temporary_directory_and_no_terminals_of_the_host() {
    let policy = resolve(
        &profile("workspace"),
        &invocation("workspace"),
        &facts(Tier::Nested),
    )
    .unwrap();
    assert_eq!(policy.tmp, Path::new("/tmp/agentd-1"));
    assert_eq!(policy.env["TMPDIR"], "/tmp/agentd-1");
    for (path, expected) in [
        ("/tmp/agentd-1/x", Some(Exposure::Write)),
        ("/tmp/x", None),
        ("/dev/shm/x", None),
        ("/dev/pts/0", None),
        ("/dev/ptmx", None),
        ("/dev/null", Some(Exposure::Write)),
    ] {
        assert_eq!(exposure(&policy, path), expected, "{path}");
    }
    let layers: Vec<Layer> = policy.degraded.iter().map(|absent| absent.layer).collect();
    for layer in [
        Layer::PidNamespace,
        Layer::MountNamespace,
        Layer::IpcNamespace,
        Layer::UtsNamespace,
        Layer::CgroupNamespace,
        Layer::NetNamespace,
        Layer::OwnRoot,
        Layer::Cgroup,
    ] {
        assert!(layers.contains(&layer), "{layer}");
    }
    assert!(
        policy
            .degraded
            .iter()
            .any(|absent| absent.guarantee.contains(".git/hooks"))
    );
}

#[test]
fn carve_outs_take_one_form() {
    let policy = resolve(
        &profile_with(
            "[fs]\nworkspace = \"write\"\nread = [\"${workspace}/vendor\", \"${workspace}/vendor/a\"]\n\
             write = [\"${workspace}/vendor/b\"]\nreadonly = [\"/data\", \"/usr/share\"]\n\
             deny = [\"${workspace}/.env\", \"${workspace}/.env/x\", \"/elsewhere\"]",
        ),
        &invocation("x"),
        &facts(Tier::HostRoot),
    )
    .unwrap();
    let found = |path: &str| {
        let path = Path::new("/home/dev/project").join(path);
        policy.fs.rules.iter().find(|rule| rule.path == path)
    };
    assert_eq!(
        found("vendor").unwrap().exposure,
        Exposure::Readonly,
        "below a writable directory"
    );
    assert!(found("vendor/a").is_none(), "the same again");
    assert_eq!(found("vendor/b").unwrap().exposure, Exposure::Write);
    assert_eq!(
        found("/data").unwrap().exposure,
        Exposure::Read,
        "carves nothing"
    );
    assert!(found("/usr/share").is_none(), "the same as /usr");
    assert!(found(".env/x").is_none());
    assert!(policy.fs.is_carve_out(found(".env").unwrap()));
    assert!(!policy.fs.is_carve_out(found("/elsewhere").unwrap()));
}

#[test]
fn exec_rules_cover_exposed_paths_only() {
    let policy = resolve(
        &profile_with("[fs]\nexec = [\"/data\", \"/hidden\"]\nread = [\"/data/a\", \"/data/b\"]\ndeny = [\"/data/b\"]"),
        &invocation("x"),
        &facts(Tier::HostRoot),
    )
    .unwrap();
    let below = |path: &str| {
        policy
            .fs
            .exec
            .iter()
            .any(|rule| rule.path == Path::new(path))
    };
    assert!(below("/data/a") && below("/tmp") && below("/dev/shm") && below("/home/dev/project"));
    assert!(!below("/data") && !below("/data/b") && !below("/hidden"));
    for rule in &policy.fs.exec {
        assert!(
            policy
                .fs
                .deciding(&rule.path)
                .is_some_and(|found| found.exposure != Exposure::Deny)
        );
    }
}

#[test]
fn a_home_that_is_the_root_directory_grants_nothing() {
    let profile = profile_with("[fs]\nread = [\"${home}\"]");
    let facts = HostFacts {
        home: PathBuf::from("/"),
        ..facts(Tier::HostRoot)
    };
    let mut request = invocation("x");
    request.workspace = PathBuf::from("/srv/app");
    let policy = resolve(&profile, &request, &facts).unwrap();
    assert_eq!(exposure(&policy, "/etc/shadow"), None);
    assert_eq!(policy.home, Path::new("/nonexistent"));
}
