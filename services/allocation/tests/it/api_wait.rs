//! Launches that wait for capacity, over the API, with a scheduler that serves them.
use std::time::Duration;

use gpuaas_common::time::proto_time;
use gpuaas_dev::until::until_ok;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use tonic::Code;
use uuid::Uuid;

use crate::platform::{Platform, good};

const TIMEOUT: Duration = Duration::from_secs(60);

fn wait() -> pb::Wait {
    let now = Timestamp::now().as_second();
    pb::Wait {
        // the ledger knows no less than microseconds
        deadline: Some(prost_types::Timestamp {
            seconds: now + 3600,
            nanos: 0,
        }),
    }
}

fn waiting(name: &str) -> pb::CreateAllocationRequest {
    pb::CreateAllocationRequest {
        wait: Some(wait()),
        ..good(name)
    }
}

impl Platform {
    /// Launches until everything is taken; returns the first.
    async fn full(&self) -> String {
        let made = self
            .create(good("full-0"), "k-full-0")
            .await
            .expect("first");
        for number in 1.. {
            let name = format!("full-{number}");
            match self.create(good(&name), &format!("k-{name}")).await {
                Ok(_) => {}
                Err(error) => {
                    assert_eq!(error.code(), Code::ResourceExhausted, "{error}");
                    return made.id;
                }
            }
        }
        unreachable!("the fleet is finite")
    }
}

fn status(allocation: &pb::Allocation) -> &pb::AllocationStatus {
    allocation.status.as_ref().expect("a status")
}

#[tokio::test]
async fn b_57_a_launch_waits_visibly_and_becomes_active_when_capacity_is_released() {
    let platform = Platform::start().await;
    let holder = platform.full().await;
    let request = waiting("late");
    let made = platform
        .create(request.clone(), "k-late")
        .await
        .expect("waits");
    assert_eq!(status(&made).state(), pb::AllocationState::Requested);
    let queue = status(&made).queue.clone().expect("a place");
    assert_eq!((queue.position, queue.reason.as_str()), (1, "SLOTS_IN_USE"));
    assert_eq!(queue.message, "All suitable GPUs are in use.");
    assert_eq!(queue.deadline, request.wait.expect("a wait").deadline);
    assert!(status(&made).billing.starts_with("Not billed yet"));
    let again = platform
        .create(request.clone(), "k-late")
        .await
        .expect("replay");
    assert_eq!(again.id, made.id);
    let other = pb::CreateAllocationRequest {
        wait: None,
        ..request
    };
    let reused = platform
        .create(other, "k-late")
        .await
        .expect_err("another request");
    assert_eq!(reused.reason(), ErrorReason::IdempotencyKeyReused);
    let second = platform
        .create(waiting("later"), "k-later")
        .await
        .expect("waits");
    assert_eq!(status(&second).queue.as_ref().expect("a place").position, 2);

    // a watch tells of the new place
    let watch = pb::WatchAllocationRequest {
        allocation_id: second.id.clone(),
        resume_token: String::new(),
    };
    let watch = platform.user(watch, None);
    let mut stream = platform
        .users
        .clone()
        .watch_allocation(watch)
        .await
        .expect("a watch")
        .into_inner();
    let id: Uuid = holder.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    platform
        .release(&holder, "k-release")
        .await
        .expect("released");
    let first: Uuid = made.id.parse().expect("an id");
    platform.world.until_state(first, "active").await;
    assert_eq!(status(&platform.get(&made.id).await).queue, None);
    let reported = async {
        loop {
            let message = stream
                .message()
                .await
                .expect("no error")
                .expect("not the end");
            if let Some(pb::watch_allocation_response::Event::Change(change)) = message.event {
                let allocation = change.allocation.expect("an allocation");
                if status(&allocation)
                    .queue
                    .as_ref()
                    .is_some_and(|queue| queue.position == 1)
                {
                    return;
                }
            }
        }
    };
    tokio::time::timeout(TIMEOUT, reported)
        .await
        .expect("told in time");

    // its owner gives up
    let ended = platform
        .release(&second.id, "k-give-up")
        .await
        .expect("released");
    assert_eq!(status(&ended).state(), pb::AllocationState::Released);
    assert_eq!(
        (
            status(&ended).queue.as_ref(),
            status(&ended).billing.as_str()
        ),
        (None, "Never billed.")
    );
}

#[tokio::test]
async fn a_bad_wait_names_its_field_and_keeps_nothing() {
    let platform = Platform::start().await;
    let before = platform.rows().await;
    let none = pb::CreateAllocationRequest {
        wait: Some(pb::Wait { deadline: None }),
        ..good("web")
    };
    let error = platform.create(none, "k-1").await.expect_err("no deadline");
    assert_eq!(
        (error.reason(), error.fields()[0].0.as_str()),
        (ErrorReason::FieldRequired, "wait.deadline")
    );
    let past = pb::CreateAllocationRequest {
        wait: Some(pb::Wait {
            deadline: Some(proto_time(Timestamp::now() - SignedDuration::from_hours(1))),
        }),
        ..good("web")
    };
    let error = platform.create(past, "k-2").await.expect_err("in the past");
    assert_eq!(
        (error.reason(), error.fields()[0].0.as_str()),
        (ErrorReason::FieldInvalid, "wait.deadline")
    );
    let batch = pb::BatchCreateAllocationsRequest {
        allocations: vec![waiting("web-1"), good("web-2")],
        ..pb::BatchCreateAllocationsRequest::default()
    };
    let batch = platform.user(batch, Some("k-3"));
    let error = platform.users.clone().batch_create_allocations(batch).await;
    let error = gpuaas_common::Error::from(error.expect_err("said once"));
    assert_eq!(error.fields()[0].0, "allocations[0].wait");
    assert_eq!(platform.rows().await, before, "nothing was stored");
}

#[tokio::test]
async fn p4_a_batch_that_waits_is_created_once() {
    let platform = Platform::start().await;
    platform.full().await;
    let batch = pb::BatchCreateAllocationsRequest {
        allocations: vec![good("web-1"), good("web-2")],
        wait: Some(wait()),
        ..pb::BatchCreateAllocationsRequest::default()
    };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let request = platform.user(batch.clone(), Some("k-batch"));
        let answer = platform
            .users
            .clone()
            .batch_create_allocations(request)
            .await;
        let made = answer.expect("they wait").into_inner().allocations;
        assert!(made.iter().all(|one| {
            status(one)
                .queue
                .as_ref()
                .is_some_and(|queue| queue.position == 1)
        }));
        ids.push(made.into_iter().map(|one| one.id).collect::<Vec<_>>());
    }
    assert_eq!(ids[0], ids[1]);
    let valid = pb::CreateAllocationRequest {
        validate_only: true,
        ..waiting("dry")
    };
    let found = platform.create(valid, "").await.expect("it may wait");
    assert_eq!(found.placement.expect("an explanation").nodes_fit, 0);
}

impl Platform {
    /// Waits until the scheduler's metrics of the queue say this; the oldest waits for any time when somebody is queued.
    async fn until_queue(&self, requests: f64) {
        let line = [("region", "lab-1"), ("slot_class", "lab")];
        let reported = || {
            let name = |what: &str| format!("scheduler_queued_{what}");
            ["requests", "gpus", "oldest_seconds"].map(|what| self.metric(&name(what), &line))
        };
        let fits = |reported: [Option<f64>; 3]| {
            let [told_requests, gpus, oldest] = reported;
            told_requests == Some(requests)
                && gpus == Some(requests)
                && oldest.is_some_and(|seconds| (seconds > 0.0) == (requests > 0.0))
        };
        until_ok("the metrics of the queue", TIMEOUT, async || {
            let now = reported();
            fits(now).then_some(()).ok_or_else(|| format!("{now:?}"))
        })
        .await;
    }

    fn ends(&self, outcome: &str) -> Option<f64> {
        let labels = [
            ("region", "lab-1"),
            ("slot_class", "lab"),
            ("outcome", outcome),
        ];
        self.metric("scheduler_queued_ends_total", &labels)
    }
}

#[tokio::test]
async fn the_schedulers_metrics_tell_how_long_a_queue_is_and_how_waits_end() {
    let platform = Platform::start().await;
    let holder = platform.full().await;
    let mut made = Vec::new();
    for name in ["one", "two"] {
        let key = format!("k-{name}");
        made.push(
            platform
                .create(waiting(name), &key)
                .await
                .expect("waits")
                .id,
        );
    }
    platform.until_queue(2.0).await;
    assert_eq!(
        (platform.ends("served"), platform.ends("expired")),
        (None, None)
    );

    let id: Uuid = holder.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    platform
        .release(&holder, "k-release")
        .await
        .expect("released");
    platform.until_queue(1.0).await;
    assert_eq!(
        (platform.ends("served"), platform.ends("expired")),
        (Some(1.0), None)
    );

    // time passes the deadline of the other
    let late: Uuid = made[1].parse().expect("an id");
    let superuser = platform.world.db.pool("postgres").await;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!(
        "BEGIN; SET LOCAL session_replication_role = replica;
         UPDATE placement.allocations SET deadline_at = clock_timestamp() WHERE id = '{late}'; COMMIT"
    )))
    .execute(&superuser)
    .await
    .expect("passed");
    platform.world.until_state(late, "failed").await;
    platform.until_queue(0.0).await;
    assert_eq!(
        (platform.ends("served"), platform.ends("expired")),
        (Some(1.0), Some(1.0))
    );
}
