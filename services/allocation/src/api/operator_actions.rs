//! What operators see of the allocations of all projects, and do to them: stop and release, with a reason that the members
//! of the project read.

use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, audit, id, idempotency, page, trace};
use gpuaas_placement::allocations::{self, Listed};
use gpuaas_placement::model::AllocationState;
use gpuaas_placement::{Scope, lock, operator_actions};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use serde_json::json;

use crate::convert;
use crate::store::read;
use crate::workflow::Deps;

/// What an operator does.
#[derive(Debug, Clone, Copy)]
pub(super) enum Doing {
    Stop,
    Release,
}

impl Doing {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Stop => ("StopTenantAllocation", "allocation.operator_stop"),
            Self::Release => ("ReleaseTenantAllocation", "allocation.operator_release"),
        }
    }
}

pub(super) async fn list_all(
    deps: &Deps,
    request: &pb::ListAllAllocationsRequest,
) -> Result<pb::ListAllAllocationsResponse, Error> {
    let listed = listed(request)?;
    let selection = Selection::parse(&allocations::OF_ALL, &request.filter, &request.order_by)?;
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &[
            "all",
            &request.project_id,
            &request.node_id,
            listed.state.map_or("", AllocationState::as_str),
            if request.include_ended { "ended" } else { "" },
        ],
    };
    let mut conn = deps.pool.acquire().await?;
    let (rows, next_page_token) =
        allocations::select(&mut conn, listed, &selection, wanted).await?;
    let mut now = read::now(&mut conn, &rows).await?;
    let allocations = rows.into_iter().map(|row| pb::TenantAllocation {
        node_id: row.node_id.map(|id| id.to_string()).unwrap_or_default(),
        allocation: {
            let now = now.remove(&row.id).unwrap_or_default();
            Some(convert::allocation(row, now))
        },
    });
    Ok(pb::ListAllAllocationsResponse {
        allocations: allocations.collect(),
        next_page_token,
    })
}

/// Accepts the change, notes the reason and starts the workflow in one transaction. The same key again changes nothing.
pub(super) async fn operate<M: prost::Message>(
    deps: &Deps,
    caller: &Caller,
    request: &M,
    (allocation_id, given): (&str, &str),
    doing: Doing,
) -> Result<pb::Allocation, Error> {
    let allocation_id = id::parse("allocation_id", allocation_id)?;
    let reason = audit::reason(given)?;
    let (method, action) = doing.names();
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method,
        key: caller.idempotency_key()?,
    };
    let hash = idempotency::hash(request);
    let mut tx = deps.pool.begin().await?;
    let resource_id = allocation_id.to_string();
    if idempotency::take(&mut tx, scope, &hash, &resource_id).await? == idempotency::Lookup::Fresh {
        let before = lock::allocation(&mut tx, Scope::Platform, allocation_id).await?;
        let traceparent = trace::current_traceparent();
        let (trace, request_id) = (traceparent.as_str(), caller.request_id.as_str());
        let workflow_id = match doing {
            Doing::Stop => Some(
                operator_actions::stop(&mut tx, allocation_id, reason, trace, request_id).await?,
            ),
            Doing::Release => {
                operator_actions::release(&mut tx, allocation_id, reason, trace, request_id)
                    .await?
                    .workflow_id
            }
        };
        let after = allocations::get(&mut tx, Scope::Platform, allocation_id).await?;
        let detail = json!({"reason": reason, "workflow_id": workflow_id});
        let detail = allocations::with_digests(detail, Some(&before), &after);
        let entry = audit::Entry {
            principal: &caller.principal,
            action,
            resource: "allocation",
            resource_id: &resource_id,
            request_id,
            detail: audit::in_project(detail, after.project_id),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(%allocation_id, action, "accept change by operator");
        deps.wake.notify(gpuaas_placement::workflows::TOPIC).await;
        deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
    } else {
        tx.rollback().await?;
    }
    let mut conn = deps.pool.acquire().await?;
    let row = allocations::get(&mut conn, Scope::Platform, allocation_id).await?;
    let now = read::now_of(&mut conn, &row).await?;
    Ok(convert::allocation(row, now))
}

fn listed(request: &pb::ListAllAllocationsRequest) -> Result<Listed, Error> {
    let given = |field, text: &str| match text {
        "" => Ok(None),
        text => id::parse(field, text).map(Some),
    };
    let state = match pb::AllocationState::try_from(request.state) {
        Ok(pb::AllocationState::Unspecified) => None,
        Ok(pb::AllocationState::Requested) => Some(AllocationState::Requested),
        Ok(pb::AllocationState::Reserved) => Some(AllocationState::Reserved),
        Ok(pb::AllocationState::Provisioning) => Some(AllocationState::Provisioning),
        Ok(pb::AllocationState::Active) => Some(AllocationState::Active),
        Ok(pb::AllocationState::Releasing) => Some(AllocationState::Releasing),
        Ok(pb::AllocationState::Released) => Some(AllocationState::Released),
        Ok(pb::AllocationState::Failed) => Some(AllocationState::Failed),
        Err(_) => return Err(Error::invalid("state", "is not a state of allocations")),
    };
    Ok(Listed {
        project_id: given("project_id", &request.project_id)?,
        node_id: given("node_id", &request.node_id)?,
        state,
        include_ended: request.include_ended,
    })
}
