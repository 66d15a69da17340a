//! How the arguments of a program cross the boundary: as a string each, or as an array of numbers where one
//! is no UTF-8. Numbers alone would take four bytes for one.

use std::{borrow::Cow, str};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Word<'word> {
    Text(Cow<'word, str>),
    Bytes(Cow<'word, [u8]>),
}

pub(super) fn serialize<S: Serializer>(words: &[Vec<u8>], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(words.iter().map(|word| match str::from_utf8(word) {
        Ok(text) => Word::Text(text.into()),
        Err(_) => Word::Bytes(word.into()),
    }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u8>>, D::Error> {
    let words = Vec::<Word<'_>>::deserialize(from)?;
    let bytes = |word| match word {
        Word::Text(text) => text.into_owned().into_bytes(),
        Word::Bytes(bytes) => bytes.into_owned(),
    };
    Ok(words.into_iter().map(bytes).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::{monitor::MAX_MESSAGE, policy::Program};

    fn across(argv: &[Vec<u8>]) -> (usize, Program) {
        let sent = serde_json::to_vec(&Program::Argv(argv.to_vec())).unwrap();
        (sent.len(), serde_json::from_slice(&sent).unwrap())
    }

    proptest! {
        #[test]
        fn arguments_cross_byte_for_byte(
            argv in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..20)
        ) {
            prop_assert_eq!(across(&argv).1, Program::Argv(argv));
        }
    }

    #[test]
    fn a_hundred_kibibytes_of_text_fit_a_message() {
        for (name, word) in [
            ("ascii", "x".repeat(100 * 1024)),
            ("umlauts", "ü".repeat(50 * 1024)),
            ("lines", "a line of a file\n".repeat(6_000)),
            ("quotes", "an \"argument\" of code ".repeat(4_500)),
        ] {
            let argv = vec![b"cat".to_vec(), word.into_bytes()];
            let (length, back) = across(&argv);
            assert!(length < MAX_MESSAGE - 8 * 1024, "{name}: {length}");
            assert_eq!(back, Program::Argv(argv));
        }
    }
}
