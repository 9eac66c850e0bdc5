//! Hosts that are lost: the condition of what is on them, and the forced release of it.

use gpuaas_common::Error;
use gpuaas_placement::model::{ClaimState, SlotStatus};
use gpuaas_placement::{audit, claims};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::Timestamp;
use sqlx::PgPool;
use uuid::Uuid;

use crate::expect::timeline;
use crate::platform::{Platform, good};
use crate::world::World;

fn word(id: &str) -> pb::ForceReleaseAllocationRequest {
    pb::ForceReleaseAllocationRequest {
        allocation_id: id.into(),
        host_fate: pb::HostFate::PoweredOff.into(),
        reason: "the rack burnt".into(),
        ..Default::default()
    }
}

impl Platform {
    async fn force(
        &self,
        request: pb::ForceReleaseAllocationRequest,
        key: Option<&str>,
    ) -> Result<pb::ForceRelease, Error> {
        let request = self.admin(request, key);
        let answer = self.admins.clone().force_release_allocation(request).await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    }

    /// An active allocation.
    async fn active(&self) -> (Uuid, String) {
        let created = self.create(good("web"), "create").await.expect("created");
        let id = created.id.parse().expect("an id");
        self.world.until_state(id, "active").await;
        self.world.until_idle(id).await;
        (id, created.id)
    }
}

/// Nothing of the ledger is unsound.
async fn sound(world: &World) {
    let mut conn = world.scheduler.acquire().await.expect("a connection");
    let report = audit::ledger(&mut conn).await.expect("an audit");
    assert_eq!(
        report.broken().collect::<Vec<_>>(),
        Vec::<&audit::InvariantCheck>::new()
    );
}

async fn last_event(pool: &PgPool, id: Uuid) -> (String, serde_json::Value) {
    sqlx::query_as(
        "SELECT type, data FROM outbox WHERE aggregate_id = $1 ORDER BY revision DESC LIMIT 1",
    )
    .bind(id)
    .fetch_one(pool)
    .await
    .expect("an event")
}

#[tokio::test]
async fn p7_an_allocation_whose_host_is_silent_says_so_at_once_and_until_it_is_back() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let (id, text) = platform.active().await;
    assert!(
        platform
            .get(&text)
            .await
            .status
            .expect("a status")
            .conditions
            .is_empty()
    );

    let last_seen = world.lose_host().await;
    let status = platform.get(&text).await.status.expect("a status");
    assert_eq!(status.conditions.len(), 1);
    let condition = &status.conditions[0];
    assert_eq!(condition.r#type, "host_lost");
    assert_eq!(
        condition.since.expect("a time").seconds,
        last_seen.as_second()
    );
    assert!(
        condition.message.contains("does not answer"),
        "{}",
        condition.message
    );
    let (kind, data) = last_event(&world.pool, id).await;
    assert_eq!(kind, "allocation.host_lost");
    assert_eq!(data["host_lost_since"], last_seen.to_string());
    // told again, it is no news
    world.lose_host_since(last_seen).await;
    let reported = |entries: Vec<(i64, String, String)>| -> Vec<String> {
        entries
            .into_iter()
            .map(|(_, step, _)| step)
            .filter(|step| step.starts_with("host_"))
            .collect()
    };
    assert_eq!(reported(timeline(world, id).await), ["host_lost"]);
    sound(world).await;

    world.find_host().await;
    assert!(
        platform
            .get(&text)
            .await
            .status
            .expect("a status")
            .conditions
            .is_empty()
    );
    assert_eq!(last_event(&world.pool, id).await.0, "allocation.host_found");
    assert_eq!(
        reported(timeline(world, id).await),
        ["host_lost", "host_found"]
    );
    assert_eq!(
        world.periods(id).await,
        (1, 1),
        "it was billable all the while"
    );
    sound(world).await;
}

#[tokio::test]
async fn d_80_an_allocation_whose_device_drifts_says_so_until_it_ends_and_is_billed_all_the_while()
{
    let platform = Platform::start().await;
    let world = &platform.world;
    let (id, text) = platform.active().await;
    let conditions = async || {
        let status = platform.get(&text).await.status;
        status.expect("a status").conditions
    };
    let all = world.slot_ids.len();
    world.report_disks(all).await;
    assert!(conditions().await.is_empty());
    world.report_disks(0).await;
    let reported = conditions().await;
    assert_eq!(reported.len(), 1);
    assert_eq!(reported[0].r#type, "device_drift");
    assert!(reported[0].since.is_some() && reported[0].message.contains("disk"));
    assert!(
        !reported[0].message.contains("lab-disk"),
        "nothing of the host"
    );
    let (kind, data) = last_event(&world.pool, id).await;
    assert_eq!(kind, "allocation.device_drift");
    assert_eq!(data["device_drift"], reported[0].message);
    sound(world).await;
    world.report_disks(all).await;
    assert!(conditions().await.is_empty());
    assert_eq!(
        last_event(&world.pool, id).await.0,
        "allocation.device_drift_ended"
    );
    assert_eq!(world.periods(id).await, (1, 1));
    sound(world).await;
}

#[tokio::test]
async fn p7_what_was_on_a_host_that_was_installed_anew_stays_lost() {
    let mut platform = Platform::start().await;
    let (_, text) = platform.active().await;
    platform.world.host_gone().await;
    platform.world.reinstall_host().await;
    let status = platform.get(&text).await.status.expect("a status");
    assert_eq!(status.conditions.len(), 1);
    assert!(
        status.conditions[0].message.contains("installed anew"),
        "{status:?}"
    );
    platform.world.find_host().await;
    assert_eq!(
        platform
            .get(&text)
            .await
            .status
            .expect("a status")
            .conditions
            .len(),
        1
    );
    sound(&platform.world).await;
}

#[tokio::test]
async fn b_28_a_forced_release_is_refused_while_the_host_answers_and_without_an_attestation() {
    let platform = Platform::start().await;
    let (_, text) = platform.active().await;
    let before = platform.rows().await;
    let refused = platform
        .force(word(&text), Some("a"))
        .await
        .expect_err("refused");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    assert!(
        refused.message().contains("its host answers"),
        "{}",
        refused.message()
    );

    let last_seen = platform.world.lose_host().await;
    let at = |seconds: i64| {
        Some(prost_types::Timestamp {
            seconds: last_seen.as_second() + seconds,
            nanos: 0,
        })
    };
    let cases: [(&str, Option<&str>, pb::ForceReleaseAllocationRequest); 6] = [
        (
            "reason",
            Some("b"),
            pb::ForceReleaseAllocationRequest {
                reason: " ".into(),
                ..word(&text)
            },
        ),
        (
            "reason",
            Some("b"),
            pb::ForceReleaseAllocationRequest {
                reason: "a\nb".into(),
                ..word(&text)
            },
        ),
        (
            "host_fate",
            Some("b"),
            pb::ForceReleaseAllocationRequest {
                host_fate: 0,
                ..word(&text)
            },
        ),
        (
            "billing_end_time",
            Some("b"),
            pb::ForceReleaseAllocationRequest {
                billing_end_time: at(3600),
                ..word(&text)
            },
        ),
        (
            "billing_end_time",
            Some("b"),
            pb::ForceReleaseAllocationRequest {
                billing_end_time: at(-3600),
                ..word(&text)
            },
        ),
        ("allocation_id", Some("b"), word("x")),
    ];
    for (field, key, request) in cases {
        let refused = platform.force(request, key).await.expect_err(field);
        assert_eq!(refused.fields()[0].0, field);
    }
    let refused = platform.force(word(&text), None).await.expect_err("no key");
    assert_eq!(refused.reason(), ErrorReason::IdempotencyKeyMissing);
    let reinstalled = pb::ForceReleaseAllocationRequest {
        host_fate: pb::HostFate::Reinstalled.into(),
        ..word(&text)
    };
    let refused = platform
        .force(reinstalled, Some("b"))
        .await
        .expect_err("it was not");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    let user = platform.user(word(&text), Some("b"));
    let refused = platform
        .admins
        .clone()
        .force_release_allocation(user)
        .await
        .expect_err("no administrator");
    assert_eq!(Error::from(refused).reason(), ErrorReason::PermissionDenied);
    let unknown = platform
        .force(word(&Uuid::now_v7().to_string()), Some("b"))
        .await
        .expect_err("unknown");
    assert_eq!(unknown.reason(), ErrorReason::AllocationNotFound);

    // a dry run says what would be
    let dry = pb::ForceReleaseAllocationRequest {
        validate_only: true,
        ..word(&text)
    };
    let would_be = platform.force(dry, None).await.expect("a dry run");
    let status = would_be.allocation.expect("it").status.expect("a status");
    assert_eq!(status.state(), pb::AllocationState::Released);
    let mut after = platform.rows().await;
    // the host's loss was an event and an entry
    after[3] -= 1;
    after[5] -= 1;
    assert_eq!(after, before);
}

#[tokio::test]
async fn b_28_c_12_p3_a_forced_release_ends_claim_and_billing_at_the_last_proof_of_life() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let (id, text) = platform.active().await;
    world.host_gone().await;
    let last_seen = world.lose_host().await;
    let forced = platform
        .force(word(&text), Some("f"))
        .await
        .expect("forced");
    let allocation = forced.allocation.clone().expect("it");
    assert_eq!(
        allocation.status.expect("a status").state(),
        pb::AllocationState::Released
    );
    assert_eq!(forced.host_fate(), pb::HostFate::PoweredOff);
    assert_eq!(
        (forced.principal.as_str(), forced.reason.as_str()),
        ("user:root", "the rack burnt")
    );
    assert_eq!(forced.slot_ids, [world.slot_of(id).await.id.to_string()]);
    let ended: Timestamp =
        sqlx::query_scalar("SELECT ended_at FROM allocation_periods WHERE allocation_id = $1")
            .bind(id)
            .fetch_one(&world.pool)
            .await
            .expect("one period");
    assert_eq!(ended.to_jiff(), last_seen);
    assert_eq!(
        forced.billing_end_time.expect("a time").seconds,
        last_seen.as_second()
    );
    assert_eq!(world.periods(id).await, (1, 0));

    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::Disabled);
    assert_ne!(slot.clean_generation, Some(slot.generation));
    let mut conn = world.pool.acquire().await.expect("a connection");
    let held = claims::of_allocation(&mut conn, id).await.expect("claims");
    assert_eq!(held[0].state, ClaimState::Released);
    let on_record: (String, String, serde_json::Value) = sqlx::query_as(
        "SELECT principal, resource_id, detail FROM audit WHERE action = 'allocation.force_release'",
    )
    .fetch_one(&world.pool)
    .await
    .expect("one audit row");
    assert_eq!(
        (on_record.0.as_str(), on_record.1.as_str()),
        ("user:root", text.as_str())
    );
    assert_eq!(on_record.2["host_fate"], "powered_off");
    sound(world).await;

    // the key again is the same; another one finds nothing left
    let again = platform
        .force(word(&text), Some("f"))
        .await
        .expect("the same");
    assert_eq!(again, forced);
    let refused = platform
        .force(word(&text), Some("g"))
        .await
        .expect_err("over");
    assert_eq!(refused.reason(), ErrorReason::StateConflict);
    // nothing but a wipe makes the slot available
    let enabled = gpuaas_placement::node_placement::set_slot_admin_state(
        &mut world.scheduler.acquire().await.expect("a connection"),
        world.node_id,
        slot.id,
        false,
        gpuaas_placement::model::Attribution::of("user:test", ""),
    )
    .await
    .expect("an intent");
    assert_eq!(enabled.status, SlotStatus::Disabled);
}

#[tokio::test]
async fn p3_an_attested_end_of_billing_is_the_end() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let (id, text) = platform.active().await;
    let active_at = world
        .allocation(id)
        .await
        .active_at
        .expect("a time")
        .to_jiff();
    world.lose_host().await;
    let attested = pb::ForceReleaseAllocationRequest {
        billing_end_time: Some(gpuaas_common::time::proto_time(active_at)),
        ..word(&text)
    };
    platform.force(attested, Some("f")).await.expect("forced");
    let (started, ended): (Timestamp, Timestamp) = sqlx::query_as(
        "SELECT started_at, ended_at FROM allocation_periods WHERE allocation_id = $1",
    )
    .bind(id)
    .fetch_one(&world.pool)
    .await
    .expect("one period");
    assert_eq!(started, ended);
    let events: Vec<(String, serde_json::Value)> = sqlx::query_as(
        "SELECT type, data -> 'billed_until' FROM outbox WHERE aggregate_id = $1 ORDER BY revision DESC LIMIT 2",
    )
    .bind(id)
    .fetch_all(&world.pool)
    .await
    .expect("events");
    assert_eq!(events[0].0, "allocation.released");
    assert_eq!(
        events[1],
        ("allocation.releasing".into(), active_at.to_string().into())
    );
    sound(world).await;
}

#[tokio::test]
async fn p6_c_13_a_host_that_comes_back_late_changes_nothing_until_its_slot_is_wiped() {
    let platform = Platform::start().await;
    let world = &platform.world;
    let (id, text) = platform.active().await;
    world.host_gone().await;
    // its owner has given it up already: that waits for the host
    platform.release(&text, "release").await.expect("accepted");
    let accepted: Timestamp = world.allocation(id).await.releasing_at.expect("a time");
    world.lose_host().await;
    let forced = platform
        .force(word(&text), Some("f"))
        .await
        .expect("forced");
    assert_eq!(forced.billing_end_time, None, "billing had ended");
    let ended: Timestamp =
        sqlx::query_scalar("SELECT ended_at FROM allocation_periods WHERE allocation_id = $1")
            .bind(id)
            .fetch_one(&world.pool)
            .await
            .expect("one period");
    assert_eq!(ended, accepted);
    sound(world).await;

    world.host_up().await;
    world.find_host().await;
    world.until_idle(id).await;
    let state = world.host.state().await;
    assert_eq!(
        state.count("release"),
        0,
        "nobody asks it to release: {state:?}"
    );
    assert_eq!(state.domains.len(), 1, "the VM is still there");
    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::Disabled);

    // the repair of the slot removes what is left, wipes the disk and proves it
    world.repair(slot.id).await;
    world.until_idle(slot.id).await;
    let slot = world.slot_of(id).await;
    assert_eq!(slot.status, SlotStatus::Available, "{}", slot.health_detail);
    assert_eq!(slot.clean_evidence.as_deref(), Some("wiped: blkdiscard"));
    world.host_is_clean(false, "repaired").await;
    assert!(world.host.state().await.dirty.is_empty());
    sound(world).await;
    let next = platform
        .create(good("next"), "next")
        .await
        .expect("created");
    let next = next.id.parse().expect("an id");
    world.until_state(next, "active").await;
}

#[tokio::test]
async fn b_28_a_blocked_slot_of_a_failed_allocation_is_let_go_of_too() {
    let platform = Platform::start().await;
    let world = &platform.world;
    world.host.script(|script| {
        script.fail = Some((
            "provision",
            "start",
            ErrorReason::HypervisorFailed,
            gpuaas_proto::gpuaas::agent::v1::FailureClass::Host,
        ));
    });
    let created = platform
        .create(good("web"), "create")
        .await
        .expect("created");
    let id: Uuid = created.id.parse().expect("an id");
    world.until_state(id, "failed").await;
    world.until_idle(id).await;
    assert_eq!(world.slot_of(id).await.status, SlotStatus::CleanupBlocked);
    world.lose_host().await;
    let forced = platform
        .force(word(&created.id), Some("f"))
        .await
        .expect("forced");
    let status = forced.allocation.expect("it").status.expect("a status");
    assert_eq!(
        status.state(),
        pb::AllocationState::Failed,
        "what it was, it is"
    );
    assert_eq!(world.slot_of(id).await.status, SlotStatus::Disabled);
    sound(world).await;
}
