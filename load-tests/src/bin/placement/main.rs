//! Reservations: how many a second, by the library and through the scheduler's gRPC, next to minimal transactions of the
//! same shape, in the ledger's own tables and in plain ones; how long one takes as the fleet grows; what the decision and availability cost at ten thousand
//! nodes, and what memory the scheduler takes there. All in one run on one PostgreSQL that flushes to disk as in
//! production. Prints Markdown.
//!
//! usage: make bench-placement
//!        placement [SECONDS]
mod ledger;
mod peer;
mod served;

use std::cell::Cell;
use std::time::{Duration, Instant};

use gpuaas_dev::stack::{DATABASE, Stack};
use gpuaas_load_tests::measure::{circumstances, median, memory_kib, percentile};
use gpuaas_load_tests::system::{self, Hosts};
use gpuaas_load_tests::{fleet, image};
use gpuaas_placement::decision::{Fleet, GpuCount, Request as Requested, Rules};
use gpuaas_placement::model::SlotClass;

use ledger::Ledger;
use served::Served;

const FLEETS: [u32; 2] = [100, 1000];
/// Nodes of the fleet that everything else is measured with.
const MANY: u32 = 10_000;
const CONCURRENCY: [usize; 3] = [1, 8, 32];
const SKU: &str = "h200-sxm-slice";
/// Projects that reserve, each with a quota whose row its reservations lock.
const PROJECTS: u128 = 256;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let before = stack()?;
    before.down()?;
    // what an earlier run has left, its keys included
    before.purge()?;
    let stack = stack()?;
    let outcome = measure(&stack, seconds).await;
    stack.down()?;
    outcome
}

fn stack() -> anyhow::Result<Stack> {
    let quotas = ["gpus", "allocations"]
        .map(|what| format!("scheduler.default_project_quota_{what}=1000000"));
    let quotas: Vec<_> = quotas
        .iter()
        .map(|set| ("scheduler", set.as_str()))
        .collect();
    let mut options = system::options(Hosts::None, &quotas)?;
    options.root = gpuaas_dev::paths::run_dir().join("bench/placement");
    Ok(Stack::new(options)?)
}

async fn measure(stack: &Stack, seconds: u64) -> anyhow::Result<()> {
    stack.up_with(&[], &|line| eprintln!("{line}")).await?;
    let server = stack.postgres()?;
    println!("{}\n", circumstances());
    println!("| nodes of 8 slots, 70 % in use | p50, ms | p95, ms | p99, ms |\n|---|---|---|---|");
    for nodes in FLEETS {
        latencies(&Ledger::of(&server, nodes).await?, nodes).await?;
    }
    let many = Ledger::fill(&server, DATABASE, MANY).await?;
    latencies(&many, MANY).await?;

    println!("\n| at 10,000 nodes, median of 10 | ms |\n|---|---|");
    many.print_readings().await?;
    many.print_reports().await?;
    println!(
        "| the pure decision over every node, nothing read | {:.2} |",
        decision()
    );

    let served = Served::start(stack).await?;
    let idle = memory_kib(&served.process) / 1024.0;
    let first = served.availability().await?;
    let second = served.availability().await?;
    println!("| availability by gRPC, the first one | {first:.1} |");
    println!("| availability by gRPC, the next one | {second:.1} |");
    let knowing = memory_kib(&served.process) / 1024.0;

    let root = &stack.options().root;
    let plain = peer::plain(&server, DATABASE, root).await?;
    let own = peer::own_tables(&server, DATABASE, root).await?;
    println!(
        "\n| at once | by the library, a second | by gRPC, a second | the same rows in the ledger's tables, a second | in plain tables, a second | library / ledger's tables | gRPC / ledger's tables | library / plain | gRPC / plain |\n|---|---|---|---|---|---|---|---|---|"
    );
    for clients in CONCURRENCY {
        let library = throughput(clients, seconds, async || many.reserve().await.map(drop)).await?;
        let grpc = throughput(clients, seconds, async || served.reserve().await.map(drop)).await?;
        peer::give_back(&server, DATABASE).await?;
        let own = peer::run(&server, DATABASE, &own, clients, seconds)?;
        peer::give_back(&server, DATABASE).await?;
        let plain = peer::run(&server, DATABASE, &plain, clients, seconds)?;
        let of = |peer: f64| [library / peer, grpc / peer];
        let [[a, b], [c, d]] = [of(own), of(plain)];
        println!(
            "| {clients} | {library:.0} | {grpc:.0} | {own:.0} | {plain:.0} | {a:.2} | {b:.2} | {c:.2} | {d:.2} |"
        );
    }
    println!(
        "\nThe scheduler takes {idle:.1} MiB when it has started, {knowing:.1} MiB when it knows {MANY} nodes, {:.1} MiB after all of it.",
        memory_kib(&served.process) / 1024.0
    );
    Ok(())
}

async fn latencies(ledger: &Ledger, nodes: u32) -> anyhow::Result<()> {
    let times = ledger.latencies().await?;
    let at = |percent| percentile(&times, percent);
    println!(
        "| {nodes} | {:.2} | {:.2} | {:.2} |",
        at(50),
        at(95),
        at(99)
    );
    Ok(())
}

/// How often a second so many clients do it that do nothing else; first for two seconds that do not count, in which
/// connections are opened and statements prepared, as a service has them.
async fn throughput(
    clients: usize,
    seconds: u64,
    once: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    measured(clients, 2, &once).await?;
    measured(clients, seconds, &once).await
}

async fn measured(
    clients: usize,
    seconds: u64,
    once: impl AsyncFn() -> anyhow::Result<()>,
) -> anyhow::Result<f64> {
    let (began, length) = (Instant::now(), Duration::from_secs(seconds));
    let done = Cell::new(0u32);
    let client = async || -> anyhow::Result<()> {
        while began.elapsed() < length {
            once().await?;
            done.set(done.get() + 1);
        }
        Ok(())
    };
    futures::future::try_join_all((0..clients).map(|_| client())).await?;
    Ok(f64::from(done.get()) / began.elapsed().as_secs_f64())
}

/// The pure decision over ten thousand nodes, in milliseconds.
fn decision() -> f64 {
    let (fleet, rules) = (Fleet::of(&fleet(10_000)), Rules::default());
    let requested = Requested {
        gpu_count: GpuCount::new(4).expect("four"),
        slot_class: SlotClass::H200Sxm,
        hugepages_1g: 180,
        image: image(),
        prewarmed: false,
    };
    let times = (0..10).map(|_| {
        let began = Instant::now();
        assert!(
            fleet.rank(&rules, &requested).fits() > 0,
            "the fleet has room"
        );
        began.elapsed().as_secs_f64() * 1000.0
    });
    median(times.collect())
}
