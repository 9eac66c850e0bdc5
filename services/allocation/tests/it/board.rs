//! A node of eight GPUs that is offered as slices and as bare metal, and what must hold of it.

use std::collections::BTreeMap;

use gpuaas_common::id::IdGen;
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::{
    Bindings, ClaimState, Health, Image, Price, Profile, Shape, SlotClass, SlotStatus,
};
use gpuaas_placement::repair::Origin;
use gpuaas_placement::reserve::{self, Policy};
use gpuaas_placement::{approval, catalog, claims, nodes, slots};
use gpuaas_placement_testing as testing;
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use crate::host::digest;
use crate::world::{CELL, KEY, World};

pub const NODE: &str = "h200-sxm-node";
pub const SLICE: &str = "h200-sxm-slice";

fn slot(index: i32) -> approval::Definition {
    approval::Definition {
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
            fabric_vf_pci_address: format!("0000:1a:00.{index}"),
            fabric_claim_mode: "per_slot_vf".into(),
            destructive_wipe_policy: "blkdiscard".into(),
        },
        storage_transition_manifest: String::new(),
    }
}

/// No host answers for it.
pub struct Board {
    pub world: World,
    pub node_id: Uuid,
}

impl Board {
    pub async fn start() -> Self {
        let world = World::start().await;
        let node_id = Uuid::now_v7();
        let mut conn = world.scheduler.acquire().await.expect("a connection");
        for (code, shape, counts) in [
            (NODE, Shape::Baremetal, vec![8]),
            (SLICE, Shape::GpuSlice, vec![1]),
        ] {
            let sku = catalog::Sku {
                code: code.into(),
                display_name: code.into(),
                capacity_shape: shape,
                slot_class: SlotClass::H200Sxm,
                allowed_gpu_counts: counts.into_iter().filter_map(GpuCount::new).collect(),
                profile: Profile {
                    name: "h200".into(),
                    vcpus_per_gpu: 24,
                    memory_mib_per_gpu: 65_536,
                    ..Profile::default()
                },
                price: None,
                disabled: false,
            };
            catalog::put_sku(&mut conn, &sku).await.expect("a SKU");
            let price = Price {
                version_id: Uuid::now_v7(),
                currency: "EUR".into(),
                nanos_per_gpu_hour: 3_600_000_000,
            };
            let now = jiff::Timestamp::now().to_sqlx();
            catalog::put_price(&mut conn, code, &price, now)
                .await
                .expect("a price");
        }
        let spec = nodes::NodeSpec {
            id: node_id,
            hostname: "board".into(),
            region_code: "lab-1".into(),
            mode: "slice".into(),
            agent_address: "127.0.0.1:9".into(),
            instance_id: Uuid::now_v7(),
            schedulable: true,
            not_schedulable_reason: String::new(),
            hugepages_1g_free: 0,
            max_vms: 0,
            legal_groups: Vec::new(),
            lab: false,
            image_digests: Vec::new(),
            hugepages_allocated_to: Vec::new(),
            host_health: Health::Healthy,
            new_instance: false,
            host_lost_since: None,
            rack: String::new(),
        };
        nodes::put(&mut conn, &spec).await.expect("a node");
        drop(conn);
        let board = Self { world, node_id };
        board.approve().await;
        board
    }

    pub async fn approve(&self) {
        // as the owner, who may do the part of every service: the board has no host that could wipe
        let mut tx = self.world.owner.begin().await.expect("a transaction");
        let path = sqlx::query("SET LOCAL search_path = placement");
        path.execute(&mut *tx).await.expect("a path");
        let ids = IdGen::new(CELL);
        let known = slots::list(&mut tx, self.node_id).await.expect("slots");
        let all: Vec<_> = (0..8).map(slot).collect();
        let generations = known.iter().map(|slot| (slot.slot_index, slot.generation));
        let look = approval::Inspection {
            instance_id: None,
            generations: generations.collect(),
        };
        let origin = Origin::default();
        approval::approve(&mut tx, self.node_id, &look, &all, origin, || ids.next())
            .await
            .expect("approved");
        testing::wipe_in(&mut tx, self.node_id).await;
        tx.commit().await.expect("commit");
    }

    /// Launches the node whatever the allocation service can do.
    pub async fn launch(&self, name: &str) -> Uuid {
        let request = reserve::Request {
            principal: "user:test".into(),
            idempotency_key: format!("key-{name}"),
            request_hash: vec![0; 32],
            project_id: self.world.project,
            name: name.into(),
            region_code: "lab-1".into(),
            sku: NODE.into(),
            gpu_count: GpuCount::new(8).expect("eight"),
            image: Image {
                slug: "node-base".into(),
                digest: digest(),
                source_uri: format!("oci://registry.test/guests/node-base@{}", digest()),
                driver_strategy: 1,
                size_bytes: 1 << 20,
                boot_timeout_seconds: 30,
                readiness_checks: Vec::new(),
            },
            ssh_public_keys: vec![KEY.into()],
            labels: BTreeMap::new(),
            request_id: format!("req-{name}"),
            ..reserve::Request::default()
        };
        let policy = Policy {
            baremetal: true,
            ..Policy::DEFAULT
        };
        let ledger = Ledger::new(self.world.scheduler.clone());
        reserve::reserve(
            &ledger,
            IdGen::new(CELL),
            policy,
            reserve::Call::one(&request),
        )
        .await
        .expect("a reservation")
        .allocation_ids[0]
    }

    pub async fn mode(&self) -> String {
        let mut conn = self.world.pool.acquire().await.expect("a connection");
        nodes::get(&mut conn, self.node_id)
            .await
            .expect("the node")
            .mode
    }

    pub async fn slots(&self, status: SlotStatus) -> usize {
        let mut conn = self.world.pool.acquire().await.expect("a connection");
        let slots = slots::list(&mut conn, self.node_id).await.expect("slots");
        slots.iter().filter(|slot| slot.status == status).count()
    }

    /// States of the claims that the allocation ever had.
    pub async fn claims(&self, id: Uuid) -> Vec<ClaimState> {
        let mut conn = self.world.pool.acquire().await.expect("a connection");
        let found = claims::of_allocation(&mut conn, id).await.expect("claims");
        assert!(
            found
                .iter()
                .all(|claim| claim.kind == "node_exclusive" && claim.slot_id.is_none())
        );
        found.iter().map(|claim| claim.state).collect()
    }

    pub async fn assert_active(&self, id: Uuid, context: &str) {
        let allocation = self.world.allocation(id).await;
        assert!(allocation.access.is_none(), "{context}: nobody can log in");
        assert_eq!(self.claims(id).await, [ClaimState::Active], "{context}");
        assert_eq!(self.mode().await, "baremetal", "{context}");
        assert_eq!(self.slots(SlotStatus::Disabled).await, 8, "{context}");
        assert_eq!(self.world.periods(id).await, (1, 1), "{context}");
    }

    pub async fn assert_waits_for_approval(&self, id: Uuid, context: &str) {
        assert_eq!(self.claims(id).await, [ClaimState::Released], "{context}");
        assert_eq!(self.mode().await, "slice", "{context}");
        assert_eq!(self.slots(SlotStatus::Disabled).await, 8, "{context}");
        assert_eq!(self.world.periods(id).await, (1, 0), "{context}");
        self.world.nothing_runs(id, context).await;
        assert!(
            self.world.host.state().await.operations.is_empty(),
            "{context}: no host was called"
        );
    }
}
