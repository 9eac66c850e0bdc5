//! Stop, start, reboot and rescue as a user requests them.

use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, audit, idempotency, trace};
use gpuaas_placement::Scope;
use gpuaas_placement::power::{self, Action};
use gpuaas_placement::{allocations, lock, timeline};
use serde_json::json;
use uuid::Uuid;

use super::rescue;
use crate::store::owned::owned;
use crate::workflow::Deps;

/// Accepts the change, `forced` if the guest is not to be asked, with the `slug` of the image of a rescue, notes it and starts its
/// workflow in one transaction. The same key again changes nothing.
///
/// # Errors
/// There is no such allocation in the caller's projects; it is in another state.
pub async fn change(
    deps: &Deps,
    caller: &Caller,
    allocation_id: Uuid,
    (action, forced): (Action, bool),
    slug: &str,
    hash: &[u8],
) -> Result<(), Error> {
    let (method, audited) = match action {
        Action::Stop => ("StopAllocation", "allocation.stop"),
        Action::Start => ("StartAllocation", "allocation.start"),
        Action::Reboot => ("RebootAllocation", "allocation.reboot"),
        Action::Rescue => ("RescueAllocation", "allocation.rescue"),
        Action::Unrescue => ("UnrescueAllocation", "allocation.unrescue"),
    };
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method,
        key: caller.idempotency_key()?,
    };
    let image = match action {
        Action::Rescue => {
            let mut conn = deps.pool.acquire().await?;
            let (row, _) = owned(&mut conn, caller, allocation_id).await?;
            // a replay is answered whatever became of the image since (P4)
            if idempotency::lookup(&mut conn, scope, hash).await? != idempotency::Lookup::Fresh {
                return Ok(());
            }
            drop(conn);
            Some(rescue::image(deps, &row, slug).await?)
        }
        _ => None,
    };
    let mut tx = deps.pool.begin().await?;
    let (_, project) = owned(&mut tx, caller, allocation_id).await?;
    let resource_id = allocation_id.to_string();
    if idempotency::take(&mut tx, scope, hash, &resource_id).await? != idempotency::Lookup::Fresh {
        return Ok(());
    }
    let before = lock::allocation(&mut tx, Scope::Platform, allocation_id).await?;
    let (_, workflow_id) = power::begin_with(
        &mut tx,
        Scope::Project(project.id()),
        allocation_id,
        action,
        image,
        forced,
        &trace::current_traceparent(),
        &caller.request_id,
    )
    .await?;
    timeline::attribute(&mut tx, allocation_id, &caller.principal, "").await?;
    let detail = match slug {
        "" => json!({"workflow_id": workflow_id, "force": forced}),
        image => json!({"workflow_id": workflow_id, "force": forced, "image": image}),
    };
    let after = allocations::get(&mut tx, Scope::Platform, allocation_id).await?;
    let detail = allocations::with_digests(detail, Some(&before), &after);
    let entry = audit::Entry {
        principal: &caller.principal,
        action: audited,
        resource: "allocation",
        resource_id: &resource_id,
        request_id: &caller.request_id,
        detail: audit::in_project(detail, project.id()),
    };
    audit::record(&mut tx, entry).await?;
    tx.commit().await?;
    tracing::info!(%allocation_id, %workflow_id, action = action.as_str(), "accept change of power");
    deps.wake.notify(gpuaas_placement::workflows::TOPIC).await;
    deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
    Ok(())
}
