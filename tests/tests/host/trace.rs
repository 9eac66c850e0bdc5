//! One trace from the HTTP request through the workflow to the steps on the host, also when the service that
//! runs the workflow was killed in between.
use gpuaas_tests::kill::Kill;
use gpuaas_tests::otlp::Collector;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{System, TIMEOUT};
use gpuaas_tests::until::until;
use serde_json::json;
use sqlx::Row as _;

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        one_trace_from_request_to_host_also_after_a_restart: 22,
    ]
}

async fn one_trace_from_request_to_host_also_after_a_restart() {
    let system = System::get().await;
    let address = System::otlp_endpoint()
        .trim_start_matches("http://")
        .parse()
        .expect("address");
    let collector = Collector::listen(&[address]).await;
    // the exporters look for the collector again by themselves; the killed service starts with it there
    let file = system.kill_file();
    let kill = Kill::arm(
        &file,
        &file.with_file_name("kill-allocation.hit"),
        "provision.provision:after",
    );
    let id = system
        .user
        .launch("traced", "lab-mini", &system.public_key)
        .await;
    kill.hit(TIMEOUT).await;
    system.allocation_up(1).await;
    system.user.wait_state(&id, &["active"], TIMEOUT).await;

    let row = sqlx::query("SELECT traceparent FROM placement.allocations WHERE id = $1::uuid")
        .bind(&id)
        .fetch_one(&mut system.database().await)
        .await
        .expect("the allocation");
    let traceparent: String = row.get(0);
    let trace = traceparent
        .split('-')
        .nth(1)
        .expect("a W3C traceparent")
        .to_owned();
    let expected = ["gateway", "allocation", "scheduler", "node-agent"];
    // exporters send in batches: the last steps may arrive seconds after the first
    let steps = ["host.clone", "host.wait_login", "provision.activate"];
    until("spans of every part in one trace", TIMEOUT, async || {
        let services = collector.services(&trace);
        let spans = collector.trace(&trace);
        let parts = expected
            .iter()
            .all(|part| services.iter().any(|s| s.contains(part)));
        let seen = steps
            .iter()
            .all(|step| spans.iter().any(|span| span.name == *step));
        (parts && seen).then_some(())
    })
    .await;
    system
        .user
        .post(&format!("/api/v1/allocations/{id}:release"), json!({}))
        .await
        .expect("release");
    system.user.wait_state(&id, &["released"], TIMEOUT).await;
    system.assert_nothing_left().await;
}
