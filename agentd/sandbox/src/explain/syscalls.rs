//! System calls, answered from the table that the filter is compiled from.

use super::{DEFAULT, Verdict, source};
use crate::{
    policy::{Layer, Policy},
    seccomp::{self, Action, ArgCheck, Context},
};

pub(super) fn verdict(policy: &Policy, name: &str) -> Verdict {
    let context = Context {
        base: policy.syscalls,
        tier: policy.tier,
        net: policy.net,
    };
    let place = source(policy, "syscalls.base");
    let layers = vec![Layer::Seccomp];
    if !seccomp::is_system_call(name) {
        return Verdict {
            allowed: false,
            rule: DEFAULT.to_owned(),
            layers,
            text: format!("Linux has no system call of the name {name:?}; check its spelling"),
        };
    }
    let Some(rule) = seccomp::rule_for(context, name) else {
        return Verdict {
            allowed: true,
            rule: DEFAULT.to_owned(),
            layers,
            text: format!("{name} is not restricted by the filter"),
        };
    };
    let reason = rule.reason.text();
    let effect = match rule.action {
        Action::Allow => "is carried out".to_owned(),
        Action::Errno(errno) => {
            format!(
                "fails with {:?}",
                nix::errno::Errno::from_raw(i32::from(errno))
            )
        }
        Action::Kill => "kills the process".to_owned(),
    };
    let always = match &rule.check {
        ArgCheck::Always => true,
        ArgCheck::Socket { families, .. } => families.is_empty(),
        ArgCheck::AnyBit { .. }
        | ArgCheck::OneOf { .. }
        | ArgCheck::NoneOf { .. }
        | ArgCheck::NotSelf { .. }
        | ArgCheck::CreateMode { .. } => false,
    };
    let text = if always {
        format!("{name} {effect}: {reason}")
    } else {
        format!("{name} is allowed, but with some arguments it {effect}: {reason}")
    };
    Verdict {
        allowed: !always || rule.action == Action::Allow,
        rule: place,
        layers,
        text,
    }
}
