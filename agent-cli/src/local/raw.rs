//! Raw mode of our own terminal, given back on every way out: the end of the command, an error, a panic in any
//! thread, and a stop of this process, after which it is entered again.

use std::{
    convert::Infallible,
    fmt, future,
    io::{self, IsTerminal},
    panic::{self, PanicHookInfo},
    process::Stdio,
    sync::{Arc, Mutex},
    thread,
};

use rustix::termios::{self, OptionalActions, Termios};
use tokio::signal::unix::{SignalKind, signal};

/// Numbers of TSTP and CONT: Linux has its own, all others those of BSD.
const STOP_AND_GO_ON: (i32, i32) = if cfg!(any(target_os = "linux", target_os = "android")) {
    (20, 18)
} else {
    (18, 19)
};

type Hook = Arc<dyn Fn(&PanicHookInfo<'_>) + Sync + Send>;

/// Raw mode, for as long as this exists.
pub struct RawTerminal {
    before: Arc<Mutex<Termios>>,
    /// What a panic did before.
    hook: Hook,
}

impl fmt::Debug for RawTerminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawTerminal").finish_non_exhaustive()
    }
}

impl RawTerminal {
    /// Puts the terminal on standard input into raw mode; `None` when there is none.
    ///
    /// # Errors
    /// The terminal refuses.
    pub fn enter() -> io::Result<Option<Self>> {
        let stdin = io::stdin();
        if !stdin.is_terminal() {
            return Ok(None);
        }
        let before = Arc::new(Mutex::new(termios::tcgetattr(&stdin)?));
        let hook = Hook::from(panic::take_hook());
        let (saved, next) = (Arc::clone(&before), Arc::clone(&hook));
        panic::set_hook(Box::new(move |panic| {
            // ORDER: before anything is printed, which raw mode would garble; unwinding comes later.
            give_back(&saved);
            next(panic);
        }));
        let raw = Self { before, hook };
        raw.make_raw()?;
        Ok(Some(raw))
    }

    /// Gives the terminal back whenever this process is to be stopped, stops it, and takes the terminal again
    /// when it goes on, however it was stopped.
    pub async fn attend(&self) -> Infallible {
        let (stop, go_on) = STOP_AND_GO_ON;
        let watch = |number| signal(SignalKind::from_raw(number));
        let (Ok(mut stop), Ok(mut go_on)) = (watch(stop), watch(go_on)) else {
            return future::pending().await;
        };
        loop {
            tokio::select! {
                _ = stop.recv() => {
                    give_back(&self.before);
                    stop_now();
                }
                _ = go_on.recv() => {}
            }
            // Refused when the terminal is gone; whoever reads it will notice.
            self.make_raw().unwrap_or_default();
        }
    }

    /// Raw mode, now. What the terminal was before is looked at again: a shell may have changed it while this
    /// process was stopped.
    fn make_raw(&self) -> io::Result<()> {
        let stdin = io::stdin();
        let now = termios::tcgetattr(&stdin)?;
        let mut raw = now.clone();
        raw.make_raw();
        if now.local_modes != raw.local_modes
            && let Ok(mut before) = self.before.lock()
        {
            *before = now;
        }
        Ok(termios::tcsetattr(&stdin, OptionalActions::Drain, &raw)?)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        give_back(&self.before);
        // The hook of a thread that panics cannot be changed, and it does no harm.
        if !thread::panicking() {
            let hook = Arc::clone(&self.hook);
            panic::set_hook(Box::new(move |panic| hook(panic)));
        }
    }
}

/// Never waits: neither for output that somebody holds up nor for a lock.
fn give_back(before: &Mutex<Termios>) {
    if let Ok(before) = before.try_lock() {
        let given_back = termios::tcsetattr(io::stdin(), OptionalActions::Now, &before);
        // Nobody is left to be told that the terminal is gone.
        given_back.unwrap_or_default();
    }
}

/// Stops this process as the stop signal would have done without a handler. Returns when it goes on.
fn stop_now() {
    #[expect(
        clippy::disallowed_methods,
        reason = "no safe call stops a process, and a shell can"
    )]
    let mut shell = std::process::Command::new("sh");
    let stopped = shell
        .args(["-c", "kill -STOP \"$PPID\""])
        .stdin(Stdio::null())
        .status();
    // Without a shell this process does not stop, which is a pity and no harm.
    drop(stopped);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Set in the process that a test starts on a terminal.
    const ROLE: &str = "AGENT_CLI_TEST_ROLE";

    /// Starts a program on a terminal of its own and prints, as a list: its exit code, whether the terminal is
    /// as it was, and what it showed.
    const DRIVER: &str = r"
import os, pty, sys, termios
master, slave = pty.openpty()
before = termios.tcgetattr(slave)
pid = os.fork()
if pid == 0:
    os.setsid()
    for fd in (0, 1, 2): os.dup2(slave, fd)
    os.execv(sys.argv[1], sys.argv[1:])
shown = b''
while True:
    piece = os.read(master, 4096)
    shown += piece
    if b'END' in shown or not piece: break
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
print(termios.tcgetattr(slave) == before)
print(shown.decode())
";

    /// Runs the helper below in this role.
    fn on_terminal(role: &str) -> String {
        #[expect(clippy::disallowed_methods, reason = "a test")]
        let output = std::process::Command::new("python3")
            .args(["-c", DRIVER])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "local::raw::tests::helper"])
            .args(["--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Says so on the terminal, which may be in raw mode or not.
    fn say(text: &str) {
        use std::io::Write;
        let mut stderr = io::stderr();
        writeln!(stderr, "{text}").unwrap();
    }

    struct Last;

    impl Drop for Last {
        fn drop(&mut self) {
            say("END");
        }
    }

    fn fails(_raw: RawTerminal) -> io::Result<()> {
        Err(io::ErrorKind::Other.into())
    }

    /// What the other tests start on a terminal. By itself it does nothing.
    #[test]
    fn helper() {
        let Ok(role) = std::env::var(ROLE) else {
            return;
        };
        // Dropped last, so that the terminal is as it is left.
        let _last = Last;
        let raw = RawTerminal::enter().unwrap().expect("a terminal");
        let modes = termios::tcgetattr(io::stdin()).unwrap().local_modes;
        assert!(!modes.contains(termios::LocalModes::ICANON));
        say("raw");
        match role.as_str() {
            "end" => drop(raw),
            "error" => {
                fails(raw).unwrap_err();
            }
            "panic" => panic!("in raw mode"),
            "panic-elsewhere" => {
                let elsewhere = thread::spawn(|| panic!("in raw mode"));
                elsewhere.join().unwrap_err();
                let modes = termios::tcgetattr(io::stdin()).unwrap().local_modes;
                assert!(
                    modes.contains(termios::LocalModes::ICANON),
                    "before its end"
                );
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_terminal_is_given_back_on_every_way_out() {
        for (role, code) in [
            ("end", "0"),
            ("error", "0"),
            ("panic", "101"),
            ("panic-elsewhere", "0"),
        ] {
            let told = on_terminal(role);
            let mut lines = told.lines();
            assert_eq!(lines.next(), Some(code), "{role}: {told}");
            assert_eq!(lines.next(), Some("True"), "{role}: {told}");
            // The control: raw mode garbles.
            assert!(
                told.contains("raw\n") && !told.contains("raw\r\n"),
                "{role}: {told:?}"
            );
            if role.starts_with("panic") {
                assert!(told.contains("in raw mode\r\n"), "{role}: {told:?}");
            }
        }
    }
}
