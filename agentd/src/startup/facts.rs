//! Facts that are read once, because a confined front end can open nothing any more.

use std::{fs::File, os::unix::fs::FileExt};

use crate::rpc::Identity;

/// Names this daemon: the kernel gives a fresh random id for every read.
#[must_use]
pub fn identity() -> Identity {
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_else(|_| {
        // Without /proc: the start time and the pid are unique on one host, which is all it takes.
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        format!("{:x}-{:x}", now.as_nanos(), std::process::id())
    });
    let host = nix::unistd::gethostname().unwrap_or_default();
    let kernel =
        nix::sys::utsname::uname().map(|name| name.release().to_string_lossy().into_owned());
    Identity {
        boot_id: boot_id.trim().to_owned(),
        instance_id: format!("{}-{}", host.to_string_lossy(), std::process::id()),
        kernel: kernel.unwrap_or_default(),
    }
}

/// The daemon's own memory, by a file opened in time.
#[derive(Debug)]
pub struct Memory(Option<File>);

impl Memory {
    /// Opens the file. Without it nothing is known, and nothing else is amiss.
    #[must_use]
    pub fn open() -> Self {
        Self(File::open("/proc/self/statm").ok())
    }

    /// Resident memory in bytes.
    #[must_use]
    pub fn resident_bytes(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.0.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(text.get(..length)?).ok()?;
        let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        let page = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
        pages.checked_mul(u64::try_from(page).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_starts_have_two_boot_ids() {
        assert_ne!(identity().boot_id, identity().boot_id);
        assert!(!identity().kernel.is_empty());
    }

    #[test]
    fn a_process_has_between_one_and_a_million_pages_resident() {
        let bytes = Memory::open().resident_bytes().unwrap();
        assert!((4096..1 << 32).contains(&bytes), "{bytes}");
    }
}
