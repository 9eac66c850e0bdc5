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
fn a_limited_request_waits_as_long_as_it_is_told() {
    let world = World::new();
    let mut limited = error(429, "RATE_LIMITED", "too many requests", &[]);
    limited["retry_after"] = json!(1);
    let listed = json!({ "allocations": [] });
    world.on("GET", ALLOCATIONS, [(429, limited.clone()), (200, listed)]);
    let begun = std::time::Instant::now();
    world.run(&["list"]).ok();
    // its own first wait is a fifth of that
    assert!(begun.elapsed() >= std::time::Duration::from_secs(1));

    // longer than anybody waits at a prompt: it says so at once instead of trying in vain
    limited["retry_after"] = json!(3600);
    world.on("GET", ALLOCATIONS, [(429, limited)]);
    let before = world.seen().len();
    assert_eq!(world.run(&["list"]).code, 5);
    assert_eq!(world.seen().len(), before + 1);
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
        ("ps", "'list'"),
        ("lst", "'list'"),
        ("shell", "'terminal'"),
        ("ssh-key rm", "'delete'"),
        ("admin region create", "'set'"),
    ] {
        let ran = world.run(&given.split(' ').collect::<Vec<_>>());
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
fn second_names_of_commands_work_and_are_suggested_nowhere() {
    let world = World::new();
    world.get(
        ALLOCATIONS,
        json!({ "allocations": [allocation("active")] }),
    );
    let listed = world.run(&["list"]).ok().out;
    assert_eq!(world.run(&["ls"]).ok().out, listed);
    let ran = world.run(&["webhookz"]);
    assert!(ran.err.contains("'webhook'"), "{}", ran.err);
    assert!(!ran.err.contains("'webhooks'"), "{}", ran.err);
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
fn p11_no_host_key_is_learned_from_whoever_answers() {
    let world = World::new();
    world.fake_program("ssh");
    let mut unknown = allocation("active");
    unknown["status"]["access"]["ssh_host_keys"] = json!([]);
    world.get(&format!("{ALLOCATIONS}/{ID}"), unknown);
    let ran = world.run(&["ssh", ID, "-i", "key"]);
    assert_eq!((ran.code, ran.out.as_str()), (2, ""));
    assert!(ran.err.contains("host keys of allocation"), "{}", ran.err);
    world.get(
        &format!("{ALLOCATIONS}/{ID}/timeline"),
        json!({ "entries": [] }),
    );
    world.get("/api/v1/usage", json!({ "intervals": [], "totals": [] }));
    let shown = world.run(&["show", ID]).ok();
    assert!(!shown.out.contains("gpuaas ssh"), "{}", shown.out);
    assert!(
        shown.out.contains("no host keys are on record"),
        "{shown:?}"
    );
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

#[test]
fn a_raw_call_that_is_refused_names_fields_and_not_flags() {
    let world = World::new();
    let rule = "must be a DNS label";
    let refusal = error(
        400,
        "FIELD_INVALID",
        &format!("config.name: {rule}"),
        &[
            ("config.name", rule),
            ("config.gpu_count", "must be 1 to 8"),
        ],
    );
    world.on("POST", ALLOCATIONS, [(400, refusal)]);
    let ran = world.run(&["api", "POST", "/api/v1/allocations", "--data", "{}"]);
    assert!(
        ran.err.starts_with(
            "error: config.name: must be a DNS label\n  config.gpu_count: must be 1 to 8\n"
        ),
        "{}",
        ran.err
    );
}
