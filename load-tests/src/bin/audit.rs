//! What the audit trail costs a call that changes something: `POST /api/v1/admin/prices` through the gateway, with its
//! audit row and with a trigger that drops the row before it is written, in turn, in one run. The hash chain's sealer runs
//! as it always does. The call without the row still sends the statement, so the time of an empty statement is printed too
//! and counted against the audit trail. Prints Markdown.
//!
//! usage: make bench-audit
//!        audit [CALLS PER ROUND]
use std::time::{Duration, Instant};

use anyhow::Context as _;
use futures::future::try_join_all;
use gpuaas_dev::seed::{Api, H200_SKU, Tokens, skus};
use gpuaas_dev::stack::DATABASE;
use gpuaas_load_tests::measure::{circumstances, median};
use gpuaas_load_tests::system::{self, GATEWAY, Hosts, System};
use serde_json::json;
use sqlx::{Connection as _, Executor as _, PgConnection};
use uuid::Uuid;

const CALLERS: [usize; 2] = [1, 8];
const ROUNDS: usize = 9;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let calls: usize = std::env::args()
        .nth(1)
        .map_or(Ok(400), |text| text.parse())?;
    // the rates are counted, as they are in service, and never reached
    let settings = [(GATEWAY, "gateway.rates.write_per_principal=1000000000")];
    system::with(Hosts::None, &settings, async |system| {
        measure(system, calls).await
    })
    .await
}

async fn measure(system: &System<'_>, calls: usize) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let postgres = system.stack.postgres()?;
    let mut database = PgConnection::connect_with(&postgres.options("postgres", DATABASE)).await?;
    let admin = Api::new(&system.stack.api_url(), &Tokens::of(system.root()).admin)?;
    // any but the lab's, of which there is one
    let sku = skus().into_iter().find(|sku| sku.code == H200_SKU);
    let sku = &sku.context("the SKU of H200 slices")?.body;
    let most = CALLERS.into_iter().max().unwrap_or_default();
    for caller in 0..most {
        // one for each caller: they do not wait for each other
        let path = format!("/api/v1/admin/skus/bench-{caller}");
        admin.put(&path, &Uuid::now_v7().to_string(), sku).await?;
    }
    // what a run that was broken off left
    keep_rows(&mut database, true).await?;
    let empty = empty_statement(&mut database).await?;
    println!(
        "{circumstances}; {ROUNDS} rounds of {calls} calls; an empty statement takes {empty:.3} ms\n"
    );
    println!("| callers | way | median of a round, ms per call | ratio | with the statement |");
    println!("|---|---|---|---|---|");
    for callers in CALLERS {
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for number in 0..=ROUNDS {
            keep_rows(&mut database, false).await?;
            let bare = round(&admin, callers, calls).await?;
            keep_rows(&mut database, true).await?;
            let whole = round(&admin, callers, calls).await?;
            if number > 0 {
                without.push(bare.as_secs_f64() * 1000.0 / calls as f64);
                with.push(whole.as_secs_f64() * 1000.0 / calls as f64);
            }
        }
        let (with, without) = (median(with), median(without));
        println!("| {callers} | without the row | {without:.3} | 1.00 | 1.00 |");
        println!(
            "| {callers} | with the row | {with:.3} | {:.2} | {:.2} |",
            with / without,
            with / (without - empty)
        );
    }
    Ok(())
}

/// Milliseconds of a statement that does nothing.
async fn empty_statement(database: &mut PgConnection) -> anyhow::Result<f64> {
    const TIMES: u32 = 2000;
    let begun = Instant::now();
    for _ in 0..TIMES {
        sqlx::query("SELECT 1").execute(&mut *database).await?;
    }
    Ok(begun.elapsed().as_secs_f64() * 1000.0 / f64::from(TIMES))
}

/// Lets audit rows of the price list be written, or drops them before they are.
async fn keep_rows(database: &mut PgConnection, keep: bool) -> anyhow::Result<()> {
    let statement = if keep {
        "DROP TRIGGER IF EXISTS bench_no_row ON billing.audit"
    } else {
        "CREATE OR REPLACE FUNCTION billing.bench_no_row() RETURNS trigger LANGUAGE plpgsql
             AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER bench_no_row BEFORE INSERT ON billing.audit
             FOR EACH ROW EXECUTE FUNCTION billing.bench_no_row()"
    };
    let done = database.execute(sqlx::raw_sql(statement)).await;
    done.context("change the audit table")?;
    Ok(())
}

/// Callers that begin together and share the calls evenly.
async fn round(admin: &Api, callers: usize, calls: usize) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let each = calls.div_ceil(callers);
    try_join_all((0..callers).map(|caller| publish(admin, caller, each))).await?;
    Ok(begun.elapsed())
}

async fn publish(admin: &Api, caller: usize, times: usize) -> anyhow::Result<()> {
    let price = json!({"sku": format!("bench-{caller}"),
        "price_per_gpu_hour": {"currency_code": "USD", "units": "1", "nanos": 0}});
    for _ in 0..times {
        let key = Uuid::now_v7().to_string();
        admin.post("/api/v1/admin/prices", &key, &price).await?;
    }
    Ok(())
}
