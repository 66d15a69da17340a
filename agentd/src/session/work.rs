//! The commands of a session, as far as the session has to know them: which still run, and how far a
//! model has read them. Holds no command alive: the registry of executions decides how long one is kept.

use std::{
    collections::VecDeque,
    path::PathBuf,
    sync::{Arc, Weak},
};

use agentd_sandbox::monitor::ExecKey;

use super::Kind;
use crate::exec::{Exec, ExecId, ExecState};

/// Answers that are remembered, so that a retried call reads the same output again: more than a client
/// can have under way.
const ANSWERS: usize = 64;

/// A command of the session.
#[derive(Debug, Clone)]
pub struct Known {
    /// The command.
    pub exec: Arc<Exec>,
    /// What for.
    pub kind: Kind,
}

impl Known {
    /// It is not over yet.
    #[must_use]
    pub fn is_running(&self) -> bool {
        match self.exec.state() {
            ExecState::Starting | ExecState::Running => true,
            ExecState::Ended | ExecState::NotStarted(_) => false,
        }
    }
}

/// What is fixed for a command when it is given a place in the session, the same for every retry.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    pub(super) id: ExecId,
    pub(super) kind: Kind,
    /// Where its relative directory starts.
    pub(super) directory: PathBuf,
    /// Name of its output file.
    pub(super) output_file: Option<String>,
}

#[derive(Debug)]
struct Entry {
    /// Which execution: an id can name another one later.
    key: ExecKey,
    terms: Terms,
    exec: Weak<Exec>,
    /// Bytes of its output that were read without naming an offset.
    read: u64,
}

/// An answer to a read: which call, and where it began.
#[derive(Debug)]
struct Answer {
    call: String,
    exec: ExecKey,
    from: u64,
}

/// All commands of a session.
#[derive(Debug)]
pub(super) struct Work {
    /// New ones may come.
    pub(super) is_open: bool,
    /// Names given so far.
    pub(super) named: u64,
    entries: Vec<Entry>,
    answers: VecDeque<Answer>,
}

impl Work {
    pub(super) fn new() -> Self {
        Self {
            is_open: true,
            named: 0,
            entries: Vec::new(),
            answers: VecDeque::new(),
        }
    }

    /// The terms of a command.
    pub(super) fn terms(&self, key: ExecKey) -> Option<&Terms> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(&entry.terms)
    }

    /// A number that no name in this session holds yet.
    pub(super) fn number(&mut self) -> u64 {
        self.named = self.named.saturating_add(1);
        self.named
    }

    pub(super) fn add(&mut self, terms: Terms, exec: &Arc<Exec>) {
        let key = exec.key();
        // An id that is free again names the new command, whoever still reads the old one.
        self.entries.retain(|entry| {
            entry.exec.strong_count() > 0 && (entry.key == key || entry.terms.id != terms.id)
        });
        if self.terms(key).is_none() {
            self.entries.push(Entry {
                key,
                terms,
                exec: Arc::downgrade(exec),
                read: 0,
            });
        }
    }

    /// All that are still known, oldest first.
    pub(super) fn known(&self) -> Vec<Known> {
        let known = |entry: &Entry| {
            Some(Known {
                exec: entry.exec.upgrade()?,
                kind: entry.terms.kind,
            })
        };
        self.entries.iter().filter_map(known).collect()
    }

    /// Where a read without an offset begins. A retry of a call begins where that call did.
    pub(super) fn read_from(&self, exec: ExecKey, call: &str) -> u64 {
        let is_it = |answer: &&Answer| answer.call == call && answer.exec == exec;
        if let Some(answer) = self.answers.iter().find(is_it)
            && !call.is_empty()
        {
            return answer.from;
        }
        let entry = self.entries.iter().find(|entry| entry.key == exec);
        entry.map_or(0, |entry| entry.read)
    }

    /// A call read from one offset to another.
    pub(super) fn has_read(&mut self, exec: ExecKey, call: &str, (from, to): (u64, u64)) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == exec) {
            entry.read = entry.read.max(to);
        }
        let is_known = |answer: &Answer| answer.call == call && answer.exec == exec;
        if call.is_empty() || self.answers.iter().any(is_known) {
            return;
        }
        if self.answers.len() >= ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(Answer {
            call: call.to_owned(),
            exec,
            from,
        });
    }
}
