//! How the end of input is said on a terminal: not once, but for as long as it holds. What to do follows
//! purely from what was seen of the terminal, and when.
//!
//! A key that says the end counts for one read, and only while somebody reads in the mode in which it was
//! typed. So it is typed when everything before it was read and the way of reading has settled; what
//! nobody took within a moment is taken back, before it becomes a stray byte for a program that reads in
//! another way; and it is typed again for the next read.

use std::{
    io,
    time::{Duration, Instant},
};

use agentd_sandbox::terminal::{Peer, Reading};
use nix::errno::Errno;

use super::super::terminal::Terminal;

/// The key that says the end, unless a program chose another: Ctrl-D.
const USUAL_KEY: u8 = 4;

/// First and longest time between two looks.
const PAUSE: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(320));

/// Shortest time for which somebody may take what was typed.
const OFFER: Duration = Duration::from_millis(5);

/// An offered key lies there for one part in so many of the time.
const SHARE: u32 = 8;

/// How long an editor of lines has for what the first key asks of it. Whoever does not take the key for an
/// end is asked ever more rarely: after twice that time, four times, and so on.
const PATIENCE: Duration = Duration::from_millis(100);

/// What was seen of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    pub(super) reading: Reading,
    /// Something was typed and not read yet.
    pub(super) has_unread: bool,
}

/// How what was typed ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tail {
    /// With a whole line, or nothing was typed.
    Line,
    /// In the middle of one.
    MidLine,
}

/// What to do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Nothing,
    /// Type this key.
    Type(u8),
    /// Take back the key that nobody took.
    TakeBack,
}

/// The end of input of one terminal, from when it was said until more is typed.
#[derive(Debug)]
pub(super) struct Farewell {
    reading: Option<Reading>,
    next: Option<Instant>,
    pause: Duration,
    /// A key was typed, and it is not known that it was read.
    is_offered: bool,
    /// Where keys are read one by one, none is typed before.
    not_before: Instant,
    patience: Duration,
    /// What was typed before ends in the middle of a line, of which nothing is seen until a key sends it
    /// off. Such a key must not be taken back.
    mid_line: bool,
}

impl Farewell {
    pub(super) fn new(now: Instant, tail: Tail) -> Self {
        Self {
            reading: None,
            next: Some(after(now, PAUSE.0)),
            pause: PAUSE.0,
            is_offered: false,
            not_before: now,
            patience: PATIENCE,
            mid_line: tail == Tail::MidLine,
        }
    }

    /// When to look; never again if `None`.
    pub(super) fn next(&self) -> Option<Instant> {
        self.next
    }

    /// Looks at the terminal and does what is to be done.
    pub(super) fn tell(
        &mut self,
        now: Instant,
        terminal: &Terminal,
        peer: &Peer,
    ) -> io::Result<()> {
        match self.see(now, look_at(peer).ok()) {
            Act::Nothing => Ok(()),
            Act::Type(key) => terminal.try_write(&[key]).map(drop),
            Act::TakeBack => Ok(peer.take_back()?),
        }
    }

    /// Where nobody can look: as a person would do it, once.
    pub(super) fn tell_blindly(&mut self, terminal: &Terminal) -> io::Result<()> {
        self.next = None;
        let keys: &[u8] = if self.mid_line {
            &[USUAL_KEY, USUAL_KEY]
        } else {
            &[USUAL_KEY]
        };
        terminal.try_write(keys).map(drop)
    }

    /// What to do after a look; `None`: the terminal cannot be looked at now.
    pub(super) fn see(&mut self, now: Instant, look: Option<Look>) -> Act {
        let reading = look.map(|look| look.reading);
        let settled = reading == self.reading;
        self.reading = reading;
        if !settled {
            self.pause = PAUSE.0;
            self.patience = PATIENCE;
            self.not_before = now;
        }
        let act = match look {
            Some(look) if look.has_unread => self.wait(),
            Some(_) if std::mem::take(&mut self.is_offered) => {
                // ORDER: no key right after another: whoever read that may be about to read in another way.
                self.mid_line = false;
                Act::Nothing
            }
            Some(look) if settled => self.offer(now, look.reading),
            Some(_) | None => Act::Nothing,
        };
        let until_next = match act {
            Act::Type(_) => {
                self.is_offered = true;
                let share = self.pause.checked_div(SHARE).unwrap_or_default();
                share.max(OFFER)
            }
            Act::Nothing | Act::TakeBack => self.pause,
        };
        self.next = Some(after(now, until_next));
        if settled && !matches!(act, Act::Type(_)) {
            self.pause = self.pause.saturating_mul(2).min(PAUSE.1);
        }
        act
    }

    /// Something is unread.
    fn wait(&mut self) -> Act {
        if self.is_offered && !self.mid_line {
            self.is_offered = false;
            return Act::TakeBack;
        }
        Act::Nothing
    }

    /// Everything was read.
    fn offer(&mut self, now: Instant, reading: Reading) -> Act {
        match reading {
            Reading::Lines(key) => Act::Type(key),
            Reading::Keys(key) if now >= self.not_before => {
                self.not_before = after(now, self.patience);
                self.patience = self.patience.saturating_mul(2);
                Act::Type(key)
            }
            Reading::Keys(_) | Reading::Raw => Act::Nothing,
        }
    }
}

fn look_at(peer: &Peer) -> Result<Look, Errno> {
    Ok(Look {
        reading: peer.reading()?,
        has_unread: peer.has_unread()?,
    })
}

fn after(now: Instant, time: Duration) -> Instant {
    now.checked_add(time).unwrap_or(now)
}

#[cfg(test)]
mod tests;
