//! What is done about what is seen, look by look.

use super::*;

const LINES: Reading = Reading::Lines(4);
const KEYS: Reading = Reading::Keys(4);
const TYPE: Act = Act::Type(4);

#[expect(clippy::unnecessary_wraps, reason = "as a look comes")]
fn read(reading: Reading) -> Option<Look> {
    Some(Look {
        reading,
        has_unread: false,
    })
}

#[expect(clippy::unnecessary_wraps, reason = "as a look comes")]
fn unread(reading: Reading) -> Option<Look> {
    Some(Look {
        reading,
        has_unread: true,
    })
}

fn ms(start: Instant, now: Instant) -> u128 {
    now.duration_since(start).as_millis()
}

/// Looks when it is time to, and compares what is done.
fn follow(tail: Tail, script: &[(Option<Look>, Act)]) -> Vec<u128> {
    let start = Instant::now();
    let mut farewell = Farewell::new(start, tail);
    let mut times = Vec::new();
    for (step, (look, expected)) in script.iter().enumerate() {
        let now = farewell.next().unwrap();
        assert_eq!(farewell.see(now, *look), *expected, "step {step}");
        times.push(ms(start, now));
    }
    times
}

#[test]
fn whoever_reads_lines_is_told_each_time_and_ever_more_calmly() {
    let mut script = vec![(read(LINES), Act::Nothing)];
    for _ in 0..6 {
        script.extend([(read(LINES), TYPE), (read(LINES), Act::Nothing)]);
    }
    let times = follow(Tail::Line, &script);
    assert_eq!(
        times,
        [20, 40, 45, 65, 70, 110, 120, 200, 220, 380, 420, 740, 780]
    );
}

#[test]
fn a_key_is_not_typed_before_everything_was_read_nor_while_the_way_of_reading_changes() {
    follow(
        Tail::Line,
        &[
            (unread(LINES), Act::Nothing),
            (unread(LINES), Act::Nothing),
            (read(LINES), TYPE),
        ],
    );
    follow(
        Tail::Line,
        &[
            (read(LINES), Act::Nothing),
            (read(KEYS), Act::Nothing),
            (read(LINES), Act::Nothing),
            (None, Act::Nothing),
            (read(LINES), Act::Nothing),
            (read(LINES), TYPE),
        ],
    );
}

#[test]
fn what_nobody_takes_is_taken_back_and_offered_again() {
    let mut script = vec![(read(LINES), Act::Nothing)];
    for _ in 0..5 {
        script.extend([(read(LINES), TYPE), (unread(LINES), Act::TakeBack)]);
    }
    // The program changes its terminal while a key lies there.
    script.extend([(read(LINES), TYPE), (unread(Reading::Raw), Act::TakeBack)]);
    let times = follow(Tail::Line, &script);
    let on_offer: u128 = times[1..].chunks(2).map(|pair| pair[1] - pair[0]).sum();
    let total = times.last().unwrap();
    assert!(on_offer * 5 < *total, "{times:?}");
}

#[test]
fn the_beginning_of_a_line_is_sent_off_and_never_taken_back() {
    follow(
        Tail::MidLine,
        &[
            (read(LINES), Act::Nothing),
            (read(LINES), TYPE),
            (unread(LINES), Act::Nothing),
            (unread(LINES), Act::Nothing),
            // It was read; the next key says the end, and may be taken back.
            (read(LINES), Act::Nothing),
            (read(LINES), TYPE),
            (unread(LINES), Act::TakeBack),
        ],
    );
}

#[test]
fn an_editor_of_lines_is_asked_ever_more_rarely() {
    let start = Instant::now();
    let mut farewell = Farewell::new(start, Tail::Line);
    let mut typed = Vec::new();
    let mut looks = 0;
    loop {
        let now = farewell.next().unwrap();
        if ms(start, now) > 3_600_000 {
            break;
        }
        looks += 1;
        if farewell.see(now, read(KEYS)) == TYPE {
            typed.push(ms(start, now));
        }
    }
    assert!((10..20).contains(&typed.len()), "{typed:?}");
    assert_eq!(typed[0], 40);
    assert!(typed[1] > 140, "{typed:?}");
    assert!(looks < 3600 * 4, "{looks} looks in an hour");
}

#[test]
fn nothing_is_typed_for_a_program_that_reads_bytes() {
    let mut script = vec![(read(Reading::Raw), Act::Nothing); 50];
    script.extend([(read(LINES), Act::Nothing), (read(LINES), TYPE)]);
    let times = follow(Tail::Line, &script);
    assert!(times[50] - times[49] <= 320, "{times:?}");
    assert_eq!(times[51] - times[50], 20);
}
