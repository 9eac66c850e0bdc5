//! A ledger that was restored: its log is another one, whatever its length (P3).
use gpuaas_billing::domain::inconsistency::Inconsistency;
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use uuid::Uuid;

use crate::common::World;
use crate::consumer::cause;

/// A restored ledger goes on from an earlier head: past the position that usage has reached, other events have other places.
#[tokio::test]
async fn p3_a_ledger_that_was_restored_and_went_on_stops_usage_until_it_is_the_same_again() {
    let world = World::new().await;
    let project = Uuid::now_v7();
    let events = world.lifecycle(1, Uuid::now_v7(), project);
    world.ledger.set(events.clone());
    world.consumer.catch_up().await.expect("applied");
    let before = world.intervals().await;
    // it was restored to position 3, and went on with another allocation
    let mut restored = events[..3].to_vec();
    restored.extend(world.lifecycle(4, Uuid::now_v7(), project));
    // or with the same one, which was released at another time
    let mut again = events.clone();
    again[4] = Event {
        time: again[3].time,
        ..again[4].clone()
    };
    again.extend(world.lifecycle(6, Uuid::now_v7(), project));
    for log in [restored, again] {
        world.ledger.set(log);
        for _ in 0..2 {
            assert_eq!(
                cause(world.consumer.catch_up().await),
                Inconsistency::AnotherLog { position: 5 }
            );
            assert_eq!(world.position().await, 5);
            assert_eq!(world.intervals().await, before);
        }
    }
    // the log of before goes on; also once the last event that was applied is retained no more
    let mut whole = events;
    whole.extend(world.lifecycle(6, Uuid::now_v7(), project));
    world.ledger.set(whole.clone());
    world.consumer.catch_up().await.expect("the same log");
    whole.extend(world.lifecycle(11, Uuid::now_v7(), project));
    world.ledger.set(whole[10..].to_vec());
    world.consumer.catch_up().await.expect("the same log");
    assert_eq!(world.position().await, 15);
}

/// Services of the release before move the position on, and leave the mark of an earlier event.
#[tokio::test]
async fn a_mark_of_another_position_says_nothing() {
    let world = World::new().await;
    let project = Uuid::now_v7();
    let mut events = world.lifecycle(1, Uuid::now_v7(), project);
    world.ledger.set(events.clone());
    world.consumer.catch_up().await.expect("applied");
    for mark in ["'3:x:1:0.0'", "NULL"] {
        let set = format!("UPDATE consumer_position SET last_event = {mark}");
        sqlx::query(sqlx::AssertSqlSafe(set))
            .execute(&world.pool)
            .await
            .expect("set");
        events.extend(world.lifecycle(world.position().await + 1, Uuid::now_v7(), project));
        world.ledger.set(events.clone());
        world.consumer.catch_up().await.expect("goes on");
    }
    assert_eq!(world.position().await, 15);
}
