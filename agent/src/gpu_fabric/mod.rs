//! The fabric of the GPUs: NVSwitch partitions, which Fabric Manager makes and unmakes (D-96).
//!
//! With the shared NVSwitch model a VM gets its GPUs and no switch. Fabric Manager, in a service VM or on the host,
//! connects the GPUs of one partition with each other and with nobody else. The order is that of NVIDIA's guide: the
//! partition is activated after the VM was defined and right before it starts, and nothing of the platform resets a GPU
//! in between; it is deactivated after the VM is off, and never under a VM that runs. One GPU alone has a partition too.
//!
//! A row of the journal precedes every activation. So the agent can tell Fabric Manager after its restart which
//! partitions are active; it waits for that for 60 seconds, refuses everything else, and exits when nobody told it.
mod difference;
mod fabric;
mod fmpm;
mod manager;
pub mod steps;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use gpuaas_common::CancellationToken;

pub use difference::{Difference, Kind as DifferenceKind};
pub use fabric::GpuFabric;
pub use fmpm::Fmpm;
pub use manager::{FabricError, FabricManager};
use manager::{Stopped, unavailable};
pub use table::{MAX_MODULE, Partition, PartitionId, Table, listed};

use crate::error::{HostError, HostResult};
use crate::host::blocking;
use crate::ids::AllocationId;
use crate::journal::PartitionRow;
use crate::node::Node;
use crate::topology::pci::{self, PciKind};
use crate::vm::PowerState;
use crate::vm::disk_sources::pci_device;

/// Between two polls of Fabric Manager: well within the 60 seconds that it waits after its restart.
pub const INTERVAL: Duration = Duration::from_secs(10);

impl GpuFabric {
    /// The partitions, once Fabric Manager has the list of active ones: it answers nothing before that.
    async fn reported(&self, node: &Node) -> Result<Table, Stopped> {
        match self.manager.table().await {
            Err(FabricError::NotReady) => {
                let rows = node.journal.partitions()?;
                // it would separate the GPUs of every VM that the list leaves out
                if let Some(vm) = unjournaled(node, &rows).await? {
                    return Err(FabricError::Unjournaled(vm).into());
                }
                let ids: BTreeSet<PartitionId> = rows.iter().map(|row| row.id).collect();
                if let Err(error) = self.manager.set_active(&ids).await {
                    // one that begins anew needs no list, and reports that in no other way
                    tracing::info!(partitions = ?ids, %error, "Fabric Manager does not take the list of active partitions");
                    return Err(FabricError::NotReady.into());
                }
                tracing::warn!(partitions = ?ids, "set the active partitions of Fabric Manager");
                Ok(self.manager.table().await?)
            }
            other => Ok(other?),
        }
    }

    /// Makes the partitions what they should be: those of VMs that run are active, and those of VMs that are off are not.
    /// A partition whose operation runs is left to it, and one that is nobody's is left as it is.
    async fn reconcile(&self, node: &Node, table: Table) -> Result<Table, Stopped> {
        let busy = node.journal.running_operations()?;
        let busy: BTreeSet<_> = busy.iter().map(|operation| operation.allocation).collect();
        let mut changed = false;
        let rows = node.journal.partitions()?;
        let mut found = difference::unowned(&table, &rows);
        for row in rows {
            if busy.contains(&row.allocation) {
                continue;
            }
            let (id, allocation) = (row.id, row.allocation);
            match self.reconcile_one(node, &table, row).await {
                Ok(did) => changed |= did,
                Err(stopped) => {
                    let error = HostError::from(stopped);
                    tracing::warn!(partition = id, allocation_id = %allocation, %error,
                        "a partition is not as it should be");
                    let of = Some(allocation);
                    found.push(Difference::new(
                        DifferenceKind::Unmatched,
                        id,
                        of,
                        error.message,
                    ));
                }
            }
        }
        self.note(found);
        match changed {
            true => Ok(self.manager.table().await?),
            false => Ok(table),
        }
    }

    async fn reconcile_one(
        &self,
        node: &Node,
        table: &Table,
        row: PartitionRow,
    ) -> Result<bool, Stopped> {
        let partition = table.journaled(&row);
        let active = partition.is_some_and(|one| one.active);
        match (runs(node, row.allocation).await?, active) {
            (true, _) if partition.is_none_or(|one| one.id != row.id) => Err(unavailable(format!(
                "Fabric Manager's table has changed under a VM that runs: the partition of the GPUs {} is not {} any more; \
                 stop the VM and start it again",
                listed(&row.modules),
                row.id
            ))),
            (true, true) => Ok(false),
            (true, false) => {
                // Fabric Manager began anew and forgot it: until then the VM's GPUs are not connected
                tracing::warn!(partition = row.id, allocation_id = %row.allocation,
                    "activate the partition of a VM that runs");
                self.manager.activate(row.id).await?;
                self.is(row.id, true).await?;
                Ok(true)
            }
            (false, active) => {
                if let Some(one) = partition.filter(|one| one.active) {
                    self.separate(one.id).await?;
                }
                tracing::info!(partition = row.id, allocation_id = %row.allocation,
                    "the partition of a VM that is off is free");
                node.journal.drop_partition(row.allocation)?;
                Ok(active)
            }
        }
    }
}

/// Whether the VM of an allocation has its GPUs now.
async fn runs(node: &Node, allocation: AllocationId) -> HostResult<bool> {
    let state = node.hypervisor.state(allocation.vm_name().as_str()).await?;
    Ok(!matches!(state, None | Some(PowerState::ShutOff)))
}

/// A domain that runs with GPUs of which the journal has no partition: the journal was lost, or it was started by hand.
async fn unjournaled(node: &Node, rows: &[PartitionRow]) -> HostResult<Option<String>> {
    let known: BTreeSet<_> = rows.iter().map(|row| row.allocation).collect();
    let gpus = blocking::here(|| pci::devices(&node.root)).into_iter();
    let gpus: BTreeSet<String> = gpus
        .filter(|one| one.kind == PciKind::Gpu)
        .map(|one| pci_device(&one.address))
        .collect();
    let domains = node.hypervisor.domains().await?.into_iter();
    let mut unknown = domains.filter(|domain| {
        domain.state != PowerState::ShutOff
            && AllocationId::of_vm(&domain.name).is_none_or(|id| !known.contains(&id))
            && domain.disk_sources.iter().any(|path| gpus.contains(path))
    });
    Ok(unknown.next().map(|domain| domain.name))
}

/// Looks at Fabric Manager at once and after every `interval`, until `shutdown` (D-10).
pub async fn run(node: &Node, interval: Duration, shutdown: CancellationToken) {
    if node.gpu_fabric.is_none() {
        return;
    }
    loop {
        if let Err(error) = reconcile(node).await {
            tracing::warn!(%error, "cannot tell which partitions are active");
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(interval) => {}
        }
    }
}

/// Makes the partitions what they should be, once.
///
/// # Errors
/// Fabric Manager does not answer, or the journal.
pub async fn reconcile(node: &Node) -> HostResult<()> {
    let Some(fabric) = &node.gpu_fabric else {
        return Ok(());
    };
    let _turn = fabric.turn.lock().await;
    let table = match fabric.reported(node).await {
        Ok(table) => table,
        Err(stopped) => {
            let error = HostError::from(stopped);
            let rows = node.journal.partitions()?.into_iter();
            let (kind, why) = (DifferenceKind::Unknown, &error.message);
            let unknown =
                rows.map(|row| Difference::new(kind, row.id, Some(row.allocation), why.clone()));
            fabric.note(unknown.collect());
            return Err(error);
        }
    };
    // what fails now is no news of the partitions: what was found of them stands
    fabric.reconcile(node, table).await?;
    Ok(())
}
