//! Hosts and their slots: discovery, approval, repair, proof.
use crate::support::World;
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const SLOT: &str = "01930000-0008-7000-8000-000000000008";

fn discovery(state: &str) -> Value {
    json!({ "id": "d1", "node_id": NODE, "state": state, "error": "the host is away", "candidates": [
        { "slot_index": 0, "slot_class": "lab", "blockers": [] },
        { "slot_index": 1, "slot_class": "lab", "blockers": ["disk is mounted"] },
    ] })
}

#[test]
fn discovery_is_waited_for_and_what_fits_is_approved() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/slice-topology/discovery");
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] }),
    );
    world.on("POST", &path, [(200, discovery("queued"))]);
    world.on(
        "GET",
        &path,
        [(200, discovery("running")), (200, discovery("completed"))],
    );
    let ran = world
        .run(&["admin", "node", "discover", "h1", "--wait"])
        .ok();
    assert!(
        ran.out.contains("0      lab    approvable")
            && ran.out.contains("1      lab    disk is mounted"),
        "{}",
        ran.out
    );

    let approve = format!("/api/v1/admin/nodes/{NODE}/resource-slots:approve");
    world.on("POST", &approve, [(200, json!({ "slots": [{ "id": SLOT, "slot_index": 0, "slot_class": "lab", "status": "available", "health_state": "healthy", "generation": "0" }] }))]);
    let ran = world
        .run(&["admin", "slots", "approve", "h1", "--all"])
        .ok();
    assert!(ran.out.contains("available  healthy"), "{}", ran.out);
    assert_eq!(
        world.changes().pop().expect("sent").body,
        json!({ "discovery_id": "d1", "slot_indexes": [0] })
    );

    world.on("POST", &path, [(200, discovery("failed"))]);
    let ran = world.run(&["admin", "node", "discover", NODE, "--wait"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: the discovery failed: the host is away\n")
    );
}

#[test]
fn a_slot_is_named_by_index_and_its_repair_waited_for() {
    let world = World::new();
    let slots = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    world.get(
        &slots,
        json!({ "slots": [{ "id": SLOT, "slot_index": 1 }] }),
    );
    let repair = |state: &str| json!({ "id": "r", "slot_id": SLOT, "state": state, "slot_status": "available", "health_state": "healthy", "detail": "not empty" });
    world.on(
        "POST",
        &format!("{slots}/{SLOT}:repair"),
        [(200, repair("running"))],
    );
    world.on(
        "GET",
        &format!("{slots}/{SLOT}/repair"),
        [(200, repair("running")), (200, repair("done"))],
    );
    let ran = world
        .run(&[
            "admin",
            "slots",
            "repair",
            NODE,
            "1",
            "--reason",
            "guest never answered",
            "--wait",
        ])
        .ok();
    assert_eq!(ran.out, format!("Slot {SLOT} is available and healthy.\n"));
    world.on(
        "GET",
        &format!("{slots}/{SLOT}/repair"),
        [(200, repair("failed"))],
    );
    assert_eq!(
        world
            .run(&[
                "admin", "slots", "repair", NODE, "1", "--reason", "r", "--wait"
            ])
            .code,
        1
    );
    world.on(
        "POST",
        &format!("{slots}/{SLOT}:disable"),
        [(200, json!({ "id": SLOT, "status": "disabled" }))],
    );
    assert_eq!(
        world
            .run(&["admin", "slots", "disable", NODE, "1"])
            .ok()
            .out,
        format!("Slot {SLOT} is disabled and unschedulable.\n")
    );
}

#[test]
fn a_slot_shows_the_proof_of_its_own_generation_only() {
    let world = World::new();
    let slot = |proven: &str| {
        json!({ "id": SLOT, "slot_index": 0, "status": "active", "health_state": "healthy", "generation": "7",
            "clean_evidence": "wiped: blkdiscard", "clean_generation": proven })
    };
    let path = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    for (proven, is_shown) in [("6", false), ("7", true)] {
        world.get(&path, json!({ "slots": [slot(proven)] }));
        let ran = world.run(&["slots", NODE]).ok();
        assert_eq!(ran.out.contains("wiped:"), is_shown, "{}", ran.out);
    }
}
