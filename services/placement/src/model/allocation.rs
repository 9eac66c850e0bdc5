//! An allocation as stored.
use std::collections::BTreeMap;

use gpuaas_common::readiness;
use gpuaas_placement_decision::GpuCount;
use jiff_sqlx::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use uuid::Uuid;

use super::frozen::{Image, Price};
use super::request::Constraints;
use super::states::{AllocationState, Shape};

/// How the owner logs in, as the host reported it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuestAccess {
    /// Address in the node's private network (C-16).
    pub private_ip: String,
    /// Port of sshd in the guest (C-16).
    pub ssh_port: u32,
    /// A login was observed to work (C-15).
    pub ssh_ready: bool,
    /// Host that reaches the guest from where the API is used.
    pub ssh_host: String,
    /// Port there.
    pub ssh_host_port: u32,
    /// Host keys of the guest, to pin.
    pub ssh_host_keys: Vec<String>,
}

/// Why an allocation failed, as text for a user (C-05).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Name of an `ErrorReason` without prefix.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// What the user can do.
    pub advice: String,
    /// The step that failed.
    pub step: String,
}

/// An allocation as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Allocation {
    pub id: Uuid,
    /// Project that owns and pays.
    pub project_id: Uuid,
    /// DNS label, unique among the project's allocations that have not ended.
    pub name: String,
    pub region_code: String,
    pub sku: String,
    #[sqlx(try_from = "i32")]
    pub gpu_count: GpuCount,
    pub capacity_shape: Shape,
    /// Node it was placed on (B-24).
    pub node_id: Option<Uuid>,
    pub state: AllocationState,
    /// Power state, set while active.
    pub power: Option<String>,
    /// Set in state failed only.
    pub failure: Option<Json<Failure>>,
    /// Frozen image.
    pub image: Json<Image>,
    /// Keys of the owner.
    pub ssh_public_keys: Vec<String>,
    /// Their names, empty for a key without one; none at all: none has one.
    pub ssh_key_names: Vec<String>,
    /// Of its user data, "sha256:…"; empty: it was launched without.
    pub user_data_digest: String,
    /// Size of its user data.
    #[sqlx(try_from = "i32")]
    pub user_data_bytes: u32,
    /// The caller's labels.
    pub labels: Json<BTreeMap<String, String>>,
    /// "u_" and 16 hex digits (C-19).
    pub guest_user: String,
    /// Set once active.
    pub access: Option<Json<GuestAccess>>,
    /// What came of the readiness checks (D-45).
    pub readiness: Json<Vec<readiness::Outcome>>,
    /// Emulated capacity.
    pub lab: bool,
    /// Frozen price; absent when none was published.
    pub price: Option<Json<Price>>,
    /// Who created it.
    pub principal: String,
    /// Of the creating request.
    pub request_id: String,
    /// Of the creating request.
    pub traceparent: String,
    /// Grows by one with every change.
    pub revision: i64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it became active.
    pub active_at: Option<Timestamp>,
    /// When its release was accepted.
    pub releasing_at: Option<Timestamp>,
    /// When it was released or failed.
    pub ended_at: Option<Timestamp>,
    /// When the current state must have been left.
    pub deadline_at: Option<Timestamp>,
    /// Boot id at the login that proved the last start; none when that was not proven.
    pub boot_id: Option<Uuid>,
    /// The placement constraints of its launch; none: unknown, the platform before this one made it.
    pub constraints: Option<Json<Constraints>>,
    /// Condition: since when its host is silent, or another instance.
    pub host_lost_since: Option<Timestamp>,
    /// End of its billable time, where that is before its release was accepted: by a forced release, or by one that was late.
    pub billed_until: Option<Timestamp>,
    /// Condition: since when a slot of it is not as it was approved.
    pub device_drift_since: Option<Timestamp>,
    /// The same, for its owner; empty: all are.
    pub device_drift: String,
    /// Name for people; empty: its name.
    pub display_name: String,
    /// Condition: what an operator last did to it, "stop" or "release".
    pub operator_action: Option<String>,
    /// Why, for its owner.
    pub operator_reason: String,
    /// When.
    pub operator_at: Option<Timestamp>,
    /// A release by its project is refused.
    pub termination_protection: bool,
    /// When the platform releases it; none: never.
    pub auto_release_at: Option<Timestamp>,
    /// From the acceptance of a rescue until its VM runs from its own disk again, or is off.
    pub rescue: Option<Json<Rescue>>,
}

/// What a VM is rescued with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rescue {
    /// Image that it boots from.
    pub image: Image,
    /// Power before the rescue was accepted.
    pub from: String,
    /// Host keys of the rescue image, to pin; none before its login was proven.
    #[serde(default)]
    pub ssh_host_keys: Vec<String>,
}

impl Allocation {
    /// What its VM runs from while it is rescued.
    #[must_use]
    pub fn rescued(&self) -> Option<&Rescue> {
        let is_rescued = self.power.as_deref() == Some("rescued");
        self.rescue.as_deref().filter(|_| is_rescued)
    }

    /// Domain name on the host: "gpuaas-slice-" and the id without dashes (C-17).
    #[must_use]
    pub fn vm_name(&self) -> String {
        format!("gpuaas-slice-{}", self.id.simple())
    }
}
