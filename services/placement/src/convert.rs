//! The ledger's values as proto messages and back, for the services that share them.
use gpuaas_common::readiness;
use gpuaas_proto::google::r#type::Money;
use gpuaas_proto::gpuaas::common::v1 as common;
use gpuaas_proto::gpuaas::internal::scheduler::v1 as scheduler;
use gpuaas_proto::gpuaas::scheduler::v1 as public;
use uuid::Uuid;

use crate::model::{Bindings, Constraints, Health, Image, Price, Shape, SlotStatus};

impl From<Bindings> for common::SlotBindings {
    fn from(bindings: Bindings) -> Self {
        Self {
            gpu_pci_address: bindings.gpu_pci_address,
            gpu_module_id: bindings.gpu_module_id.and_then(|n| u32::try_from(n).ok()),
            numa_node: bindings.numa_node.and_then(|n| u32::try_from(n).ok()),
            nvme_device: bindings.nvme_device,
            storage_identity_kind: bindings.storage_identity_kind,
            management_mac: bindings.management_mac,
            private_ip: bindings.private_ip,
            fabric_device: bindings.fabric_device,
            fabric_vf_pci_address: bindings.fabric_vf_pci_address,
            fabric_claim_mode: bindings.fabric_claim_mode,
            destructive_wipe_policy: bindings.destructive_wipe_policy,
            nvme_bytes: u64::try_from(bindings.nvme_bytes).unwrap_or_default(),
        }
    }
}

impl From<common::SlotBindings> for Bindings {
    fn from(message: common::SlotBindings) -> Self {
        Self {
            gpu_pci_address: message.gpu_pci_address,
            gpu_module_id: message.gpu_module_id.and_then(|n| i32::try_from(n).ok()),
            numa_node: message.numa_node.and_then(|n| i32::try_from(n).ok()),
            nvme_device: message.nvme_device,
            storage_identity_kind: message.storage_identity_kind,
            nvme_bytes: i64::try_from(message.nvme_bytes).unwrap_or(i64::MAX),
            management_mac: message.management_mac.to_ascii_lowercase(),
            private_ip: message.private_ip,
            fabric_device: message.fabric_device,
            fabric_vf_pci_address: message.fabric_vf_pci_address,
            fabric_claim_mode: message.fabric_claim_mode,
            destructive_wipe_policy: message.destructive_wipe_policy,
        }
    }
}

impl From<Constraints> for public::PlacementConstraints {
    fn from(requested: Constraints) -> Self {
        let id = |id: Uuid| id.to_string();
        let label = |(key, value): (String, String)| format!("{key}={value}");
        Self {
            affinity: requested.affinity.map(id).unwrap_or_default(),
            anti_affinity: requested.anti_affinity.into_iter().map(id).collect(),
            anti_affinity_label: requested.anti_affinity_label.map(label).unwrap_or_default(),
            affinity_label: requested.affinity_label.map(label).unwrap_or_default(),
            require_prewarmed: requested.require_prewarmed,
        }
    }
}

/// A slot's status.
#[must_use]
pub fn slot_status(status: SlotStatus) -> common::SlotStatus {
    match status {
        SlotStatus::Available => common::SlotStatus::Available,
        SlotStatus::Reserved => common::SlotStatus::Reserved,
        SlotStatus::Provisioning => common::SlotStatus::Provisioning,
        SlotStatus::Active => common::SlotStatus::Active,
        SlotStatus::Releasing => common::SlotStatus::Releasing,
        SlotStatus::Cleanup => common::SlotStatus::Cleanup,
        SlotStatus::CleanupBlocked => common::SlotStatus::CleanupBlocked,
        SlotStatus::Disabled => common::SlotStatus::Disabled,
        SlotStatus::Retired => common::SlotStatus::Retired,
    }
}

/// A health.
#[must_use]
pub fn health_state(health: Health) -> common::HealthState {
    match health {
        Health::Healthy => common::HealthState::Healthy,
        Health::Unknown => common::HealthState::Unknown,
        Health::Degraded => common::HealthState::Degraded,
        Health::Failed => common::HealthState::Failed,
    }
}

/// The health that a host reports; unknown where it reports none.
#[must_use]
pub fn health(message: common::HealthState) -> Health {
    match message {
        common::HealthState::Healthy => Health::Healthy,
        common::HealthState::Unknown | common::HealthState::Unspecified => Health::Unknown,
        common::HealthState::Degraded => Health::Degraded,
        common::HealthState::Failed => Health::Failed,
    }
}

impl From<Shape> for common::CapacityShape {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::GpuSlice => Self::GpuSlice,
            Shape::Baremetal => Self::Baremetal,
        }
    }
}

impl Shape {
    /// The value of the message; `None` when it was left out.
    #[must_use]
    pub fn from_proto(message: common::CapacityShape) -> Option<Self> {
        match message {
            common::CapacityShape::Unspecified => None,
            common::CapacityShape::GpuSlice => Some(Self::GpuSlice),
            common::CapacityShape::Baremetal => Some(Self::Baremetal),
        }
    }
}

impl TryFrom<scheduler::Image> for Image {
    type Error = readiness::Wrong;

    fn try_from(message: scheduler::Image) -> Result<Self, readiness::Wrong> {
        Ok(Self {
            slug: message.slug,
            digest: message.digest,
            source_uri: message.source_uri,
            driver_strategy: message.driver_strategy,
            size_bytes: message.size_bytes,
            boot_timeout_seconds: message.boot_timeout_seconds,
            readiness_checks: readiness::parse(&message.readiness_checks)?,
        })
    }
}

/// Nano-units in one unit of a currency.
const NANOS: i64 = 1_000_000_000;

impl Price {
    /// The price per GPU-hour as money.
    #[must_use]
    pub fn money(&self) -> Money {
        Money {
            currency_code: self.currency.clone(),
            units: self.nanos_per_gpu_hour / NANOS,
            // the remainder is below a billion
            nanos: i32::try_from(self.nanos_per_gpu_hour % NANOS).unwrap_or_default(),
        }
    }
}

/// Money as nano-units; `None` when it is negative, malformed or out of range.
#[must_use]
pub fn nanos_of(money: &Money) -> Option<i64> {
    let nanos = i64::from(money.nanos);
    let fits = money.units >= 0 && (0..NANOS).contains(&nanos);
    fits.then(|| money.units.checked_mul(NANOS)?.checked_add(nanos))
        .flatten()
}
