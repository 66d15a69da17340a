//! What a janitor has been told, kept on both sides: by itself to act on it, by the launcher for the next
//! one.

use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    path::PathBuf,
    rc::Rc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    launcher::{removal::Allowance, tripwire::Name},
    monitor::ExecKey,
    sys::signals,
};

/// One thing that the launcher says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Word {
    /// A control group to remove, with everything in it.
    Group(PathBuf),
    /// Names below a workspace that did not exist when a command was started. Beside it is a descriptor that
    /// tells others of them for as long as it is open.
    Names {
        exec: ExecKey,
        workspace: PathBuf,
        /// Whose the command's files are, if not everything in these names is to be removed.
        owner: Option<u32>,
        names: Vec<PathBuf>,
    },
    /// Another name, and beside it what was there and belongs to another command.
    Found { exec: ExecKey, name: PathBuf },
    /// Its init exists; a descriptor that names it is beside this word.
    Started { exec: ExecKey },
    /// Nothing is left to do for it.
    Over { exec: ExecKey },
}

/// Everything that was said and still counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    groups: Vec<PathBuf>,
    commands: BTreeMap<ExecKey, Command>,
}

/// Names watched for one command.
#[derive(Debug, Clone)]
struct Command {
    workspace: PathBuf,
    owner: Option<u32>,
    names: Vec<Name>,
    /// Tells others of the names.
    claims: Option<Rc<OwnedFd>>,
    init: Option<Rc<OwnedFd>>,
}

impl Ledger {
    /// Takes a word, and the descriptor beside it.
    pub(super) fn note(&mut self, word: &Word, fd: Option<Rc<OwnedFd>>) {
        match word {
            Word::Group(path) => self.groups.push(path.clone()),
            Word::Names {
                exec,
                workspace,
                owner,
                names,
            } => {
                let missing = |path: &PathBuf| Name {
                    path: path.clone(),
                    before: None,
                };
                let command = Command {
                    workspace: workspace.clone(),
                    owner: *owner,
                    names: names.iter().map(missing).collect(),
                    claims: fd,
                    init: None,
                };
                self.commands.insert(*exec, command);
            }
            Word::Found { exec, name } => {
                // Without what was there, nobody could tell it from what the command makes.
                if let Some(command) = self.commands.get_mut(exec)
                    && fd.is_some()
                {
                    command.names.push(Name {
                        path: name.clone(),
                        before: fd,
                    });
                }
            }
            Word::Started { exec } => {
                if let Some(command) = self.commands.get_mut(exec) {
                    command.init = fd;
                }
            }
            Word::Over { exec } => drop(self.commands.remove(exec)),
        }
    }

    /// Whether names are watched for this command.
    pub(super) fn knows(&self, exec: ExecKey) -> bool {
        self.commands.contains_key(&exec)
    }

    /// The control groups.
    pub(super) fn groups(&self) -> &[PathBuf] {
        &self.groups
    }

    /// Descriptors of its own in place of those that it has in common with the process that it was forked from,
    /// which nobody in this one would ever close.
    pub(super) fn own(&mut self) -> io::Result<()> {
        for command in self.commands.values_mut() {
            let before = command.names.iter_mut().map(|name| &mut name.before);
            for fd in before
                .chain([&mut command.init, &mut command.claims])
                .flatten()
            {
                *fd = Rc::new(fd.try_clone()?);
            }
        }
        Ok(())
    }

    /// The descriptors it holds, sorted.
    pub(super) fn descriptors(&self) -> Vec<RawFd> {
        let of_one = |command: &Command| {
            let before = command.names.iter().map(|name| name.before.clone());
            let others = [command.init.clone(), command.claims.clone()];
            before.chain(others).flatten().collect::<Vec<_>>()
        };
        let all = self.commands.values().flat_map(of_one);
        let mut all: Vec<RawFd> = all.map(|fd| fd.as_raw_fd()).collect();
        all.sort_unstable();
        all
    }

    /// The launcher is gone: waits until the inits are too, but no longer than `patience`, and at least
    /// `settle` if there may be one that nobody heard of, started in the moment of the launcher's death.
    pub(super) fn wait_for_inits(&self, patience: Duration, settle: Duration) {
        let start = std::time::Instant::now();
        let left = |of: Duration| {
            i32::try_from(of.saturating_sub(start.elapsed()).as_millis()).unwrap_or(i32::MAX)
        };
        for command in self.commands.values() {
            let Some(init) = &command.init else {
                signals::poll(&mut [], left(settle)).unwrap_or_default();
                continue;
            };
            loop {
                let mut ended = [signals::readable(init.as_raw_fd())];
                match signals::poll(&mut ended, left(patience)) {
                    Ok(0) if left(patience) > 0 => {}
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    /// Removes the names that exist, and forgets those that are gone. False when one remains.
    pub(super) fn spring(&mut self) -> bool {
        self.commands.retain(|_, command| {
            let workspace = &command.workspace;
            let all = Allowance::unlimited().only_of(command.owner);
            command
                .names
                .retain(|name| name.undo(workspace, &all).is_err());
            !command.names.is_empty()
        });
        self.commands.is_empty()
    }
}
