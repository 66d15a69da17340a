//! What one command of a session leaves to the next: its directory and its exports, and nothing by accident.

use std::fmt::Write;

use agentd_tests::harness::in_every_mode;

use crate::site::{Site, close, exported, good, look, open, run};

/// A word of bash that stands for exactly these bytes.
fn quoted(value: &[u8]) -> String {
    let mut word = "$'".to_owned();
    for byte in value {
        write!(word, "\\x{byte:02x}").expect("text");
    }
    word + "'"
}

const VALUES: &[&str] = &[
    "",
    " ",
    "plain",
    "a b  c ",
    "it's \"quoted\"",
    "two\nlines\n",
    "\n",
    "$HOME `id` $(id) ${x} !!",
    "\\ \\\\ \\n",
    "\u{1}\t\r\u{1b}[0m\u{7f}",
    "\u{e9}\u{6f22}\u{1f600}",
    "a=b;c&d|e>f<g*?[x]~#",
    "declare -x FAKE=\"1\"\ndeclare -x FAKE2=\"2\"",
    "'",
    "\"",
];

#[test]
fn exports_reach_the_next_command_byte_for_byte() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let mut set = String::new();
            let mut show = String::new();
            for (n, value) in VALUES.iter().enumerate() {
                writeln!(set, "export V{n}={}", quoted(value.as_bytes())).expect("text");
                write!(show, "printf '%s\\0' \"$V{n}\";").expect("text");
            }
            good(&run(&api, site.within("s", "set", &set)).await);
            // A command between that changes nothing, and one that fails, change nothing.
            good(&run(&api, site.within("s", "idle", "true")).await);
            run(
                &api,
                site.within("s", "fails", "V0=unexported-change-of-nothing true; exit 3"),
            )
            .await;
            let told = run(&api, site.within("s", "show", &show)).await;
            good(&told);
            let got: Vec<&[u8]> = told.stdout.bytes().split(|byte| *byte == 0).collect();
            for (value, got) in VALUES.iter().zip(&got) {
                assert_eq!(value.as_bytes(), *got, "{value:?}");
            }
            let fake = run(
                &api,
                site.within("s", "fake", "echo \"${FAKE-none}${FAKE2-none}\""),
            )
            .await;
            assert_eq!(good(&fake), "nonenone\n");
            let session = look(&api, "s").await.expect("it is there");
            assert_eq!(exported(&session).len(), VALUES.len(), "{session:?}");
        });
    });
}

#[test]
fn the_directory_is_carried_and_told() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let base = site.world.workspace.to_string_lossy().into_owned();
            for (n, name) in [
                "plain",
                "a b",
                "q'u\"o",
                "new\nline",
                "\u{e9}\u{6f22}",
                "-n",
                "$x",
            ]
            .iter()
            .enumerate()
            {
                let go = format!(
                    "cd {base} && mkdir -- {0} && cd ./{0}",
                    quoted(name.as_bytes())
                );
                let told = run(&api, site.within("s", &format!("go{n}"), &go)).await;
                good(&told);
                let place = format!("{base}/{name}");
                assert_eq!(told.exited.expect("an end").cwd, place);
                assert_eq!(look(&api, "s").await.expect("there").cwd, place);
                let told = run(&api, site.within("s", &format!("at{n}"), "pwd")).await;
                assert_eq!(good(&told), format!("{place}\n"));
                assert_eq!(told.started.expect("a start").cwd, place);
            }
        });
    });
}

#[test]
fn what_changes_nothing_by_accident_leaves_the_state_alone() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let base = site.world.workspace.to_string_lossy().into_owned();
            good(
                &run(
                    &api,
                    site.within("s", "set", "mkdir d; cd d; export KEEP=1 GONE=1; unset x"),
                )
                .await,
            );
            good(&run(&api, site.within("s", "unset", "unset GONE; export -n x")).await);
            // A subshell, a replaced shell, a death, a timeout, a background command, its own directory.
            let mut timeout = site.within("s", "timeout", "export LOST=1; cd /; sleep 600");
            timeout.limits = Some(crate::site::within_seconds(1));
            let mut elsewhere = site.within("s", "elsewhere", "true");
            elsewhere.command.as_mut().expect("a command").cwd = base.clone();
            for spec in [
                site.within("s", "subshell", "(cd /; export LOST=1)"),
                site.within("s", "dies", "export LOST=1; cd /; kill -9 $$"),
                timeout,
                elsewhere,
            ] {
                let id = spec.exec_id.clone();
                run(&api, spec).await;
                let session = look(&api, "s").await.expect("it is there");
                assert_eq!(session.cwd, format!("{base}/d"), "{id}");
                assert_eq!(exported(&session), ["KEEP"], "{id}");
            }
            api.start(site.behind("s", "behind", "cd /; export LOST=1"))
                .await
                .expect("it starts");
            api.wait("behind").await.expect("it is known");
            let told = run(
                &api,
                site.within("s", "replaced", "cd /; export LOST=1; exec true"),
            )
            .await;
            let notes = told.exited.expect("an end").notes.join("\n");
            assert!(notes.contains("replaced the shell"), "{notes}");
            let session = look(&api, "s").await.expect("it is there");
            assert_eq!(session.cwd, format!("{base}/d"));
            assert_eq!(exported(&session), ["KEEP"]);
        });
    });
}

/// What the profile and the jail give is not exported by anybody, until a command changes it.
#[test]
fn only_what_commands_changed_counts_as_exported() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            let table: [(&str, &[&str]); 9] = [
                ("true", &[]),
                ("export HOME PATH; PATH=$PATH; export TERM", &[]),
                ("export OLD=\"$HOME\" WAS=\"$PATH\"", &["OLD", "WAS"]),
                ("PATH=$HOME/x:$PATH", &["OLD", "PATH", "WAS"]),
                ("true", &["OLD", "PATH", "WAS"]),
                ("HOME=$PWD", &["HOME", "OLD", "PATH", "WAS"]),
                ("PATH=$WAS", &["HOME", "OLD", "WAS"]),
                ("HOME=$OLD; unset OLD WAS", &[]),
                ("unset PATH", &[]),
            ];
            for (n, (text, expected)) in table.into_iter().enumerate() {
                good(&run(&api, site.within("s", &format!("x{n}"), text)).await);
                let session = look(&api, "s").await.expect("it is there");
                assert_eq!(exported(&session), expected, "{text}");
            }
            let told = run(&api, site.within("s", "last", "echo ${PATH-none}")).await;
            assert_ne!(good(&told), "", "{told:?}");
            close(&api, "s").await.expect("it is there");
        });
    });
}

#[test]
fn values_that_are_no_text_and_too_much_of_them_are_told_and_not_kept() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            open(&api, site.session("s")).await;
            for (n, (text, word)) in [
                ("export BAD=$'a\\xffb' GOOD1=1", "UTF-8"),
                (
                    "export GOOD2=2; export BIG=$(head -c 100000 /dev/zero | tr '\\0' x)",
                    "export",
                ),
                (
                    "export LD_PRELOAD= PROMPT_OK=1",
                    "hands it on to no other command",
                ),
            ]
            .into_iter()
            .enumerate()
            {
                let told = run(&api, site.within("s", &format!("x{n}"), text)).await;
                let end = told.exited.expect("an end");
                let notes = end.notes.join("\n");
                assert!(notes.contains(word), "{text}: {end:?}");
            }
            let session = look(&api, "s").await.expect("it is there");
            assert!(
                session.exported.contains(&"GOOD1".to_owned()),
                "{session:?}"
            );
            for lost in ["BAD", "BIG", "LD_PRELOAD"] {
                assert!(!session.exported.contains(&lost.to_owned()), "{session:?}");
            }
            // The session works on.
            assert_eq!(
                good(&run(&api, site.within("s", "next", "echo ok")).await),
                "ok\n"
            );
        });
    });
}

#[test]
fn a_directory_that_is_gone_is_replaced_by_the_workspace_with_a_note() {
    in_every_mode(|mode| {
        let site = &Site::new(mode);
        site.call(|api| async move {
            let base = site.world.workspace.to_string_lossy().into_owned();
            for (n, by) in [
                "rm -rf \"$PWD\"",
                "cd ..; rm -rf d; cd - 2>/dev/null; cd d 2>/dev/null; rmdir \"$PWD\" 2>/dev/null; true",
            ]
            .iter()
            .enumerate()
            {
                let id = format!("own{n}");
                open(&api, site.session(&id)).await;
                good(&run(&api, site.within(&id, &format!("go{n}"), "mkdir d; cd d")).await);
                run(&api, site.within(&id, &format!("rm{n}"), by)).await;
                let told = run(&api, site.within(&id, &format!("pwd{n}"), "pwd")).await;
                assert_eq!(good(&told), format!("{base}\n"), "{by}");
                close(&api, &id).await.expect("it is there");
            }
            // By somebody else, between two commands; by a file in its place, and a link that leads away.
            for (n, take) in ["nothing", "file", "link"].iter().enumerate() {
                let id = format!("other{n}");
                open(&api, site.session(&id)).await;
                good(&run(&api, site.within(&id, &format!("o-go{n}"), "mkdir d; cd d")).await);
                let place = site.world.workspace.join("d");
                std::fs::remove_dir(&place).expect("it is there");
                match *take {
                    "file" => std::fs::write(&place, "x").expect("a file"),
                    "link" => std::os::unix::fs::symlink("/etc/ssl/private", &place).expect("a link"),
                    _ => {}
                }
                let told = run(&api, site.within(&id, &format!("o-pwd{n}"), "pwd")).await;
                assert_eq!(good(&told), format!("{base}\n"), "{take}");
                let started = told.started.expect("a start");
                assert!(!started.notes.is_empty(), "{take}: {started:?}");
                let told = run(&api, site.within(&id, &format!("o-next{n}"), "pwd")).await;
                assert_eq!(good(&told), format!("{base}\n"), "{take}");
                let _gone = std::fs::remove_file(&place);
                close(&api, &id).await.expect("it is there");
            }
        });
    });
}
