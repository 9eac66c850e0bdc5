//! Nodes that are cordoned, drained and compared with their hosts.
use serde_json::{Value, json};

use super::{FIRST, NODE, post};
use crate::support::World;

fn placement(state: &str, claims: u32) -> Value {
    json!({ "node_id": NODE, "hostname": "h1", "region_code": "lab", "mode": "slice", "admin_state": state,
            "admin_reason": "rack move", "schedulable": true, "live_claims": claims, "live_allocations": claims,
            "drained": state == "draining" && claims == 0 })
}

#[test]
fn nodes_are_cordoned_drained_and_shown() {
    let world = World::new();
    let node = json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] });
    world.get("/api/v1/admin/nodes", node);
    world.get(
        "/api/v1/admin/node-placements",
        json!({ "nodes": [placement("draining", 2)] }),
    );
    let ran = world.run(&["admin", "node", "list"]).ok();
    assert!(
        ran.out.contains("draining, 2 claim(s) left: rack move"),
        "{}",
        ran.out
    );
    let reported: Value = serde_json::from_str(
        &world
            .run(&["admin", "node", "list", "--output", "json"])
            .ok()
            .out,
    )
    .expect("JSON");
    assert_eq!(reported["nodes"][0]["placement"]["live_claims"], 2);

    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:cordon"),
        placement("cordoned", 1),
    );
    let ran = world
        .run(&["admin", "node", "cordon", "h1", "--reason", "rack move"])
        .ok();
    assert!(
        ran.out
            .starts_with("Node h1 is cordoned (rack move): it takes no new allocations;"),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "reason": "rack move" }));
    assert!(sent.key.is_some());

    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:drain"),
        placement("draining", 2),
    );
    world.on(
        "GET",
        &format!("/api/v1/admin/nodes/{NODE}/placement"),
        [2, 1, 1, 0].map(|claims| (200, placement("draining", claims))),
    );
    let slots = |holders: &[&str]| {
        let slots = holders.iter().map(|id| json!({ "allocation_id": id }));
        json!({ "slots": slots.collect::<Vec<_>>() })
    };
    world.on(
        "GET",
        &format!("/api/v1/admin/nodes/{NODE}/resource-slots"),
        [
            (200, slots(&[FIRST, NODE, NODE, ""])),
            (200, slots(&["", NODE, NODE, ""])),
        ],
    );
    for (id, name) in [(FIRST, "a"), (NODE, "onres")] {
        world.get(
            &format!("/api/v1/admin/allocations/{id}"),
            json!({ "allocation": { "id": id, "config": { "name": name } } }),
        );
    }
    let ran = world
        .run(&[
            "admin",
            "node",
            "drain",
            "h1",
            "--reason",
            "rack move",
            "--wait",
        ])
        .ok();
    assert!(
        ran.out
            .contains("is drained (rack move): it has no allocations."),
        "{}",
        ran.out
    );
    assert_eq!(
        ran.err,
        "2 allocations left: a, onres\n1 allocation left: onres\n"
    );
    let ran = world.run(&["admin", "node", "placement", "h1"]).ok();
    assert!(ran.out.contains("is drained"));
    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:uncordon"),
        placement("enabled", 1),
    );
    let ran = world.run(&["admin", "node", "uncordon", "h1"]).ok();
    assert!(
        ran.out
            .contains("takes allocations; it has 1 claim(s) of 1 allocation(s)."),
        "{}",
        ran.out
    );
    assert_eq!(
        world.run(&["admin", "node", "drain", "h1"]).code,
        2,
        "a reason is needed"
    );
}

#[test]
fn a_drain_that_does_not_end_in_time_says_what_is_left() {
    let world = World::new();
    post(
        &world,
        &format!("/api/v1/admin/nodes/{NODE}:drain"),
        placement("draining", 3),
    );
    // bare metal has no slots that name their allocations
    let slots = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    world.get(&slots, json!({}));
    let ran = world.run(&[
        "admin",
        "node",
        "drain",
        NODE,
        "--reason",
        "r",
        "--wait",
        "--timeout",
        "0",
    ]);
    assert_eq!(ran.code, 1);
    assert!(
        ran.err.starts_with("3 allocations left\n")
            && ran.err.contains("is not empty after 0 s: 3 claim(s)"),
        "{}",
        ran.err
    );
}

#[test]
fn d_82_a_node_is_shown_and_corrected_as_ledger_host_and_hypervisor_have_it() {
    let world = World::new();
    let node = json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] });
    world.get("/api/v1/admin/nodes", node);
    let path = format!("/api/v1/admin/nodes/{NODE}/comparison");
    let rows = json!([
        { "allocation_id": FIRST, "ledger_state": "active", "has_claims": true, "journal_slot_ids": ["a", "b"],
          "has_reservation": true, "domain_state": "running", "guest_state": "no_login", "verdict": "agrees", "correction": "unspecified", "detail": "" },
        { "allocation_id": NODE, "domain_state": "shut off", "verdict": "report", "correction": "report", "etag": "1f",
          "has_seed": true, "has_nvram": true, "missing_files": ["nvram"], "detail": "repair its slots" },
    ]);
    let differences = json!([
        { "subject": "binding", "kind": "driver_rebound", "slot_id": FIRST, "slot_index": 3, "message": "It is bound to nvidia.",
          "since": "2026-11-29T10:00:00Z", "remediation": "Find out why.", "verdict": "report", "correction": "repair_slot", "detail": "a repair binds it" },
        { "subject": "partition", "kind": "partition_unowned", "observed": "6", "message": "Partition 6 is active.",
          "remediation": "Look.", "verdict": "report", "correction": "deactivate_partition", "detail": "it is deactivated" },
    ]);
    let whole = json!({ "node_id": NODE, "rows": rows, "differences": differences });
    world.on(
        "GET",
        &path,
        [200, 200, 200, 200, 200].map(|code| (code, whole.clone())),
    );
    let ran = world.run(&["admin", "node", "compare", "h1"]).ok();
    let lines: Vec<String> = ran
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(
        lines[0],
        "ALLOCATION LEDGER HOST HYPERVISOR VERDICT CORRECTION DETAIL"
    );
    assert_eq!(
        lines[1],
        format!(
            "{FIRST} active 2 slot(s), address running; guest is not reached, or refuses the login agrees - -"
        )
    );
    let leaked =
        format!("{NODE} none seed, NVRAM shut off, without nvram report report repair its slots");
    assert_eq!(lines[2], leaked);
    assert_eq!(lines[4], "SLOT OF SINCE VERDICT CORRECTION DETAIL");
    assert!(lines[5].starts_with("3 binding 2026-11-29"), "{lines:?}");
    assert!(
        lines[5].ends_with(
            "report repair_slot It is bound to nvidia. Find out why. (a repair binds it)"
        ),
        "{lines:?}"
    );
    assert_eq!(
        lines[6],
        "- partition just now report deactivate_partition Partition 6 is active. Look. (it is deactivated)"
    );
    assert!(lines[7].contains("slot repair h1 3"), "{lines:?}");
    assert!(
        lines[8].contains("node deactivate-partition h1 6"),
        "{lines:?}"
    );
    let ran = world.run(&["admin", "node", "compare", "h1", "--output", "json"]);
    let reported: Value = serde_json::from_str(&ran.ok().out).expect("JSON");
    assert_eq!(reported["rows"][1]["verdict"], "report");

    // d_82: the correction of a row is that of the row which was read
    let correct = format!("{path}/{NODE}:correct");
    world.on("POST", &correct, [(200, json!({ "verdict": "agrees" }))]);
    let flags = ["admin", "node", "correct", "h1", NODE, "--reason", "seen"];
    let ran = world.run(&flags).ok();
    assert!(
        ran.out.contains("Correction \"report\" of allocation"),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body,
        json!({ "correction": "report", "etag": "1f", "reason": "seen" })
    );
    let agrees = ["admin", "node", "correct", "h1", FIRST, "--reason", "seen"];
    let ran = world.run(&agrees);
    assert!(
        ran.code == 1 && ran.err.contains("nothing to correct"),
        "{ran:?}"
    );
    assert_eq!(world.changes().len(), 1);
    let partition = format!("/api/v1/admin/nodes/{NODE}/partitions/6:deactivate");
    world.on("POST", &partition, [(200, json!({}))]);
    let ran = world.run(&[
        "admin",
        "node",
        "deactivate-partition",
        "h1",
        "6",
        "--reason",
        "by hand",
    ]);
    assert_eq!(ran.ok().out, "Partition 6 is deactivated.\n");
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "reason": "by hand" }));
}
