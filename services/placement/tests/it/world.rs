//! A ledger of its own for one test, with short ways to fill it.
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use crate::reserving::{self, Reserved};
use gpuaas_common::id::IdGen;
use gpuaas_dev::postgres::TestDb;
use gpuaas_dev::until::until;
use gpuaas_placement::approval::{self, Definition, Inspection};
use gpuaas_placement::capacity::{Capacity, Ledger};
use gpuaas_placement::catalog::{self, Sku};
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::{
    Allocation, Bindings, GuestAccess, Health, Image, Price, Profile, Scope, Shape, Slot,
    SlotClass, SlotEvidence, SlotStatus,
};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::repair::Origin;
use gpuaas_placement::reserve::{Policy, Request};
use gpuaas_placement::slots;
use gpuaas_placement::{Fence, Result, allocations, provision};
use gpuaas_placement_testing as testing;
pub use gpuaas_placement_testing::wiped;
use jiff_sqlx::ToSqlx as _;
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, PgPool};
use uuid::Uuid;

/// Region of all worlds.
pub const REGION: &str = "lab-1";
/// SKU of the lab class, offered by one and by two.
pub const LAB: &str = "lab-slice";
/// SKU of the GPU class.
pub const H200: &str = "h200-sxm-slice";

/// Policy of all worlds.
pub const POLICY: Policy = Policy {
    default_quota_gpus: 1000,
    default_quota_allocations: 1000,
    node_lock_timeout: Duration::from_millis(2500),
    ..Policy::DEFAULT
};

/// A database with the pools of the roles that work in it.
pub struct World {
    pub db: TestDb,
    pub scheduler: Ledger,
    pub allocation: PgPool,
    /// Owner of the schema, with the schema in its search path: to arrange and to look.
    pub owner: PgPool,
    /// A copy that lives as long as the world, as in a process of the scheduler.
    pub capacity: Arc<Capacity>,
    pub ids: IdGen,
    pub project: Uuid,
}

/// A region that takes launches.
pub fn open_region(code: &str) -> catalog::Region {
    catalog::Region {
        code: code.to_owned(),
        enabled: true,
        unavailable_reason: String::new(),
    }
}

/// One that takes none.
pub fn closed_region(code: &str, why: &str) -> catalog::Region {
    catalog::Region {
        code: code.to_owned(),
        enabled: false,
        unavailable_reason: why.to_owned(),
    }
}

impl World {
    /// Region, SKUs and prices; no nodes.
    pub async fn new() -> Self {
        let db = TestDb::create().await;
        let owner = PgPoolOptions::new()
            .max_connections(4)
            .connect_with(
                db.options("gpuaas_owner")
                    .options([("search_path", "placement")]),
            )
            .await
            .expect("owner connects");
        let (scheduler, allocation) = (
            Ledger::new(db.pool("gpuaas_scheduler").await),
            db.pool("gpuaas_allocation").await,
        );
        let world = Self {
            capacity: Arc::clone(&scheduler.capacity),
            db,
            scheduler,
            allocation,
            owner,
            ids: IdGen::new(1),
            project: Uuid::now_v7(),
        };
        let mut conn = world.scheduler.acquire().await.expect("connection");
        catalog::put_region(&mut conn, &open_region(REGION))
            .await
            .expect("region");
        for sku in [lab_sku(), h200_sku()] {
            catalog::put_sku(&mut conn, &sku).await.expect("sku");
            catalog::put_price(
                &mut conn,
                &sku.code,
                &price(),
                jiff::Timestamp::now().to_sqlx(),
            )
            .await
            .expect("price");
        }
        drop(conn);
        world
    }

    /// A world with one lab node of so many free slots.
    pub async fn with_lab_slots(count: i32) -> (Self, Uuid) {
        let world = Self::new().await;
        let node = world.lab_node(count).await;
        (world, node)
    }

    /// A lab node with so many approved slots.
    pub async fn lab_node(&self, count: i32) -> Uuid {
        let node = self.node(lab_spec()).await;
        self.approve(node, &(0..count).map(lab_slot).collect::<Vec<_>>())
            .await;
        node
    }

    pub async fn node(&self, spec: NodeSpec) -> Uuid {
        let mut tx = self.scheduler.begin().await.expect("begin");
        nodes::put(&mut tx, &spec).await.expect("node");
        tx.commit().await.expect("commit");
        spec.id
    }

    pub async fn approve(&self, node: Uuid, definitions: &[Definition]) -> Vec<Slot> {
        let mut tx = self.scheduler.begin().await.expect("begin");
        let look = look_at(&self.slots(node).await);
        approval::approve(
            &mut tx,
            node,
            &look,
            definitions,
            Origin::default(),
            Uuid::now_v7,
        )
        .await
        .expect("approve");
        tx.commit().await.expect("commit");
        testing::wipe(&self.allocation, node).await;
        self.slots(node).await
    }

    pub async fn slots(&self, node: Uuid) -> Vec<Slot> {
        slots::list(
            &mut self.scheduler.acquire().await.expect("connection"),
            node,
        )
        .await
        .expect("slots")
    }

    /// Number of slots of a node in a status.
    pub async fn count(&self, node: Uuid, status: SlotStatus) -> usize {
        self.slots(node)
            .await
            .iter()
            .filter(|slot| slot.status == status)
            .count()
    }

    /// A request for lab capacity, with a name and key of its own.
    pub fn request(&self, gpu_count: u32) -> Request {
        let unique = Uuid::new_v4().simple().to_string();
        Request {
            principal: "user:alice".into(),
            idempotency_key: unique.clone(),
            request_hash: vec![7; 32],
            project_id: self.project,
            name: format!("a-{unique}"),
            region_code: REGION.into(),
            sku: LAB.into(),
            gpu_count: self::gpu_count(gpu_count),
            capacity_shape: None,
            image: Image {
                slug: "lab-mini".into(),
                digest: "sha256:aa".into(),
                ..Image::default()
            },
            ssh_public_keys: vec!["ssh-ed25519 AAAA alice".into()],
            ssh_key_names: Vec::new(),
            labels: BTreeMap::from([("team".into(), "a".into())]),
            request_id: "req-1".into(),
            traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into(),
            ..Request::default()
        }
    }

    pub async fn reserve(&self, request: &Request) -> Result<Reserved> {
        reserving::one(&self.scheduler, self.ids, POLICY, request).await
    }

    /// Reserves lab GPUs and returns the allocation's id.
    pub async fn reserved(&self, gpu_count: u32) -> Uuid {
        self.reserve(&self.request(gpu_count))
            .await
            .expect("reserve")
            .allocation_id
    }

    /// Takes the lease of the running workflow on an allocation or slot, as a runner does. The host has answered what the
    /// workflow called it for.
    pub async fn take(&self, subject: Uuid) -> Fence {
        let mut conn = self.allocation.acquire().await.expect("connection");
        let fence = testing::take(&mut conn, subject).await;
        testing::answered(&mut conn, fence).await;
        fence
    }

    /// An allocation that runs on a lab node.
    pub async fn active(&self, gpu_count: u32) -> Uuid {
        let id = self.reserved(gpu_count).await;
        self.activate(id).await;
        id
    }

    /// The VM of a reserved allocation runs.
    pub async fn activate(&self, id: Uuid) {
        let fence = self.take(id).await;
        let mut tx = self.allocation.begin().await.expect("begin");
        let _ = provision::start(&mut tx, fence, id).await.expect("start");
        let _ = provision::activate(&mut tx, fence, id, Some(&access()), None)
            .await
            .expect("activate");
        tx.commit().await.expect("commit");
        self.finish(fence).await;
    }

    /// Ends a workflow as its runner does.
    pub async fn finish(&self, fence: Fence) {
        let mut conn = self.allocation.acquire().await.expect("connection");
        testing::finish(&mut conn, fence).await;
    }

    pub async fn get(&self, id: Uuid) -> Allocation {
        allocations::get(
            &mut self.allocation.acquire().await.expect("connection"),
            Scope::Platform,
            id,
        )
        .await
        .expect("allocation")
    }

    /// Wipe evidence for every slot an allocation's claims are on.
    pub async fn wiped(&self, id: Uuid) -> Vec<SlotEvidence> {
        let held: Vec<(Uuid, i64)> =
            sqlx::query_as("SELECT s.id, s.generation FROM claims c JOIN slots s ON s.id = c.slot_id WHERE c.allocation_id = $1")
                .bind(id)
                .fetch_all(&self.owner)
                .await
                .expect("claims");
        held.into_iter()
            .map(|(slot_id, generation)| wiped(slot_id, generation))
            .collect()
    }

    /// One number from the database, as the owner.
    pub async fn number(&self, sql: &str) -> i64 {
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&self.owner)
            .await
            .expect(sql)
    }

    /// Returns once a session of this database waits for a lock.
    pub async fn someone_waits(&self) {
        self.so_many_wait(1).await;
    }

    /// Returns once so many sessions of this database wait for a lock.
    pub async fn so_many_wait(&self, sessions: i64) {
        self.until_waiting("%", sessions).await;
    }

    /// Returns once a session waits for the lock of a node.
    pub async fn someone_waits_for_a_node(&self) {
        self.until_waiting("%FROM nodes%", 1).await;
    }

    /// Returns once so many sessions of this database wait for a lock with such a statement.
    async fn until_waiting(&self, statement: &str, sessions: i64) {
        // only a superuser sees what sessions of other roles wait for
        let watcher = self.db.pool("postgres").await;
        let waiting = "SELECT count(*) FROM pg_stat_activity
                        WHERE wait_event_type = 'Lock' AND datname = current_database() AND query LIKE $1";
        until(
            "sessions that wait for a lock",
            Duration::from_secs(10),
            async || {
                let found = sqlx::query_scalar::<_, i64>(waiting).bind(statement);
                let found = found.fetch_one(&watcher).await.expect("sessions");
                (found >= sessions).then_some(())
            },
        )
        .await;
    }

    /// Runs SQL past every guard and key, as nobody should.
    pub async fn run_past_guards(&self, sql: &str) {
        let superuser = self.db.pool("postgres").await;
        let sql = format!(
            "BEGIN; SET LOCAL session_replication_role = replica; SET LOCAL search_path = placement; {sql}; COMMIT"
        );
        sqlx::raw_sql(AssertSqlSafe(sql))
            .execute(&superuser)
            .await
            .expect("done");
    }

    /// Runs SQL as the owner.
    pub async fn run(&self, sql: &str) {
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))
            .execute(&self.owner)
            .await
            .expect(sql);
    }

    /// Rows of every table a reservation touches: equal fingerprints mean that nothing was written.
    pub async fn fingerprint(&self) -> Vec<i64> {
        let tables = [
            "idempotency",
            "audit",
            "quotas",
            "slots",
            "claims",
            "allocations",
            "allocation_periods",
            "outbox",
            "workflows",
            "timeline",
            "clean_evidence",
            "project_quotas",
        ];
        let mut rows = Vec::new();
        for table in tables {
            rows.push(self.number(&format!("SELECT count(*) FROM {table}")).await);
        }
        rows.push(
            self.number("SELECT coalesce(sum(revision), 0)::bigint FROM slots")
                .await,
        );
        rows
    }
}

pub fn access() -> GuestAccess {
    GuestAccess {
        private_ip: "10.77.0.10".into(),
        ssh_port: 22,
        ssh_ready: true,
        ..GuestAccess::default()
    }
}

pub fn price() -> Price {
    Price {
        version_id: Uuid::from_u128(42),
        currency: "USD".into(),
        nanos_per_gpu_hour: 2_490_000_000,
    }
}

pub fn lab_sku() -> Sku {
    Sku {
        code: LAB.into(),
        display_name: "Lab slice".into(),
        capacity_shape: Shape::GpuSlice,
        slot_class: SlotClass::Lab,
        allowed_gpu_counts: gpu_counts(&[1, 2]),
        profile: Profile {
            name: "lab_1c_384m".into(),
            vcpus_per_gpu: 1,
            memory_mib_per_gpu: 384,
            ..Profile::default()
        },
        price: None,
        disabled: false,
    }
}

pub fn h200_sku() -> Sku {
    Sku {
        code: H200.into(),
        display_name: "H200 SXM slice".into(),
        capacity_shape: Shape::GpuSlice,
        slot_class: SlotClass::H200Sxm,
        allowed_gpu_counts: gpu_counts(&[8, 1, 4, 2]),
        profile: Profile {
            name: "h200_1g_24c_64g".into(),
            vcpus_per_gpu: 24,
            memory_mib_per_gpu: 65536,
            hugepages: true,
            ..Profile::default()
        },
        price: None,
        disabled: false,
    }
}

pub fn lab_spec() -> NodeSpec {
    let id = Uuid::now_v7();
    NodeSpec {
        id,
        hostname: format!("lab-{}", id.simple()),
        region_code: REGION.into(),
        mode: "slice".into(),
        agent_address: "10.77.0.1:7110".into(),
        instance_id: Uuid::now_v7(),
        schedulable: true,
        not_schedulable_reason: String::new(),
        hugepages_1g_free: 0,
        max_vms: 0,
        legal_groups: Vec::new(),
        lab: true,
        image_digests: Vec::new(),
        hugepages_allocated_to: Vec::new(),
        host_health: Health::Healthy,
        new_instance: false,
        host_lost_since: None,
        rack: String::new(),
    }
}

/// A look that was begun when the slots were these.
pub fn look_at(slots: &[Slot]) -> Inspection {
    let of = |slot: &Slot| (slot.slot_index, slot.generation);
    Inspection {
        instance_id: None,
        generations: slots.iter().map(of).collect(),
    }
}

pub fn lab_slot(index: i32) -> Definition {
    Definition {
        slot_index: index,
        class: SlotClass::Lab,
        bindings: Bindings {
            nvme_device: format!("lab-disk:{}", Uuid::new_v4()),
            storage_identity_kind: "lab_backing_file".into(),
            nvme_bytes: 1 << 30,
            management_mac: format!("52:54:00:00:00:{index:02x}"),
            private_ip: format!("10.77.0.{}", index + 10),
            destructive_wipe_policy: "blkdiscard".into(),
            ..Bindings::default()
        },
        storage_transition_manifest: String::new(),
    }
}

/// GPUs of an eight-GPU board that may be allocated together, as its host tells them: what `h200_slot` has.
pub fn h200_groups() -> Vec<Vec<u32>> {
    let mut groups = [1, 3, 5, 7].map(|first| vec![first, first + 1]).to_vec();
    groups.extend([vec![1, 2, 3, 4], vec![5, 6, 7, 8], (1..=8).collect()]);
    groups
}

pub fn h200_slot(index: i32) -> Definition {
    Definition {
        slot_index: index,
        class: SlotClass::H200Sxm,
        bindings: Bindings {
            gpu_pci_address: format!("0000:{:02x}:00.0", 0x10 + index),
            gpu_module_id: Some(index + 1),
            numa_node: Some(index / 4),
            nvme_device: format!("/dev/disk/by-id/nvme-eui.{index:016x}"),
            storage_identity_kind: "nvme_wwn_by_id".into(),
            nvme_bytes: 3_840_755_982_336,
            management_mac: format!("52:54:00:00:01:{index:02x}"),
            private_ip: format!("10.78.0.{}", index + 10),
            fabric_device: "0000:1a:00.0".into(),
            fabric_vf_pci_address: format!("0000:1a:00.{}", index % 8),
            fabric_claim_mode: "per_slot_vf".into(),
            destructive_wipe_policy: "blkdiscard".into(),
        },
        storage_transition_manifest: String::new(),
    }
}

/// So many GPUs of one allocation.
pub fn gpu_count(count: u32) -> GpuCount {
    GpuCount::new(count).expect("at least one")
}

/// Counts that a SKU is offered in.
pub fn gpu_counts(counts: &[u32]) -> Vec<GpuCount> {
    counts.iter().copied().map(gpu_count).collect()
}
