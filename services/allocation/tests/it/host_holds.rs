//! A slot that nobody has by the ledger and that its host holds: it is a row of the comparison, it is not sold, and a repair
//! undoes the hold by the agent's own core. What is claimed is never touched.
use gpuaas_agent::faults::Edge;
use gpuaas_agent::journal::Kind;
use gpuaas_allocation::domain::names::vm_name;
use gpuaas_allocation::reconcile;
use gpuaas_common::Error;
use gpuaas_placement::model::{Slot, SlotStatus};
use gpuaas_placement::slots;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use crate::host::Kill;
use crate::platform::{Platform, good};
use crate::world::World;

impl Platform {
    /// What of slots and partitions differs now.
    pub async fn differences(&self) -> Vec<pb::NodeDifference> {
        let request = pb::CompareNodeRequest {
            node_id: self.world.node_id.to_string(),
            ..pb::CompareNodeRequest::default()
        };
        let mut admins = self.admins.clone();
        let compared = admins.compare_node(self.admin(request, None)).await;
        compared.expect("compared").into_inner().differences
    }

    async fn repair_slot(&self, index: usize, key: &str) -> Result<pb::SlotRepair, Error> {
        let request = pb::RepairResourceSlotRequest {
            node_id: self.world.node_id.to_string(),
            slot_id: self.world.slot_ids[index].to_string(),
            reason: "a test".into(),
        };
        let request = self.admin(request, Some(key));
        let repaired = self.admins.clone().repair_resource_slot(request).await;
        Ok(repaired.map_err(Error::from)?.into_inner())
    }
}

async fn slot(world: &World, index: usize) -> Slot {
    let mut conn = world.pool.acquire().await.expect("a connection");
    let slot = slots::get(&mut conn, world.node_id, world.slot_ids[index]).await;
    slot.expect("the slot")
}

/// What the reconciler does at its visit.
async fn visit(world: &World) {
    let deps = world.deps(world.pool.clone(), World::config());
    let compared = reconcile::node(&deps, world.node_id).await;
    compared.expect("compared");
}

/// An allocation that has had the first slot and has ended.
async fn over(platform: &Platform) -> Uuid {
    let world = &platform.world;
    let created = platform.create(good("web"), "key-1").await;
    let id: Uuid = created.expect("created").id.parse().expect("a uuid");
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    assert_eq!(world.slot_of(id).await.id, world.slot_ids[0]);
    world.release(id).await;
    world.until_state(id, "released").await;
    world.until_idle(id).await;
    id
}

#[tokio::test]
async fn d_82_p1_p2_a_free_slot_that_its_host_holds_is_not_sold_until_a_repair_has_undone_that() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let id = over(&platform).await;
    assert!(platform.differences().await.is_empty());
    // the host's journal comes back from somewhere with the hold, and with what was written under it
    world.host.leak_hold(world.slot_ids[0], id);
    world.host.write_to_disk(0);
    world.host.leak_seed(&vm_name(id));
    let rows = platform.differences().await;
    let [row] = &rows[..] else {
        panic!("{rows:?}");
    };
    assert_eq!(row.subject(), pb::NodeDifferenceSubject::Hold);
    assert_eq!(
        (row.kind.as_str(), row.slot_id.clone()),
        ("held_on_host", world.slot_ids[0].to_string())
    );
    assert_eq!(row.allocation_id, id.to_string());
    assert_eq!(row.correction(), pb::ComparisonCorrection::RepairSlot);
    assert_eq!(row.since, None, "nobody has noted it");

    visit(world).await;
    let noted = slot(world, 0).await;
    assert_eq!(noted.status, SlotStatus::CleanupBlocked, "it is not sold");
    assert_eq!(noted.host_holder, Some(id));
    assert!(platform.differences().await[0].since.is_some());
    let other = world.reserve("other").await;
    world.until_state(other, "active").await;
    world.until_idle(other).await;
    assert_eq!(world.slot_of(other).await.id, world.slot_ids[1]);
    // the same again is no news
    visit(world).await;
    assert_eq!(slot(world, 0).await.revision, noted.revision);
    assert!(world.host.disk_is_dirty(0), "nothing is wiped by itself");

    // its agent dies between the wipe and the proof, and goes on with it
    world.host.script(|script| {
        script.kill = Some(Kill {
            kind: Kind::RepairSlot.as_str(),
            step: "wipe".into(),
            edge: Edge::After,
        });
    });
    platform.repair_slot(0, "k1").await.expect("accepted");
    world.host.until_killed("wipe").await;
    assert_eq!(slot(world, 0).await.status, SlotStatus::Cleanup);
    world.host_up().await;
    world.until_idle(world.slot_ids[0]).await;
    let clean = slot(world, 0).await;
    assert_eq!(clean.status, SlotStatus::Available, "{clean:?}");
    assert_eq!(clean.clean_generation, Some(clean.generation));
    assert_eq!((clean.host_holder, clean.host_held_since), (None, None));
    assert!(!world.host.disk_is_dirty(0));
    assert_eq!(world.host.files_of(&vm_name(id)), Vec::<String>::new());
    let holders: Vec<_> = world.holds().await.holds.into_iter().collect();
    assert!(
        holders
            .iter()
            .all(|hold| hold.allocation_id == other.to_string()),
        "{holders:?}"
    );
    visit(world).await;
    assert!(platform.differences().await.is_empty());
    assert_eq!(slot(world, 1).await.status, SlotStatus::Active);
}

/// After a restore of the ledger: it has never heard of who had the slot.
#[tokio::test]
async fn d_82_p5_a_hold_for_nobody_that_the_ledger_knows_is_repaired_without_waiting_for_the_reconciler()
 {
    let platform = Platform::start().await;
    let world = &platform.world;
    let refused = platform.repair_slot(0, "early").await.expect_err("free");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    assert_eq!(slot(world, 0).await.status, SlotStatus::Available);

    let unknown = Uuid::now_v7();
    world.host.leak_hold(world.slot_ids[0], unknown);
    world.host.leak_domain(&vm_name(unknown)).await;
    world.host.write_to_disk(0);
    platform.repair_slot(0, "k1").await.expect("accepted");
    world.until_idle(world.slot_ids[0]).await;
    let clean = slot(world, 0).await;
    assert_eq!(clean.status, SlotStatus::Available, "{clean:?}");
    assert_eq!(clean.host_holder, None);
    assert!(!world.host.disk_is_dirty(0));
    let held = world.holds().await;
    assert!(held.holds.is_empty() && held.domains.is_empty(), "{held:?}");
    assert!(platform.differences().await.is_empty());

    // the same call again changes nothing, of no other slot either
    world.host.leak_hold(world.slot_ids[1], unknown);
    platform.repair_slot(0, "k1").await.expect("as before");
    assert_eq!(slot(world, 1).await.status, SlotStatus::Available);
}

#[tokio::test]
async fn p5_a_slot_that_somebody_claims_is_left_alone_whatever_its_host_holds() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let gone = over(&platform).await;
    let id = world.reserve("web-2").await;
    world.until_state(id, "active").await;
    world.until_idle(id).await;
    let claimed = world.slot_of(id).await;
    assert_eq!(claimed.id, world.slot_ids[0]);
    world.host.leak_hold(claimed.id, gone);
    let rows = platform.differences().await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!(rows[0].correction(), pb::ComparisonCorrection::Unspecified);
    assert!(rows[0].detail.contains("nothing is touched"), "{rows:?}");
    assert_eq!(rows[0].approved, id.to_string());
    visit(world).await;
    let refused = platform.repair_slot(0, "k1").await.expect_err("claimed");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    let now = slot(world, 0).await;
    assert_eq!(
        (now.status, now.revision),
        (SlotStatus::Active, claimed.revision)
    );
    assert_eq!(now.allocation_id, Some(id));
    let domains = world.holds().await.domains;
    assert!(
        domains
            .iter()
            .any(|one| one.name == vm_name(id) && one.state == "running")
    );
}
