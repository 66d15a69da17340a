//! The three kinds of host, each made on the machine at hand.
//!
//! T3: run as root. T2: run without privilege. T1: run without privilege where no user namespace can
//! be made. The last one is made honestly, by the kernel's own limit: a user namespace in which
//! `max_user_namespaces` is 0, entered by processes that then give up every capability. Root maps all
//! ids one to one, so that owners of files look the same inside.

use std::{
    env,
    ffi::OsStr,
    io::{BufRead, BufReader},
    process::{ChildStdin, Command, Stdio},
    sync::OnceLock,
};

use nix::unistd::geteuid;

/// The user that stands for "somebody without privilege" when the tests run as root.
const NOBODY: u32 = 65534;

/// A kind of host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Root: tier T3.
    Root,
    /// No privilege, user namespaces available: tier T2.
    Rootless,
    /// No privilege, no user namespaces: tier T1.
    Nested,
}

/// Makes the namespace of T1 and stays in it until standard input closes; `ready` says that it stands.
/// A grandchild writes the maps from outside, where the right to do so is.
const MAKE_AS_ROOT: &str = r#"
here=$(readlink /proc/self/ns/user)
(
  exec </dev/null >/dev/null 2>&1
  while [ "$(readlink "/proc/$$/ns/user")" = "$here" ]; do :; done
  echo '0 0 4294967295' >"/proc/$$/gid_map"
  echo '0 0 4294967295' >"/proc/$$/uid_map"
) &
exec unshare --user bash -c '
  until [ -n "$(cat /proc/self/uid_map)" ]; do :; done
  exec bash -c "echo 0 >/proc/sys/user/max_user_namespaces; echo ready; exec cat"'
"#;

/// Without privilege only the own id can be mapped; everybody else's files look like nobody's.
const MAKE_AS_USER: &str = r#"
exec unshare --user --map-user="$(id -u)" --map-group="$(id -g)" --keep-caps bash -c '
  echo 0 >/proc/sys/user/max_user_namespaces; echo ready; exec cat'
"#;

/// The process that holds the namespace of T1. All of T1's processes share it, as they would on a real
/// host; it ends when the test process, which holds its input, ends.
struct Holder {
    pid: String,
    _input: ChildStdin,
}

fn holder() -> Result<&'static str, String> {
    static HOLDER: OnceLock<Result<Holder, String>> = OnceLock::new();
    let made = HOLDER.get_or_init(|| {
        let script = if geteuid().is_root() {
            MAKE_AS_ROOT
        } else {
            MAKE_AS_USER
        };
        let mut command = Command::new("bash");
        command
            .args(["-euc", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut line = String::new();
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(|error| error.to_string())?;
        if line != "ready\n" {
            return Err("a user namespace without further ones cannot be made".to_owned());
        }
        Ok(Holder {
            pid: child.id().to_string(),
            _input: child.stdin.take().ok_or("no input")?,
        })
    });
    made.as_ref()
        .map(|holder| holder.pid.as_str())
        .map_err(Clone::clone)
}

impl Mode {
    /// All kinds of host.
    pub const ALL: [Self; 3] = [Self::Root, Self::Rootless, Self::Nested];

    /// The tier that the product must report there.
    pub fn tier(self) -> &'static str {
        match self {
            Self::Root => "T3",
            Self::Rootless => "T2",
            Self::Nested => "T1",
        }
    }

    /// The uid that starts the programs.
    pub fn uid(self) -> u32 {
        match self {
            Self::Root => 0,
            Self::Rootless | Self::Nested if geteuid().is_root() => NOBODY,
            Self::Rootless | Self::Nested => geteuid().as_raw(),
        }
    }

    /// A command that runs on this kind of host. The environment is left as it is.
    pub fn command(self, program: &OsStr) -> Command {
        let words = self.entrance();
        let Some((first, rest)) = words.split_first() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }

    /// What stands before a command to run it on this kind of host.
    fn entrance(self) -> Vec<String> {
        let mut words = Vec::new();
        if self == Self::Nested {
            let pid = holder().expect("only possible kinds of host are used");
            words.push(format!(
                "nsenter --preserve-credentials --user --target {pid} --"
            ));
        }
        // Entering as oneself, the first `exec` takes every capability away; root must give them up.
        if geteuid().is_root() && self != Self::Root {
            let uid = self.uid();
            words.push(format!(
                "setpriv --reuid {uid} --regid {uid} --clear-groups"
            ));
            if self == Self::Nested {
                words.push("--bounding-set=-all --inh-caps=-all --ambient-caps=-all".to_owned());
            }
            words.push("--".to_owned());
        }
        let line = words.join(" ");
        line.split_whitespace().map(str::to_owned).collect()
    }

    /// Whether this machine and user can make this kind of host. Controls: a user namespace can be
    /// made for T2, and cannot for T1.
    fn probe(self) -> Result<(), String> {
        if self == Self::Root && !geteuid().is_root() {
            return Err("needs root".to_owned());
        }
        let unshare = |mode: Self| {
            let mut command = mode.command(OsStr::new("unshare"));
            command.args(["--user", "true"]);
            let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
            status.is_ok_and(|status| status.success())
        };
        let runs = |mode: Self| {
            let status = mode.command(OsStr::new("true")).status();
            status.is_ok_and(|status| status.success())
        };
        let fault = |reason: &str| Err(reason.to_owned());
        match self {
            Self::Rootless if !unshare(self) => fault("user namespaces are not available"),
            Self::Nested => match holder() {
                Err(reason) => Err(reason),
                Ok(_) if !runs(self) => fault("nsenter or setpriv fails"),
                Ok(_) if unshare(self) => fault("user namespaces can still be made"),
                Ok(_) => Ok(()),
            },
            Self::Root | Self::Rootless => Ok(()),
        }
    }

    /// The kinds of host that this machine and user can make. As root in CI it must be all of them.
    pub fn possible() -> &'static [Self] {
        static POSSIBLE: OnceLock<Vec<Mode>> = OnceLock::new();
        POSSIBLE.get_or_init(|| {
            let strict = env::var_os("CI").is_some() && geteuid().is_root();
            Self::ALL
                .into_iter()
                .filter(|mode| match mode.probe() {
                    Ok(()) => true,
                    Err(reason) => {
                        assert!(!strict, "{mode:?} must be possible in CI as root: {reason}");
                        eprintln!("SKIPPED: {mode:?} ({}): {reason}", mode.tier());
                        false
                    }
                })
                .collect()
        })
    }
}

/// The same for tests that mostly wait: all kinds of host at once.
pub fn in_every_mode_at_once(test: impl Fn(Mode) + Sync) {
    let modes = Mode::possible();
    assert!(!modes.is_empty(), "no kind of host is possible here");
    let failed: Vec<_> = std::thread::scope(|scope| {
        let test = &test;
        let started: Vec<_> = modes
            .iter()
            .map(|mode| (*mode, scope.spawn(move || test(*mode))))
            .collect();
        let ended = started.into_iter().map(|(mode, run)| (mode, run.join()));
        ended
            .filter_map(|(mode, end)| Some((mode, end.err()?)))
            .collect()
    });
    for (mode, _) in &failed {
        eprintln!("FAILED on {mode:?} ({})", mode.tier());
    }
    if let Some((_, cause)) = failed.into_iter().next() {
        std::panic::resume_unwind(cause);
    }
}

/// Runs a test once per possible kind of host, and says which one failed.
pub fn in_every_mode(test: impl Fn(Mode)) {
    let modes = Mode::possible();
    assert!(!modes.is_empty(), "no kind of host is possible here");
    for mode in modes {
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(*mode)));
        if let Err(cause) = failed {
            eprintln!("FAILED on {mode:?} ({})", mode.tier());
            std::panic::resume_unwind(cause);
        }
    }
}
