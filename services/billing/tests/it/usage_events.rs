//! The log of usage: what is complete is told in order, and the same whenever it is asked.
use gpuaas_billing::HostLost;
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::billing::v1::ListUsageRequest;
use gpuaas_proto::gpuaas::billing::v1::usage_service_server::UsageService as _;
use gpuaas_proto::gpuaas::internal::billing::v1::usage_event_service_server::UsageEventService as _;
use gpuaas_proto::gpuaas::internal::billing::v1::{
    ReadUsageEventsRequest, ReadUsageEventsResponse, UsageEvent,
};
use tonic::Request;
use uuid::Uuid;

use crate::common::{World, as_caller, at, event};
use crate::host_lost::{lifecycle, stating};

const SECOND: i64 = 1_000_000;

async fn answered(
    world: &World,
    after_position: i64,
    limit: i32,
) -> Result<ReadUsageEventsResponse, Error> {
    let request = ReadUsageEventsRequest {
        after_position,
        limit,
    };
    let api = world.api().await;
    let answer = api.read_usage_events(Request::new(request)).await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

async fn read(world: &World, after_position: i64, limit: i32) -> Result<Vec<UsageEvent>, Error> {
    Ok(answered(world, after_position, limit).await?.events)
}

/// Position, type, length, what of it is not charged, and whether it has an end.
fn told(events: &[UsageEvent]) -> Vec<(i64, &str, i64, i64, bool)> {
    let one = |event: &UsageEvent| {
        let interval = event.interval.as_ref().expect("an interval");
        (
            interval.microseconds,
            interval.credited_microseconds,
            interval.end_time.is_some(),
        )
    };
    let all = events.iter().map(|event| (event, one(event)));
    all.map(|(event, (length, credited, ended))| {
        (
            event.position,
            event.r#type.as_str(),
            length,
            credited,
            ended,
        )
    })
    .collect()
}

#[tokio::test]
async fn what_is_put_on_record_is_told_in_order_and_the_same_whenever_it_is_asked() {
    let mut world = World::new().await;
    world.consumer.policy = HostLost::Credit;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    let events = lifecycle(&world, allocation, project);
    world.ledger.set(events[..2].to_vec());
    world.consumer.catch_up().await.expect("applied");
    assert_eq!(
        read(&world, 0, 0).await.expect("read"),
        [],
        "nothing has ended"
    );
    world.ledger.set(events[..3].to_vec());
    world.consumer.catch_up().await.expect("applied");
    let first = read(&world, 0, 0).await.expect("read");
    let credited = (3, "usage.credited", 50 * SECOND, 40 * SECOND, false);
    assert_eq!(told(&first), [credited]);

    world.ledger.set(events);
    world.consumer.catch_up().await.expect("applied");
    let all = read(&world, 0, 0).await.expect("read");
    // what is credited up to the end of the interval is told with that
    let closed = (6, "usage.closed", 90 * SECOND, 50 * SECOND, true);
    assert_eq!(told(&all), [credited, closed]);
    assert_eq!(all[0], first[0], "whatever came after it");
    let api = world.api().await;
    let request = as_caller(&[project], false, "", ListUsageRequest::default());
    let usage = api.list_usage(request).await.expect("listed").into_inner();
    assert_eq!(all[1].interval.as_ref(), usage.intervals.first());

    for (after, limit, expected) in [(0, 1, vec![credited]), (3, 0, vec![closed]), (6, 0, vec![])] {
        let events = read(&world, after, limit).await.expect("read");
        assert_eq!(told(&events), expected);
    }
    for (after, limit, field) in [(-1, 0, "after_position"), (0, -1, "limit")] {
        let error = read(&world, after, limit).await.expect_err("refused");
        assert_eq!(error.fields()[0].0, field);
    }
}

/// A host that is found at the moment at which it was lost was never away.
#[tokio::test]
async fn a_credit_of_no_time_is_not_told() {
    let mut world = World::new().await;
    world.consumer.policy = HostLost::Credit;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    let one = |n, kind: &str, second: i64| event(n, kind, allocation, project, at(second * SECOND));
    let lost = |n, since: i64| {
        let told = one(n, "allocation.host_lost", since + 5);
        stating(told, "host_lost_since", at(since * SECOND))
    };
    world.ledger.set(vec![
        world.active(1, allocation, project, at(10 * SECOND)),
        lost(2, 20),
        one(3, "allocation.host_found", 20),
        lost(4, 80),
        one(5, "allocation.host_found", 95),
        one(6, "allocation.releasing", 100),
    ]);
    world.consumer.catch_up().await.expect("applied");
    let credits: i64 = sqlx::query_scalar("SELECT count(*) FROM usage_credits")
        .fetch_one(&world.pool)
        .await
        .expect("counted");
    assert_eq!(credits, 2);
    let all = read(&world, 0, 0).await.expect("read");
    assert_eq!(
        told(&all),
        [
            (5, "usage.credited", 85 * SECOND, 15 * SECOND, false),
            (6, "usage.closed", 90 * SECOND, 15 * SECOND, true)
        ]
    );
}

/// Who has read further than that reads a billing that was restored.
#[tokio::test]
async fn a_reader_learns_how_far_the_ledger_is_applied_whatever_it_has_read() {
    let world = World::new().await;
    let head = async |after_position: i64| {
        let answer = answered(&world, after_position, 1).await.expect("read");
        answer.head_position
    };
    assert_eq!(head(0).await, Some(0), "nothing is applied yet");
    let events = world.lifecycle(1, Uuid::now_v7(), Uuid::now_v7());
    for upto in [2, events.len()] {
        world.ledger.set(events[..upto].to_vec());
        world.consumer.catch_up().await.expect("applied");
        let applied = world.position().await;
        assert_eq!(applied, events[upto - 1].position);
        for after in [0, applied, applied + 9] {
            assert_eq!(head(after).await, Some(applied), "after {after}");
        }
    }
}

#[tokio::test]
async fn what_ended_before_there_were_events_is_not_told_and_nobody_says_when_it_did() {
    let world = World::new().await;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(world.lifecycle(1, allocation, project));
    world.consumer.catch_up().await.expect("applied");
    let all = read(&world, 0, 0).await.expect("read");
    assert_eq!(told(&all), [(4, "usage.closed", 90 * SECOND, 0, true)]);
    let owner = world.db.owner_pool().await;
    for pool in [&world.pool, &owner] {
        sqlx::query("UPDATE billing.usage_intervals SET completed_at = now()")
            .execute(pool)
            .await
            .expect_err("refused");
    }
    for statement in [
        "ALTER TABLE billing.usage_intervals DISABLE TRIGGER usage_intervals_append_only",
        "UPDATE billing.usage_intervals SET completed_at = NULL",
        "ALTER TABLE billing.usage_intervals ENABLE TRIGGER usage_intervals_append_only",
    ] {
        sqlx::query(statement)
            .execute(&owner)
            .await
            .expect(statement);
    }
    assert_eq!(read(&world, 0, 0).await.expect("read"), []);
}
