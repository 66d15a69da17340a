//! What a command begins with in a session in which nothing was changed: only differences to it are
//! carried on. Pure.

use std::collections::BTreeMap;

/// Names that a shell or the jail itself decides for each command anew.
const OF_THE_JAIL: [&str; 6] = ["PWD", "OLDPWD", "SHLVL", "_", "TMPDIR", "BASH_ENV"];

/// Kinds of terminal that the jail itself tells a command of.
const TERMINALS: [&str; 2] = ["dumb", "xterm-256color"];

/// The profile's environment, `${workspace}`, `${home}` and `${tmp}` not yet filled in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Base {
    templates: BTreeMap<String, String>,
    workspace: String,
}

impl Base {
    pub(super) fn new(templates: BTreeMap<String, String>, workspace: String) -> Self {
        Self {
            templates,
            workspace,
        }
    }

    /// The profile sets this variable.
    pub(super) fn has(&self, name: &str) -> bool {
        self.templates.contains_key(name)
    }

    /// Names that the profile sets.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.templates.keys()
    }

    /// The profile gives the variable this value. `tmp` is the value of `TMPDIR`. An answer that cannot be
    /// known is no, which is safe: the variable is then carried with the value it would have anyway.
    pub(super) fn gives(&self, name: &str, value: &str, tmp: Option<&str>) -> bool {
        if name == "TERM" && TERMINALS.contains(&value) {
            return true;
        }
        let Some(template) = self.templates.get(name) else {
            return false;
        };
        [tmp, Some("/tmp")]
            .into_iter()
            .flatten()
            .map(|tmp| {
                template
                    .replace("${workspace}", &self.workspace)
                    .replace("${tmp}", tmp)
            })
            .any(|filled| filled == value)
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
    fn what_the_profile_gives_is_known_as_far_as_it_can_be() {
        let templates = [
            ("PATH", "/usr/bin:/bin"),
            ("XDG_CACHE_HOME", "${tmp}/.cache"),
            ("HOME", "${home}"),
            ("PYTHONPATH", "${workspace}/lib"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
        let base = Base::new(templates.into(), "/w".to_owned());
        let table = [
            ("PATH", "/usr/bin:/bin", true),
            ("PATH", "/opt/bin", false),
            ("XDG_CACHE_HOME", "/tmp/.cache", true),
            ("XDG_CACHE_HOME", "/private/.cache", true),
            ("XDG_CACHE_HOME", "/else/.cache", false),
            ("PYTHONPATH", "/w/lib", true),
            ("HOME", "/home/x", false),
            ("OTHER", "", false),
            ("TERM", "dumb", true),
            ("TERM", "vt100", false),
        ];
        for (name, value, expected) in table {
            let given = base.gives(name, value, Some("/private"));
            assert_eq!(given, expected, "{name}={value}");
        }
    }
}
