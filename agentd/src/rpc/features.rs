//! Names that a client may put into `required_features`. An unknown one is refused, so that a daemon
//! never drops a restriction it does not know in silence.

use super::status::Problem;
use crate::launcher_link::HostReport;

/// Grows with every addition to the API.
pub(super) const GENERATION: u32 = 2;

/// The one that depends on the host.
const CGROUP_LIMITS: &str = "cgroup-limits";

/// Everything that a daemon of this version can honour, sorted.
pub(super) const FEATURES: &[&str] = &[
    "attach",
    "background",
    CGROUP_LIMITS,
    "command-blacklist",
    "denials",
    "disconnect-policy",
    "exec-id",
    "expected-boot-id",
    "explain",
    "idle-timeout",
    "output-file",
    "output-limit",
    "pty",
    "queue",
    "sessions",
    "signals",
    "stdin",
    "tools",
];

/// The same without limits on the tree as a whole, which take a cgroup.
const WITHOUT_CGROUP: &[&str] = &[
    "attach",
    "background",
    "command-blacklist",
    "denials",
    "disconnect-policy",
    "exec-id",
    "expected-boot-id",
    "explain",
    "idle-timeout",
    "output-file",
    "output-limit",
    "pty",
    "queue",
    "sessions",
    "signals",
    "stdin",
    "tools",
];

/// What the daemon honours on this host.
pub(super) fn of(host: &HostReport) -> &'static [&'static str] {
    match host.cgroup.as_str() {
        "" | "none" => WITHOUT_CGROUP,
        _ => FEATURES,
    }
}

/// Refuses the first name that is not among those that are honoured.
pub(super) fn require(names: &[String], honoured: &[&str]) -> Result<(), Problem> {
    match names.iter().find(|name| !honoured.contains(&name.as_str())) {
        Some(name) => Err(Problem::unsupported(format!(
            "this daemon has no feature '{}'; it has: {}",
            crate::text::neutralise(name),
            honoured.join(", ")
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_features_pass_and_an_unknown_one_is_refused() {
        assert!(FEATURES.is_sorted());
        let all: Vec<String> = FEATURES.iter().map(|name| (*name).to_owned()).collect();
        require(&all, FEATURES).unwrap();
        let mut more = all.clone();
        more.push("teleport".to_owned());
        let refused = require(&more, FEATURES).unwrap_err();
        assert!(refused.message().contains("teleport"));
        let refused = require(&all, WITHOUT_CGROUP).unwrap_err();
        assert!(refused.message().contains(CGROUP_LIMITS));
    }

    #[test]
    fn without_a_cgroup_only_its_limits_are_missing() {
        let mut rest = FEATURES.to_vec();
        rest.retain(|name| *name != CGROUP_LIMITS);
        assert_eq!(rest, WITHOUT_CGROUP);
    }
}
