//! Stop, start and reboot of a real VM through the public API: disk, address and bill survive, and each start is
//! proven by another boot of the guest's kernel.
use std::time::{Duration, Instant};

use gpuaas_dev::seed;
use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::{Value, json};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        a_stopped_and_started_vm_keeps_disk_address_and_bill: 40,
        d_61_a_vm_that_is_stopped_hard_and_reset_asks_its_guest_nothing: 40,
        a_vm_that_shut_down_with_its_host_is_started_again_and_says_so: 30,
        p9_a_rescued_vm_has_its_own_disk_beside_the_rescue_image_and_gets_it_back: 55,
    ]
}

/// What libvirt says of the VM while it runs: the devices of the list, and what libvirt adds to every machine, and no other.
async fn assert_devices(system: &System, allocation: &Value) {
    let id = text(allocation, "/id");
    let host = system.host_of(id).await;
    let vm = text(allocation, "/status/vm");
    let arguments = ["-q", "-c", "qemu:///system", "dumpxml", vm];
    let xml = host.lab.exec("virsh", &arguments).expect("a domain");
    assert!(
        xml.contains("<alias name='virtio-disk0'/>"),
        "it runs: {xml}"
    );
    let unlisted = gpuaas_agent::vm::domain_xml::allowed::unlisted_in_domain(&xml);
    assert_eq!(unlisted, Ok(Vec::new()), "{xml}");
}

/// Changes the power of an allocation by force, and returns how long the platform took.
async fn force(system: &System, id: &str, verb: &str, wanted: &str) -> (Value, Duration) {
    let (path, started) = (format!("/api/v1/allocations/{id}"), Instant::now());
    let accepted = system
        .user
        .post(&format!("{path}:{verb}"), json!({ "force": true }))
        .await;
    let accepted = accepted.unwrap_or_else(|refusal| panic!("{verb} refused: {}", refusal.body));
    let before = text(&accepted, "/status/boot_id").to_owned();
    let ended = until(&format!("the forced {verb}"), TIMEOUT, async || {
        let now = system.user.get(&path).await.ok()?;
        let is_other = wanted != "running" || text(&now, "/status/boot_id") != before;
        (text(&now, "/status/power") == wanted && is_other).then_some(now)
    })
    .await;
    (ended, started.elapsed())
}

/// The guest would need longer than a test has: only a VM that nobody asks is off at once. What it had synced is on its disk.
async fn d_61_a_vm_that_is_stopped_hard_and_reset_asks_its_guest_nothing() {
    let system = System::get().await;
    let id = system
        .user
        .launch("forced", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    assert_devices(&system, &active).await;
    // a guest that does not hear the power button: a stop that asks it waits in vain
    let deafen = "/bin/su -c '/bin/killall -9 acpid' && echo deaf";
    let write =
        "echo kept | dd of=/dev/vda bs=1M seek=80 conv=notrunc,fsync 2>/dev/null; echo written";
    assert_eq!(system.said(&active, write), "written");
    assert_eq!(system.said(&active, deafen), "deaf");
    let read = "dd if=/dev/vda bs=1M skip=80 count=1 2>/dev/null | head -c 4";

    // a reset is another boot on the same disk and address
    let (reset, _) = force(&system, &id, "reboot", "running").await;
    assert_ne!(
        text(&reset, "/status/boot_id"),
        text(&active, "/status/boot_id")
    );
    assert_eq!(system.said(&reset, read), "kept");
    assert_eq!(
        reset.pointer("/status/access"),
        active.pointer("/status/access")
    );
    assert_devices(&system, &reset).await;

    assert_eq!(system.said(&reset, deafen), "deaf");
    let (stopped, took) = force(&system, &id, "stop", "stopped").await;
    assert!(took < Duration::from_secs(15), "{took:?}");
    assert_eq!(text(&stopped, "/status/state"), "active");
    let started = system.user.power(&id, "start", "running").await;
    assert_eq!(system.said(&started, read), "kept");

    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

async fn interval(system: &System, id: &str) -> Value {
    let path = format!("/api/v1/usage?allocation_id={id}");
    let usage = system.user.get(&path).await.expect("usage");
    let all = usage["intervals"].as_array().cloned().unwrap_or_default();
    assert_eq!(all.len(), 1, "one unbroken interval: {usage}");
    all[0].clone()
}

async fn p9_a_rescued_vm_has_its_own_disk_beside_the_rescue_image_and_gets_it_back() {
    let system = System::get().await;
    seed::add_rescue(&system.stack, &|_: &str| {})
        .await
        .unwrap_or_else(|error| panic!("{}", gpuaas_dev::error::chain(&error)));
    let id = system
        .user
        .launch("rescued", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let write =
        "echo kept | dd of=/dev/vda bs=1M seek=80 conv=notrunc,fsync 2>/dev/null; echo written";
    let read =
        |disk: &str| format!("dd if=/dev/{disk} bs=1M skip=80 count=1 2>/dev/null | head -c 4");
    assert_eq!(system.said(&active, write), "written");

    let path = format!("/api/v1/allocations/{id}");
    let body = json!({ "image": seed::RESCUE_IMAGE });
    let accepted = system.user.post(&format!("{path}:rescue"), body).await;
    accepted.unwrap_or_else(|refusal| panic!("rescue refused: {}", refusal.body));
    let rescued = until("the rescue", TIMEOUT, async || {
        let now = system.user.get(&path).await.ok()?;
        (text(&now, "/status/power") == "rescued").then_some(now)
    })
    .await;
    assert_ne!(
        rescued["status"]["access"]["ssh_host_keys"],
        active["status"]["access"]["ssh_host_keys"]
    );
    // logged in by its owner's key, with the rescue's host key pinned
    assert_eq!(system.said(&rescued, &read("vdb")), "kept");
    // the rescue disk is another one, and ends before that place
    let other = format!("{}; echo .", read("vda"));
    assert_eq!(system.said(&rescued, &other), ".");
    assert_eq!(
        system.said(&rescued, "echo lost > /tmp/note; echo noted"),
        "noted"
    );

    let back = system.user.power(&id, "unrescue", "running").await;
    assert_eq!(system.said(&back, &read("vda")), "kept");
    assert_eq!(
        back["status"]["access"]["ssh_host_keys"],
        active["status"]["access"]["ssh_host_keys"]
    );
    // a release out of a rescue leaves nothing
    let body = json!({ "image": seed::RESCUE_IMAGE });
    let accepted = system.user.post(&format!("{path}:rescue"), body).await;
    accepted.unwrap_or_else(|refusal| panic!("rescue refused: {}", refusal.body));
    until("the rescue", TIMEOUT, async || {
        let now = system.user.get(&path).await.ok()?;
        (text(&now, "/status/power") == "rescued").then_some(())
    })
    .await;
    system.user.release(&id).await;
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}

async fn a_stopped_and_started_vm_keeps_disk_address_and_bill() {
    const BOOT: &str = "cat /proc/sys/kernel/random/boot_id";
    // what the mini guest prints once per boot
    const UP: &str = "mini: sshd up user=";
    let system = System::get().await;
    let id = system
        .user
        .launch("power", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    assert_eq!(text(&active, "/status/power"), "running");
    assert_eq!(text(&active, "/status/boot_id"), system.said(&active, BOOT));
    assert_devices(&system, &active).await;
    // the mini guest lives in memory, so the file is a block of the disk
    let write =
        "echo kept | dd of=/dev/vda bs=1M seek=80 conv=notrunc,fsync 2>/dev/null; echo written";
    let read = "dd if=/dev/vda bs=1M skip=80 count=1 2>/dev/null | head -c 4";
    assert_eq!(system.said(&active, write), "written");
    let started_at = until("the interval to be opened", TIMEOUT, async || {
        let path = format!("/api/v1/usage?allocation_id={id}");
        let usage = system.user.get(&path).await.ok()?;
        usage.pointer("/intervals/0/start_time").cloned()
    })
    .await;

    // what the real guest prints is read live
    let logs = |flags: &[&str]| tokio::task::block_in_place(|| system.logs(&id, flags));
    let first_boot = logs(&[]);
    assert_eq!(first_boot.matches(UP).count(), 1, "{first_boot}");
    // and it proves to others which VM it is
    super::identity::is_verified(&system, &active).await;

    let stopped = system.user.power(&id, "stop", "stopped").await;
    assert_eq!(text(&stopped, "/status/state"), "active");
    assert!(
        text(&stopped, "/status/billing").starts_with("Billed, "),
        "{stopped}"
    );
    let refused = system
        .user
        .post(&format!("/api/v1/allocations/{id}:reboot"), json!({}))
        .await
        .expect_err("nothing runs");
    assert_eq!(refused.reason(), "STATE_CONFLICT");
    assert_eq!(interval(&system, &id).await.pointer("/end_time"), None);

    let started = system.user.power(&id, "start", "running").await;
    let rebooted = {
        assert_eq!(system.said(&started, read), "kept");
        system.user.power(&id, "reboot", "running").await
    };
    assert_eq!(system.said(&rebooted, read), "kept");
    assert_eq!(
        text(&rebooted, "/status/boot_id"),
        system.said(&rebooted, BOOT)
    );
    let boots: Vec<&str> = [&active, &started, &rebooted]
        .iter()
        .map(|allocation| text(allocation, "/status/boot_id"))
        .collect();
    assert!(
        boots.iter().all(|boot| boot.len() == 36) && boots[0] != boots[1] && boots[1] != boots[2],
        "{boots:?}"
    );
    for allocation in [&stopped, &started, &rebooted] {
        assert_eq!(
            allocation.pointer("/status/access"),
            active.pointer("/status/access"),
            "address, port and host key are kept"
        );
    }
    let open = interval(&system, &id).await;
    assert_eq!(open.pointer("/end_time"), None);
    assert_eq!(open["start_time"], started_at);

    // a stopped one is released like any other
    system.user.power(&id, "stop", "stopped").await;
    system.user.release(&id).await;
    system
        .user
        .wait_state(&id, &["released"], TIMEOUT + Duration::from_secs(30))
        .await;
    system.assert_nothing_left().await;
    // and after its VM is gone: three boots
    let all = logs(&["--follow"]);
    assert!(all.starts_with(&first_boot), "{all}");
    assert_eq!(all.matches(UP).count(), 3, "{all}");
}

/// The lab host ends like a machine whose power fails, and starts as a boot of its own.
async fn a_vm_that_shut_down_with_its_host_is_started_again_and_says_so() {
    const BOOT: &str = "cat /proc/sys/kernel/random/boot_id";
    let system = System::get().await;
    let [id, stays_off] = [
        system
            .user
            .launch("with-host", "lab-mini", &system.public_key)
            .await,
        system
            .user
            .launch("stays-off", "lab-mini", &system.public_key)
            .await,
    ];
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    system
        .user
        .wait_state(&stays_off, &["active"], TIMEOUT)
        .await;
    let off = system.user.power(&stays_off, "stop", "stopped").await;
    let boot = system.said(&active, BOOT);

    let lab = system.stack.lab();
    lab.down();
    system
        .stack
        .lab_up(&lab, &|_| {})
        .await
        .expect("the host is back");
    let back = until("the VM to run anew", TIMEOUT, async || {
        let now = system
            .user
            .get(&format!("/api/v1/allocations/{id}"))
            .await
            .ok()?;
        let anew = text(&now, "/status/boot_id") != boot;
        (anew && text(&now, "/status/power") == "running").then_some(now)
    })
    .await;
    assert_eq!(system.said(&back, BOOT), text(&back, "/status/boot_id"));
    assert_eq!(
        back.pointer("/status/access"),
        active.pointer("/status/access")
    );
    let path = format!("/api/v1/allocations/{id}/timeline");
    let timeline = system.user.get(&path).await.expect("timeline");
    let reported = |entry: &Value| text(entry, "/message").starts_with("The host restarted");
    let entries = timeline["entries"].as_array().expect("entries");
    assert!(entries.iter().any(reported), "{timeline}");
    assert_eq!(interval(&system, &id).await.pointer("/end_time"), None);
    // who had it off finds it off
    let path = format!("/api/v1/allocations/{stays_off}");
    let still = system.user.get(&path).await.expect("shown");
    assert_eq!(text(&still, "/status/power"), "stopped");
    assert_eq!(
        still.pointer("/status/boot_id"),
        off.pointer("/status/boot_id")
    );
    for id in [id, stays_off] {
        system.user.release(&id).await;
        system.user.wait_state(&id, &["released"], TIMEOUT).await;
    }
    system.assert_nothing_left().await;
}
