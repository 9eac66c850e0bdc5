//! Row locks, taken in the one order documented in the crate.
use sqlx::{Acquire as _, PgConnection};
use uuid::Uuid;

use crate::allocations;
use crate::error::{Error, Result};
use crate::model::{Allocation, Fence, Scope};

/// Locks a node's row.
pub(crate) async fn node(conn: &mut PgConnection, id: Uuid) -> Result<()> {
    sqlx::query_scalar::<_, Uuid>("SELECT id FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
        .bind(id)
        .fetch_optional(conn)
        .await?
        .map(|_| ())
        .ok_or_else(|| Error::not_found("node", id))
}

/// Locks everything an allocation holds, then the allocation itself, until the transaction ends, and returns it as it is under
/// the lock: before anything else that is locked.
///
/// # Errors
/// [`Error::NotFound`] when there is none in this scope.
pub async fn allocation(conn: &mut PgConnection, scope: Scope, id: Uuid) -> Result<Allocation> {
    // The node of an allocation never changes once it has one, so reading it without a lock is safe.
    if let Some(node_id) = allocations::get(conn, scope, id).await?.node_id {
        return with_node(conn, node_id, id).await;
    }
    // It is queued, and may be placed on a node just now: then its lock is released, and taken in its order.
    let mut savepoint = conn.begin().await?;
    let locked = allocations::lock(&mut savepoint, id).await?;
    let Some(node_id) = locked.node_id else {
        savepoint.commit().await?;
        return Ok(locked);
    };
    savepoint.rollback().await?;
    with_node(conn, node_id, id).await
}

async fn with_node(conn: &mut PgConnection, node_id: Uuid, id: Uuid) -> Result<Allocation> {
    node(conn, node_id).await?;
    sqlx::query_scalar::<_, Uuid>(
        "SELECT id FROM slots
          WHERE id IN (SELECT slot_id FROM claims WHERE allocation_id = $1 AND state <> 'released')
          ORDER BY id FOR NO KEY UPDATE",
    )
    .bind(id)
    .fetch_all(&mut *conn)
    .await?;
    allocations::lock(conn, id).await
}

/// Locks a workflow that must still run under this lease. Locked last, so that whoever takes the workflow
/// over waits for this transaction or makes it fail, never half.
pub(crate) async fn fence(conn: &mut PgConnection, fence: Fence) -> Result<()> {
    sqlx::query_scalar::<_, Uuid>(
        "SELECT id FROM workflows WHERE id = $1 AND lease_epoch = $2 AND state = 'running' FOR NO KEY UPDATE",
    )
    .bind(fence.workflow_id)
    .bind(fence.lease_epoch)
    .fetch_optional(conn)
    .await?
    .map(|_| ())
    .ok_or(Error::StaleLease)
}
