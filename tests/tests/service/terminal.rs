//! Commands on a terminal: it is theirs, it has a size, and keys on it mean what they mean to a person.

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{Api, Mode, Transcript, in_every_mode, script};
use tonic::Code;

use crate::site::{Site, attach, carries, read_all, read_until, run, screen};

/// A program that says when it runs: bash before it would ignore some keys.
const UP: &str = r#"exec perl -e '$| = 1; print "up\n"; sleep 600'"#;

/// Tells each new size. A shell would lose what comes while it handles another.
/// Unbuffered: a signal may come while another one is being told.
const SIZES: &str = "exec python3 -c 'import os, signal
def told(*_): size = os.get_terminal_size(0); os.write(1, b\"%d %d\\n\" % (size.lines, size.columns))
signal.signal(signal.SIGWINCH, told); os.write(1, b\"up\\n\")
while True: signal.pause()'";

const SIZE: v1::PtySize = v1::PtySize {
    columns: 91,
    rows: 37,
};

fn on_terminal(site: &Site, id: &str, text: &str) -> v1::ExecSpec {
    let mut spec = script(&site.world, id, text);
    spec.io = Some(v1::IoSpec {
        pty: Some(SIZE),
        ..v1::IoSpec::default()
    });
    spec
}

async fn keys(api: &Api, id: &str, (offset, keys): (u64, &[u8])) -> u64 {
    let request = v1::WriteStdinRequest {
        exec_id: id.to_owned(),
        offset,
        data: keys.to_vec().into(),
        eof: false,
    };
    let answer = api.execs().write_stdin(request).await.expect("accepted");
    answer.get_ref().accepted_offset
}

async fn resize(api: &Api, id: &str, (columns, rows): (u32, u32)) -> Result<(), tonic::Status> {
    let request = v1::ResizePtyRequest {
        exec_id: id.to_owned(),
        size: Some(v1::PtySize { columns, rows }),
    };
    api.execs().resize_pty(request).await.map(drop)
}

#[test]
fn a_command_has_its_terminal_and_its_size() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let ask = "test -t 0 && test -t 1 && test -t 2 && echo all; tty; stty size; tty </dev/tty; ps -o tty= -p $$ 2>/dev/null; echo err >&2";
            let told = run(&api, on_terminal(site, "ask", ask)).await;
            let text = screen(&told);
            assert!(text.starts_with("all\r\n"), "{text}");
            assert!(text.contains("37 91\r\n") && text.contains("err\r\n"), "{text}");
            if mode == Mode::Nested {
                assert!(text.contains("/dev/pts/"), "{text}");
            } else {
                assert!(text.contains("/dev/pts/0\r\n"), "{text}");
            }
            assert_eq!(told.stdout.offset + told.stderr.offset, 0, "one stream");
            assert_eq!(told.reason(), ExitReason::Exited);
        });
    });
}

#[test]
fn a_command_without_one_has_none_not_even_by_its_name() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let ask = "test -t 0 || test -t 1 || test -t 2 && echo has; (exec 3<>/dev/tty) 2>/dev/null && echo opened; tty; stty size 2>/dev/null && echo sized; python3 -c 'import os
try: os.close(os.open(\"/dev/tty\", os.O_RDWR)); print(\"opened\")
except OSError as e: print(\"refused\")'; true";
            let mut with_input = script(&site.world, "input", ask);
            with_input.io = Some(v1::IoSpec {
                stdin: true,
                ..v1::IoSpec::default()
            });
            for spec in [script(&site.world, "plain", ask), with_input] {
                let told = run(&api, spec).await;
                let text = String::from_utf8_lossy(told.stdout.bytes()).into_owned();
                assert!(text.contains("refused") && text.contains("not a tty"), "{text}");
                for wrong in ["has", "opened", "sized"] {
                    assert!(!text.contains(wrong), "{text}");
                }
            }
        });
    });
}

#[test]
fn a_new_size_reaches_a_command_that_listens_for_it() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            api.start(on_terminal(site, "w", SIZES))
                .await
                .expect("it starts");
            let (mut reader, mut told) = (attach(&api, "w").await, Transcript::default());
            read_until(&mut reader, &mut told, |told| screen(told).contains("up")).await;
            for (columns, rows) in [(120, 40), (1, 1), (4096, 4096), (80, 24)] {
                resize(&api, "w", (columns, rows))
                    .await
                    .expect("it has one");
                let line = format!("\n{rows} {columns}\r\n");
                read_until(&mut reader, &mut told, |told| screen(told).contains(&line)).await;
            }
            for bad in [(0, 24), (80, 0), (4097, 24), (80, u32::MAX)] {
                let refused = resize(&api, "w", bad).await.expect_err("no size");
                assert_eq!(refused.code(), Code::InvalidArgument, "{bad:?}");
            }
            api.terminate("w").await.expect("it is known");
            let late = resize(&api, "w", (80, 24)).await.expect_err("it has ended");
            assert!(carries(&late, "EXEC_ENDED"), "{late:?}");
            api.start(script(&site.world, "none", "sleep 600"))
                .await
                .expect("it starts");
            let none = resize(&api, "none", (80, 24))
                .await
                .expect_err("it has none");
            assert_eq!(none.code(), Code::FailedPrecondition, "{none:?}");
            assert!(carries(&none, "NO_TERMINAL"), "{none:?}");
            api.terminate("none").await.expect("it is known");
        });
    });
}

#[test]
fn keys_interrupt_end_and_stop_as_on_any_terminal() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for (n, (text, pressed, code, signal)) in [
                (UP, &b"\x03"[..], None, Some(2)),
                (UP, b"\x1c", None, Some(3)),
                (
                    "trap 'exit 5' INT; echo up; while :; do sleep 0.05; done",
                    b"\x03",
                    Some(5),
                    None,
                ),
                ("echo up; cat; exit 6", b"\x04", Some(6), None),
                (
                    "echo up; read -r line; test \"$line\" = typed; exit $?",
                    b"typex\x7fd\r",
                    Some(0),
                    None,
                ),
                (
                    "stty raw -echo; echo up; test \"$(head -c 1 | od -An -tx1)\" = ' 03'",
                    b"\x03",
                    Some(0),
                    None,
                ),
            ]
            .into_iter()
            .enumerate()
            {
                let id = format!("keys{n}");
                api.start(on_terminal(site, &id, text))
                    .await
                    .expect("it starts");
                let (mut reader, mut told) = (attach(&api, &id).await, Transcript::default());
                read_until(&mut reader, &mut told, |told| screen(told).contains("up")).await;
                keys(&api, &id, (0, pressed)).await;
                read_until(&mut reader, &mut told, |_| false).await;
                let end = told.exited.expect("an end");
                assert_eq!(
                    (end.exit_code, end.signal),
                    (code, signal),
                    "{text}: {end:?}"
                );
                site.is_empty_now(text);
            }
        });
    });
}

#[test]
fn what_is_typed_is_echoed_and_answered_and_the_end_loses_nothing() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            api.start(on_terminal(site, "bash", "bash --norc -i"))
                .await
                .expect("it starts");
            let (mut reader, mut told) = (attach(&api, "bash").await, Transcript::default());
            let mut offset = 0;
            for (line, answer) in [
                ("echo a$((1+1))b\n", "a2b\r\n"),
                ("sleep 600\n\x03", "^C"),
                ("echo s$?t\n", "s130t\r\n"),
            ] {
                if line.contains('\x03') {
                    let (command, key) = line.split_at(line.len() - 1);
                    offset = keys(&api, "bash", (offset, command.as_bytes())).await;
                    let sleeps = || {
                        site.world
                            .processes()
                            .iter()
                            .any(|process| process.name == "sleep")
                    };
                    assert!(agentd_tests::harness::wait_until(
                        crate::site::PROMPT,
                        sleeps
                    ));
                    offset = keys(&api, "bash", (offset, key.as_bytes())).await;
                } else {
                    offset = keys(&api, "bash", (offset, line.as_bytes())).await;
                }
                read_until(&mut reader, &mut told, |told| screen(told).contains(answer)).await;
            }
            keys(&api, "bash", (offset, b"seq 20000; exit 9\n")).await;
            read_until(&mut reader, &mut told, |_| false).await;
            assert_eq!(told.exited.as_ref().expect("an end").exit_code, Some(9));
            assert!(screen(&told).contains("\n19999\r\n20000\r\n"));
            // Whoever comes later reads the same.
            let again = read_all(attach(&api, "bash").await).await;
            assert_eq!(again.pty.bytes(), told.pty.bytes());
        });
    });
}
