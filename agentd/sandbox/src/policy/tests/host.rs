//! What the host decides: tiers, layers, identity, and what is reported as absent.

use super::*;

#[test]
fn every_shipped_profile_resolves_on_every_tier_or_refuses_the_tier() {
    for profile in Catalogue::load(&[]).unwrap().usable() {
        for tier in [Tier::Nested, Tier::Rootless, Tier::HostRoot] {
            let facts = facts(tier);
            match resolve(profile, &invocation(&profile.name), &facts) {
                Ok(policy) => {
                    let mut absent = policy.degraded.iter().map(|absent| absent.layer);
                    let other = absent.any(|layer| layer != Layer::Cgroup);
                    assert_eq!(other, tier == Tier::Nested, "{}", profile.name);
                }
                Err(Refusal::TierTooLow {
                    required,
                    available,
                    ..
                }) => {
                    assert!(profile.name == "strict" && available < required);
                    assert!(unavailable(profile, &facts).is_some());
                }
                Err(other) => panic!("{} on {tier}: {other}", profile.name),
            }
        }
    }
}

#[test]
fn a_kernel_without_landlock_is_always_refused() {
    let refusal = decide(|_, facts| facts.landlock_abi = 0).unwrap_err();
    assert!(
        matches!(
            &refusal,
            Refusal::LayerMissing {
                layer: Layer::Landlock,
                ..
            }
        ),
        "{refusal}"
    );
    assert!(refusal.to_string().contains("5.13"), "{refusal}");
}

#[test]
fn a_required_layer_that_is_not_there_is_a_refusal() {
    for (layer, tier, given) in [
        ("pid-namespace", Tier::Nested, false),
        ("pid-namespace", Tier::Rootless, true),
        ("net-namespace", Tier::HostRoot, true),
        ("user-namespace", Tier::HostRoot, false),
        ("user-namespace", Tier::Rootless, true),
        ("subreaper", Tier::Rootless, false),
        ("subreaper", Tier::Nested, true),
        ("cgroup", Tier::HostRoot, true),
        ("cgroup", Tier::Rootless, false),
        ("cgroup", Tier::Nested, false),
        ("landlock", Tier::Nested, true),
        ("ephemeral-uid", Tier::Rootless, false),
        ("ephemeral-uid", Tier::HostRoot, false),
    ] {
        let profile = profile_with(&format!("[require]\nlayers = [\"{layer}\"]"));
        let result = resolve(&profile, &invocation("x"), &facts(tier));
        assert_eq!(result.is_ok(), given, "{layer} on {tier}: {result:?}");
    }
    let open = profile_with("[require]\nlayers = [\"net-namespace\"]\n[net]\nmode = \"host\"");
    resolve(&open, &invocation("x"), &facts(Tier::HostRoot)).unwrap_err();
}

#[test]
fn what_control_groups_do_not_limit_is_reported_with_the_remedy() {
    use CgroupKind::{Hybrid, None as Nothing, V1, V2};
    let profile = profile_with("[limits]\ncpu = \"5s\"");
    let (no_memory, no_cpu) = ("the memory limit of", "the CPU limit holds for each");
    let no_pids = "of 512 processes";
    for (kind, [memory, pids, cpu], tier, texts) in [
        (V2, [true; 3], Tier::Nested, &[][..]),
        (Hybrid, [true, false, true], Tier::HostRoot, &[no_pids]),
        (V1, [false, true, true], Tier::HostRoot, &[no_memory]),
        (V1, [true, false, true], Tier::Rootless, &[]),
        (V1, [true, true, false], Tier::HostRoot, &[no_cpu]),
        (Nothing, [false; 3], Tier::Rootless, &[no_memory, no_cpu]),
        (
            Nothing,
            [false; 3],
            Tier::HostRoot,
            &[no_memory, no_cpu, no_pids],
        ),
    ] {
        let cgroup = CgroupFacts {
            kind,
            memory,
            pids,
            cpu,
            remedy: "delegate it".to_owned(),
        };
        let facts = HostFacts {
            cgroup,
            ..facts(tier)
        };
        let policy = resolve(&profile, &invocation("x"), &facts).unwrap();
        let absent: Vec<_> = policy
            .degraded
            .iter()
            .filter(|absent| absent.layer == Layer::Cgroup)
            .collect();
        assert_eq!(absent.len(), texts.len(), "{kind} {tier}: {absent:?}");
        for (absent, text) in absent.iter().zip(texts) {
            assert!(absent.guarantee.contains(text), "{absent:?}");
            assert_eq!(absent.reason, "delegate it");
        }
        let in_force = policy.limits.in_force(&policy.cgroup, policy.identity);
        assert_eq!(in_force.memory_bytes.is_some(), memory, "{kind}");
    }
}

#[test]
fn a_limit_of_processes_is_in_force_where_a_group_or_the_kernel_holds_it() {
    let caller = Identity::Caller {
        uid: 1000,
        gid: 1000,
    };
    for (identity, grouped, expected) in [
        (caller, true, true),
        // Of the user as a whole.
        (caller, false, true),
        (Identity::RootWithoutCapabilities, true, true),
        // The kernel exempts root.
        (Identity::RootWithoutCapabilities, false, false),
    ] {
        let facts = facts(Tier::HostRoot);
        let policy = resolve(&profile_with(""), &invocation("x"), &facts).unwrap();
        let cgroup = CgroupFacts {
            pids: grouped,
            ..policy.cgroup
        };
        let in_force = policy.limits.in_force(&cgroup, identity);
        assert_eq!(in_force.pids.is_some(), expected, "{identity:?} {grouped}");
    }
}

#[test]
fn the_identity_is_never_root_with_capabilities() {
    use Tier::{HostRoot, Nested, Rootless};
    let same = |id| Caller { uid: id, gid: id };
    let caller = |id| Identity::Caller { uid: id, gid: id };
    let ids = (70_001, 1000, 1000);
    let throw_away = Identity::Ephemeral {
        uid: ids.0,
        owner_uid: ids.1,
        owner_gid: ids.2,
    };
    let bare = Identity::RootWithoutCapabilities;
    for (tier, launcher, asks, idmap, identity) in [
        (HostRoot, 0, 1000, true, caller(1000)),
        (HostRoot, 0, 0, true, throw_away),
        (HostRoot, 0, 0, false, bare),
        (Rootless, 0, 0, true, bare),
        (Nested, 0, 0, true, bare),
        (Rootless, 1000, 1000, false, caller(1000)),
        (Rootless, 1000, 0, false, caller(1000)),
    ] {
        let policy = decide(|invocation, facts| {
            invocation.caller = same(asks);
            facts.tier = tier;
            facts.launcher_uid = launcher;
            facts.launcher_gid = launcher;
            facts.idmap = idmap;
        })
        .unwrap();
        assert_eq!(
            policy.identity, identity,
            "{tier} {launcher} {asks} {idmap}"
        );
        let mut absent = policy.degraded.iter().map(|absent| absent.layer);
        assert_eq!(
            absent.any(|layer| layer == Layer::EphemeralUid),
            identity == bare
        );
    }
}

#[test]
fn a_throw_away_uid_that_the_profile_asks_for_is_had_or_refused() {
    let profile = profile_with("[identity]\nuser = \"ephemeral\"");
    let with = |tier, idmap| {
        let facts = HostFacts {
            idmap,
            ..facts(tier)
        };
        resolve(&profile, &invocation("x"), &facts)
    };
    assert!(matches!(
        with(Tier::HostRoot, true).unwrap().identity,
        Identity::Ephemeral { .. }
    ));
    for (tier, idmap) in [
        (Tier::HostRoot, false),
        (Tier::Rootless, true),
        (Tier::Nested, true),
    ] {
        let refusal = with(tier, idmap).unwrap_err();
        assert!(matches!(
            refusal,
            Refusal::LayerMissing {
                layer: Layer::EphemeralUid,
                ..
            }
        ));
    }
}

#[test]
fn the_nested_tier_names_carve_outs_only_where_there_are_some() {
    let policy = resolve(
        &profile("read-only"),
        &invocation("read-only"),
        &facts(Tier::Nested),
    )
    .unwrap();
    let names = |name: &str| {
        policy
            .degraded
            .iter()
            .any(|absent| absent.guarantee.contains(name))
    };
    assert!(!names(".git/hooks"), "read-only anyway");
    assert!(names("(.env) are not hidden"));
}

#[test]
fn older_landlock_versions_are_reported_on_the_nested_tier() {
    let count = |landlock_abi, tier| {
        let facts = HostFacts {
            landlock_abi,
            ..facts(tier)
        };
        let policy = resolve(&profile("workspace"), &invocation("workspace"), &facts).unwrap();
        policy
            .degraded
            .iter()
            .filter(|absent| absent.layer == Layer::Landlock)
            .count()
    };
    for (abi, expected) in [(1, 3), (2, 3), (3, 2), (4, 2), (5, 1), (6, 0), (7, 0)] {
        assert_eq!(count(abi, Tier::Nested), expected, "ABI {abi}");
    }
    assert_eq!(count(1, Tier::Rootless), 0);
}
