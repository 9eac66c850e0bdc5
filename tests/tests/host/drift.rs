//! Drift of a real host: the disk of a free slot gets a file system, goes away and comes back (D-80).
use std::process::Command;

use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::Value;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        d_80_a_free_disk_that_somebody_writes_to_takes_a_repair: 25,
        d_80_a_disk_that_goes_away_blocks_its_own_slot_until_it_is_back_and_wiped: 25,
    ]
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output();
    let done = done.expect(program);
    assert!(done.status.success(), "{program} {arguments:?}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}

fn kinds(slot: &Value) -> Vec<&str> {
    let drift = slot["drift"].as_array();
    drift
        .into_iter()
        .flatten()
        .map(|one| text(one, "/kind"))
        .collect()
}

/// Waits until a slot has this drift and nothing else.
async fn drifted(system: &System, index: usize, expected: &[&str]) -> Value {
    until("the drift", TIMEOUT, async || {
        let slot = system.slots().await.swap_remove(index);
        (kinds(&slot) == expected).then_some(slot)
    })
    .await
}

async fn d_80_a_free_disk_that_somebody_writes_to_takes_a_repair() {
    let system = System::get().await;
    let file = system.disk_file(1).display().to_string();
    let device = run("losetup", &["-n", "-O", "NAME", "-j", &file]);
    run("mkfs.ext4", &["-q", "-F", device.trim()]);
    let blocked = drifted(&system, 1, &["disk_content"]).await;
    assert_eq!(blocked["status"], "cleanup_blocked");
    assert!(
        text(&blocked, "/drift/0/message").contains("ext4")
            && !text(&blocked, "/drift/0/remediation").is_empty(),
        "{blocked}"
    );
    let other = system.slots().await.swap_remove(0);
    assert_eq!(
        (&other["health_state"], kinds(&other).len()),
        (&"healthy".into(), 0)
    );
    system.repair(&blocked).await;
    let repaired = system.wait_slot(1, "available").await;
    assert_eq!(repaired["generation"], repaired["clean_generation"]);
    let healthy = drifted(&system, 1, &[]).await;
    assert_eq!(healthy["health_state"], "healthy");
    system.assert_nothing_left().await;
}

async fn d_80_a_disk_that_goes_away_blocks_its_own_slot_until_it_is_back_and_wiped() {
    let system = System::get().await;
    let before = system.slots().await.swap_remove(1);
    let file = system.disk_file(1).display().to_string();
    let device = run("losetup", &["-n", "-O", "NAME", "-j", &file]);
    run("losetup", &["-d", device.trim()]);
    let gone = drifted(&system, 1, &["disk_missing"]).await;
    assert_eq!(gone["health_state"], "degraded");
    let other = system.slots().await.swap_remove(0);
    assert_eq!(other["health_state"], "healthy", "one disk is one slot's");
    run("losetup", &[device.trim(), &file]);
    drifted(&system, 1, &[]).await;
    let back = until("the disk to be wiped", TIMEOUT, async || {
        let slot = system.slots().await.swap_remove(1);
        let wiped = slot["generation"] != before["generation"] && slot["status"] == "available";
        wiped.then_some(slot)
    })
    .await;
    assert_eq!(back["health_state"], "healthy");
    assert_eq!(back["generation"], back["clean_generation"]);
    system.assert_nothing_left().await;
}
