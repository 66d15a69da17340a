//! Inputs of the tools: JSON that a model wrote, checked once.

use std::time::Duration;

use serde::{Deserialize, de::DeserializeOwned};

use super::definitions::Tool;
use crate::rpc::status::Problem;

/// Longest input in bytes.
const MAX_INPUT: usize = 1024 * 1024;

/// Longest wait of a read; a longer one is clamped.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// Input of `bash`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bash {
    pub(super) command: String,
    pub(super) timeout_ms: Option<u64>,
    #[serde(default)]
    pub(super) background: bool,
    /// For the person who watches; means nothing here.
    #[serde(default, rename = "description")]
    _description: Option<String>,
}

/// Input of `bash_output`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BashOutput {
    pub(super) bash_id: String,
    #[serde(default)]
    wait_ms: u64,
    pub(super) after: Option<u64>,
}

/// Input of `bash_kill`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BashKill {
    pub(super) bash_id: String,
}

impl Bash {
    /// Reads it.
    pub(super) fn parse(json: &str) -> Result<Self, Problem> {
        let input: Self = parse(Tool::Bash, json)?;
        if input.timeout_ms == Some(0) {
            return Err(Problem::invalid(
                "'timeout_ms' is 0; leave it out for the default",
            ));
        }
        Ok(input)
    }
}

impl BashOutput {
    /// Reads it.
    pub(super) fn parse(json: &str) -> Result<Self, Problem> {
        parse(Tool::BashOutput, json)
    }

    /// How long to wait.
    pub(super) fn wait(&self) -> Duration {
        Duration::from_millis(self.wait_ms).min(MAX_WAIT)
    }
}

impl BashKill {
    /// Reads it.
    pub(super) fn parse(json: &str) -> Result<Self, Problem> {
        parse(Tool::BashKill, json)
    }
}

fn parse<T: DeserializeOwned>(tool: Tool, json: &str) -> Result<T, Problem> {
    if json.len() > MAX_INPUT {
        return Err(Problem::invalid(format!(
            "the input has {} bytes, the most is {MAX_INPUT}; write the script to a file in parts",
            json.len()
        )));
    }
    serde_json::from_str(json).map_err(|error| {
        Problem::invalid(format!(
            "the input of '{}' is not valid: {error}",
            tool.name()
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_input_is_read_and_a_long_wait_is_clamped() {
        let bash = Bash::parse(
            r#"{"command":"x","timeout_ms":5,"background":true,"description":"does x"}"#,
        );
        let bash = bash.unwrap();
        assert_eq!((bash.command.as_str(), bash.timeout_ms), ("x", Some(5)));
        assert!(bash.background);
        let read = BashOutput::parse(r#"{"bash_id":"a"}"#).unwrap();
        assert_eq!((read.wait(), read.after), (Duration::ZERO, None));
        let read = BashOutput::parse(r#"{"bash_id":"a","wait_ms":600000,"after":7}"#).unwrap();
        assert_eq!((read.wait(), read.after), (MAX_WAIT, Some(7)));
        assert_eq!(BashKill::parse(r#"{"bash_id":"a"}"#).unwrap().bash_id, "a");
    }

    #[test]
    fn malformed_input_is_refused_with_the_reason() {
        let huge = format!(r#"{{"command":"{}"}}"#, "x".repeat(MAX_INPUT));
        for (input, word) in [
            ("", "EOF"),
            ("[]", "invalid"),
            ("{}", "command"),
            (r#"{"command":1}"#, "string"),
            (r#"{"command":"x","timeout":1}"#, "timeout"),
            (r#"{"command":"x","timeout_ms":0}"#, "timeout_ms"),
            (r#"{"command":"x","timeout_ms":-1}"#, "-1"),
            (r#"{"command":"x","background":"yes"}"#, "boolean"),
            (r#"{"command":"x","description":1}"#, "string"),
            (&huge, "bytes"),
        ] {
            let problem = Bash::parse(input).unwrap_err();
            assert_eq!(problem.kind().0, tonic::Code::InvalidArgument);
            assert!(problem.message().contains(word), "{}", problem.message());
        }
        for (input, word) in [
            ("{}", "bash_id"),
            (r#"{"bash_id":1}"#, "string"),
            (r#"{"bash_id":"a","wait_ms":"1"}"#, "invalid type"),
            (r#"{"bash_id":"a","after":-1}"#, "-1"),
            (r#"{"bash_id":"a","filter":"x"}"#, "filter"),
        ] {
            let problem = BashOutput::parse(input).unwrap_err();
            assert!(problem.message().contains(word), "{}", problem.message());
        }
        for input in ["{}", r#"{"bash_id":"a","signal":9}"#] {
            let problem = BashKill::parse(input).unwrap_err();
            assert!(problem.message().contains("bash_kill"));
        }
    }
}
