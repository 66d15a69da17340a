//! Paths that change under the daemon's feet: cases 10 and 28.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use agentd_tests::harness::in_every_mode;

use crate::{
    arena::{Arena, Places, STUCK},
    case::target_is_unchanged,
};

/// Overwrites `target` in the directory that the workspace's path means now.
const WRITE_BY_PATH: &str = "echo changed > '@WORKSPACE@/target'";

#[test]
fn a_workspace_that_is_replaced_while_a_command_runs_leads_nowhere_else() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        // Control: the same replacement without a jail does lead outside.
        let places = arena.places();
        replace(&places);
        let control = places.world.program("bash").current_dir(&places.outside);
        control
            .args(["-c", &places.fill(WRITE_BY_PATH)])
            .run()
            .expect_code(0);
        assert!(
            target_is_unchanged(&places).is_err(),
            "the control changed nothing"
        );

        let places = arena.places();
        let script = places.fill(
            "echo ready; until [ -L '@WORKSPACE@' ] || [ ! -e '@WORKSPACE@/marker' ] || [ -e go ]; \
             do :; done; echo changed > '@WORKSPACE@/target'; echo changed > ../outside/target; \
             cat '@WORKSPACE@/../outside/secret'; echo end",
        );
        places.world.file("marker", "");
        let client = arena
            .daemon()
            .cli(&places.world, &["exec", "--", &script])
            .start();
        client.wait_for_stdout("ready");
        replace(&places);
        // The jail keeps the directory it was given: its own view is told to go on from there.
        fs::write(moved(&places).join("go"), "").expect("a signal for the command");
        let ended = client.wait(STUCK);
        assert!(ended.stdout.ends_with("end\n"), "{ended:?}");
        assert!(!ended.stdout.contains(crate::arena::SESAME), "{ended:?}");
        target_is_unchanged(&places).expect("nothing outside changed");
        arena.daemon_is_alive();
    });
}

fn moved(places: &Places) -> std::path::PathBuf {
    places.world.base.join("moved")
}

/// Moves the workspace away and puts a link to `outside` in its place.
fn replace(places: &Places) {
    fs::rename(&places.world.workspace, moved(places)).expect("the workspace moves");
    symlink(&places.outside, &places.world.workspace).expect("a link in its place");
}

#[test]
fn links_swapped_during_set_up_never_lead_outside() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        places.world.file("real/hooks/kept", "");
        places.world.file(".git/HEAD", "ref: refs/heads/main\n");
        let hooks = places.world.workspace.join(".git/hooks");
        // Control: with the link in place, a write by this path does reach outside.
        symlink(&places.outside, &hooks).expect("a link");
        let write = "echo changed > .git/hooks/target; true";
        places
            .world
            .program("bash")
            .args(["-c", write])
            .run()
            .expect_code(0);
        assert!(
            target_is_unchanged(&places).is_err(),
            "the control changed nothing"
        );
        fs::write(places.outside.join("target"), crate::case::ORIGINAL).expect("put back");

        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| swap(&hooks, &places, &stop));
            for _ in 0..30 {
                let words = ["exec", "--json", "--timeout", "20s", "--", write];
                let ended = arena.daemon().cli(&places.world, &words).run();
                assert!([0, 125].contains(&ended.code), "{ended:?}");
            }
            stop.store(true, Ordering::Relaxed);
        });
        target_is_unchanged(&places).expect("nothing outside changed");
        arena.daemon_is_alive();
    });
}

/// Turns the protected name from a directory into a link to outside and back, as fast as it can.
fn swap(hooks: &Path, places: &Places, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // Whatever is there goes; a jail that holds it as a mount point does not mind.
        drop(fs::remove_file(hooks));
        drop(fs::remove_dir_all(hooks));
        drop(fs::create_dir(hooks));
        drop(fs::remove_dir(hooks));
        drop(symlink(&places.outside, hooks));
    }
}
