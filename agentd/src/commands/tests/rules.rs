//! What the conditions of a rule mean.

use agentd_sandbox::profile::{CommandRule, CommandRules, LiteralRule};

use super::{list, rule};
use crate::commands::check;

fn refuses(rule: &CommandRule, script: &str) -> bool {
    let rules = CommandRules {
        rules: vec![rule.clone()],
        literals: Vec::new(),
    };
    check(&rules, script.as_bytes()).blocked.is_some()
}

#[test]
fn a_rule_without_conditions_matches_nothing() {
    assert!(!refuses(&rule(1, ""), "ls"));
}

#[test]
fn every_condition_must_hold() {
    let rule = CommandRule {
        programs: list(&["git"]),
        flags: list(&["f|force", "d"]),
        operands: list(&["clean"]),
        ..rule(1, "")
    };
    assert!(refuses(&rule, "git clean -fd"));
    assert!(refuses(&rule, "git -C . clean --force -d"));
    assert!(!refuses(&rule, "git clean -f"));
    assert!(!refuses(&rule, "git push -fd"));
    assert!(!refuses(&rule, "hg clean -fd"));
}

#[test]
fn a_rule_without_programs_matches_the_arguments_of_any() {
    let rule = CommandRule {
        args: list(&["--privileged"]),
        ..rule(1, "")
    };
    assert!(refuses(&rule, "docker run --privileged x"));
    assert!(!refuses(&rule, "echo privileged"));
}

#[test]
fn operands_are_not_options_and_args_are_anything() {
    let operands = CommandRule {
        programs: list(&["x"]),
        operands: list(&["-n", "n"]),
        ..rule(1, "")
    };
    assert!(!refuses(&operands, "x -n"));
    assert!(refuses(&operands, "x -- -n"));
    assert!(refuses(&operands, "x n"));
    let args = CommandRule {
        programs: list(&["x"]),
        args: list(&["-n"]),
        ..rule(1, "")
    };
    assert!(refuses(&args, "x -n"));
}

#[test]
fn a_trailing_star_matches_any_rest_even_an_unknown_one() {
    let rule = CommandRule {
        programs: list(&["x"]),
        operands: list(&["/srv/*"]),
        except: list(&["/srv/tmp*"]),
        ..rule(1, "")
    };
    assert!(refuses(&rule, "x /srv/a"));
    assert!(refuses(&rule, "x /srv/$A"));
    assert!(refuses(&rule, "x //srv/./a"));
    assert!(!refuses(&rule, "x /srv/tmp/a"));
    assert!(!refuses(&rule, "x /srvx"));
    assert!(!refuses(&rule, "x $A"));
}

#[test]
fn an_exact_pattern_does_not_match_what_is_known_in_part() {
    let rule = CommandRule {
        programs: list(&["x"]),
        operands: list(&["/srv"]),
        ..rule(1, "")
    };
    assert!(refuses(&rule, "x /srv/"));
    assert!(!refuses(&rule, "x /srv$A"));
    assert!(!refuses(&rule, "x /srv/$A"));
}

#[test]
fn home_has_three_spellings_in_a_pattern_too() {
    for pattern in ["~", "$HOME"] {
        let rule = CommandRule {
            programs: list(&["x"]),
            operands: list(&[pattern]),
            ..rule(1, "")
        };
        for script in ["x ~", "x $HOME", "x \"${HOME}\"/", "x ~/a/.."] {
            assert!(refuses(&rule, script), "{pattern} {script}");
        }
        for script in ["x '~'", "x ~/a", "x ~other", "x '$HOME'", "x $HOMER"] {
            assert!(!refuses(&rule, script), "{pattern} {script}");
        }
    }
}

#[test]
fn a_redirection_rule_may_name_a_program() {
    let rule = CommandRule {
        programs: list(&["echo"]),
        redirects: list(&["/etc/*"]),
        ..rule(1, "")
    };
    assert!(refuses(&rule, "echo x > /etc/x"));
    assert!(!refuses(&rule, "cat x > /etc/x"));
    assert!(!refuses(&rule, "cat < /etc/x"));
}

#[test]
fn a_literal_rule_is_a_substring_of_the_script_even_when_it_does_not_parse() {
    let rules = CommandRules {
        rules: Vec::new(),
        literals: vec![LiteralRule {
            rule: "p.toml:1".to_owned(),
            reason: "because".to_owned(),
            text: "rm -rf /".to_owned(),
        }],
    };
    for script in ["rm -rf /tmp", "echo 'rm -rf /", "\u{0}((( rm -rf / \u{ff}"] {
        let blocked = check(&rules, script.as_bytes()).blocked.expect(script);
        assert_eq!(
            (blocked.rule.as_str(), blocked.matched.as_str()),
            ("p.toml:1", "rm -rf /")
        );
    }
    assert_eq!(check(&rules, b"rm -fr /").blocked, None);
}

#[test]
fn an_empty_literal_matches_nothing() {
    let rules = CommandRules {
        rules: Vec::new(),
        literals: vec![LiteralRule {
            rule: String::new(),
            reason: String::new(),
            text: String::new(),
        }],
    };
    assert_eq!(check(&rules, b"ls").blocked, None);
}
