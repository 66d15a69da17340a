//! Input at absolute offsets: what is sent twice is written once, and every end is told.

use std::time::Duration;

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{Api, in_every_mode, script};
use tonic::{Code, Status};

use crate::site::{PROMPT, Site, attach, carries, printed, read_all, read_until};

struct Typed<'a>(u64, &'a [u8], bool);

async fn try_type(
    api: &Api,
    id: &str,
    Typed(offset, data, eof): Typed<'_>,
) -> Result<(u64, bool), Status> {
    let request = v1::WriteStdinRequest {
        exec_id: id.to_owned(),
        offset,
        data: data.to_vec().into(),
        eof,
    };
    let answer = api.execs().write_stdin(request).await?.into_inner();
    Ok((answer.accepted_offset, answer.closed))
}

async fn typed(api: &Api, id: &str, what: Typed<'_>) -> (u64, bool) {
    let answer = tokio::time::timeout(PROMPT * 2, try_type(api, id, what)).await;
    answer.expect("an answer").expect("it is accepted")
}

async fn begin(site: &Site, api: &Api, id: &str, text: &str) {
    let mut spec = script(&site.world, id, text);
    spec.io = Some(v1::IoSpec {
        stdin: true,
        ..v1::IoSpec::default()
    });
    api.start(spec).await.expect("it starts");
}

#[test]
fn input_that_is_sent_again_or_overlaps_is_written_once_and_a_hole_is_refused() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            // It stays until the end of its input was sent twice.
            let text = "cat; until [ -e go ]; do sleep 0.05; done; echo end";
            begin(site, &api, "cat", text).await;
            let id = "cat";
            assert_eq!(typed(&api, id, Typed(0, b"0123", false)).await, (4, false));
            for again in [
                Typed(0, b"0123", false),
                Typed(2, b"23", false),
                Typed(4, b"", false),
            ] {
                assert_eq!(typed(&api, id, again).await, (4, false));
            }
            // The accepted part of an overlap is not compared, and not written.
            assert_eq!(
                typed(&api, id, Typed(1, b"123456", false)).await,
                (7, false)
            );
            for hole in [
                Typed(8, b"8", false),
                Typed(1 << 40, b"x", true),
                Typed(u64::MAX, b"x", false),
            ] {
                let refusal = try_type(&api, id, hole).await.expect_err("a hole");
                assert_eq!(refusal.code(), Code::OutOfRange, "{refusal:?}");
                assert!(carries(&refusal, "expected_offset") && refusal.message().contains('7'));
            }
            assert_eq!(typed(&api, id, Typed(7, b"78\n", true)).await, (10, true));
            // The request for the end, again.
            assert_eq!(typed(&api, id, Typed(7, b"78\n", true)).await.0, 10);
            site.world.file("go", "");
            let told = read_all(attach(&api, id).await).await;
            assert_eq!(printed(&told), "012345678\nend\n");
            let late = try_type(&api, id, Typed(10, b"x", false))
                .await
                .expect_err("over");
            assert_eq!(late.code(), Code::FailedPrecondition, "{late:?}");
            assert!(carries(&late, "EXEC_ENDED"), "{late:?}");
        });
    });
}

#[test]
fn an_end_of_input_alone_is_an_end_and_bytes_after_it_are_refused() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for (n, data) in ["", "x", "two\nlines"].iter().enumerate() {
                let id = format!("eof{n}");
                begin(
                    site,
                    &api,
                    &id,
                    "wc -c; until [ -e go ]; do sleep 0.05; done",
                )
                .await;
                let mut reader = attach(&api, &id).await;
                let (bytes, length) = (data.as_bytes(), data.len() as u64);
                assert_eq!(
                    typed(&api, &id, Typed(0, bytes, true)).await,
                    (length, true)
                );
                let mut told = agentd_tests::harness::Transcript::default();
                read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
                let late = try_type(&api, &id, Typed(length, b"more", false)).await;
                let late = late.expect_err("after the end");
                assert!(carries(&late, "STDIN_CLOSED"), "{late:?}");
                site.world.file("go", "");
                read_until(&mut reader, &mut told, |_| false).await;
                assert_eq!(printed(&told).trim(), length.to_string());
                std::fs::remove_file(site.world.workspace.join("go")).expect("it is there");
            }
        });
    });
}

#[test]
fn a_command_that_closes_its_input_is_an_answer_and_no_error() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            for (n, text) in [
                "exec <&-; echo closed; until [ -e go ]; do sleep 0.05; done",
                "head -c 1 >/dev/null; exec <&-; echo closed; until [ -e go ]; do sleep 0.05; done",
            ]
            .iter()
            .enumerate()
            {
                let id = format!("epipe{n}");
                begin(site, &api, &id, text).await;
                let mut offset = typed(&api, &id, Typed(0, b"a", false)).await.0;
                let mut reader = attach(&api, &id).await;
                let mut told = agentd_tests::harness::Transcript::default();
                read_until(&mut reader, &mut told, |told| told.stdout.offset > 0).await;
                let mut closed = false;
                for _ in 0..4 {
                    (offset, closed) =
                        typed(&api, &id, Typed(offset, &vec![b'x'; 60_000], false)).await;
                }
                assert!(closed, "{text}: accepted {offset}");
                site.world.file("go", "");
                read_until(&mut reader, &mut told, |_| false).await;
                assert_eq!(told.reason(), ExitReason::Exited);
                std::fs::remove_file(site.world.workspace.join("go")).expect("it is there");
            }
        });
    });
}

#[test]
fn a_mebibyte_goes_through_a_command_that_reads_slowly() {
    const PIECE: usize = 64 * 1024;
    let input: Vec<u8> = (0..1_048_576_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let input = &input;
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            std::fs::write(site.world.workspace.join("sent"), input).expect("a file");
            site.world.give(&site.world.workspace.join("sent"));
            let slow = "for i in $(seq 8); do sleep 0.1; head -c 131072; done >got; cat >>got; cmp got sent && wc -c <got";
            begin(site, &api, "slow", slow).await;
            let mut offset = 0;
            while offset < input.len() {
                let piece = &input[offset..input.len().min(offset + PIECE)];
                let last = offset + piece.len() == input.len();
                let (accepted, _) = typed(&api, "slow", Typed(offset as u64, piece, last)).await;
                offset = usize::try_from(accepted).expect("small");
            }
            let told = read_all(attach(&api, "slow").await).await;
            assert_eq!(printed(&told).trim(), "1048576", "{told:?}");
        });
    });
}

#[test]
fn what_has_no_input_says_so() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            api.start(script(&site.world, "null", "sleep 600"))
                .await
                .expect("it starts");
            let refusal = try_type(&api, "null", Typed(0, b"x", false))
                .await
                .expect_err("none");
            assert!(carries(&refusal, "NO_STDIN"), "{refusal:?}");
            let unknown = try_type(&api, "nobody", Typed(0, b"x", false))
                .await
                .expect_err("none");
            assert_eq!(unknown.code(), Code::NotFound);
            begin(site, &api, "large", "cat >/dev/null").await;
            let large = try_type(&api, "large", Typed(0, &vec![0; 64 * 1024 + 1], false)).await;
            assert_eq!(large.expect_err("too large").code(), Code::InvalidArgument);
            // One that never reads fills its pipe: the answer comes, and says how far it came.
            begin(site, &api, "deaf", "sleep 600").await;
            let began = std::time::Instant::now();
            let mut offset = 0;
            for _ in 0..2 {
                (offset, _) =
                    typed(&api, "deaf", Typed(offset, &vec![b'x'; 64 * 1024], false)).await;
            }
            assert!(
                offset <= 65_536 && began.elapsed() < Duration::from_secs(30),
                "{offset}"
            );
            for id in ["null", "large", "deaf"] {
                api.terminate(id).await.expect("it is known");
            }
        });
    });
}
