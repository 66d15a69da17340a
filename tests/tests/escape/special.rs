//! What a request itself may try: other workspaces, other environments, other profiles.

use agentd_tests::harness::{Mode, in_every_mode};

use crate::arena::Arena;

#[test]
fn strict_is_refused_where_it_cannot_be_enforced() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        let words = ["--profile", "strict", "exec", "--", "echo ran"];
        let ended = arena.daemon().cli(&places.world, &words).run();
        if mode == Mode::Nested {
            ended.expect_code(125);
            assert_eq!(ended.stdout, "");
        } else {
            ended.expect_code(0);
            assert_eq!(ended.stdout, "ran\n");
        }
        assert_eq!(arena.mode(), mode);
    });
}

#[test]
fn a_request_cannot_set_variables_that_run_code() {
    let names = [
        "LD_PRELOAD=/tmp/x.so",
        "BASH_ENV=/tmp/x",
        "LD_LIBRARY_PATH=/tmp",
        "ENV=/tmp/x",
    ];
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        for name in names {
            let words = ["exec", "--env", name, "--", "echo ran"];
            let ended = arena.daemon().cli(&places.world, &words).run();
            ended.expect_code(125);
            assert_eq!(ended.stdout, "", "{name}");
        }
        let control = ["exec", "--env", "HARMLESS=1", "--", "echo $HARMLESS"];
        let ended = arena.daemon().cli(&places.world, &control).run();
        ended.expect_code(0);
        assert_eq!(ended.stdout, "1\n");
    });
}

#[test]
fn files_in_the_workspace_never_change_the_policy() {
    in_every_mode(|mode| {
        let arena = Arena::new(mode);
        let places = arena.places();
        let open =
            "schema = 1\nname = \"workspace\"\n[net]\nmode = \"host\"\n[fs]\nwrite = [\"/\"]\n";
        for name in [
            ".agentd.toml",
            ".agentd/profiles/workspace.toml",
            "agentd.toml",
        ] {
            places.world.file(name, open);
        }
        let script = places.fill("echo changed > '@OUTSIDE@/target'");
        let words = ["exec", "--json", "--", &script];
        let answer = arena.daemon().cli(&places.world, &words).run().json();
        assert_ne!(answer["exit_code"], 0, "{answer}");
        crate::case::target_is_unchanged(&places).expect("nothing outside changed");
    });
}
