//! The parts of API answers that tables and decisions need; everything else passes through untouched.
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// 64-bit integers are strings in the API.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Text(String),
        Number(i64),
    }
    match Either::deserialize(deserializer)? {
        Either::Number(number) => Ok(number),
        Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

#[derive(Clone, Debug, Deserialize)]
pub struct ErrorBody {
    pub error: ErrorStatus,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ErrorStatus {
    #[serde(default)]
    pub message: String,
    #[serde(default)]
    pub details: Vec<Value>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Allocation {
    pub id: String,
    pub config: AllocationConfig,
    pub status: AllocationStatus,
    pub metadata: Metadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationConfig {
    pub project_id: String,
    pub name: String,
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub image: String,
    pub placement: Option<Placement>,
}

/// The placement constraints of an allocation.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Placement {
    pub affinity: String,
    pub affinity_label: String,
    pub anti_affinity: Vec<String>,
    pub anti_affinity_label: String,
    pub require_prewarmed: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationStatus {
    pub state: String,
    pub power: String,
    pub boot_id: String,
    pub billing: String,
    pub failure: Option<AllocationFailure>,
    pub progress: Option<Progress>,
    pub access: Option<Access>,
    pub active_time: Option<Timestamp>,
    pub release_time: Option<Timestamp>,
    pub lab: bool,
    pub queue: Option<Queue>,
}

impl AllocationStatus {
    /// The state: "queued" while queued, with the power state while active.
    pub fn text(&self) -> String {
        if self.queue.is_some() {
            return "queued".to_owned();
        }
        match (self.state.as_str(), self.power.as_str()) {
            ("active", power) if !matches!(power, "" | "unspecified") => format!("active, {power}"),
            (state, _) => state.to_owned(),
        }
    }

    /// Whether the VM is off, or about to be, so that nothing answers a login.
    pub fn is_off(&self) -> bool {
        matches!(self.power.as_str(), "stopping" | "stopped")
    }
}

/// The queue position of an allocation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Queue {
    pub position: u32,
    pub message: String,
    pub since: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
}

impl Queue {
    /// The position as text.
    pub fn text(&self) -> String {
        format!("queued, position {}", self.position)
    }
}

/// A queued request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct QueuedRequest {
    pub slot_class: String,
    pub position: u32,
    pub project_id: String,
    pub priority: String,
    pub allocation_ids: Vec<String>,
    pub gpus: u32,
    pub since: Option<Timestamp>,
    pub deadline: Option<Timestamp>,
    pub reason: String,
    pub backfill_node_ids: Vec<String>,
}

/// The quotas of a project and their use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProjectQuotas {
    pub max_allocations: u32,
    pub used_allocations: u32,
    pub quotas: Vec<ProjectQuota>,
    pub default_max_gpus: u32,
}

/// The GPU quota of a SKU and its use.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ProjectQuota {
    pub sku: String,
    pub max_gpus: u32,
    pub used_gpus: u32,
}

/// GPUs that only one project can launch on.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CapacityReservation {
    pub id: String,
    pub config: ReservationConfig,
    pub status: ReservationStatus,
    pub metadata: ReservationMetadata,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationConfig {
    pub project_id: String,
    pub name: String,
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    pub release_unused_after_seconds: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationStatus {
    pub state: String,
    pub reserved_gpus: u32,
    pub used_gpus: u32,
    pub unused_gpus: u32,
    pub unavailable_gpus: u32,
    pub unused_since: Option<Timestamp>,
    pub released_gpus: u32,
    pub reason: String,
    pub launches: Vec<LaunchCapacity>,
}

/// How many launches of one size fit.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct LaunchCapacity {
    pub gpu_count: u32,
    pub fits: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ReservationMetadata {
    pub created_by: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationFailure {
    pub reason: String,
    pub message: String,
    pub advice: String,
    pub step: String,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Progress {
    pub step: String,
    pub percent: u32,
    pub message: String,
    pub steps_done: u32,
    pub steps_total: u32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Access {
    pub guest_user: String,
    pub private_ip: String,
    pub ssh_port: u32,
    pub ssh_host: String,
    pub ssh_host_port: u32,
    pub ssh_host_keys: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Metadata {
    pub create_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct TimelineEntry {
    #[serde(deserialize_with = "number")]
    pub sequence: i64,
    pub time: Option<Timestamp>,
    pub step: String,
    pub state: String,
    pub percent: u32,
    pub message: String,
    pub end_time: Option<Timestamp>,
}

/// `google.type.Money`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Money {
    pub currency_code: String,
    #[serde(deserialize_with = "number")]
    pub units: i64,
    pub nanos: i32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageInterval {
    pub allocation_id: String,
    pub sku: String,
    pub gpu_count: u32,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
    #[serde(deserialize_with = "number")]
    pub microseconds: i64,
    pub price_per_gpu_hour: Option<Money>,
    pub amount: Option<Money>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UsageTotal {
    #[serde(deserialize_with = "number")]
    pub gpu_microseconds: i64,
    pub amount: Option<Money>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Region {
    pub code: String,
    pub display_name: String,
    pub enabled: bool,
    pub unavailable_reason: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sku {
    pub code: String,
    pub display_name: String,
    pub capacity_shape: String,
    pub allowed_gpu_counts: Vec<u32>,
    pub price_per_gpu_hour: Option<Money>,
    pub lab: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Image {
    pub slug: String,
    pub display_name: String,
    pub status: String,
    #[serde(deserialize_with = "number")]
    pub size_bytes: i64,
    pub compatible_skus: Vec<String>,
    pub digest: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Availability {
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub fits: u32,
    pub reasons: Vec<UnavailableReason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct UnavailableReason {
    pub reason: String,
    pub gpus: u32,
    pub nodes: u32,
    pub message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    pub id: String,
    pub config: NodeConfig,
    pub status: NodeStatus,
    pub placement: NodePlacement,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeConfig {
    pub hostname: String,
    pub region_code: String,
    pub mode: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    pub state: String,
    pub schedulable: bool,
    pub blockers: Vec<String>,
    pub lab: bool,
    pub last_heartbeat_time: Option<Timestamp>,
    pub slots: BTreeMap<String, u32>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Slot {
    pub id: String,
    pub slot_index: u32,
    pub slot_class: String,
    pub status: String,
    pub health_state: String,
    pub health_detail: String,
    pub disabled: bool,
    #[serde(deserialize_with = "number")]
    pub generation: i64,
    pub allocation_id: String,
    pub clean_evidence: String,
    /// The generation that the evidence is of.
    #[serde(deserialize_with = "number")]
    pub clean_generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Discovery {
    pub id: String,
    pub state: String,
    pub error: String,
    pub candidates: Vec<Candidate>,
    pub candidate_summary: Option<CandidateSummary>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct CandidateSummary {
    pub blockers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Candidate {
    pub slot_index: u32,
    pub slot_class: String,
    pub blockers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SlotRepair {
    pub id: String,
    pub state: String,
    pub slot_status: String,
    pub health_state: String,
    pub detail: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AllocationDetail {
    pub allocation: Allocation,
    pub node_id: String,
    pub claims: Vec<Claim>,
    pub tasks: Vec<NodeTask>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Claim {
    pub kind: String,
    pub slot_id: String,
    pub slot_index: u32,
    pub state: String,
    #[serde(deserialize_with = "number")]
    pub slot_generation: i64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeTask {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub state: String,
    pub create_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PlacementExplanation {
    pub region_code: String,
    pub sku: String,
    pub gpu_count: u32,
    pub nodes: u32,
    pub nodes_fit: u32,
    pub removed: Vec<UnavailableReason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodePlacement {
    pub node_id: String,
    pub hostname: String,
    pub admin_state: String,
    pub admin_reason: String,
    pub schedulable: bool,
    pub not_schedulable_reason: String,
    pub live_claims: u32,
    pub live_allocations: u32,
    pub drained: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeVerdicts {
    pub explanation: PlacementExplanation,
    pub nodes: Vec<NodeVerdict>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct NodeVerdict {
    pub hostname: String,
    pub fits: bool,
    pub slot_indexes: Vec<u32>,
    pub score: Vec<ScorePart>,
    pub reasons: Vec<UnavailableReason>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ScorePart {
    pub name: String,
    /// 64-bit integers travel as text.
    pub value: String,
}
