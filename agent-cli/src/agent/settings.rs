//! What is fixed for a session, with the seed's defaults.

/// What is fixed for a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Model id.
    pub model: String,
    /// System prompt; see [`system_prompt`].
    pub system: String,
    /// Tool rounds per turn.
    pub max_turns: u32,
    /// Output limit of one reply, in tokens.
    pub max_tokens: u32,
}

impl Settings {
    /// Tool rounds per turn unless told otherwise.
    pub const DEFAULT_MAX_TURNS: u32 = 50;
    /// Output tokens per reply unless told otherwise.
    pub const DEFAULT_MAX_TOKENS: u32 = 8000;

    /// The defaults for a model that works in `cwd` (a path as the jail sees it).
    #[must_use]
    pub fn new(model: impl Into<String>, cwd: &str) -> Self {
        Self {
            model: model.into(),
            system: system_prompt(cwd),
            max_turns: Self::DEFAULT_MAX_TURNS,
            max_tokens: Self::DEFAULT_MAX_TOKENS,
        }
    }
}

/// The system prompt, frozen for the session. No date or time: it would start the prefix cache anew.
#[must_use]
pub fn system_prompt(cwd: &str) -> String {
    format!(
        "You are a coding agent at {cwd}. Use bash to solve tasks. Act, don't explain.\n\
         Commands run in a sandbox; a line in brackets after the output says when it denied something."
    )
}
