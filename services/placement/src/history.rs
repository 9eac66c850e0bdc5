//! Fleet capacity over time: a sample per minute, region and SKU, for operators. Nothing is decided by it.
use std::time::Duration;

use jiff_sqlx::{Timestamp, ToSqlx as _};
use sqlx::PgConnection;

use crate::catalog;
use crate::error::Result;

/// Most buckets of one answer.
pub const MAX_BUCKETS: i64 = 1500;

/// One bucket of samples of a region and SKU.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Bucket {
    /// Start of the bucket.
    pub at: Timestamp,
    pub region_code: String,
    pub sku: String,
    /// Most nodes that had slots of the SKU's class.
    pub nodes: i32,
    /// Most GPUs there were.
    pub gpus: i32,
    /// Most GPUs that allocations of the SKU held, or that waited for a repair.
    pub gpus_in_use: i32,
    /// Fewest GPUs that could have been allocated as this SKU, each alone.
    pub gpus_free: i32,
    /// GPUs there were, on average over the samples.
    pub mean_gpus: f64,
    /// GPUs in use, on average over the samples.
    pub mean_gpus_in_use: f64,
}

/// Which samples.
#[derive(Debug, Clone)]
pub struct Query<'a> {
    /// One region, or all.
    pub region_code: Option<&'a str>,
    /// One SKU, or all.
    pub sku: Option<&'a str>,
    /// Start; a bucket begins here.
    pub from: jiff::Timestamp,
    /// End, exclusive.
    pub until: jiff::Timestamp,
    /// Length of a bucket.
    pub bucket: Duration,
    /// Only what comes after this bucket of a region and SKU.
    pub after: Option<(jiff::Timestamp, &'a str, &'a str)>,
    /// Most buckets.
    pub limit: i64,
}

/// Writes the sample of this minute, unless another replica has; returns how many rows were written.
///
/// # Errors
/// Those of the database.
pub async fn sample(conn: &mut PgConnection) -> Result<u64> {
    // A slice is allocated by slots; a bare-metal node when every one of its slots is free and nothing claims it.
    let written = sqlx::query(
        "WITH live AS (SELECT node_id, slot_id, sku, kind FROM claims WHERE state <> 'released'),
              now AS (
            SELECT n.region_code, n.id AS node_id, n.mode, s.class, c.sku AS held_as, of_node.sku AS held_as_node,
                   s.status = 'available' AND s.health_state = 'healthy' AND n.schedulable
                       AND n.admin_state = 'enabled' AND r.enabled AND h.slot_id IS NULL AS offered,
                   EXISTS (SELECT FROM live l WHERE l.node_id = n.id) AS claimed
              FROM slots s
              JOIN nodes n ON n.id = s.node_id
              JOIN regions r ON r.code = n.region_code
              LEFT JOIN live c ON c.slot_id = s.id
              LEFT JOIN reserved_slots h ON h.slot_id = s.id
              LEFT JOIN live of_node ON of_node.node_id = n.id AND of_node.kind = 'node_exclusive'
             WHERE s.status <> 'retired'),
              node AS (SELECT node_id, bool_and(offered AND NOT claimed) AS baremetal_free FROM now GROUP BY node_id)
         INSERT INTO capacity_samples (at, region_code, sku, nodes, gpus, gpus_in_use, gpus_free)
         SELECT date_trunc('minute', clock_timestamp(), 'UTC'), now.region_code, k.code,
                count(DISTINCT now.node_id), count(*),
                count(*) FILTER (WHERE k.code IN (now.held_as, now.held_as_node)),
                count(*) FILTER (WHERE CASE k.capacity_shape
                    WHEN 'gpu_slice' THEN now.offered AND now.mode = 'slice' AND now.held_as IS NULL
                    ELSE node.baremetal_free END)
           FROM now JOIN node USING (node_id) JOIN skus k ON k.slot_class = now.class
          GROUP BY now.region_code, k.code
         ON CONFLICT DO NOTHING",
    )
    .execute(conn)
    .await?;
    Ok(written.rows_affected())
}

/// Most samples that one [`prune`] deletes.
pub const PRUNED_AT_ONCE: u64 = 1000;

/// Deletes samples that are older than `keep`, the oldest first and at most [`PRUNED_AT_ONCE`]; returns how many.
///
/// # Errors
/// Those of the database.
pub async fn prune(conn: &mut PgConnection, keep: Duration) -> Result<u64> {
    let gone = sqlx::query(
        "DELETE FROM capacity_samples WHERE ctid = ANY (ARRAY(
             SELECT ctid FROM capacity_samples WHERE at < clock_timestamp() - make_interval(secs => $1)
              ORDER BY at LIMIT $2))",
    )
    .bind(keep.as_secs_f64())
    .bind(PRUNED_AT_ONCE.cast_signed())
    .execute(conn)
    .await?;
    Ok(gone.rows_affected())
}

/// The samples, in buckets, oldest first, then by region and SKU. Minutes without a sample are missing: it is unknown
/// what was then.
///
/// # Errors
/// [`crate::Error::Invalid`] for a region or SKU that does not exist.
pub async fn history(conn: &mut PgConnection, query: &Query<'_>) -> Result<Vec<Bucket>> {
    if let Some(region) = query.region_code {
        catalog::known_region(conn, region).await?;
    }
    if let Some(sku) = query.sku {
        catalog::known_sku(conn, sku).await?;
    }
    let (at, region, sku) = match query.after {
        None => (None, None, None),
        Some((at, region, sku)) => (Some(at.to_sqlx()), Some(region), Some(sku)),
    };
    Ok(sqlx::query_as(
        "SELECT * FROM (
             SELECT date_bin(make_interval(secs => $5), at, $3) AS at, region_code, sku, max(nodes) AS nodes,
                    max(gpus) AS gpus, max(gpus_in_use) AS gpus_in_use, min(gpus_free) AS gpus_free,
                    avg(gpus)::float8 AS mean_gpus, avg(gpus_in_use)::float8 AS mean_gpus_in_use
               FROM capacity_samples
              WHERE ($1::text IS NULL OR region_code = $1) AND ($2::text IS NULL OR sku = $2)
                AND at >= greatest($3, $6) AND at < $4
              GROUP BY 1, 2, 3) AS buckets
          WHERE $6 IS NULL OR (at, region_code, sku) > ($6, $7, $8)
          ORDER BY at, region_code, sku LIMIT $9",
    )
    .bind(query.region_code)
    .bind(query.sku)
    .bind(query.from.to_sqlx())
    .bind(query.until.to_sqlx())
    .bind(query.bucket.as_secs_f64())
    .bind(at)
    .bind(region)
    .bind(sku)
    .bind(query.limit)
    .fetch_all(conn)
    .await?)
}
