//! Hosts and their slots: discovery, approval, repair, proof.
use crate::support::World;
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const SLOT: &str = "01930000-0008-7000-8000-000000000008";

fn discovery(state: &str) -> Value {
    json!({ "id": "d1", "node_id": NODE, "state": state, "error": "the host is away", "candidates": [
        { "slot_index": 0, "slot_class": "lab", "blockers": [] },
        { "slot_index": 1, "slot_class": "lab", "blockers": ["disk is mounted"] },
    ] })
}

#[test]
fn d_75_only_a_wipe_policy_that_the_disk_can_do_is_sent() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/slice-topology/discovery");
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] }),
    );
    let mut found = discovery("completed");
    found["candidates"][0]["bindings"] =
        json!({ "nvme_device": "lab-disk:a", "destructive_wipe_policy": "blkdiscard" });
    found["inspected_devices"] = json!([
        { "device": "lab-disk:a", "wipe_policies": ["blkdiscard", "site_erase"] },
        { "device": "lab-disk:b", "wipe_policies": ["blkdiscard", "nvme_format"] },
    ]);
    world.on("POST", &path, [(200, found.clone())]);
    world.on("GET", &path, [(200, found)]);
    let shown = world.run(&["admin", "node", "discover", "h1"]).ok();
    assert!(
        shown.out.contains("approvable") && shown.out.contains("blkdiscard, or site_erase"),
        "{}",
        shown.out
    );
    let approve = format!("/api/v1/admin/nodes/{NODE}/resource-slots:approve");
    world.on("POST", &approve, [(200, json!({ "slots": [] }))]);
    let before = world.changes().len();
    let choose = [
        "admin",
        "slots",
        "approve",
        "h1",
        "--index",
        "0",
        "--wipe-policy",
    ];
    let ran = world.run(&[&choose[..], &["0=nvme_format"]].concat());
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(
        ran.err.contains("its host can: blkdiscard, site_erase"),
        "{}",
        ran.err
    );
    assert_eq!(world.changes().len(), before, "nothing is sent");
    // the other disk can
    let other = ["0=nvme_format", "--disk", "0=lab-disk:b"];
    world.run(&[&choose[..], &other].concat()).ok();
    assert_eq!(world.changes().len(), before + 1);
}

#[test]
fn discovery_is_waited_for_and_what_fits_is_approved() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/slice-topology/discovery");
    world.get(
        "/api/v1/admin/nodes",
        json!({ "nodes": [{ "id": NODE, "config": { "hostname": "h1" }, "status": {} }] }),
    );
    world.on("POST", &path, [(200, discovery("queued"))]);
    world.on(
        "GET",
        &path,
        [(200, discovery("running")), (200, discovery("completed"))],
    );
    let ran = world
        .run(&["admin", "node", "discover", "h1", "--wait"])
        .ok();
    assert!(
        ran.out.contains("0      lab    approvable")
            && ran.out.contains("1      lab    disk is mounted"),
        "{}",
        ran.out
    );

    let approve = format!("/api/v1/admin/nodes/{NODE}/resource-slots:approve");
    world.on("POST", &approve, [(200, json!({ "slots": [{ "id": SLOT, "slot_index": 0, "slot_class": "lab", "status": "available", "health_state": "healthy", "generation": "0" }] }))]);
    let ran = world
        .run(&["admin", "slots", "approve", "h1", "--all"])
        .ok();
    assert!(ran.out.contains("available  healthy"), "{}", ran.out);
    assert_eq!(
        world.changes().pop().expect("sent").body,
        json!({ "discovery_id": "d1", "slot_indexes": [0] })
    );
    // a candidate whose disk is mounted gets another one
    let choose = ["admin", "slots", "approve", "h1", "--all", "--disk"];
    let policy = [
        "--wipe-policy",
        "1=nvme_format",
        "--wipe-policy",
        "0=blkdiscard",
    ];
    world
        .run(&[&choose[..], &["1=lab-disk:spare"], &policy].concat())
        .ok();
    assert_eq!(
        world.changes().pop().expect("sent").body,
        json!({ "discovery_id": "d1", "slot_indexes": [0, 1], "choices": [
            { "destructive_wipe_policy": "blkdiscard" },
            { "slot_index": 1, "nvme_device": "lab-disk:spare", "destructive_wipe_policy": "nvme_format" },
        ] })
    );
    for wrong in ["spare", "x=spare"] {
        let ran = world.run(&[&choose[..], &[wrong]].concat());
        assert_eq!(ran.code, 2, "{wrong}: {}", ran.err);
    }

    world.on("POST", &path, [(200, discovery("failed"))]);
    let ran = world.run(&["admin", "node", "discover", NODE, "--wait"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (1, "error: the discovery failed: the host is away\n")
    );
}

#[test]
fn a_slot_is_named_by_index_and_its_repair_waited_for() {
    let world = World::new();
    let slots = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    world.get(
        &slots,
        json!({ "slots": [{ "id": SLOT, "slot_index": 1 }] }),
    );
    let repair = |state: &str| json!({ "id": "r", "slot_id": SLOT, "state": state, "slot_status": "available", "health_state": "healthy", "detail": "not empty" });
    world.on(
        "POST",
        &format!("{slots}/{SLOT}:repair"),
        [(200, repair("running"))],
    );
    world.on(
        "GET",
        &format!("{slots}/{SLOT}/repair"),
        [(200, repair("running")), (200, repair("done"))],
    );
    let ran = world
        .run(&[
            "admin",
            "slots",
            "repair",
            NODE,
            "1",
            "--reason",
            "guest never answered",
            "--wait",
        ])
        .ok();
    assert_eq!(
        ran.out,
        format!("Slot 1 of {NODE} is available and healthy.\n")
    );
    world.on(
        "GET",
        &format!("{slots}/{SLOT}/repair"),
        [(200, repair("failed"))],
    );
    assert_eq!(
        world
            .run(&[
                "admin", "slots", "repair", NODE, "1", "--reason", "r", "--wait"
            ])
            .code,
        1
    );
    world.on(
        "POST",
        &format!("{slots}/{SLOT}:disable"),
        [(200, json!({ "id": SLOT, "status": "disabled" }))],
    );
    assert_eq!(
        world
            .run(&["admin", "slots", "disable", NODE, "1"])
            .ok()
            .out,
        format!("Slot 1 of {NODE} is disabled and unschedulable.\n")
    );
}

#[test]
fn a_slot_shows_the_proof_of_its_own_generation_only() {
    let world = World::new();
    let slot = |proven: &str| {
        json!({ "id": SLOT, "slot_index": 0, "status": "active", "health_state": "healthy", "generation": "7",
            "clean_evidence": "wiped: blkdiscard", "clean_generation": proven })
    };
    let path = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    for (proven, is_shown) in [("6", false), ("7", true)] {
        world.get(&path, json!({ "slots": [slot(proven)] }));
        let ran = world.run(&["slots", NODE]).ok();
        assert_eq!(ran.out.contains("wiped:"), is_shown, "{}", ran.out);
    }
}

#[test]
fn b_28_an_allocation_on_a_lost_host_is_released_by_force() {
    const ALLOCATION: &str = "01930000-0001-7000-8000-000000000001";
    let world = World::new();
    let path = format!("/api/v1/admin/allocations/{ALLOCATION}:forceRelease");
    let answer = json!({ "allocation": { "id": ALLOCATION, "status": { "state": "released" } }, "node_id": NODE,
        "billing_end_time": "2026-01-02T03:04:05Z", "slot_ids": [SLOT] });
    world.on("POST", &path, [(200, answer)]);
    let force = [
        "admin",
        "allocation",
        "force-release",
        ALLOCATION,
        "--reason",
        "fire",
    ];
    let ran = world
        .run(&[&force[..], &["--host", "powered-off"]].concat())
        .ok();
    for reported in [
        "is released.",
        "2026-01-02",
        SLOT,
        "gpuaas admin slots repair",
    ] {
        assert!(ran.out.contains(reported), "{reported}: {}", ran.out);
    }
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        sent.body,
        json!({ "host_fate": "powered_off", "reason": "fire" })
    );

    let more = [
        "--host",
        "written-off",
        "--billing-end",
        "2026-01-02T03:04:05Z",
        "--dry-run",
    ];
    let ran = world.run(&[&force[..], &more].concat()).ok();
    assert!(
        ran.out.contains("would be released. Nothing was changed."),
        "{}",
        ran.out
    );
    let sent = world.changes().pop().expect("sent");
    assert_eq!(
        sent.body,
        json!({ "host_fate": "written_off", "reason": "fire", "billing_end_time": "2026-01-02T03:04:05Z", "validate_only": true })
    );
    // what became of the host is for a person to say
    assert_eq!(world.run(&force).code, 2);
}

#[test]
fn p7_an_allocation_on_a_silent_host_says_so() {
    const ALLOCATION: &str = "01930000-0001-7000-8000-000000000001";
    let world = World::new();
    let path = format!("/api/v1/allocations/{ALLOCATION}");
    let condition = json!({ "type": "host_lost", "message": "The host does not answer.", "since": "2026-01-02T03:04:05Z" });
    world.get(&path, json!({ "id": ALLOCATION, "status": { "state": "active", "power": "running", "conditions": [condition] } }));
    world.get(&format!("{path}/timeline"), json!({ "entries": [] }));
    world.get("/api/v1/usage", json!({}));
    let ran = world.run(&["show", ALLOCATION]).ok();
    assert!(
        ran.out.contains("active, running, host lost"),
        "{}",
        ran.out
    );
    assert!(
        ran.out.contains("The host does not answer. Since"),
        "{}",
        ran.out
    );
}

#[test]
fn a_slot_under_its_first_wipe_says_why_it_is_not_schedulable_and_how_far_it_is() {
    let world = World::new();
    let path = format!("/api/v1/admin/nodes/{NODE}/resource-slots");
    let wiped = "The disk is being wiped and verified before its first use.";
    world.get(&path, json!({ "slots": [{ "id": SLOT, "node_id": NODE, "slot_index": 3, "status": "cleanup", "health_state": "unknown", "health_detail": wiped }] }));
    world.get(
        &format!("{path}/{SLOT}/repair"),
        json!({ "state": "running", "detail": "Wiping the disk. (40 %)" }),
    );
    let ran = world.run(&["slots", NODE]).ok();
    assert!(
        ran.out.contains("first wipe") && !ran.out.contains("unknown"),
        "{}",
        ran.out
    );
    let note = format!("Slot 3 is not schedulable yet. {wiped} Wiping the disk. (40 %)");
    assert!(ran.out.contains(&note), "{}", ran.out);
}

#[test]
fn slots_and_queue_name_allocations_and_their_projects() {
    const ALLOCATION: &str = "01930000-0001-7000-8000-000000000001";
    const UNKNOWN: &str = "01930000-0002-7000-8000-000000000002";
    let world = World::new();
    world.get(
        "/api/v1/admin/projects",
        json!({ "projects": [{ "id": "p", "slug": "ml" }] }),
    );
    world.get(
        &format!("/api/v1/admin/allocations/{ALLOCATION}"),
        json!({ "allocation": { "id": ALLOCATION, "config": { "name": "train", "project_id": "p" } } }),
    );
    let slot = |index: u32, allocation: &str| json!({ "id": SLOT, "slot_index": index, "status": "active", "allocation_id": allocation });
    world.get(
        &format!("/api/v1/admin/nodes/{NODE}/resource-slots"),
        json!({ "slots": [slot(0, ALLOCATION), slot(1, UNKNOWN)] }),
    );
    let ran = world.run(&["slots", NODE]).ok();
    // the ids stand at the end, for the commands that take them, and give way first
    let last = |id: &str| ran.out.lines().any(|line| line.ends_with(id));
    assert!(
        ran.out.contains("train of ml") && last(ALLOCATION) && last(UNKNOWN),
        "{}",
        ran.out
    );
    let narrow = world
        .command(&["slots", NODE])
        .env("COLUMNS", "80")
        .output();
    let narrow = String::from_utf8(narrow.expect("runs").stdout).expect("text");
    assert!(
        narrow.contains("train of ml") && narrow.lines().all(|line| line.len() <= 80),
        "{narrow}"
    );

    world.get("/api/v1/admin/queue", json!({ "requests": [{ "position": 1, "project_id": "p", "allocation_ids": [ALLOCATION, UNKNOWN] }] }));
    let ran = world
        .run(&["admin", "queue", "list", "--region", "lab"])
        .ok();
    let both = format!("{ALLOCATION} {UNKNOWN}");
    assert!(
        ran.out.contains("train and 1 more") && ran.out.trim_end().ends_with(&both),
        "{}",
        ran.out
    );
}

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
    let ran = world.run(&["admin", "node", "describe", "h1"]).ok();
    for reported in [
        "h200",
        "1.2.3",
        "cordoned: new power supply",
        "nat: no rule",
        "To do, nat: Run host.sh nat.",
        "disk-a    disk-b",
        "Not found: slot 1.",
        // A-102, A-103, A-105
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
        .run(&["admin", "node", "describe", "h1", "--output", "json"])
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
    let ran = world.run(&["admin", "node", "describe", NODE]).ok();
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
        let ran = world.run(&[&["nodes", "--output", "json"], flags].concat());
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
    let ran = world.run(&["nodes", "--search", "h1"]).ok();
    let health =
        "5 nodes: 1 schedulable, 1 out of service, 1 not ready, 1 lost, 1 waiting for their agent.";
    assert!(
        ran.out.trim_end().ends_with(health) && !ran.out.contains("h2"),
        "{}",
        ran.out
    );
    let ran = world.run(&["nodes", "--search", "nothing"]).ok();
    assert!(
        ran.out.starts_with("No node matches. 5 nodes"),
        "{}",
        ran.out
    );
}

/// A-154
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
