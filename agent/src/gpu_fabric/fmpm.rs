//! Fabric Manager through NVIDIA's program `fmpm` (FM Partition Manager): one call per question, answered in JSON or by
//! a status that is a number of Fabric Manager's API.
use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;

use super::manager::{FabricError, FabricManager};
use super::table::{PartitionId, Table};
use crate::host::exec;
use crate::host::output::Output;
use crate::settings::GpuFabric;

/// Longest wait for a partition that is activated or deactivated.
const CHANGE_LIMIT: Duration = Duration::from_secs(30);

/// The adapter.
pub struct Fmpm {
    program: String,
    /// Which Fabric Manager is meant.
    address: Vec<String>,
}

impl Fmpm {
    pub fn new(settings: &GpuFabric) -> Self {
        Self {
            program: settings.program.clone(),
            address: settings.address_arguments(),
        }
    }

    fn arguments(&self, verb: &[&str]) -> Vec<String> {
        let verb = verb.iter().map(|word| (*word).to_owned());
        self.address.iter().cloned().chain(verb).collect()
    }

    /// A call that changes something; a recorded host is never changed.
    async fn change(&self, verb: &[&str]) -> Result<(), FabricError> {
        let arguments = self.arguments(verb);
        let output = exec::run_with(&self.program, &arguments, &[], CHANGE_LIMIT).await;
        let output = output.map_err(|error| FabricError::NotRunning(error.message))?;
        judged(&output)
    }
}

#[async_trait]
impl FabricManager for Fmpm {
    async fn table(&self) -> Result<Table, FabricError> {
        let output = exec::run(&self.program, &self.arguments(&["-l"]), exec::PROBE_LIMIT).await;
        let output = output.map_err(|error| FabricError::NotRunning(error.message))?;
        judged(&output)?;
        if output.stdout.trim().is_empty() {
            return Err(FabricError::NotReady);
        }
        let table = Table::parse(&output.stdout).map_err(FabricError::Malformed)?;
        // a board has partitions, so this one is not known yet
        match table.partitions.is_empty() {
            true => Err(FabricError::NotReady),
            false => Ok(table),
        }
    }

    async fn activate(&self, id: PartitionId) -> Result<(), FabricError> {
        self.change(&["-a", &id.to_string()]).await
    }

    async fn deactivate(&self, id: PartitionId) -> Result<(), FabricError> {
        self.change(&["-d", &id.to_string()]).await
    }

    async fn set_active(&self, ids: &BTreeSet<PartitionId>) -> Result<(), FabricError> {
        let ids: Vec<String> = ids.iter().map(PartitionId::to_string).collect();
        self.change(&["--set-activated-list", &ids.join(",")]).await
    }
}

/// What a status means: it is the lower byte of a negative number of the API.
fn judged(output: &Output) -> Result<(), FabricError> {
    let said = || output.stdout.lines().chain(output.stderr.lines());
    let said = said().map(str::trim).rfind(|line| !line.is_empty());
    let said = said.unwrap_or("it says nothing").to_owned();
    match output.status {
        0 => Ok(()),
        // -1, FM_ST_BADPARAM
        255 => Err(FabricError::UnknownPartition),
        // -3, FM_ST_NOT_SUPPORTED
        253 => Err(FabricError::NotShared),
        // -4, FM_ST_UNINITIALIZED
        252 => Err(FabricError::NotActive),
        // -7, FM_ST_IN_USE
        249 => Err(FabricError::InUse),
        // -8, FM_ST_NOT_CONFIGURED
        248 => Err(FabricError::NotReady),
        // -9, FM_ST_CONNECTION_NOT_VALID
        247 => Err(FabricError::NotRunning(said)),
        status => Err(FabricError::Failed { status, said }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_the_number_that_fabric_manager_answers() {
        let answer = |status| {
            judged(&Output {
                status,
                stdout: "Failed to activate partition. fmReturn: -2\n".into(),
                stderr: String::new(),
            })
        };
        assert_eq!(answer(0), Ok(()));
        for (status, expected) in [
            (255, FabricError::UnknownPartition),
            (253, FabricError::NotShared),
            (252, FabricError::NotActive),
            (249, FabricError::InUse),
            (248, FabricError::NotReady),
        ] {
            assert_eq!(answer(status), Err(expected));
        }
        let failed = answer(254).unwrap_err().to_string();
        assert!(
            failed.contains("254") && failed.contains("fmReturn: -2"),
            "{failed}"
        );
        assert!(
            matches!(answer(247), Err(FabricError::NotRunning(said)) if said.contains("fmReturn"))
        );
    }
}
