//! Why control groups cannot be used: every attempt for whoever looks closer, and one cause for everybody
//! else.

use std::{io, path::Path};

/// Why one attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Obstacle {
    text: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Somebody with more rights could do it.
    Denied,
    Other,
}

impl Obstacle {
    /// A call on this directory failed.
    pub(super) fn of(what: &str, directory: &Path, error: &io::Error) -> Self {
        let kind = if matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        ) {
            Kind::Denied
        } else {
            Kind::Other
        };
        Self {
            text: format!("{what} {}: {error}", directory.display()),
            kind,
        }
    }

    /// Anything else.
    pub(super) fn other(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            kind: Kind::Other,
        }
    }

    /// The attempt in one line.
    pub(super) fn line(&self) -> String {
        self.text.clone()
    }
}

/// One cause for all of them, for this user.
pub(super) fn cause(obstacles: &[Obstacle], uid: u32) -> String {
    match obstacles {
        [] => "the kernel or its boot parameters leave out the controllers".to_owned(),
        all if all.iter().all(|one| one.kind == Kind::Denied) => {
            format!("uid {uid} may not make control groups")
        }
        [one] => one.text.clone(),
        _several => "no hierarchy of control groups can be used".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_attempts_have_one_short_cause() {
        let denied = |name: &str| {
            let error = io::Error::from(io::ErrorKind::PermissionDenied);
            Obstacle::of("no group can be made in", Path::new(name), &error)
        };
        let read_only = {
            let error = io::Error::from(io::ErrorKind::ReadOnlyFilesystem);
            Obstacle::of("no group can be made in", Path::new("/c"), &error)
        };
        let full = {
            let error = io::Error::from(io::ErrorKind::StorageFull);
            Obstacle::of("no group can be made in", Path::new("/d"), &error)
        };
        let old = Obstacle::other("the kernel is older than 5.14");
        let table = [
            (vec![], "leave out the controllers"),
            (vec![denied("/a")], "uid 7 may not make control groups"),
            (
                vec![denied("/a"), denied("/b"), read_only],
                "uid 7 may not make control groups",
            ),
            (vec![old.clone()], "the kernel is older than 5.14"),
            (vec![full.clone()], "no group can be made in /d: "),
            (
                vec![full, denied("/a"), old],
                "no hierarchy of control groups",
            ),
        ];
        for (obstacles, expected) in table {
            let told = cause(&obstacles, 7);
            assert!(told.contains(expected), "{told}");
            assert!(told.len() < 100 && !told.contains('\n'), "{told}");
        }
    }
}
