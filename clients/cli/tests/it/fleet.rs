//! `admin fleet`, against a scripted API.
use serde_json::json;

use crate::support::World;

const NODES: &str = "/api/v1/admin/fleet/nodes";

#[test]
fn nodes_of_the_fleet_are_listed_with_their_use_and_narrowed_by_the_api() {
    let world = World::new();
    world.get(
        NODES,
        json!({ "nodes": [
            { "id": "n1", "hostname": "gpu-1", "region_code": "eu", "rack": "r1", "hardware_type": "h200_sxm",
              "admin_state": "cordoned", "health": "degraded", "reason": "cordoned: fan",
              "gpus": { "delivered": "8", "healthy": "7", "reserved": "5", "active": "4" },
              "occupants": [
                { "project_id": "p1", "project": "vision", "organisation": "acme", "gpus": 3 },
                { "project_id": "p2", "gpus": 1 },
              ] },
        ] }),
    );
    let shown = world.run(&["admin", "fleet", "node", "list"]).ok().out;
    for part in [
        "gpu-1",
        "degraded",
        "acme/vision: 3, p2: 1",
        "cordoned: fan",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    world.get(NODES, json!({ "nodes": [] }));
    let narrowed = [
        "admin",
        "fleet",
        "node",
        "list",
        "--free",
        "--region",
        "eu",
        "--filter",
        "rack = r1",
    ];
    let said = world.run(&narrowed).ok().out;
    assert!(said.contains("No node matches"), "{said}");
    let asked = world.seen().pop().expect("asked").target;
    for part in ["region_code=eu", "in_use=false", "filter=rack+%3D+r1"] {
        assert!(asked.contains(part), "{asked}");
    }
    world
        .run(&["admin", "fleet", "node", "list", "--in-use"])
        .ok();
    let asked = world.seen().pop().expect("asked").target;
    assert!(asked.contains("in_use=true"), "{asked}");
    let said = world.run(&["admin", "fleet", "node", "list"]).ok().out;
    assert!(said.contains("gpuaas admin node create"), "{said}");
    assert!(!world.seen().pop().expect("asked").target.contains("in_use"));
    let both = ["admin", "fleet", "node", "list", "--in-use", "--free"];
    assert_eq!(world.run(&both).code, 2);
}

#[test]
fn the_fleet_is_counted_by_pool_with_the_sum_last() {
    let world = World::new();
    let counts = |delivered: u64, active: u64| json!({ "delivered": delivered.to_string(), "healthy": delivered.to_string(), "reserved": active.to_string(), "active": active.to_string() });
    world.get(
        "/api/v1/admin/fleet:counts",
        json!({ "nodes": counts(3, 1), "gpus": counts(16, 9), "pools": [
            { "region_code": "eu", "hardware_type": "h200_sxm", "nodes": counts(2, 1), "gpus": counts(16, 9) },
            { "region_code": "eu", "nodes": counts(1, 0), "gpus": counts(0, 0) },
        ] }),
    );
    let shown = world
        .run(&["admin", "fleet", "count", "--region", "eu"])
        .ok();
    let words: Vec<Vec<&str>> = shown
        .out
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(words[0][2..], ["2", "2", "16", "16", "9", "9"], "{shown:?}");
    assert!(shown.out.contains("no slots yet"), "{shown:?}");
    let last = words.last().expect("a sum");
    assert_eq!(last[..3], ["all", "-", "3"], "{shown:?}");
    let asked = world.seen().pop().expect("asked").target;
    assert!(asked.ends_with("region_code=eu"), "{asked}");
}
