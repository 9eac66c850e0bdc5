//! What hosts are told of ingress mappings, and what came of it.
//!
//! It is read with a version ([`wanted`]): under the allocation's lock versions have the order of what was read, so a host that
//! keeps to the highest one has what was read last.
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Mapping, columns, of_allocation, owner};
use crate::allocations;
use crate::claims::{self, Epochs};
use crate::error::Result;
use crate::model::{AllocationState, Claim, ClaimState};

/// Until a host is called again that refused or did not answer.
const RETRY_SECONDS: f64 = 15.0;
/// Versions of one cell epoch; a cell that was restored from a backup goes on above all that it ever gave out.
const VERSIONS_PER_EPOCH: i64 = 1 << 40;

/// Active allocations but these whose hosts are to be called for mappings that begin, end or failed, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn due(conn: &mut PgConnection, but: &[Uuid], limit: i64) -> Result<Vec<Uuid>> {
    Ok(sqlx::query_scalar(
        "SELECT m.allocation_id FROM ingress_mappings m JOIN allocations a ON a.id = m.allocation_id
          WHERE a.state = 'active' AND m.retry_at <= clock_timestamp()
            AND (m.state <> 'active' OR m.expires_at <= clock_timestamp())
            AND m.allocation_id <> ALL ($2)
          GROUP BY m.allocation_id ORDER BY min(m.retry_at) LIMIT $1",
    )
    .bind(limit)
    .bind(but)
    .fetch_all(conn)
    .await?)
}

/// What the host of an allocation is to be told.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub allocation_id: Uuid,
    pub node_id: Uuid,
    /// Above that of everything that was read before.
    pub version: i64,
    pub claims: Vec<Claim>,
    /// Of the tokens that the host is shown.
    pub epochs: Epochs,
    /// What is to be open.
    pub open: Vec<Mapping>,
    /// What has ended, deleted or expired.
    pub ended: Vec<Mapping>,
    /// What the platform does not own any more.
    pub lost: Vec<Mapping>,
}

/// Reads what the host of an allocation is to be told; none: the allocation is not active, and its release closes what is open.
///
/// # Errors
/// Those of the database.
pub async fn wanted(conn: &mut PgConnection, allocation_id: Uuid) -> Result<Option<Wanted>> {
    // before the state: the epoch of a release that begins after it is above
    let epochs = claims::epochs(&mut *conn).await?;
    let allocation = allocations::lock(&mut *conn, allocation_id).await?;
    let node_id = allocation
        .node_id
        .filter(|_| allocation.state == AllocationState::Active);
    let Some(node_id) = node_id else {
        return Ok(None);
    };
    let version: i64 = sqlx::query_scalar("SELECT nextval('ingress_versions')")
        .fetch_one(&mut *conn)
        .await?;
    let owner = owner(&mut *conn, node_id).await?;
    let mut claims = claims::of_allocation(&mut *conn, allocation_id).await?;
    claims.retain(|claim| claim.state != ClaimState::Released);
    let now: Timestamp = sqlx::query_scalar("SELECT clock_timestamp()")
        .fetch_one(&mut *conn)
        .await?;
    let mut wanted = Wanted {
        allocation_id,
        node_id,
        version: epochs
            .cell
            .saturating_mul(VERSIONS_PER_EPOCH)
            .saturating_add(version),
        claims,
        epochs,
        open: Vec::new(),
        ended: Vec::new(),
        lost: Vec::new(),
    };
    for mapping in of_allocation(conn, allocation_id).await? {
        let is_over = |at: Timestamp| at.to_jiff() <= now.to_jiff();
        if mapping.state == "deleting" || mapping.expires_at.is_some_and(is_over) {
            wanted.ended.push(mapping);
        } else if owner.as_ref().is_some_and(|owner| owner.has(&mapping)) {
            wanted.open.push(mapping);
        } else {
            wanted.lost.push(mapping);
        }
    }
    Ok(Some(wanted))
}

/// Records that the host has what it was told. Returns what has ended by it: who deletes twice at once gets each once.
///
/// # Errors
/// Those of the database.
pub async fn done(conn: &mut PgConnection, wanted: &Wanted) -> Result<Vec<Mapping>> {
    allocations::lock(&mut *conn, wanted.allocation_id).await?;
    lock(&mut *conn, wanted.allocation_id).await?;
    let ids = |mappings: &[Mapping]| mappings.iter().map(|one| one.id).collect::<Vec<_>>();
    set(
        &mut *conn,
        &ids(&wanted.open),
        &["pending", "failed"],
        "active",
        "",
    )
    .await?;
    let taken_back = "The operator of the host has taken this address or port back.";
    set(
        &mut *conn,
        &ids(&wanted.lost),
        &["pending", "active", "failed"],
        "failed",
        taken_back,
    )
    .await?;
    Ok(sqlx::query_as(concat!(
        "DELETE FROM ingress_mappings WHERE id = ANY ($1) RETURNING ",
        columns!()
    ))
    .bind(ids(&wanted.ended))
    .fetch_all(conn)
    .await?)
}

/// Records that the host was told in vain; it is tried again.
///
/// # Errors
/// Those of the database.
pub async fn failed(conn: &mut PgConnection, allocation_id: Uuid, why: &str) -> Result<()> {
    allocations::lock(&mut *conn, allocation_id).await?;
    lock(&mut *conn, allocation_id).await?;
    let mappings = of_allocation(&mut *conn, allocation_id).await?;
    let ids: Vec<Uuid> = mappings.iter().map(|one| one.id).collect();
    set(&mut *conn, &ids, &["pending", "failed"], "failed", why).await?;
    sqlx::query(
        "UPDATE ingress_mappings SET retry_at = clock_timestamp() + make_interval(secs => $2) WHERE allocation_id = $1",
    )
    .bind(allocation_id)
    .bind(RETRY_SECONDS)
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks the mappings of an allocation, in the order in which everybody locks several of them.
async fn lock(conn: &mut PgConnection, allocation_id: Uuid) -> Result<()> {
    sqlx::query("SELECT FROM ingress_mappings WHERE allocation_id = $1 ORDER BY id FOR UPDATE")
        .bind(allocation_id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Moves mappings that are in one of `from`; one that is so already stays as it is, and is due again later.
async fn set(
    conn: &mut PgConnection,
    ids: &[Uuid],
    from: &[&str],
    to: &str,
    failure: &str,
) -> Result<()> {
    sqlx::query(
        "UPDATE ingress_mappings
            SET revision = revision + ((state, failure) IS DISTINCT FROM ($3, $4))::int,
                updated_at = CASE WHEN (state, failure) IS DISTINCT FROM ($3, $4)
                                  THEN greatest(clock_timestamp(), updated_at) ELSE updated_at END,
                state = $3, failure = $4, retry_at = clock_timestamp() + make_interval(secs => $5)
          WHERE id = ANY ($1) AND state = ANY ($2)",
    )
    .bind(ids)
    .bind(from)
    .bind(to)
    .bind(failure)
    .bind(RETRY_SECONDS)
    .execute(conn)
    .await?;
    Ok(())
}
