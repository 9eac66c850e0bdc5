//! What a launch requests, and how the scheduler is set up to place it.
use std::collections::BTreeMap;
use std::time::Duration;

use gpuaas_common::user_data::UserData;
use gpuaas_placement_decision::{GpuCount, PackingStrategy};
use uuid::Uuid;

use super::frozen::Image;
use super::states::Shape;

/// The requested resources; validated except for what only the ledger knows.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The requesting principal.
    pub principal: String,
    /// Key of the caller; unused when only validating.
    pub idempotency_key: String,
    /// SHA-256 of the canonical request.
    pub request_hash: Vec<u8>,
    /// Project that pays.
    pub project_id: Uuid,
    /// DNS label.
    pub name: String,
    pub region_code: String,
    pub sku: String,
    pub gpu_count: GpuCount,
    /// None: the SKU's.
    pub capacity_shape: Option<Shape>,
    /// Resolved image.
    pub image: Image,
    /// Keys of the owner.
    pub ssh_public_keys: Vec<String>,
    /// Their names, empty for a key without one; none at all: none has one.
    pub ssh_key_names: Vec<String>,
    /// A release by the project is refused.
    pub termination_protection: bool,
    /// When the platform releases it.
    pub auto_release_at: Option<jiff::Timestamp>,
    /// For the VM's cloud-init.
    pub user_data: Option<UserData>,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    pub request_id: String,
    /// The workflow continues this trace.
    pub traceparent: String,
    /// Placement constraints.
    pub constraints: Constraints,
    /// Its batch, when it is queued already.
    pub batch_id: Option<Uuid>,
    /// It is for a capacity reservation, which is not queued.
    pub bypasses_queue: bool,
}

/// How the scheduler is set up.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// GPUs of a SKU a project may hold when it has no quota of its own.
    pub default_quota_gpus: u32,
    /// Allocations, of all SKUs together, a project may hold when it has no quota of its own.
    pub default_quota_allocations: u32,
    /// How long to wait for one busy node before the next one is tried.
    pub node_lock_timeout: Duration,
    /// The placement timeout: how long other candidates are tried and contention is retried before the call fails with busy.
    pub placement_timeout: Duration,
    pub packing_strategy: PackingStrategy,
    /// The allocation service has what brings up bare-metal nodes. Without it they are refused, so that none is allocated that
    /// nothing brings up.
    pub baremetal: bool,
    /// Seconds after which unused GPUs that a project has reserved by itself are released, unless it requests
    /// fewer; none: they stay reserved as long as the project requests. Operators are not bound.
    pub release_unused_after: Option<u32>,
}

impl Policy {
    /// Defaults.
    pub const DEFAULT: Self = Self {
        default_quota_gpus: 64,
        default_quota_allocations: 256,
        node_lock_timeout: Duration::from_secs(2),
        placement_timeout: Duration::from_secs(10),
        packing_strategy: PackingStrategy::MostAllocated,
        baremetal: false,
        release_unused_after: None,
    };
}

/// Placement constraints; all of them must hold. The ledger stores them with the allocation, and of them only what was
/// requested.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct Constraints {
    /// The node of this allocation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Uuid>,
    /// A node with an allocation that has this label; there must be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity_label: Option<(String, String)>,
    /// No node of one of these allocations.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub anti_affinity: Vec<Uuid>,
    /// No node with an allocation that has this label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anti_affinity_label: Option<(String, String)>,
    /// Only nodes that have the image verified in their cache (CON-10).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub require_prewarmed: bool,
}

impl Constraints {
    /// They depend on where other allocations are.
    #[must_use]
    pub fn depend_on_others(&self) -> bool {
        self.has_affinity() || !self.anti_affinity.is_empty() || self.anti_affinity_label.is_some()
    }

    /// It must be on a node of another allocation.
    pub(crate) fn has_affinity(&self) -> bool {
        self.affinity.is_some() || self.affinity_label.is_some()
    }
}
