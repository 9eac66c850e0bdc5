//! The ledger's vocabulary: states, rows and the values that are frozen into them.
use std::collections::BTreeMap;

use gpuaas_common::readiness;
use jiff_sqlx::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgTypeInfo, PgValueRef, Postgres};
use sqlx::types::Json;
use uuid::Uuid;

use crate::decision::GpuCount;

pub use gpuaas_placement_decision::model::{Health, SlotClass, SlotStatus};

mod bindings;
mod drift;
mod intent;
mod request;

pub use bindings::missing;
pub use drift::CurrentDrift;
pub use intent::Intent;
pub use request::{Constraints, Policy, Request};

/// Whose rows a read may see. Lists are always scoped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One project's rows; another project's do not exist.
    Project(Uuid),
    /// All rows: administrators and workflows.
    Platform,
}

impl Scope {
    pub(crate) fn project(self) -> Option<Uuid> {
        match self {
            Self::Project(id) => Some(id),
            Self::Platform => None,
        }
    }
}

/// A workflow with the lease epoch its runner holds; every write of a step carries it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// Row of `workflows`.
    pub workflow_id: Uuid,
    /// `workflows.lease_epoch` as the runner took it.
    pub lease_epoch: i64,
}

/// Whether a transition changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// It was made now.
    Changed,
    /// It had been made before.
    Unchanged,
}

/// Who made a change and why, for the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attribution<'a> {
    /// Who.
    pub principal: &'a str,
    /// Why.
    pub reason: &'a str,
}

impl<'a> Attribution<'a> {
    /// By a principal, with its reason.
    #[must_use]
    pub fn of(principal: &'a str, reason: &'a str) -> Self {
        Self { principal, reason }
    }
}

/// A closed set of values, stored as text.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, sqlx::Type)]
        #[sqlx(type_name = "text", rename_all = "snake_case")]
        #[serde(rename_all = "snake_case")]
        pub enum $name { $($(#[$vdoc])* #[sqlx(rename = $word)] #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// All values.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The value in the database.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// All texts.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The value from text.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|value| value.as_str() == word)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

words! {
    /// Capacity shape; the set is closed (B-04).
    Shape {
        /// A VM that owns GPUs of a node.
        GpuSlice = "gpu_slice",
        /// A bare-metal node.
        Baremetal = "baremetal",
    }
}
words! {
    /// State of an allocation (C-01, C-02).
    AllocationState {
        /// Waits for capacity, nothing is reserved.
        Requested = "requested",
        /// Slots are claimed, no host was touched.
        Reserved = "reserved",
        /// A host works on it.
        Provisioning = "provisioning",
        /// In use, billed.
        Active = "active",
        /// Being taken down, not billed any more.
        Releasing = "releasing",
        /// Over.
        Released = "released",
        /// Over before it was active; see the failure.
        Failed = "failed",
    }
}
words! {
    /// State of a capacity reservation.
    ReservationState {
        /// Its window has not begun.
        Scheduled = "scheduled",
        /// It holds slots, or gathers them.
        Active = "active",
        /// Its window is over, or all of its GPUs were released.
        Ended = "ended",
        /// Somebody ended it.
        Canceled = "canceled",
    }
}
words! {
    /// State of a claim; all but `released` hold the slot.
    ClaimState {
        /// Claimed.
        Reserved = "reserved",
        /// Host works on it.
        Provisioning = "provisioning",
        /// In use.
        Active = "active",
        /// Being taken down.
        Releasing = "releasing",
        /// Waits for a repair.
        CleanupBlocked = "cleanup_blocked",
        /// Over.
        Released = "released",
    }
}
words! {
    /// Priority class of queued requests, lowest first; an operator sets it for a project.
    Priority {
        /// After all others.
        Low = "low",
        /// The default.
        Normal = "normal",
        /// Before all others.
        High = "high",
    }
}
words! {
    /// What proves that a slot holds no tenant data.
    EvidenceKind {
        /// An operator approved a disk on which an inspection had found nothing. Written by earlier releases only.
        Approved = "approved",
        /// Wiped and verified.
        Wiped = "wiped",
        /// No host effect ever began.
        Untouched = "untouched",
        /// The device was destroyed; the slot is never schedulable again.
        Destroyed = "destroyed",
    }
}

/// [`Health`] as the database has it: a type of its own, ordered from best to worst.
#[derive(Debug, Clone, Copy, sqlx::Type)]
#[sqlx(type_name = "health", rename_all = "lowercase")]
pub(crate) enum StoredHealth {
    Healthy,
    Unknown,
    Degraded,
    Failed,
}

impl From<StoredHealth> for Health {
    fn from(stored: StoredHealth) -> Self {
        match stored {
            StoredHealth::Healthy => Self::Healthy,
            StoredHealth::Unknown => Self::Unknown,
            StoredHealth::Degraded => Self::Degraded,
            StoredHealth::Failed => Self::Failed,
        }
    }
}

impl From<Health> for StoredHealth {
    fn from(health: Health) -> Self {
        match health {
            Health::Healthy => Self::Healthy,
            Health::Unknown => Self::Unknown,
            Health::Degraded => Self::Degraded,
            Health::Failed => Self::Failed,
        }
    }
}

/// A value of a closed set as the database has it: text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stored<T>(pub T);

impl<T> sqlx::Type<Postgres> for Stored<T> {
    fn type_info() -> PgTypeInfo {
        <String as sqlx::Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <String as sqlx::Type<Postgres>>::compatible(ty)
    }
}

impl<'r, T> sqlx::Decode<'r, Postgres> for Stored<T>
where
    T: TryFrom<String, Error: std::error::Error + Send + Sync + 'static>,
{
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        let word = <String as sqlx::Decode<'r, Postgres>>::decode(value)?;
        Ok(Self(T::try_from(word)?))
    }
}

/// The devices and addresses of a slot on its host (A-95..A-99, A-102..A-108); empty text is "none".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
#[serde(default)]
pub struct Bindings {
    pub gpu_pci_address: String,
    /// Module id of the GPU on its baseboard.
    pub gpu_module_id: Option<i32>,
    /// NUMA node of the GPU.
    pub numa_node: Option<i32>,
    /// Stable identity of the disk.
    pub nvme_device: String,
    /// "nvme_wwn_by_id" or "lab_backing_file".
    pub storage_identity_kind: String,
    /// Size of the disk.
    pub nvme_bytes: i64,
    /// MAC of the management vNIC.
    pub management_mac: String,
    /// Address reserved for that MAC.
    pub private_ip: String,
    /// Parent fabric device.
    pub fabric_device: String,
    /// The slot's own data-plane function.
    pub fabric_vf_pci_address: String,
    /// "per_slot_vf" for a whole-GPU slot.
    pub fabric_claim_mode: String,
    /// "blkdiscard", "nvme_format" or "site_erase".
    pub destructive_wipe_policy: String,
}

/// Shape of the VM per GPU (B-08..B-11).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// For example "h200_1g_24c_64g".
    pub name: String,
    pub vcpus_per_gpu: i32,
    pub memory_mib_per_gpu: i32,
    /// Backed by 1 GiB hugepages.
    pub hugepages: bool,
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
    /// End of its billable time, where a forced release ended it before that was accepted.
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
