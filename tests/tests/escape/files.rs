//! Special files planted in the workspace: case 26.

use std::time::Duration;

use agentd_tests::harness::in_every_mode;
use nix::{sys::stat::Mode, unistd::mkfifo};

use crate::arena::Arena;

const PROMPT: Duration = Duration::from_secs(10);

#[test]
fn fifos_at_names_that_the_daemon_looks_at_do_not_block_it() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        places.world.file(".git/HEAD", "ref: refs/heads/main\n");
        for name in [
            ".git/config",
            ".git/hooks",
            ".envrc",
            ".vscode",
            ".env",
            ".agentd",
            "pipe",
        ] {
            let path = places.world.workspace.join(name);
            mkfifo(&path, Mode::from_bits_truncate(0o666)).expect("a fifo");
            places.world.give(&path);
        }
        // Control: opening one of them for reading does block.
        let open = "timeout 1 cat .git/config; test $? = 124";
        places
            .world
            .program("bash")
            .args(["-c", open])
            .run()
            .expect_code(0);

        let words = ["exec", "--json", "--", "echo through"];
        let client = arena.daemon().cli(&places.world, &words).start();
        let ended = client.wait(PROMPT);
        let through = ended.json()["stdout"] == "through\n";
        assert!(through || ended.code == 125, "{ended:?}");
        arena.daemon_is_alive();
    });
}
