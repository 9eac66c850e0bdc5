//! What a project changes of its allocation: the name for people, the protection from release, the time of release.

use gpuaas_common::identity::Caller;
use gpuaas_common::text::is_deceptive;
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, audit, etag, id, idempotency};
use gpuaas_placement::model::Allocation;
use gpuaas_placement::update::{self, AutoRelease, Update};
use gpuaas_placement::{Scope, allocations, lock};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use uuid::Uuid;

use crate::convert;
use crate::store::owned::owned;
use crate::workflow::Deps;

const UPDATE: &str = "UpdateAllocation";
const TIME: &str = "auto_release_time";
/// Most characters of a name for people.
const MOST: usize = 200;

/// Changes what is given, and returns the allocation's id. The same key again changes nothing.
///
/// # Errors
/// There is no such allocation in the caller's projects; nothing is given; the name is too long or more than a line; the
/// time is not in the future; it would be protected and end by itself; it was changed after the caller had read it.
pub async fn update(
    deps: &Deps,
    caller: &Caller,
    request: &pb::UpdateAllocationRequest,
) -> Result<Uuid, Error> {
    let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
    let change = parse(request)?;
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method: UPDATE,
        key: caller.idempotency_key()?,
    };
    let hash = idempotency::hash(request);
    let mut tx = deps.pool.begin().await?;
    let (_, project) = owned(&mut tx, caller, allocation_id).await?;
    let resource_id = allocation_id.to_string();
    if idempotency::take(&mut tx, scope, &hash, &resource_id).await? != idempotency::Lookup::Fresh {
        return Ok(allocation_id);
    }
    // a repeat, which may come after that time, was answered above
    if let Some(AutoRelease::At(time)) = change.auto_release
        && time.to_jiff() <= Timestamp::now()
    {
        return Err(Error::invalid(TIME, "must be in the future"));
    }
    let ledger_scope = Scope::Project(project.id());
    let before = lock::allocation(&mut tx, ledger_scope, allocation_id).await?;
    etag::check(&request.etag, &convert::etag(&before))?;
    update::apply(&mut tx, ledger_scope, allocation_id, change).await?;
    let after = allocations::get(&mut tx, ledger_scope, allocation_id).await?;
    let detail = json!({"before": shown(&before), "after": shown(&after)});
    let detail = allocations::with_digests(detail, Some(&before), &after);
    let entry = audit::Entry {
        principal: &caller.principal,
        action: "allocation.update",
        resource: "allocation",
        resource_id: &resource_id,
        request_id: &caller.request_id,
        detail: audit::in_project(detail, project.id()),
    };
    audit::record(&mut tx, entry).await?;
    tx.commit().await?;
    tracing::info!(%allocation_id, "update allocation");
    deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
    Ok(allocation_id)
}

fn shown(row: &Allocation) -> serde_json::Value {
    json!({
        "display_name": row.display_name,
        "termination_protection": row.termination_protection,
        "auto_release_time": row.auto_release_at.map(|at| at.to_jiff().to_string()),
    })
}

fn parse(request: &pb::UpdateAllocationRequest) -> Result<Update<'_>, Error> {
    let auto_release = match (&request.auto_release_time, request.no_auto_release) {
        (None, false) => None,
        (None, true) => Some(AutoRelease::Never),
        (Some(_), true) => {
            return Err(Error::invalid(
                "no_auto_release",
                "contradicts auto_release_time",
            ));
        }
        (Some(time), false) => {
            let time =
                from_proto_time(time).ok_or_else(|| Error::invalid(TIME, "must be a time"))?;
            Some(AutoRelease::At(time.to_sqlx()))
        }
    };
    let update = Update {
        display_name: request
            .display_name
            .as_deref()
            .map(display_name)
            .transpose()?,
        termination_protection: request.termination_protection,
        auto_release,
    };
    if update.display_name.is_none()
        && update.termination_protection.is_none()
        && auto_release.is_none()
    {
        return Err(Error::required("display_name"));
    }
    Ok(update)
}

fn display_name(given: &str) -> Result<&str, Error> {
    const FIELD: &str = "display_name";
    let name = given.trim();
    if name.chars().count() > MOST {
        let rule = format!("must be at most {MOST} characters");
        return Err(Error::invalid(FIELD, rule));
    }
    if name.chars().any(is_deceptive) {
        let rule = "must be one line without marks that change the direction of text";
        return Err(Error::invalid(FIELD, rule));
    }
    Ok(name)
}
