//! The history of capacity as an administrator asks for it.
use gpuaas_common::CancellationToken;
use gpuaas_proto::gpuaas::scheduler::v1::ListCapacityHistoryRequest;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_admin_service_server::CapacityAdminService as _;

use crate::world::{LAB, REGION, World, by, ok, refused};

async fn fields(world: &World, request: ListCapacityHistoryRequest) -> String {
    let refusal = refused(world.api.list_capacity_history(by(request, None)).await);
    format!("{refusal:?}")
}

#[tokio::test]
async fn a_running_scheduler_writes_the_history_it_shows() {
    let (world, _, _) = World::with_slots(2).await;
    let stop = CancellationToken::new();
    let writing = tokio::spawn(gpuaas_scheduler::history::write(
        sqlx::PgPool::clone(&world.api.pool),
        1,
        stop.clone(),
    ));
    let answer = loop {
        let request = ListCapacityHistoryRequest {
            region_code: REGION.into(),
            sku: LAB.into(),
            // the sample may be of the minute that has just begun
            end_time: Some(prost_types::Timestamp {
                seconds: now() + 120,
                nanos: 0,
            }),
            bucket_seconds: 60,
            ..ListCapacityHistoryRequest::default()
        };
        let request = ListCapacityHistoryRequest {
            start_time: Some(prost_types::Timestamp {
                seconds: now() - 120,
                nanos: 0,
            }),
            ..request
        };
        let answer = ok(world.api.list_capacity_history(by(request, None)).await);
        if !answer.buckets.is_empty() {
            break answer;
        }
        assert!(!writing.is_finished(), "it writes until it is stopped");
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    };
    stop.cancel();
    writing.await.expect("stopped");
    assert_eq!(answer.bucket_seconds, 60);
    let one = &answer.buckets[0];
    assert_eq!(
        (one.nodes, one.gpus, one.gpus_in_use, one.gpus_free),
        (1, 2, 0, 2)
    );
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

#[tokio::test]
async fn a_bad_span_is_named() {
    let (world, _, _) = World::with_slots(1).await;
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    let day = ListCapacityHistoryRequest {
        start_time: time(0),
        end_time: time(86_400),
        ..ListCapacityHistoryRequest::default()
    };
    for (request, field) in [
        (
            ListCapacityHistoryRequest {
                start_time: time(86_400),
                ..day.clone()
            },
            "start_time",
        ),
        (
            ListCapacityHistoryRequest {
                bucket_seconds: 90,
                ..day.clone()
            },
            "bucket_seconds",
        ),
        (
            ListCapacityHistoryRequest {
                bucket_seconds: -60,
                ..day.clone()
            },
            "bucket_seconds",
        ),
        (
            ListCapacityHistoryRequest {
                bucket_seconds: i64::MAX / 60 * 60,
                ..day.clone()
            },
            "bucket_seconds",
        ),
        (
            ListCapacityHistoryRequest {
                end_time: time(86_400 * 365),
                bucket_seconds: 60,
                ..day.clone()
            },
            "bucket_seconds",
        ),
        (
            ListCapacityHistoryRequest {
                sku: "nothing".into(),
                ..day.clone()
            },
            "sku",
        ),
    ] {
        let said = fields(&world, request).await;
        assert!(said.contains(&format!(": {field}: ")), "{field}: {said}");
    }
    let shown = ok(world.api.list_capacity_history(by(day, None)).await);
    assert_eq!((shown.bucket_seconds, shown.buckets.len()), (300, 0));
}
