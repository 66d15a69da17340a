//! Speed and size of the real daemon, each beside the plainest thing that does the same work, in the same
//! run: bash spawned with captured output, a pipe read in a loop. Only the ratios mean something.
//!
//! `cargo build --release && cargo bench -p agentd-tests`; `AGENTD_TEST_BIN_DIR` names other binaries.

#![expect(
    clippy::cast_precision_loss,
    reason = "ratios for people: 52 bits are plenty"
)]

mod plain;
mod stage;
mod tally;

use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput};

use crate::{stage::Stage, tally::Tally};

/// What all of a large output is.
const FLOOD: u64 = 1 << 30;

/// Lines of the short-line benchmark.
const LINES: u64 = 5_000_000;

/// Rounds in which a raw pipe and the daemon take turns.
const ROUNDS: usize = 11;

/// Readers of one command.
const READERS: [usize; 3] = [1, 4, 16];

/// Output of the command that several read.
const SHARED: u64 = 128 << 20;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let stage = Stage::new();
    let mut tally = Tally::default();
    latency(&mut criterion, &stage, &mut tally);
    streaming(&mut criterion, &stage, &mut tally);
    readers(&mut criterion, &stage, &mut tally);
    criterion.final_summary();
    tally.print(&stage);
}

/// Start to known end of the smallest command.
fn latency(criterion: &mut Criterion, stage: &Stage, tally: &mut Tally) {
    let mut group = criterion.benchmark_group("latency");
    group
        .sample_size(60)
        .measurement_time(Duration::from_secs(6));
    for script in ["true", "/bin/true"] {
        let mut plain = Tally::of(&format!("plain {script}"));
        group.bench_function(format!("bash -c {script}"), |bencher| {
            bencher.iter_custom(|times| plain.time(times, || plain::capture(script)));
        });
        let mut ours = Tally::of(&format!("agentd {script}"));
        group.bench_function(format!("agentd {script}"), |bencher| {
            bencher.iter_custom(|times| ours.time(times, || stage.run(script)));
        });
        tally.keep(plain);
        tally.keep(ours);
    }
    group.finish();
}

/// Much output, and much output in short lines, to one reader. The two take turns, since the speed of a
/// shared machine changes from minute to minute; criterion measures the daemon once more afterwards.
fn streaming(criterion: &mut Criterion, stage: &Stage, tally: &mut Tally) {
    let mut group = criterion.benchmark_group("streaming");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(20));
    let commands = [
        ("1 GiB", format!("head -c {FLOOD} /dev/zero"), FLOOD),
        ("5M lines", format!("yes line | head -n {LINES}"), LINES * 5),
    ];
    for (name, script, bytes) in &commands {
        group.throughput(Throughput::Bytes(*bytes));
        let mut plain = Tally::of(&format!("pipe {name}"));
        let mut ours = Tally::of(&format!("agentd {name}"));
        let mut lost = 0;
        let mut flood = || {
            let told = stage.stream(script, 1);
            tally::check(told.stdout_bytes, *bytes);
            ours_received(&told);
            lost += told.lost;
        };
        group.bench_function(format!("agentd {name}"), |bencher| {
            if ours.is_empty() {
                for _ in 0..ROUNDS {
                    plain.time(1, || plain::drain(script, *bytes));
                    ours.time(1, &mut flood);
                }
            }
            bencher.iter_custom(|times| repeat(times, &mut flood));
        });
        tally.keep(plain);
        tally.keep(ours);
        tally.lost(name, lost);
    }
    group.finish();
}

/// Bytes that a reader counts twice or never would make every number above worthless.
fn ours_received(told: &stage::Told) {
    assert_eq!(told.received + told.lost, told.stdout_bytes * told.readers);
}

/// One command, several readers.
fn readers(criterion: &mut Criterion, stage: &Stage, tally: &mut Tally) {
    let mut group = criterion.benchmark_group("readers");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(8));
    group.throughput(Throughput::Bytes(SHARED));
    let script = format!("head -c {SHARED} /dev/zero");
    for count in READERS {
        let mut ours = Tally::of(&format!("readers {count}"));
        let mut lost = 0;
        group.bench_function(format!("{count}"), |bencher| {
            bencher.iter_custom(|times| {
                ours.time(times, || {
                    let told = stage.stream(&script, count);
                    ours_received(&told);
                    lost += told.lost;
                })
            });
        });
        tally.keep(ours);
        tally.lost(&format!("{count} readers"), lost);
    }
    group.finish();
}

/// Times as many repetitions as criterion asks for.
pub(crate) fn repeat(times: u64, mut work: impl FnMut()) -> Duration {
    let began = Instant::now();
    for _ in 0..times {
        work();
    }
    began.elapsed()
}
