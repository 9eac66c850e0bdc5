//! Where the API is found, what happens when it is not, the catalog, and the administrator's commands.
use std::os::unix::fs::PermissionsExt as _;

use crate::support::{RecordedRequest, World, error, write};
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const SLOT: &str = "01930000-0008-7000-8000-000000000008";

#[test]
fn wrong_usage_exits_with_2_and_says_why() {
    let world = World::new();
    for arguments in [
        &["launch"][..],
        &["nonsense"],
        &["list", "--output", "xml"],
        &[
            "launch",
            "--sku",
            "s",
            "--image",
            "i",
            "--ssh-key",
            "/nowhere",
            "--region",
            "r",
        ],
        &[
            "launch",
            "--sku",
            "s",
            "--image",
            "i",
            "--ssh-key",
            "k",
            "--wait",
            "--dry-run",
        ],
        &[
            "admin", "price", "create", "--sku", "s", "--amount", "cheap",
        ],
        &["list", "--api", "ftp://x"],
        &["list", "--api", "http://example.com"],
        &["list", "--token-file", "/nowhere"],
        &["list", "--profile-file", "/nowhere"],
    ] {
        let ran = world.run(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {ran:?}");
        assert!(!ran.err.is_empty(), "{arguments:?}");
    }
    assert!(world.changes().is_empty());
}

#[test]
fn without_any_api_it_says_how_to_name_one() {
    let world = World::new();
    let output = world
        .command(&["list"])
        .env_remove("GPUAAS_PROFILE_FILE")
        .output()
        .expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let err = String::from_utf8(output.stderr).expect("text");
    assert!(
        err.contains("--api URL, GPUAAS_API, or a profile file"),
        "{err}"
    );
}

#[test]
fn an_api_that_is_not_there_exits_with_5() {
    let world = World::new();
    // nothing listens there, and no program of another test is ever given it
    let nobody = "http://127.0.0.1:1";
    let ran = world.run(&["sku", "list", "--api", nobody]);
    assert_eq!(ran.code, 5);
    assert!(
        ran.err.contains("cannot be reached: Connection refused"),
        "{}",
        ran.err
    );
    let ran = world.run(&["sku", "list", "--api", nobody, "--output", "json"]);
    let shown: Value = serde_json::from_str(&ran.err).expect("JSON");
    assert_eq!(shown["error"]["exit_code"], 5);
}

#[test]
fn flags_win_over_environment_and_profile() {
    let world = World::new();
    world.get("/api/v1/skus", json!({ "skus": [] }));
    write(&world.path("other"), "other-token");
    let other = world.path("other").display().to_string();
    world.run(&["sku", "list"]).ok();
    world.run(&["sku", "list", "--token-file", &other]).ok();
    let output = world
        .command(&["sku", "list"])
        .env_remove("GPUAAS_PROFILE_FILE")
        .env("GPUAAS_API", world.url())
        .env("GPUAAS_TOKEN_FILE", &other)
        .output();
    assert!(output.expect("runs").status.success());
    let tokens: Vec<_> = world
        .seen()
        .into_iter()
        .map(|s| s.authorization.expect("token"))
        .collect();
    assert_eq!(
        tokens,
        [
            "Bearer user-token",
            "Bearer other-token",
            "Bearer other-token"
        ]
    );
}

#[test]
fn tokens_never_show_up_in_what_is_said() {
    let world = World::new();
    world.on(
        "GET",
        "/api/v1/skus",
        [(
            401,
            error(
                401,
                "CREDENTIAL_EXPIRED",
                "The token has expired. Get a new one.",
                &[],
            ),
        )],
    );
    let ran = world.run(&["sku", "list"]);
    assert_eq!(ran.code, 4);
    assert!(ran.err.contains("advice:  Get a new token"), "{}", ran.err);
    assert!(!ran.err.contains("user-token") && !ran.out.contains("user-token"));
}

#[test]
fn the_catalog_reads_well_and_empty_states_say_what_to_do() {
    let world = World::new();
    world.get("/api/v1/skus", json!({ "skus": [{ "code": "lab-slice", "display_name": "Lab slice", "capacity_shape": "gpu_slice", "allowed_gpu_counts": [1, 2], "lab": true, "price_per_gpu_hour": { "currency_code": "EUR", "units": "1", "nanos": 0 } }] }));
    assert_eq!(
        world.run(&["sku", "list"]).ok().out,
        "SKU        NAME       SHAPE            GPU COUNTS  PER GPU-HOUR\n\
         lab-slice  Lab slice  gpu_slice (lab)  1, 2        1.00 EUR\n"
    );
    world.get("/api/v1/skus", json!({ "skus": [{ "code": "old", "display_name": "Old", "capacity_shape": "gpu_slice", "allowed_gpu_counts": [1], "disabled": true, "reserved_gpus": 16 }] }));
    assert_eq!(
        world.run(&["sku", "list"]).ok().out,
        "SKU  NAME  SHAPE      GPU COUNTS  PER GPU-HOUR\n\
         old  Old   gpu_slice  1           not offered, 16 GPU(s) reserved\n"
    );
    world.get("/api/v1/regions", json!({ "regions": [{ "code": "eu", "display_name": "Europe", "enabled": false, "unavailable_reason": "opens in May" }] }));
    assert!(
        world
            .run(&["region", "list"])
            .ok()
            .out
            .contains("disabled: opens in May")
    );
    world.get("/api/v1/availability", json!({ "availability": [{ "region_code": "lab", "sku": "lab-slice", "gpu_count": 2, "fits": 0, "reasons": [{ "reason": "FRAGMENTED", "gpus": 1, "nodes": 1, "message": "No node has two free slots." }] }] }));
    assert!(
        world
            .run(&["availability"])
            .ok()
            .out
            .contains("0     No node has two free slots. (FRAGMENTED)")
    );
    world.get("/api/v1/images", json!({ "images": [] }));
    assert_eq!(
        world.run(&["image", "list"]).ok().out,
        "No active images. An administrator adds one: gpuaas admin image create\n"
    );
    world.get("/api/v1/admin/nodes", json!({ "nodes": [] }));
    assert!(
        world
            .run(&["admin", "node", "list"])
            .ok()
            .out
            .starts_with("No nodes yet.")
    );
}

#[test]
fn an_audit_of_the_ledger_exits_with_1_on_a_violation() {
    let world = World::new();
    let invariant = |broken: &str, subjects: Value| json!({ "name": "slot_has_its_claim", "rule": "a slot in use has exactly one live claim", "broken": broken, "subjects": subjects });
    let command = ["admin", "audit", "ledger"];
    world.get("/api/v1/admin/ledger:audit", json!({ "audit_time": "2026-01-01T00:00:00Z", "sound": true, "invariants": [invariant("0", json!([]))] }));
    let ran = world.run(&command).ok();
    assert!(ran.out.contains("slot_has_its_claim") && ran.out.contains("All invariants hold."));
    world.get(
        "/api/v1/admin/ledger:audit",
        json!({ "sound": false, "invariants": [invariant("1", json!([SLOT]))] }),
    );
    let ran = world.run(&command);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.out.contains(SLOT) && !ran.out.contains("All invariants hold"),
        "{ran:?}"
    );
    assert!(
        ran.err.contains("a slot in use has exactly one live claim"),
        "{ran:?}"
    );
    // an answer without a single invariant proves nothing
    world.get(
        "/api/v1/admin/ledger:audit",
        json!({ "sound": true, "invariants": [] }),
    );
    assert_eq!(world.run(&command).code, 1);
}

#[test]
fn administrators_commands_send_what_the_api_wants() {
    let world = World::new();
    world.get("/api/v1/regions", json!({ "regions": [] }));
    world.get("/api/v1/skus", json!({ "skus": [] }));
    let checks = world.path("checks.json");
    std::fs::write(
        &checks,
        r#"[{"name": "gpus", "command": "nvidia-smi -L", "line_per_gpu": true}]"#,
    )
    .expect("a file");
    let checks = checks.display().to_string();
    let table: &[(&[&str], &str, &str, Value)] = &[
        (
            &["admin", "region", "set", "lab", "--name", "Lab"],
            "PUT",
            "/api/v1/admin/regions/lab",
            json!({ "display_name": "Lab", "enabled": true }),
        ),
        (
            &[
                "admin", "region", "delete", "lba", "--reason", "a slip", "--etag", "1f",
            ],
            "DELETE",
            "/api/v1/admin/regions/lba?etag=1f&reason=a+slip",
            Value::Null,
        ),
        (
            &[
                "admin",
                "sku",
                "set",
                "lab-slice",
                "--name",
                "Lab slice",
                "--slot-class",
                "lab",
                "--gpu-counts",
                "1,2",
                "--profile",
                "lab_1c",
                "--vcpus",
                "1",
                "--memory",
                "512",
                "--network-mbps",
                "2500",
                "--network-burst-kb",
                "320",
            ],
            "PUT",
            "/api/v1/admin/skus/lab-slice",
            json!({ "display_name": "Lab slice", "capacity_shape": "gpu_slice", "slot_class": "lab", "allowed_gpu_counts": [1, 2],
                    "profile": { "name": "lab_1c", "vcpus_per_gpu": 1, "memory_mib_per_gpu": 512, "network_mbps": 2500,
                                 "network_burst_kb": 320 }, "disabled": false }),
        ),
        (
            &[
                "admin",
                "quota",
                "set",
                "p1",
                "lab-slice",
                "--max-gpus",
                "2",
            ],
            "PUT",
            "/api/v1/admin/projects/p1/quotas/lab-slice",
            json!({ "max_gpus": 2 }),
        ),
        (
            &[
                "admin",
                "price",
                "create",
                "--sku",
                "lab-slice",
                "--amount",
                "1.25 EUR",
            ],
            "POST",
            "/api/v1/admin/prices",
            json!({ "sku": "lab-slice", "price_per_gpu_hour": { "currency_code": "EUR", "units": "1", "nanos": 250_000_000 } }),
        ),
        (
            &[
                "admin",
                "image",
                "create",
                "lab-mini",
                "--source",
                "oci://r/i:1",
                "--sku",
                "lab-slice",
            ],
            "POST",
            "/api/v1/admin/images",
            json!({ "slug": "lab-mini", "driver_strategy": "none", "source_uri": "oci://r/i:1", "compatible_skus": ["lab-slice"], "boot_timeout_seconds": 600 }),
        ),
        (
            &[
                "admin",
                "image",
                "create",
                "cuda",
                "--source",
                "oci://r/i:1",
                "--sku",
                "lab-slice",
                "--readiness-checks",
                &checks,
            ],
            "POST",
            "/api/v1/admin/images",
            json!({ "slug": "cuda", "driver_strategy": "none", "source_uri": "oci://r/i:1", "compatible_skus": ["lab-slice"], "boot_timeout_seconds": 600, "readiness_checks": [{ "name": "gpus", "command": "nvidia-smi -L", "line_per_gpu": true }] }),
        ),
        (
            &["admin", "image", "set-status", "lab-mini", "disabled"],
            "POST",
            "/api/v1/admin/images/lab-mini:setStatus",
            json!({ "status": "disabled" }),
        ),
        (
            &[
                "admin",
                "node",
                "create",
                "--hostname",
                "h1",
                "--region",
                "lab",
                "--rack",
                "r4",
            ],
            "POST",
            "/api/v1/admin/nodes",
            json!({ "hostname": "h1", "region_code": "lab", "mode": "slice", "rack": "r4" }),
        ),
    ];
    for (arguments, method, path, body) in table {
        world.on(method, path, [(200, json!({ "id": NODE, "status": if path.contains("images") { json!("active") } else { json!({}) } }))]);
        world.run(arguments).ok();
        let change = world.changes().pop().expect("sent");
        assert_eq!(
            (change.method.as_str(), change.target.as_str(), &change.body),
            (*method, *path, body)
        );
        assert_eq!(change.authorization.as_deref(), Some("Bearer admin-token"));
        assert!(change.key.is_some());
    }
}

#[test]
fn an_enrolment_token_goes_to_a_file_of_mode_0600_and_nowhere_else() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/enrolment-tokens");
    world.on(
        "POST",
        &path,
        [(
            200,
            json!({ "node_id": NODE, "token": "s3cret", "expire_time": "2026-01-31T13:00:00Z" }),
        )],
    );
    let file = world.path("enrol");
    let out = file.display().to_string();
    let ran = world
        .run(&[
            "admin",
            "node",
            "enrol-token",
            NODE,
            "--out",
            &out,
            "--output",
            "json",
        ])
        .ok();
    assert!(
        !ran.out.contains("s3cret") && !ran.err.contains("s3cret"),
        "{ran:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).expect("written"), "s3cret");
    assert_eq!(
        std::fs::metadata(&file)
            .expect("there")
            .permissions()
            .mode()
            & 0o777,
        0o600
    );
    assert_eq!(
        world
            .run(&["admin", "node", "enrol-token", NODE, "--out", &out])
            .code,
        2,
        "an existing file is kept"
    );
    assert_eq!(world.changes().len(), 1);
    world.on(
        "POST",
        &path,
        [(200, json!({ "node_id": NODE, "token": "" }))],
    );
    let again = world.path("again");
    assert_eq!(
        world
            .run(&[
                "admin",
                "node",
                "enrol-token",
                NODE,
                "--out",
                &again.display().to_string()
            ])
            .code,
        1
    );
    assert!(!again.exists());
}

#[test]
fn a_project_that_is_no_id_comes_with_where_ids_are_found() {
    let world = World::new();
    let rule = "must be a UUID";
    let refused = error(
        400,
        "FIELD_INVALID",
        &format!("project_id: {rule}"),
        &[("project_id", rule)],
    );
    world.on(
        "GET",
        "/api/v1/admin/projects/demo/quotas",
        [(400, refused)],
    );
    let ran = world.run(&["admin", "quota", "show", "demo"]);
    assert!(
        ran.code == 2 && ran.err.contains("gpuaas list --output json"),
        "{ran:?}"
    );
    let help = world.run(&["admin", "quota", "show", "--help"]).ok();
    assert!(help.out.contains("gpuaas admin project list"), "{help:?}");
}

/// Before, an image that the catalog could not read within a call could not be added.
#[test]
fn an_image_is_waited_for_until_its_content_is_verified() {
    let world = World::new();
    let mut reading = error(503, "IMAGE_BEING_VERIFIED", "It is being read.", &[]);
    reading["retry_after"] = json!(0);
    let create = [
        "admin",
        "image",
        "create",
        "base",
        "--source",
        "oci://r/i:1",
        "--sku",
        "lab",
    ];
    let status = ["admin", "image", "set-status", "base", "active"];
    for (path, arguments) in [
        ("/api/v1/admin/images", create.as_slice()),
        ("/api/v1/admin/images/base:setStatus", status.as_slice()),
    ] {
        let before = world.changes().len();
        // more often than a call is repeated that meets a platform that is away
        let mut answers = vec![(503, reading.clone()); 7];
        answers.push((200, json!({ "slug": "base", "status": "active" })));
        world.on("POST", path, answers);
        let ran = world.run(arguments).ok();
        assert!(ran.out.contains("Image base is active."), "{ran:?}");
        assert_eq!(ran.err.matches("Verifying").count(), 1, "{ran:?}");
        let changes = world.changes();
        let sent = &changes[before..];
        assert_eq!(sent.len(), 8, "{sent:?}");
        let is_same = |one: &RecordedRequest| one.key == sent[0].key && one.body == sent[0].body;
        assert!(
            sent[0].key.is_some() && sent.iter().all(is_same),
            "{sent:?}"
        );
    }

    // and what the reading finds is told
    let damaged = error(400, "IMAGE_DIGEST_MISMATCH", "The content is damaged.", &[]);
    world.on(
        "POST",
        "/api/v1/admin/images",
        [(503, reading), (400, damaged)],
    );
    let refused = world.run(&create);
    assert!(
        refused.code != 0 && refused.err.contains("The content is damaged."),
        "{refused:?}"
    );
}

/// Said on standard error: a program reads the answer as it is.
#[test]
fn inc_24_an_image_for_gpus_without_readiness_checks_is_warned_of() {
    let world = World::new();
    let image = json!({ "slug": "base", "status": "active" });
    world.on("POST", "/api/v1/admin/images", [(200, image)]);
    world.get(
        "/api/v1/skus",
        json!({ "skus": [{ "code": "h200", "capacity_shape": "gpu_slice" }, { "code": "lab", "capacity_shape": "gpu_slice", "lab": true }] }),
    );
    let create = |sku: &str, more: &[&str]| {
        let mut arguments = vec![
            "admin",
            "image",
            "create",
            "base",
            "--source",
            "oci://r/i:1",
            "--sku",
            sku,
        ];
        arguments.extend(more);
        world.run(&arguments).ok()
    };
    let warned = create("h200", &[]).err;
    assert!(
        warned.contains("base names no readiness checks, and h200 has GPUs"),
        "{warned}"
    );
    assert!(!create("lab", &[]).err.contains("readiness"));
    let checks = world.home.path().join("checks.json");
    std::fs::write(&checks, r#"[{"name": "gpus", "command": "nvidia-smi"}]"#).expect("write");
    let checks = checks.to_str().expect("path");
    let given = create("h200", &["--readiness-checks", checks]);
    assert!(!given.err.contains("no readiness"), "{}", given.err);

    let message = "Its image names no readiness checks: try them yourself.";
    let judged = json!({ "status": { "conditions": [{ "type": "no_readiness_checks", "message": message }] } });
    world.on("POST", "/api/v1/allocations", [(200, judged)]);
    let key = world.home.path().join("k.pub");
    std::fs::write(&key, "ssh-ed25519 AAAA me\n").expect("write");
    let key = key.to_str().expect("path");
    let ran = world
        .run(&[
            "launch",
            "--sku",
            "h200",
            "--image",
            "base",
            "--region",
            "lab",
            "--ssh-key",
            key,
            "--dry-run",
        ])
        .ok();
    assert!(
        ran.out.contains(&format!("Warning: {message}")),
        "{}",
        ran.out
    );
}

#[test]
fn operators_list_regions_skus_prices_and_nodes() {
    let world = World::new();
    world.get(
        "/api/v1/regions",
        json!({ "regions": [{ "code": "eu-1", "display_name": "Frankfurt", "enabled": true }] }),
    );
    world.get(
        "/api/v1/skus",
        json!({ "skus": [{ "code": "h200", "capacity_shape": "gpu_slice", "allowed_gpu_counts": [1, 2] }] }),
    );
    let amount = json!({ "currency_code": "EUR", "units": "2", "nanos": 500_000_000 });
    world.get(
        "/api/v1/admin/prices",
        json!({ "price_versions": [{ "id": "p-1", "sku": "h200", "price_per_gpu_hour": amount }] }),
    );
    let node = json!({ "id": NODE, "config": { "hostname": "gpu-07", "region_code": "eu-1", "mode": "slice" } });
    world.get("/api/v1/admin/nodes", json!({ "nodes": [node] }));
    world.get(
        "/api/v1/admin/node-placements",
        json!({ "node_placements": [] }),
    );
    for (list, shown) in [
        (["admin", "region", "list"], "eu-1"),
        (["admin", "sku", "list"], "h200"),
        (["admin", "price", "list"], "p-1"),
        (["admin", "node", "list"], "gpu-07"),
    ] {
        let ran = world.run(&list).ok();
        assert!(ran.out.contains(shown), "{list:?}: {}", ran.out);
        let raw = world.run(&[&list[..], &["--output", "json"]].concat()).ok();
        assert!(raw.json().to_string().contains(shown), "{list:?}");
    }
    assert!(world.changes().is_empty());
}
