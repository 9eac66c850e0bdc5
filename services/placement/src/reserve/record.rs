//! Writing a reservation: the allocation, its slots and its claims.
use gpuaas_kit::id::{IdGen, random_hex};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::Request;
use crate::catalog::Sku;
use crate::decision::{self, CandidateNode, Choice};
use crate::model::{SlotStatus, Snapshot};
use crate::{Error, Result, nodes, slots, workflows};

pub(super) async fn insert_allocation(
    conn: &mut PgConnection,
    id: Uuid,
    principal: &str,
    request: &Request,
    sku: &Sku,
    node_id: Uuid,
) -> Result<()> {
    let done = sqlx::query(
        "INSERT INTO allocations (id, project_id, name, region_code, sku, gpu_count, capacity_shape, node_id, state, image,
                                  ssh_public_keys, labels, guest_user, lab, price, principal, request_id, traceparent,
                                  deadline_at)
         SELECT $1, $2, $3, $4, $5, $6, $7, n.id, 'reserved', $9, $10, $11, $12, n.lab, $13, $14, $15, $16,
                clock_timestamp() + make_interval(secs => $17)
           FROM nodes n WHERE n.id = $8",
    )
    .bind(id)
    .bind(request.project_id)
    .bind(&request.name)
    .bind(&request.region_code)
    .bind(&request.sku)
    .bind(i32::try_from(request.gpu_count).unwrap_or(i32::MAX))
    .bind(sku.capacity_shape.as_str())
    .bind(node_id)
    .bind(Json(&request.image))
    .bind(&request.ssh_public_keys)
    .bind(Json(&request.labels))
    .bind(format!("u_{}", random_hex(8)))
    .bind(sku.price.as_ref().map(Json))
    .bind(principal)
    .bind(&request.request_id)
    .bind(&request.traceparent)
    .bind(workflows::PROVISION_WINDOW_SECONDS as f64)
    .execute(conn)
    .await;
    match done {
        Ok(_) => Ok(()),
        Err(error)
            if error.as_database_error().and_then(|e| e.constraint())
                == Some("allocations_name") =>
        {
            Err(Error::NameTaken(request.name.clone()))
        }
        Err(error) => Err(error.into()),
    }
}

/// Reserves the chosen slots, generation raised, and makes one claim each (B-22, B-40).
pub(super) async fn claim(
    conn: &mut PgConnection,
    ids: IdGen,
    allocation_id: Uuid,
    sku: &Sku,
    choice: &Choice,
    node: &CandidateNode,
) -> Result<()> {
    let _ = slots::transition(
        conn,
        &choice.slot_ids,
        &[SlotStatus::Available],
        SlotStatus::Reserved,
        true,
    )
    .await?;
    let host = nodes::get(conn, choice.node_id).await?;
    for slot_id in &choice.slot_ids {
        let slot = slots::get(conn, choice.node_id, *slot_id).await?;
        let fabric_key = node
            .slots
            .iter()
            .find(|candidate| candidate.id == *slot_id)
            .map_or("", |slot| decision::fabric_key(slot, node));
        let snapshot = Snapshot {
            profile: sku.profile.clone(),
            price: sku.price.clone(),
            bindings: slot.bindings,
            instance_id: host.instance_id,
            agent_address: host.agent_address.clone(),
            hostname: host.hostname.clone(),
        };
        sqlx::query(
            "INSERT INTO claims (id, allocation_id, sku, kind, node_id, slot_id, slot_class, slot_generation, state,
                                 fabric_key, snapshot)
             VALUES ($1, $2, $3, 'slot', $4, $5, $6, $7, 'reserved', $8, $9)",
        )
        .bind(ids.next())
        .bind(allocation_id)
        .bind(&sku.code)
        .bind(choice.node_id)
        .bind(slot_id)
        .bind(slot.class.as_str())
        .bind(slot.generation)
        .bind(fabric_key)
        .bind(Json(&snapshot))
        .execute(&mut *conn)
        .await?;
    }
    Ok(())
}
