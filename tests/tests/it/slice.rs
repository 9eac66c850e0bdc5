//! The life of a slice through the public API, on a real VM with a real disk: what a user sees, what is billed,
//! and what is left. The one test of `make test` that boots a VM; the others are in the program `host`.
use gpuaas_tests::api::text;
use gpuaas_tests::canary;
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::{Value, json};

/// An image is tried by a normal allocation (E-33), whose host takes it from the registry and verifies it (E-22,
/// E-23, CON-11).
#[tokio::test(flavor = "multi_thread")]
async fn p2_a_slice_from_request_to_a_clean_disk() {
    let system = System::get().await;
    let id = system
        .user
        .launch("whole-life", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;

    // C-15..C-19: the read model
    assert_eq!(
        text(&active, "/status/vm"),
        format!("gpuaas-slice-{}", id.replace('-', ""))
    );
    assert!(text(&active, "/status/access/guest_user").starts_with("u_"));
    assert!(text(&active, "/status/access/private_ip").starts_with("10.100.0."));
    assert_eq!(active.pointer("/status/access/ssh_port"), Some(&json!(22)));
    assert_eq!(
        active.pointer("/status/access/ssh_ready"),
        Some(&json!(true))
    );
    assert_eq!(active.pointer("/status/lab"), Some(&json!(true)));
    assert!(
        !active.to_string().contains("lab-disk:"),
        "H-14: no host detail for users"
    );

    // the owner logs in and leaves bytes on the disk, past the image, where only a wipe removes them
    let canary = format!("CANARY-{}", uuid::Uuid::now_v7().simple());
    let write = format!(
        "id -un; for at in 60 200 400; do echo {canary} | dd of=/dev/vda bs=1M seek=$at conv=notrunc 2>/dev/null; done; sync; echo written"
    );
    let login = system.ssh(&active, &write);
    let said = String::from_utf8_lossy(&login.stdout).into_owned();
    assert!(
        said.contains(text(&active, "/status/access/guest_user")),
        "{login:?}"
    );
    let file = system.disk_file(system.slot_of(&id).await);
    let found = canary::occurrences(&file, canary.as_bytes());
    assert_eq!(found, 3, "the canaries are on the disk: {login:?}");

    let usage = system
        .user
        .get(&format!("/api/v1/usage?allocation_id={id}"))
        .await
        .expect("usage");
    assert_eq!(
        usage["intervals"].as_array().map(Vec::len),
        Some(1),
        "{usage}"
    );
    assert_eq!(
        usage.pointer("/intervals/0/end_time"),
        None,
        "open while active"
    );

    // a terminal, with the shell's exit code
    let typed = "echo slice-terminal-$((40+2)); exit 7\n";
    let said = tokio::task::block_in_place(|| system.terminal(&id, typed));
    assert_eq!(said.status.code(), Some(7), "{said:?}");
    let output = String::from_utf8_lossy(&said.stdout).into_owned();
    assert!(output.contains("slice-terminal-42"), "{output}");

    // a reboot is another boot of the guest's kernel, on the same disk
    let boot = |allocation: &Value| system.said(allocation, "cat /proc/sys/kernel/random/boot_id");
    assert_eq!(text(&active, "/status/boot_id"), boot(&active));
    let rebooted = system.user.power(&id, "reboot", "running").await;
    assert_ne!(
        rebooted.pointer("/status/boot_id"),
        active.pointer("/status/boot_id")
    );
    assert_eq!(text(&rebooted, "/status/boot_id"), boot(&rebooted));
    assert_eq!(
        canary::occurrences(&file, canary.as_bytes()),
        3,
        "the disk is kept"
    );

    system.user.release(&id).await;
    let released = system.user.wait_state(&id, &["released"], TIMEOUT).await;
    assert_eq!(
        canary::occurrences(&file, canary.as_bytes()),
        0,
        "P2: no tenant byte survives"
    );

    // the bill: one closed interval that ends when the release was accepted, and exact money
    let interval = until("the interval to be closed", TIMEOUT, async || {
        let usage = system
            .user
            .get(&format!("/api/v1/usage?allocation_id={id}"))
            .await
            .ok()?;
        usage.pointer("/intervals/0/end_time")?;
        usage.pointer("/intervals/0").cloned()
    })
    .await;
    assert_eq!(interval["gpu_count"], json!(1));
    let micros: i128 = text(&interval, "/microseconds")
        .parse()
        .expect("microseconds");
    let nanos = |money: &Value| {
        let units: i128 = text(money, "/units").parse().unwrap_or(0);
        units * 1_000_000_000 + i128::from(money["nanos"].as_i64().unwrap_or(0))
    };
    let price = nanos(&interval["price_per_gpu_hour"]);
    let exact = micros * price;
    let hour = 3_600_000_000_i128;
    let amount = nanos(&interval["amount"]);
    assert!(
        (amount * hour - exact).abs() * 2 <= hour,
        "half-even to the nano-unit: {interval}"
    );
    assert!(text(&released, "/status/release_time") >= text(&interval, "/end_time"));

    let entries = system.user.timeline(&id).await;
    let sequences: Vec<i64> = entries
        .iter()
        .map(|e| text(e, "/sequence").parse().expect("a number"))
        .collect();
    assert_eq!(
        sequences,
        (1..=entries.len() as i64).collect::<Vec<_>>(),
        "no gaps"
    );
    assert!(entries.iter().all(|e| e["state"] == "done"), "{entries:#?}");
    system.assert_nothing_left().await;
}
