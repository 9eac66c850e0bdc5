//! How many GPUs of a SKU, and how many allocations of all SKUs, a project may hold. What has no number of its own has the
//! service's default.
use std::collections::{BTreeSet, HashMap};

use gpuaas_placement_decision::GpuCount;
use jiff_sqlx::Timestamp;
use serde::Deserialize;
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

pub(crate) use crate::error::{ALLOCATIONS, GPUS};

use crate::error::{Error, Exceeded, Result};
use crate::model::{Policy, SlotClass};
use crate::outbox::{self, NewEvent};

/// GPUs of all SKUs together that a project may reserve by itself.
const RESERVED_GPUS: &str = "reserved_gpus";

/// The limits on one SKU's launches and what counts against them: allocations that have not ended and are not queued for
/// capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, sqlx::FromRow)]
pub struct Quota {
    /// GPUs of the SKU that the project may hold.
    pub max_gpus: i64,
    /// GPUs of the SKU that it holds.
    pub used_gpus: i64,
    /// Allocations, of all SKUs together, that the project may hold.
    pub max_allocations: i64,
    /// Allocations that it holds.
    pub used_allocations: i64,
}

impl Quota {
    /// The first limit that one more allocation of so many GPUs would exceed.
    pub(crate) fn exceeded_by(self, gpus: GpuCount) -> Option<Exceeded> {
        self.exceeded_by_all(1, i64::from(gpus.get()))
    }

    /// The first limit that so many more allocations with so many GPUs of the SKU would exceed.
    pub(crate) fn exceeded_by_all(self, allocations: i64, gpus: i64) -> Option<Exceeded> {
        let over = |quota, limit, used, requested| {
            let exceeded = Exceeded {
                quota,
                limit,
                used,
                requested,
            };
            (used + requested > limit).then_some(exceeded)
        };
        over(GPUS, self.max_gpus, self.used_gpus, gpus).or_else(|| {
            let used = self.used_allocations;
            over(ALLOCATIONS, self.max_allocations, used, allocations)
        })
    }
}

/// Everything that limits what a project holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quotas {
    /// Allocations, of all SKUs together, that the project may hold.
    pub max_allocations: i64,
    /// Allocations that count against it.
    pub used_allocations: i64,
    /// The SKUs that it holds, held, or has a quota for, by code.
    pub skus: Vec<SkuQuota>,
}

/// The limit on one SKU.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SkuQuota {
    /// The SKU's code.
    pub sku: String,
    /// GPUs that the project may hold.
    pub max_gpus: i64,
    /// GPUs that count against it.
    pub used_gpus: i64,
}

/// What a limit is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limited<'a> {
    /// GPUs of a SKU, by its code.
    Gpus(&'a str),
    /// Allocations, of all SKUs together.
    Allocations,
    /// GPUs that the project reserves by itself.
    ReservedGpus,
}

/// A limit that is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitChange<'a> {
    /// Whose.
    pub project_id: Uuid,
    /// Of what.
    pub of: Limited<'a>,
    /// What it was.
    pub before: i64,
    /// What it is from now on.
    pub after: i64,
}

/// Writes the event of a limit that is changed, unless it stays what it is. Call it under [`lock_limits`], before the change: it
/// takes the first of all locks. Notify [`outbox::TOPIC`] afterwards.
///
/// # Errors
/// Those of the database.
pub async fn emit(conn: &mut PgConnection, change: LimitChange<'_>) -> Result<()> {
    if change.before == change.after {
        return Ok(());
    }
    let (revision, at): (i64, Timestamp) = sqlx::query_as(
        "INSERT INTO project_quotas (project_id, revision) VALUES ($1, 1)
         ON CONFLICT (project_id) DO UPDATE SET revision = project_quotas.revision + 1,
                updated_at = greatest(clock_timestamp(), project_quotas.updated_at)
         RETURNING revision, updated_at",
    )
    .bind(change.project_id)
    .fetch_one(&mut *conn)
    .await?;
    let (quota, sku) = match change.of {
        Limited::Gpus(sku) => (GPUS, sku),
        Limited::Allocations => (ALLOCATIONS, ""),
        Limited::ReservedGpus => (RESERVED_GPUS, ""),
    };
    let event = NewEvent {
        kind: "quota.updated",
        aggregate_id: change.project_id,
        revision,
        at,
        project_id: Some(change.project_id),
        data: json!({
            "quota": quota, "sku": sku, "limit": change.after, "previous_limit": change.before,
        }),
        traceparent: "",
    };
    outbox::append(conn, event).await
}

/// Lets changes of one project's limits come one after the other, so that each knows what was there before it.
///
/// # Errors
/// Those of the database.
pub async fn lock_limits(conn: &mut PgConnection, project_id: Uuid) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended('limits ' || $1, 0))")
        .bind(project_id.to_string())
        .execute(conn)
        .await?;
    Ok(())
}

/// Sets how many GPUs of a SKU a project may hold.
///
/// # Errors
/// [`Error::NotFound`] for the SKU.
pub async fn put(
    conn: &mut PgConnection,
    project_id: Uuid,
    sku: &str,
    max_gpus: i32,
) -> Result<()> {
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
            Err(Error::not_found("sku", sku))
        }
        other => Ok(other.map(drop)?),
    }
}

/// Sets how many allocations, of all SKUs together, a project may hold. What it holds already stays.
///
/// # Errors
/// Those of the database.
pub async fn put_allocations(
    conn: &mut PgConnection,
    project_id: Uuid,
    max_allocations: i32,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO project_quotas (project_id, max_allocations) VALUES ($1, $2)
         ON CONFLICT (project_id) DO UPDATE SET max_allocations = excluded.max_allocations,
                updated_at = greatest(clock_timestamp(), project_quotas.updated_at)",
    )
    .bind(project_id)
    .bind(max_allocations)
    .execute(conn)
    .await?;
    Ok(())
}

/// Takes the row lock of the project's quota and then that of the SKU's, the first of all locks. Count after it, in a
/// statement of its own.
pub(crate) async fn lock(conn: &mut PgConnection, project_id: Uuid, sku: &str) -> Result<()> {
    // the row of the project is locked while the join reads it, that of the SKU when the join has it
    let locked = sqlx::query(
        "WITH project AS MATERIALIZED
           (SELECT project_id FROM project_quotas WHERE project_id = $1 FOR NO KEY UPDATE)
         SELECT FROM project CROSS JOIN quotas q WHERE q.project_id = $1 AND q.sku = $2 FOR NO KEY UPDATE OF q",
    )
    .bind(project_id)
    .bind(sku)
    .fetch_optional(&mut *conn)
    .await?;
    if locked.is_some() {
        return Ok(());
    }
    // Rows for the locks; they stay only when the reservation does. One that another transaction makes at this moment
    // is waited for, and then locked as it is.
    sqlx::query(
        "INSERT INTO project_quotas (project_id) VALUES ($1)
         ON CONFLICT (project_id) DO UPDATE SET project_id = excluded.project_id",
    )
    .bind(project_id)
    .execute(&mut *conn)
    .await?;
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
                    coalesce((SELECT max_allocations FROM project_quotas WHERE project_id = $1)::bigint, $4) AS max_allocations,
                    used.*",
            $more,
            " FROM (SELECT coalesce(sum(gpu_count) FILTER (WHERE sku = $2), 0) AS used_gpus, count(*) AS used_allocations
                      FROM allocations WHERE project_id = $1 AND state NOT IN ('requested', 'released', 'failed')) used"
        )
    };
}

/// The quota of a project and SKU as it is now, without a lock.
///
/// # Errors
/// Those of the database.
pub async fn read(
    conn: &mut PgConnection,
    project_id: Uuid,
    sku: &str,
    policy: Policy,
) -> Result<Quota> {
    Ok(sqlx::query_as(select!(""))
        .bind(project_id)
        .bind(sku)
        .bind(i64::from(policy.default_quota_gpus))
        .bind(i64::from(policy.default_quota_allocations))
        .fetch_one(conn)
        .await?)
}

/// The same, and whether the queue of a region and class is not empty.
pub(crate) async fn read_with_queue(
    conn: &mut PgConnection,
    (project_id, sku, policy): (Uuid, &str, Policy),
    region_code: &str,
    slot_class: SlotClass,
) -> Result<(Quota, bool)> {
    #[derive(sqlx::FromRow)]
    struct Row {
        #[sqlx(flatten)]
        quota: Quota,
        has_queue: bool,
    }
    let row: Row = sqlx::query_as(select!(
        ", EXISTS (SELECT FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id
                    WHERE a.state = 'requested' AND a.region_code = $5 AND w.slot_class = $6) AS has_queue"
    ))
    .bind(project_id)
    .bind(sku)
    .bind(i64::from(policy.default_quota_gpus))
    .bind(i64::from(policy.default_quota_allocations))
    .bind(region_code)
    .bind(slot_class.as_str())
    .fetch_one(conn)
    .await?;
    Ok((row.quota, row.has_queue))
}

/// The quotas of several projects and SKUs at one moment.
pub(crate) async fn read_all(
    conn: &mut PgConnection,
    pairs: BTreeSet<(Uuid, &str)>,
    policy: Policy,
) -> Result<HashMap<(Uuid, String), Quota>> {
    #[derive(sqlx::FromRow)]
    struct Row {
        project_id: Uuid,
        sku: String,
        #[sqlx(flatten)]
        quota: Quota,
    }
    let (projects, skus): (Vec<Uuid>, Vec<&str>) = pairs.into_iter().unzip();
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT k.project_id, k.sku, coalesce(q.max_gpus::bigint, $3) AS max_gpus,
                coalesce(p.max_allocations::bigint, $4) AS max_allocations, used.*
           FROM unnest($1::uuid[], $2::text[]) AS k (project_id, sku)
           LEFT JOIN quotas q ON q.project_id = k.project_id AND q.sku = k.sku
           LEFT JOIN project_quotas p ON p.project_id = k.project_id
          CROSS JOIN LATERAL
                (SELECT coalesce(sum(a.gpu_count) FILTER (WHERE a.sku = k.sku), 0) AS used_gpus,
                        count(*) AS used_allocations
                   FROM allocations a WHERE a.project_id = k.project_id
                    AND a.state NOT IN ('requested', 'released', 'failed')) used",
    )
    .bind(projects)
    .bind(skus)
    .bind(i64::from(policy.default_quota_gpus))
    .bind(i64::from(policy.default_quota_allocations))
    .fetch_all(conn)
    .await?;
    let named = |row: Row| ((row.project_id, row.sku), row.quota);
    Ok(rows.into_iter().map(named).collect())
}

/// All quotas of a project, as they are at one moment.
///
/// # Errors
/// Those of the database.
pub async fn of_project(
    conn: &mut PgConnection,
    project_id: Uuid,
    policy: Policy,
) -> Result<Quotas> {
    let (max_allocations, used_allocations, Json(skus)) = sqlx::query_as(
        "WITH used AS
           (SELECT sku, sum(gpu_count) AS gpus, count(*) AS allocations FROM allocations
             WHERE project_id = $1 AND state NOT IN ('requested', 'released', 'failed') GROUP BY sku),
         skus AS
           (SELECT sku, coalesce(q.max_gpus::bigint, $2) AS max_gpus, coalesce(u.gpus, 0) AS used_gpus
              FROM (SELECT sku, max_gpus FROM quotas WHERE project_id = $1) q FULL JOIN used u USING (sku))
         SELECT coalesce((SELECT max_allocations FROM project_quotas WHERE project_id = $1)::bigint, $3),
                (SELECT coalesce(sum(allocations), 0)::bigint FROM used),
                (SELECT coalesce(jsonb_agg(to_jsonb(skus) ORDER BY sku), '[]') FROM skus)",
    )
    .bind(project_id)
    .bind(i64::from(policy.default_quota_gpus))
    .bind(i64::from(policy.default_quota_allocations))
    .fetch_one(conn)
    .await?;
    Ok(Quotas {
        max_allocations,
        used_allocations,
        skus,
    })
}
