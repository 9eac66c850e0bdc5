//! Rollouts of the agent: what an operator types, what the gateway is sent, and what is shown.
use crate::support::World;
use serde_json::{Value, json};

const ROLLOUT: &str = "01930000-0009-7000-8000-000000000009";
const NODE: &str = "01930000-0008-7000-8000-000000000008";
const PATH: &str = "/api/v1/admin/agent-rollouts";

fn rollout() -> Value {
    json!({
        "id": ROLLOUT, "version": "1f2e3d4c", "digest": "sha256:aa", "state": "paused", "state_reason": "1 nodes failed, and the limit is 0.",
        "current_wave": 1, "total_nodes": 2, "failed_nodes": 1, "principal": "user:root",
        "waves": [
            { "number": 1, "nodes": [{ "node_id": NODE, "hostname": "h1", "rack": "r1", "state": "failed",
                "reason": "the package has another digest", "from_version": "80d8a259", "agent_version": "80d8a259" }] },
            { "number": 2, "nodes": [{ "hostname": "h2", "rack": "r1", "state": "pending", "agent_version": "80d8a259" }] },
        ],
    })
}

#[test]
fn each_command_is_one_keyed_change() {
    let world = World::new();
    let folder = tempfile::tempdir().expect("folder");
    let package = folder.path().join("agent.deb");
    std::fs::write(&package, b"abc").expect("package");
    let package = package.display().to_string();
    let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let created = json!({
        "version": "1f2e3d4c", "digest": digest, "size_bytes": "3", "node_ids": [NODE], "first_node_id": NODE,
        "max_failures": 1, "max_parallel": 10, "node_timeout_seconds": 900, "reason": "fix",
    });
    let changed = json!({ "reason": "why", "etag": "4" });
    let resumed = json!({ "retry_failed": true });
    let by_package = [
        "create",
        "--version",
        "1f2e3d4c",
        "--package",
        &package,
        "--node",
        NODE,
        "--first",
        NODE,
        "--max-failures",
        "1",
        "--reason",
        "fix",
    ];
    let by_digest = [
        "create",
        "--version",
        "1f2e3d4c",
        "--digest",
        digest,
        "--size",
        "3",
        "--node",
        NODE,
        "--first",
        NODE,
        "--max-failures",
        "1",
        "--reason",
        "fix",
    ];
    let change = |verb| [verb, ROLLOUT, "--reason", "why", "--etag", "4"];
    let (pause, abort, rollback) = (change("pause"), change("abort"), change("rollback"));
    let table: [(&[&str], String, &Value); 6] = [
        (&by_package, PATH.to_owned(), &created),
        (&by_digest, PATH.to_owned(), &created),
        (&pause, format!("{PATH}/{ROLLOUT}:pause"), &changed),
        (
            &["resume", ROLLOUT, "--retry-failed"],
            format!("{PATH}/{ROLLOUT}:resume"),
            &resumed,
        ),
        (&abort, format!("{PATH}/{ROLLOUT}:abort"), &changed),
        (&rollback, format!("{PATH}/{ROLLOUT}:rollback"), &changed),
    ];
    for (arguments, path, body) in table {
        world.on("POST", &path, [(200, rollout())]);
        let shown = world
            .run(&[&["admin", "agent-rollout"], arguments].concat())
            .ok()
            .out;
        assert!(shown.contains("the package has another digest"), "{shown}");
        let sent = world.changes().pop().expect("sent");
        assert_eq!((sent.target.as_str(), &sent.body), (path.as_str(), body));
        assert!(sent.key.is_some());
    }
    let bad = world.run(&["admin", "agent-rollout", "create", "--version", "1"]);
    assert!(bad.err.contains("--digest"), "{}", bad.err);
}

#[test]
fn a_rollout_is_shown_by_wave_with_states_and_reasons() {
    let world = World::new();
    let path = format!("{PATH}/{ROLLOUT}");
    world.on("GET", &path, [(200, rollout())]);
    let shown = world
        .run(&["admin", "agent-rollout", "show", ROLLOUT])
        .ok()
        .out;
    for part in [
        "paused",
        "limit is 0",
        "h1",
        "failed",
        "h2",
        "pending",
        "80d8a259",
        "0 of 2",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
