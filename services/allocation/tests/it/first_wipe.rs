//! an approved slot is wiped before anybody gets it, whatever its disk looked like.

use std::time::Duration;

use gpuaas_common::id::IdGen;
use gpuaas_dev::until::until_ok;
use gpuaas_placement::approval::{self, Definition, Inspection};
use gpuaas_placement::model::{Attribution, Health, Slot, SlotStatus};
use gpuaas_placement::node_placement;
use gpuaas_placement::repair::{self, Origin};
use gpuaas_placement::slots;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::AssertSqlSafe;

use crate::platform::{Platform, good};
use crate::world::{CELL, World};

/// Takes the first slot out until it is approved anew, as a tenant of the bare metal node does, who had root, filled its disk
/// and removed the partition table.
async fn used_as_bare_metal(world: &World) {
    let used = "UPDATE slots SET status = 'disabled', generation = generation + 1, revision = revision + 1 WHERE id = $1";
    // not schedulable
    let other = "UPDATE slots SET status = 'disabled', admin_state = 'disabled', revision = revision + 1 WHERE id = $1";
    for (slot, sql) in world.slot_ids.iter().zip([used, other]) {
        let taken = sqlx::query(sql).bind(slot).execute(&world.scheduler).await;
        taken.expect("taken out");
    }
    world.host.fill_disk(0);
    assert!(is_dirty(world).await);
}

async fn is_dirty(world: &World) -> bool {
    let slot = world.slot_ids[0].to_string();
    world.host.state().await.dirty.contains(&slot)
}

async fn first(world: &World) -> Slot {
    let mut conn = world.pool.acquire().await.expect("a connection");
    slots::get(&mut conn, world.node_id, world.slot_ids[0])
        .await
        .expect("the slot")
}

/// Approves the first slot as it stands.
async fn approve(world: &World) {
    let slot = first(world).await;
    let look = Inspection {
        instance_id: Some(world.instance_id),
        generations: [(slot.slot_index, slot.generation)].into(),
    };
    let definition = Definition {
        slot_index: slot.slot_index,
        class: slot.class,
        bindings: slot.bindings,
        storage_transition_manifest: slot.storage_transition_manifest,
    };
    let (ids, all) = (IdGen::new(CELL), [definition]);
    let mut tx = world.scheduler.begin().await.expect("a transaction");
    let origin = Origin::default();
    approval::approve(&mut tx, world.node_id, &look, &all, origin, || ids.next())
        .await
        .expect("approved");
    tx.commit().await.expect("commit");
}

async fn repairs(world: &World) -> i64 {
    sqlx::query_scalar(
        "SELECT count(*) FROM placement.workflows WHERE slot_id = $1 AND state = 'running'",
    )
    .bind(world.slot_ids[0])
    .fetch_one(&world.owner)
    .await
    .expect("a count")
}

#[tokio::test]
async fn a_132_p2_a_raw_disk_full_of_bytes_is_wiped_before_its_slot_is_available() {
    let platform = Platform::start().await;
    let world = &platform.world;
    used_as_bare_metal(world).await;
    world
        .host
        .script(|script| script.stay = Some(("repair_slot", "wipe")));
    approve(world).await;
    let slot = first(world).await;
    assert_eq!(
        (slot.status, slot.clean_generation == Some(slot.generation)),
        (SlotStatus::Cleanup, false)
    );
    // said again, also while it is wiped, it starts nothing else
    approve(world).await;
    assert_eq!(repairs(world).await, 1);
    let refused = platform.create(good("early"), "early").await;
    assert_eq!(
        refused.expect_err("nothing is proven").reason(),
        ErrorReason::DisksBeingWiped
    );
    world
        .host
        .until("the wipe", |host| {
            let mut all = host.operations.values();
            all.any(|one| one.kind == "repair_slot" && one.is_at("wipe"))
        })
        .await;
    let get = pb::GetSlotRepairRequest {
        node_id: world.node_id.to_string(),
        slot_id: world.slot_ids[0].to_string(),
    };
    let mut admins = platform.admins.clone();
    let reported = until_ok("the wipe's progress", Duration::from_secs(30), async || {
        let reported = admins
            .get_slot_repair(platform.admin(get.clone(), None))
            .await;
        let reported = reported.expect("the wipe").into_inner();
        match reported.detail.ends_with("%)") {
            true => Ok(reported),
            false => Err(reported.detail),
        }
    })
    .await;
    assert_eq!(
        (reported.state.as_str(), reported.slot_status()),
        (
            "running",
            gpuaas_proto::gpuaas::common::v1::SlotStatus::Cleanup
        )
    );

    world.host.script(|script| script.stay = None);
    world.until_idle(world.slot_ids[0]).await;
    let slot = first(world).await;
    assert_eq!(
        (
            slot.status,
            slot.clean_generation,
            slot.health_detail.as_str()
        ),
        (SlotStatus::Available, Some(slot.generation), "")
    );
    assert_eq!(slot.clean_evidence.as_deref(), Some("wiped: blkdiscard"));
    assert!(!is_dirty(world).await, "nothing of the last holder is left");
    platform
        .create(good("late"), "late")
        .await
        .expect("offered");
}

#[tokio::test]
async fn a_132_a_first_wipe_that_fails_says_why_and_is_repeated_by_a_repair() {
    let platform = Platform::start().await;
    let world = &platform.world;
    used_as_bare_metal(world).await;
    world.host.script(|script| script.lie = true);
    approve(world).await;
    world.until_idle(world.slot_ids[0]).await;
    let slot = first(world).await;
    assert_eq!(
        (slot.status, slot.health_state),
        (SlotStatus::CleanupBlocked, Health::Failed)
    );
    assert!(
        slot.health_detail.contains("WIPE_NOT_PROVEN"),
        "{}",
        slot.health_detail
    );
    approve(world).await;
    assert_eq!(first(world).await.status, SlotStatus::CleanupBlocked);

    world.host.script(|script| script.lie = false);
    world.repair(world.slot_ids[0]).await;
    world.until_idle(world.slot_ids[0]).await;
    assert_eq!(first(world).await.status, SlotStatus::Available);
    assert!(!is_dirty(world).await);
}

/// The release before this one took an inspection for proof. What it offered that way is wiped, and what is in use is
/// left alone.
#[tokio::test]
async fn a_132_a_slot_that_was_offered_without_a_wipe_is_wiped_after_the_update() {
    let world = World::start().await;
    let superuser = world.db.pool("postgres").await;
    sqlx::raw_sql(
        "BEGIN; SET LOCAL session_replication_role = replica; UPDATE placement.clean_evidence SET kind = 'approved'; COMMIT",
    )
    .execute(&superuser)
    .await
    .expect("a ledger of before");
    let used = world.reserve("used").await;
    let of = world.slot_of(used).await;
    let mut conn = world.pool.acquire().await.expect("a connection");
    assert_eq!(repair::wipe_unproven(&mut conn).await.expect("found"), 1);
    assert_eq!(
        repair::wipe_unproven(&mut conn).await.expect("none left"),
        0
    );
    let all = slots::list(&mut conn, world.node_id).await.expect("slots");
    for slot in all {
        let wanted = if slot.id == of.id {
            SlotStatus::Reserved
        } else {
            SlotStatus::Cleanup
        };
        assert_eq!(slot.status, wanted, "{slot:?}");
    }
}

/// An operator takes such a slot out and puts it back before the background finds it.
#[tokio::test]
async fn a_132_p2_a_slot_that_was_never_wiped_is_wiped_when_it_is_enabled() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let superuser = world.db.pool("postgres").await;
    sqlx::raw_sql(
        "BEGIN; SET LOCAL session_replication_role = replica; UPDATE placement.clean_evidence SET kind = 'approved';
         UPDATE placement.slots SET status = 'disabled', admin_state = 'disabled'; COMMIT",
    )
    .execute(&superuser)
    .await
    .expect("a ledger of before");
    world.host.fill_disk(0);
    // no statement goes round the wipe
    let made = "UPDATE slots SET status = 'available', revision = revision + 1 WHERE id = $1";
    let slot_id = world.slot_ids[0];
    let refused = sqlx::query(made)
        .bind(slot_id)
        .execute(&world.scheduler)
        .await;
    let refused = refused.expect_err("never wiped").to_string();
    assert!(refused.contains("never wiped"), "{refused}");

    let mut tx = world.scheduler.begin().await.expect("a transaction");
    let slot = node_placement::set_slot_admin_state(
        &mut tx,
        world.node_id,
        slot_id,
        false,
        Attribution::of("user:test", ""),
    )
    .await
    .expect("enabled");
    tx.commit().await.expect("commit");
    assert_eq!(slot.status, SlotStatus::Cleanup);
    world.until_idle(slot_id).await;
    let slot = first(world).await;
    assert_eq!(
        (slot.status, slot.clean_evidence.as_deref()),
        (SlotStatus::Available, Some("wiped: blkdiscard"))
    );
    assert!(!is_dirty(world).await);
}

/// A tenant with root may leave a member of a volume group or swap on every disk. The ledger knows that it was a tenant's, so
/// nobody removes it by hand.
#[tokio::test]
async fn a_132_p9_what_a_tenant_of_the_bare_metal_node_left_is_wiped_and_a_strangers_volume_is_not()
{
    let platform = Platform::start().await;
    let world = &platform.world;
    used_as_bare_metal(world).await;
    world.host.sign_disk(0);
    approve(world).await;
    world.until_idle(world.slot_ids[0]).await;
    let slot = first(world).await;
    assert_eq!(slot.status, SlotStatus::CleanupBlocked);
    assert!(
        slot.health_detail.contains("DISK_UNSAFE"),
        "nobody knows whose it is: {}",
        slot.health_detail
    );

    let superuser = world.db.pool("postgres").await;
    let tenant = format!(
        "BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL search_path = placement;
         INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, image,
             ssh_public_keys, guest_user, lab, principal, request_id, traceparent, active_at, releasing_at, ended_at)
         VALUES ('{id}', '{id}', 'node', 'r', 'h200-sxm-node', 8, 'baremetal', '{node}', 'released', '{{}}', '{{ssh-ed25519 A}}',
             'u_0123456789abcdef', false, 'user:a', 'req', '', now(), now(), now());
         INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_generation, state, snapshot, released_at)
         VALUES ('{id}', '{id}', 'h200-sxm-node', 'node_exclusive', '{node}', 0, 'released', '{{}}', now());
         COMMIT",
        id = world.project,
        node = world.node_id,
    );
    sqlx::raw_sql(AssertSqlSafe(tenant))
        .execute(&superuser)
        .await
        .expect("a tenant of the bare-metal node");
    world.repair(world.slot_ids[0]).await;
    world.until_idle(world.slot_ids[0]).await;
    let slot = first(world).await;
    assert_eq!(slot.status, SlotStatus::Available, "{}", slot.health_detail);
    // of what is written from now on nobody knows whose it is
    let mut conn = world.pool.acquire().await.expect("a connection");
    let left = repair::left_by_tenant(&mut conn, slot.id).await;
    assert!(!left.expect("told"));
}
