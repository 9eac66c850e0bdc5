//! A VM's partition before it starts and after it is off: the effects of the steps.
use std::collections::BTreeSet;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::manager::{Stopped, unavailable};
use super::{GpuFabric, PartitionId, Table, listed, runs, unjournaled};
use crate::error::{HostError, HostResult};
use crate::ids::AllocationId;
use crate::journal::PartitionRow;
use crate::node::Node;

/// What was done about a partition, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Did {
    pub message: String,
    /// Nothing was to do.
    pub nothing: bool,
}

impl Did {
    fn something(message: String) -> Self {
        Self {
            message,
            nothing: false,
        }
    }

    fn nothing(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            nothing: true,
        }
    }
}

/// Waits for a Fabric Manager that starts or was restarted. `limit` is longer than the 60 seconds that it waits itself.
async fn patiently<T, W: Future<Output = Result<T, Stopped>>>(
    node: &Node,
    limit: Duration,
    attempt: impl Fn() -> W,
) -> HostResult<T> {
    let deadline = node.clock.now().plus(limit);
    loop {
        match attempt().await {
            Ok(done) => return Ok(done),
            Err(Stopped::Host(error)) => return Err(error),
            Err(Stopped::Fabric(error)) => {
                let over = deadline.remaining(&node.clock.now()).is_zero();
                if over || !error.passes() {
                    return Err(error.into());
                }
            }
        }
        tokio::time::sleep(node.settings.polling.guest()).await;
    }
}

/// Finds the partition that has exactly these GPUs, and changes nothing.
pub async fn find(node: &Node, modules: &BTreeSet<u32>, limit: Duration) -> HostResult<Did> {
    let Some(fabric) = &node.gpu_fabric else {
        return Ok(Did::nothing("this host has no Fabric Manager"));
    };
    patiently(node, limit, || async move {
        let _turn = fabric.turn.lock().await;
        let table = fabric.reported(node).await?;
        let id = offered(&table, modules)?;
        Ok(Did::something(format!(
            "the GPUs {} are partition {id}",
            listed(modules)
        )))
    })
    .await
}

/// Activates the partition that has exactly these GPUs. One that is active for a VM that runs already is good.
pub async fn activate(
    node: &Node,
    allocation: AllocationId,
    modules: &BTreeSet<u32>,
    limit: Duration,
) -> HostResult<Did> {
    let Some(fabric) = &node.gpu_fabric else {
        return Ok(Did::nothing("this host has no Fabric Manager"));
    };
    patiently(node, limit, || async move {
        let _turn = fabric.turn.lock().await;
        fabric.activate_for(node, allocation, modules).await
    })
    .await
}

/// Deactivates the partition of an allocation whose VM is off.
pub async fn deactivate(
    node: &Node,
    allocation: AllocationId,
    modules: &BTreeSet<u32>,
    limit: Duration,
) -> HostResult<Did> {
    let Some(fabric) = &node.gpu_fabric else {
        return Ok(Did::nothing("this host has no Fabric Manager"));
    };
    if runs(node, allocation).await? {
        return Err(HostError::host(
            ErrorReason::HypervisorFailed,
            "the partition of a VM that is not off is not deactivated",
        ));
    }
    patiently(node, limit, || async move {
        let _turn = fabric.turn.lock().await;
        fabric.deactivate_of(node, allocation, modules).await
    })
    .await
}

/// Deactivates a partition that is active and that the journal has for nobody: an operator's correction (D-82). One that is not
/// active is good. Returns whether it was active.
///
/// # Errors
/// `LEASE_HELD` while the journal has a partition with one of its GPUs for an allocation, `OPERATION_CONFLICT` while a VM runs
/// with GPUs for which the journal has no partition: they may be these. Fabric Manager does not answer.
pub async fn deactivate_unowned(node: &Node, id: PartitionId) -> HostResult<bool> {
    let Some(fabric) = &node.gpu_fabric else {
        let why = "this host has no Fabric Manager";
        return Err(HostError::host(ErrorReason::GpuPartitionUnavailable, why));
    };
    let _turn = fabric.turn.lock().await;
    Ok(fabric.separate_unowned(node, id).await?)
}

/// Number of the partition of exactly these GPUs.
fn offered(table: &Table, modules: &BTreeSet<u32>) -> Result<PartitionId, Stopped> {
    let partition = table.of(modules).ok_or_else(|| {
        unavailable(format!(
            "Fabric Manager offers no partition of exactly the GPUs {}: one of them is sick, or the board was \
             discovered before its table changed",
            listed(modules)
        ))
    })?;
    Ok(partition.id)
}

impl GpuFabric {
    async fn activate_for(
        &self,
        node: &Node,
        allocation: AllocationId,
        modules: &BTreeSet<u32>,
    ) -> Result<Did, Stopped> {
        let table = self.reported(node).await?;
        let mut table = self.reconcile(node, table).await?;
        let id = offered(&table, modules)?;
        let rows = node.journal.partitions()?;
        let (own, others): (Vec<_>, Vec<_>) = rows
            .into_iter()
            .partition(|row| row.allocation == allocation);
        if let Some(other) = others
            .iter()
            .find(|row| row.id == id || !row.modules.is_disjoint(modules))
        {
            let (other, owner) = (other.id, other.allocation);
            return Err(unavailable(match other == id {
                true => format!("partition {id} belongs to allocation {owner}"),
                false => format!(
                    "partition {id} shares a GPU with partition {other}, which is active for allocation {owner}"
                ),
            }));
        }
        // Fabric Manager says that a partition is active when it was told so, and after a restart of the host it may have
        // been told of one that nobody activated since: only a VM that runs proves that its own is.
        let own = own.first().and_then(|row| table.journaled(row));
        if let Some(own) = own.filter(|one| one.active).map(|one| one.id) {
            if runs(node, allocation).await? {
                return match own == id {
                    true => Ok(Did::nothing(format!("partition {id} is active already"))),
                    false => Err(unavailable(format!("the VM runs with partition {own}"))),
                };
            }
            self.separate(own).await?;
            table = self.manager.table().await?;
        }
        if table.get(id).is_some_and(|one| one.active) {
            return Err(unavailable(format!(
                "partition {id} is active, and not for an allocation of this host"
            )));
        }
        if let Some(other) = table
            .active()
            .find(|other| !other.modules.is_disjoint(modules))
        {
            return Err(unavailable(format!(
                "partition {id} shares a GPU with partition {}, which is active",
                other.id
            )));
        }
        let row = PartitionRow {
            id,
            allocation,
            modules: modules.clone(),
        };
        if !node.journal.take_partition(&row)? {
            return Err(unavailable(format!("partition {id} was taken meanwhile")));
        }
        self.manager
            .activate(id)
            .await
            .map_err(|error| match error {
                passing if passing.passes() => Stopped::Fabric(passing),
                error => unavailable(format!(
                    "partition {id} of the GPUs {} cannot be activated: {error}",
                    listed(modules)
                )),
            })?;
        self.is(id, true).await?;
        Ok(Did::something(format!(
            "partition {id} connects the GPUs {}",
            listed(modules)
        )))
    }

    async fn deactivate_of(
        &self,
        node: &Node,
        allocation: AllocationId,
        modules: &BTreeSet<u32>,
    ) -> Result<Did, Stopped> {
        let rows = node.journal.partitions()?;
        let own = rows.iter().find(|row| row.allocation == allocation);
        if own.is_none() && modules.is_empty() {
            return Ok(Did::nothing("the VM has no GPU"));
        }
        let table = self.reported(node).await?;
        let found = match own {
            Some(row) => table.journaled(row),
            // activated behind the agent's back, or the journal was lost: a VM that runs may have the GPUs
            None => match unjournaled(node, &rows).await? {
                Some(vm) => {
                    return Ok(Did::nothing(format!(
                        "the journal has no partition of the VM, and none of {vm}, which runs"
                    )));
                }
                None => table
                    .of(modules)
                    .filter(|one| rows.iter().all(|row| row.id != one.id)),
            },
        };
        let active = found.filter(|one| one.active).map(|one| one.id);
        if let Some(id) = active {
            self.separate(id).await?;
        }
        node.journal.drop_partition(allocation)?;
        Ok(match active {
            Some(id) => Did::something(format!("partition {id} is not active any more")),
            None => Did::nothing("no partition of the VM is active"),
        })
    }

    async fn separate_unowned(&self, node: &Node, id: PartitionId) -> Result<bool, Stopped> {
        let table = self.reported(node).await?;
        let Some(partition) = table.get(id).filter(|one| one.active) else {
            return Ok(false);
        };
        let rows = node.journal.partitions()?;
        // a table that has changed has other numbers, and an older agent wrote no GPUs: of such a row nobody knows which
        let owner = rows.iter().find(|row| {
            row.id == id || row.modules.is_empty() || !row.modules.is_disjoint(&partition.modules)
        });
        if let Some(row) = owner {
            let why = format!(
                "the host has partition {} for allocation {}",
                row.id, row.allocation
            );
            return Err(HostError::host(ErrorReason::LeaseHeld, why).into());
        }
        if let Some(vm) = unjournaled(node, &rows).await? {
            let why = format!("{vm} runs with GPUs, and the host has no partition for it");
            return Err(HostError::host(ErrorReason::OperationConflict, why).into());
        }
        self.separate(id).await?;
        let table = self.table().await?;
        self.reconcile(node, table).await?;
        Ok(true)
    }
}
