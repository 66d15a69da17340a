//! Output as bytes: from the ring, from the file that keeps it all, and in the session it belongs to.

use std::{fmt::Write, time::Duration};

use agentd_proto::v1;
use agentd_tests::harness::{Api, Mode, in_every_mode, script, wire};
use tonic::Code;

use crate::site::{PROMPT, Site, end_of, good, open, run};

async fn read(api: &Api, id: &str, (offset, wait): (u64, Duration)) -> v1::ReadOutputResponse {
    let request = v1::ReadOutputRequest {
        exec_id: id.to_owned(),
        offset,
        limit: 0,
        wait: wire(wait),
    };
    let answer = tokio::time::timeout(PROMPT * 2, api.execs().read_output(request)).await;
    answer
        .expect("an answer")
        .expect("it is known")
        .into_inner()
}

/// Everything from an offset on, and where it began.
async fn read_whole(api: &Api, id: &str, from: u64) -> (u64, Vec<u8>) {
    let (mut start, mut bytes, mut at) = (None, Vec::new(), from);
    loop {
        let piece = read(api, id, (at, Duration::from_secs(20))).await;
        if piece.data.is_empty() {
            assert!(
                piece.ended && at == piece.written,
                "{at} of {}",
                piece.written
            );
            return (start.unwrap_or(at), bytes);
        }
        assert!(start.is_none() || piece.offset == at, "a hole at {at}");
        start.get_or_insert(piece.offset);
        bytes.extend_from_slice(&piece.data);
        at = piece.offset + piece.data.len() as u64;
    }
}

/// What `seq` prints.
fn numbers(most: u32) -> Vec<u8> {
    let mut text = String::new();
    for number in 1..=most {
        writeln!(text, "{number}").expect("text");
    }
    text.into_bytes()
}

#[test]
fn output_is_read_by_offsets_while_it_comes_and_after() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let text = "echo one; echo two; until [ -e go ]; do sleep 0.05; done; echo three >&2";
            api.start(script(&site.world, "ring", text))
                .await
                .expect("it starts");
            let mut seen = Vec::new();
            while seen.len() < 8 {
                let piece = read(&api, "ring", (seen.len() as u64, Duration::from_secs(20))).await;
                seen.extend_from_slice(&piece.data);
            }
            assert_eq!(String::from_utf8_lossy(&seen), "one\ntwo\n");
            let none = read(&api, "ring", (8, Duration::ZERO)).await;
            assert!(
                none.data.is_empty() && !none.ended && none.written == 8,
                "{none:?}"
            );
            let later = read(&api, "ring", (8, Duration::from_millis(100))).await;
            assert!(later.data.is_empty() && !later.ended, "{later:?}");
            let (other, name) = (api.clone(), "ring");
            let waits =
                tokio::spawn(async move { read(&other, name, (8, Duration::from_secs(50))).await });
            site.world.file("go", "");
            let piece = waits.await.expect("an answer");
            assert_eq!((piece.offset, &piece.data[..]), (8, &b"three\n"[..]));
            api.wait("ring").await.expect("it is known");
            for (from, rest) in [
                (0, "one\ntwo\nthree\n"),
                (5, "wo\nthree\n"),
                (13, "\n"),
                (14, ""),
            ] {
                let (start, bytes) = read_whole(&api, "ring", from).await;
                assert_eq!(
                    (start, String::from_utf8_lossy(&bytes).as_ref()),
                    (from, rest)
                );
            }
        });
    });
}

#[test]
fn what_the_ring_no_longer_holds_is_told_by_the_offset() {
    let whole = &numbers(1_500_000);
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            api.start(script(&site.world, "long", "seq 1500000"))
                .await
                .expect("it starts");
            let end = end_of(api.wait("long").await.expect("it is known"));
            assert_eq!(end.stdout_bytes, whole.len() as u64);
            let (start, bytes) = read_whole(&api, "long", 0).await;
            assert_eq!(start, end.dropped_bytes);
            assert!(start > 0 && bytes == whole[usize::try_from(start).expect("small")..]);
        });
    });
}

fn kept(site: &Site, id: &str, (text, bytes): (&str, u64)) -> v1::ExecSpec {
    let mut spec = site.within("s", id, text);
    spec.io = Some(v1::IoSpec {
        output_file_bytes: bytes,
        ..v1::IoSpec::default()
    });
    spec
}

#[test]
fn the_whole_output_is_kept_for_readers_and_for_later_commands() {
    let whole = &numbers(1_500_000);
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let most = 64 << 20;
            api.start(kept(site, "long", ("seq 1500000", most)))
                .await
                .expect("it starts");
            let end = end_of(api.wait("long").await.expect("it is known"));
            let file = end.output_file.expect("a file");
            assert_eq!((file.bytes, file.missing_bytes), (whole.len() as u64, 0));
            for from in [0, 1, 5_000_000] {
                let (start, bytes) = read_whole(&api, "long", from).await;
                assert_eq!(start, from);
                assert!(
                    bytes == whole[usize::try_from(from).expect("small")..],
                    "{from}"
                );
            }
            let inside = format!("seq 1500000 | cmp - {}", file.path);
            good(&run(&api, site.within("s", "cmp", &inside)).await);
            // What fits into the ring needs no file; what is larger than the file is counted.
            api.start(kept(site, "short", ("echo x", most)))
                .await
                .expect("it starts");
            let end = end_of(api.wait("short").await.expect("it is known"));
            assert_eq!(end.output_file.map_or(0, |file| file.missing_bytes), 0);
            api.start(kept(site, "more", ("seq 1500000", 5 << 20)))
                .await
                .expect("it starts");
            let end = end_of(api.wait("more").await.expect("it is known"));
            let file = end.output_file.expect("a file");
            assert_eq!(
                file.bytes + file.missing_bytes,
                whole.len() as u64,
                "{file:?}"
            );
            assert!(file.bytes <= 5 << 20 && file.missing_bytes > 0, "{file:?}");
            let ls = format!(
                "head -c {} {} | cmp -n {} - <(seq 1500000)",
                file.bytes, file.path, file.bytes
            );
            good(&run(&api, site.within("s", "head", &ls)).await);
            let mut alone = script(&site.world, "alone", "true");
            alone.io = Some(v1::IoSpec {
                output_file_bytes: 1,
                ..v1::IoSpec::default()
            });
            let refused = api.start(alone).await.expect_err("it needs a session");
            assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        });
    });
}

/// What commands try with kept output, given its path, its directory and another name there.
fn attacks(path: &str, directory: &str) -> Vec<String> {
    vec![
        format!("echo x >>{path}"),
        format!(": >{path}"),
        format!("rm -f {path}"),
        format!("mv {path} {directory}/other"),
        format!("rm -f {path}; ln -s /etc/passwd {path}"),
        format!("ln -sf /etc/passwd {path}"),
        format!("ln {path} {directory}/second"),
        format!("touch {directory}/new"),
        format!("chmod 0777 {path}"),
        format!("truncate -s 0 {path}"),
        format!("mv {directory} {directory}.away || mkdir {directory}.away && false"),
        format!("python3 -c 'import os; os.open(\"{path}\", os.O_RDWR)'"),
    ]
}

#[test]
fn no_command_changes_or_replaces_kept_output() {
    let whole = &numbers(1_000_000);
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            api.start(kept(site, "long", ("seq 1000000", 64 << 20)))
                .await
                .expect("it starts");
            let end = end_of(api.wait("long").await.expect("it is known"));
            let path = end.output_file.expect("a file").path;
            let (directory, name) = path.rsplit_once('/').expect("a path");
            // Another one is still being written: its file is there, and half of it.
            let flows = "seq 500000; until [ -e go ]; do sleep 0.05; done; seq 500001 1000000";
            api.start(kept(site, "flows", (flows, 64 << 20)))
                .await
                .expect("it starts");
            let list = format!("until ls {directory} | grep flows; do sleep 0.05; done");
            let flowing = good(&run(&api, site.within("s", "list", &list)).await);
            let flowing = format!("{directory}/{}", flowing.trim());
            let mut number = 0;
            for path in [path.as_str(), flowing.as_str()] {
                for attack in attacks(path, directory) {
                    number += 1;
                    let id = format!("attack{number}");
                    let told = run(&api, site.within("s", &id, &attack)).await;
                    let end = told.exited.expect("an end");
                    // Without an identity of its own the command owns the file; that gives it no access.
                    let owns = mode == Mode::Nested && attack.starts_with("chmod");
                    assert!(end.exit_code != Some(0) || owns, "{attack}");
                }
            }
            site.world.file("go", "");
            let end = end_of(api.wait("flows").await.expect("it is known"));
            assert_eq!(end.output_file.expect("a file").missing_bytes, 0);
            for id in ["long", "flows"] {
                let (start, bytes) = read_whole(&api, id, 0).await;
                assert!(start == 0 && bytes == *whole, "{id}");
            }
            for (n, path) in [path.as_str(), flowing.as_str()].iter().enumerate() {
                let compare = format!("seq 1000000 | cmp - {path}");
                good(&run(&api, site.within("s", &format!("cmp{n}"), &compare)).await);
            }
            let list = format!("ls -A {directory}");
            assert!(good(&run(&api, site.within("s", "ls", &list)).await).contains(name));
            open(&api, site.session("t")).await;
            let mut other = site.within("t", "other", &format!("cat {path}"));
            other.on_disconnect = None;
            let told = run(&api, other).await;
            assert_ne!(told.exited.expect("an end").exit_code, Some(0));
        });
    });
}
