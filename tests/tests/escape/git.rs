//! Files of the workspace that run code later, outside the jail: cases 13 to 18.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::{
    arena::Places,
    case::{Case, Control, ORIGINAL, unchanged},
    judge,
};

const CARVED: &[&str] = &[
    "SETUP", "EROFS", "EACCES", "EPERM", "EBUSY", "EXDEV", "ENOENT",
];
/// Without mounts nothing can be carved out of a directory that may be written.
const MOUNTS: &[&str] = &["mount-namespace", "own-root", "tripwire"];

fn hook(places: &Places) -> PathBuf {
    places.world.workspace.join(".git/hooks/pre-commit")
}

/// A repository with a hook and a configuration.
fn repository(places: &Places) {
    places.world.file(".git/HEAD", "ref: refs/heads/main\n");
    places.world.file(".git/config", ORIGINAL);
    places.world.file(".git/hooks/pre-commit", ORIGINAL);
    places.world.file("evil/pre-commit", "#!/bin/sh\n");
    for directory in [".git", ".git/hooks", "evil"] {
        places.world.give(&places.world.workspace.join(directory));
    }
}

/// A repository without hooks.
fn bare_repository(places: &Places) {
    places.world.file(".git/HEAD", "ref: refs/heads/main\n");
    places.world.file(".git/config", ORIGINAL);
}

fn hook_and_config_are_unchanged(places: &Places) -> Result<(), String> {
    unchanged(&hook(places))?;
    unchanged(&places.world.workspace.join(".git/config"))
}

/// A hook where there was none.
const fn made_hook(id: &'static str, name: &'static str, attack: &'static str) -> Case {
    Case::new(id, name, attack)
        .refused_by(CARVED)
        .nested_may_lack(MOUNTS)
        .undone_afterwards()
        .after(no_hook_appeared)
}

fn no_hook_appeared(places: &Places) -> Result<(), String> {
    // What the attack closed would hide the hook from whoever looks, and stay after the tests.
    for directory in [".git", ".git/hooks"].map(|name| places.world.workspace.join(name)) {
        if fs::symlink_metadata(&directory).is_ok_and(|meta| meta.is_dir()) {
            let open = fs::Permissions::from_mode(0o755);
            fs::set_permissions(directory, open).map_err(|error| error.to_string())?;
        }
    }
    match fs::symlink_metadata(hook(places)) {
        Err(_) => Ok(()),
        Ok(_) => Err("a hook appeared".to_owned()),
    }
}

const CASES: &[Case] = &[
    Case::new(
        "13",
        "exchange the hooks with a directory of one's own",
        "check(libc.renameat2(-100, b'evil', -100, b'.git/hooks', 2))",
    )
    .prepare(repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .after(hook_and_config_are_unchanged),
    Case::new(
        "13b",
        "rename .git away and put another one in its place",
        r"
os.rename('.git', 'old')
os.makedirs('.git/hooks')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')",
    )
    .prepare(repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .after(hook_and_config_are_unchanged),
    Case::new(
        "13c",
        "remove the hooks and make them anew",
        r"
shutil.rmtree('.git/hooks')
os.mkdir('.git/hooks')
open('.git/hooks/pre-commit', 'w').close()",
    )
    .prepare(repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .after(hook_and_config_are_unchanged),
    Case::new(
        "15",
        "change a hook",
        "open('.git/hooks/pre-commit', 'w').close()",
    )
    .prepare(repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .after(hook_and_config_are_unchanged),
    Case::new(
        "15b",
        "change the repository's configuration",
        r"
first_that_works([
    lambda: open('.git/config', 'a').write('[core] fsmonitor = evil'),
    lambda: os.replace('evil/pre-commit', '.git/config')])",
    )
    .prepare(repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .after(hook_and_config_are_unchanged),
    Case::new(
        "15c",
        "change a hook through a hard link or a link made before",
        r"
first_that_works([
    lambda: (os.link('.git/hooks/pre-commit', 'alias'), open('alias', 'w').close()),
    lambda: (os.symlink('.git/hooks', 'hooks'), open('hooks/pre-commit', 'w').close())])",
    )
    .prepare(repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .after(hook_and_config_are_unchanged),
    Case::new(
        "16",
        "make a hook where there are none",
        r"
os.makedirs('.git/hooks', exist_ok=True)
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')",
    )
    .prepare(bare_repository)
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .undone_afterwards()
    .after(no_hook_appeared),
    Case::new(
        "16b",
        "make a whole repository with a hook where there is none",
        r"
os.makedirs('.git/hooks')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')",
    )
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .undone_afterwards()
    .after(no_hook_appeared),
    made_hook(
        "16c",
        "make a hook in a directory that is then closed",
        r"
os.makedirs('.git/hooks')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')
os.chmod('.git/hooks', 0o555)
os.chmod('.git', 0o555)",
    ),
    made_hook(
        "16e",
        "make a hook in a directory that nobody may enter",
        r"
os.makedirs('.git/hooks')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')
os.chmod('.git/hooks', 0)
os.chmod('.git', 0)",
    ),
    made_hook(
        "16f",
        "make a hook in a directory that nobody may list",
        r"
os.makedirs('.git/hooks')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')
os.chmod('.git/hooks', 0o111)
os.chmod('.git', 0o111)",
    ),
    made_hook(
        "16g",
        "make a hook in a directory that may only be listed",
        r"
os.makedirs('.git/hooks')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')
os.chmod('.git/hooks', 0o444)
os.chmod('.git', 0o444)",
    ),
    Case::new(
        "16d",
        "make a hook behind a link",
        r"
os.makedirs('real/hooks')
os.symlink('real', '.git')
with open('.git/hooks/pre-commit', 'w') as file:
    file.write('changed')",
    )
    .refused_by(CARVED)
    .nested_may_lack(MOUNTS)
    .undone_afterwards()
    .after(no_hook_appeared),
    Case::new(
        "18",
        "change a hook through another spelling of its name",
        r"
for alias in ('.GIT/hooks', '.git/HOOKS', '.g\u200cit/hooks', 'GIT~1/hooks'):
    try:
        with open(alias + '/pre-commit', 'w') as file:
            file.write('changed')
    except OSError:
        pass
refused('ALIASES')",
    )
    .prepare(repository)
    .refused_by(&["ALIASES"])
    .control(Control::Never(
        "no file system here folds case; the post-condition is still checked",
    ))
    .after(hook_and_config_are_unchanged),
    Case::new(
        "29",
        "write through a protected name that is a link to outside",
        "open('.git/config', 'w').close()",
    )
    .prepare(|places| {
        repository(places);
        let config = places.world.workspace.join(".git/config");
        fs::remove_file(&config).expect("the file goes");
        std::os::unix::fs::symlink(places.outside.join("target"), &config).expect("a link");
    })
    .refused_by(CARVED),
];

#[test]
fn files_that_run_code_later_cannot_be_changed() {
    judge(CASES);
}
