//! What a launch freezes: the shape of the VM, the price, the image.
use gpuaas_common::readiness;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Shape of the VM per GPU (B-08..B-11).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// For example "h200_1g_24c_64g".
    pub name: String,
    pub vcpus_per_gpu: i32,
    pub memory_mib_per_gpu: i32,
    /// Backed by 1 GiB hugepages.
    pub hugepages: bool,
    /// Megabits per second that the VM may send and receive, with any number of GPUs; none: the host's setting.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_mbps: Option<i32>,
    /// Kilobytes that may pass at once before that limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_burst_kb: Option<i32>,
}

/// A price version as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Price {
    /// Of billing.
    pub version_id: Uuid,
    /// ISO 4217.
    pub currency: String,
    /// Nano-units per GPU-hour.
    pub nanos_per_gpu_hour: i64,
}

/// Image as resolved by the catalog, frozen into the allocation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    pub slug: String,
    /// "sha256:…" of the raw disk image.
    pub digest: String,
    /// "oci://host/namespace/name@sha256:…".
    pub source_uri: String,
    /// Value of `gpuaas.common.v1.DriverStrategy`.
    pub driver_strategy: i32,
    /// Bytes of the raw image.
    pub size_bytes: u64,
    /// Seconds the guest may take from start to a working login.
    pub boot_timeout_seconds: u32,
    /// What must pass in the guest before the allocation is active; absent in one of an older release.
    #[serde(default)]
    pub readiness_checks: Vec<readiness::Check>,
}
