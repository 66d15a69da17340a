//! What this host can enforce, found out by doing it: each tier is tried with a real jail around
//! `true`, so that nothing rests on version numbers or settings.

use std::{
    collections::BTreeMap,
    fs,
    os::fd::{AsFd, AsRawFd},
    path::{Path, PathBuf},
    rc::Rc,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    unistd::{getegid, geteuid},
};

use crate::{
    cgroup::{Cgroups, Choice, Entry},
    launch::{self, Failure, Namespaces, RECORD, Record, Report, Resources, Room, Stdio},
    plan::Plan,
    policy::{
        CgroupFacts, Exposure, FsPolicy, FsRule, Identity, Limits, NetMode, Policy, Program,
        RuleRef, SessionDirs, SyscallBase, Tier, TmpPolicy,
    },
    sys::{caps, files, landlock, signals, wait},
};

/// A capability of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Name.
    pub name: &'static str,
    /// It works.
    pub available: bool,
    /// Detail, or the reason why not and the remedy.
    pub detail: String,
}

/// What this host can enforce.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Best tier; `None` when not even the lowest one works.
    pub tier: Option<Tier>,
    /// Why the tier is not higher, and the remedy; empty on the highest.
    pub tier_reason: String,
    /// Landlock ABI; 0 when the kernel has none.
    pub landlock_abi: u32,
    /// Kernel release.
    pub kernel: String,
    /// User id of this process.
    pub uid: u32,
    /// Group id of this process.
    pub gid: u32,
    /// Everything that was tried.
    pub capabilities: Vec<Capability>,
}

/// `CAP_SYS_ADMIN`.
const SYS_ADMIN: u64 = 1 << 21;
const TRIAL_LIMIT: Duration = Duration::from_secs(10);

/// Limits of a trial.
const TRIAL_LIMITS: Limits = Limits {
    timeout_ms: 10_000,
    idle_timeout_ms: None,
    kill_grace_ms: 0,
    cpu_seconds: Some(10),
    memory_bytes: None,
    pids: Some(64),
    file_size_bytes: Some(0),
    open_files: 64,
    output_bytes: None,
    disk_bytes: None,
};

/// Tries this host. Takes some tens of milliseconds. The process must have one thread.
#[must_use]
pub fn probe() -> Host {
    let landlock_abi = landlock::abi().unwrap_or(0);
    let is_admin = caps::effective().is_ok_and(|set| set & SYS_ADMIN != 0);
    let mut capabilities = vec![landlock_capability(landlock_abi)];
    let mut reasons = Vec::new();
    let mut tier = None;
    for candidate in [Tier::HostRoot, Tier::Rootless, Tier::Nested] {
        let outcome = if candidate == Tier::HostRoot && !is_admin {
            Err("the launcher does not have CAP_SYS_ADMIN: run agentd as a root service".to_owned())
        } else {
            try_tier(candidate, landlock_abi)
        };
        let detail = match &outcome {
            Ok(()) => "a jail was built and a program ran in it".to_owned(),
            Err(reason) => reason.clone(),
        };
        capabilities.push(Capability {
            name: candidate.name(),
            available: outcome.is_ok(),
            detail,
        });
        match outcome {
            Ok(()) => {
                tier = tier.or(Some(candidate));
                break;
            }
            Err(reason) => reasons.push(format!("{}: {reason}", candidate.short())),
        }
    }
    capabilities.push(bash());
    Host {
        tier,
        tier_reason: if landlock_abi == 0 {
            landlock_capability(landlock_abi).detail
        } else {
            reasons.join("; ")
        },
        landlock_abi,
        kernel: nix::sys::utsname::uname()
            .map(|name| name.release().to_string_lossy().into_owned())
            .unwrap_or_default(),
        uid: geteuid().as_raw(),
        gid: getegid().as_raw(),
        capabilities,
    }
}

/// What control groups would do for commands of an agentd that is started now. Makes groups and removes
/// them again. The process must have one thread.
#[must_use]
pub fn cgroups() -> CgroupFacts {
    let mut cgroups = Cgroups::open(Choice::Auto, &[nix::unistd::getpid().as_raw()]);
    let facts = cgroups.facts().clone();
    cgroups.close();
    facts
}

fn landlock_capability(abi: u32) -> Capability {
    let detail = if abi == 0 {
        "this kernel has no Landlock: boot a kernel of at least 5.13 with `landlock` in its `lsm=` list"
            .to_owned()
    } else {
        format!("ABI {abi}")
    };
    Capability {
        name: "landlock",
        available: abi > 0,
        detail,
    }
}

fn bash() -> Capability {
    let found = ["/usr/bin/bash", "/bin/bash", "/usr/local/bin/bash"]
        .into_iter()
        .find(|path| Path::new(path).exists());
    Capability {
        name: "bash",
        available: found.is_some(),
        detail: found.map_or_else(
            || "scripts need bash: install it; programs still run".to_owned(),
            str::to_owned,
        ),
    }
}

fn try_tier(tier: Tier, landlock_abi: u32) -> Result<(), String> {
    if landlock_abi == 0 {
        return Err("this kernel has no Landlock, which every tier requires".to_owned());
    }
    match trial(&trial_policy(tier), landlock_abi, None) {
        Ok(()) => Ok(()),
        Err(text) => Err(format!("{text}{}", remedy(tier))),
    }
}

/// Tries a jail inside namespaces of a session, which must outlive a first one for a second one. Leaves
/// nothing on the host. The process must have one thread.
///
/// # Errors
/// What went wrong; also on the nested tier, which has no such namespaces.
pub fn try_session(host: &Host) -> Result<(), String> {
    let tier = host.tier.filter(|tier| *tier > Tier::Nested);
    let tier = tier.ok_or("sessions have no namespaces on this tier")?;
    // In the session's mount namespace, `/tmp` itself is where its file system is mounted.
    let dirs = SessionDirs {
        tmp: "/tmp".into(),
        output: "/tmp".into(),
        script: PathBuf::new(),
    };
    let policy = Policy {
        session: Some(dirs),
        ..trial_policy(tier)
    };
    let room = Room {
        tier,
        net: policy.net,
        tmp: Path::new("/tmp"),
        size: policy.fs.tmp,
    };
    let made = room.make();
    let shared =
        made.map_err(|failed| format!("{}: {}", failed.stage.name(), failed.errno.desc()))?;
    let shared = Rc::new(shared);
    trial(&policy, host.landlock_abi, Some(Rc::clone(&shared)))?;
    trial(&policy, host.landlock_abi, Some(shared))
}

/// Builds a jail, runs `true` in it, and says what went wrong.
fn trial(
    policy: &Policy,
    landlock_abi: u32,
    namespaces: Option<Rc<Namespaces>>,
) -> Result<(), String> {
    let survey = launch::survey(policy, landlock_abi).map_err(|unseen| unseen.to_string())?;
    let plan = Plan::compile(policy, &survey);
    let null = || {
        fs::File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map(Into::into)
            .map_err(|error| format!("/dev/null: {error}"))
    };
    let resources = Resources {
        stdio: Stdio::Pipes([null()?, null()?, null()?]),
        script: None,
        state: None,
        fallback_cwd: None,
        id_map: None,
        namespaces,
        entry: Entry::None,
    };
    let program = Program::Argv(vec![b"true".to_vec()]);
    let jail =
        launch::prepare(policy, &plan, &program, resources).map_err(|error| error.to_string())?;
    let child = launch::spawn(jail)
        .map_err(launch::Unstarted::failure)
        .map_err(|failed| format!("{}: {}", failed.stage.name(), failed.errno.desc()))?;
    let outcome = watch(&child, &plan);
    let killed = wait::signal_pidfd(child.pidfd.as_fd(), libc::SIGKILL);
    while matches!(wait::reap(child.pid), Ok(None)) && killed.is_ok() {
        signals::poll(&mut [], 1).map_err(|errno| errno.desc().to_owned())?;
    }
    outcome
}

fn watch(child: &launch::Child, plan: &Plan) -> Result<(), String> {
    let start = Instant::now();
    while start.elapsed() < TRIAL_LIMIT {
        let mut fds = [
            signals::readable(child.control.as_raw_fd()),
            signals::readable(child.errors.as_raw_fd()),
        ];
        signals::poll(&mut fds, 100).map_err(|errno| errno.desc().to_owned())?;
        let mut bytes = [0; 64];
        let mut record = [0; RECORD];
        while let Ok(count) = files::read(child.errors.as_fd(), &mut record)
            && count > 0
        {
            if let Some(Record::Failure(failure)) = record.get(..count).and_then(Record::decode) {
                return Err(describe(failure, plan));
            }
        }
        match files::read(child.control.as_fd(), &mut bytes) {
            Ok(0) => return Err("the jail's init died during set-up".to_owned()),
            Ok(count) => match bytes.get(..count).and_then(Report::decode) {
                Some(Report::LeaderExited { status: 0 }) => return Ok(()),
                Some(Report::LeaderExited { status }) => {
                    return Err(format!(
                        "the program in the jail failed (wait status {status})"
                    ));
                }
                Some(Report::Empty { .. } | Report::Terminal) | None => {}
            },
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(errno) => return Err(errno.desc().to_owned()),
        }
    }
    Err("the trial jail did not come up in time".to_owned())
}

fn describe(failure: Failure, plan: &Plan) -> String {
    let step = plan.mounts.get(usize::from(failure.index));
    let step = step
        .filter(|_| failure.stage == launch::Stage::Mount)
        .map_or_else(String::new, |step| format!(" of {step:?}"));
    format!(
        "{}{step} failed: {}",
        failure.stage.name(),
        failure.errno.desc()
    )
}

/// What an operator can do about a tier that does not work.
fn remedy(tier: Tier) -> String {
    let setting = |path: &str| fs::read_to_string(path).map(|text| text.trim().to_owned());
    let is = |path: &str, value: &str| setting(path).is_ok_and(|text| text == value);
    match tier {
        Tier::HostRoot | Tier::Nested => String::new(),
        Tier::Rootless if is("/proc/sys/user/max_user_namespaces", "0") => {
            " (user namespaces are switched off: sysctl user.max_user_namespaces is 0)".to_owned()
        }
        Tier::Rootless if is("/proc/sys/kernel/unprivileged_userns_clone", "0") => {
            " (set sysctl kernel.unprivileged_userns_clone=1)".to_owned()
        }
        Tier::Rootless
            if is(
                "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
                "1",
            ) =>
        {
            " (AppArmor restricts user namespaces: install an AppArmor profile with `userns,` for \
             agentd-launcher)"
                .to_owned()
        }
        Tier::Rootless => {
            " (a container or a filter forbids user namespaces: allow unshare and mount, or run \
             agentd as a root service)"
                .to_owned()
        }
    }
}

fn trial_policy(tier: Tier) -> Policy {
    let (uid, gid) = (geteuid().as_raw(), getegid().as_raw());
    let identity = if tier == Tier::HostRoot {
        Identity::RootWithoutCapabilities
    } else {
        Identity::Caller { uid, gid }
    };
    Policy {
        profile: "probe".to_owned(),
        digest: String::new(),
        tier,
        degraded: Vec::new(),
        cgroup: CgroupFacts::none(""),
        workspace: "/".into(),
        cwd: "/".into(),
        home: "/".into(),
        tmp: "/tmp".into(),
        fs: FsPolicy {
            rules: system_rules(),
            exec: system_rules(),
            tmp: TmpPolicy {
                size_bytes: 1 << 20,
                inodes: 64,
            },
        },
        identity,
        umask: 0o77,
        hostname: "probe".to_owned(),
        net: NetMode::None,
        syscalls: SyscallBase::Dev,
        limits: TRIAL_LIMITS,
        session: None,
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        sources: BTreeMap::new(),
    }
}

/// What `true` needs.
fn system_rules() -> Vec<FsRule> {
    let rule = |path: &str| FsRule {
        path: path.into(),
        exposure: Exposure::Read,
        rule: RuleRef {
            file: "probe".to_owned(),
            line: 0,
        },
    };
    let system = [
        "/bin",
        "/etc/ld.so.cache",
        "/lib",
        "/lib32",
        "/lib64",
        "/nix/store",
        "/sbin",
        "/usr",
    ];
    system.into_iter().map(rule).collect()
}
