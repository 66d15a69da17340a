//! Decoding, cleaning and bounding of output.

use super::{rendered, shown};
use crate::text::{Ending, Finished, Outcome, neutralise, render};

#[test]
fn output_shows_what_a_terminal_would_show() {
    let cases = [
        // White space at the ends.
        ("", "(no output)"),
        (" \n\t\n ", "(no output)"),
        ("hi\n", "hi"),
        ("\n\n  indented\n  more\n\n", "  indented\n  more"),
        ("a\n\n\nb", "a\n\n\nb"),
        ("a\tb", "a\tb"),
        // Line ends and redrawn lines.
        ("a\r\nb\r\n", "a\nb"),
        ("a\r\r\nb", "a\nb"),
        ("10%\r20%\r100%\n", "100%"),
        ("long line\rshort\n", "shortline"),
        ("working...\r\u{1b}[Kdone\n", "done"),
        ("working...\r\u{1b}[0Kdone\n", "done"),
        ("working...\r\u{1b}[Jdone\n", "done"),
        ("working...\u{1b}[2K\rdone\n", "done"),
        ("working...\u{1b}[2K\u{1b}[1Gdone\n", "done"),
        ("working...\u{1b}[1Gdone\u{1b}[K\n", "done"),
        ("abc\u{1b}[2Dxy\n", "axy"),
        ("abc\r\u{1b}[1Cx\n", "axc"),
        ("ab\u{1b}[99999999999999999999Gc\n", "cb"),
        ("ab\u{1b}[999999999Gc\n", "abc"),
        ("abc\u{8}\u{8}xy\n", "axy"),
        ("\u{8}\u{8}a", "a"),
        ("_\u{8}u_\u{8}n", "un"),
        // Colours and other sequences.
        ("\u{1b}[31mred\u{1b}[0m", "red"),
        ("\u{1b}[1;38;5;208mbold\u{1b}[m", "bold"),
        ("\u{1b}[?25lhidden cursor\u{1b}[?25h", "hidden cursor"),
        ("\u{1b}[0 qshape", "shape"),
        ("\u{1b}(Bcharset\u{1b}=\u{1b}>", "charset"),
        ("\u{1b}7saved\u{1b}8", "saved"),
        ("\u{1b}]0;title\u{7}text", "text"),
        ("\u{1b}]0;title\u{1b}\\text", "text"),
        ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}]0;unfinished\nnext", "next"),
        ("\u{1b}Pq#0;2;0;0;0\nsixel\u{1b}\\after", "after"),
        (
            "\u{1b}_apc\u{1b}\\a\u{1b}^pm\u{1b}\\b\u{1b}Xsos\u{1b}\\c",
            "abc",
        ),
        ("\u{1b}Punfinished\nrest", "unfinished\nrest"),
        ("\u{9b}31mred\u{9b}m", "red"),
        ("\u{9d}0;title\u{9c}text", "text"),
        ("\u{90}dcs\u{9c}text", "text"),
        ("\u{85}\u{84}c1", "c1"),
        ("\u{1b}[31", "(no output)"),
        ("\u{1b}[31\nnext", "next"),
        ("\u{1b}\u{1b}[31mred", "red"),
        ("a\u{1b}", "a"),
        ("nul\0 bell\u{7} del\u{7f}", "nul bell del"),
        ("form\u{c}feed\u{b}", "formfeed"),
        // Text that only looks like it.
        ("[31m", "[31m"),
        ("漢字 😀 e\u{301}", "漢字 😀 e\u{301}"),
    ];
    for (output, expected) in cases {
        assert_eq!(shown(output), expected, "{output:?}");
    }
}

#[test]
fn a_progress_display_of_41000_steps_is_one_line() {
    let steps: Vec<String> = (0..41_000).map(|step| format!("\rstep {step}")).collect();
    let progress = steps.concat();
    let rendered = rendered(progress.as_bytes(), 0, b"\nend\n");
    assert_eq!(rendered.text, "step 40999\nend");
    assert_eq!(rendered.omitted_chars, 0);
}

#[test]
fn invalid_bytes_become_replacement_characters_and_nothing_else_does() {
    assert_eq!(rendered(b"a\xff\xfeb", 0, b"").text, "a\u{fffd}\u{fffd}b");
    assert_eq!(rendered(b"\xe3\x81", 0, b"\x82").text, "\u{3042}");
    assert_eq!(rendered(b"\xe3\x81", 0, b"x").text, "\u{fffd}x");
    assert_eq!(
        rendered("漢".repeat(20_000).as_bytes(), 0, b"")
            .text
            .matches('\u{fffd}')
            .count(),
        0
    );
}

#[test]
fn a_character_split_between_head_and_tail_is_whole_at_every_offset() {
    let text = "a漢😀e\u{301}\u{1f468}\u{200d}\u{1f469}z";
    let bytes = text.as_bytes();
    for at in 0..=bytes.len() {
        let (head, tail) = bytes.split_at(at);
        assert_eq!(rendered(head, 0, tail).text, text, "{at}");
    }
}

#[test]
fn a_character_cut_by_a_gap_is_left_out_and_counted() {
    // The gap takes the last two bytes of the first character and the first two of the second.
    let rendered = rendered(b"head \xf0\x9f", 100, b"\x98\x80 tail");
    assert_eq!(
        rendered.text,
        "head \n[... 104 bytes omitted, no longer held ...]\n tail"
    );
    assert_eq!(rendered.omitted_chars, 0);
}

#[test]
fn exactly_the_limit_is_shown_whole_and_one_more_is_not() {
    let whole = "x".repeat(50_000);
    assert_eq!(shown(&whole), whole);
    let rendered = rendered(format!("{whole}y").as_bytes(), 0, b"");
    assert_eq!((rendered.omitted_chars, rendered.omitted_lines), (1, 1));
    let head = "x".repeat(20_000);
    let tail = "x".repeat(29_999);
    assert_eq!(
        rendered.text,
        format!("{head}\n[... 1 characters (1 lines) omitted ...]\n{tail}y")
    );
}

#[test]
fn the_limit_counts_characters_and_not_bytes() {
    let text = "😀".repeat(50_000);
    assert_eq!(shown(&text), text);
    assert_eq!(
        rendered("😀".repeat(60_000).as_bytes(), 0, b"").omitted_chars,
        10_000
    );
}

#[test]
fn cuts_fall_between_lines_and_the_counts_are_exact() {
    let lines: Vec<String> = (0..100_000)
        .map(|number| format!("line {number}"))
        .collect();
    let output = lines.join("\n");
    let rendered = rendered(output.as_bytes(), 0, b"");
    let (head, tail) = rendered.text.split_once("\n[... ").expect("a marker");
    let (marker, tail) = tail.split_once(" ...]\n").expect("the end of the marker");
    let head: Vec<&str> = head.lines().collect();
    let tail: Vec<&str> = tail.lines().collect();
    assert_eq!(head, lines[..head.len()]);
    assert_eq!(tail, lines[lines.len() - tail.len()..]);
    let missing = &lines[head.len()..lines.len() - tail.len()];
    // The line break after each missing line went with it.
    let missing_chars: usize = missing.iter().map(|line| line.len() + 1).sum();
    assert_eq!(
        marker,
        format!(
            "{missing_chars} characters ({} lines) omitted",
            missing.len()
        )
    );
    assert_eq!(rendered.omitted_chars, missing_chars as u64);
    assert_eq!(rendered.omitted_lines, missing.len() as u64);
    assert!(tail.last().is_some_and(|last| *last == "line 99999"));
}

#[test]
fn the_end_of_long_output_is_kept() {
    let output = format!("{}\nerror: build failed", "a".repeat(200_000));
    assert!(shown(&output).ends_with("\nerror: build failed"));
}

#[test]
fn a_character_made_of_several_is_not_cut() {
    // One cluster of five code points; neither 20,000 nor 30,000 from the end falls between two of them.
    let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
    let output = format!("xx{}x", family.repeat(20_000));
    let text = shown(&output);
    let (head, rest) = text.split_once("\n[... ").expect("a marker");
    let tail = rest.split_once("...]\n").expect("the end of the marker").1;
    assert_eq!(head.replace(family, ""), "xx");
    assert_eq!(tail.replace(family, ""), "x");
}

#[test]
fn lost_bytes_are_counted_apart_from_omitted_characters() {
    let head = "h\n".repeat(30_000);
    let tail = "t\n".repeat(30_000);
    let rendered = rendered(head.as_bytes(), 12_345, tail.as_bytes());
    // 10,000 lines of the head stay, and 15,000 of the tail.
    assert_eq!(rendered.omitted_chars, 40_000 + 30_000);
    assert_eq!(rendered.omitted_lines, 35_000);
    let marker =
        "[... 70000 characters (35000 lines) omitted, plus 12345 bytes no longer held ...]";
    assert!(
        rendered.text.contains(marker),
        "{}",
        &rendered.text[19_900..20_200]
    );
}

#[test]
fn a_short_head_leaves_its_room_to_the_tail() {
    let tail = "t".repeat(60_000);
    let rendered = rendered(b"head", 1, tail.as_bytes());
    assert_eq!(rendered.omitted_chars, 60_000 - (50_000 - 4));
    assert!(rendered.text.starts_with("head\n[... "));
}

#[test]
fn the_place_of_the_full_output_is_named_where_something_is_missing() {
    let place = Some("/run/output/a\u{1b}[2K, 60000 bytes");
    let line = "[full output: /run/output/a, 60000 bytes]";
    let outcome = Outcome::new(Ending::Exited(3));
    let told = |head: &[u8], dropped_bytes, full_output| {
        let finished = Finished {
            head,
            dropped_bytes,
            tail: b"end",
            full_output,
            outcome: &outcome,
        };
        render(&finished).text
    };
    let long = "x".repeat(60_000);
    let cut = told(long.as_bytes(), 0, place);
    assert!(cut.contains("[... 10003 characters (1 lines) omitted ...]"));
    assert!(cut.ends_with(&format!("end\n{line}\n[exit code: 3]")));
    let lost = told(b"start", 7, place);
    assert!(lost.contains("[... 7 bytes omitted ...]"), "{lost}");
    assert!(lost.contains(line), "{lost}");
    assert!(!told(b"start", 0, place).contains("full output"));
    assert!(!told(long.as_bytes(), 0, None).contains("full output"));
}

#[test]
fn neutralised_text_is_one_line_and_hides_nothing() {
    let cases = [
        ("plain", "plain"),
        ("a\nb\tc\r\nd", "a b c  d"),
        ("secret\rshown", "secret shown"),
        ("secret\u{1b}[2Kshown", "secretshown"),
        ("ab\u{8}\u{8}cd", "abcd"),
        ("\u{1b}]0;title\u{7}x\u{1b}[31my", "xy"),
        ("a\u{202e}b\u{2066}c", "abc"),
        ("a\u{2028}b", "a b"),
    ];
    for (text, expected) in cases {
        assert_eq!(neutralise(text), expected, "{text:?}");
    }
}
