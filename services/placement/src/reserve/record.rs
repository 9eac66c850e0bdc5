//! Writing a reservation: the allocation, and the claims on its slots.
use gpuaas_common::id::{IdGen, random_hex};
use gpuaas_common::user_data::UserData;
use gpuaas_common::{audit, origin};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::place::Taken;
use crate::catalog::Sku;
use crate::error::{Error, Result};
use crate::model::{Allocation, AllocationState, Request, SlotClass, Snapshot};
use crate::outbox::EventClaim;
use crate::slots::take;
use crate::{allocations, outbox, user_data, workflows};

/// How an allocation begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beginning {
    /// Placed on a node.
    On(Uuid),
    /// Queued until this time.
    Queued(Timestamp),
}

/// Stores an allocation.
///
/// # Errors
/// [`Error::NameTaken`].
pub(super) async fn insert_allocation(
    conn: &mut PgConnection,
    id: Uuid,
    principal: &str,
    request: &Request,
    sku: &Sku,
    beginning: Beginning,
) -> Result<Allocation> {
    let (state, node_id, deadline) = match beginning {
        Beginning::On(node_id) => (AllocationState::Reserved, Some(node_id), None),
        Beginning::Queued(deadline) => (AllocationState::Requested, None, Some(deadline)),
    };
    let user_data = request.user_data.as_ref();
    let stored = sqlx::query_as(concat!(
        "INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, image,
                                  ssh_public_keys, labels, guest_user, lab, price, principal, request_id, traceparent,
                                  deadline_at, constraints, ssh_key_names, termination_protection, auto_release_at,
                                  user_data_digest, user_data_bytes)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                 coalesce((SELECT n.lab FROM nodes n WHERE n.id = $8), $14), $15, $16, $17, $18,
                 coalesce($19, clock_timestamp() + make_interval(secs => $20)), $21, $22, $23, $24,
                 $25, $26)
         RETURNING ",
        allocations::columns!()
    ))
    .bind(id)
    .bind(request.project_id)
    .bind(&request.name)
    .bind(&request.region_code)
    .bind(&request.sku)
    .bind(request.gpu_count.column())
    .bind(sku.capacity_shape.as_str())
    .bind(node_id)
    .bind(state.as_str())
    .bind(Json(&request.image))
    .bind(&request.ssh_public_keys)
    .bind(Json(&request.labels))
    .bind(format!("u_{}", random_hex(8)))
    .bind(sku.slot_class == SlotClass::Lab)
    .bind(sku.price.as_ref().map(Json))
    .bind(principal)
    .bind(&request.request_id)
    .bind(&request.traceparent)
    .bind(deadline.map(jiff::Timestamp::to_sqlx))
    .bind(workflows::PROVISION_WINDOW_SECONDS as f64)
    .bind(Json(&request.constraints))
    .bind(&request.ssh_key_names)
    .bind(request.termination_protection)
    .bind(request.auto_release_at.map(jiff::Timestamp::to_sqlx))
    .bind(user_data.map_or_else(String::new, UserData::digest))
    .bind(user_data.map_or(0, |data| data.bytes() as i32))
    .fetch_one(&mut *conn)
    .await;
    let stored = stored.map_err(|error: sqlx::Error| {
        match error.as_database_error().and_then(|e| e.constraint()) {
            Some("allocations_name") => Error::NameTaken(request.name.clone()),
            _ => error.into(),
        }
    })?;
    if let Some(data) = user_data {
        user_data::store(conn, id, data).await?;
    }
    Ok(stored)
}

/// A claim that is to be made, `reserved`.
pub(super) struct NewClaim {
    pub(super) held: EventClaim<'static>,
    /// Of its slot; none: a bare-metal node.
    pub(super) class: Option<SlotClass>,
    /// Parent fabric device that it holds alone.
    pub(super) fabric_key: String,
    pub(super) snapshot: Snapshot,
}

/// One claim for each slot that was taken (B-22).
pub(super) fn claims(ids: IdGen, sku: &Sku, taken: Taken) -> Vec<NewClaim> {
    let Taken { host, slots, alone } = taken;
    let of_slot = |slot: take::Reserved| {
        let device = slot.bindings.fabric_device.clone();
        NewClaim {
            held: EventClaim {
                id: ids.next(),
                kind: "slot",
                node_id: host.id,
                slot_id: Some(slot.id),
                slot_generation: slot.generation,
            },
            class: Some(slot.class),
            fabric_key: Some(device)
                .filter(|_| alone.contains(&slot.id))
                .unwrap_or_default(),
            snapshot: Snapshot {
                profile: sku.profile.clone(),
                price: sku.price.clone(),
                bindings: slot.bindings,
                instance_id: host.instance_id,
                agent_address: host.agent_address.clone(),
                hostname: host.hostname.clone(),
            },
        }
    };
    slots.into_iter().map(of_slot).collect()
}

/// Makes the claims of an allocation that is `reserved`, starts its workflow and writes its event, in one statement: what
/// a row costs is small next to what a round trip costs. `audited`: who is to be named as the one who got it (P10).
pub(super) async fn begin(
    conn: &mut PgConnection,
    allocation: &Allocation,
    claims: Vec<NewClaim>,
    request: &Request,
    audited: Option<audit::Entry<'_>>,
) -> Result<()> {
    let of = |claim: &NewClaim| claim.class.map(SlotClass::as_str);
    let classes: Vec<Option<&str>> = claims.iter().map(of).collect();
    let fabric_keys: Vec<&str> = claims.iter().map(|one| one.fabric_key.as_str()).collect();
    let snapshots: Vec<Json<&Snapshot>> = claims.iter().map(|one| Json(&one.snapshot)).collect();
    let held: Vec<&EventClaim<'_>> = claims.iter().map(|claim| &claim.held).collect();
    let message = format!(
        "Reserved {} GPU of {} in {}.",
        request.gpu_count, request.sku, request.region_code
    );
    let (principal, detail) = audited.map(|entry| (entry.principal, entry.detail)).unzip();
    let origin = origin::current();
    sqlx::query(
        "WITH claim AS (
             INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state,
                                 fabric_key, snapshot)
             SELECT c.id, $1, $2, c.kind, c.node_id, c.slot_id, c.class, c.generation, 'reserved', c.fabric_key, c.snapshot
               FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::uuid[], $7::text[], $8::bigint[], $9::text[], $10::jsonb[])
                    AS c (id, kind, node_id, slot_id, class, generation, fabric_key, snapshot)),
         event AS (
             INSERT INTO outbox (type, aggregate_id, revision, at, project_id, data, traceparent)
             VALUES ('allocation.reserved', $1, $11, $12, $13, $14, $15)),
         work AS (
             INSERT INTO workflows (id, kind, allocation_id, deadline_at, traceparent, request_id)
             VALUES ($16, $23, $1, clock_timestamp() + make_interval(secs => $17), $15, $18)),
         head AS (
             INSERT INTO timeline_heads (allocation_id, last) VALUES ($1, 1)
             ON CONFLICT (allocation_id) DO UPDATE SET last = timeline_heads.last + 1 RETURNING last),
         told AS (
             INSERT INTO timeline (allocation_id, sequence, step, state, percent, message, ended_at, actor)
             SELECT $1, last, 'reserve', 'done', 100, $19, clock_timestamp(), coalesce($21, '') FROM head)
         INSERT INTO audit (id, principal, action, resource, resource_id, request_id, detail, address, user_agent, region)
         SELECT $20, $21, 'allocation.create', 'allocation', $1::text, $18, $22, $24, $25, $26 WHERE $21 IS NOT NULL",
    )
    .bind(allocation.id)
    .bind(&allocation.sku)
    .bind(held.iter().map(|held| held.id).collect::<Vec<_>>())
    .bind(held.iter().map(|held| held.kind).collect::<Vec<_>>())
    .bind(held.iter().map(|held| held.node_id).collect::<Vec<_>>())
    .bind(held.iter().map(|held| held.slot_id).collect::<Vec<_>>())
    .bind(classes)
    .bind(held.iter().map(|held| held.slot_generation).collect::<Vec<_>>())
    .bind(fabric_keys)
    .bind(snapshots)
    .bind(allocation.revision)
    .bind(allocation.updated_at)
    .bind(allocation.project_id)
    .bind(outbox::describe(allocation, &held))
    .bind(&request.traceparent)
    .bind(Uuid::now_v7())
    .bind(workflows::PROVISION_WINDOW_SECONDS as f64)
    .bind(&request.request_id)
    .bind(message)
    .bind(Uuid::now_v7())
    .bind(principal)
    .bind(detail)
    .bind(workflows::provision_of(allocation.capacity_shape))
    .bind(&origin.address)
    .bind(&origin.user_agent)
    .bind(&origin.region)
    .execute(conn)
    .await?;
    Ok(())
}

/// Who got what (P10).
pub(super) fn entry<'a>(
    principal: &'a str,
    request: &'a Request,
    allocation: &Allocation,
    allocation_id: &'a str,
) -> audit::Entry<'a> {
    let detail = json!({
        "project_id": request.project_id, "name": request.name, "region_code": request.region_code,
        "sku": request.sku, "gpu_count": request.gpu_count, "image": request.image.slug,
    });
    audit::Entry {
        principal,
        action: "allocation.create",
        resource: "allocation",
        resource_id: allocation_id,
        request_id: &request.request_id,
        detail: allocations::with_digests(detail, None, allocation),
    }
}
