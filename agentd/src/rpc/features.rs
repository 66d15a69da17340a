//! Names that a client may put into `required_features`. An unknown one is refused, so that a daemon
//! never drops a restriction it does not know in silence.

use super::status::Problem;

/// Grows with every addition to the API.
pub(super) const GENERATION: u32 = 1;

/// Everything this daemon honours, sorted.
pub(super) const FEATURES: &[&str] = &[
    "attach",
    "command-blacklist",
    "denials",
    "disconnect-policy",
    "exec-id",
    "explain",
    "idle-timeout",
    "output-limit",
    "tools",
];

/// Refuses the first name that is not known.
pub(super) fn require(names: &[String]) -> Result<(), Problem> {
    match names.iter().find(|name| !FEATURES.contains(&name.as_str())) {
        Some(name) => Err(Problem::unsupported(format!(
            "this daemon has no feature '{name}'; it has: {}",
            FEATURES.join(", ")
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
        require(&all).unwrap();
        let mut more = all;
        more.push("teleport".to_owned());
        assert!(require(&more).unwrap_err().message().contains("teleport"));
    }
}
