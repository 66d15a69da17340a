//! Gives up root. Irreversible; verified.

use nix::{
    errno::Errno,
    unistd::{Gid, Uid, User, getresgid, getresuid, setgroups, setresgid, setresuid},
};
use thiserror::Error;

/// The account a packaged agentd runs its front end under.
const ACCOUNT: &str = "agentd";

/// Where there is no such account: an id that no distribution gives to anybody (below the first of
/// systemd's ranges for containers, above those of people and services).
const NAMELESS: u32 = 69_999;

/// Why root was not given up. agentd does not go on.
#[derive(Debug, Error)]
pub enum PrivilegeError {
    /// A system call failed.
    #[error("{act}: {errno}; agentd must be able to give up root, or be started as another user")]
    Call {
        /// What was tried.
        act: &'static str,
        /// Why not.
        errno: Errno,
    },
    /// The ids are not what was set.
    #[error("the kernel still shows root after it was given up")]
    StillRoot,
}

/// Whom the front end becomes. `None`s: it is not root, and stays who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unprivileged(Option<(Uid, Gid)>);

impl Unprivileged {
    /// Decides, reading the user database while it can.
    #[must_use]
    pub fn choose() -> Self {
        if !Uid::effective().is_root() {
            return Self(None);
        }
        let account = User::from_name(ACCOUNT).ok().flatten();
        let ids = account.map_or_else(
            || (Uid::from_raw(NAMELESS), Gid::from_raw(NAMELESS)),
            |user| (user.uid, user.gid),
        );
        Self(Some(ids))
    }

    /// The ids to come; `None` when they stay.
    #[must_use]
    pub fn ids(self) -> Option<(Uid, Gid)> {
        self.0
    }

    /// Becomes them, for good.
    pub fn become_it(self) -> Result<(), PrivilegeError> {
        let Some((uid, gid)) = self.0 else {
            return Ok(());
        };
        // ORDER: groups first; afterwards there is no right to change them.
        setgroups(&[]).map_err(call("drop the supplementary groups"))?;
        setresgid(gid, gid, gid).map_err(call("set the group"))?;
        setresuid(uid, uid, uid).map_err(call("set the user"))?;
        let users = getresuid().map_err(call("read the user ids"))?;
        let groups = getresgid().map_err(call("read the group ids"))?;
        let changed = [users.real, users.effective, users.saved] == [uid; 3]
            && [groups.real, groups.effective, groups.saved] == [gid; 3];
        if !changed || setresuid(Uid::from_raw(0), Uid::from_raw(0), Uid::from_raw(0)).is_ok() {
            return Err(PrivilegeError::StillRoot);
        }
        Ok(())
    }
}

fn call(act: &'static str) -> impl Fn(Errno) -> PrivilegeError {
    move |errno| PrivilegeError::Call { act, errno }
}
