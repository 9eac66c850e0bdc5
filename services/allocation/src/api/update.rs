//! The name for people of an allocation.

use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, audit, id, idempotency};
use gpuaas_placement::{Scope, allocations};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use serde_json::json;
use uuid::Uuid;

use super::owned::owned;
use crate::workflow::Deps;

const UPDATE: &str = "UpdateAllocation";
/// Most characters of a name for people.
const MOST: usize = 200;

/// Changes it, and returns the allocation's id. The same key again changes nothing.
///
/// # Errors
/// There is no such allocation in the caller's projects; the name is left out, too long or more than a line.
pub async fn update(
    deps: &Deps,
    caller: &Caller,
    request: &pb::UpdateAllocationRequest,
) -> Result<Uuid, Error> {
    let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
    let name = display_name(request)?;
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method: UPDATE,
        key: caller.idempotency_key()?,
    };
    let hash = idempotency::hash(request);
    let mut tx = deps.pool.begin().await?;
    let (before, project) = owned(&mut tx, caller, allocation_id).await?;
    if idempotency::lookup(&mut tx, scope, &hash).await? != idempotency::Lookup::Fresh {
        return Ok(allocation_id);
    }
    allocations::rename(&mut tx, Scope::Project(project.id()), allocation_id, name).await?;
    let resource_id = allocation_id.to_string();
    idempotency::record(&mut tx, scope, &hash, &resource_id).await?;
    let entry = audit::Entry {
        principal: &caller.principal,
        action: "allocation.update",
        resource: "allocation",
        resource_id: &resource_id,
        request_id: &caller.request_id,
        detail: json!({"display_name": name, "before": before.display_name}),
    };
    audit::record(&mut tx, entry).await?;
    tx.commit().await?;
    tracing::info!(%allocation_id, "rename allocation");
    deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
    Ok(allocation_id)
}

fn display_name(request: &pb::UpdateAllocationRequest) -> Result<&str, Error> {
    const FIELD: &str = "display_name";
    let given = request.display_name.as_deref();
    let name = given.ok_or_else(|| Error::required(FIELD))?.trim();
    if name.chars().count() > MOST {
        let rule = format!("must be at most {MOST} characters");
        return Err(Error::invalid(FIELD, rule));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::invalid(FIELD, "must be one line"));
    }
    Ok(name)
}
