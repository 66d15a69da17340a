//! Where cases are tried: one daemon per kind of host, and fresh directories per run.

use std::{
    fs,
    os::unix::fs::{PermissionsExt, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use agentd_tests::harness::{Daemon, Mode, Running, World};
use nix::unistd::geteuid;
use serde_json::Value;

use crate::case::{Case, Nested, ORIGINAL, PROFILES};

const PRELUDE: &str = include_str!("probe.py");
/// What `@SECRET@` files hold.
pub(crate) const SESAME: &str = "open-sesame-4711";

/// One daemon and one process of the same user that an attack may aim at.
pub(crate) struct Arena {
    mode: Mode,
    host: World,
    daemon: Daemon,
    sibling: Running,
    python: PathBuf,
}

/// The places of one run.
pub(crate) struct Places {
    /// The world: its workspace is the command's.
    pub(crate) world: World,
    /// A directory of the user that the jail does not show; holds `target` and `secret`.
    pub(crate) outside: PathBuf,
    /// A directory of the user that the profiles let commands read; holds `target`.
    pub(crate) visible: PathBuf,
    sibling: i32,
    daemon: i32,
    socket: PathBuf,
}

impl Arena {
    /// Starts a daemon and a sibling process on this kind of host.
    pub(crate) fn new(mode: Mode) -> Self {
        let host = World::new(mode);
        let daemon = Daemon::start(&host);
        let sleep = host
            .program("sleep")
            .args(["600"])
            .env("PROBE_SECRET", SESAME);
        let sibling = sleep.start();
        let python = python();
        Self {
            mode,
            host,
            daemon,
            sibling,
            python,
        }
    }

    /// Fails unless the daemon still answers and the sibling still lives.
    pub(crate) fn daemon_is_alive(mut self) {
        assert!(
            self.daemon.is_running(),
            "the daemon died: {}",
            self.daemon.log()
        );
        assert!(self.sibling.try_wait().is_none(), "the sibling died");
        self.daemon
            .cli(&self.host, &["status"])
            .run()
            .expect_code(0);
    }

    /// Tries a case under every profile; returns what went wrong.
    pub(crate) fn judge(&self, case: &Case) -> Vec<String> {
        let mut failures = Vec::new();
        if case.has_control(self.mode) {
            failures.extend(self.control(case).err());
        }
        for profile in PROFILES {
            // The nested tier cannot carry it; that it is refused there has a test of its own.
            if profile == "strict" && self.mode == Mode::Nested {
                continue;
            }
            failures.extend(self.inside(case, profile).err());
        }
        failures
    }

    /// Outside the jail, as the same user, the attack must succeed.
    fn control(&self, case: &Case) -> Result<(), String> {
        let places = self.places();
        (case.prepare)(&places);
        let script = format!("{}\n{}", case.before_control, self.script(case));
        let path = places.world.base.join("control.sh");
        fs::write(&path, places.fill(&script)).expect("the control");
        let ended = places.world.program("bash").args([&path]).run();
        if ended.stdout.lines().any(|line| line == "DONE") {
            return Ok(());
        }
        Err(format!(
            "{} ({}): the control does not succeed, so the case is vacuous: {ended:?}",
            case.id, case.name
        ))
    }

    fn inside(&self, case: &Case, profile: &str) -> Result<(), String> {
        let places = self.places();
        (case.prepare)(&places);
        let path = places.world.base.join("attack.sh");
        fs::write(&path, places.fill(&self.script(case))).expect("the attack");
        let file = path.to_string_lossy();
        let words = [
            "--profile",
            profile,
            "exec",
            "--json",
            "--timeout",
            "20s",
            "--file",
            &file,
        ];
        let ended = self.daemon.cli(&places.world, &words).run();
        let place = format!("{} ({}) under {profile}", case.id, case.name);
        let achieved = (case.after)(&places);
        let Ok(answer) = serde_json::from_str::<Value>(&ended.stdout) else {
            let nothing_ran = ended.code == 125 && ended.stderr.lines().count() == 1;
            return match (&achieved, case.refused_by.contains(&"SETUP") && nothing_ran) {
                (Ok(()), true) => Ok(()),
                _ => Err(format!(
                    "{place}: no result: {ended:?}, afterwards {achieved:?}"
                )),
            };
        };
        let verdict = verdict(case, &answer);
        match (&verdict, &achieved) {
            (Ok(()), Ok(())) => Ok(()),
            _ if self.lacks_openly(case, &answer) => Ok(()),
            _ => Err(format!(
                "{place}: {verdict:?}, afterwards {achieved:?}; {}",
                brief(&answer)
            )),
        }
    }

    fn lacks_openly(&self, case: &Case, answer: &Value) -> bool {
        let Nested::MayLack(layers) = case.nested else {
            return false;
        };
        let degraded = answer["sandbox"]["degraded"].as_array();
        let named = degraded.into_iter().flatten().any(|entry| {
            let layer = entry["layer"].as_str().unwrap_or_default();
            layers.contains(&layer)
                && entry["guarantee"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
        });
        self.mode == Mode::Nested && named
    }

    fn script(&self, case: &Case) -> String {
        let indented: Vec<String> = case
            .attack
            .lines()
            .map(|line| format!("    {line}"))
            .collect();
        let body = indented.join("\n");
        let python = self.python.display();
        format!(
            "{python} -I - <<'END_OF_PROBE'\n{PRELUDE}\ndef attack():\n{body}\nmain()\nEND_OF_PROBE\n"
        )
    }

    /// Fresh directories for one run.
    pub(crate) fn places(&self) -> Places {
        let world = World::new(self.mode);
        let outside = world.base.join("outside");
        let visible = if geteuid().is_root() {
            // Profiles let commands read /opt.
            Path::new("/opt").join(format!("agentd-test-{}", world.mark))
        } else {
            // … and tools in the home; but only `workspace` and `read-only` do.
            world.home.join(".local/lib/agentd-test")
        };
        for directory in [&outside, &visible] {
            fs::create_dir_all(directory).expect("a directory");
            fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).expect("a mode");
            fs::write(directory.join("target"), ORIGINAL).expect("a target");
            give(&world, directory);
            give(&world, &directory.join("target"));
        }
        let secret = outside.join("secret");
        fs::write(&secret, SESAME).expect("a secret");
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).expect("a mode");
        give(&world, &secret);
        Places {
            world,
            outside,
            visible,
            sibling: self.sibling.pid(),
            daemon: self.daemon.pid(),
            socket: self.daemon.socket.clone(),
        }
    }

    /// The kind of host.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// The daemon.
    pub(crate) fn daemon(&self) -> &Daemon {
        &self.daemon
    }
}

impl Places {
    /// Puts places into a text.
    pub(crate) fn fill(&self, text: &str) -> String {
        let path = |path: &Path| path.to_string_lossy().into_owned();
        let shadow = Path::new("/etc/shadow");
        let root = self.world.mode == Mode::Root && shadow.exists();
        let secret = if root {
            path(shadow)
        } else {
            path(&self.outside.join("secret"))
        };
        [
            ("@SECRET@", secret),
            ("@SESAME@", SESAME.to_owned()),
            ("@OUTSIDE@", path(&self.outside)),
            ("@VISIBLE@", path(&self.visible)),
            ("@HOME@", path(&self.world.home)),
            ("@WORKSPACE@", path(&self.world.workspace)),
            ("@SIBLING@", self.sibling.to_string()),
            ("@DAEMON@", self.daemon.to_string()),
            ("@SOCKET@", path(&self.socket)),
        ]
        .iter()
        .fold(text.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        })
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.visible));
    }
}

/// What the probe said inside. A probe that says nothing is a failure, except when seccomp killed it
/// with SIGSYS.
fn verdict(case: &Case, answer: &Value) -> Result<(), String> {
    if answer["stdout"]
        .as_str()
        .is_some_and(|text| text.contains(SESAME))
    {
        return Err("the secret was printed".to_owned());
    }
    if answer["reason"] == "signaled" && answer["signal"] == 31 {
        return Ok(());
    }
    let stdout = answer["stdout"].as_str().unwrap_or_default();
    let words: Vec<&str> = stdout
        .lines()
        .last()
        .unwrap_or_default()
        .split(' ')
        .collect();
    match words.as_slice() {
        ["REFUSED", why] if case.refused_by.contains(why) => Ok(()),
        ["REFUSED", why] => Err(format!("refused by {why}, expected {:?}", case.refused_by)),
        ["DONE"] if case.undone_afterwards && names_the_tripwire(answer) => Ok(()),
        ["DONE"] => Err("the attack succeeded".to_owned()),
        other => Err(format!("the probe says nothing: {other:?}")),
    }
}

fn names_the_tripwire(answer: &Value) -> bool {
    let denials = answer["denials"].as_array();
    denials
        .into_iter()
        .flatten()
        .any(|denial| denial["layer"] == "tripwire")
}

fn brief(answer: &Value) -> String {
    let part = |key: &str| {
        answer[key]
            .to_string()
            .chars()
            .take(400)
            .collect::<String>()
    };
    format!(
        "reason {} exit {} stdout {} stderr {}",
        part("reason"),
        part("exit_code"),
        part("stdout"),
        part("stderr")
    )
}

fn give(world: &World, path: &Path) {
    chown(path, Some(world.mode.uid()), Some(world.mode.uid())).expect("an owner");
}

/// A Python that every profile lets commands run.
fn python() -> PathBuf {
    let found = ["/usr/bin/python3", "/usr/local/bin/python3"]
        .into_iter()
        .map(PathBuf::from);
    let python = found.into_iter().find(|path| path.exists());
    python.expect("the escape suite needs python3 in /usr/bin: apt-get install python3")
}

/// How long a hostile exec may take at most before the suite calls it stuck.
pub(crate) const STUCK: Duration = Duration::from_secs(30);
