//! How many GPUs of a SKU a project may hold. A project without a row of its own has the service's default.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::model::SlotClass;
use crate::{Error, Result};

/// A limit and what counts against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Quota {
    /// GPUs the project may hold.
    pub max_gpus: i64,
    /// GPUs of its allocations that have not ended and do not wait for capacity.
    pub used_gpus: i64,
}

/// Sets a project's own limit.
///
/// # Errors
/// [`Error::NotFound`] for the SKU.
pub async fn put(
    conn: &mut PgConnection,
    project_id: Uuid,
    sku: &str,
    max_gpus: i32,
) -> Result<Quota> {
    let done = sqlx::query(
        "INSERT INTO quotas (project_id, sku, max_gpus) VALUES ($1, $2, $3)
         ON CONFLICT (project_id, sku) DO UPDATE SET max_gpus = excluded.max_gpus,
                updated_at = greatest(clock_timestamp(), quotas.updated_at)",
    )
    .bind(project_id)
    .bind(sku)
    .bind(max_gpus)
    .execute(&mut *conn)
    .await;
    match done {
        Err(error)
            if error
                .as_database_error()
                .is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation) =>
        {
            return Err(Error::not_found("sku", sku));
        }
        other => other?,
    };
    read(conn, project_id, sku, i64::from(max_gpus)).await
}

/// Takes the quota's row lock, the first of all locks. Count after it, in a statement of its own.
pub(crate) async fn lock(conn: &mut PgConnection, project_id: Uuid, sku: &str) -> Result<()> {
    let locked =
        sqlx::query("SELECT FROM quotas WHERE project_id = $1 AND sku = $2 FOR NO KEY UPDATE")
            .bind(project_id)
            .bind(sku)
            .fetch_optional(&mut *conn)
            .await?;
    if locked.is_some() {
        return Ok(());
    }
    // A row for the lock; it stays only when the reservation does. One that another transaction makes at this moment
    // is waited for, and then locked as it is.
    sqlx::query(
        "INSERT INTO quotas (project_id, sku) VALUES ($1, $2) ON CONFLICT (project_id, sku) DO UPDATE SET sku = excluded.sku",
    )
    .bind(project_id)
    .bind(sku)
    .execute(conn)
    .await?;
    Ok(())
}

macro_rules! select {
    ($more:literal) => {
        concat!(
            "SELECT coalesce((SELECT max_gpus FROM quotas WHERE project_id = $1 AND sku = $2)::bigint, $3) AS max_gpus,
                    coalesce((SELECT sum(gpu_count) FROM allocations
                               WHERE project_id = $1 AND sku = $2
                                 AND state NOT IN ('requested', 'released', 'failed')), 0) AS used_gpus",
            $more
        )
    };
}

/// The quota as it is now, without a lock.
///
/// # Errors
/// Those of the database.
pub async fn read(
    conn: &mut PgConnection,
    project_id: Uuid,
    sku: &str,
    default_max: i64,
) -> Result<Quota> {
    Ok(sqlx::query_as(select!(""))
        .bind(project_id)
        .bind(sku)
        .bind(default_max)
        .fetch_one(conn)
        .await?)
}

/// The same, and whether anybody waits in the line of a region and class.
pub(crate) async fn read_with_line(
    conn: &mut PgConnection,
    (project_id, sku, default_max): (Uuid, &str, i64),
    region_code: &str,
    slot_class: SlotClass,
) -> Result<(Quota, bool)> {
    #[derive(sqlx::FromRow)]
    struct Row {
        #[sqlx(flatten)]
        quota: Quota,
        waits: bool,
    }
    let row: Row = sqlx::query_as(select!(
        ", EXISTS (SELECT FROM allocations a JOIN waits w ON w.allocation_id = a.id
                    WHERE a.state = 'requested' AND a.region_code = $4 AND w.slot_class = $5) AS waits"
    ))
    .bind(project_id)
    .bind(sku)
    .bind(default_max)
    .bind(region_code)
    .bind(slot_class.as_str())
    .fetch_one(conn)
    .await?;
    Ok((row.quota, row.waits))
}
