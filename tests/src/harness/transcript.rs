//! What a reader of an execution was told, checked against the contract with every event: numbers without
//! holes, offsets without holes but for counted gaps, one end and nothing after it.

use agentd_proto::v1::{self, exec_event::Event};

/// One stream of a command as its reader has it.
#[derive(Debug, Clone, Default)]
pub struct Track {
    pieces: Vec<(u64, Vec<u8>)>,
    /// Position behind the last byte received or counted as lost.
    pub offset: u64,
    /// Bytes that gaps counted.
    pub lost: u64,
}

/// Everything a reader was told, over all of its connections.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    /// Number of the last event.
    pub last_seq: u64,
    /// The start was told.
    pub started: Option<v1::Started>,
    /// Standard output.
    pub stdout: Track,
    /// Standard error.
    pub stderr: Track,
    /// The terminal.
    pub pty: Track,
    /// How often a gap was told.
    pub gaps: u32,
    /// The end.
    pub exited: Option<v1::ExitResult>,
}

impl Track {
    fn take(&mut self, offset: u64, data: Vec<u8>) -> Result<(), String> {
        if offset != self.offset {
            return Err(format!(
                "output at offset {offset}, expected at {}",
                self.offset
            ));
        }
        self.offset += u64::try_from(data.len()).expect("a length");
        match self.pieces.last_mut() {
            Some((start, last)) if *start + last.len() as u64 == offset => last.extend(data),
            _ => self.pieces.push((offset, data)),
        }
        Ok(())
    }

    fn lose(&mut self, bytes: u64) {
        self.offset += bytes;
        self.lost += bytes;
    }

    /// Bytes that arrived.
    pub fn received(&self) -> u64 {
        self.pieces.iter().map(|(_, data)| data.len() as u64).sum()
    }

    /// All bytes, when none was lost.
    pub fn bytes(&self) -> &[u8] {
        assert_eq!(self.lost, 0, "bytes are missing");
        self.pieces.first().map_or(&[], |(_, data)| data)
    }

    /// Compares every byte that arrived with the one that was written there, and the sum of received and
    /// lost bytes with what was written.
    pub fn compare(&self, written: &[u8]) -> Result<(), String> {
        for (offset, data) in &self.pieces {
            let start = usize::try_from(*offset).expect("an offset");
            let real = written.get(start..start + data.len());
            if real != Some(data) {
                return Err(format!(
                    "{} bytes at {offset} are not those that were written",
                    data.len()
                ));
            }
        }
        if self.offset != written.len() as u64 {
            return Err(format!(
                "{} bytes received and {} lost of {}",
                self.received(),
                self.lost,
                written.len()
            ));
        }
        Ok(())
    }
}

impl Transcript {
    /// Takes an event of any connection of this reader.
    pub fn take(&mut self, event: v1::ExecEvent) -> Result<(), String> {
        if self.exited.is_some() {
            return Err(format!("an event after the end: {event:?}"));
        }
        let body = event.event.ok_or("an event without content")?;
        let numbered = !matches!(body, Event::Gap(_) | Event::Heartbeat(_));
        if numbered && event.seq != self.last_seq + 1 {
            return Err(format!("event {} after event {}", event.seq, self.last_seq));
        }
        if numbered {
            self.last_seq = event.seq;
        } else if event.seq != 0 {
            return Err(format!("a gap or heartbeat has number {}", event.seq));
        }
        self.take_body(body)
    }

    fn take_body(&mut self, body: Event) -> Result<(), String> {
        match body {
            Event::Started(started) => {
                if self.started.replace(started).is_some() {
                    return Err("a second start".to_owned());
                }
            }
            Event::Output(output) => {
                let track = match output.stream() {
                    v1::Stream::Stdout => &mut self.stdout,
                    v1::Stream::Stderr => &mut self.stderr,
                    v1::Stream::Pty => &mut self.pty,
                    v1::Stream::Unspecified => return Err("output of no stream".to_owned()),
                };
                track.take(output.offset, output.data.into())?;
            }
            Event::Gap(gap) => self.take_gap(&gap)?,
            Event::Heartbeat(_) => {}
            Event::Exited(result) => self.exited = Some(result),
        }
        Ok(())
    }

    fn take_gap(&mut self, gap: &v1::Gap) -> Result<(), String> {
        if gap.from_seq != self.last_seq + 1 || gap.to_seq < gap.from_seq {
            return Err(format!("after event {}: {gap:?}", self.last_seq));
        }
        self.last_seq = gap.to_seq;
        self.gaps += 1;
        self.stdout.lose(gap.stdout_bytes);
        self.stderr.lose(gap.stderr_bytes);
        self.pty.lose(gap.pty_bytes);
        Ok(())
    }

    /// How it ended.
    pub fn reason(&self) -> v1::ExitReason {
        self.exited.as_ref().expect("an end").reason()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(seq: u64, offset: u64, data: &'static [u8]) -> v1::ExecEvent {
        let body = v1::Output {
            stream: v1::Stream::Stdout.into(),
            offset,
            data: data.into(),
        };
        event(seq, Event::Output(body))
    }

    fn event(seq: u64, body: Event) -> v1::ExecEvent {
        v1::ExecEvent {
            exec_id: String::new(),
            seq,
            event: Some(body),
        }
    }

    fn gap(from_seq: u64, to_seq: u64, stdout_bytes: u64) -> v1::ExecEvent {
        let body = v1::Gap {
            from_seq,
            to_seq,
            stdout_bytes,
            ..v1::Gap::default()
        };
        event(0, Event::Gap(body))
    }

    #[test]
    fn a_gap_that_is_counted_is_accepted_and_any_other_hole_is_not() {
        let start = || event(1, Event::Started(v1::Started::default()));
        let tell = |events: Vec<v1::ExecEvent>| {
            let mut transcript = Transcript::default();
            let told = events.into_iter().try_for_each(|e| transcript.take(e));
            told.map(|()| transcript)
        };
        let good = tell(vec![start(), gap(2, 3, 4), output(4, 4, b"efg")]).expect("exact");
        good.stdout.compare(b"abcdefg").expect("exact");
        good.stdout
            .compare(b"abcdefgh")
            .expect_err("one is missing");
        good.stdout.compare(b"abcdeFg").expect_err("one differs");
        for (name, events) in [
            ("a hole in numbers", vec![start(), output(3, 0, b"a")]),
            ("a repeated number", vec![start(), start()]),
            ("a hole in offsets", vec![start(), output(2, 1, b"a")]),
            ("a gap elsewhere", vec![start(), gap(3, 4, 1)]),
            (
                "a gap of too few bytes",
                vec![start(), gap(2, 2, 3), output(3, 4, b"e")],
            ),
        ] {
            tell(events).expect_err(name);
        }
    }
}
