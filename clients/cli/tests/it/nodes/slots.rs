//! Slots: discovered, approved, repaired and listed.
use serde_json::json;

use super::{NODE, SLOT, discovery};
use crate::support::World;

#[test]
fn d_75_only_a_wipe_policy_that_the_disk_can_do_is_sent() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/slice-topology/discovery");
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] }),
    );
    let mut found = discovery("completed");
    found["candidates"][0]["bindings"] =
        json!({ "nvme_device": "lab-disk:a", "destructive_wipe_policy": "blkdiscard" });
    found["inspected_devices"] = json!([
        { "device": "lab-disk:a", "wipe_policies": ["blkdiscard", "site_erase"] },
        { "device": "lab-disk:b", "wipe_policies": ["blkdiscard", "nvme_format"] },
    ]);
    world.on("POST", &path, [(200, found.clone())]);
    world.on("GET", &path, [(200, found)]);
    let shown = world.run(&["admin", "node", "discover", "h1"]).ok();
    assert!(
        shown.out.contains("approvable") && shown.out.contains("blkdiscard, or site_erase"),
        "{}",
        shown.out
    );
    let approve = format!("/api/v1/admin/nodes/{NODE}/resource-slots:approve");
    world.on("POST", &approve, [(200, json!({ "slots": [] }))]);
    let before = world.changes().len();
    let choose = [
        "admin",
        "slot",
        "approve",
        "h1",
        "--index",
        "0",
        "--wipe-policy",
    ];
    let ran = world.run(&[&choose[..], &["0=nvme_format"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("its host can: blkdiscard, site_erase"),
        "{}",
        ran.err
    );
    assert_eq!(world.changes().len(), before, "nothing is sent");
    // the other disk can
    let other = ["0=nvme_format", "--disk", "0=lab-disk:b"];
    world.run(&[&choose[..], &other].concat()).ok();
    assert_eq!(world.changes().len(), before + 1);
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
    let ran = world.run(&["admin", "slot", "approve", "h1", "--all"]).ok();
    assert!(ran.out.contains("available  healthy"), "{}", ran.out);
    assert_eq!(
        world.changes().pop().expect("sent").body,
        json!({ "discovery_id": "d1", "slot_indexes": [0] })
    );
    // a candidate whose disk is mounted gets another one
    let choose = ["admin", "slot", "approve", "h1", "--all", "--disk"];
    let policy = [
        "--wipe-policy",
        "1=nvme_format",
        "--wipe-policy",
        "0=blkdiscard",
    ];
    world
        .run(&[&choose[..], &["1=lab-disk:spare"], &policy].concat())
        .ok();
    assert_eq!(
        world.changes().pop().expect("sent").body,
        json!({ "discovery_id": "d1", "slot_indexes": [0, 1], "choices": [
            { "destructive_wipe_policy": "blkdiscard" },
            { "slot_index": 1, "nvme_device": "lab-disk:spare", "destructive_wipe_policy": "nvme_format" },
        ] })
    );
    for wrong in ["spare", "x=spare"] {
        let ran = world.run(&[&choose[..], &[wrong]].concat());
        assert_eq!(ran.code, 2, "{wrong}: {}", ran.err);
    }

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
            "slot",
            "repair",
            NODE,
            "1",
            "--reason",
            "guest never answered",
            "--wait",
        ])
        .ok();
    assert_eq!(
        ran.out,
        format!("Slot 1 of {NODE} is available and healthy.\n")
    );
    world.on(
        "GET",
        &format!("{slots}/{SLOT}/repair"),
        [(200, repair("failed"))],
    );
    assert_eq!(
        world
            .run(&[
                "admin", "slot", "repair", NODE, "1", "--reason", "r", "--wait"
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
        world.run(&["admin", "slot", "disable", NODE, "1"]).ok().out,
        format!("Slot 1 of {NODE} is disabled and unschedulable.\n")
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
        let ran = world.run(&["admin", "slot", "list", NODE]).ok();
        assert_eq!(ran.out.contains("wiped:"), is_shown, "{}", ran.out);
    }
}

#[test]
fn a_slot_under_its_first_wipe_says_why_it_is_not_schedulable_and_how_far_it_is() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    let wiped = "The disk is being wiped and verified before its first use.";
    world.get(&path, json!({ "slots": [{ "id": SLOT, "node_id": NODE, "slot_index": 3, "status": "cleanup", "health_state": "unknown", "health_detail": wiped }] }));
    world.get(
        &format!("{path}/{SLOT}/repair"),
        json!({ "state": "running", "detail": "Wiping the disk. (40 %)" }),
    );
    let ran = world.run(&["admin", "slot", "list", NODE]).ok();
    assert!(
        ran.out.contains("first wipe") && !ran.out.contains("unknown"),
        "{}",
        ran.out
    );
    let note = format!("Slot 3 is not schedulable yet. {wiped} Wiping the disk. (40 %)");
    assert!(ran.out.contains(&note), "{}", ran.out);
}

#[test]
fn slots_and_queue_name_allocations_and_their_projects() {
    const ALLOCATION: &str = "01930000-0001-7000-8000-000000000001";
    const UNKNOWN: &str = "01930000-0002-7000-8000-000000000002";
    let world = World::new();
    world.get(
        "/api/v1/admin/projects",
        json!({ "projects": [{ "id": "p", "slug": "ml" }] }),
    );
    world.get(
        &format!("/api/v1/admin/allocations/{ALLOCATION}"),
        json!({ "allocation": { "id": ALLOCATION, "config": { "name": "train", "project_id": "p" } } }),
    );
    let slot = |index: u32, allocation: &str| json!({ "id": SLOT, "slot_index": index, "status": "active", "allocation_id": allocation });
    world.get(
        &format!("/api/v1/admin/nodes/{NODE}/resource-slots"),
        json!({ "slots": [slot(0, ALLOCATION), slot(1, UNKNOWN)] }),
    );
    let ran = world.run(&["admin", "slot", "list", NODE]).ok();
    // the ids stand at the end, for the commands that take them, and give way first
    let last = |id: &str| ran.out.lines().any(|line| line.ends_with(id));
    assert!(
        ran.out.contains("train of ml") && last(ALLOCATION) && last(UNKNOWN),
        "{}",
        ran.out
    );
    let narrow = world
        .command(&["admin", "slot", "list", NODE])
        .env("COLUMNS", "80")
        .output();
    let narrow = String::from_utf8(narrow.expect("runs").stdout).expect("text");
    assert!(
        narrow.contains("train of ml") && narrow.lines().all(|line| line.len() <= 80),
        "{narrow}"
    );

    world.get("/api/v1/admin/queue", json!({ "requests": [{ "position": 1, "project_id": "p", "allocation_ids": [ALLOCATION, UNKNOWN] }] }));
    let ran = world
        .run(&["admin", "queue", "list", "--region", "lab"])
        .ok();
    let both = format!("{ALLOCATION} {UNKNOWN}");
    assert!(
        ran.out.contains("train and 1 more") && ran.out.trim_end().ends_with(&both),
        "{}",
        ran.out
    );
}
