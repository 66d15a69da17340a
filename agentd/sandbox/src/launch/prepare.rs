//! The last allocations: a plan and its descriptors become C strings, arrays and bit masks.

use std::{
    ffi::{CString, NulError, OsStr},
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
    rc::Rc,
};

use nix::{
    errno::Errno,
    sys::resource::{Resource, getrlimit},
};
use thiserror::Error;

use super::{root::PreparedStep, ruleset, ruleset::RulesetFailure};
use crate::{
    cgroup::Entry,
    plan::{LandlockPlan, Plan, Rlimit},
    policy::{Layer, NetMode, Policy, Program, Tier},
    seccomp::Instruction,
    sys::{cstrings::CStringArray, files, socket},
};

/// Descriptors that go into a jail.
#[derive(Debug)]
pub(crate) struct Resources {
    /// Standard input, output and error.
    pub(crate) stdio: [OwnedFd; 3],
    /// The script, when the program is one.
    pub(crate) script: Option<OwnedFd>,
    /// Namespace that maps the workspace's ids, when the plan has a mapping.
    pub(crate) id_map: Option<Rc<OwnedFd>>,
    /// The way into the control group.
    pub(crate) entry: Entry,
}

/// Why a plan could not be prepared. Nothing ran.
#[derive(Debug, Error)]
pub(crate) enum PrepareError {
    /// A string with a NUL byte.
    #[error("a path, argument or variable holds a NUL byte")]
    Nul(#[from] NulError),
    /// Landlock.
    #[error(transparent)]
    Ruleset(#[from] RulesetFailure),
    /// A system call.
    #[error("{0}")]
    System(#[from] Errno),
    /// The script could not be placed.
    #[error("the script could not be written to {}", path.display())]
    Script {
        /// Where.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// There is no bash to run a script with.
    #[error("there is no bash at /usr/bin/bash, /bin/bash or /usr/local/bin/bash: install it")]
    NoBash,
}

/// A rule about the jail's own file systems.
#[derive(Debug)]
pub(super) struct InnerRule {
    pub(super) path: CString,
    pub(super) access: u64,
}

/// Everything the new processes need. They read it and allocate nothing.
#[derive(Debug)]
pub(crate) struct PreparedJail {
    pub(super) tier: Tier,
    pub(super) net: NetMode,
    pub(super) steps: Vec<PreparedStep>,
    pub(super) inner_rules: Vec<InnerRule>,
    pub(super) ruleset: OwnedFd,
    pub(super) landlock_flags: u32,
    pub(super) filter: Vec<Instruction>,
    pub(super) rlimits: Vec<Rlimit>,
    pub(super) switch_to: Option<(u32, u32)>,
    pub(super) uid_map: Vec<u8>,
    pub(super) gid_map: Vec<u8>,
    pub(super) hostname: Vec<u8>,
    /// The launcher's own `oom_score_adj`, which init keeps.
    pub(super) oom_score: Vec<u8>,
    pub(super) umask: u32,
    pub(super) cwd: CString,
    pub(super) programs: Vec<CString>,
    pub(super) argv: CStringArray,
    pub(super) envp: CStringArray,
    pub(super) resources: Resources,
    /// Init's end of the conversation with the launcher.
    pub(super) init_end: OwnedFd,
    /// The launcher's end.
    pub(super) launcher_end: OwnedFd,
}

/// Prepares a plan. On the nested tier this also writes the script into the private directory.
pub(crate) fn prepare(
    policy: &Policy,
    plan: &Plan,
    program: &Program,
    resources: Resources,
) -> Result<PreparedJail, PrepareError> {
    let (programs, argv) = command(policy, program)?;
    if policy.tier == Tier::Nested
        && let Some(script) = &resources.script
    {
        place_script(script, &nested_script(policy))?;
    }
    let env = policy
        .env
        .iter()
        .map(|(name, value)| CString::new(format!("{name}={value}")));
    let (launcher_end, init_end) = socket::seqpacket_pair()?;
    socket::set_nonblocking(launcher_end.as_fd())?;
    let (uid, gid) = (nix::unistd::geteuid(), nix::unistd::getegid());
    Ok(PreparedJail {
        tier: plan.tier,
        net: plan.net,
        steps: PreparedStep::all(&plan.mounts)?,
        inner_rules: inner_rules(&plan.landlock)?,
        ruleset: ruleset::build(&plan.landlock)?,
        landlock_flags: if plan.landlock.abi >= 7 {
            crate::sys::landlock::LOG_NEW_EXEC
        } else {
            0
        },
        filter: plan.seccomp.clone(),
        rlimits: plan
            .rlimits
            .iter()
            .map(|limit| narrowed(*limit))
            .collect::<Result<_, _>>()?,
        switch_to: plan.switch_to,
        uid_map: format!("{uid} {uid} 1").into_bytes(),
        gid_map: format!("{gid} {gid} 1").into_bytes(),
        hostname: plan.hostname.clone().into_bytes(),
        oom_score: std::fs::read("/proc/self/oom_score_adj").unwrap_or_default(),
        umask: plan.umask,
        cwd: c_path(&policy.cwd)?,
        programs,
        argv: CStringArray::new(argv),
        envp: CStringArray::new(env.collect::<Result<_, _>>()?),
        resources,
        init_end,
        launcher_end,
    })
}

impl PreparedJail {
    /// Directory of the control group to clone init into.
    pub(super) fn group(&self) -> Option<BorrowedFd<'_>> {
        self.resources.entry.cloned().map(AsFd::as_fd)
    }

    /// Namespaces to clone into. The cgroup namespace comes later: its root is the group in which the
    /// process that makes it is.
    pub(super) fn clone_flags(&self) -> libc::c_int {
        if self.tier == Tier::Nested {
            return 0;
        }
        let mut flags =
            libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        if self.tier == Tier::Rootless {
            flags |= libc::CLONE_NEWUSER;
        }
        if self.net == NetMode::None {
            flags |= libc::CLONE_NEWNET;
        }
        flags
    }
}

/// The layer behind each kind of preparation error, for a refusal that names it.
impl PrepareError {
    /// The layer that could not be prepared, if it was one.
    pub(crate) fn layer(&self) -> Option<Layer> {
        match self {
            Self::Ruleset(_) => Some(Layer::Landlock),
            Self::Nul(_) | Self::System(_) | Self::Script { .. } | Self::NoBash => None,
        }
    }
}

pub(super) fn c_path(path: &Path) -> Result<CString, NulError> {
    CString::new(path.as_os_str().as_bytes())
}

/// The same path, relative to the new root.
pub(super) fn c_relative(path: &Path) -> Result<CString, NulError> {
    let relative = path.strip_prefix("/").unwrap_or(path);
    if relative.as_os_str().is_empty() {
        CString::new(".")
    } else {
        c_path(relative)
    }
}

fn inner_rules(plan: &LandlockPlan) -> Result<Vec<InnerRule>, NulError> {
    plan.inner
        .iter()
        .map(|rule| {
            Ok(InnerRule {
                path: c_relative(&rule.path)?,
                access: ruleset::access_bits(rule.rights, plan.abi),
            })
        })
        .collect()
}

/// The smaller of a limit and the inherited one: a limit never widens.
fn narrowed(limit: Rlimit) -> Result<Rlimit, Errno> {
    let (soft, hard) = getrlimit(limit.resource)?;
    let inherited_soft = if limit.resource == Resource::RLIMIT_NOFILE {
        hard
    } else {
        soft
    };
    Ok(Rlimit {
        resource: limit.resource,
        soft: limit.soft.min(inherited_soft).min(hard),
        hard: limit.hard.min(hard),
    })
}

fn nested_script(policy: &Policy) -> PathBuf {
    policy.tmp.join("script")
}

fn place_script(script: &OwnedFd, path: &Path) -> Result<(), PrepareError> {
    let failed = |source| PrepareError::Script {
        path: path.to_owned(),
        source,
    };
    let file = std::fs::File::create_new(path).map_err(failed)?;
    // Not by the shared offset, which may stand anywhere.
    files::copy(script.as_fd(), file.as_fd()).map_err(|errno| failed(errno.into()))
}

/// The programs to try in order, and the arguments.
fn command(
    policy: &Policy,
    program: &Program,
) -> Result<(Vec<CString>, Vec<CString>), PrepareError> {
    match program {
        Program::Script => {
            let bash = ["/usr/bin/bash", "/bin/bash", "/usr/local/bin/bash"]
                .into_iter()
                .find(|path| Path::new(path).exists())
                .ok_or(PrepareError::NoBash)?;
            let script = if policy.tier == Tier::Nested {
                nested_script(policy)
            } else {
                PathBuf::from(crate::plan::SCRIPT)
            };
            Ok((
                vec![CString::new(bash)?],
                vec![CString::new("bash")?, c_path(&script)?],
            ))
        }
        Program::Argv(argv) => {
            let argv: Vec<CString> = argv
                .iter()
                .map(|arg| CString::new(arg.as_slice()))
                .collect::<Result<_, _>>()?;
            let name = argv.first().map(CString::as_bytes).unwrap_or_default();
            Ok((candidates(policy, name)?, argv))
        }
    }
}

/// A name with a slash is a path; any other is looked up in the jail's PATH, by trying, since only the
/// jail knows what is there.
fn candidates(policy: &Policy, name: &[u8]) -> Result<Vec<CString>, NulError> {
    if name.contains(&b'/') {
        return Ok(vec![CString::new(name)?]);
    }
    let path = policy
        .env
        .get("PATH")
        .map_or("/usr/bin:/bin", String::as_str);
    path.split(':')
        .filter(|dir| dir.starts_with('/'))
        .map(|dir| c_path(&Path::new(dir).join(OsStr::from_bytes(name))))
        .collect()
}
