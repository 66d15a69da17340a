//! A world for one test: a directory with a home and a workspace that belong to the user of its mode.

use std::{
    env,
    ffi::OsString,
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use super::{
    binaries,
    mode::Mode,
    program::Program,
    survivors::{Process, processes_with},
};

/// A home, a workspace and a kind of host. Dropping it removes the directory.
#[derive(Debug)]
pub struct World {
    /// Kind of host.
    pub mode: Mode,
    /// Directory of everything; readable by all.
    pub base: PathBuf,
    /// Home of the user.
    pub home: PathBuf,
    /// Workspace of the user.
    pub workspace: PathBuf,
    /// A word that no other test's processes carry.
    pub mark: String,
    runs: AtomicU32,
}

impl World {
    /// A new world on this kind of host.
    pub fn new(mode: Mode) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("w{}n{number}", std::process::id());
        let base = env::temp_dir().join(format!("agentd-test-{mark}"));
        let (home, workspace) = (base.join("home"), base.join("workspace"));
        for directory in [&base, &home, &workspace] {
            fs::create_dir(directory).expect("a fresh directory");
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("a mode");
        }
        for directory in [&home, &workspace] {
            chown(directory, Some(mode.uid()), Some(mode.uid())).expect("an owner");
        }
        Self {
            mode,
            base,
            home,
            workspace,
            mark,
            runs: AtomicU32::new(0),
        }
    }

    /// Writes a file into the workspace, owned by the user.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.workspace.join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).expect("its directory");
            self.give(parent);
        }
        fs::write(&path, text).expect("a file in the workspace");
        self.give(&path);
        path
    }

    /// Makes the user the owner of a path.
    pub fn give(&self, path: &Path) {
        chown(path, Some(self.mode.uid()), Some(self.mode.uid())).expect("an owner");
    }

    /// Any program as the user of this world, in the workspace, with a small environment.
    pub fn program(&self, program: impl Into<OsString>) -> Program {
        let mut command = self.mode.command(&program.into());
        command.env_clear().current_dir(&self.workspace);
        command.env("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
        command.env("HOME", &self.home).env("LANG", "C.UTF-8");
        command.env("RUST_BACKTRACE", "0");
        command.stdin(std::process::Stdio::null());
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        Program {
            command,
            log: self.base.join(format!("run{run}")),
        }
    }

    /// `agent-cli` with its private embedded daemon, in the workspace.
    pub fn cli<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Program {
        self.program(binaries().join("agent-cli")).args(words)
    }

    /// `agentd`.
    pub fn agentd<S: AsRef<std::ffi::OsStr>>(&self, words: impl IntoIterator<Item = S>) -> Program {
        self.program(binaries().join("agentd")).args(words)
    }

    /// `agent-cli exec` of one bash script, given as a file so that no argument holds its text.
    pub fn exec(&self, options: &[&str], script: &str) -> Program {
        let run = self.runs.fetch_add(1, Ordering::Relaxed);
        let path = self.base.join(format!("script{run}"));
        fs::write(&path, script).expect("the script");
        self.cli(["exec"])
            .args(options)
            .args([OsString::from("--file"), path.into()])
    }

    /// `agent-cli exec --json` of one bash script; the parsed answer.
    #[track_caller]
    pub fn exec_json(&self, options: &[&str], script: &str) -> serde_json::Value {
        let options: Vec<&str> = ["--json"].iter().chain(options).copied().collect();
        self.exec(&options, script).run().json()
    }

    /// Every process that belongs to this world: commands, their supervisors, daemons.
    pub fn everything(&self) -> Vec<Process> {
        processes_with(&self.mark)
    }

    /// Processes of commands in this world; agentd and its launcher do not count.
    pub fn processes(&self) -> Vec<Process> {
        let mut all = self.everything();
        all.retain(|process| {
            !matches!(
                process.name.as_str(),
                "agentd" | "agentd-launcher" | "agentd-init" | "agentd-janitor" | "agentd-remover"
            )
        });
        all
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if env::var_os("AGENTD_TEST_KEEP").is_none() {
            drop(fs::remove_dir_all(&self.base));
        }
    }
}
