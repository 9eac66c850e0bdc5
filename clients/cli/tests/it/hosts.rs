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
    for told in [
        "is released.",
        "2026-01-02",
        SLOT,
        "gpuaas admin slots repair",
    ] {
        assert!(ran.out.contains(told), "{told}: {}", ran.out);
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
