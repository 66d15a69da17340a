//! The limit of open files, raised as far as it goes: each command takes a few of them.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Raises the limit of this process to what it may have. Processes that are started later begin with it;
/// commands get their own from their profile.
pub(crate) fn raise() {
    let raised = getrlimit(Resource::RLIMIT_NOFILE)
        .and_then(|(_, hard)| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
    if let Err(errno) = raised {
        tracing::warn!(%errno, "cannot raise the limit of open files");
    }
}

/// How many files this process may have open, once [`raise`] was called.
pub(crate) fn most() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_becomes_what_it_may_be() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        let low = hard.min(900);
        setrlimit(Resource::RLIMIT_NOFILE, low, hard).unwrap();
        raise();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE), Ok((hard, hard)));
        assert_eq!(most(), hard);
    }
}
