//! The lifecycle of nodes and slots: what an operator types, and what the gateway is sent.
use crate::support::World;
use serde_json::{Value, json};

const NODE: &str = "01930000-0009-7000-8000-000000000009";
const SLOT: &str = "01930000-0008-7000-8000-000000000008";
const RECORD: &str = "01930000-0007-7000-8000-000000000007";

#[test]
fn each_command_is_one_keyed_change() {
    let world = World::new();
    let nodes = format!("/api/v1/admin/nodes/{NODE}");
    let table: [(&[&str], &str, String, Value); 10] = [
        (
            &[
                "update",
                NODE,
                "--mode",
                "baremetal",
                "--max-vms",
                "2",
                "--label",
                "rack=r4",
                "--reason",
                "retag",
            ],
            "PATCH",
            nodes.clone(),
            json!({ "mode": "baremetal", "max_vms_per_node": 2, "labels": { "labels": { "rack": "r4" } },
                    "reason": "retag" }),
        ),
        (
            &["update", NODE, "--no-labels", "--rack", "r4", "--etag", "7"],
            "PATCH",
            nodes.clone(),
            json!({ "labels": {}, "rack": "r4", "etag": "7" }),
        ),
        (
            &["maintenance", NODE, "--reason", "firmware"],
            "POST",
            format!("{nodes}:startMaintenance"),
            json!({ "reason": "firmware" }),
        ),
        (
            &["retire", NODE, "--reason", "scrapped"],
            "POST",
            format!("{nodes}:retire"),
            json!({ "reason": "scrapped" }),
        ),
        (
            &["break-fix", "open", NODE, "--fault", "fan"],
            "POST",
            format!("{nodes}/break-fixes"),
            json!({ "fault": "fan" }),
        ),
        (
            &["break-fix", "note", NODE, RECORD, "--action", "replaced"],
            "POST",
            format!("{nodes}/break-fixes/{RECORD}:addAction"),
            json!({ "action": "replaced" }),
        ),
        (
            &["break-fix", "close", NODE, RECORD, "--outcome", "turns"],
            "POST",
            format!("{nodes}/break-fixes/{RECORD}:close"),
            json!({ "outcome": "turns" }),
        ),
        (
            &[
                "finding",
                "report",
                NODE,
                "--source",
                "dcgm",
                "--code",
                "XID_79",
                "--severity",
                "critical",
                "--slot",
                SLOT,
            ],
            "POST",
            format!("{nodes}/findings"),
            json!({ "source": "dcgm", "code": "XID_79", "severity": "critical", "slot_id": SLOT }),
        ),
        (
            &[
                "finding",
                "resolve",
                NODE,
                RECORD,
                "--resolution",
                "reseated",
            ],
            "POST",
            format!("{nodes}/findings/{RECORD}:resolve"),
            json!({ "resolution": "reseated" }),
        ),
        (
            &["slot", "retire", NODE, SLOT, "--reason", "worn out"],
            "POST",
            format!("{nodes}/resource-slots/{SLOT}:retire"),
            json!({ "reason": "worn out" }),
        ),
    ];
    for (arguments, method, path, body) in table {
        world.on(
            method,
            &path,
            [(200, json!({ "id": RECORD, "config": { "hostname": "h1" } }))],
        );
        let mut all = vec!["admin"];
        if arguments[0] != "slot" {
            all.push("node");
        }
        all.extend(arguments);
        world.run(&all).ok();
        let change = world.changes().pop().expect("sent");
        assert_eq!(
            (change.method.as_str(), change.target.as_str(), &change.body),
            (method, path.as_str(), &body)
        );
        assert!(change.key.is_some());
    }
    let path = format!("{nodes}?reason=typo");
    world.on("DELETE", &path, [(200, json!({}))]);
    world
        .run(&["admin", "node", "delete", NODE, "--reason", "typo"])
        .ok();
    let change = world.changes().pop().expect("sent");
    assert_eq!(
        (change.method.as_str(), change.target.as_str()),
        ("DELETE", path.as_str())
    );
    assert!(change.key.is_some());
    let bad = world.run(&["admin", "node", "update", NODE, "--label", "rack"]);
    assert!(bad.err.contains("KEY=VALUE"), "{}", bad.err);
}

#[test]
fn histories_are_tables() {
    let world = World::new();
    let nodes = format!("/api/v1/admin/nodes/{NODE}");
    world.get(
        &format!("{nodes}/history"),
        json!({ "entries": [{ "time": "2026-01-31T13:00:00Z", "state": "cordoned", "reason": "fan", "principal": "user:root" },
                            { "time": "2026-01-31T12:00:00Z", "state": "ready", "reason": "", "principal": format!("node:{NODE}") }] }),
    );
    let shown = world.run(&["admin", "node", "history", NODE]).ok().out;
    assert!(
        shown.contains("cordoned")
            && shown.contains("user:root")
            && shown.contains("host")
            && !shown.contains("node:"),
        "{shown}"
    );
    world.get(
        &format!("{nodes}/resource-slots/{SLOT}/history"),
        json!({ "entries": [{ "time": "2026-01-31T13:00:00Z", "kind": "claimed", "generation": "4", "allocation_id": RECORD }] }),
    );
    let shown = world
        .run(&["admin", "slot", "history", NODE, SLOT])
        .ok()
        .out;
    assert!(shown.contains("generation 4"), "{shown}");
}

/// More than a page, of each list.
#[test]
fn histories_and_ports_are_read_to_their_end() {
    let world = World::new();
    let nodes = format!("/api/v1/admin/nodes/{NODE}");
    let state =
        |state: &str| json!({ "time": "2026-01-31T13:00:00Z", "state": state, "kind": state });
    let bucket = |sku: &str| json!({ "start_time": "2026-01-31T13:00:00Z", "region_code": "eu", "sku": sku, "gpus": 8 });
    let port = |port: u32| json!({ "id": "m", "config": { "vm_port": port, "protocol": "tcp" }, "status": { "external_port": port } });
    for (command, path, items, [first, second], shown) in [
        (
            &["admin", "node", "history", NODE][..],
            format!("{nodes}/history"),
            "entries",
            [state("cordoned"), state("ready")],
            ["cordoned", "ready"],
        ),
        (
            &["admin", "slot", "history", NODE, SLOT],
            format!("{nodes}/resource-slots/{SLOT}/history"),
            "entries",
            [state("claimed"), state("released")],
            ["claimed", "released"],
        ),
        (
            &["admin", "capacity"],
            "/api/v1/admin/capacity:history".to_owned(),
            "buckets",
            [bucket("h200"), bucket("b200")],
            ["h200", "b200"],
        ),
        (
            &["ingress", "list", RECORD],
            format!("/api/v1/allocations/{RECORD}/ingress-mappings"),
            "ingress_mappings",
            [port(8443), port(9443)],
            ["8443", "9443"],
        ),
    ] {
        let pages = [
            (200, json!({ items: [first], "next_page_token": "more" })),
            (200, json!({ items: [second] })),
        ];
        world.on("GET", &path, pages);
        let ran = world.run(command).ok();
        for part in shown {
            assert!(ran.out.contains(part), "{part}: {ran:?}");
        }
        let last = world.seen().pop().expect("read");
        assert!(last.target.contains("page_token=more"), "{last:?}");
    }
}
