//! What holds for any output, and how long it may take.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::rendered;

/// Characters beyond the output: one marker line here, since the command exited with 0.
const OVERHEAD: usize = 200;

fn chunk() -> impl Strategy<Value = Vec<u8>> {
    let samples: Vec<&[u8]> = vec![
        b"\x1b[31m",
        b"\x1b[K",
        b"\x1b[2K",
        b"\x1b[5G",
        b"\x1b]0;t\x07",
        b"\x1bP",
        b"\x1b\\",
        b"\x1b",
        b"\r",
        b"\r\n",
        b"\n",
        b"\x08",
        b"\t",
        b"\0",
        b"\xff",
        b"\xe3\x81",
        b"\xc2\x9b",
        b"\xc2\x9d",
        b"\xc2\x9c",
        "😀".as_bytes(),
        "漢".as_bytes(),
        b" ",
        b"text",
        "e\u{301}".as_bytes(),
        "\u{200d}".as_bytes(),
    ];
    prop_oneof![
        4 => prop::sample::select(samples).prop_map(<[u8]>::to_vec),
        1 => prop::collection::vec(any::<u8>(), 0..50),
        1 => (0_usize..30_000).prop_map(|length| vec![b'x'; length]),
        1 => (0_usize..10_000).prop_map(|lines| b"line\n".repeat(lines)),
        1 => (0_usize..10_000).prop_map(|length| "é".repeat(length).into_bytes()),
    ]
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(chunk(), 0..30).prop_map(|chunks| chunks.concat())
}

fn is_clean(text: &str) -> bool {
    text.chars()
        .all(|c| !c.is_control() || c == '\n' || c == '\t')
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn the_text_is_bounded_and_clean(head in output(), tail in output(), dropped in prop_oneof![Just(0), any::<u64>()]) {
        let rendered = rendered(&head, dropped, &tail);
        prop_assert!(rendered.text.chars().count() <= 50_000 + OVERHEAD);
        prop_assert!(is_clean(&rendered.text));
        prop_assert!(!rendered.text.is_empty());
    }

    #[test]
    fn where_head_and_tail_meet_makes_no_difference(output in output(), at in any::<prop::sample::Index>()) {
        let (head, tail) = output.split_at(at.index(output.len().saturating_add(1)));
        prop_assert_eq!(rendered(head, 0, tail), rendered(&output, 0, b""));
    }

    #[test]
    fn omitted_and_shown_characters_add_up(lines in prop::collection::vec("[a-zé漢 ]{0,300}[a-z]", 0..800)) {
        let output = lines.join("\n");
        let rendered = rendered(output.as_bytes(), 0, b"");
        let all = output.chars().count();
        let omitted = usize::try_from(rendered.omitted_chars).unwrap();
        if omitted == 0 {
            prop_assert!(all <= 50_000);
            prop_assert_eq!(rendered.text, if output.is_empty() { "(no output)".to_owned() } else { output });
        } else {
            let (head, rest) = rendered.text.split_once("[... ").unwrap();
            let (_, tail) = rest.split_once("...]\n").unwrap();
            // A head that was cut within a line got a line break before the marker.
            let head = if output.starts_with(head) { head } else { head.strip_suffix('\n').unwrap() };
            prop_assert!(output.starts_with(head));
            prop_assert!(output.ends_with(tail));
            prop_assert_eq!([head, tail].concat().chars().count().saturating_add(omitted), all);
        }
    }

    #[test]
    fn decoding_agrees_with_the_standard_library(output in prop::collection::vec(any::<u8>(), 0..300), at in any::<prop::sample::Index>()) {
        let printable: Vec<u8> = output.into_iter().filter(|byte| !matches!(byte, 0..=0x20 | 0x7f | 0xc2)).collect();
        let (head, tail) = printable.split_at(at.index(printable.len().saturating_add(1)));
        let expected = String::from_utf8_lossy(&printable);
        let expected: String = expected.chars().filter(|c| !c.is_control()).collect();
        prop_assume!(!expected.trim().is_empty());
        prop_assert_eq!(rendered(head, 0, tail).text, expected.trim_end());
    }
}

#[test]
fn a_mebibyte_of_anything_takes_linear_time() {
    let size = 1 << 20;
    let repeated = |unit: &[u8]| unit.repeat(size / unit.len());
    let shapes: [(&str, Vec<u8>); 12] = [
        ("one line", repeated(b"x")),
        ("line breaks", repeated(b"\n")),
        ("carriage returns", repeated(b"\r")),
        ("redrawn", repeated(b"\rxxxxxxxxxxxxxxxx")),
        ("escapes", repeated(b"\x1b")),
        ("unfinished strings", repeated(b"\x1bP")),
        ("unfinished titles", repeated(b"\x1b]")),
        (
            "eight-bit strings before one end",
            [repeated(b"\xc2\x90\xc2\x9c"), b"\x1b\\".to_vec()].concat(),
        ),
        ("erasures", repeated(b"x\x1b[2K")),
        ("jumps", repeated(b"x\x1b[99999G\x1b[1G")),
        ("invalid", repeated(b"\xff")),
        ("emoji", repeated("😀\u{200d}".as_bytes())),
    ];
    for (name, output) in shapes {
        let start = Instant::now();
        let text = rendered(&output, 7, &output).text;
        let took = start.elapsed();
        // A tenth of a second on an idle machine; hours if it were quadratic.
        assert!(took < Duration::from_mins(1), "{name} took {took:?}");
        assert!(is_clean(&text), "{name}");
    }
}
