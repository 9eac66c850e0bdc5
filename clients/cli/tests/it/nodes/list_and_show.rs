//! Nodes that are found, listed and described.
use serde_json::{Value, json};

use super::{NODE, SLOT};
use crate::support::World;

#[test]
fn a_node_is_described_with_what_to_do_about_its_checks_and_what_differs() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}");
    let check = |check: &str, status: &str| json!({ "check": check, "status": status, "severity": "hard", "detail": "no rule masquerades 10.100.0.0/24", "remediation": format!("Run host.sh {check}."), "observed_at": "2026-01-02T03:04:05Z" });
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" } }] }),
    );
    world.get(
        &path,
        json!({ "id": NODE, "config": { "hostname": "h1", "mode": "slice", "region_code": "lab" }, "status": {
            "state": "enrolled", "host_profile": "h200", "blockers": ["nat: no rule"], "instance": { "agent_version": "1.2.3" },
            "life": { "state": "validating", "reason": "nat", "since": "2026-01-02T03:04:05Z" },
            "onboarding": [{ "number": 1, "name": "enrol", "state": "done" }, { "number": 2, "name": "activate", "state": "current", "detail": "nat fails" }],
            "evidence": [check("kvm", "pass"), check("nat", "fail")] } }),
    );
    world.get(
        &format!("{path}/history"),
        json!({ "entries": [{ "time": "2026-01-02T03:04:05Z", "state": "cordoned", "reason": "new power supply", "principal": "user:admin" }, { "state": "ready" },
            { "state": "enrolled", "reason": "no_evidence", "principal": format!("node:{NODE}") }] }),
    );
    world.get(
        &format!("{path}/placement"),
        json!({ "node_id": NODE, "admin_state": "cordoned", "admin_reason": "new power supply" }),
    );
    world.get(&format!("{path}/resource-slots"), json!({ "slots": [{ "id": SLOT, "slot_index": 0, "status": "available", "bindings": { "gpu_pci_address": "0000:1b:00.0" },
        "storage_ownership": "slice", "storage_mode": "slice", "storage_transition_manifest": "/var/log/gpuaas/one.txt" }] }));
    world.get(
        &format!("{path}/slice-topology/discovery"),
        json!({ "state": "completed",
            "comparisons": [
                { "slot_index": 0, "state": "different", "bindings": [{ "field": "nvme_device", "approved": "disk-a", "found": "disk-b", "differs": true }] },
                { "slot_index": 1, "state": "not_found" },
            ],
            "host": { "machine": { "vendor": "Dell", "model": "XE9680L" }, "gpus": [{ "function": { "pci_address": "0000:1b:00.0", "numa_node": 1 }, "uuid": "GPU-7" }],
                "disks": [{ "kernel_name": "nvme9n1", "bytes": "1073741824", "uses": [{ "kind": "mount", "device": "nvme9n1p1" }] }] } }),
    );
    let ran = world.run(&["admin", "node", "show", "h1"]).ok();
    for reported in [
        "h200",
        "1.2.3",
        "cordoned: new power supply",
        "nat: no rule",
        "To do, nat: Run host.sh nat.",
        "disk-a    disk-b",
        "Not found: slot 1.",
        //
        "0     slice  slice  /var/log/gpuaas/one.txt",
        "Dell XE9680L",
        "0000:1b:00.0  1     0     -",
        "in use: mount nvme9n1p1",
        "validating since 2026-01-02",
        "activate  current  nat fails",
        "cordoned  user:admin  new power supply",
        "ready     host",
        "enrolled  host        no_evidence: no checks from the agent yet",
        "State        validating",
    ] {
        assert!(ran.out.contains(reported), "{reported}: {}", ran.out);
    }
    // what fails comes first, and what passes needs nothing done
    let place = |text: &str| ran.out.find(text).expect("shown");
    assert!(
        place("nat    fail    hard") < place("kvm    pass    hard"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("host.sh kvm"), "{}", ran.out);
    let reported = world
        .run(&["admin", "node", "show", "h1", "--output", "json"])
        .ok()
        .json();
    assert_eq!(reported["node"]["placement"]["admin_state"], "cordoned");
    assert_eq!(reported["slots"][0]["slot_index"], 0);
    assert_eq!(reported["history"][1]["state"], "ready");
    assert_eq!(
        reported["discovery"]["comparisons"][1]["state"],
        "not_found"
    );
}

#[test]
fn a_node_that_nobody_has_heard_of_yet_is_described_with_what_comes_next() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}");
    world.get(
        &path,
        json!({ "id": NODE, "config": { "hostname": "h1" }, "status": { "state": "pending" } }),
    );
    world.get(&format!("{path}/resource-slots"), json!({}));
    world.get(&format!("{path}/history"), json!({}));
    let ran = world.run(&["admin", "node", "show", NODE]).ok();
    for reported in ["enrolment token", "gpuaas admin node discover"] {
        assert!(ran.out.contains(reported), "{reported}: {}", ran.out);
    }
}

#[test]
fn h_04_nodes_are_found_by_name_blocker_region_mode_and_health() {
    let world = World::new();
    let node = |name: &str, region: &str, status: Value| json!({ "id": format!("id-{name}"), "config": { "hostname": name, "region_code": region, "mode": "slice" }, "status": status });
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [
            node("h1", "eu", json!({ "state": "enrolled", "schedulable": true })),
            node("h2", "us", json!({ "state": "enrolled", "schedulable": true })),
            node("h3", "eu", json!({ "state": "enrolled", "blockers": ["NAT is missing"] })),
            node("h4", "eu", json!({ "state": "lost" })),
            node("h5", "eu", json!({ "state": "pending" })),
        ] }),
    );
    world.get(
        "/api/v1/admin/node-placements",
        json!({ "nodes": [{ "node_id": "id-h2", "admin_state": "draining" }] }),
    );
    let found = |flags: &[&str]| {
        let ran = world.run(&[&["admin", "node", "list", "--output", "json"], flags].concat());
        let reported = ran.ok().json();
        let names = reported["nodes"].as_array().expect("nodes").iter();
        let names = names.map(|one| one["config"]["hostname"].as_str().expect("name").to_owned());
        names.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(found(&[]), "h1 h2 h3 h4 h5");
    assert_eq!(found(&["--search", "nat"]), "h3");
    assert_eq!(found(&["--region", "us"]), "h2");
    assert_eq!(found(&["--mode", "baremetal"]), "");
    for (health, name) in [
        ("schedulable", "h1"),
        ("out-of-service", "h2"),
        ("not-ready", "h3"),
        ("lost", "h4"),
        ("waiting", "h5"),
    ] {
        assert_eq!(found(&["--health", health]), name);
    }
    let ran = world.run(&["admin", "node", "list", "--search", "h1"]).ok();
    let health =
        "5 nodes: 1 schedulable, 1 out of service, 1 not ready, 1 lost, 1 waiting for their agent.";
    assert!(
        ran.out.trim_end().ends_with(health) && !ran.out.contains("h2"),
        "{}",
        ran.out
    );
    let ran = world
        .run(&["admin", "node", "list", "--search", "nothing"])
        .ok();
    assert!(
        ran.out.starts_with("No node matches. 5 nodes"),
        "{}",
        ran.out
    );
}

///
#[test]
fn i_219_a_report_of_a_host_is_attached_to_its_node_and_shown() {
    let world = World::new();
    let node = json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" } }] });
    world.get("/api/v1/admin/nodes", node);
    let report = json!({
        "schema": 1, "agent_version": "1.4.0", "agent_built_at": "2026-11-01T00:00:00Z", "time": "2026-01-02T03:04:05Z",
        "kind": "slice host", "host": { "hostname": "h1" }, "hardware": { "gpus": 8 },
        "checks": [{ "check": "kvm", "status": "PASS", "severity": "hard", "remediation": "Load kvm." },
                   { "check": "nat", "status": "FAIL", "severity": "hard", "detail": "no rule", "remediation": "Run net-baseline." }],
        "versions": { "qemu-img": "8.2" }, "baseline": { "libvirtd": "active" }, "blockers": ["nat"],
        "by_hand": [{ "id": "first_slice", "what": "Launch one.", "good": "It runs.", "result": "good, 2026-01-03" },
                    { "id": "gpu_reset", "what": "Release ten times.", "good": "Every reset succeeds.", "result": "" }],
    });
    let attached = json!({ "id": SLOT, "node_id": NODE, "report": report, "principal": "user:root",
        "attach_time": "2026-01-04T00:00:00Z" });
    let path = format!("/api/v1/admin/nodes/{NODE}/host-reports");
    world.on("POST", &path, [(200, attached.clone())]);
    let file = |name: &str, text: &str| {
        let path = world.home.path().join(name);
        std::fs::write(&path, text).expect("write");
        path.to_str().expect("path").to_owned()
    };
    let good = file("host.json", &report.to_string());
    let ran = world
        .run(&["admin", "node", "report", "attach", "h1", &good])
        .ok();
    assert!(
        ran.out
            .contains("1 passed, 1 failed, 0 warned, 0 do not apply; by hand 1 of 2 done"),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(sent.body, json!({ "report": report }));
    assert!(sent.key.is_some());
    let sent = world.changes().len();
    for (name, text, rule) in [
        ("text", "PASS kvm", "is not JSON"),
        ("list", "[]", "is no report"),
        ("long", "x".repeat((256 << 10) + 1).as_str(), "longer than"),
    ] {
        let ran = world.run(&["admin", "node", "report", "attach", "h1", &file(name, text)]);
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(rule), "{}", ran.err);
    }
    assert_eq!(world.changes().len(), sent, "nothing of them was sent");

    world.get(&path, json!({ "reports": [attached] }));
    let ran = world.run(&["admin", "node", "report", "show", "h1"]).ok();
    for text in [
        "by user:root",
        "on a slice host",
        "1.4.0 built",
        "Blockers",
        "good, 2026-01-03",
        "gpus: 8",
        "libvirtd: active",
    ] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    assert!(ran.out.contains("no rule Run net-baseline."), "{}", ran.out);
    assert!(
        ran.out
            .contains("not done: Release ten times. Good: Every reset succeeds."),
        "{}",
        ran.out
    );
    assert!(
        !ran.out.contains("Load kvm."),
        "what passes needs nothing done: {}",
        ran.out
    );
    let earlier_id = "01930000-000a-7000-8000-00000000000a";
    let earlier = json!({ "id": earlier_id, "node_id": NODE, "report": { "agent_version": "1.3.0" },
        "principal": "user:eve", "attach_time": "2026-01-03T00:00:00Z" });
    world.get(&path, json!({ "reports": [attached, earlier] }));
    let list = ["admin", "node", "report", "list", "h1"];
    let filter = "failed_checks > 0";
    let ran = world.run(&[&list[..], &["--filter", filter, "--sort", "time"]].concat());
    let ran = ran.ok();
    for text in ["user:root", "1 failed", "user:eve", "1.3.0", earlier_id] {
        assert!(ran.out.contains(text), "{text}: {}", ran.out);
    }
    let asked = world.seen().pop().expect("a request").target;
    for part in [
        "filter=failed_checks+%3E+0",
        "order_by=time",
        "page_size=10",
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    let show = ["admin", "node", "report", "show", "h1"];
    let ran = world.run(&[&show[..], &[earlier_id]].concat()).ok();
    assert!(ran.out.contains("by user:eve"), "{}", ran.out);
    let ran = world.run(&[&show[..], &["ffff"]].concat());
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("report list h1"), "{}", ran.err);
    world.get(&path, json!({}));
    let ran = world.run(&[&list[..], &["--filter", filter]].concat()).ok();
    assert!(
        ran.out.contains("No report matches the filter"),
        "{}",
        ran.out
    );
    let ran = world.run(&["admin", "node", "report", "show", "h1"]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(
        ran.err.contains("gpuaas-node-agent validate-host --report"),
        "{}",
        ran.err
    );
}
