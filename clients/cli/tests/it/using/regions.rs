//! The region of a launch that names none, or a closed one.
use serde_json::json;

use crate::allocations::{ALLOCATIONS, key_pair};
use crate::support::{World, allocation, error};

#[test]
fn an_added_region_changes_no_launch_that_names_none() {
    let world = World::new();
    let key = key_pair(&world);
    world.get("/api/v1/regions", json!({ "regions": [{ "code": "empty", "enabled": true }, { "code": "lab", "enabled": true }] }));
    world.get("/api/v1/availability", json!({ "availability": [
        { "region_code": "empty", "sku": "s", "gpu_count": 1, "fits": 0, "reasons": [{ "reason": "NO_CAPACITY" }] },
        { "region_code": "lab", "sku": "s", "gpu_count": 1, "fits": 2 },
    ] }));
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    let ran = world
        .run(&["launch", "--sku", "s", "--image", "i", "--ssh-key", &key])
        .ok();
    assert_eq!(world.changes()[0].body["region_code"], "lab");
    assert!(
        ran.err.starts_with("Region lab: the SKU fits there now."),
        "{}",
        ran.err
    );
}

fn regions_of(world: &World, all: &[(&str, bool, &str)]) {
    let regions = all.iter().map(|(code, enabled, reason)| {
        json!({ "code": code, "display_name": code, "enabled": enabled, "unavailable_reason": reason })
    });
    world.get(
        "/api/v1/regions",
        json!({ "regions": regions.collect::<Vec<_>>() }),
    );
}

#[test]
fn h_28_a_launch_in_a_closed_region_says_why_and_which_are_open() {
    let world = World::new();
    let key = key_pair(&world);
    regions_of(
        &world,
        &[
            ("lab", false, "Moves to a new hall until June."),
            ("us", true, ""),
        ],
    );
    let fields = [("region_code", "must be a region that is open")];
    let refusal = error(400, "REGION_DISABLED", "Region lab is closed.", &fields);
    world.on("POST", ALLOCATIONS, [(400, refusal.clone())]);
    world.on("POST", "/api/v1/capacity-reservations", [(400, refusal)]);
    let launch = crate::allocations::launch_arguments(&key, &[]);
    let of_capacity = "reservations create --name a --sku s --gpus 1 --region lab --end 3d";
    for command in [launch, of_capacity.split(' ').collect()] {
        let ran = world.run(&command);
        assert_eq!(ran.code, 4, "{}", ran.err);
        let reported = "error: Region lab is closed: Moves to a new hall until June.\n  advice:  Choose an open region with --region: us\n";
        assert!(ran.err.starts_with(reported), "{}", ran.err);
    }
}

#[test]
fn h_28_a_launch_without_a_region_says_which_are_closed_and_why() {
    let world = World::new();
    let key = key_pair(&world);
    let launch = ["launch", "--sku", "s", "--image", "i", "--ssh-key", &key];
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    regions_of(&world, &[("lab", false, "fire"), ("us", true, "")]);
    let ran = world.run(&launch).ok();
    let reported = "Region us: the only open one. Region lab is closed: fire.\n";
    assert!(ran.err.starts_with(reported), "{}", ran.err);
    regions_of(&world, &[("lab", false, "fire"), ("us", false, "")]);
    let ran = world.run(&launch);
    let reported =
        "error: no region is open. Region lab is closed: fire. us is closed; no reason was given\n";
    assert!(
        ran.code == 2 && ran.err.starts_with(reported),
        "{}",
        ran.err
    );
}
