//! Standard input as a pipe.

use std::io::{ErrorKind, Write};

use agentd_sandbox::policy::{Program, Stdin};
use agentd_tests::harness::in_every_mode;

use crate::drive::{Launcher, exited};

#[test]
fn what_is_written_is_read_by_descriptor_and_by_name() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for script in [
            "cat",
            "cat /dev/stdin",
            "cat /proc/self/fd/0",
            "cat </dev/fd/0",
        ] {
            let mut invocation = launcher.invocation(Program::Script);
            invocation.stdin = Stdin::Pipe;
            let mut run = launcher.ask(invocation, &format!("{script}; echo end"));
            let started = run.started();
            run.types("one\n");
            run.shows("one\n");
            run.types("two\n");
            run.stdin = None;
            let outcome = run.end(started);
            assert_eq!(outcome.stdout, "one\ntwo\nend\n", "{script}: {outcome:?}");
        }
    });
}

#[test]
fn a_command_that_does_not_read_any_more_is_noticed_by_its_writer() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        for script in [
            "echo ready; exit 4",
            "exec <&-; echo ready; sleep 0.3; exit 4",
        ] {
            let mut invocation = launcher.invocation(Program::Script);
            invocation.stdin = Stdin::Pipe;
            let mut run = launcher.ask(invocation, script);
            let started = run.started();
            run.shows("ready");
            let mut stdin = run.stdin.take().expect("a pipe");
            // More than a pipe holds: nobody else, such as the jail's init, holds the read end.
            let error = stdin
                .write_all(&vec![b'x'; 1 << 20])
                .expect_err("nobody reads");
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            assert_eq!(run.end(started).status, exited(4));
        }
    });
}

#[test]
fn without_a_pipe_there_is_nothing_to_read() {
    in_every_mode(|mode| {
        let mut launcher = Launcher::start(mode);
        let outcome = launcher.script("cat; readlink /proc/self/fd/0");
        assert_eq!(outcome.stdout, "/dev/null\n");
    });
}
