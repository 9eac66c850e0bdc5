//! Who reads the output may stop at any time.
use std::io::pipe;
use std::process::Stdio;

use crate::support::{ID, World, allocation, changed, stream};
use serde_json::json;

/// A pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

fn world() -> World {
    let world = World::new();
    let path = "/api/v1/allocations";
    let one = format!("{path}/{ID}");
    world.get(path, json!({ "allocations": [allocation("active")] }));
    world.get(&one, allocation("active"));
    world.get(&format!("{one}/timeline"), json!({ "entries": [] }));
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    world.get(
        &format!("{path}:watch"),
        stream([vec![changed(allocation("active"), "t")]]),
    );
    world.on(
        "POST",
        &format!("{one}:stop"),
        [(200, allocation("active"))],
    );
    world
}

#[test]
fn an_answer_that_nobody_reads_ends_the_command_quietly() {
    let world = world();
    for arguments in [
        &["list"][..],
        &["list", "--output", "json"],
        &["show", ID],
        &["usage"],
        &["watch"],
        &["watch", "--output", "json"],
        &["stop", ID],
        &["completion", "bash"],
        &["man"],
    ] {
        let mut command = world.command(arguments);
        let ran = command.stdout(closed()).output().expect("it runs");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(
            (ran.status.code(), &*said),
            (Some(141), ""),
            "{arguments:?}"
        );
    }
}

#[test]
fn an_error_that_nobody_reads_keeps_its_exit_code() {
    let world = world();
    for format in ["table", "json"] {
        let mut command = world.command(&["show", "nobody", "--output", format]);
        let ran = command.stderr(closed()).output().expect("it runs");
        assert_eq!(ran.status.code(), Some(3), "{format}");
    }
}

#[test]
fn an_answer_that_cannot_be_written_is_a_failure() {
    let world = world();
    let full = std::fs::File::options().write(true).open("/dev/full");
    let mut command = world.command(&["list"]);
    let ran = command.stdout(full.expect("open")).output().expect("runs");
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("error: cannot write the answer: "),
        "{said}"
    );
}
