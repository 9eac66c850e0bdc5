//! The deactivation of an NVSwitch partition that is active without an owner: an operator decides, on record, and the host checks last.
use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, audit, id, idempotency};
use gpuaas_placement::outbox;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use tonic::Code;
use uuid::Uuid;

use super::comparison::{compare_all, unreachable};
use super::differences::differences;
use crate::workflow::Deps;
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;

const METHOD: &str = "DeactivatePartition";

pub(super) async fn deactivate_unowned(
    deps: &Deps,
    caller: &Caller,
    request: &pb::DeactivatePartitionRequest,
) -> Result<(), Error> {
    let node_id = id::parse("node_id", &request.node_id)?;
    let reason = audit::reason(&request.reason)?;
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method: METHOD,
        key: caller.idempotency_key()?,
    };
    let hash = idempotency::hash(request);
    let found = unowned(deps, node_id, request.partition_id).await?;
    // after the host has answered: the same call may have done it meanwhile
    let mut conn = deps.pool.acquire().await?;
    let is_replay =
        idempotency::lookup(&mut conn, scope, &hash).await? != idempotency::Lookup::Fresh;
    drop(conn);
    let Some(found) = found else {
        return match is_replay {
            true => Ok(()),
            false => Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::StateConflict,
                "The node has no such partition that is active without an owner. Compare the node again.",
            )),
        };
    };
    // also of a repeat: it has an effect of its own where the partition is active again
    let mut tx = deps.pool.begin().await?;
    if !is_replay {
        idempotency::record(&mut tx, scope, &hash, &node_id.to_string()).await?;
    }
    let detail = json!({
        "reason": reason, "partition_id": request.partition_id, "finding": found.kind, "message": found.message,
    });
    let entry = audit::Entry {
        principal: &caller.principal,
        action: "node.deactivate_partition",
        resource: "node",
        resource_id: &node_id.to_string(),
        request_id: &caller.request_id,
        detail: audit::with_digests(detail, Some(&found), None),
    };
    audit::record(&mut tx, entry).await?;
    tx.commit().await?;
    tracing::info!(%node_id, partition = request.partition_id, "accept deactivation of a partition");
    deps.wake.notify(outbox::TOPIC).await;
    let host = Host::of_node(deps, node_id).await;
    let host = host.map_err(unreachable)?;
    let done = host.deactivate_partition(request.partition_id).await;
    done.map_err(not_deactivated)
}

/// A refusal of the host, or of its Fabric Manager, is the answer; all else is a host that does not do it now.
fn not_deactivated(error: Error) -> Error {
    match error.reason() {
        ErrorReason::LeaseHeld | ErrorReason::OperationConflict => Error::new(
            Code::FailedPrecondition,
            ErrorReason::StateConflict,
            format!("The host does not deactivate the partition: {error}."),
        ),
        ErrorReason::GpuPartitionUnavailable => error,
        _ => unreachable(StepError::of_host(&error)),
    }
}

async fn unowned(
    deps: &Deps,
    node_id: Uuid,
    partition_id: u32,
) -> Result<Option<pb::NodeDifference>, Error> {
    let (_, ledger, held) = compare_all(deps, node_id).await?;
    let observed = partition_id.to_string();
    Ok(differences(&ledger, &held).into_iter().find(|one| {
        one.correction() == pb::ComparisonCorrection::DeactivatePartition
            && one.observed == observed
    }))
}
