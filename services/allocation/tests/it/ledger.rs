//! The ledger a test begins with, filled through the scheduler's own library and role.

use std::collections::BTreeMap;
use std::time::Duration;

use gpuaas_common::id::IdGen;
use gpuaas_common::readiness;
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::{Bindings, Health, Image, Price, Profile, Shape, Slot, SlotClass};
use gpuaas_placement::repair::Origin;
use gpuaas_placement::{approval, catalog, drift, nodes, reserve, slots};
use gpuaas_placement_testing as testing;
use gpuaas_proto::gpuaas::agent::v1::{HostDevices, HostDisk, HostFunction};
use gpuaas_proto::gpuaas::common::v1::ReadinessCheck;
use jiff_sqlx::ToSqlx as _;
use uuid::Uuid;

use crate::host::{DISK_BYTES, digest};
use crate::world::{CELL, KEY, World};

/// The image of the host's guests, with a readiness check for each command, of that name, and the text it must print.
pub fn image(checks: &[(&str, &str)]) -> Image {
    let wire: Vec<_> = checks
        .iter()
        .map(|(command, text)| ReadinessCheck {
            name: (*command).to_owned(),
            command: (*command).to_owned(),
            expected_text: (*text).to_owned(),
            timeout_seconds: 1,
            ..ReadinessCheck::default()
        })
        .collect();
    Image {
        slug: "lab-mini".into(),
        digest: digest(),
        source_uri: format!("oci://registry.test/guests/lab-mini@{}", digest()),
        driver_strategy: 1,
        size_bytes: 1 << 20,
        boot_timeout_seconds: 30,
        readiness_checks: readiness::parse(&wire).expect("checks"),
    }
}

impl World {
    /// A region, a SKU with its price, a node with a slot for each disk of the host.
    pub async fn fill_ledger(&mut self) {
        let mut conn = self.scheduler.acquire().await.expect("a connection");
        let region = catalog::Region {
            code: "lab-1".into(),
            enabled: true,
            unavailable_reason: String::new(),
        };
        catalog::put_region(&mut conn, &region)
            .await
            .expect("a region");
        let sku = catalog::Sku {
            code: "lab-slice".into(),
            display_name: "Lab slice".into(),
            capacity_shape: Shape::GpuSlice,
            slot_class: SlotClass::Lab,
            allowed_gpu_counts: vec![GpuCount::ONE],
            profile: Profile {
                name: "lab".into(),
                vcpus_per_gpu: 1,
                memory_mib_per_gpu: 256,
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
        catalog::put_price(&mut conn, "lab-slice", &price, now)
            .await
            .expect("a price");
        nodes::put(&mut conn, &self.spec()).await.expect("a node");
        let disks = self.host.disks();
        let definition = |index: i32| approval::Definition {
            slot_index: index,
            class: SlotClass::Lab,
            bindings: Bindings {
                fabric_vf_pci_address: self
                    .host
                    .function(index.unsigned_abs() as usize)
                    .unwrap_or_default(),
                gpu_module_id: self.host.module(index.unsigned_abs() as usize),
                numa_node: self.host.numa_node(index),
                nvme_device: disks[index.unsigned_abs() as usize].clone(),
                storage_identity_kind: "lab_backing_file".into(),
                nvme_bytes: DISK_BYTES.cast_signed(),
                management_mac: format!("52:54:00:00:00:{index:02x}"),
                private_ip: format!("10.100.0.{}", 10 + index),
                destructive_wipe_policy: "blkdiscard".into(),
                ..Bindings::default()
            },
            storage_transition_manifest: String::new(),
        };
        let ids = IdGen::new(CELL);
        let made: Vec<_> = (0..).take(disks.len()).map(definition).collect();
        let mut tx = self.scheduler.begin().await.expect("a transaction");
        let approved = approval::approve(
            &mut tx,
            self.node_id,
            &approval::Inspection::default(),
            &made,
            Origin::default(),
            || ids.next(),
        )
        .await;
        self.slot_ids = approved
            .expect("slots")
            .iter()
            .map(|slot| slot.id)
            .collect();
        tx.commit().await.expect("commit");
        testing::wipe(&self.pool, self.node_id).await;
    }

    /// The node as inventory knows it.
    pub fn spec(&self) -> nodes::NodeSpec {
        nodes::NodeSpec {
            id: self.node_id,
            hostname: "lab-host".into(),
            region_code: "lab-1".into(),
            mode: "slice".into(),
            agent_address: self.host_address.to_string(),
            instance_id: self.instance_id,
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

    /// Tells the ledger of the node as inventory does.
    pub async fn put_node(&self, spec: &nodes::NodeSpec) {
        let mut tx = self.scheduler.begin().await.expect("a transaction");
        nodes::put(&mut tx, spec).await.expect("a node");
        tx.commit().await.expect("commit");
    }

    /// Inventory has not heard the host for a while; returns when it was heard last.
    pub async fn lose_host(&self) -> jiff::Timestamp {
        let now = jiff::Timestamp::now().as_microsecond();
        let last_seen = jiff::Timestamp::from_microsecond(now).expect("a time");
        self.lose_host_since(last_seen).await;
        last_seen
    }

    /// Inventory has heard the host last at a time.
    pub async fn lose_host_since(&self, last_seen: jiff::Timestamp) {
        self.put_node(&nodes::NodeSpec {
            schedulable: false,
            not_schedulable_reason: "host_lost".into(),
            host_health: Health::Unknown,
            host_lost_since: Some(last_seen.to_sqlx()),
            ..self.spec()
        })
        .await;
    }

    /// The host reports so many of its disks, the first ones.
    pub async fn report_disks(&self, count: usize) {
        let mut tx = self.scheduler.begin().await.expect("a transaction");
        let slots = slots::list(&mut tx, self.node_id).await.expect("slots");
        let disk = |slot: Slot| HostDisk {
            identity: slot.bindings.nvme_device,
            bytes: slot.bindings.nvme_bytes.unsigned_abs(),
            ..HostDisk::default()
        };
        let devices = HostDevices {
            disks: slots.into_iter().take(count).map(disk).collect(),
            ..HostDevices::default()
        };
        let noted = drift::note(&mut tx, self.node_id, Some(&devices)).await;
        noted.expect("noted");
        tx.commit().await.expect("commit");
    }

    /// The host reports its disks, and its functions with the drivers that they have now.
    pub async fn report_devices(&self) {
        let mut tx = self.scheduler.begin().await.expect("a transaction");
        let slots = slots::list(&mut tx, self.node_id).await.expect("slots");
        let mut devices = HostDevices::default();
        for (index, slot) in slots.into_iter().enumerate() {
            devices.functions.push(HostFunction {
                pci_address: slot.bindings.fabric_vf_pci_address,
                driver: self.host.function_driver(index),
                ..HostFunction::default()
            });
            devices.disks.push(HostDisk {
                identity: slot.bindings.nvme_device,
                bytes: slot.bindings.nvme_bytes.unsigned_abs(),
                ..HostDisk::default()
            });
        }
        let noted = drift::note(&mut tx, self.node_id, Some(&devices)).await;
        noted.expect("noted");
        tx.commit().await.expect("commit");
    }

    /// Inventory hears the host again.
    pub async fn find_host(&self) {
        self.put_node(&self.spec()).await;
    }

    /// The host is installed anew and enrols again. Its agent is down before and up after it.
    pub async fn reinstall_host(&mut self) {
        self.host.reinstall().await;
        self.instance_id = Uuid::now_v7();
        self.put_node(&nodes::NodeSpec {
            new_instance: true,
            ..self.spec()
        })
        .await;
        self.host_up().await;
    }

    /// Reserves an allocation as the scheduler does.
    pub async fn reserve(&self, name: &str) -> Uuid {
        self.reserve_of(name, 30).await
    }

    /// The same from an image whose guest must answer within so many seconds.
    pub async fn reserve_of(&self, name: &str, boot_timeout_seconds: u32) -> Uuid {
        let image = Image {
            boot_timeout_seconds,
            ..self::image(&[("true", "")])
        };
        self.reserve_image(name, image).await
    }

    /// The same from this image.
    pub async fn reserve_image(&self, name: &str, image: Image) -> Uuid {
        let request = reserve::Request {
            principal: "user:test".into(),
            idempotency_key: format!("key-{name}"),
            request_hash: vec![0; 32],
            project_id: self.project,
            name: name.into(),
            region_code: "lab-1".into(),
            sku: "lab-slice".into(),
            gpu_count: GpuCount::ONE,
            capacity_shape: None,
            image,
            ssh_public_keys: vec![KEY.into()],
            labels: BTreeMap::new(),
            request_id: format!("req-{name}"),
            ..reserve::Request::default()
        };
        let policy = reserve::Policy {
            default_quota_gpus: 64,
            node_lock_timeout: Duration::from_secs(2),
            ..reserve::Policy::DEFAULT
        };
        let reserved = reserve::reserve(
            &Ledger::new(self.scheduler.clone()),
            IdGen::new(CELL),
            policy,
            reserve::Call::one(&request),
        )
        .await;
        reserved.expect("a reservation").allocation_ids[0]
    }
}
