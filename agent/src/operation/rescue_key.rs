//! The host key of a rescue image, which the operation that made its seed gave it.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::work::Work;
use crate::error::{HostError, HostResult};
use crate::ids::AllocationId;
use crate::journal::{Journal, OperationRow};

/// The host key that the rescue image was given.
pub fn host_key(work: &Work) -> HostResult<String> {
    let none = || HostError::host(ErrorReason::HostKeyMismatch, "the rescue has no host key");
    key_of(&work.operation).ok_or_else(none)
}

fn key_of(operation: &OperationRow) -> Option<String> {
    let key = operation.output("seed")["host_key"].as_str();
    key.map(str::to_owned)
}

/// The host key that a VM's last rescue image was given, whether or not somebody has logged in to it since.
pub fn given_host_key(journal: &Journal, allocation: AllocationId) -> HostResult<Option<String>> {
    let rescue = journal.last_rescue(allocation)?;
    Ok(rescue.as_ref().and_then(key_of))
}
