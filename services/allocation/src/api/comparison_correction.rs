//! The correction of a row of a node's comparison: an operator's word, for the row that was read, on record. It adopts, finishes or
//! undoes what the reconciler would, and what it leaves to operators; a disk is left to the repair of its slot.
use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, audit, etag, id, idempotency};
use gpuaas_placement::{outbox, power, workflows};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::comparison::{Compared, compare, unreachable};
use crate::domain::comparison::{Correction, Judged};
use crate::domain::discrepancy::Discrepancy;
use crate::reconcile::clean_up;
use crate::workflow::Deps;
use crate::workflow::failure::StepError;
use crate::workflow::host::Host;

const METHOD: &str = "CorrectComparison";

pub(super) async fn correct_row(
    deps: &Deps,
    caller: &Caller,
    request: &pb::CorrectComparisonRequest,
) -> Result<pb::NodeComparisonRow, Error> {
    let node_id = id::parse("node_id", &request.node_id)?;
    let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
    let reason = audit::reason(&request.reason)?;
    if request.etag.is_empty() {
        return Err(Error::required("etag"));
    }
    if request.correction() == pb::ComparisonCorrection::Unspecified {
        return Err(Error::required("correction"));
    }
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method: METHOD,
        key: caller.idempotency_key()?,
    };
    let hash = idempotency::hash(request);
    let found = row_of(deps, node_id, allocation_id).await?;
    // after the host has answered: the same call may have done it meanwhile
    let mut conn = deps.pool.acquire().await?;
    let is_replay =
        idempotency::lookup(&mut conn, scope, &hash).await? != idempotency::Lookup::Fresh;
    drop(conn);
    let correction = match &found {
        // done before, or to be done once more: the first call was broken off between its record and its effect
        Some(one) if is_replay && one.row.etag != request.etag => return Ok(one.row.clone()),
        None if is_replay => return Ok(nothing_left(allocation_id)),
        found => offered(found.as_ref(), request)?,
    };
    if !is_replay {
        let mut tx = deps.pool.begin().await?;
        idempotency::record(&mut tx, scope, &hash, &allocation_id.to_string()).await?;
        let workflow_id = in_ledger(&mut tx, allocation_id, correction).await?;
        let detail = json!({
            "reason": reason, "allocation_id": allocation_id, "correction": correction.0.as_str(),
            "finding": correction.1.map(|discrepancy| discrepancy.kind()), "workflow_id": workflow_id,
        });
        // what it leaves is known when the host has been compared again
        let before = found.as_ref().map(|one| &one.row);
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "node.correct",
            resource: "node",
            resource_id: &node_id.to_string(),
            request_id: &caller.request_id,
            detail: audit::with_digests(detail, before, None),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(%node_id, %allocation_id, correction = correction.0.as_str(), "accept correction of a row");
        deps.wake.notify(workflows::TOPIC).await;
        deps.wake.notify(outbox::TOPIC).await;
    }
    if correction.0 == Correction::RemoveLeftovers {
        let host = Host::of_node(deps, node_id).await;
        let host = host.map_err(unreachable)?;
        let removed = host.remove_leftovers(allocation_id).await;
        removed.map_err(|error| not_removed(&error))?;
    }
    let row = row_of(deps, node_id, allocation_id).await?;
    Ok(row.map_or_else(|| nothing_left(allocation_id), |one| one.row))
}

async fn row_of(
    deps: &Deps,
    node_id: Uuid,
    allocation_id: Uuid,
) -> Result<Option<Compared>, Error> {
    let wanted = allocation_id.to_string();
    let compared = compare(deps, node_id).await?;
    Ok(compared
        .into_iter()
        .find(|one| one.row.allocation_id == wanted))
}

/// The correction that the row offers, when it is the row and the correction that the operator means.
fn offered(
    found: Option<&Compared>,
    request: &pb::CorrectComparisonRequest,
) -> Result<(Correction, Option<Discrepancy>), Error> {
    let now = found.map(|one| one.row.etag.as_str()).unwrap_or_default();
    etag::check(&request.etag, now)?;
    let Some(Compared { row, judged }) = found else {
        return Err(Error::internal("a row without an etag"));
    };
    let Judged {
        correction,
        discrepancy,
        ..
    } = *judged;
    match correction {
        Some(correction) if row.correction() == request.correction() => {
            Ok((correction, discrepancy))
        }
        _ if request.correction() == pb::ComparisonCorrection::Undo
            && (row.has_claims || !row.journal_slot_ids.is_empty()) =>
        {
            Err(claimed(
                "The ledger or the host holds slots for the allocation, so nothing is removed.",
            ))
        }
        _ => Err(Error::new(
            Code::FailedPrecondition,
            ErrorReason::StateConflict,
            "The row offers another correction, or none: do what its detail says.",
        )),
    }
}

fn claimed(why: impl Into<String>) -> Error {
    Error::new(Code::FailedPrecondition, ErrorReason::Claimed, why)
}

/// What of a correction is done in the ledger; returns the workflow that it started.
async fn in_ledger(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    (correction, discrepancy): (Correction, Option<Discrepancy>),
) -> Result<Option<Uuid>, Error> {
    match (correction, discrepancy) {
        (
            Correction::Adopt | Correction::Finish,
            Some(Discrepancy::UnexpectedShutdown {
                boot_id, with_host, ..
            }),
        ) => Ok(power::unexpected_shutdown(conn, allocation_id, boot_id, with_host).await?),
        (Correction::CleanUp, _) => match clean_up(conn, allocation_id).await {
            Ok(workflow_id) => Ok(Some(workflow_id)),
            // the reconciler was quicker: a workflow works on it by now
            Err(error)
                if error
                    .as_database_error()
                    .is_some_and(sqlx::error::DatabaseError::is_unique_violation) =>
            {
                etag::check("before", "after").map(|()| None)
            }
            Err(error) => Err(error.into()),
        },
        _ => Ok(None),
    }
}

/// A host's refusal to remove what it finds claimed; all else is a host that does not do it now.
fn not_removed(error: &Error) -> Error {
    match error.reason() {
        ErrorReason::LeaseHeld | ErrorReason::OperationConflict => {
            claimed(format!("The host removes nothing: {error}."))
        }
        _ => unreachable(StepError::of_host(error)),
    }
}

fn nothing_left(allocation_id: Uuid) -> pb::NodeComparisonRow {
    pb::NodeComparisonRow {
        allocation_id: allocation_id.to_string(),
        verdict: pb::ComparisonVerdict::Agrees.into(),
        ..pb::NodeComparisonRow::default()
    }
}
