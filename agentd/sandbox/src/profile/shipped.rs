//! The profiles that are built in. They live in `sandbox-profiles/`, for people to read.

/// File names and texts.
pub(super) const SHIPPED: [(&str, &str); 4] = [
    (
        "base.toml",
        include_str!("../../../../sandbox-profiles/base.toml"),
    ),
    (
        "read-only.toml",
        include_str!("../../../../sandbox-profiles/read-only.toml"),
    ),
    (
        "workspace.toml",
        include_str!("../../../../sandbox-profiles/workspace.toml"),
    ),
    (
        "strict.toml",
        include_str!("../../../../sandbox-profiles/strict.toml"),
    ),
];
