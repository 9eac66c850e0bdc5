//! The end of a reservation. Allocations on its slots go on.
use gpuaas_common::audit;
use std::time::Instant;

use gpuaas_common::idempotency::{self, Lookup, Scope as Key};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use tonic::Code;
use uuid::Uuid;

use super::hold::{self, Which};
use super::record::{digested, record};
use super::stored::{CapacityReservation, get};
use crate::error::{Error, Result};
use crate::model::{ReservationState, Scope};
use crate::reserve::{Mode, Policy, in_transaction, retry};

/// Method in the scope of idempotency keys.
pub const CANCEL_METHOD: &str = "CancelCapacityReservation";

/// Who cancels what.
#[derive(Debug, Clone)]
pub struct Cancellation<'a> {
    /// Who.
    pub principal: &'a str,
    /// Key of the caller.
    pub idempotency_key: &'a str,
    /// SHA-256 of the canonical request.
    pub request_hash: &'a [u8],
    pub request_id: &'a str,
    /// A project cancels only what it made itself.
    pub scope: Scope,
    /// Reservation.
    pub id: Uuid,
    /// Why; may be empty.
    pub reason: &'a str,
}

/// Cancels a reservation, and lets go what it holds.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] when it is over; `PERMISSION_DENIED` from `gpuaas_common` for a project and a
/// reservation that an operator made; [`Error::Busy`].
pub async fn cancel(
    pool: &PgPool,
    policy: Policy,
    spec: &Cancellation<'_>,
) -> Result<CapacityReservation> {
    let until = Instant::now() + policy.placement_timeout;
    loop {
        let body = async |conn: &mut PgConnection| cancel_in(conn, spec).await;
        let outcome = in_transaction(&mut *pool.acquire().await?, Mode::Commit, body).await;
        match outcome {
            Err(error) => retry(error, until)?,
            done => return done,
        }
    }
}

async fn cancel_in(
    conn: &mut PgConnection,
    spec: &Cancellation<'_>,
) -> Result<CapacityReservation> {
    let key = Key {
        principal: spec.principal,
        method: CANCEL_METHOD,
        key: spec.idempotency_key,
    };
    let before = get(conn, spec.scope, spec.id).await?;
    let id = spec.id.to_string();
    if let Lookup::Replay { .. } = idempotency::take(conn, key, spec.request_hash, &id).await? {
        return get(conn, spec.scope, spec.id).await;
    }
    if spec.scope.project().is_some() && !before.made_by_project {
        let message = "An operator created this reservation. Ask an operator to cancel it.";
        return Err(Error::Common(gpuaas_common::Error::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            message,
        )));
    }
    lock(conn, spec.id).await?;
    let row = get(conn, spec.scope, spec.id).await?;
    if !row.is_live() {
        return Err(Error::Conflict {
            what: "capacity reservation",
            id: row.id,
            state: row.state.to_string(),
        });
    }
    let reason = match spec.reason {
        "" => "The reservation was canceled.",
        given => given,
    };
    close(conn, row.id, ReservationState::Canceled, reason).await?;
    let who = (spec.principal, spec.request_id);
    let mut detail = json!({ "name": row.name, "reason": spec.reason });
    if spec.scope.project().is_none() {
        detail[audit::BY_OPERATOR] = true.into();
    }
    let what = (row.id, row.project_id);
    let detail = digested(conn, row, detail).await?;
    record(conn, who, "reservation.cancel", what, detail).await?;
    get(conn, spec.scope, what.0).await
}

/// Locks a reservation's row: before the nodes whose slots it holds.
async fn lock(conn: &mut PgConnection, id: Uuid) -> Result<()> {
    sqlx::query("SELECT FROM capacity_reservations WHERE id = $1 FOR NO KEY UPDATE")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Lets everything go that a reservation holds, and ends it. Its row is locked.
pub(super) async fn close(
    conn: &mut PgConnection,
    id: Uuid,
    state: ReservationState,
    reason: &str,
) -> Result<()> {
    hold::drop(conn, id, Which::All).await?;
    sqlx::query(
        "UPDATE capacity_reservations SET state = $2, reason = $3, updated_at = greatest(clock_timestamp(), updated_at),
                ended_at = greatest(clock_timestamp(), updated_at) WHERE id = $1",
    )
    .bind(id)
    .bind(state.as_str())
    .bind(reason)
    .execute(conn)
    .await?;
    Ok(())
}
