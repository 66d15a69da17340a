//! The tools as models see them. Byte-stable: they are part of a model's cached prefix, so that a change
//! here makes every conversation that goes on under a new daemon pay for its prefix again.

use agentd_proto::v1 as pb;

/// A tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// Runs a script.
    Bash,
    /// Reads a command.
    BashOutput,
    /// Ends a command.
    BashKill,
}

/// All tools, in the order in which they are listed.
const ALL: [Tool; 3] = [Tool::Bash, Tool::BashOutput, Tool::BashKill];

const BASH: &str = "Run a shell command. \
It is a bash script, run in a sandbox in the workspace, without a terminal and without standard input; \
stdout and stderr come back together, in the order in which they arrived. The working directory and \
exported variables carry over to the next call; nothing else of the shell does. Processes that are still \
running when the script ends are killed: start servers and other long jobs with background, which returns \
at once. What the sandbox refuses is reported with the rule that refuses it.";

const BASH_SCHEMA: &str = r#"{"type":"object","properties":{"command":{"type":"string","description":"The bash script to run."},"timeout_ms":{"type":"integer","minimum":1,"description":"Wall clock limit in milliseconds; default 120000, none in the background."},"background":{"type":"boolean","description":"Return at once and let the command run until the session ends. Read it with bash_output, end it with bash_kill."},"description":{"type":"string","description":"What the command does, in a few words, for the person who watches."}},"required":["command"],"additionalProperties":false}"#;

const BASH_OUTPUT: &str = "Read what a command printed since it was last read, and whether it still runs. \
With wait_ms it returns as soon as there is new output or the command ends; use that instead of sleeping \
or asking again and again.";

const BASH_OUTPUT_SCHEMA: &str = r#"{"type":"object","properties":{"bash_id":{"type":"string","description":"The id that bash gave."},"wait_ms":{"type":"integer","minimum":0,"maximum":60000,"description":"Wait at most this long for new output or the end; default 0."},"after":{"type":"integer","minimum":0,"description":"Read from this byte offset on, whatever was read before."}},"required":["bash_id"],"additionalProperties":false}"#;

const BASH_KILL: &str = "End a command that runs in the background, with all its processes.";

const BASH_KILL_SCHEMA: &str = r#"{"type":"object","properties":{"bash_id":{"type":"string","description":"The id that bash gave."}},"required":["bash_id"],"additionalProperties":false}"#;

impl Tool {
    /// The tool of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::BashOutput => "bash_output",
            Self::BashKill => "bash_kill",
        }
    }

    fn text(self) -> (&'static str, &'static str) {
        match self {
            Self::Bash => (BASH, BASH_SCHEMA),
            Self::BashOutput => (BASH_OUTPUT, BASH_OUTPUT_SCHEMA),
            Self::BashKill => (BASH_KILL, BASH_KILL_SCHEMA),
        }
    }
}

/// All of them, on the wire.
pub(super) fn all() -> Vec<pb::Tool> {
    let wire = |tool: Tool| {
        let (description, schema) = tool.text();
        pb::Tool {
            name: tool.name().to_owned(),
            description: description.to_owned(),
            input_schema_json: schema.to_owned(),
        }
    };
    ALL.into_iter().map(wire).collect()
}

/// All names, for a person.
pub(super) fn names() -> String {
    ALL.map(Tool::name).join(", ")
}

#[cfg(test)]
mod tests {
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_definitions_are_what_they_were() {
        let mut hash = Sha256::new();
        for tool in all() {
            hash.update(format!("{tool:?}"));
        }
        let digest = hash
            .finalize()
            .iter()
            .fold(String::new(), |text, byte| format!("{text}{byte:02x}"));
        // A change makes every cached prefix worthless. Change it on purpose or not at all.
        expect_test::expect!["67c4d1a0f8c6e448e476871a4de2ff0d62a54572a4e106aeced9c072e8e66f2a"]
            .assert_eq(&digest);
    }

    #[test]
    fn they_come_in_a_stable_order_and_their_schemas_are_strict() {
        assert_eq!(names(), "bash, bash_output, bash_kill");
        for tool in all() {
            let schema: serde_json::Value = serde_json::from_str(&tool.input_schema_json).unwrap();
            assert_eq!(schema["additionalProperties"], false, "{}", tool.name);
            let required = schema["required"].as_array().unwrap();
            for name in required {
                assert!(schema["properties"].get(name.as_str().unwrap()).is_some());
            }
            assert_eq!(
                Tool::named(&tool.name).map(Tool::name),
                Some(tool.name.as_str())
            );
        }
        assert_eq!(Tool::named("python"), None);
    }
}
