//! The blacklist against scripts: what must be refused, what must pass, what hostile input costs.

mod blocked;
mod hostile;
mod passed;
mod rules;
mod shipped;

use agentd_sandbox::profile::{CommandRule, CommandRules, LiteralRule};

use super::{CommandVerdict, check};

/// A rule whose name is its line in a made-up profile, with conditions to be filled in.
pub(super) fn rule(line: u32, reason: &str) -> CommandRule {
    CommandRule {
        rule: format!("base.toml:{line}"),
        reason: reason.to_owned(),
        programs: Vec::new(),
        flags: Vec::new(),
        operands: Vec::new(),
        args: Vec::new(),
        redirects: Vec::new(),
        except: Vec::new(),
    }
}

pub(super) fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// The kind of rules that the shipped base profile has.
pub(super) fn base() -> CommandRules {
    CommandRules {
        rules: vec![
            CommandRule {
                programs: list(&["sudo", "su", "doas", "pkexec"]),
                ..rule(1, "no privilege")
            },
            CommandRule {
                programs: list(&["shutdown", "reboot", "halt", "poweroff"]),
                ..rule(2, "the host stays up")
            },
            CommandRule {
                programs: list(&["init", "telinit"]),
                operands: list(&["0", "6"]),
                ..rule(3, "the host stays up")
            },
            CommandRule {
                programs: list(&["systemctl"]),
                operands: list(&["reboot", "poweroff", "halt"]),
                ..rule(4, "the host stays up")
            },
            CommandRule {
                programs: list(&["rm"]),
                flags: list(&["r|R|recursive"]),
                operands: list(&["/", "/*", "~", "/home", "/etc", "/usr", "/var", "/boot"]),
                ..rule(5, "remove something smaller")
            },
            CommandRule {
                programs: list(&["mkfs*"]),
                ..rule(6, "no new file systems")
            },
            CommandRule {
                programs: list(&["dd"]),
                args: list(&["of=/dev/*"]),
                except: list(&["of=/dev/null"]),
                ..rule(7, "no raw devices")
            },
            CommandRule {
                redirects: list(&["/dev/*"]),
                except: list(&[
                    "/dev/null",
                    "/dev/stdout",
                    "/dev/stderr",
                    "/dev/fd/*",
                    "/dev/tty",
                    "/dev/shm/*",
                    "/dev/zero",
                    "/dev/full",
                ]),
                ..rule(8, "no raw devices")
            },
        ],
        literals: vec![LiteralRule {
            rule: "base.toml:9".to_owned(),
            reason: "a fork bomb".to_owned(),
            text: ":(){ :|:& };:".to_owned(),
        }],
    }
}

pub(super) fn verdict(script: &str) -> CommandVerdict {
    check(&base(), script.as_bytes())
}
