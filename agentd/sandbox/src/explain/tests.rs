//! Tests of answers, and the golden texts of the shipped profiles.

use std::path::PathBuf;

use expect_test::expect_file;

use super::{Query, Verdict, explain, show};
use crate::{
    policy::{
        Layer, PathAccess, Policy, Tier, resolve,
        tests::{facts, invocation, profile_with},
    },
    profile::Catalogue,
};

fn policy(profile: &str, tier: Tier) -> Policy {
    let catalogue = Catalogue::load(&[]).unwrap();
    resolve(
        catalogue.get(profile).unwrap(),
        &invocation(profile),
        &facts(tier),
    )
    .unwrap()
}

fn ask(policy: &Policy, path: &str, access: PathAccess) -> Verdict {
    explain(
        policy,
        &Query::Path {
            path: PathBuf::from(path),
            access,
        },
    )
}

const ALL: [PathAccess; 4] = [
    PathAccess::Read,
    PathAccess::Write,
    PathAccess::Exec,
    PathAccess::Create,
];

/// One letter per access that is allowed: `r`, `w`, `x`, `c`.
fn letters(policy: &Policy, path: &str) -> String {
    let allowed = ALL.into_iter().zip("rwxc".chars());
    let allowed = allowed.filter(|(access, _)| ask(policy, path, *access).allowed);
    allowed.map(|(_, letter)| letter).collect()
}

#[test]
fn paths_are_answered_by_the_longest_rule() {
    let policy = policy("workspace", Tier::HostRoot);
    for (path, expected) in [
        ("/home/dev/project/src/main.rs", "rwxc"),
        ("/home/dev/project", "rwx"),
        ("/home/dev/project/.git/hooks/pre-commit", "rx"),
        ("/home/dev/project/.git/hooks", "rx"),
        ("/home/dev/project/.git/config", "rx"),
        ("/home/dev/project/.git/index", "rwxc"),
        ("/home/dev/project/../.ssh/id", ""),
        ("/home/dev/.cargo/bin/cargo", "rx"),
        ("/home/dev/.cargo/registry/x", "r"),
        ("/bin/ls", "rx"),
        ("/usr/lib/x.so", "rx"),
        ("/etc/passwd", "r"),
        ("/etc/shadow", ""),
        ("/tmp/x", "rwxc"),
        ("/tmp", "rwx"),
        ("/dev/null", "rw"),
        ("/dev/sda", ""),
        ("/proc/self/status", "r"),
        ("/", "r"),
        ("/home", "r"),
        ("/home/dev", "r"),
        ("/etc", "r"),
        ("/srv", ""),
        ("/run", "r"),
        ("/run/script", "r"),
        ("/run/docker.sock", ""),
        ("src/main.rs", "rwxc"),
    ] {
        assert_eq!(letters(&policy, path), expected, "{path}");
    }
}

#[test]
fn a_refusal_names_the_layers_that_enforce_it() {
    use Layer::{Landlock, OwnRoot, Tripwire};
    let policy = policy("workspace", Tier::Rootless);
    for (path, access, layers) in [
        ("/etc/shadow", PathAccess::Read, &[OwnRoot, Landlock][..]),
        ("/usr/bin/ls", PathAccess::Write, &[OwnRoot, Landlock]),
        ("/etc/passwd", PathAccess::Exec, &[Landlock]),
        ("/proc/self/comm", PathAccess::Write, &[Landlock]),
        (
            "/home/dev/project/.git/config",
            PathAccess::Write,
            &[OwnRoot],
        ),
        (
            "/home/dev/project/.git/hooks/x",
            PathAccess::Create,
            &[OwnRoot, Tripwire],
        ),
        (
            "/home/dev/project/.env",
            PathAccess::Create,
            &[OwnRoot, Tripwire],
        ),
        ("/home/dev/project/.env", PathAccess::Read, &[OwnRoot]),
    ] {
        let verdict = ask(&policy, path, access);
        assert!(!verdict.allowed);
        assert_eq!(verdict.layers, layers, "{path}: {}", verdict.text);
    }
}

#[test]
fn a_refusal_names_its_rule_and_what_is_possible() {
    let policy = policy("workspace", Tier::Rootless);
    let verdict = ask(&policy, "/etc/shadow", PathAccess::Read);
    assert_eq!(verdict.rule, "default");
    assert!(
        verdict.text.contains("no rule exposes it"),
        "{}",
        verdict.text
    );
    let verdict = ask(&policy, "/usr/x", PathAccess::Write);
    assert!(verdict.rule.starts_with("base.toml:"), "{}", verdict.rule);
    assert!(
        verdict
            .text
            .contains("writable are the workspace /home/dev/project and /tmp")
    );
}

#[test]
fn a_mask_is_enforced_by_the_mount_alone() {
    let profile = profile_with(
        "[fs]\nworkspace = \"write\"\ndeny = [\"${workspace}/.env\", \"/usr/share/secret\"]",
    );
    let policy = resolve(&profile, &invocation("x"), &facts(Tier::Rootless)).unwrap();
    for path in ["/home/dev/project/.env", "/usr/share/secret/x"] {
        assert_eq!(letters(&policy, path), "", "{path}");
        assert_eq!(
            ask(&policy, path, PathAccess::Read).layers,
            [Layer::OwnRoot]
        );
    }
}

#[test]
fn the_nested_tier_admits_that_carve_outs_do_not_hold() {
    let policy = policy("workspace", Tier::Nested);
    let verdict = ask(
        &policy,
        "/home/dev/project/.git/hooks/x",
        PathAccess::Create,
    );
    assert!(verdict.allowed && verdict.layers == [Layer::Tripwire]);
    assert!(
        verdict.text.contains("cannot take back"),
        "{}",
        verdict.text
    );
    let verdict = ask(&policy, "/home/dev/project/.git/config", PathAccess::Write);
    assert!(verdict.allowed && verdict.layers.is_empty());
    for (path, expected) in [
        ("/home/dev/project/.git/config", "rwxc"),
        ("/home/dev/project", "rwx"),
        ("/etc/passwd", "r"),
        ("/etc/shadow", ""),
        ("/tmp/x", ""),
        ("/tmp/agentd-1/x", "rwxc"),
        ("/dev/pts/0", ""),
        ("/usr/bin/ls", "rx"),
    ] {
        assert_eq!(letters(&policy, path), expected, "{path}");
    }
    assert_eq!(
        ask(&policy, "/etc/shadow", PathAccess::Read).layers,
        [Layer::Landlock]
    );
}

#[test]
fn connections_lead_nowhere_but_home() {
    let connect = |policy: &Policy, host: &str| {
        explain(
            policy,
            &Query::Connect {
                host: host.to_owned(),
                port: 443,
            },
        )
    };
    let rootless = policy("workspace", Tier::Rootless);
    for (host, allowed) in [
        ("example.org", false),
        ("10.0.0.1", false),
        ("0.0.0.0", false),
        ("localhost.example.org", false),
        ("localhost", true),
        ("127.0.0.1", true),
        ("127.9.9.9", true),
        ("::1", true),
        ("[::1]", true),
    ] {
        let verdict = connect(&rootless, host);
        assert_eq!(verdict.allowed, allowed, "{host}");
        assert_eq!(verdict.layers, [Layer::NetNamespace]);
        assert!(verdict.rule.starts_with("base.toml:"));
    }
    let nested = policy("workspace", Tier::Nested);
    assert!(!connect(&nested, "127.0.0.1").allowed);
    assert_eq!(connect(&nested, "127.0.0.1").layers, [Layer::Seccomp]);
    let open = profile_with("[net]\nmode = \"host\"");
    let open = resolve(&open, &invocation("x"), &facts(Tier::Rootless)).unwrap();
    assert!(connect(&open, "example.org").allowed);
}

#[test]
fn system_calls_are_answered_from_the_filter() {
    let allowed = |policy: &Policy, name: &str| {
        explain(
            policy,
            &Query::Syscall {
                name: name.to_owned(),
            },
        )
        .allowed
    };
    let dev = policy("workspace", Tier::Rootless);
    let strict = policy("strict", Tier::Rootless);
    for (name, in_dev, in_strict) in [
        ("read", true, true),
        ("openat", true, true),
        ("socket", true, true),
        ("ptrace", false, false),
        ("mount", false, false),
        ("bpf", false, false),
        ("io_uring_setup", false, false),
        ("memfd_create", true, false),
        ("personality", true, true),
    ] {
        assert_eq!(
            (allowed(&dev, name), allowed(&strict, name)),
            (in_dev, in_strict),
            "{name}"
        );
    }
    assert!(!allowed(&policy("workspace", Tier::Nested), "socket"));
}

#[test]
fn the_shipped_profiles_print_as_reviewed() {
    for (profile, tier) in [
        ("read-only", Tier::Nested),
        ("read-only", Tier::Rootless),
        ("read-only", Tier::HostRoot),
        ("workspace", Tier::Nested),
        ("workspace", Tier::Rootless),
        ("workspace", Tier::HostRoot),
        ("strict", Tier::Nested),
        ("strict", Tier::Rootless),
        ("strict", Tier::HostRoot),
    ] {
        let catalogue = Catalogue::load(&[]).unwrap();
        let profile_text = catalogue.get(profile).unwrap();
        let text = match resolve(profile_text, &invocation(profile), &facts(tier)) {
            Ok(policy) => show(&policy),
            Err(refusal) => format!("refused: {refusal}\n"),
        };
        let file = format!(
            "../../../../sandbox-profiles/goldens/{profile}.{}.txt",
            tier.short()
        );
        expect_file![file].assert_eq(&text);
    }
}
