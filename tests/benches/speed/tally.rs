//! What was measured, and the ratios in which it ends.

use std::{collections::BTreeMap, time::Duration};

use crate::{repeat, stage::Stage};

/// Times of one thing, in seconds for each repetition.
#[derive(Debug)]
pub(crate) struct Series {
    name: String,
    seconds: Vec<f64>,
}

/// All series by name.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    series: BTreeMap<String, Vec<f64>>,
    lost: Vec<(String, u64)>,
}

impl Series {
    /// Measures a sample and remembers it.
    pub(crate) fn time(&mut self, times: u64, work: impl FnMut()) -> Duration {
        let elapsed = repeat(times, work);
        let each = elapsed.div_f64(times.max(1) as f64);
        self.seconds.push(each.as_secs_f64());
        elapsed
    }

    /// True before the first sample.
    pub(crate) fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }
}

impl Tally {
    /// A series to fill.
    pub(crate) fn of(name: &str) -> Series {
        Series {
            name: name.to_owned(),
            seconds: Vec::new(),
        }
    }

    /// Keeps a series. One that was filtered out is empty and is left out.
    pub(crate) fn keep(&mut self, series: Series) {
        if !series.seconds.is_empty() {
            self.series.insert(series.name, series.seconds);
        }
    }

    /// Keeps what readers lost: speed that costs output is none.
    pub(crate) fn lost(&mut self, name: &str, bytes: u64) {
        self.lost.push((name.to_owned(), bytes));
    }

    /// The median, in seconds.
    fn median(&self, name: &str) -> Option<f64> {
        let mut sorted = self.series.get(name)?.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }

    /// Prints the ratios.
    pub(crate) fn print(&self, stage: &Stage) {
        println!("\nratios (medians of this run)");
        let lines = [
            (
                "exec latency, builtin, to bash with captured output",
                "agentd true",
                "plain true",
            ),
            (
                "exec latency, program, to bash with captured output",
                "agentd /bin/true",
                "plain /bin/true",
            ),
            (
                "time of 1 GiB, to a pipe read in a loop",
                "agentd 1 GiB",
                "pipe 1 GiB",
            ),
            (
                "time of 5 million lines, to a pipe read in a loop",
                "agentd 5M lines",
                "pipe 5M lines",
            ),
            (
                "time with 4 readers, to one reader",
                "readers 4",
                "readers 1",
            ),
            (
                "time with 16 readers, to one reader",
                "readers 16",
                "readers 1",
            ),
        ];
        for (what, ours, measure) in lines {
            if let (Some(ours), Some(measure)) = (self.median(ours), self.median(measure)) {
                println!("  {:6.2}  {what}", ours / measure);
            }
        }
        for name in ["agentd 1 GiB", "pipe 1 GiB"] {
            if let Some(seconds) = self.median(name) {
                let speed = crate::FLOOD as f64 / seconds / 1e9;
                println!("  {speed:6.2}  GB/s, {name}");
            }
        }
        if let (Some(ours), Some(pipe)) = (self.median("agentd 1 GiB"), self.median("pipe 1 GiB")) {
            let floor = (pipe * 2.0).max(crate::FLOOD as f64 / 1e9);
            let word = if ours <= floor { "holds" } else { "is missed" };
            println!("  the floor (1 GB/s or half a raw pipe's speed, whichever is lower) {word}");
        }
        for (name, bytes) in self.lost.iter().filter(|(_, bytes)| *bytes > 0) {
            println!("  {bytes} bytes lost by readers that fell behind, {name}");
        }
        stage.print_memory();
    }
}

/// A command that printed something else was not measured.
pub(crate) fn check(counted: u64, expected: u64) {
    assert_eq!(counted, expected, "bytes of output");
}
