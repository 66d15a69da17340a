//! The blacklist as the shipped profiles carry it.

use agentd_sandbox::profile::Catalogue;

use crate::commands::check;

const REFUSED: &[&str] = &[
    "sudo true",
    "su -c x",
    "rm -fr /",
    "rm -rf /*",
    "rm -r --force ~/",
    "rm -rf /usr/..",
    "env reboot",
    "/sbin/reboot",
    "systemctl poweroff",
    "init 0",
    "mkfs.ext4 x",
    "dd if=x of=/dev/sda",
    "echo x 2>/dev/sda",
    ":(){ :|:& };:",
];

const ACCEPTED: &[&str] = &[
    "ls 2>/dev/null; rm -rf /tmp/x; echo sudo",
    "grep reboot log",
    "echo ok >/dev/stderr",
    "rm -rf target/*",
    "git commit -m \"$(cat <<'EOF'\nno more sudo\nEOF\n)\"",
    "exec 3<>/dev/tcp/localhost/80",
    "systemctl status",
    "dd if=/dev/zero of=x bs=1 count=1",
];

#[test]
fn every_shipped_profile_refuses_the_dangerous_and_accepts_the_harmless() {
    let catalogue = Catalogue::load(&[]).expect("the shipped profiles are valid");
    let mut profiles = 0;
    for profile in catalogue.usable() {
        profiles += 1;
        for script in REFUSED {
            let verdict = check(&profile.commands, script.as_bytes());
            let blocked = verdict
                .blocked
                .unwrap_or_else(|| panic!("{}: {script}", profile.name));
            assert!(
                !blocked.rule.is_empty() && !blocked.reason.is_empty(),
                "{blocked:?}"
            );
        }
        for script in ACCEPTED {
            let verdict = check(&profile.commands, script.as_bytes());
            assert_eq!(verdict.blocked, None, "{}: {script}", profile.name);
        }
    }
    assert!(profiles >= 3, "{profiles}");
}
