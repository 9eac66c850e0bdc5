//! Whatever placement sees of a node, changing it marks the node: what is allocated on a node that is the very version that
//! was looked at, and every copy of the fleet, rest on that (P1, B-57).
use std::collections::BTreeSet;

use gpuaas_placement::candidates;
use gpuaas_placement::decision::CandidateNode;
use gpuaas_placement::model::{Scope, SlotStatus};
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reserve::Request;
use gpuaas_placement::{release, repair};
use uuid::Uuid;

use crate::baremetal::{bare_metal, reserve, world_of};
use crate::reservations::limits::cancel;
use crate::reservations::reserved;
use crate::world::{H200, REGION, World, h200_groups, h200_slot, lab_slot, lab_spec, wiped};

/// Columns of `nodes` that placement sees, and values that differ from those of the test's node.
const NODE: [(&str, &str); 8] = [
    ("region_code", "'other'"),
    ("mode", "'baremetal'"),
    ("admin_state", "'draining'"),
    ("schedulable", "false"),
    ("hugepages_1g_free", "1"),
    ("max_vms", "3"),
    ("legal_groups", "'[[1]]'"),
    ("image_digests", "ARRAY['sha256:' || repeat('a', 64)]"),
];

/// Columns of `nodes` that decide nothing. The address, the instance and the name are read under the lock; the mark is
/// itself one, and the keys of images are made from their digests. Whose VMs have their hugepages decides where somebody has
/// slots, and is tried there.
const NODE_ELSE: [&str; 20] = [
    "admin_at",
    "admin_by",
    "admin_reason",
    "agent_address",
    "changed_by",
    "created_at",
    "generation",
    "host_devices",
    "host_health",
    "host_lost_since",
    "hostname",
    "hugepages_allocated_to",
    "id",
    "image_keys",
    "instance_id",
    "intended_mode",
    "lab",
    "not_schedulable_reason",
    "rack",
    "updated_at",
];

/// Columns of `slots` that placement sees, and what makes a difference in a disabled slot of the test.
const SLOT: [(&str, &str); 17] = [
    ("slot_index", "41"),
    ("class", "'lab', gpu_pci_address = ''"),
    ("status", "'cleanup_blocked'"),
    ("host_health", "'degraded'"),
    ("cleanup_health", "'failed'"),
    ("gpu_pci_address", "''"),
    ("gpu_module_id", "77"),
    ("numa_node", "5"),
    ("nvme_device", "''"),
    ("storage_identity_kind", "''"),
    ("nvme_bytes", "0"),
    ("management_mac", "''"),
    ("private_ip", "''"),
    ("fabric_device", "'0000:7f:00.0'"),
    ("fabric_vf_pci_address", "''"),
    ("fabric_claim_mode", "'none'"),
    ("destructive_wipe_policy", "''"),
];

/// Columns of `slots` that decide nothing: health is made from its two parts, of which drift bounds one, `retired` from the
/// status, and what a slot that is schedulable proves is checked by the database.
const SLOT_ELSE: [&str; 20] = [
    "admin_by",
    "admin_reason",
    "admin_state",
    "clean_generation",
    "clean_reusable",
    "created_at",
    "drift",
    "generation",
    "health_detail",
    "health_state",
    "host_held_since",
    "host_holder",
    "id",
    "node_id",
    "retired",
    "revision",
    "storage_mode",
    "storage_ownership",
    "storage_transition_manifest",
    "updated_at",
];

/// A node as it was at one moment.
struct NodeSnapshot {
    snapshot: String,
    node: Option<CandidateNode>,
}

async fn look(world: &World, node: Uuid) -> NodeSnapshot {
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let snapshot = sqlx::query_scalar("SELECT pg_current_snapshot()::text")
        .fetch_one(&mut *conn)
        .await
        .expect("snapshot");
    let mut found = candidates::load(&mut conn, REGION, &[node])
        .await
        .expect("read");
    NodeSnapshot {
        snapshot,
        node: found.pop(),
    }
}

/// All of a node that decides. Who has a slot is the same to placement from the reservation to the wipe.
fn sight(node: &Option<CandidateNode>) -> String {
    let Some(node) = node else {
        return "none".into();
    };
    let mut node = node.clone();
    node.version = "".into();
    for slot in &mut node.slots {
        if ![
            SlotStatus::Available,
            SlotStatus::CleanupBlocked,
            SlotStatus::Disabled,
            SlotStatus::Retired,
        ]
        .contains(&slot.status)
        {
            slot.status = SlotStatus::Active;
        }
    }
    format!("{node:?}")
}

/// Whether placement sees something else than before; then the node was marked.
async fn changed(world: &World, node: Uuid, before: &NodeSnapshot, what: &str) -> bool {
    let after = look(world, node).await;
    if sight(&before.node) == sight(&after.node) {
        return false;
    }
    let sql = "SELECT $2 = ANY (nodes_changed_since($1::text::pg_snapshot))";
    let reported: bool = sqlx::query_scalar(sql)
        .bind(&before.snapshot)
        .bind(node)
        .fetch_one(&world.owner)
        .await
        .expect("told");
    assert!(reported, "{what}: copies are not told");
    if let (Some(before), Some(after)) = (&before.node, &after.node) {
        assert_ne!(before.version, after.version, "{what}");
    }
    true
}

/// A table, its columns that placement sees each with another value, and all others.
type Table = (
    &'static str,
    &'static [(&'static str, &'static str)],
    &'static [&'static str],
);

/// Every column is either seen by placement, with a change that marks the node, or it is named as one that is not.
#[tokio::test]
async fn p1_every_column_that_placement_sees_marks_its_node() {
    let world = World::new().await;
    world
        .run("INSERT INTO regions (code, enabled) VALUES ('other', true)")
        .await;
    let tables: [Table; 2] = [("nodes", &NODE, &NODE_ELSE), ("slots", &SLOT, &SLOT_ELSE)];
    for (table, seen, other) in tables {
        let columns: Vec<String> = sqlx::query_scalar(
            "SELECT column_name::text FROM information_schema.columns WHERE table_schema = 'placement' AND table_name = $1",
        )
        .bind(table)
        .fetch_all(&world.owner)
        .await
        .expect("columns");
        let named: BTreeSet<&str> = seen
            .iter()
            .map(|(column, _)| *column)
            .chain(other.iter().copied())
            .collect();
        let columns: BTreeSet<&str> = columns.iter().map(String::as_str).collect();
        assert_eq!(columns, named, "say whether placement sees it: {table}");
        for (column, value) in seen {
            let node = world
                .node(NodeSpec {
                    lab: false,
                    hugepages_1g_free: 1000,
                    legal_groups: h200_groups(),
                    ..lab_spec()
                })
                .await;
            let slots = world
                .approve(node, &(0..2).map(h200_slot).collect::<Vec<_>>())
                .await;
            let slot = slots[1].id;
            world
                .run(&format!(
                    "UPDATE slots SET status = 'disabled' WHERE id = '{slot}'"
                ))
                .await;
            let before = look(&world, node).await;
            let row = if table == "nodes" { node } else { slot };
            world
                .run(&format!(
                    "UPDATE {table} SET {column} = {value} WHERE id = '{row}'"
                ))
                .await;
            let what = format!("{table}.{column}");
            assert!(
                changed(&world, node, &before, &what).await,
                "{what}: placement does not see it"
            );
        }
    }
}

/// What placement sees of a node, step by step.
struct Watch {
    node: Uuid,
    before: NodeSnapshot,
    /// Steps after which it saw something else.
    seen: Vec<&'static str>,
}

impl Watch {
    async fn step<T>(
        &mut self,
        world: &World,
        what: &'static str,
        done: impl Future<Output = T>,
    ) -> T {
        let done = done.await;
        if changed(world, self.node, &self.before, what).await {
            self.seen.push(what);
        }
        self.before = look(world, self.node).await;
        done
    }
}

/// Releases an allocation that is active and leaves its slot blocked.
async fn block(world: &World, id: Uuid) {
    begin_release(world, id).await;
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::block(&mut tx, fence, id, "not proven")
        .await
        .expect("block");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
}

pub async fn begin_release(world: &World, id: Uuid) {
    let mut tx = world.allocation.begin().await.expect("begin");
    release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
}

pub async fn wipe(world: &World, id: Uuid) {
    let fence = world.take(id).await;
    let evidence = world.wiped(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::complete(&mut tx, fence, id, &evidence)
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
}

async fn repair(world: &World, node: Uuid) {
    let slots = world.slots(node).await;
    let blocked = slots
        .iter()
        .find(|slot| slot.status == SlotStatus::CleanupBlocked);
    let slot = blocked.expect("blocked").id;
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = repair::begin(&mut tx, node, slot, "", "req")
        .await
        .expect("begin");
    tx.commit().await.expect("commit");
    let fence = world.take(slot).await;
    let proof = wiped(slot, begun.slot.generation);
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = repair::complete(&mut tx, fence, slot, &proof)
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
}

/// The ways in which what placement sees changes without a column of the node or of a slot: slots and claims come and
/// go, slots are reserved for a project, the node is taken as bare metal.
#[tokio::test]
async fn p1_every_step_of_slots_claims_and_reservations_marks_the_node() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut watch = Watch {
        node,
        before: look(&world, node).await,
        seen: Vec::new(),
    };
    watch
        .step(&world, "approve", world.approve(node, &[lab_slot(1)]))
        .await;
    let id = watch
        .step(&world, "reserve", Box::pin(world.reserved(1)))
        .await;
    watch
        .step(&world, "give back", begin_release(&world, id))
        .await;
    let id = watch
        .step(&world, "launch", Box::pin(world.active(1)))
        .await;
    watch
        .step(&world, "release", begin_release(&world, id))
        .await;
    watch.step(&world, "wipe", wipe(&world, id)).await;
    let id = watch
        .step(&world, "launch again", Box::pin(world.active(1)))
        .await;
    watch.step(&world, "block", block(&world, id)).await;
    watch.step(&world, "repair", repair(&world, node)).await;
    let held = watch
        .step(&world, "hold", Box::pin(reserved(&world, 1)))
        .await;
    let gone = watch
        .step(
            &world,
            "let go",
            cancel(&world, "let go", Scope::Platform, held.id),
        )
        .await;
    gone.expect("cancelled");
    // between the launch and the wipe nothing changes that decides
    let expected = [
        "approve",
        "reserve",
        "give back",
        "launch",
        "wipe",
        "launch again",
        "block",
        "repair",
        "hold",
        "let go",
    ];
    assert_eq!(watch.seen, expected);

    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let mut watch = Watch {
        node,
        before: look(&world, node).await,
        seen: Vec::new(),
    };
    watch
        .step(
            &world,
            "take",
            Box::pin(reserve(&world, &bare_metal(&world))),
        )
        .await
        .expect("reserved");
    assert_eq!(watch.seen, ["take"]);
}

/// The host says that a VM has its pages while as many as before are free: nobody is owed them any more.
#[tokio::test]
async fn p1_b_11_whose_vms_have_their_hugepages_marks_the_node() {
    let (world, specs) = world_of(1).await;
    let node = specs[0].id;
    let launch = Request {
        sku: H200.into(),
        ..world.request(1)
    };
    let id = world.reserve(&launch).await.expect("placed").allocation_id;
    let mut watch = Watch {
        node,
        before: look(&world, node).await,
        seen: Vec::new(),
    };
    let report = |hugepages_allocated_to| NodeSpec {
        hugepages_allocated_to,
        ..specs[0].clone()
    };
    watch
        .step(&world, "starts", world.node(report(vec![id])))
        .await;
    watch
        .step(&world, "said again", world.node(report(vec![id])))
        .await;
    watch
        .step(&world, "stops", world.node(report(vec![])))
        .await;
    assert_eq!(watch.seen, ["starts", "stops"]);
}
