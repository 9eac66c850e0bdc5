//! Events of usage, as billing has put it on record.
use std::sync::{Arc, Mutex};

use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::billing::v1::UsageInterval;
use gpuaas_proto::gpuaas::internal::billing::v1::usage_event_service_server::UsageEventService;
use gpuaas_proto::gpuaas::internal::billing::v1::{
    ReadUsageEventsRequest, ReadUsageEventsResponse, UsageEvent,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::receiver::Receiver;
use super::{TIMEOUT, all_in, create, deliveries, event, until_position, world};
use crate::world::World;

/// A log of usage that the test writes; its positions have gaps.
#[derive(Clone, Debug, Default)]
pub struct UsageLog(Arc<Mutex<Log>>);

#[derive(Debug, Default)]
struct Log {
    events: Vec<UsageEvent>,
    /// How far the ledger is applied; billing of an earlier release does not say it.
    head: Option<i64>,
}

#[tonic::async_trait]
impl UsageEventService for UsageLog {
    async fn read_usage_events(
        &self,
        request: Request<ReadUsageEventsRequest>,
    ) -> Result<Response<ReadUsageEventsResponse>, Status> {
        let request = request.into_inner();
        let log = self.0.lock().expect("lock");
        let all = log.events.iter();
        let events = all.filter(|one| one.position > request.after_position);
        Ok(Response::new(ReadUsageEventsResponse {
            events: events.take(request.limit as usize).cloned().collect(),
            head_position: log.head,
        }))
    }
}

impl UsageLog {
    fn append(&self, event: UsageEvent) {
        let mut log = self.0.lock().expect("lock");
        log.head = log.head.map(|head| head.max(event.position));
        log.events.push(event);
    }

    /// Keeps the first ones, as billing does that was restored.
    fn keep(&self, count: usize) {
        self.0.lock().expect("lock").events.truncate(count);
    }

    /// The same, of a billing that says how far it has applied the ledger.
    fn keep_at(&self, count: usize, head: i64) {
        let mut log = self.0.lock().expect("lock");
        log.events.truncate(count);
        log.head = Some(head);
    }
}

fn usage(
    world: &World,
    position: i64,
    kind: &str,
    (interval, microseconds): (Uuid, i64),
) -> UsageEvent {
    recorded(
        world,
        position,
        kind,
        Timestamp::now(),
        (interval, microseconds),
    )
}

fn recorded(
    world: &World,
    position: i64,
    kind: &str,
    at: Timestamp,
    (interval, microseconds): (Uuid, i64),
) -> UsageEvent {
    UsageEvent {
        position,
        r#type: kind.to_owned(),
        time: Some(prost_types::Timestamp {
            seconds: at.as_second(),
            nanos: at.subsec_nanosecond(),
        }),
        interval: Some(UsageInterval {
            id: interval.to_string(),
            project_id: world.seeded.project_id.to_string(),
            microseconds,
            ..UsageInterval::default()
        }),
    }
}

async fn until_read(world: &World, position: i64) {
    let pool = world.pool().await;
    until("the gateway to have read so far", TIMEOUT, async || {
        let now: i64 = sqlx::query_scalar("SELECT position FROM webhook_usage_head")
            .fetch_one(&pool)
            .await
            .expect("row");
        (now == position).then_some(())
    })
    .await;
}

#[tokio::test]
async fn usage_that_is_put_on_record_is_delivered_once_in_order() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let before = Timestamp::now() - SignedDuration::from_hours(1);
    let interval = Uuid::now_v7();
    let types = json!(["usage.closed", "usage.credited"]);
    let body = json!({ "url": receiver.url, "event_types": types });
    let made = create(&world, body).await;
    // what was recorded before there was the webhook, and a type of a later release
    let old = recorded(&world, 2, "usage.closed", before, (Uuid::now_v7(), 1));
    world.usage_log.append(old);
    let unknown = usage(&world, 3, "usage.forecast", (interval, 1));
    world.usage_log.append(unknown);
    receiver.will_answer(&[500]);
    let credited = usage(&world, 7, "usage.credited", (interval, 50));
    world.usage_log.append(credited);
    let closed = usage(&world, 9, "usage.closed", (interval, 90));
    world.usage_log.append(closed);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let got = receiver.next().await;
        let body = got.json();
        assert_eq!(body["data"]["id"], interval.to_string(), "{body}");
        let told = json!([body["type"], body["data"]["microseconds"]]);
        seen.push((got.id, told));
    }
    let credited = json!(["usage.credited", "50"]);
    let told: Vec<_> = seen.iter().map(|(_, told)| told).collect();
    assert_eq!(
        told,
        [&credited, &credited, &json!(["usage.closed", "90"])],
        "what fails is repeated, and the next one of the interval waits for it"
    );
    assert_eq!(seen[0].0, seen[1].0, "one delivery");
    let listed = deliveries(&world, &made, all_in("delivered", 2)).await;
    assert_eq!(listed[0]["object_id"], interval.to_string());

    // another gateway goes on where this one is
    let (_other, base) = world.another_gateway();
    world.until_answers(&base).await;
    let last = usage(&world, 12, "usage.closed", (Uuid::now_v7(), 10));
    world.usage_log.append(last);
    until_read(&world, 12).await;
    deliveries(&world, &made, all_in("delivered", 3)).await;
    assert_eq!(receiver.next().await.json()["data"]["microseconds"], "10");
    assert!(receiver.arrived.try_recv().is_err(), "each once");
}

/// The ledger and billing are restored to one moment: what happens after it has positions that were read already.
#[tokio::test]
async fn usage_after_a_restored_ledger_is_delivered_and_that_before_it_is_not_repeated() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "url": receiver.url, "event_types": ["usage.closed"] });
    let made = create(&world, body).await;
    let slot = Uuid::now_v7();
    for revision in 1..=3 {
        world
            .log
            .append(event(&world, "slot.available", slot, revision));
    }
    until_position(&world.pool().await, 3).await;
    for position in [1, 3] {
        let closed = usage(&world, position, "usage.closed", (Uuid::now_v7(), 10));
        world.usage_log.append(closed);
    }
    for _ in 0..2 {
        receiver.next().await;
    }
    world.usage_log.keep(1);
    world.log.keep(1);
    let anew = Uuid::now_v7();
    let closed = usage(&world, 2, "usage.closed", (anew, 20));
    world.usage_log.append(closed);
    let got = receiver.next().await.json();
    assert_eq!(got["data"]["id"], anew.to_string(), "{got}");
    deliveries(&world, &made, all_in("delivered", 3)).await;
    assert!(receiver.arrived.try_recv().is_err(), "each once");
}

/// Billing alone is restored: it applies the ledger again from where it was, and what it records has positions that were read.
#[tokio::test]
async fn usage_after_a_restored_billing_is_delivered_and_that_before_it_is_not_repeated() {
    let world = world().await;
    let mut receiver = Receiver::start().await;
    let body = json!({ "url": receiver.url, "event_types": ["usage.closed"] });
    let made = create(&world, body).await;
    for position in [1, 4] {
        let closed = usage(&world, position, "usage.closed", (Uuid::now_v7(), 10));
        world.usage_log.append(closed);
    }
    for _ in 0..2 {
        receiver.next().await;
    }
    world.usage_log.keep_at(1, 2);
    until_read(&world, 2).await;
    let anew = Uuid::now_v7();
    let closed = usage(&world, 4, "usage.closed", (anew, 10));
    world.usage_log.append(closed);
    let got = receiver.next().await.json();
    assert_eq!(got["data"]["id"], anew.to_string(), "{got}");
    until_read(&world, 4).await;
    deliveries(&world, &made, all_in("delivered", 3)).await;
    assert!(receiver.arrived.try_recv().is_err(), "each once");
}
