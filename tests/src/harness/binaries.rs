//! The binaries under test: built once per test process, staged where every uid can read them.

use std::{
    env, fs,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use nix::unistd::geteuid;

const NAMES: [&str; 3] = ["agentd", "agentd-launcher", "agent-cli"];

/// Directory that holds `agentd`, `agentd-launcher` and `agent-cli`, readable by everybody.
///
/// `AGENTD_TEST_BIN_DIR` names a directory of finished binaries to use instead of building them.
pub fn binaries() -> &'static Path {
    static DIRECTORY: OnceLock<PathBuf> = OnceLock::new();
    DIRECTORY.get_or_init(|| stage(&source()))
}

fn source() -> PathBuf {
    match env::var_os("AGENTD_TEST_BIN_DIR") {
        Some(directory) => PathBuf::from(directory),
        None => build(),
    }
}

/// Builds with the profile and into the target directory of the running test.
fn build() -> PathBuf {
    let test = env::current_exe().expect("the path of this test");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    let target = profile.parent().expect("target/PROFILE");
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("Cargo.toml");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--workspace",
        "--bins",
        "--manifest-path",
    ]);
    cargo.arg(manifest).env("CARGO_TARGET_DIR", target);
    // Cargo describes the test's crate in the environment. Build scripts that watch these variables for their
    // own crate would run again, and everything that depends on them would be built again, back and forth.
    let of_this_crate =
        |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
    for (name, _) in env::vars().filter(|(name, _)| of_this_crate(name)) {
        cargo.env_remove(name);
    }
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    let status = cargo.status().expect("cargo starts");
    assert!(status.success(), "the binaries do not build");
    profile.to_owned()
}

/// Copies what is new into a directory that also `nobody` can traverse; a build tree may lie in a home.
fn stage(source: &Path) -> PathBuf {
    let profile = source.file_name().unwrap_or_default().to_string_lossy();
    let name = format!("agentd-tests-bin-{}-{profile}", geteuid());
    let stage = env::temp_dir().join(name);
    fs::create_dir_all(&stage).expect("a directory for the binaries");
    let owner = fs::metadata(&stage).expect("the directory").uid();
    assert_eq!(owner, geteuid().as_raw(), "{} is not ours", stage.display());
    mode(&stage, 0o755);
    for name in NAMES {
        let (from, to) = (source.join(name), stage.join(name));
        if !same(&from, &to) {
            let fresh = stage.join(format!(".{name}.{}", std::process::id()));
            fs::copy(&from, &fresh).unwrap_or_else(|error| panic!("{}: {error}", from.display()));
            mode(&fresh, 0o755);
            fs::rename(&fresh, &to).expect("the staged binary");
        }
    }
    stage
}

/// Whether the staged copy is at least as new as its source and as long.
fn same(from: &Path, to: &Path) -> bool {
    let (Ok(from), Ok(to)) = (fs::metadata(from), fs::metadata(to)) else {
        return false;
    };
    from.len() == to.len() && from.modified().ok() <= to.modified().ok()
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).expect("permissions");
}
