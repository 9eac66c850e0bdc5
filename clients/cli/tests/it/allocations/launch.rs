//! Launching.
use serde_json::{Value, json};

use super::{ALLOCATIONS, key_pair, launch_arguments, timeline, watched, with_progress};
use crate::support::{ID, World, allocation, changed, entries, error, stream, synced};

#[test]
fn a_launch_fills_in_region_and_name_and_waits_for_the_login() {
    let world = World::new();
    let key = key_pair(&world);
    world.get("/api/v1/regions", json!({ "regions": [{ "code": "lab", "enabled": true }, { "code": "eu", "enabled": false }] }));
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    let lost = error(503, "DEPENDENCY_UNAVAILABLE", "Restarts.", &[]);
    world.on(
        "GET",
        &watched(),
        [
            (
                200,
                stream([vec![
                    changed(with_progress("clone", 10), "t1"),
                    synced("t2"),
                ]]),
            ),
            (503, lost.clone()),
            (
                200,
                stream([
                    entries(&timeline(), "t3"),
                    vec![changed(with_progress("boot", 50), "t4"), lost],
                ]),
            ),
            (
                200,
                stream([vec![
                    json!({ "heartbeat": {}, "resume_token": "t5" }),
                    changed(allocation("active"), "t6"),
                ]]),
            ),
        ],
    );
    let ran = world
        .run(&[
            "launch",
            "--sku",
            "lab-slice",
            "--image",
            "lab-mini",
            "--ssh-key",
            &key,
            "--label",
            "team=a",
            "--wait",
        ])
        .ok();

    let requested: Vec<String> = world
        .seen()
        .into_iter()
        .filter_map(|seen| Some(seen.target.strip_prefix(&watched())?.to_owned()))
        .collect();
    let after = |token: &str| format!("?resume_token={token}");
    assert_eq!(
        requested,
        [String::new(), after("t2"), after("t2"), after("t4")]
    );

    let change = &world.changes()[0];
    assert_eq!(change.body["region_code"], "lab");
    assert_eq!(change.body["gpu_count"], 1);
    assert_eq!(
        change.body["ssh_public_keys"],
        json!(["ssh-ed25519 AAAAUSER me"])
    );
    assert_eq!(change.body["labels"], json!({ "team": "a" }));
    assert!(
        change.body["name"]
            .as_str()
            .expect("name")
            .starts_with("lab-slice-")
    );
    assert!(change.key.as_deref().expect("key").starts_with("cli-"));

    for line in [
        "13:00:00  ok      reserve                         0.2s  1 slot on a lab host",
        "13:00:01  ok      provision.clone                 3.5s  64 MiB",
    ] {
        assert!(ran.err.contains(line), "{line}: {}", ran.err);
    }
    assert!(
        !ran.err.contains("/9 "),
        "steps that run are for a terminal: {}",
        ran.err
    );
    for line in [
        &format!("Log in       gpuaas ssh {ID}"),
        "State        active, running",
        "Size         1 x lab-slice, image lab-mini, region lab (lab: emulated, no GPU)",
    ] {
        assert!(ran.out.contains(line), "{line}: {}", ran.out);
    }
    let identity = format!(
        "-i {}",
        world.path("id").canonicalize().expect("key").display()
    );
    assert!(
        ran.out.contains(&identity),
        "the printed command uses the launch's key: {}",
        ran.out
    );
}

#[test]
fn a_launch_for_a_program_prints_the_allocation_and_nothing_else() {
    let world = World::new();
    let key = key_pair(&world);
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    let reported = vec![changed(allocation("active"), "t1"), synced("t2")];
    world.get(&watched(), stream([reported]));
    let ran = world
        .run(&launch_arguments(&key, &["--wait", "--output", "json"]))
        .ok();
    assert_eq!(ran.json(), allocation("active"));
    assert_eq!(ran.err, "");
}

#[test]
fn a_failed_launch_prints_reason_and_advice() {
    let world = World::new();
    let key = key_pair(&world);
    let mut failed = allocation("failed");
    failed["status"]["failure"] = json!({ "reason": "GUEST_NO_LOGIN", "message": "The image never answered.", "advice": "Choose another image.", "step": "ready" });
    world.on("POST", ALLOCATIONS, [(200, allocation("reserved"))]);
    let reported = vec![changed(failed, "t1"), synced("t2")];
    world.get(&watched(), stream([reported]));
    let ran = world.run(&launch_arguments(&key, &["--wait"]));
    assert_eq!(ran.code, 1);
    assert!(ran.err.ends_with("error: The image never answered.\n  advice:  Choose another image.\n  reason:  GUEST_NO_LOGIN\n"), "{}", ran.err);
}

#[test]
fn validate_only_changes_nothing() {
    let world = World::new();
    let key = key_pair(&world);
    world.on("POST", ALLOCATIONS, [(200, allocation("requested"))]);
    let ran = world.run(&launch_arguments(&key, &["--dry-run"])).ok();
    assert!(ran.out.contains("Dry run passed"));
    assert_eq!(world.changes()[0].body["validate_only"], true);
}

#[test]
fn a_refusal_is_not_retried_and_names_field_rule_and_request() {
    let world = World::new();
    let key = key_pair(&world);
    let fields = [
        ("gpu_count", "must be one of 1, 2"),
        ("image", "is not active"),
    ];
    world.on(
        "POST",
        ALLOCATIONS,
        [(
            400,
            error(
                400,
                "GPU_COUNT_NOT_ALLOWED",
                "gpu_count: must be one of 1, 2.",
                &fields,
            ),
        )],
    );
    let arguments = [
        "launch",
        "--region",
        "lab",
        "--sku",
        "s",
        "--gpus",
        "3",
        "--image",
        "i",
        "--ssh-key",
        &key,
    ];
    let ran = world.run(&arguments);
    assert_eq!(ran.code, 4);
    assert_eq!(
        ran.err,
        "error: --gpus: must be one of 1, 2.\n  --image: is not active\n  \
         advice:  List the SKUs: gpuaas sku list\n  reason:  GPU_COUNT_NOT_ALLOWED\n  request: req-1\n"
    );
    assert_eq!(world.changes().len(), 1);
    let ran = world.run(&[&arguments[..], &["--output", "json"]].concat());
    let shown: Value = serde_json::from_str(&ran.err).expect("the API's own error");
    assert_eq!(
        shown["error"]["details"][0]["reason"],
        "GPU_COUNT_NOT_ALLOWED"
    );
}
