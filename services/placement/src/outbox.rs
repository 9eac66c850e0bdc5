//! Writing events. Call while holding the row lock of the aggregate, after raising its revision.
use jiff_sqlx::Timestamp;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use crate::claims;
use crate::error::Result;
use crate::model::{Allocation, Claim};

/// Redis topic that wakes the sequencer. Notified after commit, never the record (P8).
pub const TOPIC: &str = "outbox";

/// An event to write.
#[derive(Debug, Clone)]
pub struct NewEvent<'a> {
    /// For example "allocation.active".
    pub kind: &'a str,
    /// Allocation or slot; of a quota its project.
    pub aggregate_id: Uuid,
    /// The aggregate's revision after the change.
    pub revision: i64,
    /// Ledger time of the change.
    pub at: Timestamp,
    /// Project, for events of allocations and quotas.
    pub project_id: Option<Uuid>,
    /// What it is about; an object.
    pub data: Value,
    /// Of the work that caused it.
    pub traceparent: &'a str,
}

/// Writes an event; the sequencer gives it its position after the commit.
///
/// # Errors
/// A unique violation when the aggregate already has an event of this revision.
pub async fn append(conn: &mut PgConnection, event: NewEvent<'_>) -> Result<()> {
    sqlx::query(
        "INSERT INTO outbox (type, aggregate_id, revision, at, project_id, data, traceparent)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(event.kind)
    .bind(event.aggregate_id)
    .bind(event.revision)
    .bind(event.at)
    .bind(event.project_id)
    .bind(event.data)
    .bind(event.traceparent)
    .execute(conn)
    .await?;
    Ok(())
}

/// Writes an allocation's event with everything that consumers need to act.
pub(crate) async fn append_allocation(
    conn: &mut PgConnection,
    kind: &str,
    allocation: &Allocation,
) -> Result<()> {
    let held = claims::of_allocation(conn, allocation.id).await?;
    let held: Vec<EventClaim<'_>> = held.iter().map(EventClaim::from).collect();
    append_holding(conn, kind, allocation, &held).await
}

/// A claim in an event.
pub(crate) struct EventClaim<'a> {
    pub id: Uuid,
    pub kind: &'a str,
    pub node_id: Uuid,
    pub slot_id: Option<Uuid>,
    pub slot_generation: i64,
}

impl<'a> From<&'a Claim> for EventClaim<'a> {
    fn from(claim: &'a Claim) -> Self {
        Self {
            id: claim.id,
            kind: &claim.kind,
            node_id: claim.node_id,
            slot_id: claim.slot_id,
            slot_generation: claim.slot_generation,
        }
    }
}

/// The same for a caller that has the allocation's claims, by slot index.
pub(crate) async fn append_holding(
    conn: &mut PgConnection,
    kind: &str,
    allocation: &Allocation,
    held: &[EventClaim<'_>],
) -> Result<()> {
    append(
        conn,
        NewEvent {
            kind,
            aggregate_id: allocation.id,
            revision: allocation.revision,
            at: allocation.updated_at,
            project_id: Some(allocation.project_id),
            data: describe(allocation, &held.iter().collect::<Vec<_>>()),
            traceparent: &allocation.traceparent,
        },
    )
    .await
}

/// An allocation and its claims in an event.
pub(crate) fn describe(allocation: &Allocation, held: &[&EventClaim<'_>]) -> Value {
    let claims: Vec<Value> = held
        .iter()
        .map(|claim| {
            json!({
                "id": claim.id, "kind": claim.kind, "node_id": claim.node_id, "slot_id": claim.slot_id,
                "slot_generation": claim.slot_generation.to_string(),
            })
        })
        .collect();
    json!({
        "name": allocation.name,
        "state": allocation.state,
        "power": allocation.power,
        "region_code": allocation.region_code,
        "sku": allocation.sku,
        "gpu_count": allocation.gpu_count,
        "price_version_id": allocation.price.as_ref().map(|price| price.version_id),
        // 64-bit integers travel as text: an event's data is JSON, whose numbers are doubles
        "price": allocation.price.as_ref().map(|price| json!({
            "currency": price.currency,
            "nanos_per_gpu_hour": price.nanos_per_gpu_hour.to_string(),
        })),
        "failure": allocation.failure,
        "host_lost_since": allocation.host_lost_since.map(|at| at.to_jiff().to_string()),
        "billed_until": allocation.billed_until.map(|at| at.to_jiff().to_string()),
        "device_drift_since": allocation.device_drift_since.map(|at| at.to_jiff().to_string()),
        "device_drift": allocation.device_drift,
        "display_name": allocation.display_name,
        "operator_action": allocation.operator_action,
        "operator_reason": allocation.operator_reason,
        "termination_protection": allocation.termination_protection,
        "auto_release_at": allocation.auto_release_at.map(|at| at.to_jiff().to_string()),
        "claims": claims,
    })
}
