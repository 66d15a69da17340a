//! Tests of policies: what a request may and may not do to a profile. Here the made-up host and request.

mod host;
mod properties;
mod request;
mod rules;
mod session;
mod workspace;

use std::{collections::BTreeMap, path::Path, path::PathBuf};

use super::{
    Caller, CgroupFacts, CgroupKind, Exposure, FsPolicy, FsRule, HostFacts, Identity, Invocation,
    Layer, Lifetime, LimitRequest, Policy, Program, Refusal, RuleRef, Stdin, Tier, TmpPolicy,
    resolve, unavailable,
};
use crate::profile::{Catalogue, Profile};

/// A host where everything works; the fixture of this crate's golden files.
pub(crate) fn facts(tier: Tier) -> HostFacts {
    HostFacts {
        tier,
        landlock_abi: 7,
        tier_reason: match tier {
            Tier::HostRoot => String::new(),
            Tier::Rootless => "run agentd as a system service to get T3".to_owned(),
            Tier::Nested => "user namespaces are not permitted here; permit them".to_owned(),
        },
        cgroup: match tier {
            Tier::HostRoot => CgroupFacts {
                kind: CgroupKind::V2,
                memory: true,
                pids: true,
                cpu: true,
                remedy: String::new(),
            },
            Tier::Rootless | Tier::Nested => CgroupFacts::none("run agentd with `Delegate=yes`"),
        },
        launcher_uid: if tier == Tier::HostRoot { 0 } else { 1000 },
        launcher_gid: if tier == Tier::HostRoot { 0 } else { 1000 },
        environment: BTreeMap::from([
            ("TZ".to_owned(), "UTC".to_owned()),
            ("SECRET".to_owned(), "must not be passed".to_owned()),
        ]),
        idmap: true,
        ephemeral_uid: 70_001,
        workspace_uid: 1000,
        workspace_gid: 1000,
        home: PathBuf::from("/home/dev"),
        nested_tmp: PathBuf::from("/tmp/agentd-1"),
        session: None,
        state_dirs: vec![PathBuf::from("/srv/agentd/state")],
    }
}

/// A plain request by uid 1000.
pub(crate) fn invocation(profile: &str) -> Invocation {
    Invocation {
        profile: profile.to_owned(),
        workspace: PathBuf::from("/home/dev/project"),
        cwd: None,
        program: Program::Script,
        env_set: BTreeMap::new(),
        env_unset: Vec::new(),
        limits: LimitRequest::default(),
        caller: Caller {
            uid: 1000,
            gid: 1000,
        },
        stdin: Stdin::Null,
        terminal: None,
        lifetime: Lifetime::Call,
        in_session: None,
    }
}

fn profile(name: &str) -> Profile {
    Catalogue::load(&[]).unwrap().get(name).unwrap().clone()
}

/// A profile out of a directory of its own.
pub(crate) fn profile_with(body: &str) -> Profile {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("agentd-policy-{}-{number}", std::process::id()));
    std::fs::create_dir(&dir).unwrap();
    let head = "schema = 1\nname = \"x\"\nextends = \"base\"\ndescription = \"d\"\n";
    std::fs::write(dir.join("x.toml"), format!("{head}{body}")).unwrap();
    let catalogue = Catalogue::load(std::slice::from_ref(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
    catalogue.unwrap().get("x").unwrap().clone()
}

fn decide(change: impl FnOnce(&mut Invocation, &mut HostFacts)) -> Result<Policy, Refusal> {
    let mut invocation = invocation("workspace");
    let mut facts = facts(Tier::HostRoot);
    change(&mut invocation, &mut facts);
    resolve(&profile("workspace"), &invocation, &facts)
}

fn exposure(policy: &Policy, path: &str) -> Option<Exposure> {
    policy
        .fs
        .deciding(Path::new(path))
        .map(|rule| rule.exposure)
}
