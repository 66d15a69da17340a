//! Which directories a request may name.

use super::*;

#[test]
fn only_a_directory_of_ones_own_can_be_a_workspace() {
    for (path, fine) in [
        ("/home/dev/project", true),
        ("/tmp/x", true),
        ("/var/tmp/x", true),
        ("/opt/app", true),
        ("/srv/app", true),
        ("/workspace", true),
        ("/root/x", true),
        ("/home/dev/.config/x", true),
        ("/", false),
        ("", false),
        ("relative", false),
        ("/home/dev", false),
        ("/home/dev/", false),
        ("/home", false),
        ("/home/dev/project/", false),
        ("/home/dev/../dev/project", false),
        ("/home/dev//project", false),
        ("/home/dev/./project", false),
        ("/tmp", false),
        ("/var/tmp", false),
        ("/var", false),
        ("/var/lib", false),
        ("/var/lib/app", false),
        ("/usr/local/app", false),
        ("/etc", false),
        ("/etc/x", false),
        ("/dev/shm/x", false),
        ("/proc/1/root/home/dev/project", false),
        ("/run/user/1000/x", false),
        ("/nix/store/x", false),
        ("/root", false),
        ("/srv/agentd", false),
        ("/srv/agentd/state", false),
        ("/srv/agentd/state/x", false),
        ("/srv", false),
    ] {
        let result = decide(|invocation, _| invocation.workspace = PathBuf::from(path));
        assert_eq!(result.is_ok(), fine, "{path:?}: {:?}", result.err());
    }
}

#[test]
fn a_home_below_var_can_hold_workspaces() {
    let result = decide(|invocation, facts| {
        facts.home = PathBuf::from("/var/home/dev");
        invocation.workspace = PathBuf::from("/var/home/dev/project");
    });
    result.unwrap();
}

#[test]
fn a_workspace_of_somebody_else_is_refused_unless_root_asks() {
    let foreign = |uid| {
        decide(|invocation, facts| {
            facts.workspace_uid = 1001;
            invocation.caller = Caller { uid, gid: uid };
        })
    };
    assert!(matches!(foreign(1000), Err(Refusal::BadWorkspace { .. })));
    foreign(0).unwrap();
    // A launcher that is not root runs commands as itself, whoever asks.
    let rootless = decide(|invocation, facts| {
        *facts = HostFacts {
            workspace_uid: 0,
            ..super::facts(Tier::Rootless)
        };
        invocation.caller = Caller { uid: 0, gid: 0 };
    });
    assert!(matches!(rootless, Err(Refusal::BadWorkspace { .. })));
}

#[test]
fn the_working_directory_must_be_readable() {
    for (cwd, fine) in [
        ("/home/dev/project/src", true),
        ("/usr/share", true),
        ("/tmp/x", true),
        ("/home/dev", false),
        ("/home/dev/project/../..", false),
        ("/", false),
        ("src", false),
        ("/home/dev/project-2", false),
    ] {
        let result = decide(|invocation, _| invocation.cwd = Some(PathBuf::from(cwd)));
        assert_eq!(result.is_ok(), fine, "{cwd}");
    }
}
