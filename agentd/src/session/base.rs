//! What a command begins with in a session in which nothing was changed: only differences to it are
//! carried on. Pure.

use std::collections::BTreeMap;

/// Names that a shell or the jail itself decides for each command anew.
const OF_THE_JAIL: [&str; 6] = ["PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "BASH_ENV"];

/// Kinds of terminal that the jail itself tells a command of.
const TERMINALS: [&str; 2] = ["dumb", "xterm-256color"];

/// The environment of a command in a session in which nothing was changed, as the launcher told it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Base(BTreeMap<String, String>);

impl Base {
    pub(super) fn new(environment: BTreeMap<String, String>) -> Self {
        Self(environment)
    }

    /// A command begins with this variable.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names of all of them.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// A command begins with this value of the variable.
    pub(super) fn gives(&self, name: &str, value: &str) -> bool {
        name == "TERM" && TERMINALS.contains(&value)
            || self.0.get(name).is_some_and(|given| given == value)
    }
}

/// Whether a variable is decided anew for each command, so that it is never carried.
pub(super) fn is_of_the_jail(name: &str) -> bool {
    OF_THE_JAIL.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_command_begins_with_is_known_by_name_and_value() {
        let environment = [
            ("PATH", "/home/x/.local/bin:/bin"),
            ("HOME", "/home/x"),
            ("TERM", "dumb"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let base = Base::new(environment.into());
        let table = [
            ("PATH", "/home/x/.local/bin:/bin", true),
            ("PATH", "/bin", false),
            ("HOME", "/home/x", true),
            ("HOME", "/home/y", false),
            ("OTHER", "", false),
            ("TERM", "dumb", true),
            ("TERM", "xterm-256color", true),
            ("TERM", "vt100", false),
        ];
        for (name, value, expected) in table {
            assert_eq!(base.gives(name, value), expected, "{name}={value}");
        }
        assert!(base.has("HOME") && !base.has("OTHER"));
    }
}
