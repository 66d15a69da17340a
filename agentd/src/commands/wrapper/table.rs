//! The wrappers and their options: data only.

/// How a wrapper finds its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// The words after options and operands.
    Words,
    /// The same; yet a single word is a script, as are several when joined.
    Joined,
    /// `NAME=VALUE` words may come before the command; `-S` holds a command line.
    Env,
    /// The same as `Words`, unless `-v` or `-V` only asks what the name means.
    Command,
    /// A shell: `-c` and a script, or a script as standard input.
    Shell,
    /// A script behind `-c`, else the words.
    OptionC,
    /// The first operand is a script.
    FirstOperand,
    /// Commands between `-exec` and `;` or `+`.
    Find,
}

/// What is known about programs that run others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wrapper {
    pub(super) names: &'static [&'static str],
    pub(super) style: Style,
    /// One-letter options with a separate value.
    pub(super) short: &'static str,
    /// Long options with a separate value.
    pub(super) long: &'static [&'static str],
    /// Operands before the command.
    pub(super) operands: usize,
}

const fn wrapper(names: &'static [&'static str], style: Style, short: &'static str) -> Wrapper {
    Wrapper {
        names,
        style,
        short,
        long: &[],
        operands: 0,
    }
}

const fn after(operands: usize, wrapper: Wrapper) -> Wrapper {
    Wrapper {
        operands,
        ..wrapper
    }
}

const fn with_long(long: &'static [&'static str], wrapper: Wrapper) -> Wrapper {
    Wrapper { long, ..wrapper }
}

const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];

/// The wrappers that are looked through.
pub(super) const WRAPPERS: &[Wrapper] = &[
    with_long(
        &["unset", "chdir", "argv0", "split-string"],
        wrapper(&["env"], Style::Env, "uCSa"),
    ),
    wrapper(&["command"], Style::Command, ""),
    wrapper(
        &[
            "builtin", "nohup", "setsid", "busybox", "toybox", "fakeroot", "unbuffer", "linux32",
            "linux64", "setarch",
        ],
        Style::Words,
        "",
    ),
    wrapper(&["exec"], Style::Words, "a"),
    with_long(&["adjustment"], wrapper(&["nice"], Style::Words, "n")),
    with_long(
        &["class", "classdata", "pid", "pgid", "uid"],
        wrapper(&["ionice"], Style::Words, "cnpPu"),
    ),
    with_long(
        &["format", "output"],
        wrapper(&["time"], Style::Words, "fo"),
    ),
    after(
        1,
        with_long(
            &["kill-after", "signal"],
            wrapper(&["timeout"], Style::Words, "ks"),
        ),
    ),
    with_long(
        &["input", "output", "error"],
        wrapper(&["stdbuf"], Style::Words, "ioe"),
    ),
    with_long(
        &[
            "arg-file",
            "delimiter",
            "max-lines",
            "max-args",
            "max-procs",
            "max-chars",
            "process-slot-var",
        ],
        wrapper(&["xargs"], Style::Words, "adEILnPs"),
    ),
    with_long(&["interval"], wrapper(&["watch"], Style::Joined, "n")),
    with_long(
        &[
            "jobs", "joblog", "delay", "timeout", "retries", "colsep", "arg-file", "max-args",
            "tmpdir", "results", "workdir",
        ],
        wrapper(&["parallel"], Style::Joined, "jaNnLICE"),
    ),
    after(1, wrapper(&["chroot"], Style::Words, "")),
    wrapper(&["unshare"], Style::Words, "SGRw"),
    wrapper(&["nsenter"], Style::Words, "tSG"),
    wrapper(&["strace", "ltrace"], Style::Words, "aeEIopPsSuUbX"),
    after(1, wrapper(&["taskset", "chrt"], Style::Words, "")),
    after(1, wrapper(&["flock"], Style::OptionC, "wE")),
    wrapper(&["script"], Style::OptionC, "EIOBTmo"),
    with_long(
        &["rcfile", "init-file"],
        wrapper(SHELLS, Style::Shell, "oO"),
    ),
    wrapper(&["eval"], Style::Joined, ""),
    wrapper(&["trap"], Style::FirstOperand, ""),
    wrapper(&["find", "fd", "fdfind"], Style::Find, ""),
];
