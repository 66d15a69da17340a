//! `.env` in the working directory, as a map. It is data from the repository, so it may set only the known
//! keys, and nothing in it can read the environment: `$` stands for itself.

use std::{collections::BTreeMap, fs, io, path::Path};

use super::KNOWN_KEYS;

/// Stands for `$` while dotenvy parses. dotenvy would replace `${NAME}` by a variable of this process, and
/// a file of the repository could so put a secret into an address.
const DOLLAR: char = '\u{F8FF}';

/// What `.env` says.
#[derive(Clone, Default)]
pub struct DotEnv {
    /// The known keys that are set and not empty.
    pub known: BTreeMap<String, String>,
    /// Remarks for a person; no value of the file is quoted in them.
    pub warnings: Vec<String>,
}

impl DotEnv {
    /// Reads `.env` in a directory; an absent file says nothing.
    #[must_use]
    pub fn load(directory: &Path) -> Self {
        let path = directory.join(".env");
        match fs::read(&path) {
            Ok(bytes) => {
                let mut found = Self::parse(&bytes);
                if found.holds_a_secret() && readable_by_everyone(&path) {
                    found.warnings.push(format!(
                        "{} holds a key and every user can read it; run: chmod 600 .env",
                        path.display()
                    ));
                }
                found
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(error) => Self {
                known: BTreeMap::new(),
                warnings: vec![format!("{} is ignored: {error}", path.display())],
            },
        }
    }

    /// Parses the text of a `.env` file. Later lines win.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let text = text
            .trim_start_matches('\u{FEFF}')
            .replace("\\$", "$")
            .replace('$', &DOLLAR.to_string());
        let mut found = Self::default();
        let mut skipped: usize = 0;
        for line in dotenvy::from_read_iter(text.as_bytes()) {
            match line {
                Ok((key, value)) if KNOWN_KEYS.contains(&key.as_str()) => {
                    let value = value.replace(DOLLAR, "$");
                    if value.is_empty() {
                        found.known.remove(&key);
                    } else {
                        found.known.insert(key, value);
                    }
                }
                Ok(_) => {}
                // The error's text holds the line, and the line may hold a key.
                Err(_) => skipped = skipped.saturating_add(1),
            }
        }
        if skipped > 0 {
            found.warnings.push(format!(
                ".env: {skipped} line(s) are not NAME=VALUE and were skipped"
            ));
        }
        found
    }

    fn holds_a_secret(&self) -> bool {
        self.known
            .keys()
            .any(|key| key.ends_with("_KEY") || key.ends_with("_TOKEN"))
    }
}

#[cfg(unix)]
fn readable_by_everyone(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).is_ok_and(|data| data.permissions().mode() & 0o004 != 0)
}

#[cfg(not(unix))]
fn readable_by_everyone(_path: &Path) -> bool {
    false
}

impl std::fmt::Debug for DotEnv {
    /// Without the values.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DotEnv")
            .field("known", &self.known.keys())
            .field("warnings", &self.warnings)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::DotEnv;

    #[test]
    fn forms_of_a_line() {
        for (text, key, value) in [
            ("MODEL_ID=m", "MODEL_ID", Some("m")),
            ("export MODEL_ID='m n'", "MODEL_ID", Some("m n")),
            ("MODEL_ID=\"m\" # comment", "MODEL_ID", Some("m")),
            ("\u{FEFF}MODEL_ID=m", "MODEL_ID", Some("m")),
            ("MODEL_ID=a\nMODEL_ID=b", "MODEL_ID", Some("b")),
            ("MODEL_ID=a\nMODEL_ID=", "MODEL_ID", None),
            ("MODEL_ID=\r\n", "MODEL_ID", None),
            ("PATH=/evil", "PATH", None),
            ("not a line\nMODEL_ID=m", "MODEL_ID", Some("m")),
        ] {
            let found = DotEnv::parse(text.as_bytes());
            assert_eq!(found.known.get(key).map(String::as_str), value, "{text:?}");
        }
    }

    #[test]
    fn the_file_cannot_read_the_environment() {
        for text in [
            "ANTHROPIC_BASE_URL=http://x/${PATH}/$PATH",
            "ANTHROPIC_BASE_URL=\"http://x/${PATH}/$PATH\"",
            "ANTHROPIC_BASE_URL='http://x/${PATH}/$PATH'",
            "ANTHROPIC_BASE_URL=http://x/\\${PATH}/\\$PATH",
        ] {
            let found = DotEnv::parse(text.as_bytes());
            assert_eq!(
                found.known.get("ANTHROPIC_BASE_URL").map(String::as_str),
                Some("http://x/${PATH}/$PATH"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_broken_line_is_reported_without_its_text() {
        let found = DotEnv::parse(b"sk-secret value");
        assert_eq!(found.warnings.len(), 1);
        assert!(!found.warnings[0].contains("secret"));
        assert!(!format!("{found:?}").contains("secret"));
    }

    #[test]
    fn an_absent_file_says_nothing() {
        let found = DotEnv::load(std::path::Path::new("/nonexistent"));
        assert!(found.known.is_empty() && found.warnings.is_empty());
    }
}
