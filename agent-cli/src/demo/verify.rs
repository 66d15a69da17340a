//! The demo's checks from outside the loop, and what it says about the jail.

use super::{DemoError, project::Project};
use crate::{
    daemon::{
        Daemon, DaemonError, Denial, ExecCommand, ExecInput, ExecPlace, ExecRequest, ExitReason,
        Sandbox,
    },
    exec::{self, Failure, Followed, Sink},
    ids,
    session::Place,
    signals::Signals,
    terminal::{Ink, Style, neutral},
};

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Check {
    /// Whether it holds.
    pub(super) holds: bool,
    /// What it is.
    pub(super) what: String,
}

/// What the jail itself was asked.
#[derive(Debug)]
pub(super) struct Proof {
    /// The findings.
    pub(super) checks: Vec<Check>,
    /// The jail.
    pub(super) sandbox: Sandbox,
}

/// Runs the test, and the forbidden thing, in the jail once more: not as the loop's tool, but directly.
pub(super) async fn in_the_jail(
    daemon: &Daemon,
    place: Place,
    (project, signals): (&Project, &mut Signals),
) -> Result<Proof, DemoError> {
    let test = run(daemon, request(&place, "bash test.sh".to_owned()), signals).await?;
    let notes = project.notes();
    let forbidden = format!("cat '{}'", notes.display());
    let refusal = run(daemon, request(&place, forbidden), signals).await?;
    let path = notes.to_string_lossy();
    let denial = refusal
        .outcome
        .denials
        .iter()
        .find(|denial| denial.path.as_deref() == Some(&*path));
    let started = test
        .started
        .ok_or(DemoError::Daemon(DaemonError::Malformed("the jail")))?;
    Ok(Proof {
        checks: vec![
            Check {
                holds: test.outcome.reason == ExitReason::Exited
                    && test.outcome.exit_code == Some(0),
                what: "test.sh passes in the jail".to_owned(),
            },
            Check {
                holds: refusal.outcome.exit_code != Some(0) && denial.is_some(),
                what: refused(denial),
            },
        ],
        sandbox: started.sandbox,
    })
}

fn refused(denial: Option<&Denial>) -> String {
    match denial {
        Some(found) => format!(
            "the jail refuses that file and says why:\n        {}",
            exec::denial(found)
        ),
        None => "the jail refuses that file and says why".to_owned(),
    }
}

fn request(place: &Place, script: String) -> ExecRequest {
    ExecRequest {
        exec_id: ids::unique("demo"),
        command: ExecCommand::Script(script.into_bytes()),
        place: ExecPlace::Sandbox(place.sandbox.clone()),
        cwd: place.cwd.clone(),
        env: Vec::new(),
        timeout: None,
        queue: None,
        input: ExecInput::Nothing,
        output_file_bytes: 0,
    }
}

async fn run(
    daemon: &Daemon,
    request: ExecRequest,
    signals: &mut Signals,
) -> Result<Followed, DemoError> {
    let mut sink = Sink::captured();
    let mut followed = exec::follow(daemon, request, &mut sink, signals).await;
    match followed.failure.take() {
        Some(Failure::Daemon(error)) => Err(error.into()),
        Some(Failure::Output(error)) => Err(error.into()),
        Some(Failure::StillRunning) => Err(DaemonError::NoResult.into()),
        None => Ok(followed),
    }
}

/// The findings, one line each.
pub(super) fn verdicts(checks: &[Check], style: Style) -> String {
    let lines = checks.iter().map(|check| {
        let mark = if check.holds {
            style.paint(Ink::Success, "ok  ")
        } else {
            style.paint(Ink::Failure, "FAIL")
        };
        format!("  {mark}  {}", neutral(&check.what))
    });
    let lines: Vec<String> = lines.collect();
    format!("Checked from outside the loop:\n{}\n", lines.join("\n"))
}

/// What confined the commands, and what did not.
pub(super) fn confinement(sandbox: &Sandbox) -> String {
    let mut lines = vec![
        format!(
            "Every command ran under profile {} (digest {}), tier {}, uid {} ({}).",
            sandbox.profile,
            sandbox.digest.get(..12).unwrap_or(&sandbox.digest),
            sandbox.tier,
            sandbox.uid,
            sandbox.identity
        ),
        format!("Layers, in order: {}.", sandbox.layers.join(", ")),
    ];
    if sandbox.degraded.is_empty() {
        lines.push("Nothing that the profile asks for is missing on this host.".to_owned());
    }
    let mut told: Option<&str> = None;
    for absent in &sandbox.degraded {
        if told != Some(absent.reason.as_str()) {
            lines.push(format!("Missing on this host ({}):", absent.reason));
            told = Some(&absent.reason);
        }
        lines.push(format!("  {}: {}", absent.layer, absent.guarantee));
    }
    neutral(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{Check, confinement, verdicts};
    use crate::{
        daemon::{Degradation, Sandbox},
        terminal::Style,
    };

    #[test]
    fn what_holds_and_what_does_not_is_told_apart() {
        let checks = [(true, "a"), (false, "b")].map(|(holds, what)| Check {
            holds,
            what: what.into(),
        });
        assert_eq!(
            verdicts(&checks, Style::Plain),
            "Checked from outside the loop:\n  ok    a\n  FAIL  b\n"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        let mut sandbox = Sandbox {
            profile: "workspace".into(),
            digest: "0123456789abcdef".into(),
            tier: "T1",
            layers: vec!["landlock".into(), "seccomp".into()],
            degraded: Vec::new(),
            landlock_abi: 7,
            uid: 1000,
            identity: "caller".into(),
            cgroup: "none".into(),
        };
        expect_test::expect![[r"
            Every command ran under profile workspace (digest 0123456789ab), tier T1, uid 1000 (caller).
            Layers, in order: landlock, seccomp.
            Nothing that the profile asks for is missing on this host."]]
        .assert_eq(&confinement(&sandbox));
        for (layer, reason) in [
            ("pid-namespace", "r1"),
            ("own-root", "r1"),
            ("cgroup", "r2"),
        ] {
            sandbox.degraded.push(Degradation {
                layer: layer.into(),
                guarantee: "g".into(),
                reason: reason.into(),
            });
        }
        let missing = "Missing on this host (r1):\n  pid-namespace: g\n  own-root: g\nMissing on this host (r2):\n  cgroup: g";
        assert!(
            confinement(&sandbox).ends_with(missing),
            "{}",
            confinement(&sandbox)
        );
    }
}
