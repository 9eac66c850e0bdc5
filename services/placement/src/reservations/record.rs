//! What the audit trail has of the changes of reservations.
use gpuaas_common::audit;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

use super::message::message;
use super::stored::{CapacityReservation, get};
use crate::error::Result;
use crate::model::Scope;

/// What a loop without a person behind it is called in the audit.
pub(super) const SYSTEM: &str = "service:scheduler";

/// The detail of a change with the digests of what the reservation was and is.
pub(super) async fn digested(
    conn: &mut PgConnection,
    before: CapacityReservation,
    detail: Value,
) -> Result<Value> {
    let after = message(get(conn, Scope::Platform, before.id).await?);
    let before = message(before);
    Ok(audit::with_digests(detail, Some(&before), Some(&after)))
}

/// Who did what to a reservation (P10).
pub(super) async fn record(
    conn: &mut PgConnection,
    (principal, request_id): (&str, &str),
    action: &str,
    (id, project_id): (Uuid, Uuid),
    detail: Value,
) -> Result<()> {
    let entry = audit::Entry {
        principal,
        action,
        resource: "capacity_reservation",
        resource_id: &id.to_string(),
        request_id,
        detail: audit::in_project(detail, project_id),
    };
    Ok(audit::record(conn, entry).await?)
}
