//! Private directories that launchers before this one left behind: a launcher that is killed cannot
//! clean up. Only on the nested tier; elsewhere private directories end with their mount namespace.

use std::{
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

/// Where private directories are made.
pub(crate) const PARENT: &str = "/tmp";

/// The private directory of an execution. Its name says whose it is.
pub(crate) fn private_dir(launcher: u32, exec: u64) -> PathBuf {
    Path::new(PARENT).join(format!("agentd-{launcher}-{exec}"))
}

/// Removes the directories of this user's launchers that are gone.
pub(crate) fn sweep(parent: &Path, uid: u32) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(launcher) = name.to_str().and_then(launcher_of) else {
            continue;
        };
        // Not following links: somebody else may have made one of this name in a shared directory.
        let ours = entry
            .metadata()
            .is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
        let gone = !Path::new("/proc").join(launcher.to_string()).exists();
        if ours && gone {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The pid in the name of a private directory.
fn launcher_of(name: &str) -> Option<u32> {
    let (launcher, exec) = name.strip_prefix("agentd-")?.split_once('-')?;
    exec.parse::<u64>().ok()?;
    launcher.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above the largest pid of any kernel.
    const NOBODY: u32 = 4_194_305;

    #[test]
    fn only_directories_of_launchers_that_are_gone_are_removed() {
        let own = std::process::id();
        let parent = std::env::temp_dir().join(format!("stale-{own}"));
        let names = [
            (format!("agentd-{NOBODY}-1"), false),
            (format!("agentd-{own}-1"), true),
            (format!("agentd-demo-{NOBODY}"), true),
            (format!("agentd-{NOBODY}-x"), true),
            (format!("other-{NOBODY}-1"), true),
        ];
        for (name, _) in &names {
            fs::create_dir_all(parent.join(name).join("deep")).unwrap();
        }
        let uid = fs::metadata(&parent).unwrap().uid();
        sweep(&parent, uid.wrapping_add(1)).unwrap();
        assert!(
            parent.join(&names[0].0).exists(),
            "it belongs to another user"
        );
        sweep(&parent, uid).unwrap();
        for (name, stays) in &names {
            assert_eq!(parent.join(name).exists(), *stays, "{name}");
        }
        fs::remove_dir_all(parent).unwrap();
    }
}
