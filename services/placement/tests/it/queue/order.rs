//! Who is served next, who passes whom, and what is kept for whom.
use std::collections::HashSet;

use futures::future::join_all;
use gpuaas_placement::model::{Priority, SlotStatus};
use gpuaas_placement::reserve::{Constraints, Pass, Request, serve_queue};
use gpuaas_placement::{Error, queue};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use uuid::Uuid;

use super::{batch, free, pass, queue_position, set_quota, sound, wait, waiter};
use crate::world::{H200, POLICY, World, h200_slot, lab_spec};

#[tokio::test]
async fn projects_are_served_round_robin_by_class_then_age() {
    let (world, _) = World::with_lab_slots(1).await;
    let mut holder = world.reserved(1).await;
    let [a, b, c] = [(); 3].map(|()| Uuid::now_v7());
    let mut conn = world.scheduler.acquire().await.expect("connection");
    queue::priority::put(&mut conn, c, Priority::High)
        .await
        .expect("priority");
    drop(conn);
    let mut made = Vec::new();
    for project in [a, a, a, b, c] {
        made.push(waiter(&world, project).await);
    }
    let expected = [made[4], made[0], made[3], made[1], made[2]];
    for (place, id) in expected.iter().enumerate() {
        let stands = queue_position(&world, *id).await.expect("queued");
        assert_eq!(stands.position as usize, place + 1);
    }
    for id in expected {
        free(&world, holder).await;
        assert_eq!(pass(&world).await.served, [id]);
        holder = id;
    }
    sound(&world).await;
}

/// Who was served goes to the end of the round robin within the same pass: the next of its project is before the second of one
/// that has somebody who cannot be helped, and has what is left.
#[tokio::test]
async fn who_comes_before_others_in_the_round_robin_of_the_same_pass_is_served_in_it() {
    let (world, _) = World::with_lab_slots(1).await;
    world.lab_node(1).await;
    let holders = [world.reserved(1).await, world.reserved(1).await];
    let [a, b] = [(); 2].map(|()| Uuid::now_v7());
    // no node has two slots
    let in_vain = Request {
        project_id: a,
        ..world.request(2)
    };
    let in_vain = wait(&world, &in_vain).await.expect("waits").allocation_id;
    let first = waiter(&world, b).await;
    let passed = waiter(&world, a).await;
    let second = waiter(&world, b).await;
    for holder in holders {
        free(&world, holder).await;
    }
    assert_eq!(pass(&world).await.served, [first, second]);
    for (place, id) in [in_vain, passed].into_iter().enumerate() {
        let stands = queue_position(&world, id).await.expect("queued");
        assert_eq!(stands.position as usize, place + 1);
    }
    sound(&world).await;
}

/// One slot is free, many want it: four servers at once and those who do not wait. The first of the queue has it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn p1_a_freed_slot_goes_to_the_first_of_the_queue_and_to_nobody_else() {
    let (world, node) = World::with_lab_slots(1).await;
    let mut holder = world.reserved(1).await;
    let mut queue = Vec::new();
    for _ in 0..6 {
        queue.push(waiter(&world, Uuid::now_v7()).await);
    }
    for first in queue {
        let servers = join_all((0..4).map(|_| serve_queue(&world.scheduler, world.ids, POLICY)));
        let passers_by = join_all((0..8).map(|_| async {
            let request = Request {
                project_id: Uuid::now_v7(),
                ..world.request(1)
            };
            world.reserve(&request).await
        }));
        let freeing = free(&world, holder);
        let (passes, created, _) = tokio::join!(servers, passers_by, freeing);
        let mut served: Vec<Uuid> = passes
            .into_iter()
            .flat_map(|pass| pass.expect("pass").served)
            .collect();
        served.extend(pass(&world).await.served);
        assert_eq!(served, [first]);
        for outcome in created {
            match outcome {
                Err(Error::Refused { reason, .. }) => assert!(
                    matches!(reason, ErrorReason::SlotsInUse | ErrorReason::QueuedAhead),
                    "{reason:?}"
                ),
                Err(Error::Busy { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(world.count(node, SlotStatus::Reserved).await, 1);
        sound(&world).await;
        holder = first;
    }
}

/// A large request is passed on nodes that are not kept for it, and never on the one that is.
#[tokio::test]
async fn b_17_small_requests_do_not_keep_a_large_one_waiting_for_ever() {
    let world = World::new().await;
    let nodes = [world.lab_node(2).await, world.lab_node(2).await];
    let mut on: Vec<(Uuid, Uuid)> = Vec::new();
    for _ in 0..4 {
        let id = world.reserved(1).await;
        on.push((id, world.get(id).await.node_id.expect("placed")));
    }
    let large = wait(&world, &world.request(2))
        .await
        .expect("waits")
        .allocation_id;
    pass(&world).await;
    let mut conn = world.scheduler.acquire().await.expect("connection");
    let kept = queue::backfill_reservations(
        &mut conn,
        crate::world::REGION,
        gpuaas_placement::model::SlotClass::Lab,
    )
    .await
    .expect("kept");
    assert_eq!(kept.len(), 1);
    let kept = kept[0].0;
    let other = *nodes.iter().find(|node| **node != kept).expect("two nodes");
    let release_one = |node: Uuid, on: &mut Vec<(Uuid, Uuid)>| {
        let place = on.iter().position(|(_, at)| *at == node).expect("held");
        on.remove(place).0
    };
    // one slot is free on the node that is kept: no small one gets it, neither at once nor by waiting
    free(&world, release_one(kept, &mut on)).await;
    let refused = world.reserve(&world.request(1)).await;
    assert!(
        matches!(&refused, Err(Error::Refused { causes, .. })
            if causes.iter().any(|cause| cause.reason == ErrorReason::QueuedAhead)),
        "{refused:?}"
    );
    let small = waiter(&world, Uuid::now_v7()).await;
    assert_eq!(pass(&world).await.served, Vec::<Uuid>::new());
    // what is free on the other node is of no use to the large one
    free(&world, release_one(other, &mut on)).await;
    assert_eq!(pass(&world).await.served, [small]);
    assert_eq!(world.get(small).await.node_id, Some(other));
    free(&world, release_one(kept, &mut on)).await;
    assert_eq!(pass(&world).await.served, [large]);
    assert_eq!(world.get(large).await.node_id, Some(kept));
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        0
    );
    sound(&world).await;
}

#[tokio::test]
async fn who_is_queued_for_its_own_quota_holds_nobody_up() {
    let (world, _) = World::with_lab_slots(2).await;
    let (poor, rich) = (Uuid::now_v7(), Uuid::now_v7());
    set_quota(&world, poor, 1).await;
    let of_poor = Request {
        project_id: poor,
        ..world.request(1)
    };
    world.reserve(&of_poor).await.expect("one is allowed");
    let blocked = waiter(&world, poor).await;
    assert_eq!(
        queue_position(&world, blocked)
            .await
            .expect("queued")
            .reason,
        "QUOTA"
    );
    let of_rich = Request {
        project_id: rich,
        ..world.request(1)
    };
    let passed_by = world.reserve(&of_rich).await.expect("is not held up");
    assert_eq!(pass(&world).await, Pass::default());
    // a higher quota is what it waited for, and a slot
    set_quota(&world, poor, 2).await;
    pass(&world).await;
    assert_eq!(
        queue_position(&world, blocked)
            .await
            .expect("queued")
            .reason,
        "SLOTS_IN_USE"
    );
    free(&world, passed_by.allocation_id).await;
    assert_eq!(pass(&world).await.served, [blocked]);
    sound(&world).await;
}

/// A pass does not look twice at the same ask; what keeps somebody's own project away it tells nevertheless.
#[tokio::test]
async fn b_57_who_is_queued_behind_an_equal_request_is_told_of_its_own_quota() {
    let (world, _) = World::with_lab_slots(1).await;
    let poor = Uuid::now_v7();
    set_quota(&world, poor, 1).await;
    let of_poor = Request {
        project_id: poor,
        ..world.request(1)
    };
    world.reserve(&of_poor).await.expect("one is allowed");
    let first = waiter(&world, Uuid::now_v7()).await;
    let blocked = waiter(&world, poor).await;
    pass(&world).await;
    let reason = async |id| queue_position(&world, id).await.expect("queued").reason;
    assert_eq!(reason(first).await, "SLOTS_IN_USE");
    assert_eq!(reason(blocked).await, "QUOTA");
    set_quota(&world, poor, 2).await;
    pass(&world).await;
    assert_eq!(reason(blocked).await, "SLOTS_IN_USE");
}

#[tokio::test]
async fn p4_a_batch_waits_as_one_and_is_served_whole() {
    let world = World::new().await;
    let nodes = [world.lab_node(2).await, world.lab_node(2).await];
    let holders = [world.reserved(2).await, world.reserved(2).await];
    let requests = [world.request(2), world.request(2)];
    let (made, replayed) = batch(&world, "b-1", &requests).await.expect("waits");
    assert_eq!((made.len(), replayed), (2, false));
    assert_eq!(
        batch(&world, "b-1", &requests).await.expect("replay"),
        (made.clone(), true)
    );
    let places: HashSet<u32> = [
        queue_position(&world, made[0])
            .await
            .expect("queued")
            .position,
        queue_position(&world, made[1])
            .await
            .expect("queued")
            .position,
    ]
    .into();
    assert_eq!(places, HashSet::from([1]));
    pass(&world).await;
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        2
    );
    // half of it would fit: it is kept, and not given out
    free(&world, holders[0]).await;
    assert_eq!(pass(&world).await, Pass::default());
    assert!(world.reserve(&world.request(1)).await.is_err());
    free(&world, holders[1]).await;
    assert_eq!(pass(&world).await.served.len(), 2);
    for node in nodes {
        assert_eq!(world.count(node, SlotStatus::Available).await, 0);
    }
    sound(&world).await;

    // one of another batch is given up: the rest waits on
    let (others, _) = batch(&world, "b-2", &[world.request(2), world.request(2)])
        .await
        .expect("waits");
    free(&world, others[0]).await;
    free(&world, made[0]).await;
    assert_eq!(pass(&world).await.served, [others[1]]);
    sound(&world).await;

    // a queue is of one class
    let gpu = world.node(lab_spec()).await;
    world.approve(gpu, &[h200_slot(0)]).await;
    let mixed = [
        world.request(1),
        Request {
            sku: H200.into(),
            ..world.request(2)
        },
    ];
    let refused = batch(&world, "b-3", &mixed).await;
    assert!(
        matches!(
            refused,
            Err(Error::Invalid {
                field: "allocations",
                ..
            })
        ),
        "{refused:?}"
    );
}

/// An allocation to keep away from that has ended is no reason to forget the one that waits.
#[tokio::test]
async fn b_17_a_large_request_apart_from_what_has_ended_keeps_its_node() {
    let (world, _) = World::with_lab_slots(2).await;
    let other = world.lab_node(2).await;
    let mut on = Vec::new();
    for _ in 0..4 {
        let id = world.reserved(1).await;
        on.push((id, world.get(id).await.node_id.expect("placed")));
    }
    let apart_from = on.iter().position(|(_, node)| *node == other);
    let (apart_from, _) = on.remove(apart_from.expect("one is there"));
    let request = Request {
        constraints: Constraints {
            anti_affinity: vec![apart_from],
            ..Constraints::default()
        },
        ..world.request(2)
    };
    let large = wait(&world, &request).await.expect("waits").allocation_id;
    // it may be anywhere now, and one slot is free
    free(&world, apart_from).await;
    assert_eq!(pass(&world).await, Pass::default());
    assert_eq!(
        world
            .number("SELECT count(*) FROM backfill_reservations")
            .await,
        1
    );
    let refused = world.reserve(&world.request(1)).await;
    assert!(
        matches!(&refused, Err(Error::Refused { causes, .. })
            if causes.iter().any(|cause| cause.reason == ErrorReason::QueuedAhead)),
        "{refused:?}"
    );
    let beside = on.iter().find(|(_, node)| *node == other);
    free(&world, beside.expect("one is left").0).await;
    assert_eq!(pass(&world).await.served, [large]);
    sound(&world).await;
}
