//! A host on a journal file and libvirt's test driver: what tests of operations begin with.
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gpuaas_agent::error::HostResult;
use gpuaas_agent::host::clock::BootMoment;
use gpuaas_agent::ids::{AllocationId, OperationId};
use gpuaas_agent::journal::{Kind, NewOperation, OperationRow, State};
use gpuaas_agent::node::Node;
use gpuaas_agent::operation::{Done, Runner, Work, steps_of};
use gpuaas_proto::gpuaas::agent::v1 as pb;
use serde_json::{Value, json};
use uuid::Uuid;

/// Longer than anything takes here.
pub const LONG: Duration = Duration::from_secs(30);

/// Settings of a lab host that keeps everything below a folder.
pub fn settings(folder: &Path) -> Value {
    json!({
        "state_dir": folder,
        "libvirt_uri": "test:///default",
        "profile": { "name": "lab", "lab": true, "hypervisor": "qemu", "cpu_model": "qemu64" },
        "network": { "bridge_kind": "linux", "mode": "routed" },
        "images": { "cache_dir": folder.join("cache") },
        "relay": { "key_file": folder.join("id") },
        "dhcp": { "hosts_dir": folder, "leases_file": folder.join("leases"), "pid_file": folder.join("pid") },
        "polling": { "guest_ms": 5, "shutdown_ms": 5, "undo_ms": 5 },
    })
}

/// The host of these settings.
pub fn node(settings: Value) -> Arc<Node> {
    let settings = serde_json::from_value(settings).expect("settings");
    Arc::new(Node::open(settings, b"").expect("a node"))
}

pub fn allocation() -> AllocationId {
    AllocationId(Uuid::now_v7())
}

/// An operation on these slots that nobody has begun.
pub fn operation(
    node: &Node,
    kind: Kind,
    allocation: AllocationId,
    slots: Vec<pb::SlotGrant>,
) -> NewOperation {
    NewOperation {
        id: OperationId(Uuid::now_v7()),
        kind,
        allocation,
        request: Vec::new(),
        request_hash: String::new(),
        lease: None,
        lease_request: pb::AcquireLeaseRequest {
            slots,
            ..pb::AcquireLeaseRequest::default()
        },
        plan: pb::BundlePlan::default(),
        traceparent: String::new(),
        deadline: BootMoment::plus(&node.clock.now(), LONG),
        started_ms: 0,
        steps: Vec::new(),
    }
}

/// Drives an operation to its end.
pub async fn driven(node: &Arc<Node>, new: NewOperation) -> OperationRow {
    let id = new.id;
    Runner::new(Arc::clone(node)).begin(new).expect("begun");
    until(node, id, |row| row.state != State::Running).await
}

/// Runs one step of a journaled operation alone.
pub async fn step(node: &Arc<Node>, id: OperationId, name: &str) -> HostResult<Done> {
    let operation = node.journal.operation(id)?.expect("a row");
    let mut steps = steps_of(operation.kind).iter();
    let step = steps.find(|one| one.name == name).expect("a step");
    let work = Work {
        node: Arc::clone(node),
        operation,
        step: step.name,
    };
    (step.run)(&work).await
}

/// Waits until an operation is so.
pub async fn until(
    node: &Node,
    id: OperationId,
    holds: impl Fn(&OperationRow) -> bool,
) -> OperationRow {
    let mut changes = node.journal.changes();
    let wait = async {
        loop {
            changes.mark_unchanged();
            let row = node.journal.operation(id).expect("a journal");
            let row = row.expect("a row");
            if holds(&row) {
                return row;
            }
            changes.changed().await.expect("a journal");
        }
    };
    tokio::time::timeout(LONG * 2, wait).await.expect("in time")
}

/// The VM of an allocation runs, with these devices.
pub async fn run_vm(node: &Node, allocation: AllocationId, devices: &str) {
    let name = allocation.vm_name();
    let xml = format!(
        "<domain type='test'><name>{name}</name><memory>1024</memory><os><type>hvm</type></os>{devices}</domain>"
    );
    node.hypervisor.define(xml).await.expect("libvirt");
    node.hypervisor.start(name.as_str()).await.expect("libvirt");
}
