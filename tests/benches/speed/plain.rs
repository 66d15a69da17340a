//! The plainest way to do the same work: the measure of everything else.

use std::{
    io::Read,
    process::{Command, Stdio},
};

/// A raw reader's buffer: as much as a pipe holds.
const BUFFER: usize = 64 * 1024;

/// Spawns bash, reads both of its streams to their ends, and waits.
pub(crate) fn capture(script: &str) {
    let output = bash(script).output().expect("bash starts");
    assert!(output.status.success(), "{output:?}");
}

/// Spawns bash and reads its output in a loop that keeps nothing.
pub(crate) fn drain(script: &str, expected: u64) {
    let mut child = bash(script)
        .stdout(Stdio::piped())
        .spawn()
        .expect("bash starts");
    let mut pipe = child.stdout.take().expect("a pipe");
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    loop {
        match pipe.read(&mut buffer).expect("a pipe can be read") {
            0 => break,
            length => total += length as u64,
        }
    }
    child.wait().expect("it ends");
    assert_eq!(total, expected);
}

fn bash(script: &str) -> Command {
    let mut command = Command::new("bash");
    command.args(["-c", script]).stdin(Stdio::null());
    command
}
