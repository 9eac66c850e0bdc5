//! Writing a reservation: the allocation, and the claims on its slots.
use gpuaas_kit::id::{IdGen, random_hex};
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::Request;
use super::place::Taken;
use crate::catalog::Sku;
use crate::model::{Allocation, AllocationState, SlotClass, Snapshot};
use crate::outbox::Held;
use crate::{Error, Result, allocations, decision, workflows};

/// How an allocation begins.
#[derive(Debug, Clone, Copy)]
pub(super) enum Beginning {
    /// Placed on a node.
    On(Uuid),
    /// In line until this time.
    InLine(Timestamp),
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
        Beginning::InLine(deadline) => (AllocationState::Requested, None, Some(deadline)),
    };
    let stored = sqlx::query_as(concat!(
        "INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, image,
                                  ssh_public_keys, labels, guest_user, lab, price, principal, request_id, traceparent,
                                  deadline_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,
                 coalesce((SELECT n.lab FROM nodes n WHERE n.id = $8), $14), $15, $16, $17, $18,
                 coalesce($19, clock_timestamp() + make_interval(secs => $20)))
         RETURNING ",
        allocations::columns!()
    ))
    .bind(id)
    .bind(request.project_id)
    .bind(&request.name)
    .bind(&request.region_code)
    .bind(&request.sku)
    .bind(i32::try_from(request.gpu_count).unwrap_or(i32::MAX))
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
    .fetch_one(conn)
    .await;
    stored.map_err(|error: sqlx::Error| {
        match error.as_database_error().and_then(|e| e.constraint()) {
            Some("allocations_name") => Error::NameTaken(request.name.clone()),
            _ => error.into(),
        }
    })
}

/// Makes one claim on each slot that was taken (B-22).
pub(super) async fn claim(
    conn: &mut PgConnection,
    ids: IdGen,
    allocation_id: Uuid,
    sku: &Sku,
    taken: Taken,
) -> Result<Vec<Held<'static>>> {
    let Taken { node, host, slots } = taken;
    let mut made = Vec::with_capacity(slots.len());
    let (mut claim_ids, mut slot_ids, mut classes) = (Vec::new(), Vec::new(), Vec::new());
    let (mut generations, mut fabric_keys, mut snapshots) = (Vec::new(), Vec::new(), Vec::new());
    for slot in slots {
        let held = Held {
            id: ids.next(),
            kind: "slot",
            node_id: node.id,
            slot_id: Some(slot.id),
            slot_generation: slot.generation,
        };
        claim_ids.push(held.id);
        slot_ids.push(slot.id);
        classes.push(slot.class.as_str());
        generations.push(slot.generation);
        let candidate = node.slots.iter().find(|candidate| candidate.id == slot.id);
        fabric_keys.push(candidate.map_or("", |slot| decision::fabric_key(slot, &node)));
        snapshots.push(Json(Snapshot {
            profile: sku.profile.clone(),
            price: sku.price.clone(),
            bindings: slot.bindings,
            instance_id: host.instance_id,
            agent_address: host.agent_address.clone(),
            hostname: host.hostname.clone(),
        }));
        made.push(held);
    }
    sqlx::query(
        "INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state,
                             fabric_key, snapshot)
         SELECT c.id, $1, $2, 'slot', $3, c.slot_id, c.class, c.generation, 'reserved', c.fabric_key, c.snapshot
           FROM unnest($4::uuid[], $5::uuid[], $6::text[], $7::bigint[], $8::text[], $9::jsonb[])
                AS c (id, slot_id, class, generation, fabric_key, snapshot)",
    )
    .bind(allocation_id)
    .bind(&sku.code)
    .bind(node.id)
    .bind(claim_ids)
    .bind(slot_ids)
    .bind(classes)
    .bind(generations)
    .bind(fabric_keys)
    .bind(snapshots)
    .execute(conn)
    .await?;
    Ok(made)
}
