//! By hand, by random bytes, and against bash itself.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, process::Command};

use proptest::prelude::*;

use super::*;

fn one(name: &str, value: &[u8]) -> Exported {
    Exported {
        name: name.as_bytes().to_vec(),
        value: Some(value.to_vec()),
    }
}

#[test]
fn every_form_that_bash_prints_is_read() {
    let table: Vec<(&[u8], Vec<Exported>)> = vec![
        (b"", vec![]),
        (b"declare -x A=\"\"\n", vec![one("A", b"")]),
        (b"declare -x A=\"1\"", vec![one("A", b"1")]),
        (
            b"declare -ix N=\"5\"\ndeclare -rx R=\"a b\"\n",
            vec![one("N", b"5"), one("R", b"a b")],
        ),
        (
            b"declare -x A=\"\\\"\\$x\\`y\\\\ !\"\n",
            vec![one("A", b"\"$x`y\\ !")],
        ),
        (
            b"declare -x A=\"line\nB=\\\"x\\\"\ndeclare -x C=\"\n",
            vec![one("A", b"line\nB=\"x\"\ndeclare -x C=")],
        ),
        (
            b"declare -x A=$'\\E[0m\\t\\001\\303\\'\\\\'\n",
            vec![one("A", b"\x1b[0m\t\x01\xc3'\\")],
        ),
        (
            b"declare -x NONE\ndeclare -x B=\"1\"\n",
            vec![
                Exported {
                    name: b"NONE".to_vec(),
                    value: None,
                },
                one("B", b"1"),
            ],
        ),
        (
            b"declare -ax ARR=([0]=\"x\" [1]=\"y\")\ndeclare -x B=\"1\"\n",
            vec![one("B", b"1")],
        ),
    ];
    for (bytes, expected) in table {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(parse(bytes).as_ref(), Some(&expected), "{text}");
    }
}

#[test]
fn anything_else_is_refused_as_a_whole() {
    let table: [&[u8]; 11] = [
        b"x",
        b"declare A=\"1\"\n",
        b"declare - A=\"1\"\n",
        b"declare -x =\"1\"\n",
        b"declare -x 1A=\"1\"\n",
        b"declare -x A=1\n",
        b"declare -x A=\"1\n",
        b"declare -x A=\"1\"x\n",
        b"declare -x A=$'\\",
        b"declare -x A=$'\\x41'\n",
        b"declare -x A=\"1\"\ndeclare -x B",
    ];
    // The last one is whole: a name without a value may end the text.
    let (last, broken) = table.split_last().unwrap();
    assert!(parse(last).is_some());
    for bytes in broken {
        let text = String::from_utf8_lossy(bytes);
        assert_eq!(parse(bytes), None, "{text}");
    }
}

#[test]
fn a_text_cut_anywhere_never_gives_a_value_that_was_not_there() {
    let whole = b"declare -x A=\"a\\\"b\nc\"\ndeclare -x B=$'\\tx'\ndeclare -x C=\"d\"\n";
    let all = parse(whole).unwrap();
    for end in 0..whole.len() {
        for found in parse(&whole[..end]).unwrap_or_default() {
            let is_whole = all.contains(&found);
            // A name that was cut off reads as one without value, which is never carried.
            assert!(is_whole || found.value.is_none(), "{end}: {found:?}");
        }
    }
}

/// What bash prints for one variable with this value.
#[expect(clippy::disallowed_methods, reason = "the oracle of a test")]
fn bash_prints(value: &[u8], locale: &str) -> Vec<u8> {
    let bash = Command::new("bash")
        .args(["--norc", "--noprofile", "-c", "builtin declare -px V"])
        .env_clear()
        .env("LC_ALL", locale)
        .env("V", OsStr::from_bytes(value))
        .output();
    bash.unwrap().stdout
}

fn survives_bash(value: &[u8]) {
    for locale in ["C", "C.UTF-8"] {
        let printed = bash_prints(value, locale);
        let text = String::from_utf8_lossy(&printed);
        assert_eq!(
            parse(&printed),
            Some(vec![one("V", value)]),
            "{locale}: {text}"
        );
    }
}

#[test]
fn each_byte_but_nul_survives_bash() {
    let every: Vec<u8> = (1..=u8::MAX).collect();
    survives_bash(&every);
    for chunk in every.chunks(17) {
        survives_bash(chunk);
    }
    for text in [
        "caf\u{e9} \u{1f600}",
        "a\nb",
        "'",
        "\"",
        "$(x)`y`",
        "\\",
        "\\\n",
        "",
        " ",
        "!",
    ] {
        survives_bash(text.as_bytes());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn random_values_survive_bash(value in proptest::collection::vec(1_u8.., 0..200)) {
        survives_bash(&value);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_fail(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        drop(parse(&bytes));
        let mut told = b"declare -x A=".to_vec();
        told.extend_from_slice(&bytes);
        drop(parse(&told));
    }
}
