//! A host that is lost: what is charged of that time, and the end that a forced release states (P3).
use crate::common::{World, as_caller, at, event};
use gpuaas_billing::HostLost;
use gpuaas_proto::gpuaas::billing::v1::usage_service_server::UsageService as _;
use gpuaas_proto::gpuaas::billing::v1::{ListUsageRequest, ListUsageResponse};
use gpuaas_proto::gpuaas::internal::events::v1::Event;
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use uuid::Uuid;

const SECOND: i64 = 1_000_000;

async fn list(world: &World, project: Uuid) -> ListUsageResponse {
    let api = world.api().await;
    let request = as_caller(&[project], false, "", ListUsageRequest::default());
    api.list_usage(request).await.expect("listed").into_inner()
}

/// An event that states a time of its own.
pub fn stating(mut event: Event, field: &str, at: Timestamp) -> Event {
    let value = Value {
        kind: Some(Kind::StringValue(at.to_string())),
    };
    event.data = Some(Struct {
        fields: [(field.to_owned(), value)].into(),
    });
    event
}

/// Seconds that are credited of the only interval of a project.
async fn credited(world: &World, project: Uuid) -> i64 {
    let usage = list(world, project).await;
    let [line] = usage.intervals.as_slice() else {
        panic!("{usage:?}")
    };
    line.credited_microseconds / SECOND
}

/// Active at 10 s, its host lost at 20 s (noted at 55 s) and found at 60 s, lost again at 90 s, released at 100 s.
pub fn lifecycle(world: &World, allocation: Uuid, project: Uuid) -> Vec<Event> {
    let one = |n, kind: &str, second: i64| event(n, kind, allocation, project, at(second * SECOND));
    vec![
        world.active(1, allocation, project, at(10 * SECOND)),
        stating(
            one(2, "allocation.host_lost", 55),
            "host_lost_since",
            at(20 * SECOND),
        ),
        one(3, "allocation.host_found", 60),
        stating(
            one(4, "allocation.host_lost", 95),
            "host_lost_since",
            at(90 * SECOND),
        ),
        // told once more, with another reason
        stating(
            one(5, "allocation.host_lost", 96),
            "host_lost_since",
            at(90 * SECOND),
        ),
        one(6, "allocation.releasing", 100),
        one(7, "allocation.released", 101),
    ]
}

#[tokio::test]
async fn p3_the_policy_decides_what_is_charged_of_the_time_a_host_is_lost() {
    for (policy, credited) in [(HostLost::Charge, 0), (HostLost::Credit, 50 * SECOND)] {
        let mut world = World::new().await;
        world.consumer.policy = policy;
        let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
        let events = lifecycle(&world, allocation, project);
        // told one by one and then all over again
        for upto in 1..=events.len() {
            world.ledger.set(events[..upto].to_vec());
            world.consumer.catch_up().await.expect("applied");
        }
        let usage = list(&world, project).await;
        let [line] = usage.intervals.as_slice() else {
            panic!("{usage:?}")
        };
        assert_eq!(
            (line.microseconds, line.credited_microseconds),
            (90 * SECOND, credited)
        );
        let charged = gpuaas_billing::domain::money::line_amount(
            2,
            90 * SECOND - credited,
            crate::common::PRICE_NANOS,
        );
        let amount = line.amount.clone().expect("an amount");
        assert_eq!(gpuaas_billing::domain::money::nanos_of(&amount), charged);
        let total = &usage.totals[0];
        assert_eq!(total.gpu_microseconds, 2 * 90 * SECOND);
        assert_eq!(total.credited_gpu_microseconds, 2 * credited);
        assert_eq!(total.amount, Some(amount));
        // the intervals are the billable time all the same
        assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
    }
}

/// The ledger of a release before this one started allocations on hosts that were lost.
#[tokio::test]
async fn p3_a_start_on_a_host_that_is_lost_is_credited_until_it_is_found() {
    for (policy, seconds) in [(HostLost::Charge, 0), (HostLost::Credit, 50)] {
        let mut world = World::new().await;
        world.consumer.policy = policy;
        let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
        let one =
            |n, kind: &str, second: i64| event(n, kind, allocation, project, at(second * SECOND));
        let mut active = world.active(1, allocation, project, at(10 * SECOND));
        let data = active.data.as_mut().expect("data");
        let lost = crate::common::text(&at(4 * SECOND).to_string());
        data.fields.insert("host_lost_since".to_owned(), lost);
        world.ledger.set(vec![
            active,
            one(2, "allocation.host_found", 60),
            one(3, "allocation.releasing", 100),
        ]);
        world.consumer.catch_up().await.expect("applied");
        assert_eq!(credited(&world, project).await, seconds);
        assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
    }
}

/// Between two losses the host was heard, until the second one began; the policy of the second is the one at its time.
#[tokio::test]
async fn p3_a_loss_that_follows_a_loss_is_another_one() {
    // lost from 20 s to 60 s, of which the second loss begins at 50 s
    for (later, seconds, credits) in [(HostLost::Charge, 30, 1), (HostLost::Credit, 40, 2)] {
        let mut world = World::new().await;
        world.consumer.policy = HostLost::Credit;
        let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
        let one =
            |n, kind: &str, second: i64| event(n, kind, allocation, project, at(second * SECOND));
        let lost = |n, noted: i64, since: i64| {
            let told = one(n, "allocation.host_lost", noted);
            stating(told, "host_lost_since", at(since * SECOND))
        };
        let events = vec![
            world.active(1, allocation, project, at(10 * SECOND)),
            lost(2, 30, 20),
            lost(3, 55, 50),
            one(4, "allocation.host_found", 60),
            one(5, "allocation.releasing", 100),
        ];
        world.ledger.set(events[..2].to_vec());
        world.consumer.catch_up().await.expect("applied");
        world.consumer.policy = later;
        world.ledger.set(events);
        world.consumer.catch_up().await.expect("applied");
        assert_eq!(credited(&world, project).await, seconds);
        let found: i64 = sqlx::query_scalar("SELECT count(*) FROM usage_credits")
            .fetch_one(&world.pool)
            .await
            .expect("counted");
        assert_eq!(found, credits);
    }
}

#[tokio::test]
async fn p3_a_forced_release_ends_usage_once_and_when_it_states() {
    for policy in [HostLost::Charge, HostLost::Credit] {
        let mut world = World::new().await;
        world.consumer.policy = policy;
        let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
        let one =
            |n, kind: &str, second: i64| event(n, kind, allocation, project, at(second * SECOND));
        let last_seen = at(40 * SECOND);
        world.ledger.set(vec![
            world.active(1, allocation, project, at(10 * SECOND)),
            stating(
                one(2, "allocation.host_lost", 75),
                "host_lost_since",
                last_seen,
            ),
            stating(
                one(3, "allocation.releasing", 500),
                "billed_until",
                last_seen,
            ),
            stating(
                one(4, "allocation.released", 500),
                "billed_until",
                last_seen,
            ),
        ]);
        world.consumer.catch_up().await.expect("applied");
        let ended = (
            allocation,
            at(10 * SECOND).to_sqlx(),
            Some(last_seen.to_sqlx()),
        );
        assert_eq!(world.intervals().await, [ended]);
        let usage = list(&world, project).await;
        let line = &usage.intervals[0];
        assert_eq!(
            (line.microseconds, line.credited_microseconds),
            (30 * SECOND, 0)
        );
        assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
    }
}

#[tokio::test]
async fn p3_nothing_is_credited_twice_or_changed_after() {
    let mut world = World::new().await;
    world.consumer.policy = HostLost::Credit;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    world.ledger.set(lifecycle(&world, allocation, project));
    world.consumer.catch_up().await.expect("applied");
    let owner = world.db.owner_pool().await;
    for (statement, why) in [
        ("UPDATE billing.usage_credits SET ended_at = now()", "written once"),
        ("UPDATE billing.usage_credits SET started_at = started_at - interval '1 s'", "written once"),
        ("DELETE FROM billing.usage_credits", "written once"),
        (
            "INSERT INTO billing.usage_credits SELECT gen_random_uuid(), interval_id, reason, started_at, ended_at, 900, 901
               FROM billing.usage_credits LIMIT 1",
            "usage_credits_no_overlap",
        ),
        (
            "INSERT INTO billing.usage_credits SELECT gen_random_uuid(), interval_id, 'kindness', now(), NULL, 900, NULL
               FROM billing.usage_credits LIMIT 1",
            "reason",
        ),
    ] {
        let error = sqlx::query(statement).execute(&owner).await.expect_err(statement);
        assert!(error.to_string().contains(why), "{statement}: {error}");
    }
}
