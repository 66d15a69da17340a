//! What a case is.

use std::path::Path;

use agentd_tests::harness::Mode;

use crate::arena::Places;

/// Profiles under which a case is tried, from the loosest to the tightest.
pub(crate) const PROFILES: [&str; 3] = ["workspace", "read-only", "strict"];

/// What the tier without namespaces may answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Nested {
    /// Refused as everywhere.
    Holds,
    /// Either refused, or the result names one of these layers among the absent ones.
    MayLack(&'static [&'static str]),
}

/// When the attack can succeed outside the jail, and so when a control exists.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Control {
    /// For every user.
    Always,
    /// Only for root: other users are refused by the kernel anyway, and the case is then run without
    /// a control.
    RootOnly,
    /// Never on this machine; the reason is printed.
    Never(&'static str),
}

/// One attempt. In texts, `@NAME@` stands for a place of the arena (see `Places::fill`).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Case {
    /// Number in the list of attempts; neighbours carry a letter.
    pub(crate) id: &'static str,
    /// What is attempted.
    pub(crate) name: &'static str,
    /// Body of a Python function `attack`; an `OSError` is the refusal, a return is a success.
    pub(crate) attack: &'static str,
    /// Bash before the probe, in the control only.
    pub(crate) before_control: &'static str,
    /// Errno names (or words given to `refused`) that count as the jail's answer; `SETUP` is a refusal
    /// to start anything at all.
    pub(crate) refused_by: &'static [&'static str],
    /// Control.
    pub(crate) control: Control,
    /// Answer of the tier without namespaces.
    pub(crate) nested: Nested,
    /// The attack may seem to succeed inside when its effect is undone afterwards and the result says so
    /// by a denial of the tripwire.
    pub(crate) undone_afterwards: bool,
    /// Prepares the host before each run.
    pub(crate) prepare: fn(&Places),
    /// Looks at the host after a run inside; an error says what the attack achieved.
    pub(crate) after: fn(&Places) -> Result<(), String>,
}

impl Case {
    /// A case with the usual answers: a control for everybody, refused on every tier, nothing to
    /// prepare, and the outside file must stay as it was.
    pub(crate) const fn new(id: &'static str, name: &'static str, attack: &'static str) -> Self {
        Self {
            id,
            name,
            attack,
            before_control: "",
            refused_by: &["EACCES", "ENOENT"],
            control: Control::Always,
            nested: Nested::Holds,
            undone_afterwards: false,
            prepare: |_| {},
            after: target_is_unchanged,
        }
    }

    /// The errno names that count.
    pub(crate) const fn refused_by(mut self, names: &'static [&'static str]) -> Self {
        self.refused_by = names;
        self
    }

    /// What the tier without namespaces may lack.
    pub(crate) const fn nested_may_lack(mut self, layers: &'static [&'static str]) -> Self {
        self.nested = Nested::MayLack(layers);
        self
    }

    /// The tripwire may undo the effect.
    pub(crate) const fn undone_afterwards(mut self) -> Self {
        self.undone_afterwards = true;
        self
    }

    /// When a control exists.
    pub(crate) const fn control(mut self, control: Control) -> Self {
        self.control = control;
        self
    }

    /// Bash before the control.
    pub(crate) const fn before_control(mut self, script: &'static str) -> Self {
        self.before_control = script;
        self
    }

    /// Preparation.
    pub(crate) const fn prepare(mut self, prepare: fn(&Places)) -> Self {
        self.prepare = prepare;
        self
    }

    /// Post-condition.
    pub(crate) const fn after(mut self, after: fn(&Places) -> Result<(), String>) -> Self {
        self.after = after;
        self
    }

    /// Whether the control can succeed for the user of this mode.
    pub(crate) fn has_control(&self, mode: Mode) -> bool {
        match self.control {
            Control::Always => true,
            Control::RootOnly => mode == Mode::Root,
            Control::Never(reason) => {
                eprintln!("NO CONTROL for {} ({}): {reason}", self.id, self.name);
                false
            }
        }
    }
}

/// Contents of the target file before any attack.
pub(crate) const ORIGINAL: &str = "original\n";

/// The usual post-condition.
pub(crate) fn target_is_unchanged(places: &Places) -> Result<(), String> {
    unchanged(&places.outside.join("target"))?;
    unchanged(&places.visible.join("target"))
}

/// Whether a file holds what the arena put into it.
pub(crate) fn unchanged(path: &Path) -> Result<(), String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if text != ORIGINAL {
        return Err(format!("{} now holds {text:?}", path.display()));
    }
    Ok(())
}
