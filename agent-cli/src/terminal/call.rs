//! A tool call and its result in the form in which a person sees them. Pure.

use crate::model::ToolCall;

use super::{excerpt, neutral};

/// How much of a command is shown. Whoever decides about a command must see what it does.
const MAX_LINE_CHARS: usize = 4000;
/// How much of a result is shown; the model reads all of it.
const MAX_RESULT_CHARS: usize = 200;
/// How much of a command is repeated.
const MAX_REMINDER_CHARS: usize = 60;
/// How many remarks are shown, and how much of each.
const MAX_REMARKS: usize = 8;
const MAX_REMARK_CHARS: usize = 400;

/// The call as a line: `$ command`, what happens to which background command, or the tool's name and its input.
#[must_use]
pub fn headline(call: &ToolCall) -> String {
    let text = |key: &str| call.input.get(key).and_then(serde_json::Value::as_str);
    let background = call.input.get("background") == Some(&serde_json::Value::Bool(true));
    let line = match (call.name.as_str(), text("command"), text("bash_id")) {
        (_, Some(command), _) if background => {
            format!("$ {} &  (in the background)", command.trim_end())
        }
        (_, Some(command), _) => format!("$ {}", command.trim_end()),
        ("bash_output", None, Some(id)) => format!("read the output of {id}"),
        ("bash_kill", None, Some(id)) => format!("end {id}"),
        (name, None, _) => format!("{name} {}", call.input),
    };
    excerpt(&line, MAX_LINE_CHARS)
}

/// The beginning of the call, to tell results apart.
#[must_use]
pub(super) fn reminder(call: &ToolCall) -> String {
    let whole = headline(call);
    let first = whole.lines().next().unwrap_or_default();
    excerpt(first, MAX_REMINDER_CHARS)
}

/// The first 200 characters of a result, and the bracketed remarks at its end: denials, exit codes and limits
/// must be seen however long the output is.
#[must_use]
pub(super) fn echo(text: &str) -> String {
    let clean = neutral(text.trim());
    let lines: Vec<&str> = clean.lines().collect();
    let remarks = lines
        .iter()
        .rev()
        .take_while(|line| line.starts_with('[') && line.ends_with(']'))
        .count();
    let (output, remarks) = lines.split_at(lines.len().saturating_sub(remarks));
    let output = excerpt(&output.join("\n"), MAX_RESULT_CHARS);
    let remarks = remarks
        .iter()
        .take(MAX_REMARKS)
        .map(|remark| excerpt(remark, MAX_REMARK_CHARS));
    std::iter::once(output)
        .filter(|output| !output.is_empty())
        .chain(remarks)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::{echo, headline};
    use crate::model::ToolCall;
    use serde_json::json;

    #[test]
    fn what_happens_to_a_background_command_is_shown_with_its_id() {
        for (name, input, expected) in [
            (
                "bash",
                json!({"command": "make serve\n", "background": true}),
                "$ make serve &  (in the background)",
            ),
            (
                "bash",
                json!({"command": "ls", "background": false}),
                "$ ls",
            ),
            (
                "bash_output",
                json!({"bash_id": "s-1-0", "wait_ms": 500}),
                "read the output of s-1-0",
            ),
            ("bash_kill", json!({"bash_id": "s-1-0"}), "end s-1-0"),
            ("bash_kill", json!({}), "bash_kill {}"),
            ("other", json!({"bash_id": "x"}), r#"other {"bash_id":"x"}"#),
        ] {
            let call = ToolCall {
                id: "1".into(),
                name: name.into(),
                input,
            };
            assert_eq!(headline(&call), expected);
        }
    }

    #[test]
    fn a_command_is_shown_as_it_will_run_and_harmless() {
        for (input, expected) in [
            (json!({"command": "ls -l"}), "$ ls -l"),
            (json!({"command": "a\nb\n"}), "$ a\nb"),
            (json!({"command": "ls \u{1b}[8m; rm x"}), "$ ls ; rm x"),
            (json!({"path": "a"}), "bash {\"path\":\"a\"}"),
            (json!({"command": 1}), "bash {\"command\":1}"),
        ] {
            let call = ToolCall {
                id: "1".into(),
                name: "bash".into(),
                input,
            };
            assert_eq!(headline(&call), expected);
        }
    }

    #[test]
    fn a_result_is_cut_after_200_characters_but_its_remarks_stay() {
        let long = "ä".repeat(300);
        let cut = format!("{}…", "ä".repeat(200));
        for (text, expected) in [
            ("short\n".to_owned(), "short".to_owned()),
            (long.clone(), cut.clone()),
            (
                format!("{long}\n[exit code 1]\n[denied x]"),
                format!("{cut}\n[exit code 1]\n[denied x]"),
            ),
            (format!("{long}\n[exit code 1]\nx"), cut),
            ("x\n[exit code 1]".to_owned(), "x\n[exit code 1]".to_owned()),
            ("[exit code 1]".to_owned(), "[exit code 1]".to_owned()),
            (String::new(), String::new()),
        ] {
            assert_eq!(echo(&text), expected);
        }
    }
}
