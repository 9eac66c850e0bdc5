//! Prices: validated, immutable, pushed to the ledger in their order until it acknowledges them.
use std::time::Duration;

use crate::common::{SKU, Scheduler, World, as_caller, eventually};
use gpuaas_billing::api::Api;
use gpuaas_billing::domain::money::MAX_PRICE_NANOS;
use gpuaas_common::wake::Wake;
use gpuaas_common::{CancellationToken, Error};
use gpuaas_proto::google::r#type::Money;
use gpuaas_proto::gpuaas::billing::v1::price_admin_service_server::PriceAdminService as _;
use gpuaas_proto::gpuaas::billing::v1::{
    CreatePriceVersionRequest, ListPriceVersionsRequest, PriceVersion,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message as _;
use tonic::Code;

fn request(sku: &str, currency: &str, units: i64, nanos: i32) -> CreatePriceVersionRequest {
    let price = Money {
        currency_code: currency.to_owned(),
        units,
        nanos,
    };
    CreatePriceVersionRequest {
        sku: sku.to_owned(),
        price_per_gpu_hour: Some(price),
    }
}

async fn create(
    api: &Api,
    key: &str,
    request: CreatePriceVersionRequest,
) -> Result<PriceVersion, Error> {
    let answer = api
        .create_price_version(as_caller(&[], true, key, request))
        .await;
    Ok(answer.map_err(Error::from)?.into_inner())
}

async fn counts(world: &World) -> (i64, i64, i64) {
    sqlx::query_as(
        "SELECT (SELECT count(*) FROM price_versions), (SELECT count(*) FROM idempotency), (SELECT count(*) FROM audit)",
    )
    .fetch_one(&world.pool)
    .await
    .expect("counts")
}

#[tokio::test]
async fn a_price_reaches_the_ledger_before_the_caller_hears_of_it() {
    let world = World::new().await;
    let api = world.api().await;
    let created = create(&api, "k1", request(SKU, "EUR", 2, 500_000_000))
        .await
        .expect("created");
    let put = world.scheduler.prices();
    let last = put.last().expect("put");
    assert_eq!(
        (last.sku.as_str(), &last.price_version_id),
        (SKU, &created.id)
    );
    assert_eq!(
        (last.price_per_gpu_hour.clone(), last.effective_time),
        (created.price_per_gpu_hour.clone(), created.effective_time)
    );
    let unpublished: i64 =
        sqlx::query_scalar("SELECT count(*) FROM price_versions WHERE published_at IS NULL")
            .fetch_one(&world.pool)
            .await
            .expect("count");
    assert_eq!(unpublished, 0);

    let replay = create(&api, "k1", request(SKU, "EUR", 2, 500_000_000))
        .await
        .expect("replayed");
    assert_eq!(replay, created);
    let reused = create(&api, "k1", request(SKU, "EUR", 3, 0))
        .await
        .expect_err("refused");
    assert_eq!(reused.reason(), ErrorReason::IdempotencyKeyReused);
    // one of the world, one of this test
    assert_eq!(counts(&world).await, (2, 1, 1));
    let digest: String = sqlx::query_scalar(
        "SELECT detail->>'after_digest' FROM audit WHERE detail->'before_digest' IS NULL",
    )
    .fetch_one(&world.pool)
    .await
    .expect("a digest of what was made alone");
    let expected: String = sqlx::query_scalar("SELECT encode(sha256($1), 'hex')")
        .bind(created.encode_to_vec())
        .fetch_one(&world.pool)
        .await
        .expect("a digest");
    assert_eq!(digest, expected, "of the price as the API shows it (P10)");
}

#[tokio::test]
async fn bad_prices_name_the_field_and_change_nothing() {
    let world = World::new().await;
    let api = world.api().await;
    let before = counts(&world).await;
    let max_units = MAX_PRICE_NANOS / 1_000_000_000;
    let none = CreatePriceVersionRequest {
        price_per_gpu_hour: None,
        ..request(SKU, "EUR", 1, 0)
    };
    let table = [
        (request("", "EUR", 1, 0), Code::InvalidArgument, "sku"),
        (request("b200", "EUR", 1, 0), Code::NotFound, "sku"),
        (none, Code::InvalidArgument, "price_per_gpu_hour"),
        (
            request(SKU, "eur", 1, 0),
            Code::InvalidArgument,
            "price_per_gpu_hour.currency_code",
        ),
        (
            request(SKU, "EU", 1, 0),
            Code::InvalidArgument,
            "price_per_gpu_hour.currency_code",
        ),
        (
            request(SKU, "EUR", 1, -1),
            Code::InvalidArgument,
            "price_per_gpu_hour.nanos",
        ),
        (
            request(SKU, "EUR", 1, 1_000_000_000),
            Code::InvalidArgument,
            "price_per_gpu_hour.nanos",
        ),
        (
            request(SKU, "EUR", -1, 0),
            Code::InvalidArgument,
            "price_per_gpu_hour.units",
        ),
        (
            request(SKU, "EUR", max_units, 1),
            Code::InvalidArgument,
            "price_per_gpu_hour.units",
        ),
    ];
    for (request, code, field) in table {
        let error = create(&api, "k", request.clone())
            .await
            .expect_err("refused");
        assert_eq!(
            (error.code(), error.fields()[0].0.as_str()),
            (code, field),
            "{request:?}"
        );
    }
    let error = create(&api, "", request(SKU, "EUR", 1, 0))
        .await
        .expect_err("refused");
    assert_eq!(error.reason(), ErrorReason::IdempotencyKeyMissing);
    assert_eq!(
        create(&api, "k", request("b200", "EUR", 1, 0))
            .await
            .expect_err("refused")
            .reason(),
        ErrorReason::SkuUnknown
    );
    assert_eq!(counts(&world).await, before);
    assert_eq!(world.scheduler.prices(), []);
}

#[tokio::test]
async fn a_retried_create_makes_one_price() {
    let world = World::new().await;
    let api = world.api().await;
    let one = request(SKU, "EUR", 4, 0);
    let (a, b, c) = tokio::join!(
        create(&api, "k", one.clone()),
        create(&api, "k", one.clone()),
        create(&api, "k", one.clone())
    );
    let mut made: Vec<PriceVersion> = Vec::new();
    for answer in [a, b, c] {
        match answer {
            Ok(version) => made.push(version),
            // "the same key is being used right now; try again"
            Err(error) => {
                assert_eq!(error.code(), Code::Aborted, "{error:?}");
                made.push(create(&api, "k", one.clone()).await.expect("replayed"));
            }
        }
    }
    assert!(made.iter().all(|version| *version == made[0]), "{made:?}");
    assert_eq!(counts(&world).await, (2, 1, 1));
}

#[tokio::test]
async fn prices_made_while_the_ledger_is_down_follow_in_order() {
    let world = World::new().await;
    let api = world.api().await;
    world.scheduler.refuse_prices(true);
    let mut want = vec![world.price_version.to_string()];
    for units in 1..=3 {
        let created = create(&api, &format!("k{units}"), request(SKU, "EUR", units, 0))
            .await
            .expect("created all the same");
        want.push(created.id);
    }
    assert_eq!(world.scheduler.prices(), []);
    let unpublished = world.metric("billing_unpublished_skus").expect("metric");
    assert!(unpublished.ends_with(" 1"), "{unpublished}");

    let shutdown = CancellationToken::new();
    let waiter = Wake::new(None).expect("no redis").subscribe("prices");
    let running = tokio::spawn({
        let (publisher, shutdown) = (api.publisher.clone(), shutdown.clone());
        async move {
            publisher
                .run(waiter, Duration::from_millis(20), shutdown)
                .await;
        }
    });
    world.scheduler.refuse_prices(false);
    eventually("four prices", async || world.scheduler.prices().len() >= 4).await;
    shutdown.cancel();
    running.await.expect("ends");
    let put: Vec<String> = world
        .scheduler
        .prices()
        .into_iter()
        .map(|put| put.price_version_id)
        .collect();
    assert_eq!(put, want);
}

#[tokio::test]
async fn a_publication_whose_note_was_lost_is_repeated() {
    let world = World::new().await;
    let api = world.api().await;
    api.publisher.publish().await.expect("published");
    // the crash: the ledger has it, the note is lost with the transaction
    let owner = world.db.owner_pool().await;
    for statement in [
        "ALTER TABLE billing.price_versions DISABLE TRIGGER USER",
        "UPDATE billing.price_versions SET published_at = NULL",
        "ALTER TABLE billing.price_versions ENABLE TRIGGER USER",
    ] {
        sqlx::query(statement)
            .execute(&owner)
            .await
            .expect(statement);
    }
    api.publisher.publish().await.expect("published");
    api.publisher.publish().await.expect("nothing to do");
    let put = world.scheduler.prices();
    assert_eq!((put.len(), &put[0]), (2, &put[1]));
}

#[tokio::test]
async fn prices_are_listed_newest_first_in_pages() {
    let world = World::new().await;
    let api = world.api().await;
    for units in 1..=4 {
        create(&api, &format!("k{units}"), request(SKU, "EUR", units, 0))
            .await
            .expect("created");
    }
    create(&api, "k5", request(Scheduler::OTHER_SKU, "EUR", 9, 0))
        .await
        .expect("created");
    let list = async |sku: &str, page_size: i32, page_token: &str| {
        let request = ListPriceVersionsRequest {
            sku: sku.to_owned(),
            page_size,
            page_token: page_token.to_owned(),
            ..ListPriceVersionsRequest::default()
        };
        let answer = api
            .list_price_versions(as_caller(&[], true, "", request))
            .await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    };
    let units = |versions: &[PriceVersion]| {
        versions
            .iter()
            .map(|v| v.price_per_gpu_hour.clone().expect("price").units)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        units(&list("", 0, "").await.expect("listed").price_versions),
        [9, 4, 3, 2, 1, 2]
    );
    let first = list(SKU, 3, "").await.expect("listed");
    assert_eq!(units(&first.price_versions), [4, 3, 2]);
    let second = list(SKU, 3, &first.next_page_token).await.expect("listed");
    assert_eq!(
        (
            units(&second.price_versions),
            second.next_page_token.as_str()
        ),
        (vec![1, 2], "")
    );
    let error = list("", 3, &first.next_page_token)
        .await
        .expect_err("another query");
    assert_eq!(error.reason(), ErrorReason::PageTokenInvalid);
}

#[tokio::test]
async fn prices_are_filtered_and_ordered_page_by_page() {
    let world = World::new().await;
    let api = world.api().await;
    for (sku, currency, units) in [
        (SKU, "EUR", 4),
        (Scheduler::OTHER_SKU, "EUR", 6),
        (SKU, "USD", 5),
        (SKU, "USD", 7),
    ] {
        create(&api, &units.to_string(), request(sku, currency, units, 0))
            .await
            .expect("created");
    }
    let list = async |filter: &str, order_by: &str, page_token: &str| {
        let request = ListPriceVersionsRequest {
            page_size: 1,
            page_token: page_token.to_owned(),
            filter: filter.to_owned(),
            order_by: order_by.to_owned(),
            ..ListPriceVersionsRequest::default()
        };
        let request = as_caller(&[], true, "", request);
        let answer = api.list_price_versions(request).await;
        answer.map(tonic::Response::into_inner).map_err(Error::from)
    };
    let other = format!("sku = {}", Scheduler::OTHER_SKU);
    let since = "effective_time >= 2026-01-01 AND currency = USD";
    for (filter, order_by, expected) in [
        ("currency = USD", "", &[7, 5][..]),
        ("currency:us", "effective_time", &[5, 7]),
        (since, "sku, effective_time desc", &[7, 5]),
        (&other, "", &[6]),
    ] {
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = list(filter, order_by, &token).await.expect("a page");
            let prices = page.price_versions.into_iter();
            all.extend(prices.map(|one| one.price_per_gpu_hour.expect("a price").units));
            token = page.next_page_token;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(all, expected, "{filter} {order_by}");
    }
    for (filter, order_by, field) in [("units > 1", "", "filter"), ("", "units", "order_by")] {
        let error = list(filter, order_by, "").await.expect_err(field);
        assert_eq!(error.fields()[0].0, field);
    }
}
