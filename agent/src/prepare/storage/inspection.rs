//! What is on a disk, right before the transition touches it.
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::super::Machine;
use crate::disk::facts::{DiskFacts, gather};
use crate::disk::identity::{BY_ID, Resolution, resolve_by_id};
use crate::disk::signatures::parse_wipefs;
use crate::error::{HostError, HostResult};

/// How often a disk that a process holds open is looked at, and the pause between two looks.
const ATTEMPTS: u32 = 20;
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// What is on a disk once nobody but a user holds it open: a device manager looks at a disk whose table of partitions has
/// changed, for a moment, and lets it go.
pub async fn inspect_once_released(
    machine: &Machine,
    identity: &str,
    name: &str,
) -> HostResult<(DiskFacts, Vec<String>)> {
    for _ in 1..ATTEMPTS {
        let found = inspect(machine, identity, name).await?;
        if found.0.descriptor_holders.is_empty() {
            return Ok(found);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
    inspect(machine, identity, name).await
}

async fn inspect(
    machine: &Machine,
    identity: &str,
    name: &str,
) -> HostResult<(DiskFacts, Vec<String>)> {
    let link = identity.strip_prefix(BY_ID).unwrap_or(identity);
    let found = resolve_by_id(&machine.root, link.trim_start_matches('/'))?;
    if found != Resolution::Device(name.to_owned()) {
        return Err(unsafe_disk(format!(
            "{identity} does not lead to /dev/{name} any more"
        )));
    }
    let facts = gather(&machine.root, name, &[])?;
    let signatures = signatures(machine, name).await?;
    Ok((facts, signatures))
}

/// Signatures of a device, by `wipefs`, which changes nothing then.
pub async fn signatures(machine: &Machine, name: &str) -> HostResult<Vec<String>> {
    let device = format!("/dev/{name}");
    let output = machine
        .ask("wipefs", &["--json", "--no-act", &device])
        .await?
        .success("wipefs")?;
    Ok(parse_wipefs(&output.stdout)?.into_iter().collect())
}

/// A disk that is not to be touched.
pub fn unsafe_disk(message: String) -> HostError {
    HostError::device(ErrorReason::DiskUnsafe, message)
}
