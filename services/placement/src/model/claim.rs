//! A claim as stored, with what was true when it was made.
use gpuaas_placement_decision::model::SlotClass;
use jiff_sqlx::Timestamp;
use serde::{Deserialize, Serialize};
use sqlx::types::Json;
use uuid::Uuid;

use super::bindings::Bindings;
use super::frozen::{Price, Profile};
use super::states::{ClaimState, Stored};

/// What was true of slot, SKU and host when a claim was made; it never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Per GPU.
    pub profile: Profile,
    /// Price, when one was published.
    pub price: Option<Price>,
    /// Devices and addresses.
    pub bindings: Bindings,
    /// The host instance that was claimed; a call to another one is refused by TLS.
    pub instance_id: Uuid,
    /// Where its agent answered then.
    pub agent_address: String,
    /// Node name.
    pub hostname: String,
}

/// A claim as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Claim {
    pub id: Uuid,
    /// Allocation that holds.
    pub allocation_id: Uuid,
    /// "slot" or "node_exclusive".
    pub kind: String,
    pub node_id: Uuid,
    /// Slot, for kind slot.
    pub slot_id: Option<Uuid>,
    /// Index of the slot on its node.
    pub slot_index: Option<i32>,
    pub slot_class: Option<Stored<SlotClass>>,
    pub state: ClaimState,
    /// Generation of the slot under this claim: part of the fencing token.
    pub slot_generation: i64,
    /// Parent fabric device held exclusively; empty when none (B-52).
    pub fabric_key: String,
    /// Frozen facts.
    pub snapshot: Json<Snapshot>,
    /// When it was made.
    pub created_at: Timestamp,
}
