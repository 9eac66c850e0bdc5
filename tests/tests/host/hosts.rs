//! Two lab hosts: what the scheduler keeps together and apart, and the loss of one of them for good.
use std::time::Duration;

use gpuaas_dev::stack::Kind;
use gpuaas_tests::api::{launch_body, text};
use gpuaas_tests::canary;
use gpuaas_tests::runner::{Case, Place};
use gpuaas_tests::system::{Host, System, TIMEOUT};
use gpuaas_tests::until::until;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

/// The tests of this file, with the seconds that each usually takes.
pub fn cases() -> Vec<Case> {
    gpuaas_tests::cases![Place::System;
        b_43_what_is_to_be_apart_runs_on_two_hosts_and_what_belongs_together_on_one: 40,
        b_28_c_12_c_13_p2_p3_a_lost_host_is_given_up_and_is_wiped_when_it_is_back: 120,
    ]
}

/// Launches with a label and placement constraints.
async fn try_launch(
    system: &System,
    name: &str,
    label: &str,
    placement: Value,
) -> Result<String, gpuaas_tests::api::Refusal> {
    let mut body = launch_body(name, "lab-mini", &system.public_key);
    body["labels"] = json!({ "app": label });
    body["placement"] = placement;
    let created = system.user.post("/api/v1/allocations", body).await?;
    Ok(created["id"].as_str().expect("an id").to_owned())
}

async fn launch(system: &System, name: &str, label: &str, placement: Value) -> String {
    let launched = try_launch(system, name, label, placement).await;
    launched.unwrap_or_else(|refusal| panic!("launch of {name} refused: {}", refusal.body))
}

async fn active(system: &System, id: &str) -> Value {
    system.user.wait_state(id, &["active"], TIMEOUT).await
}

async fn release(system: &System, ids: &[&str]) {
    for id in ids {
        system.user.release(id).await;
    }
    for id in ids {
        system.user.wait_state(id, &["released"], TIMEOUT).await;
    }
}

async fn b_43_what_is_to_be_apart_runs_on_two_hosts_and_what_belongs_together_on_one() {
    let system = System::with_hosts(2).await;
    let apart = json!({ "anti_affinity_label": "app=db" });
    let first = launch(&system, "db-1", "db", apart.clone()).await;
    let second = launch(&system, "db-2", "db", apart.clone()).await;
    let [here, there] = [
        system.host_of(&first).await.node_id.clone(),
        system.host_of(&second).await.node_id.clone(),
    ];
    assert_ne!(here, there, "a host each");
    let refused = try_launch(&system, "db-3", "db", apart).await;
    let refused = refused.expect_err("both hosts have one");
    assert!(
        refused.body.to_string().contains("AFFINITY"),
        "{}",
        refused.body
    );

    // one slot is free on each host
    let web = launch(&system, "web", "web", json!({ "affinity": second })).await;
    assert_eq!(system.host_of(&web).await.node_id, there);
    let beside = try_launch(&system, "beside", "web", json!({ "affinity": second })).await;
    let beside = beside.expect_err("that host is full");
    assert!(
        beside.body.to_string().contains("AFFINITY"),
        "{}",
        beside.body
    );
    let other = json!({ "affinity_label": "app=db", "anti_affinity": [web] });
    let other = launch(&system, "other", "web", other).await;
    assert_eq!(system.host_of(&other).await.node_id, here);

    release(&system, &[&web, &other]).await;

    // guests of two hosts have the same addresses on their hosts; each is reached at a port of its own
    for (id, name) in [(&first, "db-1"), (&second, "db-2")] {
        let allocation = active(&system, id).await;
        assert_eq!(system.said(&allocation, "hostname"), name);
    }
    release(&system, &[&first, &second]).await;
    system.assert_nothing_left().await;
}

/// The host is cut off, so that its VM runs on while nobody can say so; it is given up, and comes back.
async fn b_28_c_12_c_13_p2_p3_a_lost_host_is_given_up_and_is_wiped_when_it_is_back() {
    let system = System::with_hosts(2).await;
    let stays = launch(&system, "stays", "web", json!({})).await;
    let lost = launch(&system, "lost", "web", json!({ "anti_affinity": [stays] })).await;
    let [stays_now, lost_now] = [active(&system, &stays).await, active(&system, &lost).await];
    let host = system.host_of(&lost).await;
    let index = system.slot_on(host, &lost).await;
    let file = host.disk_file(index);
    let canary = format!("CANARY-{}", uuid::Uuid::now_v7().simple());
    let write = format!(
        "echo {canary} | dd of=/dev/vda bs=1M seek=300 conv=notrunc,fsync 2>/dev/null; echo written"
    );
    assert_eq!(system.said(&lost_now, &write), "written");
    let forced = format!("/api/v1/admin/allocations/{lost}:forceRelease");
    let word = json!({ "host_fate": "written_off", "reason": "the rack is flooded" });
    let refused = system.admin.post(&forced, word.clone()).await;
    let refused = refused.expect_err("its host answers");
    assert_eq!(refused.reason(), "STATE_CONFLICT");

    // a proof of life from after it became active, so that there is time to bill
    let path = format!("/api/v1/admin/nodes/{}", host.node_id);
    let heard = async || {
        let node = system.admin.get(&path).await.ok()?;
        Some(text(&node, "/status/last_heartbeat_time").to_owned())
    };
    let before = heard().await.expect("the node");
    until("the next heartbeat", TIMEOUT, async || {
        (heard().await? != before).then_some(())
    })
    .await;

    host.lab.join_network(false).expect("the link");
    let agent = host.lab.agent_process().expect("an agent");
    agent.stop(Signal::SIGKILL, Duration::from_secs(5));
    let silent = lost_condition(&system, &lost).await;
    let since = text(&silent, "/status/conditions/0/since").to_owned();
    assert!(
        text(&silent, "/status/conditions/0/message").contains("does not answer"),
        "{silent}"
    );
    assert_eq!(text(&silent, "/status/state"), "active");
    let path = format!("/api/v1/allocations/{stays}");
    let unharmed = system.user.get(&path).await.expect("shown");
    assert_eq!(unharmed["status"]["conditions"], json!([]));
    assert_eq!(system.said(&stays_now, "hostname"), "stays");
    // its other slot is free, but nothing is placed on a host that is lost
    let away = json!({ "anti_affinity": [stays] });
    let nowhere = try_launch(&system, "nowhere", "web", away.clone()).await;
    nowhere.expect_err("the other host is excluded");

    let word = system.admin.post(&forced, word).await;
    let word = word.unwrap_or_else(|refusal| panic!("{}", refusal.body));
    assert_eq!(text(&word, "/allocation/status/state"), "released");
    assert_eq!(word["host_last_heartbeat_time"], since.as_str());
    assert_eq!(word["billing_end_time"], since.as_str());
    let active_time = text(&lost_now, "/status/active_time");
    assert_ne!(since, active_time);
    let billed = until("the interval to be closed", TIMEOUT, async || {
        let path = format!("/api/v1/usage?allocation_id={lost}");
        let usage = system.user.get(&path).await.ok()?;
        assert_eq!(usage["intervals"].as_array().map(Vec::len), Some(1));
        assert_eq!(usage["intervals"][0]["start_time"], active_time);
        usage.pointer("/intervals/0/end_time").cloned()
    })
    .await;
    assert_eq!(
        billed,
        since.as_str(),
        "billed until the last proof of life"
    );
    let given_up = system.wait_slot_on(host, index, "disabled").await;
    // what the platform does not reach goes on
    let vm = text(&lost_now, "/status/vm");
    assert_eq!(domain(host, vm), "running");
    assert_eq!(canary::occurrences(&file, canary.as_bytes()), 1);

    host.lab.join_network(true).expect("the link");
    system.wait_schedulable(host).await;
    until("the VM to be found", TIMEOUT, async || {
        (residue(&system, host, "leaked_domain").await == Some(1)).then_some(())
    })
    .await;
    // neither the host's words nor its journal bring the allocation back, and its slot is not allocated
    let path = format!("/api/v1/allocations/{lost}");
    let ended = system.user.get(&path).await.expect("shown");
    assert_eq!(text(&ended, "/status/state"), "released");
    let still = system.wait_slot_on(host, index, "disabled").await;
    assert_eq!(still["generation"], given_up["generation"]);
    let beside = launch(&system, "beside", "web", away.clone()).await;
    let full = try_launch(&system, "full", "web", away.clone()).await;
    full.expect_err("of its two slots one is not schedulable");

    system.repair(&still).await;
    let clean = system.wait_slot_on(host, index, "available").await;
    assert!(
        text(&clean, "/clean_evidence").starts_with("wiped: "),
        "{clean}"
    );
    assert_eq!(clean["clean_generation"], clean["generation"]);
    assert!(!domains(host).contains(&vm.to_owned()), "the VM is gone");
    assert!(canary::is_zero(&file), "all of the disk");

    let next = launch(&system, "next", "web", away).await;
    let next_now = active(&system, &next).await;
    assert_eq!(system.slot_on(host, &next).await, index);
    let read = format!("tr -d '\\000' < /dev/vda | grep -c {canary}");
    assert_eq!(system.said(&next_now, &read), "0");
    let usage = format!("/api/v1/usage?allocation_id={lost}");
    let usage = system.user.get(&usage).await.expect("usage");
    assert_eq!(usage["intervals"].as_array().map(Vec::len), Some(1));
    assert_eq!(usage["intervals"][0]["end_time"], since.as_str());

    active(&system, &beside).await;
    release(&system, &[&stays, &beside, &next]).await;
    system.assert_nothing_left().await;
    until("nothing to be leaked any more", TIMEOUT, async || {
        (residue(&system, host, "leaked_domain").await == Some(0)).then_some(())
    })
    .await;
}

/// An allocation once it says that its host is lost.
async fn lost_condition(system: &System, id: &str) -> Value {
    until("the condition of the allocation", TIMEOUT, async || {
        let path = format!("/api/v1/allocations/{id}");
        let now = system.user.get(&path).await.ok()?;
        let is_lost = text(&now, "/status/conditions/0/type") == "host_lost";
        is_lost.then_some(now)
    })
    .await
}

/// Differences of a kind that the last comparison found on a host.
async fn residue(system: &System, host: &Host, kind: &str) -> Option<u64> {
    let allocation = Kind::find("allocation").expect("known");
    let address = allocation.metrics(system.stack.options().instance, 1);
    let page = reqwest::get(format!("http://{address}/metrics")).await;
    let page = page.ok()?.text().await.ok()?;
    let line = page.lines().find(|line| {
        line.starts_with("allocation_host_residue")
            && line.contains(&format!("\"{kind}\""))
            && line.contains(&host.node_id)
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

fn domain(host: &Host, vm: &str) -> String {
    let state = host
        .lab
        .exec("virsh", &["-q", "-c", "qemu:///system", "domstate", vm]);
    state.expect("a domain").trim().to_owned()
}

fn domains(host: &Host) -> Vec<String> {
    let all = ["-q", "-c", "qemu:///system", "list", "--all", "--name"];
    let all = host.lab.exec("virsh", &all).expect("domains");
    all.split_whitespace().map(str::to_owned).collect()
}
