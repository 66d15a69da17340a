//! From the mirror to a checked file: every value understood, every place remembered.

use std::collections::BTreeMap;

use serde::{
    Deserialize,
    de::{IntoDeserializer, value::Error as WordError},
};
use toml::Spanned;

use super::{
    PathRule, PathTemplate, ProfileError,
    amount::{self, Unit},
    fragment::{Fragment, LimitSettings, Settings},
    locate::{Source, quoted, suggestion},
    raw::{Amount, RawFs, RawIdentity, RawLimits, RawProfile, RawRequire, RawTmp},
};
use crate::policy::{Exposure, Layer, RuleRef, TmpPolicy};

/// The only schema there is.
const SCHEMA: i64 = 1;
/// What a jail's own `/dev` holds besides `/dev/shm`.
const DEVICES: [&str; 8] = [
    "/dev/full",
    "/dev/null",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/random",
    "/dev/tty",
    "/dev/urandom",
    "/dev/zero",
];
/// Longest profile name.
const LONGEST_NAME: usize = 64;

/// Reads one file.
pub(super) fn parse(source: Source<'_>) -> Result<Fragment, ProfileError> {
    let raw: RawProfile = toml::from_str(source.text).map_err(|error| source.explain(&error))?;
    if *raw.schema.get_ref() != SCHEMA {
        let problem = format!(
            "schema {} is not known to this version; write `schema = {SCHEMA}` or update agentd",
            raw.schema.get_ref()
        );
        return Err(source.wrong(&raw.schema, "schema", problem));
    }
    check_name(source, &raw.name)?;
    if raw.description.get_ref().trim().is_empty() {
        let problem = "is empty; say in one sentence what the profile is for".to_owned();
        return Err(source.wrong(&raw.description, "description", problem));
    }
    let meta = meta(source, &raw.meta)?;
    let name_at = source.of(&raw.name);
    let extends = raw
        .extends
        .as_ref()
        .map(|name| (name.get_ref().clone(), source.of(name)));
    let mut checker = Checker {
        source,
        settings: Settings::default(),
    };
    checker.require(&raw.require)?;
    checker.identity(&raw.identity)?;
    checker.fs(&raw.fs)?;
    checker.settings.net = checker.word("net.mode", raw.net.mode.as_ref())?;
    checker.settings.syscalls = checker.word("syscalls.base", raw.syscalls.base.as_ref())?;
    checker.limits(&raw.limits)?;
    super::check_env::check(source, &raw.env, &mut checker.settings)?;
    checker.settings.inherit_commands = raw.commands.inherit;
    checker.settings.commands = super::check_commands::check(source, raw.commands)?;
    Ok(Fragment {
        file: source.file.to_owned(),
        name: raw.name.into_inner(),
        name_at,
        extends,
        description: raw.description.into_inner(),
        is_abstract: raw.is_abstract,
        meta,
        settings: checker.settings,
    })
}

fn check_name(source: Source<'_>, name: &Spanned<String>) -> Result<(), ProfileError> {
    let text = name.get_ref();
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let problem = if text.is_empty() || text.len() > LONGEST_NAME || !text.bytes().all(plain) {
        format!("must be 1 to {LONGEST_NAME} of `a` to `z`, `0` to `9` and `-`")
    } else if source.file != format!("{text}.toml") {
        format!(
            "is \"{text}\" in a file called {}; they must agree",
            source.file
        )
    } else {
        return Ok(());
    };
    Err(source.wrong(name, "name", problem))
}

fn meta(
    source: Source<'_>,
    raw: &BTreeMap<String, Spanned<toml::Value>>,
) -> Result<BTreeMap<String, String>, ProfileError> {
    let mut meta = BTreeMap::new();
    for (key, value) in raw {
        let text = match value.get_ref() {
            toml::Value::String(text) => text.clone(),
            toml::Value::Integer(number) => number.to_string(),
            toml::Value::Boolean(answer) => answer.to_string(),
            toml::Value::Datetime(date) => date.to_string(),
            toml::Value::Float(_) | toml::Value::Array(_) | toml::Value::Table(_) => {
                let problem = "must be a text, a whole number, a date, true or false".to_owned();
                return Err(source.wrong(value, &format!("meta.{key}"), problem));
            }
        };
        meta.insert(key.clone(), text);
    }
    Ok(meta)
}

struct Checker<'t> {
    source: Source<'t>,
    settings: Settings,
}

impl Checker<'_> {
    fn note(&mut self, key: &str, at: RuleRef) {
        self.settings.sources.insert(key.to_owned(), at);
    }

    /// One of an enum's words.
    fn word<T: for<'de> Deserialize<'de>>(
        &mut self,
        key: &str,
        value: Option<&Spanned<String>>,
    ) -> Result<Option<T>, ProfileError> {
        let Some(value) = value else { return Ok(None) };
        let word: Result<T, WordError> =
            T::deserialize(value.get_ref().as_str().into_deserializer());
        let word = word.map_err(|error| {
            let message = error.to_string();
            let known: Vec<&str> = quoted(&message).into_iter().skip(1).collect();
            let hint = suggestion(value.get_ref(), &known);
            self.source
                .wrong(value, key, format!("\"{value}\" is not known: {hint}"))
        })?;
        self.note(key, self.source.of(value));
        Ok(Some(word))
    }

    fn amount(
        &mut self,
        key: &str,
        unit: Unit,
        value: Option<&Spanned<Amount>>,
    ) -> Result<Option<u64>, ProfileError> {
        let Some(value) = value else { return Ok(None) };
        let number = amount::parse(value.get_ref(), unit)
            .map_err(|problem| self.source.wrong(value, key, problem))?;
        if number == 0 && key != "limits.grace" {
            let problem = "is zero; leave the key out or write what is meant".to_owned();
            return Err(self.source.wrong(value, key, problem));
        }
        self.note(key, self.source.of(value));
        Ok(Some(number))
    }

    fn require(&mut self, raw: &RawRequire) -> Result<(), ProfileError> {
        self.settings.tier = self.word("require.tier", raw.tier.as_ref())?;
        if let Some(abi) = &raw.landlock_abi {
            let number = u32::try_from(*abi.get_ref())
                .ok()
                .filter(|abi| (1..=99).contains(abi));
            let Some(number) = number else {
                let problem = format!("{abi} is no Landlock ABI; write a number from 1 on");
                return Err(self.source.wrong(abi, "require.landlock_abi", problem));
            };
            self.settings.landlock_abi = Some(u64::from(number));
            self.note("require.landlock_abi", self.source.of(abi));
        }
        for layer in &raw.layers {
            let key = format!("require.layers.{}", layer.get_ref());
            let word: Option<Layer> = self.word(&key, Some(layer))?;
            self.settings.layers.extend(word);
        }
        Ok(())
    }

    fn identity(&mut self, raw: &RawIdentity) -> Result<(), ProfileError> {
        self.settings.user = self.word("identity.user", raw.user.as_ref())?;
        if let Some(umask) = &raw.umask {
            let octal = umask
                .get_ref()
                .bytes()
                .all(|byte| (b'0'..=b'7').contains(&byte));
            let mask = u32::from_str_radix(umask.get_ref(), 8).ok();
            let Some(mask) = mask.filter(|mask| octal && *mask <= 0o777) else {
                let problem = format!("\"{umask}\" is no umask; write octal such as \"0022\"");
                return Err(self.source.wrong(umask, "identity.umask", problem));
            };
            self.settings.umask = Some(mask);
            self.note("identity.umask", self.source.of(umask));
        }
        if let Some(name) = &raw.hostname {
            let text = name.get_ref();
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            if text.is_empty() || text.len() > 63 || !text.bytes().all(plain) {
                let problem = "must be 1 to 63 letters, digits and `-`".to_owned();
                return Err(self.source.wrong(name, "identity.hostname", problem));
            }
            self.settings.hostname = Some(text.clone());
            self.note("identity.hostname", self.source.of(name));
        }
        Ok(())
    }

    fn fs(&mut self, raw: &RawFs) -> Result<(), ProfileError> {
        if let Some(access) = &raw.workspace {
            let exposure: Option<Exposure> = self.word("fs.workspace", Some(access))?;
            if !matches!(exposure, Some(Exposure::Read | Exposure::Write)) {
                let problem =
                    format!("\"{access}\" is not possible here; write \"read\" or \"write\"");
                return Err(self.source.wrong(access, "fs.workspace", problem));
            }
            self.settings.workspace = exposure;
        }
        if let Some(tmp) = &raw.tmp {
            self.settings.tmp = Some(self.tmp(tmp.get_ref())?);
            self.note("fs.tmp", self.source.of(tmp));
        }
        for (key, list, exposure) in [
            ("fs.read", &raw.read, Exposure::Read),
            ("fs.write", &raw.write, Exposure::Write),
            ("fs.readonly", &raw.readonly, Exposure::Readonly),
            ("fs.deny", &raw.deny, Exposure::Deny),
        ] {
            for entry in list {
                let rule = self.path(key, entry, exposure)?;
                self.settings.rules.push(rule);
            }
        }
        for entry in &raw.exec {
            let path = PathTemplate::parse(entry.get_ref())
                .map_err(|problem| self.source.wrong(entry, "fs.exec", problem))?;
            let rule = self.source.of(entry);
            self.settings.exec.push(PathRule {
                path,
                exposure: Exposure::Read,
                rule,
            });
        }
        Ok(())
    }

    fn path(
        &self,
        key: &str,
        entry: &Spanned<String>,
        exposure: Exposure,
    ) -> Result<PathRule, ProfileError> {
        let wrong = |problem: &str| self.source.wrong(entry, key, problem.to_owned());
        let text = entry.get_ref().as_str();
        if text == "${workspace}" {
            return Err(wrong(
                "the workspace has its own key; write `workspace = \"read\"`",
            ));
        }
        if ["/tmp", "/dev/shm"].contains(&text) {
            return Err(wrong(
                "a private one is always made and writable; set `tmp` instead",
            ));
        }
        if !jail_makes_it_so(text, exposure) {
            return Err(wrong(
                "the jail makes its own /dev and /proc; remove the entry",
            ));
        }
        let path = PathTemplate::parse(entry.get_ref()).map_err(|problem| wrong(&problem))?;
        Ok(PathRule {
            path,
            exposure,
            rule: self.source.of(entry),
        })
    }

    fn tmp(&mut self, raw: &RawTmp) -> Result<TmpPolicy, ProfileError> {
        let size = self.amount("fs.tmp.size", Unit::Bytes, Some(&raw.size))?;
        let inodes = self.amount("fs.tmp.inodes", Unit::Count, Some(&raw.inodes))?;
        Ok(TmpPolicy {
            size_bytes: size.unwrap_or_default(),
            inodes: inodes.unwrap_or_default(),
        })
    }

    fn limits(&mut self, raw: &RawLimits) -> Result<(), ProfileError> {
        use Unit::{Bytes, Count, Milliseconds, Seconds};
        self.settings.limits = LimitSettings {
            wall_ms: self.amount("limits.wall", Milliseconds, raw.wall.as_ref())?,
            wall_max_ms: self.amount("limits.wall_max", Milliseconds, raw.wall_max.as_ref())?,
            idle_ms: self.amount("limits.idle", Milliseconds, raw.idle.as_ref())?,
            grace_ms: self.amount("limits.grace", Milliseconds, raw.grace.as_ref())?,
            grace_max_ms: self.amount("limits.grace_max", Milliseconds, raw.grace_max.as_ref())?,
            cpu_seconds: self.amount("limits.cpu", Seconds, raw.cpu.as_ref())?,
            memory_bytes: self.amount("limits.memory", Bytes, raw.memory.as_ref())?,
            pids: self.amount("limits.pids", Count, raw.pids.as_ref())?,
            open_files: self.amount("limits.open_files", Count, raw.open_files.as_ref())?,
            file_size_bytes: self.amount("limits.file_size", Bytes, raw.file_size.as_ref())?,
            output_bytes: self.amount("limits.output", Bytes, raw.output.as_ref())?,
            disk_bytes: self.amount("limits.disk", Bytes, raw.disk.as_ref())?,
        };
        Ok(())
    }
}

/// `/dev` and `/proc` are the jail's own: what is in them cannot be chosen, and what the rules say must
/// be what the jail makes.
fn jail_makes_it_so(text: &str, exposure: Exposure) -> bool {
    let below = |directory: &str| {
        text.strip_prefix(directory)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if below("/proc") {
        return text == "/proc" && exposure == Exposure::Read;
    }
    if below("/dev") {
        return DEVICES.contains(&text) && exposure == Exposure::Write;
    }
    true
}
