//! Regions and SKUs as operators set them.
use serde_json::json;

use crate::support::World;

#[test]
fn a_region_is_closed_by_its_code_alone_and_keeps_its_name() {
    let world = World::new();
    world.get(
        "/api/v1/regions",
        json!({ "regions": [{ "code": "eu", "display_name": "Europe", "enabled": true }] }),
    );
    world.on("PUT", "/api/v1/admin/regions/eu", [(200, json!({}))]);
    world.on("PUT", "/api/v1/admin/regions/us", [(200, json!({}))]);
    let close = [
        "admin",
        "region",
        "set",
        "eu",
        "--disabled",
        "--reason",
        "fire",
    ];
    assert_eq!(world.run(&close).ok().out, "Region eu is disabled.\n");
    assert_eq!(
        world.changes()[0].body,
        json!({ "display_name": "Europe", "unavailable_reason": "fire" })
    );
    world.run(&["admin", "region", "set", "us"]).ok();
    assert_eq!(world.changes()[1].body["display_name"], "us");
    assert_eq!(world.changes()[1].body["enabled"], true, "a new region");
    // a closed region that is renamed stays closed, until somebody opens it
    let closed = json!({ "code": "eu", "display_name": "Europe", "enabled": false, "unavailable_reason": "fire" });
    world.get("/api/v1/regions", json!({ "regions": [closed] }));
    let renamed = ["admin", "region", "set", "eu", "--name", "Europe 1"];
    assert_eq!(world.run(&renamed).ok().out, "Region eu is disabled.\n");
    world
        .run(&["admin", "region", "set", "eu", "--enabled"])
        .ok();
    let sent: Vec<_> = world.changes().into_iter().map(|s| s.body).collect();
    assert_eq!(
        sent[2..],
        [
            json!({ "display_name": "Europe 1", "unavailable_reason": "fire" }),
            json!({ "display_name": "Europe", "enabled": true })
        ]
    );
}

#[test]
fn a_sku_that_is_put_again_without_a_name_keeps_its_name() {
    let world = World::new();
    world.get(
        "/api/v1/skus",
        json!({ "skus": [{ "code": "s", "display_name": "Slice" }] }),
    );
    for (code, name) in [("s", "Slice"), ("t", "t")] {
        world.on(
            "PUT",
            &format!("/api/v1/admin/skus/{code}"),
            [(200, json!({}))],
        );
        let put = ["admin", "sku", "set", code, "--slot-class", "lab"];
        let flags = ["--gpu-counts", "1", "--profile", "p", "--vcpus", "1"];
        let command = [&put[..], &flags, &["--memory", "512"]].concat();
        world.run(&command).ok();
        let changes = world.changes();
        assert_eq!(changes.last().expect("sent").body["display_name"], name);
    }
}

#[test]
fn a_sku_keeps_its_bandwidth_until_it_is_said_otherwise() {
    let world = World::new();
    let profile = json!({ "network_mbps": 2500, "network_burst_kb": 320 });
    world.get(
        "/api/v1/skus",
        json!({ "skus": [{ "code": "s", "display_name": "Slice", "profile": profile }] }),
    );
    world.on("PUT", "/api/v1/admin/skus/s", [(200, json!({}))]);
    let put = ["admin", "sku", "set", "s", "--slot-class", "lab"];
    let size = ["--gpu-counts", "1", "--profile", "p", "--vcpus", "1"];
    for (flags, mbps, burst) in [
        (&[][..], json!(2500), json!(320)),
        (&["--network-mbps", "100"][..], json!(100), json!(320)),
        (&["--network-burst-kb", "0"][..], json!(2500), json!(null)),
        (&["--network-mbps", "0"][..], json!(null), json!(null)),
    ] {
        world
            .run(&[&put[..], &size, &["--memory", "512"], flags].concat())
            .ok();
        let changes = world.changes();
        let sent = &changes.last().expect("sent").body["profile"];
        let limits = [&sent["network_mbps"], &sent["network_burst_kb"]];
        assert_eq!(limits, [&mbps, &burst], "{flags:?}");
    }
}

#[test]
fn a_sku_stays_disabled_until_it_is_said_otherwise() {
    let world = World::new();
    world.on("PUT", "/api/v1/admin/skus/s", [(200, json!({}))]);
    let put = [
        "admin",
        "sku",
        "set",
        "s",
        "--slot-class",
        "lab",
        "--gpu-counts",
        "1",
        "--profile",
        "p",
        "--vcpus",
        "1",
        "--memory",
        "512",
    ];
    for (was, flag, becomes, said) in [
        (false, "--disabled", true, "not offered any more"),
        (true, "", true, "not offered any more"),
        (true, "--enabled", false, "once it has a price"),
        (false, "", false, "once it has a price"),
    ] {
        world.get(
            "/api/v1/skus",
            json!({ "skus": [{ "code": "s", "display_name": "Slice", "disabled": was }] }),
        );
        let flags: Vec<&str> = Some(flag)
            .filter(|flag| !flag.is_empty())
            .into_iter()
            .collect();
        let ran = world.run(&[&put[..], &flags].concat()).ok();
        let out = format!("{}{}", ran.out, ran.err);
        assert!(out.contains(said), "{out}");
        assert_eq!(
            world.changes().last().expect("sent").body["disabled"],
            becomes
        );
        let listed = world.run(&["sku", "list"]).ok().out;
        assert_eq!(listed.contains("not offered"), was, "{listed}");
    }
    let both = [&put[..], &["--enabled", "--disabled"]].concat();
    assert_ne!(world.run(&both).code, 0);
}
