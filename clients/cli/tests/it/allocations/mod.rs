//! The commands of a user: launch, list, show, ssh, release, usage. Here, what their tests share.
mod commands;
mod credited;
mod launch;
mod messages;

use crate::support::{ID, World, allocation, write};
use serde_json::{Value, json};

pub const ALLOCATIONS: &str = "/api/v1/allocations";

pub fn one() -> String {
    format!("{ALLOCATIONS}/{ID}")
}

pub fn timeline() -> Value {
    json!({ "entries": [
        { "sequence": "1", "time": "2026-01-31T12:00:00Z", "end_time": "2026-01-31T12:00:00.250Z", "step": "reserve", "state": "done", "percent": 100, "message": "1 slot on a lab host" },
        { "sequence": "2", "time": "2026-01-31T12:00:01Z", "end_time": "2026-01-31T12:00:04.500Z", "step": "provision.clone", "state": "done", "percent": 100, "message": "64 MiB" },
    ], "next_page_token": "" })
}

pub fn with_progress(step: &str, percent: u32) -> Value {
    let mut value = allocation("provisioning");
    value["status"]["progress"] = json!({ "step": step, "percent": percent, "message": "working", "steps_done": 2, "steps_total": 9 });
    value
}

pub fn key_pair(world: &World) -> String {
    write(&world.path("id"), "-----BEGIN OPENSSH PRIVATE KEY-----");
    write(&world.path("id.pub"), "ssh-ed25519 AAAAUSER me\n");
    world.path("id.pub").display().to_string()
}

/// The words of a launch that says all it must, and more.
pub fn launch_arguments<'a>(key: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let all = [
        "launch",
        "--region",
        "lab",
        "--sku",
        "s",
        "--image",
        "i",
        "--ssh-key",
        key,
    ];
    [&all, more].concat()
}

/// The path of the allocation's watch.
pub fn watched() -> String {
    format!("{}:watch", one())
}
