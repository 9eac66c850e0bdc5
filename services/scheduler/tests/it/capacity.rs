//! The history of capacity as an administrator asks for it.
use std::time::Duration;

use gpuaas_common::CancellationToken;
use gpuaas_dev::until::until;
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
    let answer = until("the first sample", Duration::from_secs(30), async || {
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
        assert!(!writing.is_finished(), "it writes until it is stopped");
        (!answer.buckets.is_empty()).then_some(answer)
    })
    .await;
    stop.cancel();
    writing.await.expect("stopped");
    assert_eq!(answer.bucket_seconds, 60);
    let one = &answer.buckets[0];
    assert_eq!(
        (one.nodes, one.gpus, one.gpus_in_use, one.gpus_free),
        (1, 2, 0, 2)
    );
}

/// More of them than one transaction removes.
#[tokio::test]
async fn a_running_scheduler_removes_all_that_is_too_old() {
    let (world, _, _) = World::with_slots(1).await;
    let insert = format!(
        "INSERT INTO placement.capacity_samples
         SELECT date_trunc('minute', now(), 'UTC') - make_interval(days => 2, mins => n), '{REGION}', '{LAB}', 1, 1, 0, 1
           FROM generate_series(0, 2499) AS n"
    );
    sqlx::query(sqlx::AssertSqlSafe(insert))
        .execute(&world.db.owner_pool().await)
        .await
        .expect("inserted");
    let stop = CancellationToken::new();
    let writing = tokio::spawn(gpuaas_scheduler::history::write(
        sqlx::PgPool::clone(&world.api.pool),
        1,
        stop.clone(),
    ));
    until("none is too old", Duration::from_secs(30), async || {
        let old =
            "SELECT count(*) FROM placement.capacity_samples WHERE at < now() - interval '1 day'";
        (world.number(old).await == 0).then_some(())
    })
    .await;
    stop.cancel();
    writing.await.expect("stopped");
    let kept = world.number("SELECT count(*) FROM placement.capacity_samples");
    assert!(kept.await >= 1, "today's samples stay");
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

/// The next page is of the period of the first one, also when a minute has passed between them.
#[tokio::test]
async fn a_history_is_read_page_by_page() {
    let (world, _, _) = World::with_slots(1).await;
    let owner = world.db.owner_pool().await;
    let fill = "INSERT INTO placement.capacity_samples
                SELECT date_trunc('minute', now()) - make_interval(mins => n), $1, $2, 1, 4, n, 4 - n FROM generate_series(1, 3) AS n";
    sqlx::query(fill)
        .bind(REGION)
        .bind(LAB)
        .execute(&owner)
        .await
        .expect("samples");
    let of_one_start = ListCapacityHistoryRequest {
        start_time: Some(prost_types::Timestamp {
            seconds: now() - 3600,
            nanos: 0,
        }),
        bucket_seconds: 60,
        page_size: 1,
        ..ListCapacityHistoryRequest::default()
    };
    let (mut found, mut page_token) = (Vec::new(), String::new());
    loop {
        let request = ListCapacityHistoryRequest {
            page_token,
            ..of_one_start.clone()
        };
        let page = ok(world.api.list_capacity_history(by(request, None)).await);
        found.extend(page.buckets.iter().map(|one| one.gpus_in_use));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
        assert_eq!(page.buckets.len(), 1);
        let later = "INSERT INTO placement.capacity_samples VALUES (date_trunc('minute', now()) + interval '1 hour', $1, $2, 1, 9, 9, 0)
                     ON CONFLICT DO NOTHING";
        sqlx::query(later)
            .bind(REGION)
            .bind(LAB)
            .execute(&owner)
            .await
            .expect("a sample");
    }
    assert_eq!(found, [3, 2, 1], "oldest first");
    let other = ListCapacityHistoryRequest {
        page_token: "x".to_owned(),
        ..of_one_start
    };
    let foreign = refused(world.api.list_capacity_history(by(other, None)).await);
    assert_eq!(foreign.fields()[0].0, "page_token");
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
