//! What broke or misled people who used the program.
use serde_json::json;

use crate::allocations::{ALLOCATIONS, key_pair};
use crate::support::{ID, World, allocation, error, write};

const NODE: &str = "01930000-0009-7000-8000-000000000009";

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
        "put",
        "eu",
        "--disabled",
        "--reason",
        "fire",
    ];
    assert_eq!(world.run(&close).ok().out, "Region eu is disabled.\n");
    assert_eq!(
        world.changes()[0].body,
        json!({ "display_name": "Europe", "enabled": false, "unavailable_reason": "fire" })
    );
    world.run(&["admin", "region", "put", "us"]).ok();
    assert_eq!(world.changes()[1].body["display_name"], "us");
}

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
        let ran = world.run(&["nodes"]).ok();
        assert!(ran.out.contains(shown), "{state}: {}", ran.out);
    }
}

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

#[test]
fn only_a_public_key_leaves_this_machine() {
    for (text, sent) in [
        ("root:x:0:0:root:/root:/bin/bash\n", false),
        ("", false),
        ("ssh-ed25519 AAAAC3Nz me\nroot:x:0:0\n", false),
        (
            "# two\nssh-ed25519 AAAAC3Nz me\n\nssh-rsa AAAAB3Nz+/= you\n",
            true,
        ),
    ] {
        let world = World::new();
        write(&world.path("file"), text);
        let file = world.path("file").display().to_string();
        world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
        let ran = world.run(&[
            "launch",
            "--region",
            "lab",
            "--sku",
            "s",
            "--image",
            "i",
            "--ssh-key",
            &file,
        ]);
        assert_eq!(
            (ran.code == 0, world.seen().is_empty()),
            (sent, !sent),
            "{text:?}: {ran:?}"
        );
        assert!(
            sent || ran.err.contains("is not an OpenSSH public key"),
            "{}",
            ran.err
        );
    }
}

#[test]
fn a_wrong_command_is_answered_with_what_is_meant_or_with_nothing() {
    let world = World::new();
    for (given, suggested) in [
        ("rm", "'release'"),
        ("ls", "'list'"),
        ("lst", "'list'"),
        ("shell", "'terminal'"),
    ] {
        let ran = world.run(&[given]);
        assert_eq!(ran.code, 2);
        assert!(ran.err.contains(suggested), "{given}: {}", ran.err);
        assert_eq!(
            ran.err.contains("'terminal'"),
            suggested == "'terminal'",
            "{given}: {}",
            ran.err
        );
    }
    let ran = world.run(&["frobnicate"]);
    assert!(!ran.err.contains("similar"), "{}", ran.err);
}

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
fn help_tells_global_flags_from_those_of_the_command() {
    let world = World::new();
    for command in [
        &["launch", "--help"][..],
        &["admin", "node", "create", "--help"],
    ] {
        let help = world.run(command).ok().out;
        let (own, global) = help.split_once("Global options:").expect("two parts");
        for flag in [
            "--api",
            "--token-file",
            "--profile-file",
            "--output",
            "--idempotency-key",
        ] {
            assert!(
                !own.contains(flag) && global.contains(flag),
                "{flag}: {help}"
            );
        }
        assert!(own.contains("Options:"), "{help}");
    }
}

#[test]
fn ssh_without_a_known_key_says_what_to_do() {
    let world = World::new();
    world.fake_program("ssh");
    world.get(&format!("{ALLOCATIONS}/{ID}"), allocation("active"));
    let ran = world.run(&["ssh", ID]).ok();
    assert!(
        ran.err
            .contains("gpuaas ssh first -i FILE, or without a key: gpuaas terminal first"),
        "{}",
        ran.err
    );
    // the profile of a development stack names the key of its first slice
    write(&world.path("key"), "");
    let profile = std::fs::read_to_string(world.path("profile.toml")).expect("profile");
    write(
        &world.path("profile.toml"),
        &format!("{profile}identity_file = \"key\"\n"),
    );
    let ran = world.run(&["ssh", ID]).ok();
    assert_eq!(ran.err, "");
    assert!(
        ran.out.contains(&world.path("key").display().to_string()),
        "{}",
        ran.out
    );
}

#[test]
fn an_error_names_flags_says_its_rule_once_and_knows_an_administrator() {
    let world = World::new();
    let rule = "must be a UUID";
    let path = format!("{ALLOCATIONS}/{ID}");
    world.on(
        "GET",
        &path,
        [(
            400,
            error(
                400,
                "FIELD_INVALID",
                &format!("allocation_id: {rule}"),
                &[("allocation_id", rule)],
            ),
        )],
    );
    let ran = world.run(&["ssh", ID]);
    assert_eq!(ran.err.matches(rule).count(), 1, "{}", ran.err);
    let key = key_pair(&world);
    let launch = [
        "launch",
        "--region",
        "lab",
        "--sku",
        "s",
        "--image",
        "i",
        "--ssh-key",
        &key,
    ];
    let required = [
        ("gpu_count", "is required and must be at least 1"),
        ("image_digest", "is required"),
    ];
    world.on(
        "POST",
        ALLOCATIONS,
        [(
            400,
            error(400, "FIELD_REQUIRED", "The request is invalid.", &required),
        )],
    );
    let ran = world.run(&launch);
    assert!(
        ran.err
            .contains("--gpus: is required and must be at least 1")
            && ran.err.contains("--image: is required"),
        "{}",
        ran.err
    );
    assert!(
        !ran.err.contains("gpu_count") && !ran.err.contains("image_digest"),
        "{}",
        ran.err
    );
    world.on(
        "POST",
        ALLOCATIONS,
        [(429, error(429, "QUOTA", "The quota is used up.", &[]))],
    );
    let ran = world.run(&launch);
    assert!(
        ran.err.contains("gpuaas admin quota") && !ran.err.contains("ask an administrator"),
        "{}",
        ran.err
    );
    let profile = std::fs::read_to_string(world.path("profile.toml")).expect("profile");
    let member = profile
        .lines()
        .filter(|line| !line.starts_with("admin_"))
        .collect::<Vec<_>>()
        .join("\n");
    write(&world.path("profile.toml"), &member);
    assert!(world.run(&launch).err.contains("ask an administrator"));
}

#[test]
fn a_narrow_terminal_shows_what_usage_costs() {
    let world = World::new();
    let money = |nanos: u32| json!({ "currency_code": "EUR", "units": "2", "nanos": nanos });
    world.get(
        "/api/v1/usage",
        json!({ "intervals": [{ "allocation_id": ID, "sku": "lab-slice", "gpu_count": 1, "start_time": "2026-01-02T03:04:05Z",
            "microseconds": "90000000", "price_per_gpu_hour": money(0), "amount": money(500_000_000) }] }),
    );
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active")] }),
    );
    let ran = world.command(&["usage"]).env("COLUMNS", "80").output();
    let told = String::from_utf8(ran.expect("runs").stdout).expect("text");
    assert!(
        told.contains("AMOUNT") && told.contains("2.50 EUR"),
        "{told}"
    );
    assert!(
        told.lines().all(|line| line.chars().count() <= 80),
        "{told}"
    );
}
