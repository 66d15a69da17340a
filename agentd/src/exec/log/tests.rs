//! The ring against a model that forgets nothing.

#![expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]

use std::sync::OnceLock;

use proptest::prelude::*;

use super::*;
use crate::exec::ExitReason;

/// The bytes of each stream repeat after this many.
const PERIOD: usize = 251;

/// What `stream` holds at `at`.
fn chunk(stream: OutputStream, at: u64, length: usize) -> BytesMut {
    static PATTERN: OnceLock<Vec<u8>> = OnceLock::new();
    let pattern = PATTERN.get_or_init(|| {
        let byte = |index: usize| u8::try_from((index * 31 + 1) % PERIOD).unwrap();
        (0..3 * PERIOD + CHUNK).map(byte).collect()
    });
    let salt = match stream {
        OutputStream::Stdout => 0,
        OutputStream::Stderr => 100,
        OutputStream::Terminal => 200,
    };
    let start = salt + usize::try_from(at).unwrap() % PERIOD;
    pattern[start..start + length].into()
}

/// Reads with a cursor and checks everything it is told.
struct Follower {
    cursor: Cursor,
    seq: u64,
    at: Offsets,
    ended: bool,
}

impl Follower {
    fn new(log: &Log) -> Self {
        Self {
            cursor: log.seek(0),
            seq: 0,
            at: Offsets::default(),
            ended: false,
        }
    }

    fn read(&mut self, log: &mut Log, times: usize) {
        for _ in 0..times {
            match log.read(&mut self.cursor) {
                Found::Event(event) => self.take(event),
                Found::Gap(from, to, lost) => {
                    assert_eq!(from, self.seq + 1);
                    assert!(to >= from);
                    self.seq = to;
                    self.at = self
                        .at
                        .advanced(OutputStream::Stdout, lost.stdout)
                        .advanced(OutputStream::Stderr, lost.stderr);
                }
                Found::Pending => break,
                Found::End => {
                    assert!(self.ended, "no end without the terminal event");
                    break;
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        assert_eq!(event.seq, self.seq + 1, "no holes");
        assert!(!self.ended, "nothing after the terminal event");
        self.seq = event.seq;
        match event.body {
            EventBody::Output {
                stream,
                offset,
                data,
            } => {
                assert_eq!(offset, self.at.of(stream), "gaps are exact");
                assert_eq!(data, chunk(stream, offset, data.len()));
                assert!(data.len() <= CHUNK);
                self.at = self.at.advanced(stream, len_u64(data.len()));
            }
            EventBody::Exited(_) => self.ended = true,
            EventBody::Started(_) => {}
        }
    }
}

/// Both lanes, the first bytes, the places of dropped events and one block that is being filled.
const MOST_MEMORY: usize = RING_BYTES + 2 * HEAD_BYTES + 2 * 2 * 4096 * 32 + 2 * CHUNK;

fn result() -> Arc<ExitResult> {
    Arc::new(ExitResult::without_run(ExitReason::Exited))
}

#[derive(Debug, Clone)]
enum Step {
    Push(bool, usize),
    Read(usize, usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let push = (
        any::<bool>(),
        prop_oneof![1..64_usize, 30_000..65_537_usize],
    )
        .prop_map(|(err, length)| Step::Push(err, length));
    let read = (0..3_usize, 1..40_usize).prop_map(|(who, times)| Step::Read(who, times));
    prop::collection::vec(prop_oneof![3 => push, 1 => read], 0..150)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_reader_gets_exact_bytes_or_an_exact_gap(steps in steps()) {
        let mut log = Log::default();
        let mut followers: Vec<_> = (0..3).map(|_| Follower::new(&log)).collect();
        for step in steps {
            match step {
                Step::Push(err, length) => {
                    let stream = if err { OutputStream::Stderr } else { OutputStream::Stdout };
                    log.push(stream, chunk(stream, log.written().of(stream), length));
                    prop_assert!(log.memory() <= MOST_MEMORY);
                }
                Step::Read(who, times) => followers[who].read(&mut log, times),
            }
        }
        log.finish(result());
        for follower in &mut followers {
            follower.read(&mut log, usize::MAX);
            prop_assert!(follower.ended);
            prop_assert_eq!(follower.at, log.written());
            prop_assert_eq!(follower.seq, log.last_seq());
        }
    }

    #[test]
    fn an_excerpt_is_the_head_and_the_tail_of_everything(
        lengths in prop::collection::vec(prop_oneof![1..64_usize, 30_000..65_537_usize], 0..80),
        tail in 0..600_000_u64,
    ) {
        let mut log = Log::default();
        let mut all = Vec::new();
        for length in lengths {
            let data = chunk(OutputStream::Stdout, log.written().stdout, length);
            all.extend_from_slice(&data);
            log.push(OutputStream::Stdout, data);
        }
        let excerpt = log.excerpt(tail);
        prop_assert!(all.starts_with(&excerpt.head));
        prop_assert!(all.ends_with(&excerpt.tail));
        let dropped = usize::try_from(excerpt.dropped).unwrap();
        prop_assert_eq!(excerpt.head.len() + dropped + excerpt.tail.len(), all.len());
        prop_assert!(u64::try_from(excerpt.tail.len()).unwrap() <= tail);
    }

    /// The record against one that forgets nothing: whatever was pushed and read, a reader that comes back
    /// after any number gets exactly the events that are left, an exact gap for all others, and nothing
    /// twice.
    #[test]
    fn a_reader_can_come_back_after_any_number(steps in steps(), befores in prop::collection::vec(any::<prop::sample::Index>(), 8)) {
        let mut log = Log::default();
        log.start(Arc::new(report()));
        let mut watcher = Model::default();
        for step in steps {
            if let Step::Push(err, length) = step {
                let stream = if err { OutputStream::Stderr } else { OutputStream::Stdout };
                log.push(stream, chunk(stream, log.written().of(stream), length));
                // Read at once, so that the model knows every event.
                watcher.read(&mut log);
            }
        }
        log.finish(result());
        watcher.read(&mut log);
        for before in befores {
            let after = u64::try_from(before.index(watcher.ends.len())).unwrap();
            watcher.check_from(&mut log, after)?;
        }
        watcher.check_from(&mut log, watcher.last + 7)?;
    }
}

fn report() -> StartReport {
    let agentd_sandbox::monitor::Event::Started {
        report,
        limits,
        cwd,
        ..
    } = crate::launcher_link::fake::started(agentd_sandbox::monitor::ExecKey(1))
    else {
        panic!("not a start")
    };
    StartReport {
        jail: *report,
        limits,
        cwd,
        at: std::time::SystemTime::UNIX_EPOCH,
        notes: Vec::new(),
    }
}

/// Everything that a reader saw who was always there.
#[derive(Default)]
struct Model {
    cursor: Option<Cursor>,
    /// Position after each event; the first is before all.
    ends: Vec<Offsets>,
    last: u64,
}

impl Model {
    fn read(&mut self, log: &mut Log) {
        let mut cursor = self.cursor.unwrap_or_else(|| log.seek(0));
        if self.ends.is_empty() {
            self.ends.push(Offsets::default());
        }
        while let Found::Event(event) = log.read(&mut cursor) {
            let mut end = *self.ends.last().unwrap();
            if let EventBody::Output { stream, data, .. } = event.body {
                end = end.advanced(stream, len_u64(data.len()));
            }
            self.ends.push(end);
            self.last = event.seq;
        }
        self.cursor = Some(cursor);
    }

    fn at(&self, seq: u64) -> Offsets {
        self.ends[usize::try_from(seq).unwrap()]
    }

    fn check_from(&self, log: &mut Log, after: u64) -> Result<(), TestCaseError> {
        let mut cursor = log.seek(after);
        // The terminal event is always read again.
        let mut seen = after.min(self.last - 1);
        let (mut ended, mut gaps) = (false, false);
        loop {
            match log.read(&mut cursor) {
                Found::Event(event) => {
                    prop_assert_eq!(event.seq, seen + 1, "no hole, nothing twice");
                    if let EventBody::Output {
                        stream,
                        offset,
                        data,
                    } = event.body
                    {
                        prop_assert_eq!(offset, self.at(seen).of(stream));
                        let length = data.len();
                        prop_assert_eq!(data, chunk(stream, offset, length));
                    } else {
                        ended |= event.seq == self.last;
                    }
                    seen = event.seq;
                }
                Found::Gap(from, to, lost) => {
                    prop_assert_eq!(from, seen + 1);
                    let (start, end) = (self.at(seen), self.at(to));
                    prop_assert_eq!(lost.stdout, end.stdout - start.stdout);
                    prop_assert_eq!(lost.stderr, end.stderr - start.stderr);
                    seen = to;
                    gaps = true;
                }
                Found::End => break,
                Found::Pending => prop_assert!(false, "it is over"),
            }
        }
        prop_assert!(ended, "the terminal event always comes");
        prop_assert_eq!(log.has_gap(after.min(self.last - 1)), gaps);
        Ok(())
    }
}

/// A place that is no longer known costs an earlier beginning of the gap, never a wrong count.
#[test]
fn after_a_number_long_gone_the_gap_begins_early_and_is_exact() {
    let mut log = Log::default();
    log.start(Arc::new(report()));
    let mut cursor = log.seek(0);
    // Every event is read at once, so that none grows.
    for _ in 0..100_000_u32 {
        log.push(OutputStream::Stdout, BytesMut::from(&b"abc"[..]));
        while let Found::Event(_) = log.read(&mut cursor) {}
    }
    assert!(log.memory() <= MOST_MEMORY);
    let first_kept = log.main.first_from(0).unwrap().seq;
    for (after, exact) in [
        (first_kept - 2, true),
        (first_kept - 2000, true),
        (77_777, false),
    ] {
        let mut back = log.seek(after);
        let Found::Gap(from, to, lost) = log.read(&mut back) else {
            panic!("no gap after {after}")
        };
        assert!(from <= after + 1);
        assert!(!exact || from == after + 1, "{after}: {from}");
        assert_eq!(to, first_kept - 1);
        assert_eq!(lost.stdout, (to - from + 1) * 3);
    }
}

#[test]
fn a_flood_on_one_stream_drops_nothing_of_the_other() {
    for (flood, quiet) in [
        (OutputStream::Stdout, OutputStream::Stderr),
        (OutputStream::Stderr, OutputStream::Stdout),
    ] {
        let mut log = Log::default();
        log.push(quiet, BytesMut::from(&b"first"[..]));
        for _ in 0..200 {
            log.push(flood, BytesMut::from(vec![b'y'; CHUNK].as_slice()));
        }
        log.push(quiet, BytesMut::from(&b"last"[..]));
        let mut cursor = log.seek(0);
        let (mut kept, mut seqs, mut lost) = (Vec::new(), Vec::new(), 0);
        loop {
            match log.read(&mut cursor) {
                Found::Event(event) => {
                    seqs.push(event.seq);
                    if let EventBody::Output { stream, data, .. } = event.body
                        && stream == quiet
                    {
                        kept.extend_from_slice(&data);
                    }
                }
                Found::Gap(from, to, gone) => {
                    seqs.extend(from..=to);
                    assert_eq!(gone.of(quiet), 0);
                    lost += gone.of(flood);
                }
                Found::Pending | Found::End => break,
            }
        }
        assert_eq!(kept, b"firstlast");
        assert_eq!(seqs, (1..=log.last_seq()).collect::<Vec<_>>(), "in order");
        assert_eq!(lost, log.dropped());
    }
}

#[test]
fn unread_output_grows_the_newest_event_and_read_output_does_not() {
    let mut log = Log::default();
    let mut cursor = log.seek(0);
    for byte in [b"a", b"b", b"c"] {
        log.push(OutputStream::Stdout, BytesMut::from(&byte[..]));
    }
    let data = |found: Found| match found {
        Found::Event(Event {
            body: EventBody::Output { data, .. },
            ..
        }) => data,
        found @ (Found::Event(_) | Found::Gap(..) | Found::Pending | Found::End) => {
            panic!("{found:?}")
        }
    };
    assert_eq!(data(log.read(&mut cursor)), "abc");
    log.push(OutputStream::Stdout, BytesMut::from(&b"d"[..]));
    assert_eq!(data(log.read(&mut cursor)), "d");
    log.push(OutputStream::Stderr, BytesMut::from(&b"e"[..]));
    log.push(OutputStream::Stdout, BytesMut::from(&b"f"[..]));
    assert_eq!(log.last_seq(), 4, "streams stay apart");
}

proptest! {
    /// Kept bytes, read by offset: what comes is what was written there, and nothing that is kept is
    /// jumped over.
    #[test]
    fn bytes_by_offset_are_the_bytes_in_order_of_arrival(
        pushes in prop::collection::vec((any::<bool>(), 1..70_000_usize), 1..60),
        limit in 1..300_000_usize,
    ) {
        let mut log = Log::default();
        let mut all = Vec::new();
        for (err, length) in pushes {
            let stream = if err { OutputStream::Stderr } else { OutputStream::Stdout };
            let data = chunk(stream, log.written().of(stream), length.min(CHUNK));
            all.extend_from_slice(&data);
            log.push(stream, data);
        }
        let total = log.written().total();
        let (mut offset, mut read) = (0, 0);
        loop {
            let (start, pieces) = log.bytes_from(offset, limit);
            let piece = pieces.concat();
            if piece.is_empty() {
                prop_assert_eq!(start, total);
                break;
            }
            prop_assert!(piece.len() <= limit);
            prop_assert!(start >= offset);
            let from = usize::try_from(start).unwrap();
            prop_assert_eq!(&piece, &all[from..from + piece.len()]);
            read += len_u64(piece.len());
            offset = start + len_u64(piece.len());
        }
        prop_assert_eq!(read, total - log.dropped());
    }
}

#[test]
fn gigabytes_leave_memory_and_counts_exact() {
    let mut log = Log::default();
    let mut block = BytesMut::new();
    for _ in 0..16_384 {
        block.resize(CHUNK, b'y');
        log.push(OutputStream::Stdout, block.split());
    }
    assert_eq!(log.written().stdout, 1 << 30);
    assert!(log.memory() <= MOST_MEMORY);
    assert!(log.dropped() > (1 << 30) - len_u64(RING_BYTES));
    assert!(log.has_gap(0));
}

#[test]
fn a_flood_of_single_bytes_is_bounded_too() {
    const BYTES: u32 = 300_000;
    for reads in [false, true] {
        let mut log = Log::default();
        let mut cursor = log.seek(0);
        let mut block = BytesMut::with_capacity(CHUNK);
        for turn in 0..BYTES {
            block.extend_from_slice(b"x");
            let stream = match turn % 2 {
                0 => OutputStream::Stderr,
                _ => OutputStream::Stdout,
            };
            log.push(stream, block.split());
            if reads && turn % 3 == 0 {
                log.read(&mut cursor);
            }
            if block.capacity() == 0 {
                block = BytesMut::with_capacity(CHUNK);
            }
        }
        assert!(log.memory() <= MOST_MEMORY, "{}", log.memory());
        assert_eq!(log.written().total(), u64::from(BYTES));
    }
}

#[test]
fn nothing_comes_after_the_end_and_the_first_end_counts() {
    let mut log = Log::default();
    log.finish(result());
    log.push(OutputStream::Stdout, BytesMut::from(&b"late"[..]));
    log.finish(Arc::new(ExitResult::without_run(ExitReason::Lost)));
    assert_eq!(log.last_seq(), 1);
    assert_eq!(log.written(), Offsets::default());
    assert_eq!(log.result().unwrap().reason, ExitReason::Exited);
}
