//! The partitions of a host: Fabric Manager, one change at a time, and what is known to be otherwise than the journal has it.
use std::sync::{Mutex, PoisonError};

use super::difference::{self, Difference};
use super::fmpm::Fmpm;
use super::manager::{FabricError, FabricManager, Stopped, unavailable};
use super::table::{PartitionId, Table};
use crate::settings::GpuFabric as Settings;

/// The partitions of a host.
pub struct GpuFabric {
    pub(super) manager: Box<dyn FabricManager>,
    /// One change at a time, so that nothing is deactivated that was just activated.
    pub(super) turn: tokio::sync::Mutex<()>,
    /// What the last look found otherwise than the journal has it.
    pub(super) differences: Mutex<Vec<Difference>>,
}

impl GpuFabric {
    /// By the settings; none where VMs get their GPUs without partitions.
    pub fn of(settings: &Settings) -> Option<Self> {
        settings.is_managed().then(|| Self {
            manager: Box::new(Fmpm::new(settings)),
            turn: tokio::sync::Mutex::default(),
            differences: Mutex::default(),
        })
    }

    /// What the last look found otherwise than the journal has it; nothing before the first.
    pub fn differences(&self) -> Vec<Difference> {
        let found = self.differences.lock();
        found.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces what is known. What was found before, too, has been so since then.
    pub(super) fn note(&self, found: Vec<Difference>) {
        let known = self.differences.lock();
        let mut known = known.unwrap_or_else(PoisonError::into_inner);
        difference::replace(&mut known, found);
    }

    /// The partitions as they are now; nothing is changed.
    pub async fn table(&self) -> Result<Table, FabricError> {
        self.manager.table().await
    }

    /// Deactivates a partition; one that is not active is good.
    pub(super) async fn separate(&self, id: PartitionId) -> Result<(), Stopped> {
        match self.manager.deactivate(id).await {
            Ok(()) | Err(FabricError::NotActive) => self.is(id, false).await,
            Err(error) => Err(error.into()),
        }
    }

    /// An answer of success is believed when the table says the same.
    pub(super) async fn is(&self, id: PartitionId, active: bool) -> Result<(), Stopped> {
        let table: Table = self.manager.table().await?;
        let state = table.get(id).map(|one| one.active);
        match state == Some(active) || (state.is_none() && !active) {
            true => Ok(()),
            false => Err(unavailable(format!(
                "partition {id} is {} although Fabric Manager answered with success",
                if active { "not active" } else { "still active" }
            ))),
        }
    }
}
