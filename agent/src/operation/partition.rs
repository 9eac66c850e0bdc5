//! The NVSwitch partition of a VM's GPUs: activated right before the VM starts, deactivated when it is off.
use std::collections::BTreeSet;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::work::{Done, StepDef, Work};
use crate::error::{HostError, HostResult};
use crate::gpu_fabric::steps::{self, Did};
use crate::journal::Kind;

/// Longest wait for a Fabric Manager that starts: longer than the 60 seconds that it waits itself.
const TIMEOUT: Duration = Duration::from_secs(90);
/// An undo is tried again, so it does not wait long.
const UNDO_TIMEOUT: Duration = Duration::from_secs(15);

/// Makes sure that there will be a partition, before a VM that runs is stopped.
pub const FIND: StepDef = StepDef {
    name: "find_partition",
    run: |work| find(work).boxed(),
    undo: None,
};
/// Connects the VM's GPUs with each other and with nobody else.
pub const ACTIVATE: StepDef = StepDef {
    name: "activate_partition",
    run: |work| activate(work).boxed(),
    undo: None,
};
/// Separates them again.
pub const DEACTIVATE: StepDef = StepDef {
    name: "deactivate_partition",
    run: |work| deactivate(work).boxed(),
    undo: None,
};

/// Half of the budget belongs to what comes after.
fn timeout(work: &Work) -> Duration {
    TIMEOUT.min(work.remaining() / 2)
}

/// Module ids of the operation's GPUs; none without GPUs. A repair has a disk to wipe, and no GPU.
fn modules(work: &Work) -> HostResult<BTreeSet<u32>> {
    if work.operation.kind == Kind::RepairSlot {
        return Ok(BTreeSet::new());
    }
    let slots = work.slots()?;
    Ok(slots
        .iter()
        .filter_map(|slot| slot.bindings.gpu_module_id)
        .collect())
}

/// Module ids of the operation's GPUs, of which none may be unknown.
fn all_modules(work: &Work) -> HostResult<BTreeSet<u32>> {
    let unknown = work.slots()?.into_iter().find(|slot| {
        !slot.bindings.gpu_pci_address.is_empty() && slot.bindings.gpu_module_id.is_none()
    });
    if let Some(slot) = unknown {
        return Err(HostError::device(
            ErrorReason::GpuPartitionUnavailable,
            format!(
                "the module id of GPU {} is not known: discover the host and approve its slots again",
                slot.bindings.gpu_pci_address
            ),
        ));
    }
    modules(work)
}

/// Module ids of the GPUs that need a partition, or why none is needed.
fn to_connect(work: &Work) -> HostResult<Result<BTreeSet<u32>, &'static str>> {
    if work.node.gpu_fabric.is_none() {
        return Ok(Err("this host has no Fabric Manager"));
    }
    let modules = all_modules(work)?;
    Ok(if modules.is_empty() {
        Err("the VM has no GPU")
    } else {
        Ok(modules)
    })
}

async fn find(work: &Work) -> HostResult<Done> {
    let modules = match to_connect(work)? {
        Ok(modules) => modules,
        Err(why) => return Ok(Done::skipped(why)),
    };
    steps::find(&work.node, &modules, timeout(work))
        .await
        .map(done)
}

async fn activate(work: &Work) -> HostResult<Done> {
    let modules = match to_connect(work)? {
        Ok(modules) => modules,
        Err(why) => return Ok(Done::skipped(why)),
    };
    let allocation = work.operation.allocation;
    steps::activate(&work.node, allocation, &modules, timeout(work))
        .await
        .map(done)
}

async fn deactivate(work: &Work) -> HostResult<Done> {
    let (node, allocation) = (&work.node, work.operation.allocation);
    // what a stop leaves active while Fabric Manager is away is freed when it is back: nobody else gets the GPUs
    let stops = work.operation.kind == Kind::Stop;
    let limit = match stops {
        true => Duration::ZERO,
        false => timeout(work),
    };
    match steps::deactivate(node, allocation, &modules(work)?, limit).await {
        Err(error) if stops && error.reason == ErrorReason::GpuPartitionUnavailable => Ok(
            Done::skipped(format!("the partition is freed later: {error}")),
        ),
        other => other.map(done),
    }
}

/// Undoes an activation; the VM was stopped before.
pub fn undo_activate(work: &Work) -> BoxFuture<'_, HostResult<()>> {
    async {
        let allocation = work.operation.allocation;
        steps::deactivate(&work.node, allocation, &modules(work)?, UNDO_TIMEOUT).await?;
        Ok(())
    }
    .boxed()
}

fn done(did: Did) -> Done {
    match did.nothing {
        true => Done::skipped(did.message),
        false => Done::with(did.message),
    }
}
