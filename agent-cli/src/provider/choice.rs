//! `--provider` as a value. Must not open files or read the environment.

use std::path::PathBuf;
use std::str::FromStr;

/// Which provider to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProviderChoice {
    /// The Anthropic Messages API, or a gateway that speaks it.
    Anthropic,
    /// A recorded conversation in a file.
    Scripted(PathBuf),
}

/// `--provider` names nothing we have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    /// It will come later.
    #[error(
        "provider `openai-responses` is not part of this release; use `anthropic` or `scripted:FILE`"
    )]
    NotYet,
    /// It is unknown.
    #[error("unknown provider `{0}`; use `anthropic` or `scripted:FILE`")]
    Unknown(String),
    /// `scripted:` without a file.
    #[error("provider `scripted:` needs a file: `scripted:FILE`")]
    NoFile,
}

impl FromStr for ProviderChoice {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match (text, text.strip_prefix("scripted:")) {
            ("anthropic", _) => Ok(Self::Anthropic),
            ("openai-responses", _) => Err(ChoiceError::NotYet),
            (_, Some("")) => Err(ChoiceError::NoFile),
            (_, Some(file)) => Ok(Self::Scripted(PathBuf::from(file))),
            (other, None) => Err(ChoiceError::Unknown(other.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_name_is_a_choice_or_names_the_remedy() {
        let cases = [
            ("anthropic", Ok(ProviderChoice::Anthropic)),
            (
                "scripted:a:b.json",
                Ok(ProviderChoice::Scripted("a:b.json".into())),
            ),
            ("scripted:", Err(ChoiceError::NoFile)),
            ("scripted", Err(ChoiceError::Unknown("scripted".to_owned()))),
            ("openai-responses", Err(ChoiceError::NotYet)),
            (
                "Anthropic",
                Err(ChoiceError::Unknown("Anthropic".to_owned())),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(text.parse::<ProviderChoice>(), expected, "{text}");
        }
    }
}
