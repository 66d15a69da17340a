//! All profiles of a daemon: the built-in ones and those of the operator's directories. Reads files and
//! nothing else here does. A broken or untrusted file is an error, never left out: a missing rule would
//! be as bad as a wrong one.

use std::{collections::BTreeMap, fs, io, path::Path, path::PathBuf};

use super::{
    Profile, ProfileError, check,
    fragment::Fragment,
    inherit,
    locate::Source,
    shipped::SHIPPED,
    trust::{self, Owner},
};
use crate::policy::Refusal;

/// Most profiles in one directory.
const MOST_FILES: usize = 256;

/// Profiles by name.
#[derive(Debug, Clone)]
pub struct Catalogue {
    profiles: BTreeMap<String, Profile>,
}

impl Catalogue {
    /// Reads the built-in profiles and every `*.toml` of `dirs`. A directory that does not exist holds
    /// no profiles.
    pub fn load(dirs: &[PathBuf]) -> Result<Self, ProfileError> {
        let mut fragments = BTreeMap::new();
        for (file, text) in SHIPPED {
            add(
                &mut fragments,
                Source { file, text },
                Path::new("(built in)"),
            )?;
        }
        let owner = Owner::current();
        for dir in dirs {
            for (path, text) in read_dir(dir, owner)? {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                add(
                    &mut fragments,
                    Source {
                        file: &file,
                        text: &text,
                    },
                    &path,
                )?;
            }
        }
        let mut profiles = BTreeMap::new();
        for (name, fragment) in &fragments {
            profiles.insert(name.clone(), inherit::resolve(fragment, &fragments)?);
        }
        Ok(Self { profiles })
    }

    /// The profile of that name, usable or not.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// The profile of that name, if a command may run under it.
    pub fn select(&self, name: &str) -> Result<&Profile, Refusal> {
        let known = || {
            let names: Vec<&str> = self.usable().map(|profile| profile.name.as_str()).collect();
            names.join(", ")
        };
        match self.get(name) {
            None => Err(Refusal::UnknownProfile {
                name: name.to_owned(),
                known: known(),
            }),
            Some(profile) if profile.is_abstract => Err(Refusal::AbstractProfile {
                name: name.to_owned(),
                known: known(),
            }),
            Some(profile) => Ok(profile),
        }
    }

    /// The profiles that commands may run under, by name.
    pub fn usable(&self) -> impl Iterator<Item = &Profile> {
        self.iter().filter(|profile| !profile.is_abstract)
    }

    /// All profiles, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Profile> {
        self.profiles.values()
    }
}

fn add(
    fragments: &mut BTreeMap<String, Fragment>,
    source: Source<'_>,
    path: &Path,
) -> Result<(), ProfileError> {
    let fragment = check::parse(source)?;
    if fragments.contains_key(&fragment.name) {
        let built_in = SHIPPED.iter().any(|(file, _)| *file == fragment.file);
        let problem = if built_in {
            "it is built in; give this one another name and let it extend the built-in one"
        } else {
            "another directory has it; remove or rename one of them"
        };
        return Err(ProfileError::Duplicate {
            name: fragment.name,
            path: path.to_path_buf(),
            problem: problem.to_owned(),
        });
    }
    fragments.insert(fragment.name.clone(), fragment);
    Ok(())
}

/// Paths and texts of a directory's profiles, by name.
fn read_dir(dir: &Path, owner: Owner) -> Result<Vec<(PathBuf, String)>, ProfileError> {
    let cannot = |source: io::Error| ProfileError::Read {
        path: dir.to_path_buf(),
        source,
    };
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(cannot)?,
    };
    trust::directory(dir, owner)?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(cannot)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "toml")
        {
            paths.push(path);
        }
        if paths.len() > MOST_FILES {
            let problem = format!("it holds more than {MOST_FILES} profiles; move some away");
            return Err(ProfileError::Untrusted {
                path: dir.to_path_buf(),
                problem,
            });
        }
    }
    paths.sort();
    let read = |path: PathBuf| trust::read(&path, owner).map(|text| (path, text));
    paths.into_iter().map(read).collect()
}
