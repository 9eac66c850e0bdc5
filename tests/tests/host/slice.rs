//! Lives of a slice through the public API that go another way: a guest that never answers, a wipe that lies, a change of
//! mind, and what the platform stands on away for a while.
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use gpuaas_tests::api::{launch_body, text};
use gpuaas_tests::canary;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use reqwest::Method;
use serde_json::json;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        inc_41_a_guest_that_never_answers_fails_is_not_billed_and_is_repaired: 35,
        inc_24_the_checks_of_an_image_decide_whether_its_vm_is_active: 35,
        p4_three_creates_with_one_key_are_one_allocation: 2,
        p8_without_redis_everything_still_completes: 20,
        p8_a_postgres_restart_in_the_middle_loses_nothing: 15,
        p2_a_wipe_that_lies_is_caught: 20,
        a_132_p2_an_approved_disk_without_partition_table_is_wiped_before_anybody_gets_it: 12,
        a_release_while_provisioning_cancels_it: 4,
    ]
}

async fn inc_41_a_guest_that_never_answers_fails_is_not_billed_and_is_repaired() {
    let system = System::get().await;
    let id = system
        .user
        .launch("dead", "lab-mini-dead", &system.public_key)
        .await;
    let failed = system.user.wait_state(&id, &["failed"], TIMEOUT).await;
    let reason = text(&failed, "/status/failure/reason");
    assert!(
        ["GUEST_NO_LOGIN", "GUEST_NO_ADDRESS"].contains(&reason),
        "{failed}"
    );
    let message = text(&failed, "/status/failure/message");
    assert!(
        message.contains("\nIts serial console ended with:\n"),
        "{message}"
    );
    assert!(!text(&failed, "/status/failure/advice").is_empty());

    // INC-14: the slot waits for proof, in failed health
    let slots = system.slots().await;
    let index = slots
        .iter()
        .position(|s| s["status"] == "cleanup_blocked")
        .expect("one slot is blocked");
    assert_eq!(slots[index]["health_state"], "failed");
    // INC-20, P5: no domain, no reservation, no lease; the hold stays until the repair
    let left = gpuaas_tests::invariants::leftovers(&system).await;
    let tolerated = |line: &String| line.contains(": hold of ") || line.contains(": bytes in ");
    assert!(left.iter().all(tolerated), "{left:#?}");
    // G-10
    let usage = system
        .user
        .get(&format!("/api/v1/usage?allocation_id={id}"))
        .await
        .expect("usage");
    assert_eq!(usage["intervals"], json!([]));

    system.repair(&slots[index]).await;
    let repaired = system.wait_slot(index, "available").await;
    assert_eq!(repaired["health_state"], "healthy");
    assert_eq!(repaired["generation"], repaired["clean_generation"]);
    system.assert_nothing_left().await;
}

/// Registers the mini guest under another slug, with these readiness checks.
pub async fn register_checked(system: &System, slug: &str, checks: serde_json::Value) {
    let images = system.admin.get("/api/v1/admin/images?page_size=500").await;
    let images = images.expect("images")["images"].clone();
    let images = images.as_array().expect("a list");
    if images.iter().any(|image| image["slug"] == slug) {
        return;
    }
    let mini = images.iter().find(|image| image["slug"] == "lab-mini");
    let mini = mini.expect("the mini guest");
    let body = json!({
        "slug": slug, "driver_strategy": "none", "source_uri": mini["source_uri"],
        "compatible_skus": mini["compatible_skus"], "boot_timeout_seconds": 180, "readiness_checks": checks,
    });
    let made = system
        .admin
        .call(Method::POST, "/api/v1/admin/images", Some(slug), Some(body))
        .await;
    made.unwrap_or_else(|refusal| panic!("{}", refusal.body));
}

/// D-45, D-69
async fn inc_24_the_checks_of_an_image_decide_whether_its_vm_is_active() {
    let system = System::get().await;
    let kernel = json!({"name": "kernel", "command": "uname -s", "expected_text": "Linux"});
    let cpus =
        json!({"name": "cpus", "command": "grep ^processor /proc/cpuinfo", "line_per_gpu": true});
    let driver = json!({"name": "driver", "command": "nvidia-smi -L", "timeout_seconds": 3});
    register_checked(&system, "lab-checked", json!([kernel, cpus])).await;
    register_checked(&system, "lab-unready", json!([kernel, driver])).await;
    let launch = async |name: &str, image: &str| {
        let id = system.user.launch(name, image, &system.public_key).await;
        let ended = system
            .user
            .wait_state(&id, &["active", "failed"], TIMEOUT)
            .await;
        (id, ended)
    };
    let verdicts = |allocation: &serde_json::Value| -> Vec<(String, bool)> {
        let found = allocation["status"]["readiness_checks"].as_array();
        let found = found.expect("results").iter();
        found
            .map(|one| (text(one, "/check").to_owned(), one["passed"] == true))
            .collect()
    };
    let passed = |check: &str| (check.to_owned(), true);

    let (id, active) = launch("checked", "lab-checked").await;
    assert_eq!(active["status"]["state"], "active", "{active}");
    assert_eq!(
        verdicts(&active),
        ["cloud-init", "kernel", "cpus"].map(passed)
    );
    let results = &active["status"]["readiness_checks"];
    assert_eq!(text(results, "/0/message"), "The guest has no cloud-init.");
    assert_eq!(text(results, "/1/output_end"), "Linux");
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;

    let (_, failed) = launch("unready", "lab-unready").await;
    assert_eq!(
        text(&failed, "/status/failure/reason"),
        "GUEST_NOT_READY",
        "{failed}"
    );
    let message = text(&failed, "/status/failure/message");
    assert!(
        message.contains("Check driver: The command ended with exit status 127.")
            && message.contains("not found"),
        "{message}"
    );
    let unready = ("driver".to_owned(), false);
    assert_eq!(
        verdicts(&failed),
        [passed("cloud-init"), passed("kernel"), unready]
    );
    // INC-20: no domain, no reservation, no lease; the hold stays until the repair
    let slots = system.slots().await;
    let index = slots
        .iter()
        .position(|s| s["status"] == "cleanup_blocked")
        .expect("one slot is blocked");
    let left = gpuaas_tests::invariants::leftovers(&system).await;
    let tolerated = |line: &String| line.contains(": hold of ") || line.contains(": bytes in ");
    assert!(left.iter().all(tolerated), "{left:#?}");
    system.repair(&slots[index]).await;
    system.wait_slot(index, "available").await;
    system.assert_nothing_left().await;
}

async fn p4_three_creates_with_one_key_are_one_allocation() {
    let system = System::get().await;
    let body = launch_body("once", "lab-mini", &system.public_key);
    let create = || {
        system.user.call(
            Method::POST,
            "/api/v1/allocations",
            Some("the-same-key-of-this-run"),
            Some(body.clone()),
        )
    };
    let (a, b, c) = tokio::join!(create(), create(), create());
    let ids: std::collections::BTreeSet<String> = [a, b, c]
        .into_iter()
        .map(|answer| match answer {
            Ok(allocation) => text(&allocation, "/id").to_owned(),
            Err(refusal) => panic!("{}", refusal.body),
        })
        .collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    let other = launch_body("another", "lab-mini", &system.public_key);
    let refused = system
        .user
        .call(
            Method::POST,
            "/api/v1/allocations",
            Some("the-same-key-of-this-run"),
            Some(other),
        )
        .await
        .expect_err("another body");
    assert_eq!(refused.reason(), "IDEMPOTENCY_KEY_REUSED");
    let id = ids.into_iter().next().expect("one");
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

async fn p8_without_redis_everything_still_completes() {
    let system = System::get().await;
    let redis = system.stack.redis().expect("redis");
    redis.flush().expect("empty redis");
    redis.stop();
    let id = system
        .user
        .launch("no-redis", "lab-mini", &system.public_key)
        .await;
    system.user.wait_state(&id, &["active"], TIMEOUT).await;
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    redis.start().expect("redis again");
    system.assert_nothing_left().await;
}

async fn p8_a_postgres_restart_in_the_middle_loses_nothing() {
    let system = System::get().await;
    let postgres = system.stack.postgres().expect("postgres");
    let id = system
        .user
        .launch("pg-restart", "lab-mini", &system.public_key)
        .await;
    // in the middle: the guest boots
    until("the guest to boot", TIMEOUT, async || {
        let entries = system.user.timeline(&id).await;
        entries
            .iter()
            .any(|e| text(e, "/step").contains("start"))
            .then_some(())
    })
    .await;
    postgres.stop();
    postgres.start().await.expect("postgres again");
    system.user.wait_state(&id, &["active"], TIMEOUT).await;
    system.user.release(&id).await;
    until("the slot to be in cleanup", TIMEOUT, async || {
        let entries = system.user.timeline(&id).await;
        entries
            .iter()
            .any(|e| text(e, "/step").contains("release"))
            .then_some(())
    })
    .await;
    postgres.stop();
    postgres.start().await.expect("postgres again");
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

async fn p2_a_wipe_that_lies_is_caught() {
    let system = System::get().await;
    let lab = system.stack.lab();
    let environment = system.stack.options().root.join("lab/run/agent.env");
    let restart_agent = async |lines: &str| {
        std::fs::write(&environment, lines).expect("agent's environment");
        let before = lab.agent_process().expect("the agent runs");
        before.stop(nix::sys::signal::Signal::SIGTERM, Duration::from_secs(20));
        until("the agent to be back", TIMEOUT, async || {
            let process = lab.agent_process()?;
            let probe = lab.agent_probe()?;
            (process != before && system.stack.health().check(&probe).await.is_ok()).then_some(())
        })
        .await;
    };
    let id = system
        .user
        .launch("liar", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let canary = format!("CANARY-{}", uuid::Uuid::now_v7().simple());
    let login = system.ssh(
        &active,
        &format!("echo {canary} | dd of=/dev/vda bs=1M seek=300 conv=notrunc; sync"),
    );
    assert!(login.status.success(), "{login:?}");
    let index = system.slot_of(&id).await;
    let file = system.disk_file(index);

    restart_agent("GPUAAS_FAULT_WIPE=lie\n").await;
    system.user.release(&id).await;
    let blocked = system.wait_slot(index, "cleanup_blocked").await;
    assert_eq!(blocked["health_state"], "failed");
    assert_eq!(
        canary::occurrences(&file, canary.as_bytes()),
        1,
        "the wipe did lie"
    );
    // the user is free all the same, and is not billed further
    system.user.wait_state(&id, &["released"], TIMEOUT).await;

    restart_agent("").await;
    system.repair(&blocked).await;
    system.wait_slot(index, "available").await;
    assert_eq!(canary::occurrences(&file, canary.as_bytes()), 0);
    system.assert_nothing_left().await;
}

async fn a_release_while_provisioning_cancels_it() {
    let system = System::get().await;
    let id = system
        .user
        .launch("changed-my-mind", "lab-mini", &system.public_key)
        .await;
    until("the guest to boot", TIMEOUT, async || {
        let entries = system.user.timeline(&id).await;
        entries
            .iter()
            .any(|e| text(e, "/step").contains("start"))
            .then_some(())
    })
    .await;
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    let usage = system
        .user
        .get(&format!("/api/v1/usage?allocation_id={id}"))
        .await
        .expect("usage");
    assert_eq!(usage["intervals"], json!([]), "never active, never billed");
    system.assert_nothing_left().await;
}

/// What an inspection takes for a raw disk may be full of a tenant's bytes: one with root on a bare metal node removes its
/// partition table in a second.
async fn a_132_p2_an_approved_disk_without_partition_table_is_wiped_before_anybody_gets_it() {
    let system = System::get().await;
    let canary = format!("CANARY-{}", uuid::Uuid::now_v7().simple());
    // as a release of the node leaves them: nothing is proven any more
    let mut database = system.database().await;
    sqlx::raw_sql("SET search_path = placement")
        .execute(&mut database)
        .await
        .expect("the schema");
    sqlx::query(
        "UPDATE slots SET status = 'disabled', generation = generation + 1, revision = revision + 1
          WHERE node_id = $1::uuid",
    )
    .bind(&system.node_id)
    .execute(&mut database)
    .await
    .expect("taken out");
    for index in 0..2 {
        leave_bytes(&system.disk_file(index), &canary);
    }

    let node = format!("/api/v1/admin/nodes/{}", system.node_id);
    let path = format!("{node}/slice-topology/discovery");
    let started = system.admin.post(&path, json!({})).await;
    let started = started.unwrap_or_else(|refusal| panic!("{}", refusal.body));
    let found = until("the discovery to end", TIMEOUT, async || {
        let found = system.admin.get(&path).await.ok()?;
        let ended = found["id"] == started["id"] && found["state"] == "completed";
        ended.then_some(found)
    })
    .await;
    for candidate in found["candidates"].as_array().expect("candidates") {
        let blockers = candidate["blockers"].as_array().map_or(0, Vec::len);
        assert_eq!(blockers, 0, "the inspection sees nothing: {candidate}");
    }
    let approval = json!({"discovery_id": found["id"], "slot_indexes": [0, 1]});
    let approved = system
        .admin
        .post(&format!("{node}/resource-slots:approve"), approval)
        .await
        .unwrap_or_else(|refusal| panic!("{}", refusal.body));
    for slot in approved["slots"].as_array().expect("slots") {
        assert_eq!(slot["status"], "cleanup", "{slot}");
    }
    for index in 0..2 {
        let slot = system.wait_slot(index, "available").await;
        assert!(
            text(&slot, "/clean_evidence").starts_with("wiped: "),
            "{slot}"
        );
        assert_eq!(slot["generation"], slot["clean_generation"]);
        assert!(canary::is_zero(&system.disk_file(index)), "all of it");
    }

    let id = system
        .user
        .launch("after", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let read = format!("tr -d '\\000' < /dev/vda | grep -c {canary}");
    assert_eq!(
        system.said(&active, &read),
        "0",
        "nothing for its tenant to find"
    );
    let file = system.disk_file(system.slot_of(&id).await);
    assert_eq!(canary::occurrences(&file, canary.as_bytes()), 0);
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

/// Writes the canary all over a disk, below a partition table that is removed again.
fn leave_bytes(file: &Path, canary: &str) {
    let attached = run(
        "losetup",
        &["-n", "-O", "NAME", "-j", &file.display().to_string()],
    );
    let device = attached.trim();
    let mut disk = File::options().write(true).open(device).expect("the disk");
    let bytes = std::fs::metadata(file).expect("the file").len();
    for at in (0..bytes).step_by(1 << 20) {
        disk.seek(SeekFrom::Start(at)).expect("seek");
        disk.write_all(canary.as_bytes()).expect("write");
    }
    // one partition over all of it, in a table that the kernel and wipefs know
    let mut table = [0; 512];
    table[446 + 4] = 0x83;
    table[446 + 8..][..4].copy_from_slice(&2048u32.to_le_bytes());
    table[446 + 12..][..4].copy_from_slice(&65536u32.to_le_bytes());
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    disk.seek(SeekFrom::Start(0)).expect("seek");
    disk.write_all(&table).expect("write");
    disk.sync_all().expect("sync");
    let removed = run("wipefs", &["--all", device]);
    assert!(removed.contains("dos"), "{removed}");
    disk.sync_all().expect("sync");
    let count = canary::occurrences(file, canary.as_bytes());
    assert!(
        count as u64 > bytes / (2 << 20),
        "{count} canaries are left"
    );
}

fn run(program: &str, arguments: &[&str]) -> String {
    let done = Command::new(program).args(arguments).output();
    let done = done.expect(program);
    assert!(done.status.success(), "{program} {arguments:?}: {done:?}");
    String::from_utf8(done.stdout).expect("text")
}
