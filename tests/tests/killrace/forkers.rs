//! Commands that fork as fast as they may. All of them are endless.

/// A command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Forker {
    /// What it does.
    pub(crate) name: &'static str,
    /// As bash.
    pub(crate) script: &'static str,
}

const fn forker(name: &'static str, script: &'static str) -> Forker {
    Forker { name, script }
}

/// All of them.
pub(crate) const ALL: &[Forker] = &[
    forker("children that stay", "while :; do sleep 60 & done"),
    forker("children that end at once", "while :; do (:) & done"),
    forker(
        "a function that calls itself twice",
        "storm() { storm & storm & wait; }; while :; do storm; done",
    ),
    forker(
        "deaf children in sessions of their own",
        "trap '' TERM HUP INT; while :; do setsid -f sleep 60 || :; done",
    ),
    forker(
        "orphans of orphans",
        "while :; do ( ( (sleep 60 & ) & ) & ); done",
    ),
    forker(
        "forks of forks that ignore every polite signal",
        "exec python3 -c '
import os, signal, time
for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.002)
'",
    ),
    forker(
        "stopped children",
        // Not bash: where it can fork no more it waits, and gives up when a child of its own wakes it.
        "exec python3 -c '
import os, signal, time
while True:
    try:
        child = os.fork()
    except OSError:
        time.sleep(0.002)
        continue
    while child == 0: time.sleep(60)
    os.kill(child, signal.SIGSTOP)
'",
    ),
];
