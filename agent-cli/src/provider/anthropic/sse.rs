//! Server-sent events from bytes. Lines are framed on bytes first and decoded afterwards, so a character
//! that is split between two network chunks stays whole. Must not know what an event means.

/// One event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SseEvent {
    /// The `event:` field; empty when the sender left it out.
    pub(super) name: String,
    /// The `data:` lines, joined by newlines.
    pub(super) data: String,
}

/// A line or event grew beyond [`MAX_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("one event is larger than {MAX_BYTES} bytes")]
pub(super) struct TooLarge;

/// No sane event comes near this; it bounds the memory that a broken server can take.
const MAX_BYTES: usize = 32 * 1024 * 1024;

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// The decoder's state between chunks.
#[derive(Debug, Default)]
pub(super) struct SseDecoder {
    line: Vec<u8>,
    /// The last byte was CR: an LF right after it belongs to the same line end.
    after_cr: bool,
    started: bool,
    name: String,
    data: Vec<String>,
    data_bytes: usize,
}

impl SseDecoder {
    /// Takes a chunk and returns the events that it completes.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<Vec<SseEvent>, TooLarge> {
        let mut events = Vec::new();
        for &byte in chunk {
            let lf_of_crlf = self.after_cr && byte == b'\n';
            self.after_cr = byte == b'\r';
            match byte {
                _ if lf_of_crlf => {}
                b'\n' | b'\r' => events.extend(self.end_line()),
                _ => self.line.push(byte),
            }
            if self.line.len().saturating_add(self.data_bytes) > MAX_BYTES {
                return Err(TooLarge);
            }
        }
        Ok(events)
    }

    /// The event that was not ended by an empty line; some gateways close the stream right after the last one.
    pub(super) fn finish(mut self) -> Option<SseEvent> {
        let last = self.end_line();
        last.or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<SseEvent> {
        let line = std::mem::take(&mut self.line);
        let bytes = if self.started {
            &line[..]
        } else {
            line.strip_prefix(BOM).unwrap_or(&line)
        };
        self.started = true;
        let text = String::from_utf8_lossy(bytes);
        if text.is_empty() {
            return self.dispatch();
        }
        // A comment is a line whose field name is empty.
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.name),
            "data" => {
                self.data_bytes = self.data_bytes.saturating_add(value.len());
                self.data.push(value.to_owned());
            }
            _ => {}
        }
        None
    }

    fn dispatch(&mut self) -> Option<SseEvent> {
        let name = std::mem::take(&mut self.name);
        let data = std::mem::take(&mut self.data);
        self.data_bytes = 0;
        (!data.is_empty()).then(|| SseEvent {
            name,
            data: data.join("\n"),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decode(chunks: &[&[u8]]) -> Vec<(String, String)> {
        let mut decoder = SseDecoder::default();
        let mut events: Vec<SseEvent> = Vec::new();
        for chunk in chunks {
            events.extend(decoder.feed(chunk).unwrap());
        }
        events.extend(decoder.finish());
        events
            .into_iter()
            .map(|event| (event.name, event.data))
            .collect()
    }

    fn events(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected
            .iter()
            .map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
            .collect()
    }

    #[test]
    fn every_form_of_framing_is_understood() {
        let cases: [(&str, &[(&str, &str)]); 11] = [
            ("event: a\ndata: 1\n\ndata: 2\n\n", &[("a", "1"), ("", "2")]),
            (
                "event: a\r\ndata: 1\r\n\r\ndata: 2\r\n\r\n",
                &[("a", "1"), ("", "2")],
            ),
            ("event: a\rdata: 1\r\rdata: 2\r\r", &[("a", "1"), ("", "2")]),
            ("data:1\ndata: 2\ndata:  3\n\n", &[("", "1\n2\n 3")]),
            (": ping\n\n:\n\ndata: 1\n\n", &[("", "1")]),
            ("\u{feff}data: 1\n\n", &[("", "1")]),
            ("id: 7\nretry: 5\nunknown\ndata: 1\n\n", &[("", "1")]),
            ("event: a\n\ndata: 1\n\n", &[("", "1")]),
            ("data: [DONE]\n\n", &[("", "[DONE]")]),
            (
                "data: no empty line at the end",
                &[("", "no empty line at the end")],
            ),
            ("data\n\n", &[("", "")]),
        ];
        for (text, expected) in cases {
            assert_eq!(decode(&[text.as_bytes()]), events(expected), "{text:?}");
        }
    }

    #[test]
    fn a_stream_cut_at_any_byte_gives_the_same_events() {
        let text = "\u{feff}event: 那\r\ndata: 那😀\r\n\r\n: c\r\ndata: a\ndata: b\r\rdata: é\n\n";
        let whole = decode(&[text.as_bytes()]);
        assert_eq!(whole, events(&[("那", "那😀"), ("", "a\nb"), ("", "é")]));
        let bytes = text.as_bytes();
        for first in 0..=bytes.len() {
            let (head, tail) = bytes.split_at(first);
            assert_eq!(decode(&[head, tail]), whole, "cut at {first}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single), whole);
    }

    #[test]
    fn invalid_utf8_is_replaced_and_the_next_event_is_intact() {
        let decoded = decode(&[b"data: \xff\xfe\n\ndata: ok\n\n"]);
        assert_eq!(decoded, events(&[("", "\u{fffd}\u{fffd}"), ("", "ok")]));
    }

    #[test]
    fn an_endless_line_is_an_error() {
        let mut decoder = SseDecoder::default();
        let chunk = vec![b'x'; MAX_BYTES];
        assert_eq!(decoder.feed(&chunk), Ok(Vec::new()));
        assert_eq!(decoder.feed(b"x"), Err(TooLarge));
    }

    proptest! {
        #[test]
        fn garbage_in_any_chunks_decodes_as_in_one(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"\r\n: dat".to_vec())], 0..200),
            cut in 1_usize..9,
        ) {
            let chunks: Vec<&[u8]> = bytes.chunks(cut).collect();
            prop_assert_eq!(decode(&chunks), decode(&[&bytes]));
        }
    }
}
