//! The ring against a model that forgets nothing.

#![expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]

use proptest::prelude::*;

use super::*;
use crate::exec::ExitReason;

fn byte_at(stream: OutputStream, offset: u64) -> u8 {
    let salt = match stream {
        OutputStream::Stdout => 1,
        OutputStream::Stderr => 101,
        OutputStream::Terminal => 57,
    };
    u8::try_from((offset.wrapping_mul(31) + salt) % 251).unwrap()
}

fn chunk(stream: OutputStream, at: u64, length: usize) -> Bytes {
    (0..length)
        .map(|index| byte_at(stream, at + u64::try_from(index).unwrap()))
        .collect::<Vec<u8>>()
        .into()
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

    fn read(&mut self, log: &Log, times: usize) {
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
                self.at = self.at.advanced(stream, len_u64(&data));
            }
            EventBody::Exited(_) => self.ended = true,
            EventBody::Started(_) => {}
        }
    }
}

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
                    prop_assert!(log.cost <= RING_BYTES);
                }
                Step::Read(who, times) => followers[who].read(&log, times),
            }
        }
        log.finish(result());
        for follower in &mut followers {
            follower.read(&log, usize::MAX);
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

    /// Coming back after any number gives what a reader that never left would get.
    #[test]
    fn a_reader_can_come_back_after_any_number(count in 1..30_u64, after in 0..40_u64) {
        let mut log = Log::default();
        for _ in 0..count {
            let at = log.written().stdout;
            log.push(OutputStream::Stdout, chunk(OutputStream::Stdout, at, 10));
        }
        log.finish(result());
        let mut cursor = log.seek(after);
        let mut expected = after.min(count) + 1;
        loop {
            match log.read(&mut cursor) {
                Found::Event(event) => {
                    prop_assert_eq!(event.seq, expected);
                    if let EventBody::Output { offset, .. } = event.body {
                        prop_assert_eq!(offset, (event.seq - 1) * 10);
                    }
                    expected += 1;
                }
                Found::End => break,
                Found::Gap(..) | Found::Pending => prop_assert!(false, "nothing was dropped"),
            }
        }
        prop_assert_eq!(expected, count + 2, "the terminal event always comes");
    }
}

#[test]
fn gigabytes_leave_memory_and_counts_exact() {
    let mut log = Log::default();
    let data = Bytes::from(vec![b'y'; 65_536]);
    for _ in 0..16_384 {
        log.push(OutputStream::Stdout, data.clone());
    }
    assert_eq!(log.written().stdout, 1 << 30);
    assert!(log.memory() <= RING_BYTES + 2 * HEAD_BYTES);
    let held: usize = log.ring.iter().map(|(data, _)| data.len()).sum();
    assert_eq!(log.dropped(), (1 << 30) - u64::try_from(held).unwrap());
    assert!(log.has_gap(&log.seek(0)));
}

#[test]
fn a_flood_of_single_bytes_is_bounded_too() {
    let mut log = Log::default();
    for _ in 0..200_000 {
        log.push(OutputStream::Stderr, Bytes::from_static(b"x"));
    }
    assert!(log.ring.len() * EVENT_OVERHEAD <= RING_BYTES);
    assert_eq!(log.written().stderr, 200_000);
}

#[test]
fn nothing_comes_after_the_end_and_the_first_end_counts() {
    let mut log = Log::default();
    log.finish(result());
    log.push(OutputStream::Stdout, Bytes::from_static(b"late"));
    log.finish(Arc::new(ExitResult::without_run(ExitReason::Lost)));
    assert_eq!(log.last_seq(), 1);
    assert_eq!(log.written(), Offsets::default());
    assert_eq!(log.result().unwrap().reason, ExitReason::Exited);
}
