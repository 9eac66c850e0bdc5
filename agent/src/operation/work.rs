//! What a step works with.
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::SlotBindings;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost::Message;
use serde_json::Value;

use crate::disk::probe::identity_of;
use crate::disk::{Intent, ProvenDisk, passthrough};
use crate::error::{HostError, HostResult};
use crate::ids::{PciAddress, SlotId, Token, VmName};
use crate::journal::{Kind, OperationRow, StepStatus};
use crate::lease::Purpose;
use crate::node::Node;

/// What a step did.
#[derive(Debug, Clone)]
pub struct Done {
    /// Done or skipped.
    pub status: StepStatus,
    /// For operators.
    pub message: String,
    /// What later steps and the result need.
    pub output: Value,
}

impl Done {
    /// Done, with a message.
    pub fn with(message: impl Into<String>) -> Self {
        Self {
            status: StepStatus::Done,
            message: message.into(),
            output: Value::Null,
        }
    }

    /// Done, with something for later steps.
    pub fn giving(message: impl Into<String>, output: Value) -> Self {
        Self {
            status: StepStatus::Done,
            message: message.into(),
            output,
        }
    }

    /// Nothing was to do.
    pub fn skipped(message: impl Into<String>) -> Self {
        Self {
            status: StepStatus::Skipped,
            message: message.into(),
            output: Value::Null,
        }
    }
}

/// Work on the host that gives a `T`.
pub type Effect<T> = for<'a> fn(&'a Work) -> BoxFuture<'a, HostResult<T>>;

/// A step of a table.
pub struct StepDef {
    /// Name in journal and contract.
    pub name: &'static str,
    /// The effect; may run again from its beginning.
    pub run: Effect<Done>,
    /// Removes what the effect left.
    pub undo: Option<Effect<()>>,
}

/// An operation at one of its steps.
pub struct Work {
    /// The host.
    pub node: Arc<Node>,
    /// The operation as it was when the step began.
    pub operation: OperationRow,
    pub step: &'static str,
}

/// A slot of the operation.
#[derive(Debug, Clone)]
pub struct Slot {
    pub id: SlotId,
    /// Index on the host.
    pub index: u32,
    /// Token the operation runs under.
    pub token: Token,
    /// Its devices and addresses.
    pub bindings: SlotBindings,
    /// What is on its disk is a tenant's of the platform, says the ledger to a repair.
    pub left_by_tenant: bool,
}

impl Slot {
    /// Its GPU and its virtual function; a lab slot has none.
    pub fn functions(&self) -> HostResult<Vec<PciAddress>> {
        let bindings = &self.bindings;
        let mut found = Vec::new();
        for address in [&bindings.gpu_pci_address, &bindings.fabric_vf_pci_address] {
            if !address.is_empty() {
                found.push(address.parse()?);
            }
        }
        Ok(found)
    }
}

impl Work {
    /// Name of the VM.
    pub fn vm(&self) -> VmName {
        self.operation.allocation.vm_name()
    }

    /// The caller's message.
    pub fn request<M: Message + Default>(&self) -> HostResult<M> {
        M::decode(self.operation.request.as_slice())
            .map_err(|_| HostError::internal("journal holds a malformed request"))
    }

    /// The slots, the boot slot first (D-70).
    pub fn slots(&self) -> HostResult<Vec<Slot>> {
        self.operation
            .lease_request
            .slots
            .iter()
            .map(parse_slot)
            .collect()
    }

    /// The boot slot.
    pub fn boot_slot(&self) -> HostResult<Slot> {
        let first = self.operation.lease_request.slots.first();
        parse_slot(
            first.ok_or_else(|| HostError::internal("journal holds an operation without slots"))?,
        )
    }

    /// Time left of the budget.
    pub fn remaining(&self) -> Duration {
        self.operation.deadline.remaining(&self.node.clock.now())
    }

    /// Tells how far the step is. A journal that cannot be written fails the step's end, not its progress.
    pub fn progress(&self, percent: u32, message: &str) {
        if let Err(error) =
            self.node
                .journal
                .progress(self.operation.id, self.step, percent, message)
        {
            tracing::warn!(operation_id = %self.operation.id, %error, "cannot record progress");
        }
    }

    /// Proves a slot's disk for one intent, now: only for the work that the lease was taken for, on a slot that
    /// the allocation holds. A call that was late, of a worker whose work another one took over, proves nothing (P6).
    pub async fn prove(&self, slot: &Slot, intent: Intent) -> HostResult<ProvenDisk> {
        self.check_purpose()?;
        self.touched(slot.id)?;
        let identity = identity_of(&slot.bindings.nvme_device)?;
        passthrough::reattach(&self.node, &identity).await?;
        self.node
            .probe
            .prove(&identity, slot.bindings.nvme_bytes, intent)
            .await
    }

    /// Refuses work that the lease was not taken for.
    pub fn check_purpose(&self) -> HostResult<()> {
        let kind = self.operation.kind;
        let purpose = Purpose::from_wire(self.operation.lease_request.purpose)?;
        let fits = match kind {
            Kind::Provision => purpose == Purpose::Provision,
            Kind::Release => purpose == Purpose::Release,
            Kind::RepairSlot => purpose == Purpose::Repair,
            Kind::Stop | Kind::Start | Kind::Reboot | Kind::Rescue => purpose == Purpose::Power,
            _ => true,
        };
        if fits {
            return Ok(());
        }
        Err(HostError::host(
            ErrorReason::LeaseRequired,
            format!(
                "the lease was taken for {purpose:?}, not for {}",
                kind.as_str()
            ),
        ))
    }

    /// Whether this allocation has begun to write to the slot's disk before.
    pub fn touched(&self, slot: SlotId) -> HostResult<bool> {
        let holds = self.node.journal.holds()?;
        let own = holds
            .iter()
            .find(|hold| hold.slot == slot && hold.allocation == self.operation.allocation);
        let hold = own.ok_or_else(|| {
            HostError::host(
                ErrorReason::LeaseRequired,
                format!("allocation does not hold slot {slot}"),
            )
        })?;
        Ok(hold.touched)
    }

    /// How the slot's disk is wiped: what is on it counts as use of it by somebody else, unless this allocation has written to
    /// it, or the repair is of a disk that a tenant of the platform left.
    pub fn wiping(&self, slot: &Slot) -> HostResult<Intent> {
        let left_by_tenant = slot.left_by_tenant && self.operation.kind == Kind::RepairSlot;
        Ok(Intent::Wipe {
            touched: self.touched(slot.id)? || left_by_tenant,
        })
    }
}

/// A slot as typed values.
fn parse_slot(grant: &pb::SlotGrant) -> HostResult<Slot> {
    Ok(Slot {
        id: grant.slot_id.parse()?,
        index: grant.slot_index,
        token: grant.token.unwrap_or_default().into(),
        bindings: grant.bindings.clone().unwrap_or_default(),
        left_by_tenant: grant.left_by_tenant,
    })
}
