//! `ingress` against a scripted API.
use serde_json::{Value, json};

use crate::support::World;

const ID: &str = "0192f0c1-aaaa-7bbb-8ccc-0123456789ab";

fn mapping(state: &str) -> Value {
    json!({
        "id": "m1", "allocation_id": ID,
        "config": { "protocol": "tcp", "vm_port": 443, "source_cidrs": ["198.51.100.0/24"] },
        "status": { "state": state, "external_address": "203.0.113.7", "external_port": 30017 },
    })
}

#[test]
fn j_13_a_port_of_a_vm_is_opened_listed_and_closed() {
    let world = World::new();
    let path = format!("/api/v1/allocations/{ID}/ingress-mappings");
    world.on("POST", &path, [(200, mapping("pending"))]);
    world.get(&format!("{path}/m1"), mapping("active"));
    let arguments = [
        "ingress",
        "create",
        ID,
        "--port",
        "443",
        "--source",
        "198.51.100.0/24",
        "--wait",
    ];
    let ran = world.run(&arguments).ok();
    assert_eq!(
        ran.out.trim(),
        "203.0.113.7:30017/tcp leads to port 443 of the VM."
    );
    let sent = world.changes().pop().expect("a change");
    assert_eq!(
        sent.body,
        json!({ "config": { "protocol": "tcp", "vm_port": 443, "source_cidrs": ["198.51.100.0/24"] } })
    );

    world.get(&path, json!({ "ingress_mappings": [mapping("active")] }));
    let listed = world.run(&["ingress", "list", ID]).ok();
    for text in [
        "203.0.113.7:30017/tcp",
        "443",
        "active",
        "198.51.100.0/24",
        "m1",
    ] {
        assert!(listed.out.contains(text), "{text} in {}", listed.out);
    }
    world.on(
        "DELETE",
        &format!("{path}/m1"),
        [(200, mapping("deleting"))],
    );
    let ran = world.run(&["ingress", "delete", ID, "m1"]).ok();
    assert_eq!(ran.out.trim(), "Closing 203.0.113.7:30017/tcp.");
}

#[test]
fn what_is_wrong_with_a_mapping_that_failed_is_said() {
    let world = World::new();
    let path = format!("/api/v1/allocations/{ID}/ingress-mappings");
    let mut failed = mapping("failed");
    failed["status"]["failure"] = json!("The host does not answer. The platform tries again.");
    world.get(&path, json!({ "ingress_mappings": [failed] }));
    let listed = world.run(&["ingress", "list", ID]).ok();
    assert!(
        listed
            .out
            .contains("203.0.113.7:30017/tcp: The host does not answer."),
        "{}",
        listed.out
    );
    let none = World::new();
    none.get(&path, json!({}));
    let listed = none.run(&["ingress", "list", ID]).ok();
    assert!(
        listed.out.contains("gpuaas ingress create"),
        "{}",
        listed.out
    );
}
