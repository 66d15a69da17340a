//! Reading the options of a wrapper, as far as to know where they end and what scripts they hold.

use super::table::{Style, Wrapper};
use crate::commands::word::Word;

/// The options before the first operand.
#[derive(Debug)]
pub(super) struct Options<'a> {
    /// Letters of short options.
    letters: String,
    /// Values of options that have one: a letter or a long name, and the value.
    values: Vec<(&'a str, String)>,
    /// What follows the options.
    rest: &'a [Word],
}

impl<'a> Options<'a> {
    pub(super) fn read(wrapper: &Wrapper, arguments: &'a [Word]) -> Self {
        let mut options = Self {
            letters: String::new(),
            values: Vec::new(),
            rest: arguments,
        };
        while let Some((argument, rest)) = options.rest.split_first() {
            let text = argument.known.as_str();
            let sign = text.chars().next().filter(|sign| matches!(sign, '-' | '+'));
            let is_option = match sign {
                Some('-') => text.len() > 1 || wrapper.style == Style::Env,
                // `set` options of a shell.
                Some(_) => wrapper.style == Style::Shell,
                None => false,
            };
            if !is_option {
                break;
            }
            options.rest = rest;
            match text.strip_prefix("--") {
                Some("") => break,
                Some(long) => options.long(wrapper, long),
                None => options.bundle(wrapper, text.get(1..).unwrap_or_default()),
            }
        }
        options
    }

    fn long(&mut self, wrapper: &Wrapper, option: &'a str) {
        if let Some((name, value)) = option.split_once('=') {
            self.values.push((name, value.to_owned()));
        } else if wrapper.long.contains(&option)
            || (wrapper.style == Style::OptionC && option == "command")
        {
            self.value(option);
        }
    }

    /// `-abc`; the letter with a value takes the rest of the bundle, or the next word.
    fn bundle(&mut self, wrapper: &Wrapper, letters: &'a str) {
        for (at, letter) in letters.char_indices() {
            let after = at.saturating_add(letter.len_utf8());
            let (name, attached) = (
                letters.get(at..after).unwrap_or_default(),
                letters.get(after..).unwrap_or_default(),
            );
            let is_script = wrapper.style == Style::OptionC && letter == 'c';
            if !wrapper.short.contains(letter) && !is_script {
                self.letters.push(letter);
            } else if attached.is_empty() || wrapper.style == Style::Shell {
                self.value(name);
            } else {
                self.values.push((name, attached.to_owned()));
                return;
            }
        }
    }

    fn value(&mut self, name: &'a str) {
        if let Some((value, rest)) = self.rest.split_first() {
            self.values.push((name, value.script.clone()));
            self.rest = rest;
        }
    }

    pub(super) fn has(&self, letter: char) -> bool {
        self.letters.contains(letter)
    }

    pub(super) fn rest(&self, operands: usize) -> &'a [Word] {
        self.rest.get(operands..).unwrap_or_default()
    }

    pub(super) fn values_of<'s>(&'s self, names: &'s [&str]) -> impl Iterator<Item = &'s str> {
        self.values
            .iter()
            .filter(|(name, _)| names.contains(name))
            .map(|(_, value)| value.as_str())
    }
}
