//! Commands that write bytes known beforehand, in pieces that a seed decides.

use std::{fmt::Write as _, fs, time::Duration};

use agentd_proto::v1;
use agentd_tests::harness::{Random, Transcript, World, script};

/// A run takes well below a second on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writer {
    /// `printf` of bash, all at once.
    Printf,
    /// `cat`, as fast as it goes.
    Cat,
    /// `dd`, in pieces of this many bytes.
    Pieces(usize),
}

/// Bytes and how they are written.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    writer: Writer,
    out: Vec<u8>,
    err: Vec<u8>,
}

impl Source {
    /// Text without a newline at its end, from one byte to a few thousand.
    pub(crate) fn printf(random: &mut Random) -> Self {
        let length = random.between(1, random.clone().pick(&[1, 16, 4096, 9000]));
        let letters = b"abcdefghijklmnopqrstuvwxyz \n";
        let out: Vec<u8> = (0..length)
            .map(|_| random.pick(letters))
            .chain(*b".")
            .collect();
        Self {
            writer: Writer::Printf,
            out,
            err: Vec::new(),
        }
    }

    /// Two mebibytes and a little, at once.
    pub(crate) fn burst(random: &mut Random) -> Self {
        let length = (2 << 20) + random.between(0, 5);
        Self {
            writer: Writer::Cat,
            out: bytes(random, length),
            err: Vec::new(),
        }
    }

    /// Characters of one to four bytes, in pieces that cut them.
    pub(crate) fn characters(random: &mut Random) -> Self {
        let mut text = |most: u64| {
            let mut text = String::new();
            for _ in 0..random.between(1, most) {
                text.push(random.pick(&['a', 'é', '漢', '😀', '\u{301}', '\n']));
            }
            text.into_bytes()
        };
        let (out, err) = (text(3000), text(300));
        let piece = usize::try_from(random.between(1, 50)).expect("small");
        Self {
            writer: Writer::Pieces(piece),
            out,
            err,
        }
    }

    /// Any bytes.
    pub(crate) fn binary(random: &mut Random) -> Self {
        let most = random.pick(&[10, 5_000, 300_000]);
        let length = random.between(1, most);
        let (out, err) = (bytes(random, length), bytes(random, length / 7));
        let piece = usize::try_from(random.between(500, 70_000)).expect("small");
        let writer = random.pick(&[Writer::Cat, Writer::Pieces(piece)]);
        Self { writer, out, err }
    }

    /// The request. The bytes lie in files of the workspace, unless they are the script's own.
    pub(crate) fn spec(&self, world: &World, id: &str) -> v1::ExecSpec {
        let text = if self.writer == Writer::Printf {
            let text = std::str::from_utf8(&self.out).expect("text");
            format!("printf '%s' '{text}'")
        } else {
            let mut text = String::new();
            for (stream, bytes) in [(1, &self.out), (2, &self.err)] {
                let name = format!("{id}-{stream}");
                fs::write(world.workspace.join(&name), bytes).expect("a file");
                world.give(&world.workspace.join(&name));
                match self.writer {
                    Writer::Pieces(size) => {
                        writeln!(text, "dd if={name} bs={size} status=none >&{stream}")
                    }
                    Writer::Printf | Writer::Cat => writeln!(text, "cat {name} >&{stream}"),
                }
                .expect("text");
            }
            text
        };
        script(world, id, &text)
    }

    /// Removes what [`Source::spec`] put into the workspace.
    pub(crate) fn tidy(world: &World, id: &str) {
        for stream in [1, 2] {
            drop(fs::remove_file(
                world.workspace.join(format!("{id}-{stream}")),
            ));
        }
    }

    /// Every byte is there: none lost, not even counted ones, and none altered.
    pub(crate) fn judge(&self, told: &Transcript) -> Result<(), String> {
        if told.gaps > 0 {
            return Err(format!(
                "{} and {} bytes were lost",
                told.stdout.lost, told.stderr.lost
            ));
        }
        told.stdout.compare(&self.out)?;
        told.stderr.compare(&self.err)
    }
}

fn bytes(random: &mut Random, length: u64) -> Vec<u8> {
    let length = usize::try_from(length).expect("a size");
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}
