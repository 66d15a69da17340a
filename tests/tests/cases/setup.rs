//! The jail as a place to work in: programs that broke elsewhere run, refusals are real, daemons do not
//! disturb each other.

use std::time::Duration;

use agentd_tests::harness::{Daemon, Mode, World, in_every_mode};

use crate::room::{Room, text};

/// Source, script, output.
const PROGRAMS: &[(&str, &str, &str)] = &[
    (
        "codex#28517",
        "python3 -c 'import asyncio,threading,time as t;l=asyncio.new_event_loop();threading.Thread(target=lambda:(t.sleep(.1),l.call_soon_threadsafe(l.stop))).start();l.run_forever();print(\"ok\")'",
        "ok\n",
    ),
    (
        "codex#28517",
        "python3 -c 'import socket; a,b=socket.socketpair(); a.send(b\"ok\"); print(b.recv(2).decode())'",
        "ok\n",
    ),
    (
        "nono#1393",
        "printf '#!/usr/bin/env bash\\necho ran $1\\n' >run && chmod +x run && ./run it",
        "ran it\n",
    ),
    (
        "nono#1724",
        "ln -s \"$(command -v bash)\" mybash && printf '#!%s/mybash\\necho linked\\n' \"$PWD\" >l && chmod +x l && ./l",
        "linked\n",
    ),
    (
        "sandlock#222",
        "python3 -c 'import mmap; m=mmap.mmap(-1, 64<<30, flags=mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS|0x4000, prot=0); print(\"reserved\")'",
        "reserved\n",
    ),
    (
        "codex#23661",
        "git init -q r && cd r && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m x && git log --format=%s",
        "x\n",
    ),
    (
        "codex#19786",
        "git init -q w && cd w && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m x && git worktree add -q ../wt && cd ../wt && git -c user.name=t -c user.email=t@example.org commit -q --allow-empty -m y && git log --format=%s | head -1",
        "y\n",
    ),
    (
        "codex#37318",
        "mkdir -p d/e && touch d/e/f && ls d/e",
        "f\n",
    ),
    (
        "cc#25990",
        "test -w \"$TMPDIR\" && mktemp >/dev/null && echo writable",
        "writable\n",
    ),
    ("codex#44304", "grep -c ^Name: /proc/self/status", "1\n"),
    (
        "codex#24341",
        "ls /proc/$$/exe >/dev/null && readlink /proc/$$/exe | xargs basename",
        "bash\n",
    ),
];

#[test]
fn programs_that_broke_in_other_sandboxes_work() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for (source, script, out) in PROGRAMS {
            let (answer, _) = room.run(&["--timeout", "30s"], script);
            assert_eq!(
                text(&answer, "stdout"),
                *out,
                "{source}: {script}: {answer}"
            );
            assert_eq!(answer["exit_code"], 0, "{source}: {script}: {answer}");
        }
    });
}

/// codex#28517: semaphores of processes need a `/dev/shm`, which the tier without mounts has not.
#[test]
fn processes_share_semaphores_where_the_jail_has_its_own_dev() {
    let script = "python3 -c 'import multiprocessing as m; print(m.Pool(2).map(abs, [-1, -2]))'";
    in_every_mode(|mode| {
        if mode != Mode::Nested {
            let room = Room::new(mode);
            let (answer, _) = room.run(&["--timeout", "30s"], script);
            assert_eq!(text(&answer, "stdout"), "[1, 2]\n", "{answer}");
        }
    });
}

/// codex#36852: writes went into a throw-away place, and their data was lost in silence.
#[test]
fn a_write_that_is_refused_fails_and_a_write_that_succeeds_is_there() {
    in_every_mode(|mode| {
        let room = Room::new(mode);
        for path in [
            "/newfile",
            "/usr/newfile",
            "/etc/newfile",
            "/var/newfile",
            "/home/newfile",
        ] {
            let (answer, ended) = room.run(&[], &format!("echo x > {path} && cat {path}"));
            assert_ne!(ended.code, 0, "{path}: {answer}");
            assert_eq!(text(&answer, "stdout"), "", "{path}: {answer}");
        }
        let (answer, _) = room.run(&[], "echo x > newfile && cat newfile");
        assert_eq!(text(&answer, "stdout"), "x\n", "{answer}");
        let outside = std::fs::read_to_string(room.world.workspace.join("newfile"));
        assert_eq!(outside.expect("it is really there"), "x\n");
    });
}

/// codex#44361: two daemons with one home removed each other's helper files.
#[test]
fn daemons_of_one_user_do_not_disturb_each_other() {
    in_every_mode(|mode| {
        let world = World::new(mode);
        let first = Daemon::start(&world);
        let second_home = World::new(mode);
        let second = Daemon::start(&second_home);
        let busy = first.cli(&world, &["exec", "--", "echo up; sleep 3; echo $TMPDIR >\"$TMPDIR/x\"; cat \"$TMPDIR/x\" >/dev/null && echo still"]).start();
        busy.wait_for_stdout("up");
        for n in 0..3 {
            let ended = second
                .cli(&second_home, &["exec", "--", "echo other"])
                .run();
            assert_eq!(ended.stdout, "other\n", "{n}: {ended:?}");
        }
        second.signal(nix::sys::signal::Signal::SIGKILL);
        drop(second);
        // A third one sweeps up what a killed one left, and nothing else.
        let third = Daemon::start(&second_home);
        third
            .cli(&second_home, &["exec", "--", "true"])
            .run()
            .expect_code(0);
        let ended = busy.wait(Duration::from_secs(30));
        assert_eq!(ended.stdout, "up\nstill\n", "{ended:?}");
    });
}

/// cc#34443, cc#93838, cc#51814: a full disk made output empty and exit codes odd. The disk of kept output is
/// filled in `store`.
#[test]
fn a_full_disk_changes_neither_output_nor_exit_code() {
    let fill = "head -c 2G /dev/zero >\"$TMPDIR/full\" 2>/dev/null; echo rc $?";
    let table = [
        ("seq 3; echo e >&2; exit 5", "1\n2\n3\n", "e\n", 5),
        ("seq 200000 | tail -1; exit 6", "200000\n", "", 6),
        (
            "cat <<EOF\nfrom a document\nEOF\necho x 2>/dev/null >\"$TMPDIR/new\" || cat \"$TMPDIR/new\"; exit 7",
            "from a document\n",
            "",
            7,
        ),
    ];
    in_every_mode(|mode| {
        if mode == Mode::Nested {
            // The private directory is on the host's disk there, which is not ours to fill.
            return;
        }
        let room = Room::new(mode);
        for (script, out, err, code) in table {
            let (answer, ended) = room.run(&[], &format!("{fill}; {script}"));
            assert_eq!(ended.code, code, "{script}: {answer}");
            let stdout = text(&answer, "stdout");
            assert_eq!(stdout, format!("rc 1\n{out}"), "{script}: {answer}");
            assert_eq!(text(&answer, "stderr"), err, "{script}: {answer}");
        }
    });
}

/// cc#10795, cc#7053: a sandbox that looked through the whole workspace before each command.
#[test]
fn a_large_workspace_costs_a_command_nothing() {
    let large = [
        (
            "many files",
            "for d in $(seq 60); do mkdir $d; (cd $d; touch $(seq 300)); done",
        ),
        (
            "a deep tree",
            "python3 -c 'import os\nfor n in range(400): os.mkdir(\"d\"); os.chdir(\"d\"); open(\".gitignore\", \"w\")'",
        ),
        (
            "a large file",
            "truncate -s 200G sparse; head -c 5M /dev/zero >dense",
        ),
        (
            "links around in circles",
            "mkdir l; python3 -c 'import os\nfor n in range(2000): os.symlink(\"..\", f\"l/up{n}\")'",
        ),
        (
            "a repository",
            "git init -q r; cd r; for n in $(seq 500); do echo $n >f$n; done; git add . && git -c user.name=t -c user.email=t@example.org commit -qm x",
        ),
    ];
    in_every_mode(|mode| {
        let room = Room::new(mode);
        let quickest = |name: &str| {
            let times = (0..5).map(|_| {
                let (answer, ended) = room.run(&[], "echo quick");
                assert_eq!(text(&answer, "stdout"), "quick\n", "{name}: {answer}");
                ended.elapsed
            });
            times.min().expect("some")
        };
        let before = quickest("before");
        for (name, make) in large {
            let (answer, _) = room.run(&["--timeout", "100s"], &format!("{make}; echo made"));
            assert_eq!(text(&answer, "stdout"), "made\n", "{name}: {answer}");
            let after = quickest(name);
            // What looks at each file of one of these takes longer than that.
            assert!(
                after < before * 2 + Duration::from_millis(50),
                "{name}, {mode:?}: {after:?}, and {before:?} before"
            );
        }
    });
}
