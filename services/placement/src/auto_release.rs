//! Allocations that the platform releases when their time has come, and those that their project cannot release.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use crate::error::Result;
use crate::lock;
use crate::model::{AllocationState, Scope};
use crate::release::{self, Begun};
use crate::timeline::{self, State};

/// Releases an allocation for its project.
///
/// # Errors
/// `TERMINATION_PROTECTED`; those of [`release::begin`].
pub async fn by_owner(
    conn: &mut PgConnection,
    scope: Scope,
    id: Uuid,
    traceparent: &str,
    request_id: &str,
) -> Result<Begun> {
    let allocation = lock::allocation(conn, scope, id).await?;
    if allocation.termination_protection && goes_on(allocation.state) {
        return Err(gpuaas_common::Error::new(
            Code::FailedPrecondition,
            ErrorReason::TerminationProtected,
            "The allocation is protected from release; remove the protection first.",
        )
        .into());
    }
    release::begin(conn, scope, id, traceparent, request_id).await
}

/// The allocations whose release time has come, the earliest first, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn due(conn: &mut PgConnection, limit: i64) -> Result<Vec<Uuid>> {
    let ids = sqlx::query_scalar(
        "SELECT id FROM allocations
          WHERE auto_release_at <= clock_timestamp() AND state NOT IN ('releasing', 'released', 'failed')
          ORDER BY auto_release_at LIMIT $1",
    )
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(ids)
}

/// Releases one whose release time has come, and says so in its timeline. False: it has another time by now, or is being
/// released.
///
/// # Errors
/// Those of [`release::begin`].
pub async fn begin(conn: &mut PgConnection, id: Uuid) -> Result<bool> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    let has_come: bool = sqlx::query_scalar(
        "SELECT coalesce(auto_release_at <= clock_timestamp(), false) FROM allocations WHERE id = $1",
    )
    .bind(id)
    .fetch_one(&mut *conn)
    .await?;
    if !has_come || !goes_on(allocation.state) {
        return Ok(false);
    }
    release::begin(conn, Scope::Platform, id, "", "").await?;
    let reported = if allocation.active_at.is_some() {
        "The release time has come; billing ended at that time."
    } else {
        "The release time has come. The allocation was never billed."
    };
    timeline::append(conn, id, "releasing", State::Done, reported).await?;
    Ok(true)
}

fn goes_on(state: AllocationState) -> bool {
    !matches!(
        state,
        AllocationState::Releasing | AllocationState::Released | AllocationState::Failed
    )
}
