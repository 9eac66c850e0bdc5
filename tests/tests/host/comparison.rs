//! The comparison of a node with a real libvirt: the files of a VM that runs, and the correction of what an undefine left.
use gpuaas_tests::api::text;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use uuid::Uuid;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        d_72_d_82_nvram_and_seeds_are_compared_and_what_is_left_of_them_is_corrected: 50,
        d_82_a_host_is_compared_when_its_agent_starts: 10,
    ]
}

async fn row(system: &System, id: &str) -> Value {
    let path = format!("/api/v1/admin/nodes/{}/comparison", system.node_id);
    let compared = system.admin.get(&path).await.expect("compared");
    let rows = compared["rows"].as_array().cloned().unwrap_or_default();
    let found = rows.into_iter().find(|row| row["allocation_id"] == id);
    found.unwrap_or_else(|| panic!("{id}: {compared}"))
}

async fn d_72_d_82_nvram_and_seeds_are_compared_and_what_is_left_of_them_is_corrected() {
    const NVRAM: &str = "/var/lib/libvirt/qemu/nvram";
    let system = System::get().await;
    let lab = &system.hosts[0].lab;
    let sh = |command: &str| lab.exec("sh", &["-c", command]).expect(command);
    let id = system
        .user
        .launch("compared", "lab-mini", &system.public_key)
        .await;
    let active = system.user.wait_state(&id, &["active"], TIMEOUT).await;
    let well = row(&system, &id).await;
    let vm = text(&active, "/status/vm").to_owned();
    assert_eq!(well["verdict"], "agrees", "{well}");
    assert_eq!(
        (
            &well["has_nvram"],
            &well["has_port"],
            &well["has_reservation"]
        ),
        (&json!(true), &json!(true), &json!(true)),
        "{well}"
    );
    assert_ne!(well["has_seed"], true, "it is removed after the first boot");

    // the file that the VM names goes: its next start makes another
    let nvram = format!("{NVRAM}/{vm}_VARS.fd");
    sh(&format!("mv {nvram} {nvram}.away"));
    let without = row(&system, &id).await;
    assert_eq!(without["missing_files"], json!(["nvram"]), "{without}");
    assert_eq!(without["verdict"], "report");
    sh(&format!("mv {nvram}.away {nvram}"));
    assert_eq!(row(&system, &id).await["etag"], well["etag"]);

    // what it lost or kept for good is put right as the detail says
    let seed = lab.agent_folder().join("seeds").join(&vm);
    let reservation = lab
        .folder()
        .join(format!("run/dnsmasq.d/gpuaas-{vm}.conf"))
        .display()
        .to_string();
    sh(&format!(
        "rm {nvram} {reservation} && mkdir {0} && touch {0}/seed.iso",
        seed.display()
    ));
    let broken = row(&system, &id).await;
    assert_eq!(
        (
            &broken["missing_files"],
            &broken["has_seed"],
            &broken["verdict"]
        ),
        (&json!(["nvram"]), &json!(true), &json!("report")),
        "{broken}"
    );
    assert_ne!(broken["has_reservation"], true, "{broken}");
    assert!(
        text(&broken, "/detail").contains("stop and start it"),
        "{broken}"
    );
    system.user.power(&id, "stop", "stopped").await;
    let started = system.user.power(&id, "start", "running").await;
    assert_eq!(system.said(&started, "echo here"), "here");
    let again = row(&system, &id).await;
    assert_eq!(again["verdict"], "agrees", "{again}");
    assert_eq!(again["etag"], well["etag"], "{again}");
    system.user.release(&id).await;

    // what an undefine without --nvram leaves of a VM that nobody knows
    let unknown = Uuid::now_v7();
    let nvram = format!("{NVRAM}/gpuaas-slice-{}_VARS.fd", unknown.simple());
    sh(&format!("touch {nvram}"));
    let left = row(&system, &unknown.to_string()).await;
    assert_eq!(
        (&left["correction"], &left["has_nvram"]),
        (&json!("undo"), &json!(true))
    );
    let correct = format!(
        "/api/v1/admin/nodes/{}/comparison/{unknown}:correct",
        system.node_id
    );
    let body = json!({ "correction": "undo", "etag": left["etag"], "reason": "test" });
    let corrected = system.admin.post(&correct, body.clone()).await;
    assert_eq!(corrected.expect("corrected")["verdict"], "agrees");
    let late = system.admin.post(&correct, body).await.expect_err("gone");
    assert_eq!(late.reason(), "ETAG_STALE");
    system.assert_nothing_left().await;
}

/// Sooner than at the next interval, which is longer than this.
async fn d_82_a_host_is_compared_when_its_agent_starts() {
    const SOON: &str = "SELECT visited_at - noted_at < interval '5 seconds'
           FROM placement.agent_starts s JOIN placement.node_visits v USING (node_id)
          WHERE node_id = $1::uuid AND started_at > $2::timestamptz AND visited_at > noted_at";
    let system = System::get().await;
    let mut database = system.database().await;
    let before: String = sqlx::query_scalar("SELECT clock_timestamp()::text")
        .fetch_one(&mut database)
        .await
        .expect("a time");
    let agent = system.hosts[0].lab.agent_process().expect("an agent");
    agent.signal(Signal::SIGKILL);
    let is_soon: bool = until("the comparison", TIMEOUT, async || {
        let query = sqlx::query_scalar(SOON).bind(&system.node_id);
        let found = query.bind(&before).fetch_optional(&mut database).await;
        found.expect("the ledger")
    })
    .await;
    assert!(is_soon);
    system.assert_nothing_left().await;
}
