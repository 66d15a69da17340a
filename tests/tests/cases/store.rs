//! The disk that keeps output is full: what a command printed reaches whoever reads it, what could not be kept is
//! counted and said, and no exit code changes.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{ErrorKind, Write as _},
    path::PathBuf,
};

use agentd_proto::v1::{self, ExitReason};
use agentd_tests::harness::{
    Api, Daemon, Mode, Transcript, World, binaries, in_every_mode, script,
};
use nix::unistd::geteuid;

use crate::room::{PROMPT, runtime};

/// Bytes of `/tmp`, where sessions keep output: more than an execution keeps in memory.
const DISK: u64 = 8 << 20;

/// Gives what follows a `/tmp` of its own: of this size, and with nothing of the old one but what is named.
const SMALL: &str = r#"set -e
size=$1 keep="$2 $3"; shift 3
mount -t tmpfs -o "size=$size,mode=1777" small /mnt
for place in $keep; do
  case $place in /tmp/*)
    mkdir -p "/mnt/${place#/tmp/}"; mount --rbind "$place" "/mnt/${place#/tmp/}";;
  esac
done
mount --move /mnt /tmp
exec "$@""#;

/// A daemon whose `/tmp` is small.
fn with_a_small_disk(outside: &World, world: &World) -> Daemon {
    Daemon::start_by(world, |world, agentd, words| {
        let inside = world.mode.command(agentd.as_os_str());
        let inside = [inside.get_program()].into_iter().chain(inside.get_args());
        let inside: Vec<OsString> = inside.map(OsString::from).collect();
        let unshare = ["--mount", "--", "bash", "-c", SMALL, "bash"];
        let mut program = outside.program("unshare").args(unshare);
        program = program.args([DISK.to_string()]);
        program = program.args([&world.base, binaries()]).args(inside);
        program = program.args(words).current_dir(&world.workspace);
        program.env("HOME", &world.home.to_string_lossy())
    })
}

/// A file that takes all the room that there is; dropping it gives the room back.
struct Filler(PathBuf);

impl Filler {
    fn new(daemon: &Daemon) -> Self {
        let path = PathBuf::from(format!("/proc/{}/root/tmp/filler", daemon.pid()));
        let mut file = File::create(&path).expect("a file on the small disk");
        let full = loop {
            if let Err(error) = file.write_all(&[0; 4096]) {
                break error;
            }
        };
        assert_eq!(full.kind(), ErrorKind::StorageFull, "{full}");
        Self(path)
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

struct Case {
    name: &'static str,
    text: &'static str,
    code: i32,
    /// Nothing is left before it starts.
    is_full: bool,
}

const CASES: &[Case] = &[
    Case {
        name: "its own output fills it",
        text: "seq 1500000; exit 5",
        code: 5,
        is_full: false,
    },
    Case {
        name: "on both streams",
        text: "seq 800000; seq 800000 >&2; exit 6",
        code: 6,
        is_full: false,
    },
    Case {
        name: "it is full beforehand",
        text: "seq 1500000; exit 7",
        code: 7,
        is_full: true,
    },
    Case {
        name: "it is full, and a signal ends it",
        text: "seq 1500000; kill -SEGV $$",
        code: -11,
        is_full: true,
    },
];

/// What `seq` prints.
fn numbers(most: u32) -> Vec<u8> {
    (1..=most).fold(Vec::new(), |mut text, number| {
        writeln!(text, "{number}").expect("memory");
        text
    })
}

async fn session(api: &Api, world: &World, id: &str) -> Result<(), tonic::Status> {
    let plain = script(world, "", "");
    let request = v1::CreateSessionRequest {
        session_id: id.to_owned(),
        sandbox: plain.sandbox,
        env: plain.command.and_then(|command| command.env),
        ..v1::CreateSessionRequest::default()
    };
    api.sessions().create(request).await.map(drop)
}

fn within(world: &World, session: &str, (id, text): (&str, &str)) -> v1::ExecSpec {
    v1::ExecSpec {
        session_id: session.to_owned(),
        sandbox: None,
        io: Some(v1::IoSpec {
            output_file_bytes: 64 << 20,
            ..v1::IoSpec::default()
        }),
        ..script(world, id, text)
    }
}

/// Runs to the end, reading all the time.
async fn run(api: &Api, spec: v1::ExecSpec) -> Transcript {
    let mut stream = api.run(spec).await.expect("it starts");
    let mut told = Transcript::default();
    let whole = async {
        while let Some(message) = stream.message().await.expect("the stream holds") {
            let event = message.event.expect("an event");
            told.take(event).expect("the contract");
        }
    };
    let whole = tokio::time::timeout(PROMPT * 4, whole).await;
    whole.expect("the disk holds nobody up");
    told
}

async fn one(world: &World, daemon: &Daemon, case: &Case) {
    let (name, mode) = (case.name, world.mode);
    let api = Api::dial(&daemon.socket).await.expect("a daemon");
    session(&api, world, "s").await.expect("a session");
    let filler = case.is_full.then(|| Filler::new(daemon));
    let told = run(&api, within(world, "s", ("long", case.text))).await;
    let end = told.exited.clone().expect("an end");
    if mode == Mode::Nested && case.is_full && end.reason() == ExitReason::SetupFailed {
        // Its script has to be on that disk, too. It is said, and nothing of it ran.
        let failure = end.setup_failure.expect("why");
        assert_eq!(failure.errno_name, "ENOSPC", "{name}: {failure:?}");
        assert_eq!(told.stdout.offset, 0, "{name}");
    } else {
        let by_signal = end.signal.map(|signal| -signal);
        assert_eq!(
            end.exit_code.or(by_signal),
            Some(case.code),
            "{name}, {mode:?}: {end:?}"
        );
        // The reader has every byte of the end, and what it was not told of it was told to be missing.
        let most = if case.text.contains(">&2") {
            800_000
        } else {
            1_500_000
        };
        told.stdout
            .compare(&numbers(most))
            .unwrap_or_else(|why| panic!("{name}: {why}"));
        let total = told.stdout.offset + told.stderr.offset;
        assert_eq!(
            end.stdout_bytes + end.stderr_bytes,
            total,
            "{name}: {end:?}"
        );
        let file = end.output_file.clone().expect("a file");
        assert_eq!(file.bytes + file.missing_bytes, total, "{name}: {file:?}");
        assert!(
            file.missing_bytes > 0 && file.bytes <= DISK,
            "{name}: {file:?}"
        );
        let notes = end.notes.join("\n");
        assert!(
            notes.contains("output store") && notes.contains("No space left on device"),
            "{name}, {mode:?}: {end:?}"
        );
        // What was kept is exact.
        let request = v1::ReadOutputRequest {
            exec_id: "long".to_owned(),
            ..v1::ReadOutputRequest::default()
        };
        let kept = api.execs().read_output(request).await.expect("it is known");
        let kept = kept.into_inner();
        let start = usize::try_from(kept.offset).expect("an offset");
        if most == 1_500_000 {
            let real = numbers(most);
            assert!(
                !kept.data.is_empty() && real[start..].starts_with(&kept.data),
                "{name}"
            );
        }
    }
    // With room again everything is as before, in the same session.
    drop(filler);
    let request = v1::DeleteExecRequest {
        exec_id: "long".to_owned(),
        force: true,
    };
    api.execs().delete(request).await.expect("it is known");
    if !case.is_full {
        let request = v1::DeleteSessionRequest {
            session_id: "s".to_owned(),
        };
        api.sessions().delete(request).await.expect("it is there");
        session(&api, world, "s").await.expect("a session");
    }
    let told = run(&api, within(world, "s", ("next", "seq 3; exit 4"))).await;
    let end = told.exited.as_ref().expect("an end");
    assert_eq!(end.exit_code, Some(4), "{name}, {mode:?}: {end:?}");
    assert_eq!(told.stdout.bytes(), b"1\n2\n3\n", "{name}, {mode:?}");
    let request = v1::DeleteSessionRequest {
        session_id: "s".to_owned(),
    };
    api.sessions().delete(request).await.expect("it is there");
}

/// cc#34443, cc#51814, cc#93838: a full disk made output empty and exit codes odd.
#[test]
fn a_full_output_store_changes_neither_output_nor_exit_code_and_is_said() {
    if !geteuid().is_root() {
        eprintln!("SKIPPED: needs root to make a small disk");
        return;
    }
    in_every_mode(|mode| {
        let outside = World::new(Mode::Root);
        for case in CASES {
            let world = World::new(mode);
            let daemon = with_a_small_disk(&outside, &world);
            runtime().block_on(one(&world, &daemon, case));
        }
    });
}
