//! A scheduler of its own for one test.
use std::time::Duration;

use gpuaas_common::Error;
use gpuaas_common::id::IdGen;
use gpuaas_common::identity::{Caller, PlatformRole};
use gpuaas_common::wake::Wake;
use gpuaas_dev::postgres::TestDb;
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::reserve::Policy;
use gpuaas_placement_testing as testing;
use gpuaas_proto::google::r#type::Money;
use gpuaas_proto::gpuaas::common::v1::{CapacityShape, HealthState, SlotBindings};
use gpuaas_proto::gpuaas::internal::scheduler::v1::placement_service_server::PlacementService as _;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    ApproveSlotsRequest, Image, LedgerSlot, ListSlotsRequest, PutNodeRequest, PutRegionRequest,
    PutSkuPriceRequest, ReserveRequest, SlotDefinition,
};
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService as _;
use gpuaas_proto::gpuaas::scheduler::v1::{PutSkuRequest, RuntimeProfile, Sku};
use gpuaas_scheduler::api::Api;
use sqlx::AssertSqlSafe;
use tonic::{Request, Response, Status};
use uuid::Uuid;

pub const REGION: &str = "lab-1";
pub const LAB: &str = "lab-slice";

pub struct World {
    pub db: TestDb,
    pub api: Api,
}

/// A request as the access layer hands it over for a person.
pub fn by<T>(message: T, key: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Caller {
        principal: "user:root".into(),
        projects: Vec::new(),
        platform_role: Some(PlatformRole::Admin),
        action: None,
        request_id: "req-1".into(),
        idempotency_key: key.map(str::to_owned),
    });
    request
}

pub fn ok<T>(answer: Result<Response<T>, Status>) -> T {
    answer.expect("answered").into_inner()
}

pub fn refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> Error {
    answer.expect_err("refused").into()
}

impl World {
    pub async fn new() -> Self {
        let db = TestDb::create().await;
        let api = Api {
            pool: Ledger::new(db.pool("gpuaas_scheduler").await),
            ids: IdGen::new(7),
            wake: Wake::new(None).expect("polling alone"),
            policy: Policy {
                default_quota_gpus: 64,
                node_lock_timeout: Duration::from_millis(500),
                ..Policy::DEFAULT
            },
        };
        Self { db, api }
    }

    /// A world with region, priced SKU, node and so many slots.
    pub async fn with_slots(count: u32) -> (Self, String, Vec<LedgerSlot>) {
        let world = Self::new().await;
        ok(world
            .api
            .put_region(Request::new(PutRegionRequest {
                code: REGION.into(),
                enabled: true,
                ..Default::default()
            }))
            .await);
        ok(world
            .api
            .put_sku(by(
                PutSkuRequest {
                    sku: Some(lab_sku()),
                },
                Some("k-sku"),
            ))
            .await);
        ok(world.api.put_sku_price(Request::new(lab_price(1))).await);
        let node = node();
        ok(world.api.put_node(Request::new(node.clone())).await);
        let slots = world.approve(approval(&node.node_id, count)).await;
        (world, node.node_id, slots)
    }

    /// Approves slots and has them wiped, and returns all slots of the node.
    pub async fn approve(&self, approval: ApproveSlotsRequest) -> Vec<LedgerSlot> {
        let node_id = approval.node_id.clone();
        ok(self.api.approve_slots(Request::new(approval)).await);
        self.wipe(&node_id).await;
        let list = ListSlotsRequest {
            node_id,
            ..ListSlotsRequest::default()
        };
        ok(self.api.list_slots(Request::new(list)).await).slots
    }

    /// Wipes what was approved on a node, as the allocation service and the host do.
    pub async fn wipe(&self, node_id: &str) {
        let allocation = self.db.pool("gpuaas_allocation").await;
        testing::wipe(&allocation, node_id.parse().expect("an id")).await;
    }

    /// Makes two calls at once: the row of the node, which both need, is held until both have come.
    pub async fn at_once<T>(
        &self,
        node_id: &str,
        one: impl Future<Output = T>,
        other: impl Future<Output = T>,
    ) -> (T, T) {
        let owner = self.db.owner_pool().await;
        let mut held = owner.begin().await.expect("a transaction");
        sqlx::query("SELECT id FROM placement.nodes WHERE id = $1 FOR UPDATE")
            .bind(node_id.parse::<Uuid>().expect("an id"))
            .execute(&mut *held)
            .await
            .expect("the node");
        let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
             WHERE NOT l.granted AND a.datname = current_database()";
        let go_on = async {
            while self.number(waiting).await < 2 {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            held.rollback().await.expect("rollback");
        };
        let go_on = tokio::time::timeout(Duration::from_secs(20), go_on);
        let (one, other, gone_on) = tokio::join!(one, other, go_on);
        gone_on.expect("both wait");
        (one, other)
    }

    pub async fn number(&self, sql: &str) -> i64 {
        let owner = self.db.owner_pool().await;
        sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
            .fetch_one(&owner)
            .await
            .expect(sql)
    }
}

pub fn lab_sku() -> Sku {
    Sku {
        code: LAB.into(),
        display_name: "Lab slice".into(),
        capacity_shape: CapacityShape::GpuSlice.into(),
        slot_class: "lab".into(),
        allowed_gpu_counts: vec![1, 2],
        profile: Some(RuntimeProfile {
            name: "lab_1c_384m".into(),
            vcpus_per_gpu: 1,
            memory_mib_per_gpu: 384,
            ..RuntimeProfile::default()
        }),
        ..Sku::default()
    }
}

pub fn lab_price(second: i64) -> PutSkuPriceRequest {
    PutSkuPriceRequest {
        sku: LAB.into(),
        price_version_id: Uuid::from_u128(second.unsigned_abs().into()).to_string(),
        price_per_gpu_hour: Some(Money {
            currency_code: "USD".into(),
            units: 2,
            nanos: 490_000_000,
        }),
        effective_time: Some(prost_types::Timestamp {
            seconds: 1_790_000_000 + second,
            nanos: 0,
        }),
    }
}

pub fn node() -> PutNodeRequest {
    PutNodeRequest {
        node_id: Uuid::now_v7().to_string(),
        hostname: "lab-host".into(),
        region_code: REGION.into(),
        mode: "slice".into(),
        agent_address: "10.77.0.1:7110".into(),
        instance_id: Uuid::now_v7().to_string(),
        schedulable: true,
        lab: true,
        host_health: HealthState::Healthy.into(),
        ..PutNodeRequest::default()
    }
}

pub fn approval(node_id: &str, count: u32) -> ApproveSlotsRequest {
    let slot = |index: u32| SlotDefinition {
        slot_index: index,
        slot_class: "lab".into(),
        bindings: Some(SlotBindings {
            nvme_device: format!("lab-disk:00000000-0000-4000-8000-{index:012}"),
            storage_identity_kind: "lab_backing_file".into(),
            nvme_bytes: 1 << 30,
            // the wire may carry capitals; the ledger keeps one form
            management_mac: format!("52:54:00:AA:00:{index:02X}"),
            private_ip: format!("10.77.0.{}", index + 10),
            destructive_wipe_policy: "blkdiscard".into(),
            ..SlotBindings::default()
        }),
        storage_transition_manifest: String::new(),
    };
    ApproveSlotsRequest {
        node_id: node_id.to_owned(),
        slots: (0..count).map(slot).collect(),
        principal: "user:root".into(),
        request_id: "req-1".into(),
        evidence: "disks raw".into(),
        idempotency_key: "k-approve".into(),
        ..ApproveSlotsRequest::default()
    }
}

pub fn reservation(key: &str) -> ReserveRequest {
    ReserveRequest {
        principal: "user:alice".into(),
        idempotency_key: key.into(),
        request_hash: vec![1; 32],
        project_id: Uuid::from_u128(5).to_string(),
        name: format!("vm-{key}"),
        region_code: REGION.into(),
        sku: LAB.into(),
        gpu_count: 1,
        image: Some(Image {
            slug: "lab-mini".into(),
            ..Image::default()
        }),
        ssh_public_keys: vec!["ssh-ed25519 AAAA a".into()],
        request_id: "req-2".into(),
        ..ReserveRequest::default()
    }
}
