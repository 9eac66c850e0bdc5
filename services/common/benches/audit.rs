//! What the audit trail costs a mutation: without its audit row, with it, and with a sealer at work beside it. A mutation is
//! what publishing a price is: idempotency key, lock, row, audit row, one transaction. Prints Markdown.
//!
//! usage: make bench-audit
use std::time::{Duration, Instant};

use gpuaas_common::audit::{self, Entry, seal};
use gpuaas_common::idempotency::{self, Scope};
use gpuaas_dev::postgres::TestDb;
use sqlx::PgPool;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// Rounds of each way, in turn, after one that is not counted.
const ROUNDS: usize = 9;
/// Mutations of one writer in a round.
const MUTATIONS: usize = 200;
const WRITERS: [usize; 2] = [1, 8];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    NoRow,
    Row,
    Sealed,
}

const WAYS: [(Way, &str); 3] = [
    (Way::NoRow, "no audit row"),
    (Way::Row, "audit row, no sealer"),
    (Way::Sealed, "audit row, sealer at work"),
];

#[tokio::main]
async fn main() {
    let db = TestDb::create().await;
    let pool = db.pool("gpuaas_billing").await;
    println!("| writers | way | ms per mutation | ratio |");
    println!("|---|---|---|---|");
    for writers in WRITERS {
        let mut times = WAYS.map(|_| Vec::new());
        for number in 0..=ROUNDS {
            for (index, (way, _)) in WAYS.into_iter().enumerate() {
                let took = round(&pool, writers, way).await;
                if number > 0 {
                    times[index].push(took);
                }
                // no round begins with what the one before has left
                while seal::seal(&pool, 500).await.expect("sealed") > 0 {}
            }
        }
        let medians = times.map(|mut times| {
            times.sort_unstable();
            times[ROUNDS / 2].as_secs_f64() * 1000.0 / MUTATIONS as f64
        });
        for ((_, name), median) in WAYS.iter().zip(medians) {
            let ratio = median / medians[0];
            println!("| {writers} | {name} | {median:.3} | {ratio:.2} |");
        }
    }
}

async fn round(pool: &PgPool, writers: usize, way: Way) -> Duration {
    let stop = CancellationToken::new();
    let sealer = (way == Way::Sealed).then(|| {
        let meter = opentelemetry::global::meter("bench");
        tokio::spawn(seal::run(pool.clone(), 400, meter, stop.clone()))
    });
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..writers {
        let pool = pool.clone();
        tasks.spawn(async move {
            for _ in 0..MUTATIONS {
                mutate(&pool, way).await.expect("a mutation");
            }
        });
    }
    tasks.join_all().await;
    let took = begun.elapsed();
    stop.cancel();
    if let Some(sealer) = sealer {
        sealer.await.expect("sealer");
    }
    took
}

async fn mutate(pool: &PgPool, way: Way) -> gpuaas_common::Result<()> {
    let id = Uuid::now_v7();
    let key = id.to_string();
    let scope = Scope {
        principal: "user:bench",
        method: "CreatePriceVersion",
        key: &key,
    };
    let mut tx = pool.begin().await?;
    idempotency::lookup(&mut tx, scope, &[0; 32]).await?;
    // an SKU of its own: writers do not wait for each other
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('price_versions/' || $1, 0))")
        .bind(&key)
        .execute(&mut *tx)
        .await?;
    sqlx::query(
        "INSERT INTO price_versions (id, sku, currency, price_nanos, effective_at)
         VALUES ($1, $2, 'EUR', 1, clock_timestamp())",
    )
    .bind(id)
    .bind(&key)
    .execute(&mut *tx)
    .await?;
    idempotency::record(&mut tx, scope, &[0; 32], &key).await?;
    if way != Way::NoRow {
        let entry = Entry {
            principal: "user:bench",
            action: "price.create",
            resource: "price_version",
            resource_id: &key,
            request_id: &key,
            detail: serde_json::json!({ "sku": key, "currency": "EUR", "price_nanos": 1 }),
        };
        audit::record(&mut tx, entry).await?;
    }
    tx.commit().await?;
    Ok(())
}
