//! A ledger with a fleet, and what its library costs.
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use gpuaas_common::id::IdGen;
use gpuaas_dev::postgres::Server;
use gpuaas_dev::process::Process;
use gpuaas_load_tests::measure::{median, memory_kib};
use gpuaas_placement::availability;
use gpuaas_placement::capacity::{CONNECTION, Capacity, Ledger as Books};
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::{Image, Scope};
use gpuaas_placement::release;
use gpuaas_placement::reports::{self, DefragmentationSpec as Defragment};
use gpuaas_placement::reserve::{self, Call, Policy, Request};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection, PgPool};
use uuid::Uuid;

use crate::{PROJECTS, SKU};

/// Reservations whose time is taken at each size of the fleet.
const ROUNDS: usize = 500;
const POLICY: Policy = Policy {
    default_quota_gpus: 1_000_000,
    default_quota_allocations: 1_000_000,
    ..Policy::DEFAULT
};

/// A migrated database with a fleet.
pub struct Ledger {
    scheduler: Books,
    allocation: PgPool,
    ids: IdGen,
}

impl Ledger {
    /// A database of its own with so many nodes.
    pub async fn of(server: &Server, nodes: u32) -> anyhow::Result<Self> {
        let database = format!("bench_{nodes}");
        let mut superuser = server.superuser("postgres").await?;
        superuser
            .execute(AssertSqlSafe(format!(
                "DROP DATABASE IF EXISTS {database} WITH (FORCE)"
            )))
            .await?;
        gpuaas_migrations::create_database(&mut superuser, &database).await?;
        let owner = server.options(gpuaas_migrations::OWNER_ROLE, &database);
        gpuaas_migrations::apply_all(&mut PgConnection::connect_with(&owner).await?).await?;
        Self::fill(server, &database, nodes).await
    }

    /// A migrated database, filled with so many nodes.
    pub async fn fill(server: &Server, database: &str, nodes: u32) -> anyhow::Result<Self> {
        server
            .superuser(database)
            .await?
            .execute(AssertSqlSafe(format!(
                "SET search_path TO placement; {}",
                filled(nodes)
            )))
            .await?;
        let pool = async |role: &str| {
            gpuaas_common::db::sized(40)
                .connect_with(server.options(role, database).options(CONNECTION))
                .await
        };
        Ok(Self {
            scheduler: Books::new(pool("gpuaas_scheduler").await?),
            allocation: pool("gpuaas_allocation").await?,
            ids: IdGen::new(1),
        })
    }

    /// Reserves one GPU by the library.
    pub async fn reserve(&self) -> anyhow::Result<Uuid> {
        let request = request();
        let call = Call::one(&request);
        let reserved = reserve::reserve(&self.scheduler, self.ids, POLICY, call).await?;
        Ok(reserved.allocation_ids[0])
    }

    /// Sorted times of reservations, each released again, so that the fleet stays as full as it is.
    pub async fn latencies(&self) -> anyhow::Result<Vec<Duration>> {
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

    /// Prints what availability and explanation take from one copy of the fleet, each after a reservation that changed it.
    pub async fn print_readings(&self) -> anyhow::Result<()> {
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
            let rows =
                availability::list(&mut conn, &capacity, POLICY, None, None, Some(SKU)).await?;
            availabilities.push(began.elapsed().as_secs_f64() * 1000.0);
            if rows.iter().all(|row| row.fits == 0) {
                bail!("the fleet has no room");
            }
            self.reserve().await?;
            let began = Instant::now();
            reserve::explain_nodes(&mut conn, &capacity, POLICY, &request(), 50).await?;
            explanations.push(began.elapsed().as_secs_f64() * 1000.0);
        }
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

    /// Prints what operators' reports take, each after a reservation that changed the fleet.
    pub async fn print_reports(&self) -> anyhow::Result<()> {
        let capacity = Capacity::default();
        let mut conn = self.scheduler.acquire().await?;
        capacity.now(&mut conn).await?;
        let nodes: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM nodes ORDER BY id LIMIT 32")
            .fetch_all(&mut *conn)
            .await?;
        let requested = Defragment {
            region_code: "r".into(),
            sku: SKU.into(),
            gpu_count: GpuCount::new(8).expect("eight"),
            max_moves: 8,
        };
        let mut times = [const { Vec::new() }; 4];
        for _ in 0..10 {
            for (which, times) in times.iter_mut().enumerate() {
                self.reserve().await?;
                let began = Instant::now();
                match which {
                    0 | 1 => {
                        let some = if which == 0 { &nodes[..1] } else { &nodes };
                        let some = some.iter().copied().collect();
                        reports::evacuation(&mut conn, &capacity, POLICY, &some).await?;
                    }
                    2 => {
                        let packing_strategy = POLICY.packing_strategy;
                        let found = reports::defragmentation(
                            &mut conn,
                            &capacity,
                            packing_strategy,
                            &requested,
                        )
                        .await?;
                        if found.steps.is_empty() {
                            bail!("the fleet is not fragmented");
                        }
                    }
                    _ => {
                        let found = reports::preservation(
                            &mut conn,
                            &capacity,
                            POLICY.packing_strategy,
                            None,
                        )
                        .await?;
                        if found.iter().all(|nodes| nodes.recoverable == 0) {
                            bail!("no node of the fleet could be empty again");
                        }
                    }
                }
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
        }
        let names = [
            "plan to evacuate one node",
            "plan to evacuate 32 nodes",
            "defragmentation for 8 GPUs, at most 8 moves",
            "preservation of bare-metal nodes",
        ];
        for (name, times) in names.into_iter().zip(times) {
            println!("| {name} | {:.0} |", median(times));
        }
        Ok(())
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
        gpu_count: GpuCount::ONE,
        image: Image {
            slug: "ubuntu".into(),
            ..Image::default()
        },
        ssh_public_keys: vec!["ssh-ed25519 AAAA bench".into()],
        ..Request::default()
    }
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
         INSERT INTO clean_evidence (slot_id, generation, kind, method) SELECT id, 0, 'wiped', 'blkdiscard' FROM slots;
         INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state, snapshot)
         SELECT gen_random_uuid(), h.allocation_id, 'h200-sxm-slice', 'slot', h.node_id, s.id, s.class, 1, 'active', '{{}}'
           FROM held h JOIN slots s ON s.node_id = h.node_id WHERE s.status = 'active';
         INSERT INTO node_slot_changes (node_id) SELECT node_id FROM held;
         DROP TABLE held;
         RESET session_replication_role;
         ANALYZE"
    )
}
