//! The forced release of an allocation whose host is lost: an administrator's word, on record.

use gpuaas_common::identity::Caller;
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, audit, id, idempotency};
use gpuaas_placement::force_release::{self, Attestation, Fate, ForceRelease};
use gpuaas_placement::{Scope, allocations, lock};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::convert;
use crate::store::read;
use crate::workflow::Deps;

const FORCE_RELEASE: &str = "ForceReleaseAllocation";

pub(super) async fn force_release(
    deps: &Deps,
    caller: &Caller,
    request: &pb::ForceReleaseAllocationRequest,
) -> Result<pb::ForceRelease, Error> {
    let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
    let word = attestation(caller, request)?;
    let mut tx = deps.pool.begin().await?;
    if request.validate_only {
        force_release::force(&mut tx, allocation_id, &word).await?;
        let would_be = answer(&mut tx, allocation_id).await?;
        tx.rollback().await?;
        return Ok(would_be);
    }
    let scope = idempotency::Scope {
        principal: &caller.principal,
        method: FORCE_RELEASE,
        key: caller.idempotency_key()?,
    };
    let hash = idempotency::hash(request);
    let resource_id = allocation_id.to_string();
    if idempotency::take(&mut tx, scope, &hash, &resource_id).await? == idempotency::Lookup::Fresh {
        let before = lock::allocation(&mut tx, Scope::Platform, allocation_id).await?;
        force_release::force(&mut tx, allocation_id, &word).await?;
        let after = allocations::get(&mut tx, Scope::Platform, allocation_id).await?;
        let done = answer(&mut tx, allocation_id).await?;
        let detail = json!({
            "reason": word.reason, "host_fate": word.fate.as_str(), "node_id": done.node_id,
            "slot_ids": done.slot_ids,
            "billing_end_time": done.billing_end_time.map(|at| at.seconds),
        });
        let detail = allocations::with_digests(detail, Some(&before), &after);
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "allocation.force_release",
            resource: "allocation",
            resource_id: &resource_id,
            request_id: &caller.request_id,
            detail: audit::in_project(detail, after.project_id),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::warn!(
            %allocation_id, node_id = done.node_id, host_fate = word.fate.as_str(),
            "release allocation by force"
        );
        deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
    } else {
        tx.rollback().await?;
    }
    let mut conn = deps.pool.acquire().await?;
    answer(&mut conn, allocation_id).await
}

fn attestation<'a>(
    caller: &'a Caller,
    request: &'a pb::ForceReleaseAllocationRequest,
) -> Result<Attestation<'a>, Error> {
    let fate = match request.host_fate() {
        pb::HostFate::Unspecified => return Err(Error::required("host_fate")),
        pb::HostFate::PoweredOff => Fate::PoweredOff,
        pb::HostFate::DisksDestroyed => Fate::DisksDestroyed,
        pb::HostFate::Reinstalled => Fate::Reinstalled,
        pb::HostFate::WrittenOff => Fate::WrittenOff,
    };
    let billing_end = match &request.billing_end_time {
        None => None,
        Some(time) => Some(
            from_proto_time(time)
                .ok_or_else(|| Error::invalid("billing_end_time", "must be a time"))?
                .to_sqlx(),
        ),
    };
    Ok(Attestation {
        principal: &caller.principal,
        fate,
        reason: audit::reason(&request.reason)?,
        billing_end,
    })
}

async fn answer(conn: &mut PgConnection, allocation_id: Uuid) -> Result<pb::ForceRelease, Error> {
    let missing = || Error::internal("a forced release is not on record");
    let forced = force_release::find(conn, allocation_id)
        .await?
        .ok_or_else(missing)?;
    let row = allocations::get(conn, Scope::Platform, allocation_id).await?;
    let now = read::now_of(conn, &row).await?;
    Ok(pb::ForceRelease {
        node_id: forced.node_id.to_string(),
        host_fate: fate(&forced).into(),
        slot_ids: forced.slot_ids.iter().map(Uuid::to_string).collect(),
        time: Some(convert::time(forced.at)),
        host_last_heartbeat_time: forced.last_seen_at.map(convert::time),
        billing_end_time: row.billed_until.map(convert::time),
        reason: forced.reason,
        principal: forced.principal,
        allocation: Some(convert::allocation(row, now)),
    })
}

fn fate(forced: &ForceRelease) -> pb::HostFate {
    match forced.fate() {
        Some(Fate::PoweredOff) => pb::HostFate::PoweredOff,
        Some(Fate::DisksDestroyed) => pb::HostFate::DisksDestroyed,
        Some(Fate::Reinstalled) => pb::HostFate::Reinstalled,
        Some(Fate::WrittenOff) => pb::HostFate::WrittenOff,
        None => pb::HostFate::Unspecified,
    }
}
