//! `Profile + Invocation + HostFacts → Policy`. Pure and total: the same arguments give the same answer,
//! and a request can only narrow what its profile permits.

use std::path::{Component, Path, PathBuf};

use super::{
    Caller, FsPolicy, HostFacts, Invocation, Policy, Program, Refusal, RuleRef, Tier, availability,
    degrade, environment, exposure, identity, limits, workspace,
};
use crate::profile::{Profile, Variables};

/// Most arguments of a program.
const MOST_ARGUMENTS: usize = 4096;
/// Longest argument in bytes; the kernel takes no longer one.
const LONGEST_ARGUMENT: usize = 128 * 1024 - 1;

/// Decides what `invocation` may do under `profile` on the host that `facts` describes.
///
/// The profile must be the one that the invocation names; the caller looks it up.
pub fn resolve(
    profile: &Profile,
    invocation: &Invocation,
    facts: &HostFacts,
) -> Result<Policy, Refusal> {
    check_form(profile, invocation)?;
    availability::check(profile, facts)?;
    let subject = subject(invocation.caller, facts);
    let home = home(&facts.home)?;
    workspace::check(&invocation.workspace, &home, subject.uid, facts)?;
    let identity = identity::choose(profile, invocation, facts)?;
    let tmp = match facts.tier {
        Tier::Nested => facts.nested_tmp.clone(),
        Tier::Rootless | Tier::HostRoot => PathBuf::from("/tmp"),
    };
    let variables = Variables {
        workspace: &invocation.workspace,
        home: &home,
        tmp: &tmp,
    };
    let fs = exposure::rules(profile, &variables, facts);
    let cwd = match &invocation.cwd {
        Some(cwd) => cwd,
        None => carried_cwd(invocation, &fs, profile).unwrap_or(&invocation.workspace),
    };
    workspace::check_cwd(cwd, &fs, profile)?;
    let cwd = cwd.clone();
    let mut policy = Policy {
        profile: profile.name.clone(),
        digest: profile.digest.clone(),
        tier: facts.tier,
        degraded: Vec::new(),
        cgroup: facts.cgroup.clone(),
        workspace: invocation.workspace.clone(),
        cwd,
        fs,
        identity,
        umask: profile.identity.umask,
        hostname: profile.identity.hostname.clone(),
        net: profile.net,
        syscalls: profile.syscalls,
        limits: limits::clamp(&profile.limits, &invocation.limits, invocation.lifetime)?,
        env: environment::build(&profile.env, invocation, facts, &variables)?,
        sources: profile.sources.clone(),
        session: facts.session.clone(),
        home,
        tmp,
    };
    policy.degraded = degrade::list(&policy, facts);
    Ok(policy)
}

/// The directory that the session carries, when a command may start there.
fn carried_cwd<'request>(
    invocation: &'request Invocation,
    fs: &FsPolicy,
    profile: &Profile,
) -> Option<&'request PathBuf> {
    let carried = invocation.in_session.as_ref()?.carried.cwd.as_ref()?;
    workspace::check_cwd(carried, fs, profile)
        .is_ok()
        .then_some(carried)
}

/// Whose rights count: the caller's, unless the launcher cannot become the caller.
fn subject(caller: Caller, facts: &HostFacts) -> Caller {
    match facts.launcher_uid {
        0 => caller,
        uid => Caller {
            uid,
            gid: facts.launcher_gid,
        },
    }
}

/// The home directory, normalised. One that is the root directory counts as none: `${home}` must not
/// grant everything.
fn home(path: &Path) -> Result<PathBuf, Refusal> {
    let normalised: PathBuf = path.components().collect();
    if path.to_str().is_none() || !is_normalised(&normalised) {
        return Err(Refusal::Malformed(format!(
            "the caller's home directory {} is not an absolute path; correct the user's account",
            path.display()
        )));
    }
    if normalised == Path::new("/") {
        return Ok(PathBuf::from("/nonexistent"));
    }
    Ok(normalised)
}

/// Absolute, and nothing but names between single slashes.
pub(super) fn is_normalised(path: &Path) -> bool {
    let mut components = path.components();
    let rebuilt: PathBuf = path.components().collect();
    components.next() == Some(Component::RootDir)
        && components.all(|component| matches!(component, Component::Normal(_)))
        && rebuilt.as_os_str() == path.as_os_str()
        && !path.as_os_str().as_encoded_bytes().contains(&0)
}

/// The fallback place of a value, for values that no file gives.
pub(super) fn built_in(profile: &Profile) -> RuleRef {
    RuleRef {
        file: profile.file.clone(),
        line: 1,
    }
}

fn check_form(profile: &Profile, invocation: &Invocation) -> Result<(), Refusal> {
    let malformed = |text: &str| Err(Refusal::Malformed(text.to_owned()));
    if profile.name != invocation.profile {
        return Err(Refusal::UnknownProfile {
            name: invocation.profile.clone(),
            known: profile.name.clone(),
        });
    }
    if profile.is_abstract {
        return Err(Refusal::AbstractProfile {
            name: profile.name.clone(),
            known: "see `agentd profile list`".to_owned(),
        });
    }
    if invocation.terminal.is_some_and(|size| !size.is_possible()) {
        return malformed("a terminal has 1 to 4096 columns and rows");
    }
    let Program::Argv(argv) = &invocation.program else {
        return Ok(());
    };
    match argv.first() {
        None => return malformed("the argument list is empty; give a program"),
        Some(program) if program.is_empty() => {
            return malformed("the program name is empty; give a name or a path");
        }
        Some(_) => {}
    }
    if argv.len() > MOST_ARGUMENTS {
        return malformed("more than 4096 arguments; pass a list in a file or a script");
    }
    if argv
        .iter()
        .any(|argument| argument.len() > LONGEST_ARGUMENT)
    {
        return malformed("an argument is longer than 128 KiB; pass it in a file or a script");
    }
    if argv.iter().any(|argument| argument.contains(&0)) {
        return malformed("an argument holds a NUL byte; pass such data in a file");
    }
    Ok(())
}
