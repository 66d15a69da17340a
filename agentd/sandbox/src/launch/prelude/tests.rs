//! The prelude by itself, with whatever bash is installed here. What it does in a jail is tested with the
//! launcher.

use std::{fs, process::Command};

use super::*;
use crate::launch::STATE_FD;

/// Runs a script with and without the prelude; returns the report, and standard output and error of both.
fn run(name: &str, script: &str) -> (String, [(String, String); 2]) {
    let dir = std::env::temp_dir().join(format!("prelude-{}-{name}", std::process::id()));
    fs::create_dir_all(&dir).unwrap();
    let path = |name: &str| dir.join(name);
    fs::write(path("prelude"), TEXT).unwrap();
    fs::write(path("script"), script).unwrap();
    // The outer bash, which does nothing but open the descriptor, must not report itself.
    let with = |bash_env: &str| {
        #[expect(clippy::disallowed_methods, reason = "a test")]
        let mut bash = Command::new("bash");
        let line = "BASH_ENV=$3 exec bash \"$1\" 254>\"$2\"";
        bash.args(["-c", line, "sh"]);
        bash.args([path("script"), path("report"), path(bash_env)]);
        let output = bash.output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (text(output.stdout), text(output.stderr))
    };
    let both = [with("missing"), with("prelude")];
    let report = fs::read_to_string(path("report")).unwrap();
    fs::remove_dir_all(dir).unwrap();
    (report, both)
}

#[test]
fn it_names_the_descriptor_that_the_leader_opens() {
    let text = std::str::from_utf8(TEXT).unwrap();
    assert_eq!(text.matches(&format!(">&{STATE_FD}")).count(), 1);
    assert_eq!(STATE_FD, 254);
}

#[test]
fn nothing_of_it_shows() {
    for (index, script) in [
        "echo $? $LINENO \"$_\"; caller; trap -p DEBUG; declare -F",
        "set -xeuf; IFS=0123456789; export A=1; false",
        "exec 9>&2; BASH_XTRACEFD=9; set -x; :",
        "trap 'echo debug' DEBUG; trap 'echo err' ERR; false; :",
        "pwd() { echo no; }; printf() { echo no; }; declare() { echo no; }; trap() { echo no; }; :",
    ]
    .into_iter()
    .enumerate()
    {
        let (report, [plain, reporting]) = run(&index.to_string(), script);
        assert_eq!(reporting, plain, "{script}");
        let parts: Vec<&str> = report.split('\0').collect();
        let [directory, declarations, ""] = parts.as_slice() else {
            panic!("{script}: {report:?}");
        };
        let own = std::env::current_dir().unwrap();
        assert_eq!(*directory, format!("{}\n", own.display()));
        assert!(declarations.contains("\ndeclare -x PATH=\""), "{report:?}");
    }
}
