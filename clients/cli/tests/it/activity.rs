//! `activity` against a scripted API.
use serde_json::json;

use crate::support::World;

const PATH: &str = "/api/v1/projects/p1/activities";

#[test]
fn the_newest_are_listed_with_who_what_and_when() {
    let world = World::new();
    let first = json!({ "activities": [
        { "create_time": "2026-01-31T12:00:00Z", "actor": "user:alice", "summary": "Stopped the allocation",
          "allocation_id": "a1", "resource": "allocation", "resource_id": "a1", "outcome": "allowed" },
        { "create_time": "2026-01-31T11:00:00Z", "actor": "operator", "summary": "Stopped the allocation",
          "allocation_id": "a2", "outcome": "allowed", "reason": "maintenance" }], "next_page_token": "t" });
    let second = json!({ "activities": [
        { "create_time": "2026-01-31T10:00:00Z", "actor": "", "summary": "Released the allocation at its time",
          "name": "train", "outcome": "allowed" },
        { "create_time": "2026-01-31T09:00:00Z", "actor": "user:vera", "summary": "Denied: stop the allocation",
          "outcome": "denied" }], "incomplete": true });
    world.on("GET", &format!("{PATH}?page_size=50"), [(200, first)]);
    world.on(
        "GET",
        &format!("{PATH}?page_size=48&page_token=t"),
        [(200, second)],
    );
    let ran = world.run(&["activity", "--project", "p1"]).ok();
    for part in [
        "user:alice",
        "operator",
        "maintenance",
        "the platform",
        "train",
        "Denied: stop",
        "a1",
    ] {
        assert!(ran.out.contains(part), "{part}: {}", ran.out);
    }
    assert!(
        ran.err.contains("a part of the platform did not answer"),
        "{}",
        ran.err
    );
}

#[test]
fn filters_are_sent_and_nothing_found_is_said() {
    let world = World::new();
    let query = "kind=api_key&actor=user%3Aalice&outcome=denied&start_time=2026-01-31T12%3A00%3A00Z&page_size=500&filter=action%3Astop&order_by=create_time";
    world.get(&format!("{PATH}?{query}"), json!({ "activities": [] }));
    let ran = world
        .run(&[
            "activity",
            "--project",
            "p1",
            "--kind",
            "api_key",
            "--actor",
            "user:alice",
            "--outcome",
            "denied",
            "--since",
            "2026-01-31T12:00:00Z",
            "--filter",
            "action:stop",
            "--sort",
            "create_time",
        ])
        .ok();
    assert_eq!(ran.out.trim(), "No activity matches.");
}
