//! `gpuaas logs`: the serial log over lost connections, as it was printed.
use serde_json::{Value, json};

use crate::support::{ID, World, error, synced};

/// "one" is "b25l" and so on.
fn part(offset: u32, data: &str, token: &str) -> Value {
    json!({ "part": { "offset": offset.to_string(), "print_time": "2026-01-31T12:00:00Z", "data": data }, "resume_token": token })
}

fn path(query: &str) -> String {
    format!("/api/v1/allocations/{ID}/serial-log{query}")
}

#[test]
fn a_log_is_followed_over_a_lost_connection_and_printed_once() {
    let world = World::new();
    let end = json!({ "end": {}, "resume_token": "t3" });
    world.get(
        &path("?follow=true&tail_lines=5"),
        json!([part(0, "b25lCnR3", "t1"), synced("t1")]),
    );
    world.get(
        &path("?follow=true&tail_lines=5&resume_token=t1"),
        json!([json!({ "heartbeat": {} }), part(6, "bwo=", "t2"), end]),
    );
    let ran = world.run(&["logs", ID, "--follow", "--tail", "5"]).ok();
    assert_eq!(ran.out, "one\ntwo\n");

    world.get(
        &path(""),
        json!([part(0, "b25l", "t1"), part(9, "dHdv", "t2"), end]),
    );
    let ran = world.run(&["logs", ID, "--timestamps"]).ok();
    assert_eq!(
        ran.out, "2026-01-31T12:00:00Z onetwo\n",
        "the last line is ended"
    );
    assert!(ran.err.contains("no longer retained"), "{ran:?}");
    let ran = world.run(&["logs", ID, "-q"]).ok();
    assert_eq!(
        (ran.out.as_str(), ran.err.as_str()),
        ("onetwo\n", ""),
        "the log without hints"
    );
    let ran = world.run(&["logs", ID, "--output", "jsonl"]).ok();
    assert_eq!(ran.out.lines().count(), 3, "{ran:?}");
}

#[test]
fn a_log_of_the_last_minutes_is_wanted_by_its_time() {
    let world = World::new();
    let end = json!([{ "end": {}, "resume_token": "t" }]);
    world.get(&path(""), end);
    for (since, seconds) in [("10m", 600), ("3d", 259_200), ("1d 12h", 129_600)] {
        let ran = world.run(&["logs", ID, "--since", since]).ok();
        assert_eq!(ran.out, "");
        let seen = world.seen().pop().expect("a request");
        let (_, time) = seen.target.split_once("?since_time=").expect("a time");
        let time: jiff::Timestamp = time.replace("%3A", ":").parse().expect("a time");
        let ago = jiff::Timestamp::now().as_second() - time.as_second();
        assert!((seconds..seconds + 60).contains(&ago), "{since}: {ago}");
    }

    for wrong in [
        "--since=-5m",
        "--since=-3d",
        "--since=soon",
        "--since=1mo",
        "--tail=100001",
    ] {
        assert_eq!(world.run(&["logs", ID, wrong]).code, 2, "{wrong}");
    }
    assert_eq!(world.seen().len(), 3, "nothing more was asked for");
    let none = error(
        400,
        "SERIAL_LOG_UNAVAILABLE",
        "The host has no serial log.",
        &[],
    );
    world.on("GET", &path(""), [(400, none)]);
    let ran = world.run(&["logs", ID]);
    assert_eq!((ran.code, ran.out.as_str()), (4, ""), "{ran:?}");
    assert!(ran.err.contains("no serial log"), "{ran:?}");
}
