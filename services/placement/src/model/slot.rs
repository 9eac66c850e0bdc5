//! A slot as stored, and the proof that it is clean.
use gpuaas_placement_decision::model::{Health, SlotClass, SlotStatus};
use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::types::Json;
use uuid::Uuid;

use super::bindings::Bindings;
use super::drift::CurrentDrift;
use super::states::{EvidenceKind, StoredHealth};

/// A slot as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Slot {
    pub id: Uuid,
    pub node_id: Uuid,
    /// Index on the node.
    pub slot_index: i32,
    /// Class.
    #[sqlx(try_from = "String")]
    pub class: SlotClass,
    /// Status.
    #[sqlx(try_from = "String")]
    pub status: SlotStatus,
    /// Grows with every claim and repair.
    pub generation: i64,
    /// Generation of the latest clean evidence.
    pub clean_generation: Option<i64>,
    /// Unschedulable by the operator's intent.
    pub disabled: bool,
    /// Worst of host and cleanup health.
    #[sqlx(try_from = "StoredHealth")]
    pub health_state: Health,
    /// Why.
    pub health_detail: String,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// Grows with every change.
    pub revision: i64,
    /// Devices and addresses.
    #[sqlx(flatten)]
    pub bindings: Bindings,
    /// To whom its disk belongs: "slice".
    pub storage_ownership: String,
    /// What its disk is used for: "slice".
    pub storage_mode: String,
    /// Path on its host of the record of how the disk was taken over, as of its approval.
    pub storage_transition_manifest: String,
    /// Allocation that holds it.
    pub allocation_id: Option<Uuid>,
    /// Of that allocation.
    pub project_id: Option<Uuid>,
    /// How it was last proven clean: "kind: method".
    pub clean_evidence: Option<String>,
    /// What is not as it was approved.
    pub drift: Json<Vec<CurrentDrift>>,
    /// For whom its host held it while nobody had it by the ledger.
    pub host_holder: Option<Uuid>,
    /// Since when that is known.
    pub host_held_since: Option<Timestamp>,
}

impl Slot {
    /// Differs after every change of the slot.
    #[must_use]
    pub fn etag(&self) -> String {
        self.revision.to_string()
    }
}

/// Proof that a slot's disk holds no tenant data, for its current generation.
#[derive(Debug, Clone)]
pub struct SlotEvidence {
    pub slot_id: Uuid,
    /// Generation the proof is about; must be the slot's.
    pub generation: i64,
    /// Kind; `Destroyed` retires the slot.
    pub kind: EvidenceKind,
    /// How, for example "blkdiscard".
    pub method: String,
    /// What was read back.
    pub detail: Value,
}
