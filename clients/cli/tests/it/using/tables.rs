//! The width of tables.
use serde_json::json;

use crate::allocations::ALLOCATIONS;
use crate::support::{ID, World, allocation, error};

#[test]
fn tables_fit_into_a_terminal() {
    let world = World::new();
    let other = json!({ "id": "01930000-0002-7000-8000-000000000001", "config": { "name": "a-rather-long-name-of-an-allocation", "sku": "h200-sxm-slice", "gpu_count": 8, "image": "ubuntu-24.04-h200-base", "region_code": "eu-central-1" }, "status": { "state": "active", "power": "running" }, "metadata": { "create_time": "2026-01-31T12:00:00Z" } });
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active"), other] }),
    );
    let mut narrow = world.command(&["list"]);
    let ran = narrow.env("COLUMNS", "100").output().expect("runs");
    let text = String::from_utf8(ran.stdout).expect("text");
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{text}");
    }
    // what stands for an id is enough to name it
    assert!(text.contains("01930000-0001 "), "{text}");
    let said = String::from_utf8(ran.stderr).expect("text");
    assert!(said.starts_with("Not shown, for lack of width: "), "{said}");
    let wide = world.run(&["list"]).ok().out;
    assert!(wide.contains(ID), "a pipe gets everything: {wide}");
}

#[test]
fn a_watch_fits_into_eighty_columns() {
    let world = World::new();
    let mut change = allocation("active");
    change["config"]["name"] = json!("a-rather-long-name-of-an-allocation");
    let reported = json!([{ "change": { "kind": "modified", "allocation": change } }]);
    let over = error(404, "ALLOCATION_NOT_FOUND", "gone", &[]);
    world.on(
        "GET",
        &format!("{ALLOCATIONS}:watch"),
        [(200, reported), (404, over)],
    );
    let mut narrow = world.command(&["watch"]);
    let ran = narrow.env("COLUMNS", "80").output().expect("runs");
    let text = String::from_utf8(ran.stdout).expect("text");
    assert_eq!(text.lines().count(), 2, "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "{text}");
    }
}
