//! The typed variables of profiles. `${workspace}` and `${home}` may begin a path; in environment
//! values `${workspace}`, `${home}` and `${tmp}` may stand anywhere. There are no other expansions:
//! no globs, no `~`, nothing from the environment or a request.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::locate::suggestion;

const WORKSPACE: &str = "${workspace}";
const HOME: &str = "${home}";
const TMP: &str = "${tmp}";

/// The values of the variables, absolute and normalised.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variables<'v> {
    /// `${workspace}`
    pub(crate) workspace: &'v Path,
    /// `${home}`
    pub(crate) home: &'v Path,
    /// `${tmp}`
    pub(crate) tmp: &'v Path,
}

/// What a path begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Root {
    Absolute,
    Home,
    Workspace,
}

/// A path of a profile: absolute, or beginning with a variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathTemplate {
    root: Root,
    /// Below the root, without leading or trailing slash; may be empty after a variable.
    rest: String,
}

impl PathTemplate {
    /// `${workspace}` itself.
    pub(crate) fn workspace() -> Self {
        Self {
            root: Root::Workspace,
            rest: String::new(),
        }
    }

    /// Reads a path; the error says what is wrong and what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (root, rest) = if let Some(rest) = text.strip_prefix(WORKSPACE) {
            (Root::Workspace, rest)
        } else if let Some(rest) = text.strip_prefix(HOME) {
            (Root::Home, rest)
        } else if text.starts_with(TMP) {
            return Err(
                "the private temporary directory starts empty and is always writable; \
                        remove the entry, `fs.tmp` sets its size"
                    .to_owned(),
            );
        } else {
            (Root::Absolute, text)
        };
        if text.is_empty() || !rest.is_empty() && !rest.starts_with('/') {
            return Err(not_absolute(text));
        }
        let rest = rest.strip_prefix('/').unwrap_or(rest);
        if rest.is_empty() && root == Root::Absolute {
            return Err("the whole file system is never granted; name directories".to_owned());
        }
        if rest.is_empty() && text.ends_with('/') {
            return Err(format!("\"{text}\" ends with a slash; remove it"));
        }
        if !rest.is_empty() {
            check_components(text, rest)?;
        }
        Ok(Self {
            root,
            rest: rest.to_owned(),
        })
    }

    /// The path, with the variable's value.
    pub(crate) fn fill(&self, variables: &Variables<'_>) -> PathBuf {
        let root = match self.root {
            Root::Absolute => Path::new("/"),
            Root::Home => variables.home,
            Root::Workspace => variables.workspace,
        };
        if self.rest.is_empty() {
            root.to_path_buf()
        } else {
            root.join(&self.rest)
        }
    }
}

impl fmt::Display for PathTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = match self.root {
            Root::Absolute => "",
            Root::Home => HOME,
            Root::Workspace => WORKSPACE,
        };
        f.write_str(root)?;
        if self.root == Root::Absolute || !self.rest.is_empty() {
            write!(f, "/{}", self.rest)?;
        }
        Ok(())
    }
}

fn not_absolute(text: &str) -> String {
    if text.starts_with('~') {
        return "`~` is not expanded; write `${home}`".to_owned();
    }
    if text.starts_with(WORKSPACE) || text.starts_with(HOME) {
        return format!("\"{text}\" is not absolute; put a slash after the variable");
    }
    if let Some(name) = text
        .strip_prefix("${")
        .and_then(|rest| rest.split('}').next())
    {
        return format!(
            "unknown variable `{name}`: {}",
            suggestion(name, &["workspace", "home"])
        );
    }
    format!("\"{text}\" is not absolute; begin with `/`, `${{workspace}}` or `${{home}}`")
}

fn check_components(text: &str, rest: &str) -> Result<(), String> {
    for component in rest.split('/') {
        match component {
            "" => {
                return Err(format!(
                    "\"{text}\" has an empty component; use single slashes"
                ));
            }
            "." | ".." => {
                return Err(format!(
                    "\"{text}\" has a `{component}` component; write it out"
                ));
            }
            _ => {}
        }
    }
    if rest.contains(['*', '?', '[', ']', '{', '}', '$']) {
        return Err(format!(
            "\"{text}\" holds a pattern or a misplaced variable; name the directory literally, a \
             variable only at the beginning"
        ));
    }
    if rest.contains(char::is_control) {
        return Err(format!("{text:?} holds a control character; remove it"));
    }
    Ok(())
}

/// Checks an environment value.
pub(crate) fn check_value(text: &str) -> Result<(), String> {
    if text.contains('\0') {
        return Err("a value cannot hold a NUL byte; remove it".to_owned());
    }
    for after in text.split("${").skip(1) {
        let Some((name, _)) = after.split_once('}') else {
            return Err("`${` without `}`; close it".to_owned());
        };
        if !["workspace", "home", "tmp"].contains(&name) {
            let hint = suggestion(name, &["workspace", "home", "tmp"]);
            return Err(format!("unknown variable `{name}`: {hint}"));
        }
    }
    Ok(())
}

/// The environment value with the variables' values. One pass: a value is never expanded again.
pub(crate) fn fill_value(text: &str, variables: &Variables<'_>) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut pieces = text.split("${");
    filled.push_str(pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, rest) = piece.split_once('}').unwrap_or((piece, ""));
        let value = match name {
            "workspace" => variables.workspace,
            "home" => variables.home,
            "tmp" => variables.tmp,
            _ => Path::new(""), // `check_value` lets no other name through.
        };
        filled.push_str(&value.to_string_lossy());
        filled.push_str(rest);
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    const VARIABLES: fn() -> Variables<'static> = || Variables {
        workspace: Path::new("/w/s"),
        home: Path::new("/home/u"),
        tmp: Path::new("/tmp"),
    };

    #[test]
    fn paths_are_filled_and_printed_as_written() {
        for (text, path) in [
            ("/usr", "/usr"),
            ("/etc/ld.so.cache", "/etc/ld.so.cache"),
            ("${workspace}", "/w/s"),
            ("${workspace}/.git/hooks", "/w/s/.git/hooks"),
            ("${home}/.cargo/bin", "/home/u/.cargo/bin"),
        ] {
            let template = PathTemplate::parse(text).expect(text);
            assert_eq!(template.to_string(), text);
            assert_eq!(template.fill(&VARIABLES()), Path::new(path));
        }
    }

    #[test]
    fn a_bad_path_is_refused_with_its_remedy() {
        for (text, part) in [
            ("", "not absolute"),
            ("usr", "not absolute"),
            ("/", "never granted"),
            ("//", "empty component"),
            ("/usr/", "empty component"),
            ("/a//b", "empty component"),
            ("/a/../b", "`..` component"),
            ("/a/./b", "`.` component"),
            ("/a/*", "pattern"),
            ("/a/${home}", "pattern"),
            ("~/.ssh", "${home}"),
            ("${hom}/x", "did you mean `home`"),
            ("${PATH}/x", "unknown variable `PATH`"),
            ("${workspace}x", "not absolute"),
            ("${workspace}/", "slash"),
            ("${tmp}", "always writable"),
            ("/a\nb", "control"),
        ] {
            let problem = PathTemplate::parse(text).expect_err(text);
            assert!(problem.contains(part), "{text:?}: {problem}");
        }
    }

    #[test]
    fn values_are_filled_once() {
        for (text, value) in [
            ("plain", "plain"),
            ("$HOME", "$HOME"),
            (
                "${home}/bin:${tmp}/x:/usr/bin",
                "/home/u/bin:/tmp/x:/usr/bin",
            ),
            ("${workspace}${workspace}", "/w/s/w/s"),
        ] {
            check_value(text).expect(text);
            assert_eq!(fill_value(text, &VARIABLES()), value);
        }
        let tricky = Variables {
            workspace: Path::new("/w/${home}"),
            ..VARIABLES()
        };
        assert_eq!(fill_value("${workspace}", &tricky), "/w/${home}");
    }

    #[test]
    fn an_unknown_or_open_variable_in_a_value_is_refused() {
        for text in ["${", "${x", "${user}", "a${home}b${}", "nul\0"] {
            check_value(text).expect_err(text);
        }
    }
}
