//! A cgroup around the whole test, so that a storm that escapes its limit meets another one.

use std::{fs, path::PathBuf};

/// Processes and threads of the test, its daemons and everything they start.
const MOST: &str = "900";

/// The cgroup, where there is one. Dropping it lets everybody out and removes it.
#[derive(Debug)]
pub(crate) struct Fence {
    inside: Option<PathBuf>,
}

impl Fence {
    /// Moves this process into a cgroup of its own where it may make one. Where it may not, it is an
    /// ordinary user, whose limit on processes holds the storm.
    pub(crate) fn new() -> Self {
        let hierarchies = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"];
        let inside = hierarchies.iter().find_map(|hierarchy| {
            let name = format!("proof-fence-{}", std::process::id());
            let directory = PathBuf::from(hierarchy).join(name);
            fs::create_dir(&directory).ok()?;
            let limited = fs::write(directory.join("pids.max"), MOST)
                .and_then(|()| fs::write(directory.join("cgroup.procs"), "0"));
            if limited.is_err() {
                drop(fs::remove_dir(&directory));
            }
            limited.ok().map(|()| directory)
        });
        if inside.is_none() {
            let root = nix::unistd::geteuid().is_root();
            assert!(
                !root || std::env::var_os("CI").is_none(),
                "CI needs a pids cgroup"
            );
            eprintln!("no cgroup around this test");
        }
        Self { inside }
    }
}

impl Drop for Fence {
    fn drop(&mut self) {
        let Some(inside) = &self.inside else {
            return;
        };
        let outside = inside.with_file_name("cgroup.procs");
        let members = fs::read_to_string(inside.join("cgroup.procs")).unwrap_or_default();
        for member in members.lines() {
            drop(fs::write(&outside, member));
        }
        drop(fs::remove_dir(inside));
    }
}
