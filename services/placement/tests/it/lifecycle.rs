//! From reservation to release: what each transition writes, who may make it, and that it is made once.
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_placement::model::{AllocationState, ClaimState, Failure, Health, Scope, SlotStatus};
use gpuaas_placement::provision::{self, HostState};
use gpuaas_placement::{Error, Outcome, allocations, claims, events, release, sequencer, timeline};
use serde_json::json;
use uuid::Uuid;

use crate::world::{World, access, price, wiped};

fn failure() -> Failure {
    Failure {
        reason: "GUEST_NO_LOGIN".into(),
        message: "The machine did not answer.".into(),
        advice: "Try another image.".into(),
        step: "provision.wait_login".into(),
    }
}

#[tokio::test]
async fn b_41_reservation_commits_everything_together() {
    let (world, node) = World::with_lab_slots(2).await;
    let request = world.request(2);
    let id = world
        .reserve(&request)
        .await
        .expect("reserve")
        .allocation_id;

    let allocation = world.get(id).await;
    assert_eq!(allocation.state, AllocationState::Reserved);
    assert_eq!(allocation.node_id, Some(node));
    assert_eq!(allocation.price.as_ref().expect("priced").0, price());
    assert!(allocation.lab && allocation.deadline_at.is_some());
    assert_eq!(allocation.guest_user.len(), 18);
    assert_eq!(
        allocation.vm_name(),
        format!("gpuaas-slice-{}", id.simple())
    );
    assert_eq!(gpuaas_common::id::cell_of(&id), Some(1));

    let mut conn = world.allocation.acquire().await.expect("connection");
    let held = claims::of_allocation(&mut conn, id).await.expect("claims");
    assert_eq!(
        held.iter()
            .map(|claim| claim.slot_index)
            .collect::<Vec<_>>(),
        [Some(0), Some(1)]
    );
    for (claim, slot) in held.iter().zip(world.slots(node).await) {
        assert_eq!(
            (claim.state, claim.slot_generation),
            (ClaimState::Reserved, 1)
        );
        assert_eq!((slot.status, slot.generation), (SlotStatus::Reserved, 1));
        assert_eq!(
            (slot.allocation_id, slot.clean_generation),
            (Some(id), Some(0))
        );
        assert_eq!(claim.snapshot.bindings, slot.bindings);
        assert_eq!(claim.snapshot.profile.vcpus_per_gpu, 1);
    }
    let everything = Selection::parse(&timeline::TIMELINE, "", "").expect("a selection");
    let wanted = Wanted {
        page_token: "",
        size: 10,
        query: &[],
    };
    let (entries, _) = timeline::list(&mut conn, id, &everything, wanted)
        .await
        .expect("timeline");
    assert_eq!(
        (entries.len(), entries[0].step.as_str(), entries[0].sequence),
        (1, "reserve", 1)
    );
    let workflows = format!(
        "SELECT count(*) FROM workflows WHERE allocation_id = '{id}' AND kind = 'provision' AND traceparent <> ''"
    );
    assert_eq!(world.number(&workflows).await, 1);
    assert_eq!(world.number("SELECT count(*) FROM idempotency").await, 1);
    let audited = format!(
        "SELECT count(*) FROM audit WHERE action = 'allocation.create' AND resource_id = '{id}' AND principal = 'user:alice'"
    );
    assert_eq!(world.number(&audited).await, 1);
    assert_eq!(claims::cell_epoch(&mut conn).await.expect("epoch"), 1);
}

/// C-09
#[tokio::test]
async fn b_28_life_of_an_allocation_ends_with_a_clean_slot() {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let fence = world.take(id).await;

    let mut tx = world.allocation.begin().await.expect("begin");
    assert_eq!(
        provision::start(&mut tx, fence, id).await.expect("start"),
        Outcome::Changed
    );
    assert_eq!(
        provision::start(&mut tx, fence, id).await.expect("again"),
        Outcome::Unchanged
    );
    tx.commit().await.expect("commit");
    let mut tx = world.allocation.begin().await.expect("begin");
    assert_eq!(
        provision::activate(&mut tx, fence, id, Some(&access()), None)
            .await
            .expect("activate"),
        Outcome::Changed
    );
    assert_eq!(
        provision::activate(&mut tx, fence, id, Some(&access()), None)
            .await
            .expect("again"),
        Outcome::Unchanged
    );
    tx.commit().await.expect("commit");
    world.finish(fence).await;

    let active = world.get(id).await;
    assert_eq!(
        (active.state, active.power.as_deref()),
        (AllocationState::Active, Some("running"))
    );
    assert_eq!(active.access.expect("access").0, access());
    assert!(active.deadline_at.is_none());
    assert_eq!(world.count(node, SlotStatus::Active).await, 1);
    assert_eq!(
        world
            .number("SELECT count(*) FROM allocation_periods WHERE ended_at IS NULL")
            .await,
        1
    );

    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Project(world.project), id, "", "req-2")
        .await
        .expect("release");
    assert!(begun.workflow_id.is_some());
    let again = release::begin(&mut tx, Scope::Project(world.project), id, "", "req-3")
        .await
        .expect("again");
    assert_eq!(again.workflow_id, None);
    tx.commit().await.expect("commit");
    // billing stops when the release is accepted, not when the wipe is done
    let closed = "SELECT count(*) FROM allocation_periods p JOIN allocations a ON a.id = p.allocation_id
                   WHERE p.ended_at = a.releasing_at AND p.started_at = a.active_at AND p.ended_at > p.started_at";
    assert_eq!(world.number(closed).await, 1);

    let fence = world.take(id).await;
    let evidence = world.wiped(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    assert_eq!(
        release::complete(&mut tx, fence, id, &evidence)
            .await
            .expect("complete"),
        Outcome::Changed
    );
    assert_eq!(
        release::complete(&mut tx, fence, id, &evidence)
            .await
            .expect("again"),
        Outcome::Unchanged
    );
    tx.commit().await.expect("commit");

    let slot = &world.slots(node).await[0];
    assert_eq!(
        (slot.status, slot.health_state),
        (SlotStatus::Available, Health::Healthy)
    );
    assert_eq!((slot.generation, slot.clean_generation), (1, Some(1)));
    assert_eq!(slot.clean_evidence.as_deref(), Some("wiped: blkdiscard"));
    assert_eq!(slot.allocation_id, None);
    assert_eq!(world.get(id).await.state, AllocationState::Released);

    sequencer::run_once(&world.allocation)
        .await
        .expect("sequenced");
    let mut conn = world.allocation.acquire().await.expect("connection");
    let (log, head) = events::read(&mut conn, 0, 100).await.expect("events");
    let of_allocation: Vec<_> = log
        .iter()
        .filter(|event| event.aggregate_id == id)
        .collect();
    assert_eq!(
        of_allocation
            .iter()
            .map(|event| event.kind.as_str())
            .collect::<Vec<_>>(),
        [
            "allocation.reserved",
            "allocation.provisioning",
            "allocation.active",
            "allocation.releasing",
            "allocation.released"
        ]
    );
    assert_eq!(
        of_allocation
            .iter()
            .map(|event| event.revision)
            .collect::<Vec<_>>(),
        [1, 2, 3, 4, 5]
    );
    assert!(log.iter().any(|event| event.kind == "slot.available"));
    assert_eq!(head, i64::try_from(log.len()).expect("few"));
    let data = &of_allocation[2].data;
    assert_eq!(
        (&data["sku"], &data["gpu_count"]),
        (&json!("lab-slice"), &json!(1))
    );
    assert_eq!(data["price_version_id"], json!(price().version_id));
    assert_eq!(
        data["price"],
        json!({"currency": "USD", "nanos_per_gpu_hour": "2490000000"})
    );
    assert_eq!(data["claims"].as_array().expect("claims").len(), 1);
    assert_eq!(of_allocation[2].project_id, Some(world.project));

    // and it can be allocated again
    world.reserved(1).await;
    assert_eq!(world.slots(node).await[0].generation, 2);
}

#[tokio::test]
async fn stale_lease_changes_no_row() {
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let stale = world.take(id).await;
    let fresh = world.take(id).await;
    assert!(fresh.lease_epoch > stale.lease_epoch);
    let before = world.fingerprint().await;
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        provision::start(&mut tx, stale, id).await,
        Err(Error::StaleLease)
    ));
    assert!(matches!(
        provision::activate(&mut tx, stale, id, Some(&access()), None).await,
        Err(Error::StaleLease)
    ));
    let dirty = HostState::Dirty {
        health_detail: "late",
    };
    assert!(matches!(
        provision::fail(&mut tx, stale, id, &failure(), dirty).await,
        Err(Error::StaleLease)
    ));
    assert!(matches!(
        release::complete(&mut tx, stale, id, &[]).await,
        Err(Error::StaleLease)
    ));
    assert!(matches!(
        release::block(&mut tx, stale, id, "late").await,
        Err(Error::StaleLease)
    ));
    tx.commit().await.expect("commit");
    assert_eq!(world.fingerprint().await, before);
    assert_eq!(world.get(id).await.revision, 1);
}

#[tokio::test]
async fn release_takes_the_lease_from_a_running_provision() {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, id).await.expect("start");
    tx.commit().await.expect("commit");

    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    assert!(begun.workflow_id.is_some());
    assert_eq!(world.count(node, SlotStatus::Releasing).await, 1);
    // never active: never billed
    assert_eq!(
        world
            .number("SELECT count(*) FROM allocation_periods")
            .await,
        0
    );
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        provision::activate(&mut tx, fence, id, Some(&access()), None).await,
        Err(Error::StaleLease)
    ));
}

#[tokio::test]
async fn release_before_any_host_effect_is_done_at_once() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.reserved(2).await;
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    assert_eq!(
        (begun.allocation.state, begun.workflow_id),
        (AllocationState::Released, None)
    );
    for slot in world.slots(node).await {
        assert_eq!(
            (slot.status, slot.generation, slot.clean_generation),
            (SlotStatus::Available, 1, Some(1))
        );
        assert_eq!(
            slot.clean_evidence.as_deref(),
            Some("untouched: no host effect")
        );
    }
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        provision::start(&mut tx, fence, id).await,
        Err(Error::StaleLease)
    ));
}

///
/// C-09
#[tokio::test]
async fn inc_14_failed_provision_has_a_reason_and_blocks_its_slots() {
    let (world, node) = World::with_lab_slots(1).await;
    let id = world.reserved(1).await;
    let fence = world.take(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = provision::start(&mut tx, fence, id).await.expect("start");
    let dirty = || HostState::Dirty {
        health_detail: "the guest never answered",
    };
    assert_eq!(
        provision::fail(&mut tx, fence, id, &failure(), dirty())
            .await
            .expect("fail"),
        Outcome::Changed
    );
    assert_eq!(
        provision::fail(&mut tx, fence, id, &failure(), dirty())
            .await
            .expect("again"),
        Outcome::Unchanged
    );
    tx.commit().await.expect("commit");

    let failed = world.get(id).await;
    assert_eq!(
        (failed.state, failed.failure.expect("reason").0),
        (AllocationState::Failed, failure())
    );
    let slot = &world.slots(node).await[0];
    assert_eq!(
        (slot.status, slot.health_state),
        (SlotStatus::CleanupBlocked, Health::Failed)
    );
    assert_eq!(slot.health_detail, "the guest never answered");
    // the claim still holds the slot, and nothing was billed
    assert_eq!(slot.allocation_id, Some(id));
    assert_eq!(
        world
            .number("SELECT count(*) FROM allocation_periods")
            .await,
        0
    );
    // a failed allocation does not count against the quota, and its name is free again
    assert!(matches!(
        world.reserve(&world.request(1)).await,
        Err(Error::Refused { .. })
    ));
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        release::begin(&mut tx, Scope::Platform, id, "", "").await,
        Err(Error::Conflict { .. })
    ));
}

#[tokio::test]
async fn failure_on_a_proven_untouched_host_gives_the_slot_back() {
    let (world, node) = World::with_lab_slots(1).await;
    for started in [false, true] {
        let id = world.reserved(1).await;
        let fence = world.take(id).await;
        let mut tx = world.allocation.begin().await.expect("begin");
        if started {
            let _ = provision::start(&mut tx, fence, id).await.expect("start");
        }
        let untouched = HostState::Untouched {
            detail: json!({"refused_at": "acquire_lease"}),
        };
        let _ = provision::fail(&mut tx, fence, id, &failure(), untouched)
            .await
            .expect("fail");
        tx.commit().await.expect("commit");
        let slot = &world.slots(node).await[0];
        assert_eq!(
            (slot.status, slot.health_state),
            (SlotStatus::Available, Health::Healthy)
        );
        assert_eq!(slot.clean_generation, Some(slot.generation));
        assert_eq!(world.get(id).await.state, AllocationState::Failed);
    }
}

#[tokio::test]
async fn release_without_fresh_evidence_changes_nothing() {
    let (world, node) = World::with_lab_slots(2).await;
    let id = world.active(2).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    let fence = world.take(id).await;
    let good = world.wiped(id).await;
    let old: Vec<_> = good.iter().map(|proof| wiped(proof.slot_id, 0)).collect();
    for evidence in [&[][..], &good[..1], &old] {
        let mut tx = world.allocation.begin().await.expect("begin");
        assert!(matches!(
            release::complete(&mut tx, fence, id, evidence).await,
            Err(Error::EvidenceMissing(_))
        ));
        tx.commit().await.expect("commit");
        assert_eq!(world.count(node, SlotStatus::Releasing).await, 2);
    }
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = release::block(&mut tx, fence, id, "the wipe was not proven")
        .await
        .expect("block");
    tx.commit().await.expect("commit");
    assert_eq!(world.get(id).await.state, AllocationState::Released);
    assert_eq!(world.count(node, SlotStatus::CleanupBlocked).await, 2);
    assert_eq!(
        world
            .number("SELECT count(*) FROM claims WHERE state = 'cleanup_blocked'")
            .await,
        2
    );
}

#[tokio::test]
async fn ledger_time_never_goes_back() {
    let (world, _) = World::with_lab_slots(1).await;
    let id = world.active(1).await;
    // a clock that was set back: the row is of an hour from now
    world.run("UPDATE allocations SET updated_at = clock_timestamp() + interval '1 hour', revision = revision + 1").await;
    let before = world.get(id).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let begun = release::begin(&mut tx, Scope::Platform, id, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    assert_eq!(
        begun.allocation.updated_at.to_jiff(),
        before.updated_at.to_jiff()
    );
    assert_eq!(
        begun.allocation.releasing_at.expect("time").to_jiff(),
        before.updated_at.to_jiff()
    );
}

#[tokio::test]
async fn foreign_project_sees_nothing() {
    let (world, _) = World::with_lab_slots(2).await;
    let (first, second) = (world.reserved(1).await, world.reserved(1).await);
    let foreign = Scope::Project(Uuid::now_v7());
    let mut conn = world.allocation.acquire().await.expect("connection");
    assert!(matches!(
        allocations::get(&mut conn, foreign, first).await,
        Err(Error::NotFound { .. })
    ));
    let mut tx = world.allocation.begin().await.expect("begin");
    assert!(matches!(
        release::begin(&mut tx, foreign, first, "", "").await,
        Err(Error::NotFound { .. })
    ));
    drop(tx);
    assert!(
        allocations::list(&mut conn, Uuid::now_v7(), true, None, 10)
            .await
            .expect("list")
            .is_empty()
    );
    let page = allocations::list(&mut conn, world.project, false, None, 1)
        .await
        .expect("list");
    assert_eq!(page[0].id, second);
    let rest = allocations::list(
        &mut conn,
        world.project,
        false,
        Some((page[0].created_at, second)),
        10,
    )
    .await
    .expect("list");
    assert_eq!(rest.iter().map(|row| row.id).collect::<Vec<_>>(), [first]);
}
