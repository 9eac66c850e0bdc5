//! Reservations: how many a second next to the minimal transaction of the same shape, how long one takes as the fleet
//! grows, and what the decision and availability cost at ten thousand nodes. All in one run on one PostgreSQL that
//! flushes to disk as in production. Prints Markdown.
//!
//! usage: cargo run --release -p gpuaas-load-tests --bin placement [SECONDS]
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use gpuaas_dev::postgres::{Access, Server};
use gpuaas_dev::process::{PidFile, Process};
use gpuaas_dev::{paths, ports};
use gpuaas_kit::id::IdGen;
use gpuaas_load_tests::fleet;
use gpuaas_load_tests::measure::{circumstances, memory_kib};
use gpuaas_placement::availability;
use gpuaas_placement::capacity::Capacity;
use gpuaas_placement::decision::{Fleet, Request as Asked, Rules};
use gpuaas_placement::model::{Image, Scope, SlotClass};
use gpuaas_placement::release;
use gpuaas_placement::reserve::{self, Policy, Request};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool};
use uuid::Uuid;

const FLEETS: [u32; 3] = [100, 1000, 10_000];
const CONCURRENCY: [usize; 3] = [1, 8, 32];
/// Reservations whose time is taken at each size of the fleet.
const ROUNDS: usize = 500;
const SKU: &str = "h200-sxm-slice";
/// Projects that reserve, each with a quota whose row its reservations lock.
const PROJECTS: u128 = 256;
const POLICY: Policy = Policy {
    default_quota_gpus: 1_000_000,
    ..Policy::DEFAULT
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let seconds: u64 = std::env::args().nth(1).map_or(Ok(5), |text| text.parse())?;
    let root = paths::run_dir().join("bench/placement");
    paths::ensure_dir(&root)?;
    let server = Server::new(
        &root.join("postgres"),
        ports::free()?,
        Access::Durable,
        &root.join("postgres.log"),
        PidFile::new(root.join("postgres.pid")),
    )?;
    server.start().await?;
    let outcome = measure(&server, &root, seconds).await;
    server.stop();
    outcome
}

async fn measure(server: &Server, root: &Path, seconds: u64) -> anyhow::Result<()> {
    println!("{}\n", circumstances());
    println!("| nodes of 8 slots, 70 % in use | p50, ms | p95, ms | p99, ms |\n|---|---|---|---|");
    let mut last = None;
    for nodes in FLEETS {
        let bench = Bench::new(server, nodes).await?;
        let times = bench.latencies().await?;
        println!(
            "| {nodes} | {:.2} | {:.2} | {:.2} |",
            percentile(&times, 50),
            percentile(&times, 95),
            percentile(&times, 99)
        );
        last = Some(bench);
    }
    let bench = last.context("a fleet")?;

    bench.readings().await?;
    println!(
        "| the pure decision over every node, nothing read | {:.2} |",
        decision()
    );

    println!(
        "\n| at once | reservations a second | peer transactions a second | ratio |\n|---|---|---|---|"
    );
    let script = peer(server, &bench.database, root).await?;
    for clients in CONCURRENCY {
        let reservations = bench.throughput(clients, seconds).await?;
        let peer = pgbench(server, &bench.database, &script, clients, seconds)?;
        println!(
            "| {clients} | {reservations:.0} | {peer:.0} | {:.2} |",
            reservations / peer
        );
    }
    Ok(())
}

fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() - 1) * percent / 100].as_secs_f64() * 1000.0
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    percentile(&times, 50)
}

/// A migrated database with a fleet.
struct Bench {
    database: String,
    scheduler: PgPool,
    allocation: PgPool,
    ids: IdGen,
}

impl Bench {
    async fn new(server: &Server, nodes: u32) -> anyhow::Result<Self> {
        let database = format!("bench_{nodes}");
        let mut superuser = server.superuser("postgres").await?;
        superuser
            .execute(AssertSqlSafe(format!(
                "DROP DATABASE IF EXISTS {database} WITH (FORCE)"
            )))
            .await?;
        let passwords: BTreeMap<String, String> = gpuaas_migrations::roles::all()
            .map(|role| (role.to_owned(), Uuid::new_v4().to_string()))
            .collect();
        gpuaas_migrations::bootstrap_roles(&mut superuser, &passwords).await?;
        gpuaas_migrations::create_database(&mut superuser, &database).await?;
        let owner = server.options(gpuaas_migrations::OWNER_ROLE, &database);
        gpuaas_migrations::apply_all(&mut PgConnection::connect_with(&owner).await?).await?;
        server
            .superuser(&database)
            .await?
            .execute(AssertSqlSafe(format!(
                "SET search_path TO placement; {}",
                filled(nodes)
            )))
            .await?;
        let pool = async |role: &str| {
            PgPoolOptions::new()
                .max_connections(40)
                .connect_with(server.options(role, &database))
                .await
        };
        Ok(Self {
            scheduler: pool("gpuaas_scheduler").await?,
            allocation: pool("gpuaas_allocation").await?,
            database,
            ids: IdGen::new(1),
        })
    }

    async fn reserve(&self) -> anyhow::Result<Uuid> {
        let reserved = reserve::reserve(&self.scheduler, self.ids, POLICY, &request()).await?;
        Ok(reserved.allocation_id)
    }

    /// Sorted times of reservations, each released again, so that the fleet stays as full as it is.
    async fn latencies(&self) -> anyhow::Result<Vec<Duration>> {
        let mut times = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS + 50 {
            let began = Instant::now();
            let id = self.reserve().await?;
            // the first ones fill caches and settle plans
            if round >= 50 {
                times.push(began.elapsed());
            }
            let mut tx = self.allocation.begin().await?;
            release::begin(&mut tx, Scope::Platform, id, "", "").await?;
            tx.commit().await?;
        }
        times.sort();
        Ok(times)
    }

    /// Availability and explanation from one copy of the fleet, each after a reservation that changed it.
    async fn readings(&self) -> anyhow::Result<()> {
        let this = Process::of(i32::try_from(std::process::id())?).context("this process")?;
        let capacity = Capacity::default();
        let mut conn = self.scheduler.acquire().await?;
        let before = memory_kib(&this);
        let began = Instant::now();
        capacity.now(&mut conn).await?;
        let first = began.elapsed().as_secs_f64() * 1000.0;
        let after = memory_kib(&this);
        let (mut availabilities, mut explanations) = (Vec::new(), Vec::new());
        for _ in 0..10 {
            self.reserve().await?;
            let began = Instant::now();
            let rows = availability::list(&mut conn, &capacity, None, None, Some(SKU)).await?;
            availabilities.push(began.elapsed());
            if rows.iter().all(|row| row.fits == 0) {
                bail!("the fleet has no room");
            }
            self.reserve().await?;
            let began = Instant::now();
            reserve::explain_nodes(&mut conn, &capacity, POLICY, &request(), 50).await?;
            explanations.push(began.elapsed());
        }
        println!("\n| at 10,000 nodes, median of 10 | ms |\n|---|---|");
        println!(
            "| availability of one SKU | {:.1} |",
            median(availabilities)
        );
        println!(
            "| explanation, with the best 50 nodes | {:.1} |",
            median(explanations)
        );
        println!("| the first reading of a process, once | {first:.0} |");
        println!(
            "| (memory that it keeps and that reading it took, MiB) | {:.1} |",
            (after - before) / 1024.0
        );
        Ok(())
    }

    /// Reservations a second of so many clients that only reserve.
    async fn throughput(&self, clients: usize, seconds: u64) -> anyhow::Result<f64> {
        let (began, length) = (Instant::now(), Duration::from_secs(seconds));
        let done = Arc::new(AtomicU64::new(0));
        let client = async || -> anyhow::Result<()> {
            while began.elapsed() < length {
                self.reserve().await?;
                done.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        futures::future::try_join_all((0..clients).map(|_| client())).await?;
        Ok(done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64())
    }
}

/// One GPU for one of the projects.
fn request() -> Request {
    let unique = Uuid::new_v4();
    let project_id = Uuid::from_u128(unique.as_u128() % PROJECTS);
    let unique = unique.simple().to_string();
    Request {
        principal: "user:bench".into(),
        idempotency_key: unique.clone(),
        request_hash: vec![7; 32],
        project_id,
        name: format!("a-{unique}"),
        region_code: "r".into(),
        sku: SKU.into(),
        gpu_count: 1,
        image: Image {
            slug: "ubuntu".into(),
            ..Image::default()
        },
        ssh_public_keys: vec!["ssh-ed25519 AAAA bench".into()],
        ..Request::default()
    }
}

/// The pure decision over ten thousand nodes, in milliseconds.
fn decision() -> f64 {
    let (fleet, rules) = (Fleet::of(&fleet(10_000)), Rules::default());
    let asked = Asked {
        gpu_count: 4,
        slot_class: SlotClass::H200Sxm,
        hugepages_1g: 180,
    };
    let times = (0..10).map(|_| {
        let began = Instant::now();
        assert!(fleet.rank(&rules, &asked).fits() > 0, "the fleet has room");
        began.elapsed()
    });
    median(times.collect())
}

/// Statements that fill a ledger: written past the triggers, and then as the triggers would have left it.
fn filled(nodes: u32) -> String {
    format!(
        "SET session_replication_role = replica;
         INSERT INTO regions VALUES ('r', true);
         INSERT INTO skus (code, display_name, capacity_shape, slot_class, allowed_gpu_counts, profile_name, vcpus_per_gpu,
                           memory_mib_per_gpu, hugepages, price_version_id, price_currency, price_nanos, price_effective_at)
         VALUES ('h200-sxm-slice', '', 'gpu_slice', 'h200_sxm', '{{1,2,4,8}}', 'p', 24, 65536, true, gen_random_uuid(),
                 'USD', 2490000000, now());
         INSERT INTO nodes (id, hostname, region_code, mode, agent_address, instance_id, schedulable, hugepages_1g_free,
                            legal_groups, lab, host_health)
         SELECT gen_random_uuid(), 'gpu-' || n, 'r', 'slice', '10.0.0.1:1', gen_random_uuid(), true, 2000,
                '[[1,2],[3,4],[5,6],[7,8],[1,2,3,4],[5,6,7,8],[1,2,3,4,5,6,7,8]]', false, 'healthy'
           FROM generate_series(1, {nodes}) n;
         CREATE TEMPORARY TABLE held AS
           SELECT id AS node_id, CASE WHEN substr(hostname, 5)::int % 5 < 2 THEN 8 ELSE 4 END AS slots,
                  gen_random_uuid() AS allocation_id FROM nodes;
         INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, power,
                                  active_at, image, ssh_public_keys, guest_user, lab, principal, request_id, traceparent)
         SELECT allocation_id, gen_random_uuid(), 'a', 'r', 'h200-sxm-slice', slots, 'gpu_slice', node_id, 'active', 'running',
                now(), '{{}}', ARRAY['k'], 'u_0123456789abcdef', false, 'user:x', '', '' FROM held;
         INSERT INTO slots (id, node_id, slot_index, class, status, generation, clean_generation, host_health,
                            gpu_pci_address, gpu_module_id, numa_node, nvme_device, storage_identity_kind, nvme_bytes,
                            management_mac, private_ip, fabric_device, fabric_vf_pci_address, fabric_claim_mode,
                            destructive_wipe_policy)
         SELECT gen_random_uuid(), h.node_id, i, 'h200_sxm', CASE WHEN i < h.slots THEN 'active' ELSE 'available' END,
                CASE WHEN i < h.slots THEN 1 ELSE 0 END, 0, 'healthy', '0000:1' || i || ':00.0', i + 1, i / 4,
                '/dev/disk/by-id/nvme-eui.' || i, 'nvme_wwn_by_id', 1000, '52:54:00:00:00:0' || i, '10.0.0.' || 10 + i,
                '0000:1a:00.0', '0000:1a:00.' || i, 'per_slot_vf', 'blkdiscard'
           FROM held h CROSS JOIN generate_series(0, 7) i;
         INSERT INTO clean_evidence (slot_id, generation, kind, method) SELECT id, 0, 'approved', 'raw' FROM slots;
         INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)
         SELECT gen_random_uuid(), h.allocation_id, 'h200-sxm-slice', 'slot', h.node_id, s.id, s.class, 1, 'active', '{{}}'
           FROM held h JOIN slots s ON s.node_id = h.node_id WHERE s.status = 'active';
         INSERT INTO node_room (node_id, slot_class, region_code, free, used)
         SELECT node_id, 'h200_sxm', 'r', 8 - slots, slots FROM held;
         DROP TABLE held;
         RESET session_replication_role;
         ANALYZE"
    )
}

/// The minimal transaction of the same shape: as many rows of the same size in plain tables, no constraint but keys,
/// no trigger, no decision. Written as a script of pgbench.
async fn peer(server: &Server, database: &str, root: &Path) -> anyhow::Result<String> {
    server
        .superuser(database)
        .await?
        .execute(
            "DROP SCHEMA IF EXISTS peer CASCADE; CREATE SCHEMA peer;
             CREATE TABLE peer.nodes (id int PRIMARY KEY, body text);
             CREATE TABLE peer.slots (id int PRIMARY KEY, node_id int, status text, generation int, body text);
             CREATE TABLE peer.rows (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), kind text, body text);
             INSERT INTO peer.nodes SELECT n, repeat('x', 300) FROM generate_series(1, 10000) n;
             INSERT INTO peer.slots SELECT s, 1 + s % 10000, 'available', 0, repeat('x', 300) FROM generate_series(1, 80000) s;
             ANALYZE",
        )
        .await?;
    let row = |kind: &str, bytes: u32| {
        format!("INSERT INTO peer.rows (kind, body) VALUES ('{kind}', repeat('x', {bytes}));\n")
    };
    // what a reservation writes: quota, allocation, claim, event, workflow, timeline and its head, audit, key
    let rows: String = [
        ("quota", 40),
        ("allocation", 700),
        ("claim", 700),
        ("event", 600),
        ("workflow", 150),
        ("timeline", 150),
        ("head", 20),
        ("audit", 300),
        ("key", 150),
    ]
    .iter()
    .map(|(kind, bytes)| row(kind, *bytes))
    .collect();
    let script = format!(
        "\\set node random(1, 10000)\n\\set slot :node + 10000 * random(0, 7)\nBEGIN;\n\
         SELECT pg_advisory_xact_lock(hashtextextended(gen_random_uuid()::text, 0));\n\
         SELECT * FROM peer.nodes WHERE id = :node FOR NO KEY UPDATE;\n\
         SELECT * FROM peer.slots WHERE id = :slot FOR NO KEY UPDATE;\n\
         UPDATE peer.slots SET status = 'reserved', generation = generation + 1 WHERE id = :slot;\n{rows}COMMIT;\n"
    );
    let file = root.join("peer.sql");
    std::fs::write(&file, script)?;
    Ok(file.display().to_string())
}

/// Transactions a second of pgbench.
fn pgbench(
    server: &Server,
    database: &str,
    script: &str,
    clients: usize,
    seconds: u64,
) -> anyhow::Result<f64> {
    let output = Command::new("pgbench")
        .args([
            "--no-vacuum",
            "--protocol=prepared",
            "--jobs=2",
            "--username=postgres",
        ])
        .args([
            "--client",
            &clients.to_string(),
            "--time",
            &seconds.to_string(),
        ])
        .args([
            "--file",
            script,
            "--port",
            &server.port().to_string(),
            "--host",
        ])
        .arg(server.socket_folder())
        .arg(database)
        .output()
        .context("pgbench is part of Debian's postgresql")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = "));
    tps.and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("pgbench: {text}{}", String::from_utf8_lossy(&output.stderr)))
}
