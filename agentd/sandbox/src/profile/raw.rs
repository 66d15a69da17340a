//! The TOML mirror of a profile: exactly what was typed, with byte spans. Checks nothing but names
//! and TOML types; `check` does the rest. Every key here is enforced or reported, none is decoration.

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};
use toml::Spanned;

/// A whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawProfile {
    pub(super) schema: Spanned<i64>,
    pub(super) name: Spanned<String>,
    pub(super) extends: Option<Spanned<String>>,
    pub(super) description: Spanned<String>,
    #[serde(rename = "abstract", default)]
    pub(super) is_abstract: bool,
    #[serde(default)]
    pub(super) meta: BTreeMap<String, Spanned<toml::Value>>,
    #[serde(default)]
    pub(super) require: RawRequire,
    #[serde(default)]
    pub(super) identity: RawIdentity,
    #[serde(default)]
    pub(super) fs: RawFs,
    #[serde(default)]
    pub(super) env: RawEnv,
    #[serde(default)]
    pub(super) net: RawNet,
    #[serde(default)]
    pub(super) commands: RawCommands,
    #[serde(default)]
    pub(super) syscalls: RawSyscalls,
    #[serde(default)]
    pub(super) limits: RawLimits,
}

/// `[require]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRequire {
    pub(super) tier: Option<Spanned<String>>,
    pub(super) landlock_abi: Option<Spanned<i64>>,
    #[serde(default)]
    pub(super) layers: Vec<Spanned<String>>,
}

/// `[identity]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawIdentity {
    pub(super) user: Option<Spanned<String>>,
    pub(super) umask: Option<Spanned<String>>,
    pub(super) hostname: Option<Spanned<String>>,
}

/// `[fs]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFs {
    pub(super) workspace: Option<Spanned<String>>,
    pub(super) tmp: Option<Spanned<RawTmp>>,
    #[serde(default)]
    pub(super) read: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) write: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) exec: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) readonly: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) deny: Vec<Spanned<String>>,
}

/// `fs.tmp`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawTmp {
    pub(super) size: Spanned<Amount>,
    pub(super) inodes: Spanned<Amount>,
}

/// `[env]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawEnv {
    #[serde(default)]
    pub(super) pass: Vec<Spanned<String>>,
    #[serde(default)]
    pub(super) set: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub(super) deny: Vec<Spanned<String>>,
}

/// `[net]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawNet {
    pub(super) mode: Option<Spanned<String>>,
}

/// `[commands]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCommands {
    pub(super) inherit: Option<bool>,
    #[serde(default)]
    pub(super) deny: Vec<Spanned<RawCommandRule>>,
    #[serde(default)]
    pub(super) literal: Vec<Spanned<RawLiteral>>,
}

/// `[[commands.deny]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCommandRule {
    pub(super) reason: String,
    #[serde(default)]
    pub(super) programs: Vec<String>,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    #[serde(default)]
    pub(super) operands: Vec<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) redirects: Vec<String>,
    #[serde(default)]
    pub(super) except: Vec<String>,
}

/// `[[commands.literal]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLiteral {
    pub(super) text: String,
    pub(super) reason: String,
}

/// `[syscalls]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawSyscalls {
    pub(super) base: Option<Spanned<String>>,
}

/// `[limits]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawLimits {
    pub(super) wall: Option<Spanned<Amount>>,
    pub(super) wall_max: Option<Spanned<Amount>>,
    pub(super) idle: Option<Spanned<Amount>>,
    pub(super) grace: Option<Spanned<Amount>>,
    pub(super) grace_max: Option<Spanned<Amount>>,
    pub(super) cpu: Option<Spanned<Amount>>,
    pub(super) memory: Option<Spanned<Amount>>,
    pub(super) pids: Option<Spanned<Amount>>,
    pub(super) open_files: Option<Spanned<Amount>>,
    pub(super) file_size: Option<Spanned<Amount>>,
    pub(super) output: Option<Spanned<Amount>>,
    pub(super) disk: Option<Spanned<Amount>>,
}

/// A number or a text with a unit, not yet understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Amount {
    /// A TOML integer.
    Number(i64),
    /// A TOML string.
    Text(String),
    /// A TOML float, kept as text for the error.
    Float(String),
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Amount;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a whole number or a text such as \"512M\" or \"10m\"")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Amount, E> {
        Ok(Amount::Number(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Amount, E> {
        Ok(Amount::Float(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Amount, E> {
        Ok(Amount::Text(value.to_owned()))
    }
}
