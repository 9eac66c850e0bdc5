//! What operators read of nodes, capacity and the queue.
use serde_json::json;

use crate::support::{ID, World};

const NODE: &str = "01930000-0009-7000-8000-000000000009";

#[test]
fn a_ready_node_that_operators_keep_empty_is_not_schedulable() {
    let world = World::new();
    world.get("/api/v1/admin/nodes", json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": { "schedulable": true } }] }));
    for (state, shown) in [
        ("draining", "no: draining"),
        ("cordoned", "no: cordoned"),
        ("enabled", "  yes  "),
    ] {
        world.get(
            "/api/v1/admin/node-placements",
            json!({ "nodes": [{ "node_id": NODE, "admin_state": state }] }),
        );
        let ran = world.run(&["admin", "node", "list"]).ok();
        assert!(ran.out.contains(shown), "{state}: {}", ran.out);

        let node = format!("/api/v1/admin/nodes/{NODE}");
        world.get(&node, json!({ "id": NODE, "config": { "hostname": "h1" }, "status": { "schedulable": true } }));
        world.get(
            &format!("{node}/placement"),
            json!({ "node_id": NODE, "admin_state": state }),
        );
        world.get(&format!("{node}/resource-slots"), json!({}));
        world.get(&format!("{node}/slice-topology/discovery"), json!({}));
        world.get(&format!("{node}/history"), json!({}));
        let ran = world.run(&["admin", "node", "show", NODE]).ok();
        let line = format!("{:<12} {}", "Schedulable", shown.trim());
        assert!(ran.out.lines().any(|one| one == line), "{}", ran.out);
    }
}

#[test]
fn mean_use_is_that_of_means_and_not_of_peaks() {
    let world = World::new();
    world.get("/api/v1/admin/capacity:history", json!({ "buckets": [
        { "start_time": "2026-01-31T12:00:00Z", "region_code": "eu", "sku": "s", "nodes": 2, "gpus": 16, "gpus_in_use": 16, "gpus_free": 0,
          "mean_gpus": 16.0, "mean_gpus_in_use": 4.0 },
    ] }));
    let out = world.run(&["admin", "capacity"]).ok().out;
    assert!(out.contains("MEAN UTILIZATION"), "{out}");
    assert!(out.contains(" 25 %"), "{out}");
}

#[test]
fn operators_see_and_use_names_of_projects() {
    let world = World::new();
    let path = format!("/api/v1/admin/projects/{NODE}/priority");
    world.get(
        "/api/v1/admin/projects",
        json!({ "projects": [{ "id": NODE, "slug": "ml" }] }),
    );
    world.get(
        "/api/v1/admin/queue",
        json!({ "requests": [{ "position": 1, "project_id": NODE, "allocation_ids": [ID] }] }),
    );
    world.on("PUT", &path, [(200, json!({}))]);
    let ran = world
        .run(&["admin", "queue", "list", "--region", "lab"])
        .ok();
    assert!(
        ran.out.contains(" ml ") && !ran.out.contains(NODE),
        "{}",
        ran.out
    );
    world
        .run(&["admin", "queue", "set-priority", "ml", "high"])
        .ok();
    assert_eq!(world.changes()[0].target, path);
}
