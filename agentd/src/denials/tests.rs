//! Lines of real programs, and what they must and must not be taken for.

#![expect(clippy::too_many_lines, reason = "a table")]

use agentd_sandbox::{explain::Verdict, policy::Layer};

use super::{
    suspect::{Access, Suspect},
    *,
};

const CWD: &str = "/w";

fn found(script: &str, output: &str) -> Vec<Suspect> {
    let scene = Scene {
        script: script.as_bytes(),
        cwd: CWD,
    };
    suspects(&[output.as_bytes()], &scene)
}

fn read(path: &str) -> Suspect {
    Suspect::Path {
        path: path.to_owned(),
        access: Access::Read,
    }
}

fn create(path: &str) -> Suspect {
    Suspect::Path {
        path: path.to_owned(),
        access: Access::Create,
    }
}

fn connect(host: &str, port: u16) -> Suspect {
    Suspect::Connect {
        host: host.to_owned(),
        port,
    }
}

#[test]
fn messages_of_real_programs_name_their_path_and_access() {
    let table: &[(&str, &str, Suspect)] = &[
        (
            "cat /etc/shadow",
            "cat: /etc/shadow: Permission denied",
            read("/etc/shadow"),
        ),
        (
            "cat /etc/shadow",
            "cat: /etc/shadow: No such file or directory",
            read("/etc/shadow"),
        ),
        (
            "cat ../x/./s",
            "cat: ../x/./s: Permission denied",
            read("/x/s"),
        ),
        ("cat s", "cat: s: Permission denied", read("/w/s")),
        (
            "ls /root",
            "ls: cannot open directory '/root': Permission denied",
            read("/root"),
        ),
        (
            "ls /root",
            "ls: cannot access '/root': No such file or directory",
            read("/root"),
        ),
        (
            "touch /etc/x",
            "touch: cannot touch '/etc/x': Read-only file system",
            create("/etc/x"),
        ),
        (
            "touch /etc/x",
            "touch: cannot touch '/etc/x': Permission denied",
            create("/etc/x"),
        ),
        (
            "mkdir /a",
            "mkdir: cannot create directory ‘/a’: Permission denied",
            create("/a"),
        ),
        (
            "rm /a",
            "rm: cannot remove '/a': Operation not permitted",
            create("/a"),
        ),
        (
            "echo x > /etc/y",
            "bash: line 1: /etc/y: Permission denied",
            create("/etc/y"),
        ),
        (
            "echo x >>'/etc/y'",
            "bash: line 1: /etc/y: Permission denied",
            create("/etc/y"),
        ),
        (
            "echo x > .git/config",
            "bash: line 3: .git/config: Read-only file system",
            create("/w/.git/config"),
        ),
        (
            "echo x > .git/hooks/h",
            "bash: line 3: .git/hooks/h: Permission denied",
            create("/w/.git/hooks/h"),
        ),
        (
            "cat /etc/shadow; echo > /etc/shadow",
            "cat: /etc/shadow: Permission denied",
            read("/etc/shadow"),
        ),
        (
            "cat /etc/shadow; echo > /etc/shadow",
            "bash: line 1: /etc/shadow: Permission denied",
            create("/etc/shadow"),
        ),
        (
            "echo x > /etc/yy; /etc/y",
            "bash: line 1: /etc/y: Permission denied",
            read("/etc/y"),
        ),
        (
            "git config a b",
            "error: could not lock config file .git/config: Read-only file system",
            create("/w/.git/config"),
        ),
        (
            "python3 x",
            "PermissionError: [Errno 13] Permission denied: '/etc/shadow'",
            read("/etc/shadow"),
        ),
        (
            "python3 x",
            "OSError: [Errno 30] Read-only file system: '/usr/x'",
            create("/usr/x"),
        ),
        (
            "python3 x",
            "FileNotFoundError: [Errno 2] No such file or directory: '/home/u/.ssh/id_rsa'",
            read("/home/u/.ssh/id_rsa"),
        ),
        (
            "exec 3<>/dev/tcp/1.1.1.1/80",
            "bash: line 1: /dev/tcp/1.1.1.1/80: Network is unreachable",
            connect("1.1.1.1", 80),
        ),
        (
            "curl x",
            "curl: (6) Could not resolve host: example.com",
            connect("example.com", 0),
        ),
        (
            "curl x",
            "curl: (7) Failed to connect to 10.0.0.1 port 443 after 0 ms: Could not connect to server",
            connect("10.0.0.1", 443),
        ),
    ];
    for (script, output, expected) in table {
        let found = found(script, output);
        assert!(found.contains(expected), "{output}: {found:?}");
    }
}

#[test]
fn ordinary_output_raises_no_suspicion() {
    for output in [
        "",
        "sandbox",
        "denied",
        "access denied: see manual",
        "permission denied",
        "bash: nosuch: command not found",
        "PASS: refuses with EACCES",
        "\u{0}\u{1}\u{2}",
    ] {
        assert_eq!(found("ls -d sandbox; exit 1", output), [], "{output}");
    }
}

#[test]
fn long_lines_floods_and_broken_text_are_bounded() {
    let long = format!("cat: /{}: Permission denied", "x".repeat(2000));
    assert_eq!(found("", &long), []);
    let lines: Vec<_> = (0..10_000)
        .map(|n| format!("cat: /f{n}: Permission denied"))
        .collect();
    let flood = lines.join(
        "
",
    );
    assert_eq!(found("", &flood).len(), MAX_SUSPECTS);
    let scene = Scene {
        script: b"\xff>\xff",
        cwd: CWD,
    };
    let broken = b"\xff\xfe: Permission denied\ncat: '\xe2\x80: Permission denied";
    assert_eq!(suspects(&[broken], &scene), []);
}

#[test]
fn only_what_the_policy_refuses_is_a_denial_and_only_once() {
    let verdict = |allowed| Verdict {
        allowed,
        rule: "base.toml:7".to_owned(),
        layers: vec![Layer::OwnRoot, Layer::Landlock],
        text: "nothing grants it".to_owned(),
    };
    let suspects = [read("/a"), read("/b"), read("/b"), connect("h", 1)];
    let verdicts = [
        verdict(true),
        verdict(false),
        verdict(false),
        verdict(false),
    ];
    let denials = judge(&suspects, &verdicts);
    let seen: Vec<_> = denials
        .iter()
        .map(|d| {
            (
                d.access,
                d.path.as_str(),
                d.port,
                d.layer.as_str(),
                d.rule.as_str(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("read", "/b", 0, "own-root", "base.toml:7"),
            ("connect", "", 1, "own-root", "base.toml:7"),
        ]
    );
    let many: Vec<_> = (0..40).map(|n| read(&format!("/{n}"))).collect();
    let all_denied: Vec<_> = (0..40).map(|_| verdict(false)).collect();
    assert_eq!(judge(&many, &all_denied).len(), MAX_DENIALS);
}

#[test]
fn no_script_and_no_output_make_the_search_long() {
    let repeated = |text: &str, bytes: usize| text.repeat(bytes / text.len());
    let many_words = format!("a: line 1: {}Permission denied\n", "p: ".repeat(330));
    let other_words: Vec<_> = (0..40_000)
        .map(|n| format!("a: line 1: {n}p: {n}q: {n}r: Permission denied\n"))
        .collect();
    let deep = format!("/{}", "d/".repeat(2000));
    let scripts = [
        repeated("# >>>>", 1 << 20).into_bytes(),
        repeated(">p", 1 << 20).into_bytes(),
        repeated("> .env", 1 << 20).into_bytes(),
        (0..100_000)
            .flat_map(|n| format!(">{n}p\n").into_bytes())
            .collect(),
    ];
    let outputs = [
        many_words.repeat(128),
        other_words.concat(),
        repeated("'p' Permission denied\n", 128 << 10),
        repeated("a: \u{2018}", 128 << 10),
    ];
    for (s, script) in scripts.iter().enumerate() {
        for (o, output) in outputs.iter().enumerate() {
            for cwd in ["/", CWD, &deep] {
                let scene = Scene { script, cwd };
                let cut = output
                    .as_bytes()
                    .get(..128 * 1024)
                    .unwrap_or(output.as_bytes());
                let since = std::time::Instant::now();
                let found =
                    suspects(&[cut], &scene).len() + usize::from(mentioned(&scene).is_some());
                let took = since.elapsed();
                assert!(found <= MAX_SUSPECTS + 1);
                // Optimised and alone on a processor it is some milliseconds.
                assert!(took.as_secs() < 5, "script {s}, output {o}, {took:?}");
            }
        }
    }
}
