//! A fleet of hosts against one inventory: how long until all are ready, what they cost when nothing happens, and what
//! happens when inventory was away while every host changed. Prints Markdown.
//!
//! Enrolment and reports are those of the agent: its report of a recorded H200 host (`agent/recordings`), its calls, its
//! pauses, with a key, a certificate and a connection of its own for each host. The inspection is made once: how long it
//! takes is a matter of the host.
//!
//! usage: make bench-fleet
//!        fleet [HOSTS]
mod cost;
mod host;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use gpuaas_common::client::GrpcChannel;
use gpuaas_dev::process::Process;
use gpuaas_dev::stack::Kind;
use gpuaas_load_tests::measure::{circumstances, memory_kib};
use gpuaas_load_tests::system::{self, Services};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::node_admin_service_client::NodeAdminServiceClient;
use gpuaas_proto::gpuaas::inventory::v1::region_admin_service_client::RegionAdminServiceClient;
use nix::sys::signal::Signal;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use tonic::Request;

use crate::cost::{Cost, Sample};
use crate::host::{Fleet, Template};

const INVENTORY: &str = "inventory";
const REGION: &str = "fleet-1";
/// Calls at once while nodes are registered.
const REGISTERING: usize = 32;
/// How long nothing happens but reports.
const QUIET: Duration = Duration::from_secs(40);
/// How long inventory is away.
const AWAY: Duration = Duration::from_secs(20);
/// Longest time until all hosts are ready, or have reported again.
const TIMEOUT: Duration = Duration::from_secs(900);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let hosts: usize = match std::env::args().nth(1) {
        Some(text) => text.parse().context("HOSTS is a number")?,
        None => 5000,
    };
    ensure!(hosts > 0, "there must be hosts");
    let per_peer = format!("inventory.enrolment_max_connections_per_peer={hosts}");
    let most = format!("inventory.enrolment_max_connections={hosts}");
    let settings = [(INVENTORY, per_peer.as_str()), (INVENTORY, most.as_str())];
    system::with_services(&[INVENTORY, "scheduler"], &settings, async |system| {
        measure(system, hosts).await
    })
    .await
}

async fn measure(system: &Services<'_>, hosts: usize) -> anyhow::Result<()> {
    let circumstances = circumstances();
    let pool = PgPoolOptions::new()
        .max_connections(4)
        .connect_with(system.database("postgres")?)
        .await?;
    let template = Template::inspect().await?;
    eprintln!(
        "one inspection of a recorded host: {:.0} ms",
        template.inspection.as_secs_f64() * 1000.0
    );
    let tokens = register(system, hosts).await?;

    let mut table = Vec::new();
    let fleet = Fleet::new(system, template)?;
    let before = Sample::take(system, &pool).await?;
    let began = Instant::now();
    fleet.enrol(tokens).await?;
    let enrolled = began.elapsed();
    until(&pool, "hosts are ready", READY, hosts).await?;
    let ready = began.elapsed();
    table.push((
        "from the first enrolment until all are ready",
        Cost::between(&before, &Sample::take(system, &pool).await?),
    ));
    println!("{circumstances}; {hosts} hosts\n");
    println!(
        "All hosts had enrolled after {:.1} s and were ready in the ledger after {:.1} s.\n",
        enrolled.as_secs_f64(),
        ready.as_secs_f64()
    );

    let before = Sample::take(system, &pool).await?;
    tokio::time::sleep(QUIET).await;
    let after = Sample::take(system, &pool).await?;
    table.push((
        "nothing but reports of what is known",
        Cost::between(&before, &after),
    ));
    let memory = memory_kib(&system.process(INVENTORY).await?) / 1024.0;

    let away = away(system, &pool, &fleet, hosts).await?;
    table.push(("inventory back, every report changed", away.cost));
    println!("{}", Cost::table(&table, hosts));
    println!("Inventory used {memory:.0} MiB with {hosts} connections.\n");
    println!(
        "After {} s without inventory, in which every host changed: all changed reports were taken in {:.1} s after it answered \
         again; the busiest second had {} calls ({} in the busiest second before); {} hosts were marked lost; {} reports were lost.",
        AWAY.as_secs(),
        away.recovered.as_secs_f64(),
        away.busiest,
        away.busiest_before,
        away.lost,
        away.missing
    );
    fleet.stop().await;
    Ok(())
}

/// Nodes that the ledger has as schedulable.
const READY: &str = "SELECT count(*) FROM placement.nodes WHERE schedulable";

/// Registers nodes, and returns a token for each.
async fn register(system: &Services<'_>, hosts: usize) -> anyhow::Result<Vec<String>> {
    let channel = system.peer(INVENTORY)?;
    let region = api::Region {
        code: REGION.into(),
        display_name: "Fleet".into(),
        enabled: true,
        ..api::Region::default()
    };
    let put = api::PutRegionRequest {
        region: Some(region),
    };
    RegionAdminServiceClient::new(channel.clone())
        .put_region(admin(system, "region", put)?)
        .await?;
    // a run of its own, beside those whose nodes are still there
    let run = uuid::Uuid::now_v7().simple().to_string();
    let one = async |number: usize| register_one(system, channel.clone(), &run, number).await;
    let began = Instant::now();
    let tokens = futures::stream::iter(0..hosts)
        .map(one)
        .buffer_unordered(REGISTERING)
        .try_collect()
        .await?;
    eprintln!(
        "{hosts} nodes were registered within {:.0} s",
        began.elapsed().as_secs_f64()
    );
    Ok(tokens)
}

async fn register_one(
    system: &Services<'_>,
    channel: GrpcChannel,
    run: &str,
    number: usize,
) -> anyhow::Result<String> {
    let mut client = NodeAdminServiceClient::new(channel);
    let node = api::CreateNodeRequest {
        hostname: format!("h{number}-{}", &run[20..]),
        region_code: REGION.into(),
        mode: "slice".into(),
        rack: format!("rack-{}", number / 16),
        ..Default::default()
    };
    let key = format!("{run}-{number}");
    let node = client.create_node(admin(system, &key, node)?).await?;
    let token = api::CreateEnrolmentTokenRequest {
        node_id: node.into_inner().id,
    };
    let token = client.create_enrolment_token(admin(system, &key, token)?);
    Ok(token.await?.into_inner().token)
}

fn admin<T>(system: &Services<'_>, key: &str, message: T) -> anyhow::Result<Request<T>> {
    let mut request = Request::new(message);
    let token = system.admin_token(INVENTORY)?;
    let metadata = request.metadata_mut();
    metadata.insert("authorization", format!("Bearer {token}").parse()?);
    metadata.insert("x-idempotency-key", key.parse()?);
    Ok(request)
}

/// Waits until a statement counts all hosts.
async fn until(pool: &PgPool, what: &str, sql: &'static str, hosts: usize) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let counted: i64 = sqlx::query_scalar(sql).fetch_one(pool).await?;
        if counted.unsigned_abs() as usize >= hosts {
            return Ok(());
        }
        ensure!(
            began.elapsed() < TIMEOUT,
            "{counted} of {hosts} {what} after {TIMEOUT:?}"
        );
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// What an absence of inventory led to.
struct Absence {
    cost: Cost,
    recovered: Duration,
    busiest: usize,
    busiest_before: usize,
    lost: i64,
    missing: i64,
}

async fn away(
    system: &Services<'_>,
    pool: &PgPool,
    fleet: &Fleet,
    hosts: usize,
) -> anyhow::Result<Absence> {
    let busiest_before = fleet.log.busiest_second();
    let process: Process = system.process(INVENTORY).await?;
    process.stop(Signal::SIGKILL, Duration::from_secs(10));
    fleet.changes.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(AWAY).await;
    fleet.log.forget();
    let lost_before: i64 = sqlx::query_scalar(LOST).fetch_one(pool).await?;
    system
        .stack
        .up_with(&[Kind::find(INVENTORY)?], &|line| eprintln!("{line}"))
        .await?;
    let before = Sample::take(system, pool).await?;
    let began = Instant::now();
    // each changed report has one hugepage less than the one before
    let changed =
        "SELECT count(*) FROM placement.nodes WHERE hugepages_1g_free = 999 AND schedulable";
    let reached = until(pool, "changed reports are in the ledger", changed, hosts).await;
    let recovered = began.elapsed();
    let arrived: i64 = sqlx::query_scalar(changed).fetch_one(pool).await?;
    if let Err(error) = reached {
        eprintln!("{error:#}");
    }
    let lost: i64 = sqlx::query_scalar(LOST).fetch_one(pool).await?;
    Ok(Absence {
        cost: Cost::between(&before, &Sample::take(system, pool).await?),
        recovered,
        busiest: fleet.log.busiest_second(),
        busiest_before,
        lost: lost - lost_before,
        missing: hosts as i64 - arrived,
    })
}

/// How often a host was marked lost: each time, its node goes through two changes.
const LOST: &str = "SELECT count(*) FROM inventory.nodes WHERE state = 'lost' OR revision > 2";
