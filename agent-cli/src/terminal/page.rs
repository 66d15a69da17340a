//! The stream that a screen writes on: where the cursor is, what is held back, and a clock that runs while
//! nothing else happens. Knows nothing of what the text means.

use std::{
    io::Write,
    sync::{Arc, Mutex, PoisonError, Weak},
    thread,
    time::{Duration, Instant},
};

use super::{Neutraliser, Style};

/// How often the clock moves.
const TICK: Duration = Duration::from_secs(1);
/// What takes less time needs no clock.
const PATIENCE: Duration = Duration::from_secs(2);

/// The page.
pub(super) struct Page {
    out: Box<dyn Write + Send>,
    style: Style,
    /// Takes control sequences out of the model's text.
    pub(super) clean: Neutraliser,
    /// The last character written was not a line break.
    pub(super) mid_line: bool,
    /// Id of the call whose command or result was shown last.
    pub(super) last_call: String,
    /// Text that is shown later, or not at all.
    pub(super) held: String,
    /// Tools that run.
    pub(super) running: u32,
    busy_since: Option<Instant>,
    clock_shown: bool,
}

impl Page {
    /// A page on a stream; on a terminal with a clock.
    pub(super) fn open(out: Box<dyn Write + Send>, style: Style) -> Arc<Mutex<Self>> {
        let page = Arc::new(Mutex::new(Self {
            out,
            style,
            clean: Neutraliser::default(),
            mid_line: false,
            last_call: String::new(),
            held: String::new(),
            running: 0,
            busy_since: None,
            clock_shown: false,
        }));
        match style {
            Style::Colour => keep_time(Arc::downgrade(&page)),
            Style::Plain => {}
        }
        page
    }

    /// Writes harmless text.
    pub(super) fn write(&mut self, text: &str) {
        if let Some(last) = text.chars().next_back() {
            self.hide_clock();
            self.mid_line = last != '\n';
            self.put(text);
        }
    }

    /// Writes a line, on a line of its own.
    pub(super) fn line(&mut self, text: &str) {
        let start = if self.mid_line { "\n" } else { "" };
        self.write(&format!("{start}{text}\n"));
    }

    /// Something is awaited from now on.
    pub(super) fn busy(&mut self) {
        self.busy_since.get_or_insert_with(Instant::now);
    }

    /// Nothing is awaited any more.
    pub(super) fn idle(&mut self) {
        self.busy_since = None;
        self.hide_clock();
    }

    /// Moves the clock, where it does not stand in the way of text.
    fn tick(&mut self) {
        let waited = self.busy_since.map(|since| since.elapsed());
        if let Some(waited) = waited.filter(|waited| *waited >= PATIENCE && !self.mid_line) {
            self.clock_shown = true;
            self.put(&self.style.clock(waited.as_secs()));
        }
    }

    fn hide_clock(&mut self) {
        if std::mem::take(&mut self.clock_shown) {
            self.put(self.style.no_clock());
        }
    }

    fn put(&mut self, text: &str) {
        let written = self.out.write_all(text.as_bytes());
        // A closed stream is nobody's failure: the exit code tells how the turn ended.
        drop(written.and_then(|()| self.out.flush()));
    }
}

/// Moves the clock for as long as the page exists.
fn keep_time(page: Weak<Mutex<Page>>) {
    thread::spawn(move || {
        while let Some(page) = page.upgrade() {
            page.lock().unwrap_or_else(PoisonError::into_inner).tick();
            drop(page);
            thread::sleep(TICK);
        }
    });
}

#[cfg(test)]
mod tests {
    use super::{PATIENCE, Page};
    use crate::terminal::{Style, paper::Paper};
    use std::time::Instant;

    #[test]
    fn the_clock_waits_and_leaves_no_trace() {
        let paper = Paper::default();
        // Plain, so that no thread moves the clock.
        let page = Page::open(Box::new(paper.clone()), Style::Plain);
        let mut page = page.lock().unwrap();
        let shown = || String::from_utf8(paper.0.lock().unwrap().clone()).unwrap();
        page.busy();
        page.tick();
        assert_eq!(shown(), "", "too early");
        page.busy_since = Instant::now().checked_sub(PATIENCE);
        page.write("half a line");
        page.tick();
        assert_eq!(shown(), "half a line", "in the way");
        page.write("\n");
        page.style = Style::Colour;
        page.tick();
        page.line("next");
        assert_eq!(
            shown(),
            "half a line\n\r\u{1b}[2m2 s\u{1b}[0m\u{1b}[K\r\u{1b}[Knext\n"
        );
        page.idle();
        page.tick();
        assert!(shown().ends_with("next\n"), "nothing is awaited");
    }
}
