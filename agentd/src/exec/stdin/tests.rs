//! Retries, holes, ends, slow readers.

use std::io::Read;

use super::*;

const NOW: Duration = Duration::ZERO;
const SOON: Duration = Duration::from_secs(10);

fn pipe() -> (Stdin, std::fs::File) {
    let (reader, writer) = nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).unwrap();
    let end = StdinEnd::Pipe(Sender::from_owned_fd(writer).unwrap());
    (Stdin::new(end), reader.into())
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

#[tokio::test]
async fn on_a_terminal_the_end_of_input_is_typed_once() {
    let pty = nix::pty::openpty(None, None).unwrap();
    let terminal = Arc::new(Terminal::watch(pty.master).unwrap());
    let stdin = Stdin::new(StdinEnd::Terminal(terminal));
    let line = Input {
        offset: 0,
        data: b"hello\nhalf",
        eof: true,
    };
    for _ in 0..2 {
        assert_eq!(stdin.write(line, SOON).await, Ok(open(10)), "it stays open");
    }
    let mut slave = std::fs::File::from(pty.slave);
    let mut read = || {
        let mut buffer = [0; 64];
        let length = slave.read(&mut buffer).unwrap();
        String::from_utf8(buffer[..length].to_vec()).unwrap()
    };
    assert_eq!(read(), "hello\n");
    assert_eq!(read(), "half");
    assert_eq!(read(), "", "the end of input");
    stdin.write(bytes(10, b"more\n"), SOON).await.unwrap();
    assert_eq!(read(), "more\n", "and it was typed only once");
}
