//! The operator's view of the queue.
use serde_json::{Value, json};

use super::{FIRST, NODE};
use crate::support::World;

#[test]
fn an_operator_sees_the_queue_and_sets_priorities() {
    let world = World::new();
    world.get(
        "/api/v1/admin/queue",
        json!({ "requests": [{ "slot_class": "lab", "position": 1, "project_id": NODE, "priority": "high",
            "allocation_ids": [FIRST], "gpus": 2, "reason": "SLOTS_IN_USE", "backfill_node_ids": [NODE] }] }),
    );
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" } }] }),
    );
    let ran = world
        .run(&["admin", "queue", "list", "--region", "lab"])
        .ok();
    assert!(
        ran.out.contains("high") && ran.out.contains("SLOTS_IN_USE  h1  "),
        "{}",
        ran.out
    );
    // all pages of a long queue
    let page = |position: u32, next: &str| {
        let request = json!({ "slot_class": "lab", "position": position, "priority": "low" });
        (
            200,
            json!({ "requests": [request], "total": 2, "next_page_token": next }),
        )
    };
    world.on("GET", "/api/v1/admin/queue", [page(1, "t"), page(2, "")]);
    let ran = world
        .run(&[
            "admin", "queue", "list", "--region", "lab", "--output", "json",
        ])
        .ok();
    let reported: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(reported["requests"].as_array().map(Vec::len), Some(2));
    // of every region, also of a closed one
    let regions = [("lab", true), ("old", false)]
        .map(|(code, enabled)| json!({ "code": code, "enabled": enabled }));
    world.get("/api/v1/regions", json!({ "regions": regions }));
    world.on("GET", "/api/v1/admin/queue", [page(1, ""), page(1, "")]);
    let ran = world
        .run(&["admin", "queue", "list", "--output", "json"])
        .ok();
    let reported: Value = serde_json::from_str(&ran.out).expect("JSON");
    let of = [0, 1].map(|at| reported["requests"][at]["region_code"].clone());
    assert_eq!(of, ["lab", "old"]);
    let path = format!("/api/v1/admin/projects/{NODE}/priority");
    world.on(
        "PUT",
        &path,
        [(200, json!({ "project_id": NODE, "priority": "low" }))],
    );
    world.get(&path, json!({ "project_id": NODE, "priority": "high" }));
    let ran = world.run(&["admin", "queue", "priority", NODE]).ok();
    assert!(ran.out.contains("has high priority"), "{}", ran.out);
    let ran = world
        .run(&["admin", "queue", "set-priority", NODE, "low"])
        .ok();
    assert!(ran.out.contains("has low priority"), "{}", ran.out);
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "priority": "low" }));
    assert_eq!(
        world
            .run(&["admin", "queue", "set-priority", NODE, "vip"])
            .code,
        2
    );
}
