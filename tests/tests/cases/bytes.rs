//! Bytes stay bytes on the wire, and become text for the model at real character boundaries only.

use agentd_tests::harness::{Transcript, follow, in_every_mode, script};

use crate::room::{PROMPT, Room, text};

/// Source, script, the bytes of stdout.
fn cases() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    vec![
        (
            "codex#4431",
            "printf '\\xe3\\x81'; sleep 0.3; printf '\\x82\\n'",
            "あ\n".into(),
        ),
        (
            "codex#7582",
            "printf '\\xff\\xfe\\n'",
            b"\xff\xfe\n".to_vec(),
        ),
        (
            "strands#4156",
            "printf 'caf\\xc3'; sleep 0.3; printf '\\xa9'",
            "café".into(),
        ),
        (
            "eliza#29883",
            "yes 漢字 | tr -d '\\n' | head -c 204798",
            "漢字".repeat(34133).into(),
        ),
        (
            "cc, 2.1.94",
            "python3 -c \"print('漢'*20000)\"",
            format!("{}\n", "漢".repeat(20000)).into(),
        ),
        (
            "cc#16294",
            "python3 -c \"print('😀'*40000)\"",
            format!("{}\n", "😀".repeat(40000)).into(),
        ),
        (
            "daytona#2606",
            "printf '\\x1b[2J\\x1b[1;1H\\xe2\\x94'; sleep 0.2; printf '\\x82'",
            "\u{1b}[2J\u{1b}[1;1H│".into(),
        ),
        ("cc, E.39", "printf 'a\\0b\\0'", b"a\0b\0".to_vec()),
        (
            "cc, E.39",
            "for n in 1 2 3 4; do printf '\\xf0'; sleep 0.02; printf '\\x9f\\x98'; sleep 0.02; printf '\\x80'; done",
            "😀".repeat(4).into(),
        ),
    ]
}

#[test]
fn every_byte_arrives_wherever_a_write_cuts_a_character() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (index, (source, command, bytes)) in cases().into_iter().enumerate() {
            let spec = script(&room.world, &format!("bytes-{index}"), command);
            let told = runtime.block_on(follow(&room.daemon.socket, &spec, PROMPT));
            let told: Transcript = told.unwrap_or_else(|why| panic!("{source}: {why}"));
            let compared = told.stdout.compare(&bytes);
            compared.unwrap_or_else(|why| panic!("{source}: {why}"));
            assert_eq!(told.gaps, 0, "{source}");
            // What a model reads holds a replacement character only where a byte is no character.
            let (answer, _) = room.run(&[], command);
            let broken = std::str::from_utf8(&bytes).is_err();
            let shown = text(&answer, "stdout");
            assert_eq!(shown.contains('\u{fffd}'), broken, "{source}: {shown:.60}");
        }
    });
}

/// cc, E.39: a thousand random bytes crashed the decoder.
#[test]
fn random_bytes_are_shown_and_counted() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for length in [1, 1000, 70_000] {
            let (answer, ended) = room.run(&[], &format!("head -c {length} /dev/urandom"));
            ended.expect_code(0);
            assert_eq!(answer["stdout_bytes"], length, "{length}");
        }
    });
}
