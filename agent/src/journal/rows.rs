//! What an operation and its steps are as rows of the journal.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use serde::{Deserialize, Serialize};

use super::corrupt;
use crate::error::HostResult;
use crate::host::clock::BootMoment;
use crate::ids::{AllocationId, LeaseId, OperationId};

/// Kind of operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Image to login.
    Provision,
    /// Stop, undefine, wipe, prove.
    Release,
    /// Remove what a failed provision left, disk untouched.
    CleanUp,
    /// Wipe and prove a slot no domain uses.
    RepairSlot,
    /// Shut a VM down.
    Stop,
    /// Start a VM that is shut off.
    Start,
    /// Both.
    Reboot,
    /// Stop a VM, and start it from a rescue image.
    Rescue,
}

impl Kind {
    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Provision => "provision",
            Self::Release => "release",
            Self::CleanUp => "clean_up",
            Self::RepairSlot => "repair_slot",
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Reboot => "reboot",
            Self::Rescue => "rescue",
        }
    }

    pub(super) fn parse(text: &str) -> HostResult<Self> {
        [
            Self::Provision,
            Self::Release,
            Self::CleanUp,
            Self::RepairSlot,
            Self::Stop,
            Self::Start,
            Self::Reboot,
            Self::Rescue,
        ]
        .into_iter()
        .find(|kind| kind.as_str() == text)
        .ok_or_else(|| corrupt("operation kind"))
    }
}

/// State of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Steps or their undo run.
    Running,
    /// All steps done.
    Succeeded,
    /// Ended with a failure.
    Failed,
}

impl State {
    pub(super) fn parse(text: &str) -> HostResult<Self> {
        match text {
            "running" => Ok(Self::Running),
            "succeeded" => Ok(Self::Succeeded),
            "failed" => Ok(Self::Failed),
            _ => Err(corrupt("operation state")),
        }
    }
}

/// State of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepStatus {
    /// Not begun.
    Pending,
    /// Recorded before its effect.
    Running,
    /// Recorded after its effect.
    Done,
    /// Refused or failed.
    Failed,
    /// Not needed.
    Skipped,
}

impl StepStatus {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }

    pub(super) fn parse(text: &str) -> HostResult<Self> {
        [
            Self::Pending,
            Self::Running,
            Self::Done,
            Self::Failed,
            Self::Skipped,
        ]
        .into_iter()
        .find(|status| status.as_str() == text)
        .ok_or_else(|| corrupt("step state"))
    }
}

/// Why an operation failed, journaled before its undo begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Reason without prefix.
    pub reason: String,
    /// For operators.
    pub message: String,
    /// The step that failed.
    pub step: String,
    /// Wire value of the failure class.
    pub class: i32,
    /// False when something of the VM may be left.
    pub host_clean: bool,
    /// What the guest printed last; empty when it is not the guest that failed.
    #[serde(default)]
    pub serial_log_end: String,
}

/// An operation about to begin.
#[derive(Debug)]
pub struct NewOperation {
    /// Caller's id.
    pub id: OperationId,
    pub kind: Kind,
    /// Whose slots it works on.
    pub allocation: AllocationId,
    /// The caller's message.
    pub request: Vec<u8>,
    /// Hash of what must not change between calls.
    pub request_hash: String,
    /// The lease it begins under, which must be live at that moment; request and plan are then the lease's.
    pub lease: Option<(LeaseId, BootMoment)>,
    /// Without a lease, the request: slots with tokens and bindings, shape.
    pub lease_request: pb::AcquireLeaseRequest,
    /// Without a lease, the plan.
    pub plan: pb::BundlePlan,
    /// W3C trace parent of the caller, so that the steps stay in its trace also after a restart.
    pub traceparent: String,
    /// When the budget ends.
    pub deadline: BootMoment,
    /// Wall clock, milliseconds since 1970.
    pub started_ms: i64,
    /// Names of the steps in order.
    pub steps: Vec<&'static str>,
}

/// An operation as it is stored.
#[derive(Debug, Clone)]
pub struct OperationRow {
    /// Caller's id.
    pub id: OperationId,
    pub kind: Kind,
    /// Whose slots it works on.
    pub allocation: AllocationId,
    /// The caller's message.
    pub request: Vec<u8>,
    /// Hash of what must not change between calls.
    pub request_hash: String,
    /// The lease's request.
    pub lease_request: pb::AcquireLeaseRequest,
    /// The lease's plan.
    pub plan: pb::BundlePlan,
    /// W3C trace parent.
    pub traceparent: String,
    pub state: State,
    /// Failure, also while its undo still runs.
    pub failure: Option<Failure>,
    pub result: pb::HostOperation,
    /// When the budget ends.
    pub deadline: BootMoment,
    /// Milliseconds since 1970.
    pub started_ms: i64,
    /// Milliseconds since 1970.
    pub ended_ms: Option<i64>,
    /// Steps in order.
    pub steps: Vec<StepRow>,
}

/// A step as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StepRow {
    pub name: String,
    /// State.
    pub status: StepStatus,
    /// Progress, 0 to 100.
    pub percent: u32,
    /// What it is doing, or its result.
    pub message: String,
    /// What later steps need of it.
    pub output: serde_json::Value,
    /// Milliseconds since 1970.
    pub started_ms: Option<i64>,
    /// Milliseconds since 1970.
    pub ended_ms: Option<i64>,
}

impl OperationRow {
    /// What a step recorded, `null` when it did not run.
    pub fn output(&self, step: &str) -> &serde_json::Value {
        self.steps
            .iter()
            .find(|row| row.name == step)
            .map_or(&serde_json::Value::Null, |row| &row.output)
    }
}
