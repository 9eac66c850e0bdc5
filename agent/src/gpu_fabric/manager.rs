//! Fabric Manager as a host uses it, and why it does not do something.
use std::collections::BTreeSet;

use async_trait::async_trait;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::table::{PartitionId, Table};
use crate::error::HostError;

/// Fabric Manager, as a host uses it.
#[async_trait]
pub trait FabricManager: Send + Sync {
    /// The partitions that it offers now.
    async fn table(&self) -> Result<Table, FabricError>;
    /// Connects the GPUs of a partition.
    async fn activate(&self, id: PartitionId) -> Result<(), FabricError>;
    /// Separates them again.
    async fn deactivate(&self, id: PartitionId) -> Result<(), FabricError>;
    /// Sets, after its restart, which partitions are active: all of them, or none.
    async fn set_active(&self, ids: &BTreeSet<PartitionId>) -> Result<(), FabricError>;
}

/// Why Fabric Manager did not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    #[error("Fabric Manager does not answer: {0}")]
    NotRunning(String),
    #[error("Fabric Manager starts, or waits for the list of active partitions")]
    NotReady,
    #[error(
        "Fabric Manager waits for the list of active partitions, and the journal has none for {0}, which runs with GPUs"
    )]
    Unjournaled(String),
    #[error("Fabric Manager does not run in its shared NVSwitch mode (FABRIC_MODE=1)")]
    NotShared,
    #[error("Fabric Manager knows no such partition")]
    UnknownPartition,
    #[error("the partition is active, or another active one has a GPU of it")]
    InUse,
    #[error("the partition is not active")]
    NotActive,
    #[error("fmpm ended with status {status}: {said}")]
    Failed { status: i32, said: String },
    #[error("the table of partitions cannot be read: {0}")]
    Malformed(String),
}

impl FabricError {
    /// Another try may succeed soon.
    pub(super) fn passes(&self) -> bool {
        matches!(self, Self::NotReady | Self::NotRunning(_))
    }
}

impl From<FabricError> for HostError {
    fn from(error: FabricError) -> Self {
        let message = error.to_string();
        match error {
            FabricError::InUse
            | FabricError::NotActive
            | FabricError::UnknownPartition
            | FabricError::Failed { .. } => {
                Self::device(ErrorReason::GpuPartitionUnavailable, message)
            }
            FabricError::NotRunning(_)
            | FabricError::NotReady
            | FabricError::Unjournaled(_)
            | FabricError::NotShared
            | FabricError::Malformed(_) => {
                Self::host(ErrorReason::GpuPartitionUnavailable, message)
            }
        }
    }
}

/// Why an attempt ended.
pub enum Stopped {
    /// For good.
    Host(HostError),
    /// By Fabric Manager, which may answer soon.
    Fabric(FabricError),
}

impl From<HostError> for Stopped {
    fn from(error: HostError) -> Self {
        Self::Host(error)
    }
}

impl From<FabricError> for Stopped {
    fn from(error: FabricError) -> Self {
        Self::Fabric(error)
    }
}

impl From<Stopped> for HostError {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Host(error) => error,
            Stopped::Fabric(error) => error.into(),
        }
    }
}

/// A partition that cannot be had.
pub fn unavailable(message: String) -> Stopped {
    HostError::device(ErrorReason::GpuPartitionUnavailable, message).into()
}
