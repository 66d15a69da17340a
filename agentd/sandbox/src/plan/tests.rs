//! Plans of small policies.

use super::*;
use crate::policy::{
    CgroupFacts, CgroupKind, Exposure, FsPolicy, FsRule, Identity, Limits, SyscallBase, TmpPolicy,
};

fn rule(path: &str, exposure: Exposure) -> FsRule {
    FsRule {
        path: path.into(),
        exposure,
        rule: RuleRef {
            file: "t.toml".into(),
            line: 1,
        },
    }
}

fn policy(tier: Tier) -> Policy {
    Policy {
        profile: "t".into(),
        digest: String::new(),
        tier,
        degraded: Vec::new(),
        cgroup: CgroupFacts::none(""),
        workspace: "/tmp/ws".into(),
        cwd: "/tmp/ws".into(),
        home: "/home/u".into(),
        tmp: "/tmp".into(),
        fs: FsPolicy {
            rules: vec![
                rule("/usr", Exposure::Read),
                rule("/bin", Exposure::Read),
                rule("/usr/share", Exposure::Read),
                rule("/tmp", Exposure::Write),
                rule("/tmp/ws", Exposure::Write),
                rule("/tmp/ws/.git/hooks", Exposure::Readonly),
                rule("/tmp/ws/.git/config", Exposure::Readonly),
                rule("/usr/secret", Exposure::Deny),
                rule("/dev/null", Exposure::Write),
                rule("/srv/socket", Exposure::Read),
            ],
            exec: vec![rule("/usr", Exposure::Read)],
            tmp: TmpPolicy {
                size_bytes: 1 << 20,
                inodes: 1000,
            },
        },
        identity: Identity::Caller {
            uid: 1000,
            gid: 1000,
        },
        umask: 0o22,
        hostname: "sandbox".into(),
        net: NetMode::None,
        syscalls: SyscallBase::Dev,
        limits: Limits {
            timeout_ms: 1000,
            idle_timeout_ms: None,
            kill_grace_ms: 100,
            cpu_seconds: Some(5),
            memory_bytes: None,
            pids: Some(64),
            file_size_bytes: None,
            open_files: 256,
            output_bytes: None,
            disk_bytes: None,
        },
        env: BTreeMap::new(),
        session: None,
        sources: BTreeMap::new(),
    }
}

fn survey() -> Survey {
    let kinds = [
        ("/usr", Kind::Directory),
        ("/usr/share", Kind::Directory),
        ("/usr/secret", Kind::File),
        ("/bin", Kind::Symlink("usr/bin".into())),
        ("/tmp", Kind::Directory),
        ("/tmp/ws", Kind::Directory),
        ("/tmp/ws/.git/hooks", Kind::Directory),
        ("/srv/socket", Kind::Other),
        ("/dev/null", Kind::Other),
    ];
    Survey {
        kinds: kinds
            .into_iter()
            .map(|(path, kind)| (path.into(), kind))
            .collect(),
        landlock_abi: 7,
        tasks_of_user: 30,
    }
}

/// Some plan, for tests that care about one part of it.
pub(crate) fn any(tier: Tier) -> Plan {
    Plan::compile(&policy(tier), &survey())
}

fn position(plan: &Plan, wanted: &MountStep) -> usize {
    let found = plan.mounts.iter().position(|step| step == wanted);
    found.unwrap_or_else(|| panic!("{wanted:?} is not in {:#?}", plan.mounts))
}

fn bind(path: &str, mode: BindMode) -> MountStep {
    MountStep::Bind {
        path: path.into(),
        mode,
        mapped: false,
    }
}

#[test]
fn a_carve_out_is_mounted_over_its_writable_parent() {
    let plan = Plan::compile(&policy(Tier::Rootless), &survey());
    let workspace = position(&plan, &bind("/tmp/ws", BindMode::Writable));
    let hooks = position(&plan, &bind("/tmp/ws/.git/hooks", BindMode::ReadOnly));
    assert!(workspace < hooks);
}

#[test]
fn the_directories_above_a_carve_out_are_pinned_so_that_they_cannot_be_renamed() {
    let plan = Plan::compile(&policy(Tier::Rootless), &survey());
    let pin = position(&plan, &bind("/tmp/ws/.git", BindMode::Writable));
    assert!(position(&plan, &bind("/tmp/ws", BindMode::Writable)) < pin);
    assert!(pin < position(&plan, &bind("/tmp/ws/.git/hooks", BindMode::ReadOnly)));
}

#[test]
fn a_workspace_below_tmp_comes_after_the_private_tmp() {
    let plan = Plan::compile(&policy(Tier::Rootless), &survey());
    let tmpfs = MountStep::Tmpfs {
        path: "/tmp".into(),
        size: 1 << 20,
        inodes: 1000,
    };
    assert!(position(&plan, &tmpfs) < position(&plan, &MountStep::Dir("/tmp/ws".into())));
}

#[test]
fn a_path_that_is_already_mounted_the_same_way_is_not_mounted_again() {
    let plan = Plan::compile(&policy(Tier::Rootless), &survey());
    assert!(
        !plan
            .mounts
            .contains(&bind("/usr/share", BindMode::ReadOnly))
    );
}

#[test]
fn a_denied_file_is_masked_and_a_host_socket_is_not_shown() {
    let plan = Plan::compile(&policy(Tier::Rootless), &survey());
    position(
        &plan,
        &MountStep::Mask {
            path: "/usr/secret".into(),
            optional: false,
        },
    );
    let shown = plan.mounts.iter().any(
        |step| matches!(step, MountStep::Bind { path, .. } if path.as_os_str() == "/srv/socket"),
    );
    assert!(!shown);
}

#[test]
fn a_protected_name_that_does_not_exist_becomes_a_tripwire() {
    let plan = Plan::compile(&policy(Tier::Rootless), &survey());
    let paths: Vec<_> = plan
        .tripwires
        .iter()
        .map(|(path, _)| path.clone())
        .collect();
    assert_eq!(paths, [PathBuf::from("/tmp/ws/.git/config")].to_vec());
}

#[test]
fn landlock_never_grants_a_carve_out_or_a_missing_path() {
    let plan = Plan::compile(&policy(Tier::Nested), &survey());
    let paths: Vec<_> = plan
        .landlock
        .outer
        .iter()
        .map(|rule| rule.path.display().to_string())
        .collect();
    assert!(!paths.iter().any(|path| path.contains(".git")), "{paths:?}");
    assert!(plan.mounts.is_empty());
    assert!(plan.landlock.refuse_tcp);
}

#[test]
fn the_process_limit_counts_from_the_users_present_tasks_where_it_must() {
    let pids = |tier| {
        Plan::compile(&policy(tier), &survey())
            .rlimits
            .into_iter()
            .find(|limit| limit.resource == nix::sys::resource::Resource::RLIMIT_NPROC)
            .map(|limit| limit.hard)
    };
    assert_eq!(pids(Tier::Nested), Some(94));
    assert_eq!(pids(Tier::Rootless), Some(64));
    assert_eq!(pids(Tier::HostRoot), Some(94));
}

#[test]
fn where_a_group_counts_processes_the_users_count_never_comes_first() {
    let counted = |tier| {
        let policy = Policy {
            cgroup: CgroupFacts {
                kind: CgroupKind::V2,
                memory: true,
                pids: true,
                cpu: true,
                remedy: String::new(),
            },
            ..policy(tier)
        };
        let plan = Plan::compile(&policy, &survey());
        assert!(plan.layers.contains(&Layer::Cgroup));
        plan.rlimits
            .into_iter()
            .find(|limit| limit.resource == nix::sys::resource::Resource::RLIMIT_NPROC)
            .map(|limit| limit.hard)
    };
    // Shared with other commands of the user: one must not use up another's.
    assert_eq!(counted(Tier::HostRoot), None);
    assert_eq!(counted(Tier::Nested), None);
    // Of its own: a second net, above the first.
    assert!(counted(Tier::Rootless).is_some_and(|limit| limit > 65));
}

#[test]
fn tasks_are_counted_only_where_the_count_is_used() {
    let ephemeral = Identity::Ephemeral {
        uid: 70_001,
        owner_uid: 1000,
        owner_gid: 1000,
    };
    let caller = Identity::Caller {
        uid: 1000,
        gid: 1000,
    };
    let root = Identity::RootWithoutCapabilities;
    for (tier, identity, expected) in [
        (Tier::HostRoot, caller, Some(1000)),
        (Tier::Nested, caller, Some(1000)),
        (Tier::HostRoot, root, Some(0)),
        // A user, or a user namespace, of its own.
        (Tier::HostRoot, ephemeral, None),
        (Tier::Rootless, caller, None),
    ] {
        let mut policy = Policy {
            identity,
            cgroup: CgroupFacts::none(""),
            ..policy(tier)
        };
        policy.limits.pids = Some(64);
        assert_eq!(counted_user(&policy), expected, "{tier} {identity:?}");
        policy.limits.pids = None;
        assert_eq!(counted_user(&policy), None, "no limit: {tier}");
        policy.limits.pids = Some(64);
        // A group counts the command's alone.
        policy.cgroup.pids = true;
        assert_eq!(counted_user(&policy), None, "with a group: {tier}");
    }
}

#[test]
fn a_session_brings_its_own_tmp_and_its_output_read_only() {
    let mut policy = policy(Tier::Rootless);
    policy.session = Some(crate::policy::SessionDirs {
        tmp: "/tmp/s/tmp".into(),
        output: "/tmp/s/output".into(),
        script: "/tmp/s/scripts/1".into(),
    });
    policy.fs.rules.push(rule("/run/output", Exposure::Read));
    let plan = Plan::compile(&policy, &survey());
    let shared = |path: &str, source: &str, mode| MountStep::Shared {
        path: path.into(),
        source: source.into(),
        mode,
    };
    let tmp = position(&plan, &shared("/tmp", "/tmp/s/tmp", BindMode::Writable));
    assert!(tmp < position(&plan, &MountStep::Dir("/tmp/ws".into())));
    let output = shared("/run/output", "/tmp/s/output", BindMode::ReadOnly);
    position(&plan, &output);
    let of_tmp = |step: &&MountStep| matches!(step, MountStep::Tmpfs { path, .. } if path.as_os_str() == "/tmp");
    assert_eq!(plan.mounts.iter().find(of_tmp), None);
    let inner = &plan.landlock.inner;
    let rights = |path: &str| {
        inner
            .iter()
            .find(|rule| rule.path.as_os_str() == path)
            .map(|rule| rule.rights)
    };
    assert_eq!(rights("/run/output"), Some(Rights::LIST.and(Rights::READ)));
    // Outside a session nothing of this is there.
    policy.session = None;
    policy.fs.rules.pop();
    let plan = Plan::compile(&policy, &survey());
    assert!(plan.mounts.iter().any(|step| of_tmp(&step)));
    assert!(!plan.mounts.contains(&output));
}
