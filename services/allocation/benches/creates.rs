//! Launches of one moment: 1 and 32 at once, each from the request to `active`, through scheduler and allocation over
//! gRPC on the agent's own core. The host has no guests, so what is measured is the platform. Prints Markdown.
//!
//! usage: make bench-creates
#![allow(
    dead_code,
    unused_imports,
    reason = "the tests' world has more than is used here"
)]

#[path = "../tests/it/catalog.rs"]
mod catalog;
#[path = "../tests/it/expect.rs"]
mod expect;
#[path = "../tests/it/host/mod.rs"]
mod host;
#[path = "../tests/it/ledger.rs"]
mod ledger;
#[path = "../tests/it/platform.rs"]
mod platform;
#[path = "../tests/it/runners.rs"]
mod runners;
#[path = "../tests/it/world.rs"]
mod world;

use std::time::{Duration, Instant};

use futures::future::join_all;
use gpuaas_load_tests::measure::{Cpu, circumstances, cpu_seconds_with_children, percentile};
use jiff::Timestamp;
use jiff_sqlx::Timestamp as Stored;
use uuid::Uuid;

use platform::{Platform, good};
use world::World;

/// Launches at once.
const MANY: usize = 32;
/// Launches of each way that are counted, after one round that is not.
const SAMPLES: usize = 96;

#[tokio::main]
async fn main() {
    // the product's own settings, but nothing here wakes it by Redis
    let config = gpuaas_allocation::Config {
        poll_seconds: 0.05,
        graceful_stop_seconds: 1,
        reconcile_seconds: 0.0,
        ..gpuaas_allocation::Config::default()
    };
    let begun = circumstances();
    let world = World::with_slots(MANY).await;
    let platform = Platform::of(world, gpuaas_scheduler::Config::default(), config).await;
    let mut table = Vec::new();
    for at_once in [1, MANY] {
        round(&platform, at_once, 0).await;
        let mut times = Vec::new();
        let mut used = Used::default();
        let mut number = 1;
        while times.len() < SAMPLES {
            let (of_round, cost) = round(&platform, at_once, number).await;
            times.extend(of_round);
            used = used.plus(&cost);
            number += 1;
        }
        times.sort_unstable();
        table.push((at_once, times, used));
    }
    let steps = steps(&platform).await;
    println!("{begun}\n");
    println!("| launches at once | p50, ms | p95, ms | slowest, ms | p95 to that of one |");
    println!("|---|---|---|---|---|");
    let one = percentile(&table[0].1, 95);
    for (at_once, times, _) in &table {
        let [p50, p95, most] = [50, 95, 100].map(|percent| percentile(times, percent));
        let ratio = p95 / one;
        println!("| {at_once} | {p50:.0} | {p95:.0} | {most:.0} | {ratio:.2} |");
    }
    println!(
        "\n| launches at once | time of a launch, ms | platform and agent, CPU ms | programs of the agent, CPU ms | PostgreSQL, CPU ms | cores in use |"
    );
    println!("|---|---|---|---|---|---|");
    for (at_once, times, used) in &table {
        let each = |seconds: f64| seconds * 1000.0 / times.len() as f64;
        let [wall, own, programs, postgres] =
            [used.wall, used.own, used.programs, used.postgres].map(each);
        let cores = (own + programs + postgres) / wall;
        println!(
            "| {at_once} | {wall:.0} | {own:.0} | {programs:.0} | {postgres:.0} | {cores:.2} |"
        );
    }
    println!("\n| median of a step, ms | 1 at once | {MANY} at once |");
    println!("|---|---|---|");
    for (step, one, many) in steps {
        println!("| {step} | {one:.1} | {many:.1} |");
    }
}

/// How long the steps of launches took, in their order: of those alone, and of those that were many at once.
async fn steps(platform: &Platform) -> Vec<(String, f64, f64)> {
    let sql = "SELECT t.step,
                      percentile_cont(0.5) WITHIN GROUP (ORDER BY took) FILTER (WHERE a.name LIKE 'r1-%'),
                      percentile_cont(0.5) WITHIN GROUP (ORDER BY took) FILTER (WHERE a.name NOT LIKE 'r1-%')
                 FROM timeline AS t JOIN allocations AS a ON a.id = t.allocation_id,
                      LATERAL (SELECT 1000 * extract(epoch FROM t.ended_at - t.at)::float8 AS took) AS of_step
                WHERE t.step LIKE 'provision.%'
                GROUP BY t.step ORDER BY min(t.sequence), t.step";
    let rows = sqlx::query_as(sql).fetch_all(&platform.world.pool).await;
    rows.expect("rows")
}

/// What launches used, in seconds.
#[derive(Debug, Default)]
struct Used {
    wall: f64,
    /// Processor time of scheduler, allocation and the host's agent, which run in this process, and of what asks them.
    own: f64,
    /// Of the programs that the agent ran.
    programs: f64,
    postgres: f64,
}

impl Used {
    /// What has been used so far.
    fn until_now(platform: &Platform, begun: Instant) -> Self {
        let pid = i32::try_from(std::process::id()).expect("a pid");
        let own = Cpu::of(pid).expect("we run");
        let server = platform
            .world
            .db
            .server()
            .running()
            .expect("PostgreSQL runs");
        Self {
            wall: begun.elapsed().as_secs_f64(),
            own: own.own,
            programs: own.waited,
            postgres: cpu_seconds_with_children(&server).expect("PostgreSQL runs"),
        }
    }

    fn since(&self, before: &Self) -> Self {
        Self {
            wall: self.wall - before.wall,
            own: self.own - before.own,
            programs: self.programs - before.programs,
            postgres: self.postgres - before.postgres,
        }
    }

    fn plus(&self, other: &Self) -> Self {
        Self {
            wall: self.wall + other.wall,
            own: self.own + other.own,
            programs: self.programs + other.programs,
            postgres: self.postgres + other.postgres,
        }
    }
}

/// Launches so many at once, and releases them. Returns how long each took from its request until it was active, and
/// what they used until the last was.
async fn round(platform: &Platform, at_once: usize, number: usize) -> (Vec<Duration>, Used) {
    let begun = Instant::now();
    let before = Used::until_now(platform, begun);
    let launches =
        (0..at_once).map(|index| launch(platform, format!("r{at_once}-{number}-{index}")));
    let launched = join_all(launches).await;
    let used = Used::until_now(platform, begun).since(&before);
    let releases = launched.iter().map(async |(id, _)| {
        let released = platform
            .release(&id.to_string(), &format!("end-{id}"))
            .await;
        released.expect("released");
        platform.world.until_state(*id, "released").await;
        platform.world.until_idle(*id).await;
    });
    join_all(releases).await;
    (launched.into_iter().map(|(_, time)| time).collect(), used)
}

async fn launch(platform: &Platform, name: String) -> (Uuid, Duration) {
    let requested = Timestamp::now();
    let created = platform.create(good(&name), &name).await.expect("accepted");
    let id: Uuid = created.id.parse().expect("an id");
    platform.world.until_state(id, "active").await;
    // the database and this program have one clock, so how often it is polled for does not count
    let active: Stored =
        sqlx::query_scalar("SELECT at FROM timeline WHERE allocation_id = $1 AND step = 'active'")
            .bind(id)
            .fetch_one(&platform.world.pool)
            .await
            .expect("a time");
    let took = active.to_jiff().duration_since(requested);
    (id, took.try_into().expect("after the request"))
}
