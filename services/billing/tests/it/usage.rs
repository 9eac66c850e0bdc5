//! `ListUsage`: scoped, in pages, with exact money.
use crate::common::{World, as_caller, at, event};
use gpuaas_billing::domain::money::{MAX_PRICE_NANOS, line_amount, nanos_of};
use gpuaas_common::Error;
use gpuaas_proto::gpuaas::billing::v1::usage_admin_service_server::UsageAdminService as _;
use gpuaas_proto::gpuaas::billing::v1::usage_service_server::UsageService as _;
use gpuaas_proto::gpuaas::billing::v1::{
    ListProjectUsageRequest, ListUsageRequest, ListUsageResponse,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::Timestamp;
use tonic::{Code, Response};
use uuid::Uuid;

async fn list(
    world: &World,
    project: Uuid,
    request: ListUsageRequest,
) -> Result<ListUsageResponse, Error> {
    let api = world.api().await;
    let answer = api
        .list_usage(as_caller(&[project], false, "", request))
        .await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

/// One closed allocation: opened at `n` seconds, billable for `microseconds`.
fn closed(
    world: &World,
    first: i64,
    allocation: Uuid,
    project: Uuid,
    n: i64,
    microseconds: i64,
) -> [gpuaas_proto::gpuaas::internal::events::v1::Event; 2] {
    let start = n * 1_000_000;
    [
        world.active(first, allocation, project, at(start)),
        event(
            first + 1,
            "allocation.releasing",
            allocation,
            project,
            at(start + microseconds),
        ),
    ]
}

#[tokio::test]
async fn g_01_usage_shows_seconds_and_exact_money() {
    let world = World::new().await;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    // 2 GPUs for half an hour and a microsecond at 2.500000001
    let microseconds = 1_800_000_001;
    world
        .ledger
        .set(closed(&world, 1, allocation, project, 0, microseconds).into());
    world.consumer.catch_up().await.expect("applied");

    let usage = list(&world, project, ListUsageRequest::default())
        .await
        .expect("listed");
    let [line] = usage.intervals.as_slice() else {
        panic!("{usage:?}")
    };
    assert_eq!(line.allocation_id, allocation.to_string());
    assert_eq!(
        (line.microseconds, line.seconds, line.gpu_count),
        (microseconds, 1800, 2)
    );
    let amount = line.amount.clone().expect("amount");
    // 2.500000001 + 2 x 2.500000001 / 3.6e9 = 2.500000002388…
    assert_eq!(
        (amount.currency_code.as_str(), amount.units, amount.nanos),
        ("EUR", 2, 500_000_002)
    );
    assert!(line.end_time.is_some());
    let [total] = usage.totals.as_slice() else {
        panic!("{usage:?}")
    };
    assert_eq!(
        (total.gpu_microseconds, total.amount.clone()),
        (2 * microseconds, Some(amount))
    );
}

#[tokio::test]
async fn an_open_interval_counts_up_to_now() {
    let world = World::new().await;
    let (allocation, project) = (Uuid::now_v7(), Uuid::now_v7());
    let hour_ago = Timestamp::now() - jiff::SignedDuration::from_hours(1);
    world
        .ledger
        .set(vec![world.active(1, allocation, project, hour_ago)]);
    world.consumer.catch_up().await.expect("applied");
    let usage = list(&world, project, ListUsageRequest::default())
        .await
        .expect("listed");
    let line = &usage.intervals[0];
    assert_eq!(line.end_time, None);
    // what is running has no end that could lie before a moment
    let running = ListUsageRequest {
        filter: "NOT end_time < 2999-01-01".to_owned(),
        ..Default::default()
    };
    let found = list(&world, project, running).await.expect("listed");
    assert_eq!(found.intervals.len(), 1);
    assert!((3600..3700).contains(&line.seconds), "{line:?}");
    // page and totals are as of the same instant
    assert_eq!(usage.totals[0].gpu_microseconds, 2 * line.microseconds);
    assert_eq!(usage.totals[0].amount, line.amount);
    assert!(nanos_of(line.amount.as_ref().expect("amount")).expect("valid") >= 5_000_000_002);
    assert_eq!(world.reconciler.reconcile().await.expect("reconciled"), []);
}

#[tokio::test]
async fn pages_show_every_interval_once_newest_first_and_totals_cover_all() {
    let world = World::new().await;
    let (project, other) = (Uuid::now_v7(), Uuid::now_v7());
    let ids: Vec<Uuid> = (0..7).map(|_| Uuid::now_v7()).collect();
    let mut events = Vec::new();
    for (n, id) in (0..).zip(&ids) {
        // two start at the same instant
        events.extend(closed(
            &world,
            n * 2 + 1,
            *id,
            project,
            (n / 2) * 100,
            10_000_000 + n,
        ));
    }
    events.extend(closed(&world, 15, Uuid::now_v7(), other, 1, 1));
    world.ledger.set(events);
    world.consumer.catch_up().await.expect("applied");

    let (mut seen, mut request) = (
        Vec::new(),
        ListUsageRequest {
            page_size: 3,
            ..Default::default()
        },
    );
    loop {
        let page = list(&world, project, request.clone())
            .await
            .expect("listed");
        if request.page_token.is_empty() {
            assert_eq!(page.totals[0].gpu_microseconds, 2 * (7 * 10_000_000 + 21));
        } else {
            assert_eq!(page.totals, [], "the first page has them");
        }
        seen.extend(page.intervals);
        request.page_token = page.next_page_token;
        if request.page_token.is_empty() {
            break;
        }
    }
    assert_eq!(seen.len(), 7);
    let mut found: Vec<&str> = seen
        .iter()
        .map(|line| line.allocation_id.as_str())
        .collect();
    assert!(seen.is_sorted_by(|a, b| {
        let time = |line: &gpuaas_proto::gpuaas::billing::v1::UsageInterval| {
            line.start_time.expect("start").seconds
        };
        time(a) >= time(b)
    }));
    found.sort_unstable();
    let mut want: Vec<String> = ids.iter().map(Uuid::to_string).collect();
    want.sort();
    assert_eq!(found, want);

    let only = ListUsageRequest {
        allocation_id: ids[3].to_string(),
        ..Default::default()
    };
    let usage = list(&world, project, only.clone()).await.expect("listed");
    assert_eq!(
        (usage.intervals.len(), usage.totals[0].gpu_microseconds),
        (1, 2 * 10_000_003)
    );
    let select = |filter: &str, order_by: &str| ListUsageRequest {
        filter: filter.to_owned(),
        order_by: order_by.to_owned(),
        ..Default::default()
    };
    // the totals are of what is selected
    let two = format!(
        "gpu_count = 2 AND (allocation_id = {} OR allocation_id = {})",
        ids[1], ids[4]
    );
    let usage = list(&world, project, select(&two, "allocation_id")).await;
    let usage = usage.expect("listed");
    let mut expected = [ids[1].to_string(), ids[4].to_string()];
    expected.sort();
    let found: Vec<_> = usage
        .intervals
        .iter()
        .map(|line| &line.allocation_id)
        .collect();
    assert_eq!(found, expected.each_ref());
    assert_eq!(usage.totals[0].gpu_microseconds, 2 * (20_000_000 + 1 + 4));
    let none = list(&world, project, select("sku = another", "")).await;
    let none = none.expect("listed");
    assert_eq!((none.intervals.len(), none.totals.len()), (0, 0));
    let all = list(&world, project, select("end_time:*", "start_time")).await;
    assert_eq!(all.expect("listed").intervals.len(), 7);
    // as the console reads what reaches beyond a moment
    let late = format!("NOT end_time < {}", at(105 * 1_000_000));
    let late = list(&world, project, select(&late, "")).await;
    assert_eq!(late.expect("listed").intervals.len(), 5);
    for (request, field) in [
        (select("amount > 3", ""), "filter"),
        (select("", "end_time"), "order_by"),
    ] {
        let error = list(&world, project, request).await.expect_err("refused");
        assert_eq!(error.fields()[0].0, field);
    }
    let usage = list(&world, other, only).await.expect("listed");
    assert_eq!(
        (usage.intervals.len(), usage.totals.len()),
        (0, 0),
        "another project's allocation shows nothing"
    );
}

/// A closed project is in nobody's token; what it used stays on record.
#[tokio::test]
async fn administrators_read_the_usage_of_a_project_that_nobody_is_in() {
    let world = World::new().await;
    let (project, other) = (Uuid::now_v7(), Uuid::now_v7());
    let (allocation, second) = (Uuid::now_v7(), Uuid::now_v7());
    let mut events = Vec::from(closed(&world, 1, allocation, project, 0, 10));
    events.extend(closed(&world, 3, second, project, 1, 20));
    events.extend(closed(&world, 5, Uuid::now_v7(), other, 2, 40));
    world.ledger.set(events);
    world.consumer.catch_up().await.expect("applied");
    let read = async |request: ListProjectUsageRequest| {
        let api = world.api().await;
        let answer = api
            .list_project_usage(as_caller(&[], true, "", request))
            .await;
        answer.map(Response::into_inner).map_err(Error::from)
    };
    let of = |project: Uuid| ListProjectUsageRequest {
        project_id: project.to_string(),
        ..Default::default()
    };
    let own = list(&world, project, ListUsageRequest::default()).await;
    let own = own.expect("listed");
    assert_eq!(own.intervals.len(), 2);
    assert_eq!(read(of(project)).await.expect("listed"), own);
    let one = ListProjectUsageRequest {
        allocation_id: allocation.to_string(),
        ..of(project)
    };
    let found = read(one).await.expect("listed");
    assert_eq!(found.totals[0].gpu_microseconds, 2 * 10);
    let none = read(of(Uuid::now_v7())).await.expect("listed");
    assert_eq!((none.intervals.len(), none.totals.len()), (0, 0));
    let error = read(ListProjectUsageRequest::default()).await;
    assert_eq!(error.expect_err("no project").fields()[0].0, "project_id");
}

#[tokio::test]
async fn bad_requests_name_the_field() {
    let world = World::new().await;
    let project = Uuid::now_v7();
    let request = ListUsageRequest::default;
    let table = [
        (
            ListUsageRequest {
                project_id: Uuid::now_v7().to_string(),
                ..request()
            },
            Code::NotFound,
            "project_id",
        ),
        (
            ListUsageRequest {
                project_id: "x".to_owned(),
                ..request()
            },
            Code::InvalidArgument,
            "project_id",
        ),
        (
            ListUsageRequest {
                allocation_id: "x".to_owned(),
                ..request()
            },
            Code::InvalidArgument,
            "allocation_id",
        ),
        (
            ListUsageRequest {
                page_size: -1,
                ..request()
            },
            Code::InvalidArgument,
            "page_size",
        ),
        (
            ListUsageRequest {
                page_token: "x".to_owned(),
                ..request()
            },
            Code::InvalidArgument,
            "page_token",
        ),
    ];
    for (request, code, field) in table {
        let error = list(&world, project, request.clone())
            .await
            .expect_err("refused");
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (code, field),
            "{request:?}"
        );
    }
    let error = list(
        &world,
        project,
        ListUsageRequest {
            project_id: Uuid::now_v7().to_string(),
            ..request()
        },
    )
    .await;
    assert_eq!(
        error.expect_err("refused").reason(),
        ErrorReason::ProjectUnknown
    );
}

#[tokio::test]
async fn totals_in_sql_are_the_lines_in_rust() {
    let world = World::new().await;
    let counts = [1, 2, 3, 8, 1024];
    let lengths = [
        0,
        1,
        899_999_999,
        900_000_000,
        1_800_000_000,
        3_599_999_999,
        3_600_000_000,
        86_400_000_001,
        3_155_760_000_000_000,
    ];
    let prices = [
        0,
        1,
        2,
        3,
        5,
        999_999_999,
        2_500_000_000,
        2_500_000_001,
        MAX_PRICE_NANOS,
    ];
    for gpus in counts {
        for length in lengths {
            for price in prices {
                let sql: String = sqlx::query_scalar("SELECT line_amount_nanos($1, $2, $3)::text")
                    .bind(i32::try_from(gpus).expect("small"))
                    .bind(length)
                    .bind(price)
                    .fetch_one(&world.pool)
                    .await
                    .expect("computed");
                let rust = line_amount(gpus, length, price).expect("fits");
                assert_eq!(sql, rust.to_string(), "{gpus} x {length} x {price}");
            }
        }
    }
}
