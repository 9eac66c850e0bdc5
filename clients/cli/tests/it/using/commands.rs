//! Names of commands, and the help.
use serde_json::json;

use crate::allocations::ALLOCATIONS;
use crate::support::{World, allocation};

#[test]
fn a_wrong_command_is_answered_with_what_is_meant_or_with_nothing() {
    let world = World::new();
    for (given, suggested) in [
        ("rm", "'release'"),
        ("ps", "'list'"),
        ("lst", "'list'"),
        ("shell", "'terminal'"),
        ("ssh-key rm", "'delete'"),
        ("admin region create", "'set'"),
    ] {
        let ran = world.run(&given.split(' ').collect::<Vec<_>>());
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(suggested), "{given}: {}", ran.err);
        assert_eq!(
            ran.err.contains("'terminal'"),
            suggested == "'terminal'",
            "{given}: {}",
            ran.err
        );
    }
    let ran = world.run(&["frobnicate"]);
    assert!(!ran.err.contains("similar"), "{}", ran.err);
}

#[test]
fn second_names_of_commands_work_and_are_suggested_nowhere() {
    let world = World::new();
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active")] }),
    );
    let listed = world.run(&["list"]).ok().out;
    assert_eq!(world.run(&["ls"]).ok().out, listed);
    let ran = world.run(&["webhookz"]);
    assert!(ran.err.contains("'webhook'"), "{}", ran.err);
    assert!(!ran.err.contains("'webhooks'"), "{}", ran.err);
}

#[test]
fn help_tells_global_flags_from_those_of_the_command() {
    let world = World::new();
    for command in [
        &["launch", "--help"][..],
        &["admin", "node", "create", "--help"],
    ] {
        let help = world.run(command).ok().out;
        let (own, global) = help.split_once("Global options:").expect("two parts");
        for flag in [
            "--api",
            "--token-file",
            "--profile-file",
            "--output",
            "--idempotency-key",
        ] {
            assert!(
                !own.contains(flag) && global.contains(flag),
                "{flag}: {help}"
            );
        }
        assert!(own.contains("Options:"), "{help}");
    }
}
