//! Connections.

use std::net::IpAddr;

use super::{Verdict, source};
use crate::policy::{Layer, NetMode, Policy, Tier};

pub(super) fn verdict(policy: &Policy, host: &str, port: u16) -> Verdict {
    let target = format!("connecting to {host}:{port}");
    let (allowed, layers, text) = match (policy.net, policy.tier) {
        (NetMode::Host, _) => (
            true,
            Vec::new(),
            format!("{target} is allowed: the profile gives the host's network, unfiltered"),
        ),
        (NetMode::None, Tier::Nested) => (
            false,
            vec![Layer::Seccomp],
            format!(
                "{target} is denied: there is no network, and system calls that make sockets are refused"
            ),
        ),
        (NetMode::None, Tier::Rootless | Tier::HostRoot) if is_loopback(host) => (
            true,
            vec![Layer::NetNamespace],
            format!(
                "{target} is allowed: the loopback interface is the command's own and leads only to \
                     servers that it started itself"
            ),
        ),
        (NetMode::None, Tier::Rootless | Tier::HostRoot) => (
            false,
            vec![Layer::NetNamespace],
            format!(
                "{target} is denied: there is no network beyond the command's own loopback interface"
            ),
        ),
    };
    Verdict {
        allowed,
        rule: source(policy, "net.mode"),
        layers,
        text,
    }
}

fn is_loopback(host: &str) -> bool {
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost")
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}
