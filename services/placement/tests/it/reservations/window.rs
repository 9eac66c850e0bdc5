//! What time brings: begin, gathering, replacement, giving back, the end.
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{Health, ReservationState};
use gpuaas_placement::node_placement;
use gpuaas_placement::nodes::NodeSpec;
use gpuaas_placement::reservations::{self, Reconciled, ReservationSpec};
use jiff::{SignedDuration, Timestamp};
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use super::{
    counts, create, free, get, of_others, reconcile, reconcile_by, requested, reserved, sound,
};
use crate::baremetal::{WITH_EXECUTOR, world_of};
use crate::queue::suspended::suspend;
use crate::world::{POLICY, World, gpu_counts, h200_sku, lab_slot, lab_spec, price};

/// Moves the window of a reservation, as time does.
async fn pass(world: &World, id: Uuid, hours: u32) {
    world
        .run(&format!(
            "UPDATE capacity_reservations SET starts_at = starts_at - interval '{hours} hours',
                    ends_at = ends_at - interval '{hours} hours' WHERE id = '{id}';
             UPDATE reserved_slots SET idle_since = idle_since - interval '{hours} hours',
                    reserved_since = reserved_since - interval '{hours} hours' WHERE reservation_id = '{id}'"
        ))
        .await;
}

#[tokio::test]
async fn a_window_begins_holds_and_ends_and_what_runs_goes_on() {
    let (world, _) = World::with_lab_slots(2).await;
    let later = ReservationSpec {
        starts_at: Some(Timestamp::now() + SignedDuration::from_hours(2)),
        ends_at: Timestamp::now() + SignedDuration::from_hours(5),
        ..requested(&world, 2)
    };
    let row = create(&world, &later).await.expect("made");
    assert_eq!(row.state, ReservationState::Scheduled);
    assert_eq!(reconcile(&world).await, Reconciled::default());
    assert_eq!(counts(&world, row.id).await, (0, 0, 0));
    // until then anybody may have it
    let early = world.reserve(&of_others(&world, 1)).await.expect("open");

    pass(&world, row.id, 3).await;
    let reconciled = reconcile(&world).await;
    assert_eq!((reconciled.begun, reconciled.held), (vec![row.id], 1));
    let now = get(&world, row.id).await;
    assert_eq!((now.state, now.missing()), (ReservationState::Active, 1));
    // what becomes free is held, and a second look changes nothing
    free(&world, early.allocation_id).await;
    assert_eq!(reconcile(&world).await.held, 1);
    assert_eq!(reconcile(&world).await, Reconciled::default());
    let own = world.active(1).await;
    assert_eq!(counts(&world, row.id).await, (2, 1, 1));
    sound(&world).await;

    pass(&world, row.id, 3).await;
    assert_eq!(reconcile(&world).await.ended, [row.id]);
    let over = get(&world, row.id).await;
    assert_eq!(over.state, ReservationState::Ended);
    assert_eq!(
        (
            over.reason.as_str(),
            over.reserved_gpus,
            over.ended_at.is_some()
        ),
        ("The reservation reached its end time.", 0, true)
    );
    assert_eq!(world.get(own).await.state.as_str(), "active");
    world
        .reserve(&of_others(&world, 1))
        .await
        .expect("open again");
    assert_eq!(reconcile(&world).await, Reconciled::default());
    let audited = "SELECT count(*) FROM audit WHERE action = 'reservation.end' AND principal = 'service:scheduler'";
    assert_eq!(world.number(audited).await, 1);
    // P10: what is made has one digest, what ends has two that differ
    let digested = "SELECT count(*) FROM audit WHERE
        CASE action WHEN 'reservation.end' THEN detail->>'before_digest' <> detail->>'after_digest'
             ELSE detail->'before_digest' IS NULL AND detail->>'after_digest' ~ '^[0-9a-f]{64}$' END";
    let all = world.number("SELECT count(*) FROM audit").await;
    assert_eq!(world.number(digested).await, all);
    let launched = "SELECT count(*) FROM audit WHERE action = 'allocation.create'";
    assert!(world.number(launched).await > 0);
    sound(&world).await;
}

#[tokio::test]
async fn in_a_suspended_project_no_window_begins_and_nothing_more_is_gathered() {
    let (world, _) = World::with_lab_slots(3).await;
    let others = world.reserve(&of_others(&world, 1)).await.expect("open");
    let gathering = ReservationSpec {
        gather: true,
        ..requested(&world, 3)
    };
    let gathering = create(&world, &gathering).await.expect("made");
    assert_eq!(counts(&world, gathering.id).await, (2, 0, 2));
    let later = ReservationSpec {
        starts_at: Some(Timestamp::now() + SignedDuration::from_hours(2)),
        ends_at: Timestamp::now() + SignedDuration::from_hours(5),
        ..requested(&world, 1)
    };
    let later = create(&world, &later).await.expect("made");
    suspend(&world, world.project, true, 2).await;
    free(&world, others.allocation_id).await;
    pass(&world, later.id, 3).await;
    assert_eq!(reconcile(&world).await, Reconciled::default());
    let held_back = get(&world, later.id).await;
    assert_eq!(held_back.state, ReservationState::Scheduled);
    assert!(
        held_back.reason.starts_with("The project is suspended"),
        "{held_back:?}"
    );
    assert_eq!(
        counts(&world, gathering.id).await,
        (2, 0, 2),
        "what it has it keeps"
    );
    // what is free is for others
    let others = world.reserve(&of_others(&world, 1)).await.expect("open");
    free(&world, others.allocation_id).await;

    suspend(&world, world.project, false, 3).await;
    let reconciled = reconcile(&world).await;
    assert_eq!((reconciled.begun, reconciled.held), (vec![later.id], 1));
    assert_eq!(get(&world, later.id).await.reason, "");

    // one whose window is over meanwhile ends, and never begins
    suspend(&world, world.project, true, 4).await;
    pass(&world, later.id, 3).await;
    assert_eq!(reconcile(&world).await.ended, [later.id]);
    sound(&world).await;
}

#[tokio::test]
async fn what_does_not_fit_now_is_refused_or_gathered() {
    let (world, _) = World::with_lab_slots(3).await;
    let others = world.reserve(&of_others(&world, 1)).await.expect("open");
    let before = world.fingerprint().await;
    let error = gpuaas_common::Error::from(
        create(&world, &requested(&world, 3))
            .await
            .expect_err("full"),
    );
    assert_eq!(
        error.message(),
        "2 of 3 GPUs can be reserved now. 1 GPU is in use on 1 node."
    );
    assert_eq!(error.reason_name(), "SLOTS_IN_USE");
    assert_eq!(world.fingerprint().await, before);
    assert_eq!(world.number("SELECT count(*) FROM reserved_slots").await, 0);

    let gather = ReservationSpec {
        gather: true,
        ..requested(&world, 3)
    };
    let row = create(&world, &gather).await.expect("gathers");
    assert_eq!((row.reserved_gpus, row.missing()), (2, 1));
    assert_eq!(reconcile(&world).await, Reconciled::default());
    free(&world, others.allocation_id).await;
    assert_eq!(reconcile(&world).await.held, 1);
    assert_eq!(counts(&world, row.id).await, (3, 0, 3));
    sound(&world).await;
}

#[tokio::test]
async fn what_nobody_uses_is_given_back_by_policy_and_says_so() {
    let (world, _) = World::with_lab_slots(3).await;
    let policy = ReservationSpec {
        release_unused_after: Some(3600),
        ends_at: Timestamp::now() + SignedDuration::from_hours(48),
        ..requested(&world, 3)
    };
    let row = create(&world, &policy).await.expect("made");
    let own = world.active(1).await;
    assert_eq!(reconcile(&world).await, Reconciled::default());
    pass(&world, row.id, 2).await;
    let reconciled = reconcile(&world).await;
    assert_eq!((reconciled.released, reconciled.held), (2, 0));
    let smaller = get(&world, row.id).await;
    assert_eq!(
        (
            smaller.released_gpus,
            smaller.reserved_gpus,
            smaller.missing()
        ),
        (2, 1, 0)
    );
    assert_eq!(
        smaller.reason,
        "2 GPU(s) were unused for 3600 seconds and were released."
    );
    assert_eq!(smaller.state, ReservationState::Active);
    world
        .reserve(&of_others(&world, 1))
        .await
        .expect("given back");
    // the one in use stays as long as it is in use, and its hour begins when that ends
    pass(&world, row.id, 2).await;
    assert_eq!(reconcile(&world).await, Reconciled::default());
    let running = get(&world, row.id).await;
    assert_eq!((running.used_gpus, running.unused_since), (1, None));
    let mut tx = world.allocation.begin().await.expect("begin");
    gpuaas_placement::release::begin(&mut tx, gpuaas_placement::Scope::Platform, own, "", "")
        .await
        .expect("release");
    tx.commit().await.expect("commit");
    let fence = world.take(own).await;
    let proofs = world.wiped(own).await;
    let mut tx = world.allocation.begin().await.expect("begin");
    let _ = gpuaas_placement::release::complete(&mut tx, fence, own, &proofs)
        .await
        .expect("complete");
    tx.commit().await.expect("commit");
    world.finish(fence).await;
    assert_eq!(reconcile(&world).await, Reconciled::default());
    assert_eq!(counts(&world, row.id).await, (1, 0, 1));
    pass(&world, row.id, 2).await;
    let reconciled = reconcile(&world).await;
    assert_eq!((reconciled.released, reconciled.ended), (1, vec![row.id]));
    let over = get(&world, row.id).await;
    assert_eq!(
        (over.state, over.released_gpus),
        (ReservationState::Ended, 3)
    );
    assert!(over.reason.contains("were released"), "{}", over.reason);
    sound(&world).await;
}

/// Were it let go, who is quicker would have it when the host is back.
#[tokio::test]
async fn a_host_that_does_not_report_keeps_what_is_held_on_it() {
    let world = World::new().await;
    let host = lab_spec();
    world.node(host.clone()).await;
    world.approve(host.id, &[lab_slot(0)]).await;
    let row = reserved(&world, 1).await;
    world.lab_node(1).await;
    // as inventory tells it of a host that is silent
    let silent = NodeSpec {
        schedulable: false,
        not_schedulable_reason: "HOST_LOST".into(),
        host_health: Health::Unknown,
        ..host.clone()
    };
    world.node(silent).await;
    assert_eq!(reconcile(&world).await, Reconciled::default());
    // it is held, and that it cannot be had now is said
    assert_eq!(counts(&world, row.id).await, (1, 0, 0));
    world.node(host).await;
    assert_eq!(reconcile(&world).await, Reconciled::default());
    assert_eq!(counts(&world, row.id).await, (1, 0, 1));
    sound(&world).await;
}

#[tokio::test]
async fn slots_that_are_not_fit_any_more_are_replaced() {
    let (world, node) = World::with_lab_slots(1).await;
    let row = reserved(&world, 1).await;
    let slot = world.slots(node).await[0].id;
    let spare = world.lab_node(1).await;
    for (broken, repaired) in [
        (
            format!("UPDATE slots SET host_health = 'degraded' WHERE id = '{slot}'"),
            format!("UPDATE slots SET host_health = 'healthy' WHERE id = '{slot}'"),
        ),
        (
            format!("UPDATE nodes SET admin_state = 'cordoned' WHERE id = '{node}'"),
            format!("UPDATE nodes SET admin_state = 'enabled' WHERE id = '{node}'"),
        ),
    ] {
        world.run(&broken).await;
        let reconciled = reconcile(&world).await;
        assert_eq!((reconciled.dropped, reconciled.held), (1, 1), "{broken}");
        let on: Uuid = sqlx::query_scalar("SELECT node_id FROM reserved_slots")
            .fetch_one(&world.owner)
            .await
            .expect("held");
        assert_eq!(on, spare, "{broken}");
        // back to the first, for the next way to break it
        world
            .run(&format!(
                "{repaired}; UPDATE nodes SET admin_state = 'draining' WHERE id = '{spare}'"
            ))
            .await;
        assert_eq!(reconcile(&world).await.held, 1);
        world
            .run(&format!(
                "UPDATE nodes SET admin_state = 'enabled' WHERE id = '{spare}'"
            ))
            .await;
        sound(&world).await;
    }

    // an operator takes the slot out of service, and for good
    let mut tx = world.scheduler.begin().await.expect("begin");
    node_placement::set_slot_admin_state(
        &mut tx,
        node,
        slot,
        true,
        Attribution::of("user:test", "broken"),
    )
    .await
    .expect("disabled");
    tx.commit().await.expect("commit");
    assert_eq!(reconcile(&world).await.dropped, 1);
    let spare_slot = world.slots(spare).await[0].id;
    world
        .run(&format!(
            "UPDATE slots SET status = 'disabled' WHERE id = '{spare_slot}';
             UPDATE slots SET status = 'retired' WHERE id = '{spare_slot}'"
        ))
        .await;
    // the database itself lets go of a slot that is retired
    assert_eq!(world.number("SELECT count(*) FROM reserved_slots").await, 0);
    assert_eq!(reconcile(&world).await, Reconciled::default());
    assert_eq!(get(&world, row.id).await.missing(), 1);
}

/// One GPU of what is allocated together is nothing that can be launched on: the others of it are let go with it.
#[tokio::test]
async fn what_is_allocated_together_is_replaced_together() {
    let (world, specs) = world_of(2).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let fours = Sku {
        code: "h200-four".into(),
        allowed_gpu_counts: gpu_counts(&[4, 8]),
        ..h200_sku()
    };
    catalog::put_sku(&mut conn, &fours).await.expect("sku");
    let now = Timestamp::now().to_sqlx();
    catalog::put_price(&mut conn, &fours.code, &price(), now)
        .await
        .expect("price");
    drop(conn);
    for (sku, policy) in [("h200-four", POLICY), ("h200-sxm-node", WITH_EXECUTOR)] {
        let eight = ReservationSpec {
            sku: sku.into(),
            ..requested(&world, 8)
        };
        let made = reservations::create(&world.scheduler, world.ids, policy, &eight).await;
        let row = made.expect("made").0;
        let on = "SELECT DISTINCT node_id FROM reserved_slots";
        let on = async || -> Uuid {
            sqlx::query_scalar(on)
                .fetch_one(&world.owner)
                .await
                .expect("one node")
        };
        let first = on().await;
        assert!(specs.iter().any(|spec| spec.id == first));
        let health = |health: &str| {
            format!(
                "UPDATE slots SET host_health = '{health}' WHERE node_id = '{first}' AND slot_index = 5"
            )
        };
        world.run(&health("degraded")).await;
        let reconciled = reconcile_by(&world, policy).await;
        assert_eq!((reconciled.dropped, reconciled.held), (8, 8), "{sku}");
        assert_ne!(on().await, first, "{sku}");
        assert_eq!(counts(&world, row.id).await, (8, 0, 8), "{sku}");
        assert_eq!(
            reconcile_by(&world, policy).await,
            Reconciled::default(),
            "{sku}"
        );

        // without another node nothing is held in vain, and it is held again when it is whole again
        let second = on().await;
        let cordon =
            |state: &str| format!("UPDATE nodes SET admin_state = '{state}' WHERE id = '{second}'");
        world.run(&cordon("cordoned")).await;
        let reconciled = reconcile_by(&world, policy).await;
        assert_eq!((reconciled.dropped, reconciled.held), (8, 0), "{sku}");
        world.run(&health("healthy")).await;
        assert_eq!(reconcile_by(&world, policy).await.held, 8, "{sku}");
        assert_eq!(on().await, first, "{sku}");
        world.run(&cordon("enabled")).await;
        sound(&world).await;
        pass(&world, row.id, 2).await;
        assert_eq!(reconcile_by(&world, policy).await.ended, [row.id]);
    }
}

/// What is gathered is held node by node, each in a transaction of its own: a node that somebody works on keeps neither
/// the reservation nor the others waiting.
#[tokio::test]
async fn gathering_waits_for_no_node_and_keeps_none_locked() {
    let world = World::new().await;
    let (busy, free) = (world.lab_node(2).await, world.lab_node(2).await);
    let mut other = world.owner.begin().await.expect("begin");
    sqlx::query("SELECT FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(busy)
        .execute(&mut *other)
        .await
        .expect("lock");
    let gather = ReservationSpec {
        gather: true,
        ..requested(&world, 4)
    };
    let row = create(&world, &gather).await.expect("made");
    assert_eq!((row.reserved_gpus, row.missing()), (2, 2));
    let on: Uuid = sqlx::query_scalar("SELECT DISTINCT node_id FROM reserved_slots")
        .fetch_one(&world.owner)
        .await
        .expect("one node");
    assert_eq!(on, free);
    let reconciled = reconcile(&world).await;
    assert_eq!((reconciled.held, reconciled.busy), (0, true));
    other.commit().await.expect("commit");
    assert_eq!(reconcile(&world).await.held, 2);
    // a key that is sent again makes nothing more
    let again = create(&world, &gather).await.expect("replayed");
    assert_eq!((again.id, again.reserved_gpus), (row.id, 4));
    sound(&world).await;
}
