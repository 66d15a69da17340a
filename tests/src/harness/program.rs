//! One program run: its output goes to files, so that nothing it leaves behind can hold the test up.

use std::{
    fs::{self, File},
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use super::wait::wait_until;

/// What a test waits for at most when it says nothing else.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program about to be started.
#[derive(Debug)]
pub struct Program {
    pub(super) command: Command,
    pub(super) log: PathBuf,
}

/// A started program.
#[derive(Debug)]
pub struct Running {
    child: Child,
    log: PathBuf,
    started: Instant,
}

/// A program that ended.
#[derive(Debug, Clone)]
pub struct Ended {
    /// Exit code, or 128 + signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Wall-clock time.
    pub elapsed: Duration,
}

impl Program {
    /// Adds arguments.
    #[must_use]
    pub fn args<S: AsRef<std::ffi::OsStr>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.command.args(words);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Sets the working directory.
    #[must_use]
    pub fn current_dir(mut self, directory: &std::path::Path) -> Self {
        self.command.current_dir(directory);
        self
    }

    /// Feeds these bytes on standard input.
    #[must_use]
    pub fn stdin(mut self, bytes: &[u8]) -> Self {
        let path = self.log.with_extension("in");
        fs::write(&path, bytes).expect("the input file");
        self.command
            .stdin(File::open(path).expect("the input file"));
        self
    }

    /// Keeps standard input open as a pipe.
    #[must_use]
    pub fn piped(mut self) -> Self {
        self.command.stdin(Stdio::piped());
        self
    }

    /// Starts it.
    pub fn start(mut self) -> Running {
        let stream = |name| File::create(self.log.with_extension(name)).expect("a log file");
        self.command.stdout(stream("out")).stderr(stream("err"));
        let child = self.command.spawn();
        Running {
            child: child.unwrap_or_else(|error| panic!("{:?}: {error}", self.command)),
            log: self.log,
            started: Instant::now(),
        }
    }

    /// Starts it and waits for its end, for at most a minute.
    pub fn run(self) -> Ended {
        self.start().wait(PATIENCE)
    }
}

impl Running {
    /// Process id.
    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Standard input, when it was asked for.
    pub fn input(&mut self) -> &mut std::process::ChildStdin {
        self.child.stdin.as_mut().expect("a piped standard input")
    }

    /// Closes standard input.
    pub fn close_input(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Standard output so far.
    pub fn stdout(&self) -> String {
        self.read("out")
    }

    /// Standard error so far.
    pub fn stderr(&self) -> String {
        self.read("err")
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.pid()), signal).expect("the process takes signals");
    }

    /// Waits until standard output holds this text.
    pub fn wait_for_stdout(&self, text: &str) {
        let seen = wait_until(PATIENCE, || self.stdout().contains(text));
        assert!(
            seen,
            "no {text:?} in {:?}; stderr: {}",
            self.stdout(),
            self.stderr()
        );
    }

    /// Whether it has ended, and how.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end. A program that is still there after the deadline is killed and is a failure.
    pub fn wait(mut self, deadline: Duration) -> Ended {
        let mut status = None;
        let ended = wait_until(deadline, || {
            status = self.try_wait();
            status.is_some()
        });
        let elapsed = self.started.elapsed();
        assert!(
            ended,
            "still running after {deadline:?}\nstdout: {}\nstderr: {}",
            self.stdout(),
            self.stderr()
        );
        let status = status.expect("it has ended");
        let by_signal = status.signal().map(|signal| 128 + signal);
        Ended {
            code: status.code().or(by_signal).expect("a code or a signal"),
            stdout: self.stdout(),
            stderr: self.stderr(),
            elapsed,
        }
    }

    fn read(&self, name: &str) -> String {
        let bytes = fs::read(self.log.with_extension(name)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

impl Ended {
    /// Standard output as one JSON object.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!("no JSON ({error}), exit {}: {self:?}", self.code);
        })
    }

    /// Fails unless it ended with this code.
    #[track_caller]
    pub fn expect_code(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Fails unless there was exactly one line on standard error, holding these words, and no panic.
    #[track_caller]
    pub fn expect_one_line(&self, words: &[&str]) -> &Self {
        let lines: Vec<&str> = self
            .stderr
            .lines()
            .filter(|line| !line.is_empty())
            .collect();
        assert_eq!(lines.len(), 1, "one line expected: {self:?}");
        for word in words {
            assert!(lines[0].contains(word), "{word:?} in {:?}", lines[0]);
        }
        assert!(!self.stderr.contains("panicked"), "{self:?}");
        self
    }
}
