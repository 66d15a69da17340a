//! Retries, holes, ends, slow readers.

use std::{io::Read, os::fd::AsFd};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::termios::{
        LocalFlags, SetArg, SpecialCharacterIndices, Termios, cfmakeraw, tcgetattr, tcsetattr,
    },
};

use super::*;

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_secs(10);

fn pipe() -> (Stdin, std::fs::File) {
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let sender = Sender::from_owned_fd(writer).unwrap();
    (Stdin::pipe(sender), reader.into())
}

fn bytes(offset: u64, data: &[u8]) -> Input<'_> {
    Input {
        offset,
        data,
        eof: false,
    }
}

fn open(offset: u64) -> Accepted {
    Accepted {
        offset,
        closed: false,
    }
}

fn all(mut reader: std::fs::File) -> Vec<u8> {
    let mut text = Vec::new();
    reader.read_to_end(&mut text).unwrap();
    text
}

#[tokio::test]
async fn what_is_sent_again_is_acknowledged_and_not_written_again() {
    let (stdin, reader) = pipe();
    let table: [(u64, &[u8], u64); 6] = [
        (0, b"abc", 3),
        (0, b"abc", 3),
        (1, b"bcd", 4),
        (4, b"", 4),
        (0, b"a", 4),
        (0, b"abcdef", 6),
    ];
    for (offset, data, accepted) in table {
        assert_eq!(
            stdin.write(bytes(offset, data), NOW).await,
            Ok(open(accepted)),
            "{offset} {data:?}"
        );
    }
    let hole = stdin.write(bytes(9, b"x"), NOW).await;
    assert_eq!(hole, Err(StdinError::Hole { expected: 6 }));
    let end = Input {
        offset: 6,
        data: b"g",
        eof: true,
    };
    let closed = Accepted {
        offset: 7,
        closed: true,
    };
    for _ in 0..2 {
        assert_eq!(stdin.write(end, NOW).await, Ok(closed), "also when retried");
    }
    assert_eq!(stdin.write(bytes(0, b"ab"), NOW).await, Ok(closed));
    let after = stdin.write(bytes(7, b"h"), NOW).await;
    assert_eq!(after, Err(StdinError::Closed));
    assert_eq!(all(reader), b"abcdefg");
}

#[tokio::test]
async fn a_command_that_closed_its_input_is_no_error_and_one_that_ended_is() {
    let (stdin, reader) = pipe();
    stdin.write(bytes(0, b"abc"), NOW).await.unwrap();
    drop(reader);
    let closed = Accepted {
        offset: 3,
        closed: true,
    };
    assert_eq!(stdin.write(bytes(3, b"def"), NOW).await, Ok(closed));
    assert_eq!(stdin.write(bytes(3, b"def"), NOW).await, Ok(closed));
    stdin.end();
    let ended = stdin.write(bytes(3, b"def"), NOW).await;
    assert_eq!(ended, Err(StdinError::Ended));
}

#[tokio::test]
async fn a_full_pipe_is_waited_for_and_the_answer_says_how_far_it_came() {
    let (stdin, reader) = pipe();
    let flood = vec![b'x'; 300_000];
    let first = stdin.write(bytes(0, &flood), NOW).await.unwrap();
    assert_eq!(first, open(65_536), "what fits");
    let stdin = Arc::new(stdin);
    let writer = Arc::clone(&stdin);
    let task = tokio::spawn(async move {
        let input = Input {
            offset: 0,
            data: &flood,
            eof: true,
        };
        writer.write(input, SOON).await
    });
    let read = tokio::task::spawn_blocking(move || all(reader));
    let end = Accepted {
        offset: 300_000,
        closed: true,
    };
    assert_eq!(task.await.unwrap(), Ok(end));
    assert_eq!(read.await.unwrap().len(), 300_000, "nothing twice");
}

#[tokio::test]
async fn a_blocked_writer_ends_with_the_command() {
    let (stdin, _reader) = pipe();
    let stdin = Arc::new(stdin);
    let writer = Arc::clone(&stdin);
    let task = tokio::spawn(async move {
        let flood = vec![b'x'; 100_000];
        writer.write(bytes(0, &flood), SOON).await
    });
    while stdin.lock().accepted < 65_536 {
        tokio::task::yield_now().await;
    }
    stdin.end();
    assert_eq!(task.await.unwrap(), Err(StdinError::Ended));
}

/// The future is dropped at every point at which it waits; what was written stays counted.
#[tokio::test]
async fn a_cancelled_write_counts_exactly_what_was_written() {
    for polls in 1..12 {
        let (stdin, mut reader) = pipe();
        let data: Vec<u8> = (0..200_000_u32)
            .map(|i| u8::try_from(i % 251).unwrap())
            .collect();
        {
            let mut write = std::pin::pin!(stdin.write(bytes(0, &data), SOON));
            for _ in 0..polls {
                let cancelled = tokio::time::timeout(Duration::from_millis(1), &mut write).await;
                cancelled.unwrap_err();
                let mut some = [0; 5000];
                reader.read_exact(&mut some).unwrap();
            }
        }
        let counted = stdin.lock().accepted;
        stdin.end();
        let left = all(reader);
        let total = u64::try_from(left.len()).unwrap() + 5000 * polls;
        assert_eq!(counted, total);
        let at = usize::try_from(5000 * polls).unwrap();
        assert_eq!(left, data[at..at + left.len()]);
    }
}

/// A terminal whose end of input is told as it is while a command runs, and the command's side of it.
fn on_terminal() -> (Arc<Stdin>, std::fs::File) {
    let pty = nix::pty::openpty(None, None).unwrap();
    let terminal = Arc::new(Terminal::watch(pty.master).unwrap());
    let peer = Peer::of(pty.slave.try_clone().unwrap());
    let stdin = Arc::new(Stdin::terminal(terminal, Some(peer)));
    let told = Arc::clone(&stdin);
    tokio::spawn(async move {
        loop {
            told.tell_end().await;
        }
    });
    (stdin, pty.slave.into())
}

/// One read by the command, in its own time.
async fn read(slave: &std::fs::File) -> String {
    let mut slave = slave.try_clone().unwrap();
    let read = tokio::task::spawn_blocking(move || {
        let mut buffer = [0; 64];
        let length = slave.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    });
    let read = tokio::time::timeout(SOON, read).await;
    read.expect("something to read").unwrap()
}

#[tokio::test]
async fn on_a_terminal_the_end_of_input_holds_until_more_is_typed() {
    let (stdin, slave) = on_terminal();
    for (offset, data, lines) in [
        (0, "", &[][..]),
        (0, "hello\n", &["hello\n"]),
        (6, "half", &["half"]),
        (10, "two\nlines", &["two\n", "lines"]),
        (19, "\x16\n", &["\n"]),
        (21, "\n", &["\n"]),
    ] {
        let input = Input {
            offset,
            data: data.as_bytes(),
            eof: true,
        };
        let accepted = open(offset + u64::try_from(data.len()).unwrap());
        for _ in 0..2 {
            assert_eq!(
                stdin.write(input, SOON).await,
                Ok(accepted),
                "it stays open"
            );
        }
        for line in lines {
            assert_eq!(read(&slave).await, *line, "{data:?}");
        }
        for _ in 0..3 {
            assert_eq!(read(&slave).await, "", "the end, however often: {data:?}");
        }
    }
    stdin.write(bytes(22, b"more\n"), SOON).await.unwrap();
    assert_eq!(read(&slave).await, "more\n");
    let mut late = Box::pin(read(&slave));
    let waited = tokio::time::timeout(Duration::from_millis(300), &mut late).await;
    waited.expect_err("nobody said the end again");
    stdin.write(bytes(27, b"x\n"), SOON).await.unwrap();
    assert_eq!(late.await, "x\n");
}

/// Sets the way of reading as the command would.
fn set(slave: &std::fs::File, change: impl FnOnce(&mut Termios)) {
    let mut settings = tcgetattr(slave).unwrap();
    change(&mut settings);
    tcsetattr(slave, SetArg::TCSADRAIN, &settings).unwrap();
}

#[tokio::test]
async fn a_command_that_changes_its_terminal_still_meets_the_end() {
    let (stdin, slave) = on_terminal();
    let before = tcgetattr(&slave).unwrap();
    let line = Input {
        offset: 0,
        data: b"abc\n",
        eof: true,
    };
    stdin.write(line, SOON).await.unwrap();
    set(&slave, cfmakeraw);
    tokio::time::sleep(Duration::from_millis(200)).await;
    set(&slave, |settings| *settings = before);
    assert_eq!(read(&slave).await, "abc\n");
    assert_eq!(read(&slave).await, "");
    // One that reads bytes is left alone, and reads no byte that nobody sent.
    set(&slave, cfmakeraw);
    let mut late = Box::pin(read(&slave));
    let waited = tokio::time::timeout(Duration::from_millis(500), &mut late).await;
    waited.expect_err("nothing to read");
    stdin.write(bytes(4, b"d"), SOON).await.unwrap();
    assert_eq!(late.await, "d");
    // An editor of lines gets the key, with which it knows what to do.
    set(&slave, |settings| {
        settings.local_flags.insert(LocalFlags::ISIG);
        settings.control_chars[SpecialCharacterIndices::VEOF as usize] = b'q';
    });
    let end = Input {
        offset: 5,
        data: b"",
        eof: true,
    };
    stdin.write(end, SOON).await.unwrap();
    assert_eq!(read(&slave).await, "q");
}

/// Nobody reads; whoever comes later finds the end, and no stray byte.
#[tokio::test]
async fn who_reads_late_and_in_another_way_finds_no_stray_byte() {
    let (stdin, slave) = on_terminal();
    let end = Input {
        offset: 0,
        data: b"",
        eof: true,
    };
    stdin.write(end, SOON).await.unwrap();
    let is_free = || {
        let mut peer = [PollFd::new(slave.as_fd(), PollFlags::POLLIN)];
        poll(&mut peer, PollTimeout::ZERO).unwrap() == 0
    };
    for _ in 0..10 {
        tokio::time::sleep(Duration::from_millis(97)).await;
        // A key lies there for a moment only.
        let mut looks = 0;
        while !is_free() {
            looks += 1;
            assert!(looks < 200, "it was not taken back");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(read(&slave).await, "");
}

#[tokio::test]
async fn where_nobody_can_look_the_end_is_typed_once() {
    for (data, reads) in [("", &[""][..]), ("a\n", &["a\n", ""]), ("a", &["a", ""])] {
        let pty = nix::pty::openpty(None, None).unwrap();
        let terminal = Arc::new(Terminal::watch(pty.master).unwrap());
        let stdin = Stdin::terminal(terminal, None);
        let slave = pty.slave.into();
        let input = Input {
            offset: 0,
            data: data.as_bytes(),
            eof: true,
        };
        stdin.write(input, SOON).await.unwrap();
        stdin.tell_end().await;
        for expected in reads {
            assert_eq!(read(&slave).await, *expected);
        }
        let more = tokio::time::timeout(Duration::from_millis(100), stdin.tell_end()).await;
        more.expect_err("there is nothing more to do");
    }
}
