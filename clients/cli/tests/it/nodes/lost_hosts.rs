//! Allocations on hosts that do not answer.
use serde_json::json;

use super::{NODE, SLOT};
use crate::support::World;

#[test]
fn b_28_an_allocation_on_a_lost_host_is_released_by_force() {
    const ALLOCATION: &str = "01930000-0001-7000-8000-000000000001";
    let world = World::new();
    let path = format!("/api/v1/admin/allocations/{ALLOCATION}:forceRelease");
    let answer = json!({ "allocation": { "id": ALLOCATION, "status": { "state": "released" } }, "node_id": NODE,
        "billing_end_time": "2026-01-02T03:04:05Z", "slot_ids": [SLOT] });
    world.on("POST", &path, [(200, answer)]);
    let force = [
        "admin",
        "allocation",
        "force-release",
        ALLOCATION,
        "--reason",
        "fire",
    ];
    let ran = world
        .run(&[&force[..], &["--host", "powered-off"]].concat())
        .ok();
    for reported in [
        "is released.",
        "2026-01-02",
        SLOT,
        "gpuaas admin slot repair",
    ] {
        assert!(ran.out.contains(reported), "{reported}: {}", ran.out);
    }
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        sent.body,
        json!({ "host_fate": "powered_off", "reason": "fire" })
    );

    let more = [
        "--host",
        "written-off",
        "--billing-end",
        "2026-01-02T03:04:05Z",
        "--dry-run",
    ];
    let ran = world.run(&[&force[..], &more].concat()).ok();
    assert!(
        ran.out.contains("would be released. Nothing was changed."),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        sent.body,
        json!({ "host_fate": "written_off", "reason": "fire", "billing_end_time": "2026-01-02T03:04:05Z", "validate_only": true })
    );
    // what became of the host is for a person to say
    assert_eq!(world.run(&force).code, 2);
}

#[test]
fn p7_an_allocation_on_a_silent_host_says_so() {
    const ALLOCATION: &str = "01930000-0001-7000-8000-000000000001";
    let world = World::new();
    let path = format!("/api/v1/allocations/{ALLOCATION}");
    let condition = json!({ "type": "host_lost", "message": "The host does not answer.", "since": "2026-01-02T03:04:05Z" });
    world.get(&path, json!({ "id": ALLOCATION, "status": { "state": "active", "power": "running", "conditions": [condition] } }));
    world.get(&format!("{path}/timeline"), json!({ "entries": [] }));
    world.get("/api/v1/usage", json!({}));
    let ran = world.run(&["show", ALLOCATION]).ok();
    assert!(
        ran.out.contains("active, running, host lost"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("The host does not answer. Since"),
        "{}",
        ran.out
    );
}
