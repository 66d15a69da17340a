//! What a session adds to the policy of a command.

use super::*;
use crate::policy::{OUTPUT_DIR, SessionDirs};

fn dirs() -> SessionDirs {
    SessionDirs {
        tmp: "/tmp/agentd-1-s2/tmp".into(),
        output: "/tmp/agentd-1-s2/output".into(),
        script: "/tmp/agentd-1-s2/scripts/7".into(),
    }
}

fn in_session(tier: Tier) -> Policy {
    let facts = HostFacts {
        nested_tmp: dirs().tmp,
        session: Some(dirs()),
        ..facts(tier)
    };
    resolve(&profile("workspace"), &invocation("workspace"), &facts).unwrap()
}

#[test]
fn kept_output_can_be_read_and_nothing_else_of_the_sessions_directory() {
    for tier in [Tier::Nested, Tier::Rootless, Tier::HostRoot] {
        let policy = in_session(tier);
        let nested = tier == Tier::Nested;
        let on_host = |exposure| nested.then_some(exposure);
        for (path, expected) in [
            ("/run/output/x", (!nested).then_some(Exposure::Read)),
            ("/run/x", None),
            ("/tmp/agentd-1-s2/output/x", on_host(Exposure::Read)),
            ("/tmp/agentd-1-s2/scripts/7", on_host(Exposure::Read)),
            ("/tmp/agentd-1-s2/tmp/x", on_host(Exposure::Write)),
            ("/tmp/agentd-1-s2", None),
            ("/tmp/agentd-1-s3/output/x", None),
        ] {
            // Elsewhere `/tmp` is the session's own, and the host's directory is not in it.
            if nested || path.starts_with("/run") {
                let found = policy
                    .fs
                    .deciding(Path::new(path))
                    .map(|rule| rule.exposure);
                assert_eq!(found, expected, "{tier}: {path}");
            }
        }
    }
    assert!(Path::new(OUTPUT_DIR).is_absolute());
}

#[test]
fn outside_a_session_no_output_is_exposed() {
    for tier in [Tier::Nested, Tier::Rootless, Tier::HostRoot] {
        let policy = resolve(
            &profile("workspace"),
            &invocation("workspace"),
            &facts(tier),
        )
        .unwrap();
        let found = policy
            .fs
            .rules
            .iter()
            .find(|rule| rule.path.starts_with(OUTPUT_DIR));
        assert_eq!(found, None, "{tier}");
    }
}
