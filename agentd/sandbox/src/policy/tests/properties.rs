//! Properties: a request never widens, the longest prefix, settled rules.

use proptest::prelude::*;

use super::*;

/// What no request may change.
fn core(policy: &Policy) -> impl PartialEq + std::fmt::Debug {
    (
        policy.fs.clone(),
        policy.net,
        policy.syscalls,
        policy.identity,
        policy.umask,
        policy.digest.clone(),
    )
}

fn at_most(asked: Option<u64>, plain: Option<u64>) -> bool {
    plain.is_none_or(|plain| asked.is_some_and(|asked| asked <= plain))
}

prop_compose! {
    fn limit_request()(values in prop::collection::vec(prop::option::of(1..1_u64 << 40), 9)) -> LimitRequest {
        LimitRequest {
            timeout_ms: values[0],
            idle_timeout_ms: values[1],
            kill_grace_ms: values[2],
            cpu_seconds: values[3],
            memory_bytes: values[4],
            pids: values[5],
            file_size_bytes: values[6],
            open_files: values[7],
            output_bytes: values[8],
            disk_bytes: None,
        }
    }
}

fn path() -> impl Strategy<Value = PathBuf> {
    prop::collection::vec("[a-c]", 0..5).prop_map(|names| Path::new("/").join(names.join("/")))
}

fn rule_list() -> impl Strategy<Value = Vec<FsRule>> {
    let exposure = prop::sample::select(vec![
        Exposure::Read,
        Exposure::Write,
        Exposure::Readonly,
        Exposure::Deny,
    ]);
    prop::collection::btree_map(path(), exposure, 0..12).prop_map(|rules| {
        let rule = RuleRef {
            file: "x.toml".to_owned(),
            line: 1,
        };
        let rules = rules.into_iter();
        rules
            .map(|(path, exposure)| FsRule {
                path,
                exposure,
                rule: rule.clone(),
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn a_request_never_widens_a_profile(
        limits in limit_request(),
        name in "[A-Z]{1,8}",
        value in "[ -~]{0,20}",
        profile_name in prop::sample::select(vec!["read-only", "workspace", "strict"]),
        tier in prop::sample::select(vec![Tier::Rootless, Tier::HostRoot]),
    ) {
        let profile = profile(profile_name);
        let plain = resolve(&profile, &invocation(profile_name), &facts(tier)).unwrap();
        let mut asking = invocation(profile_name);
        asking.limits = limits;
        asking.env_set.insert(name, value);
        if let Ok(asked) = resolve(&profile, &asking, &facts(tier)) {
            prop_assert_eq!(core(&asked), core(&plain));
            prop_assert!(asked.limits.timeout_ms <= profile.limits.max_timeout_ms);
            prop_assert!(asked.limits.kill_grace_ms <= profile.limits.max_grace_ms);
            prop_assert!(at_most(asked.limits.memory_bytes, plain.limits.memory_bytes));
            prop_assert!(at_most(asked.limits.pids, plain.limits.pids));
            prop_assert!(at_most(asked.limits.cpu_seconds, plain.limits.cpu_seconds));
            prop_assert!(at_most(asked.limits.file_size_bytes, plain.limits.file_size_bytes));
            prop_assert!(at_most(asked.limits.output_bytes, plain.limits.output_bytes));
            prop_assert!(asked.limits.open_files <= plain.limits.open_files);
        }
    }

    #[test]
    fn the_longest_prefix_agrees_with_walking_up(rules in rule_list(), path in path()) {
        let tmp = TmpPolicy { size_bytes: 1, inodes: 1 };
        let policy = FsPolicy { rules, exec: Vec::new(), tmp };
        let walked = path.ancestors().find_map(|above| {
            policy.rules.iter().find(|rule| rule.path == above)
        });
        prop_assert_eq!(policy.deciding(&path), walked);
    }

    #[test]
    fn settling_changes_no_answer(rules in rule_list(), path in path()) {
        let tmp = TmpPolicy { size_bytes: 1, inodes: 1 };
        let before = FsPolicy { rules: rules.clone(), exec: Vec::new(), tmp };
        let after = FsPolicy { rules: crate::policy::exposure::settle(rules), exec: Vec::new(), tmp };
        let rights = |policy: &FsPolicy| policy.deciding(&path).map(|rule| match rule.exposure {
            Exposure::Read | Exposure::Readonly => "r",
            Exposure::Write => "rw",
            Exposure::Deny => "",
        }).unwrap_or_default();
        prop_assert_eq!(rights(&before), rights(&after));
        for rule in &after.rules {
            let below_writable = after.rules.iter().any(|other| {
                other.exposure == Exposure::Write && other.path != rule.path && rule.path.starts_with(&other.path)
            });
            prop_assert!(rule.exposure != Exposure::Readonly || below_writable);
            prop_assert!(rule.exposure != Exposure::Read || !below_writable);
        }
    }
}
