//! What a refusal tells its user.
use serde_json::json;

use crate::allocations::{ALLOCATIONS, key_pair};
use crate::support::{ID, World, error, write};

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
