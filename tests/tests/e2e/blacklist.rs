//! The command blacklist, as a person at a terminal meets it.

use agentd_tests::harness::{World, in_every_mode};

#[test]
fn dangerous_commands_are_blocked_with_rule_and_reason() {
    let scripts = [
        "sudo true",
        "rm -fr /",
        "env reboot",
        "/sbin/reboot",
        "dd if=/dev/zero of=/dev/sda",
        "bash -c 'sudo x'",
        "echo \"$(sudo x)\"",
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        for script in scripts {
            let marker = world.workspace.join("ran");
            let whole = format!("touch ran; {script}");
            let ended = world.cli(["exec", "--json", "--", &whole]).run();
            assert_eq!(ended.code, 126, "{script}: {ended:?}");
            let answer = ended.json();
            assert_eq!(answer["reason"], "blocked", "{script}: {answer}");
            for key in ["rule", "matched", "reason"] {
                let text = answer["blocked"][key].as_str().unwrap_or_default();
                assert_ne!(text, "", "{script}: {key} in {answer}");
            }
            assert!(!marker.exists(), "{script}: a part of it ran");
        }
        let human = world.cli(["exec", "--", "sudo true"]).run();
        human.expect_code(126);
        human.expect_one_line(&["blocked", "sudo", "base.toml:"]);
    });
}

#[test]
fn harmless_commands_that_look_alike_run() {
    let scripts = [
        "ls 2>/dev/null",
        "rm -rf /tmp/x",
        "echo sudo",
        "ls 2>/dev/null; rm -rf /tmp/x; echo sudo",
        "echo reboot > log; grep reboot log",
        "echo 'rm -rf /'",
    ];
    in_every_mode(|mode| {
        let world = World::new(mode);
        for script in scripts {
            let ended = world.cli(["exec", "--", script]).run();
            assert_eq!(ended.code, 0, "{script}: {ended:?}");
        }
    });
}
