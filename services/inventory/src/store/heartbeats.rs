//! Signs of life, and what each host is known to report: one narrow row per host (migration 0004).
//!
//! The digest is set only by whoever took a report in full and found the host's evidence current, and it is forgotten
//! with everything else that decides about the host: an enrolment, a discovery, an approval, a loss. So where the
//! digest matches, taking the report in full would change nothing but times.
use jiff_sqlx::Timestamp;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::config::Freshness;

/// A report that repeats itself is taken in full after this time nevertheless, in seconds: whatever a release judges
/// differently reaches every host.
const KNOWN_SECONDS: f64 = 600.0;

/// A report of a host, by its digest.
#[derive(Debug, Clone, Copy)]
pub struct Repeated<'a> {
    pub node_id: Uuid,
    /// Instance that sends it.
    pub instance_id: Uuid,
    /// What it says, the time left out.
    pub digest: &'a [u8; 32],
    /// When the host observed it, by its own clock.
    pub observed_time: Option<jiff::Timestamp>,
    /// The same since the start of the host, in nanoseconds; what says the same is of the same boot.
    pub observed_uptime: Option<i64>,
}

/// Takes in a report that says what is known, and returns the mode of its node. `None`, and nothing changed, when it must
/// be taken in full.
///
/// # Errors
/// Database errors.
pub async fn repeat(
    pool: &PgPool,
    report: Repeated<'_>,
    freshness: Freshness,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar(
        "UPDATE host_beats SET beat_time = greatest(clock_timestamp(), beat_time),
             observed_time = least(coalesce($4, clock_timestamp()), clock_timestamp()),
             observed_uptime = coalesce($7, observed_uptime)
         WHERE node_id = $1 AND instance_id = $2 AND known_digest = $3
           AND coalesce($4 >= observed_time AND $4 > clock_timestamp() - make_interval(secs => $5), true)
           AND coalesce($7 >= observed_uptime, true)
           AND known_time > clock_timestamp() - make_interval(secs => $6)
         RETURNING (SELECT mode FROM nodes WHERE id = $1)",
    )
    .bind(report.node_id)
    .bind(report.instance_id)
    .bind(report.digest.as_slice())
    .bind(report.observed_time.map(Timestamp::from))
    .bind(freshness.evidence_seconds)
    .bind(KNOWN_SECONDS)
    .bind(report.observed_uptime)
    .fetch_optional(pool)
    .await
}

/// Notes a sign of life, and what was reported with it if a report was taken in full and found current. The node's row
/// is locked by the caller.
///
/// # Errors
/// Database errors.
pub async fn note(
    conn: &mut PgConnection,
    node_id: Uuid,
    instance_id: Uuid,
    observed: Option<Option<jiff::Timestamp>>,
    digest: Option<&[u8; 32]>,
    (boot_id, observed_uptime): (&str, Option<i64>),
    freshness: Freshness,
) -> sqlx::Result<()> {
    // A report "of the future" is one of now: the host's clock cannot make evidence live longer.
    sqlx::query(
        "INSERT INTO host_beats AS b (node_id, instance_id, beat_time, observed_time, known_digest, known_time, boot_id, observed_uptime)
         SELECT $1, $2, clock_timestamp(), made.at, known.digest, CASE WHEN known.digest IS NOT NULL THEN clock_timestamp() END, $7, $8
           FROM (SELECT CASE WHEN $3 THEN least(coalesce($4, clock_timestamp()), clock_timestamp()) END AS at) made,
                LATERAL (SELECT CASE WHEN made.at > clock_timestamp() - make_interval(secs => $6) THEN $5::bytea END AS digest) known
         ON CONFLICT (node_id) DO UPDATE SET
             beat_time = greatest(EXCLUDED.beat_time, b.beat_time), instance_id = EXCLUDED.instance_id,
             observed_time = CASE WHEN b.instance_id = EXCLUDED.instance_id
                                  THEN coalesce(EXCLUDED.observed_time, b.observed_time) ELSE EXCLUDED.observed_time END,
             known_digest = EXCLUDED.known_digest, known_time = EXCLUDED.known_time,
             boot_id = EXCLUDED.boot_id,
             observed_uptime = CASE WHEN (b.instance_id, b.boot_id) = (EXCLUDED.instance_id, EXCLUDED.boot_id)
                                    THEN coalesce(EXCLUDED.observed_uptime, b.observed_uptime)
                                    ELSE EXCLUDED.observed_uptime END",
    )
    .bind(node_id)
    .bind(instance_id)
    .bind(observed.is_some())
    .bind(observed.flatten().map(Timestamp::from))
    .bind(digest.map(<[u8; 32]>::as_slice))
    .bind(freshness.evidence_seconds)
    .bind(boot_id)
    .bind(observed_uptime)
    .execute(conn)
    .await?;
    Ok(())
}

/// The next report of each of these hosts is taken in full, and none is taken in meanwhile.
///
/// # Errors
/// Database errors.
pub async fn forget(conn: &mut PgConnection, node_ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE host_beats SET known_digest = NULL, known_time = NULL
         WHERE node_id IN (SELECT node_id FROM host_beats WHERE node_id = ANY ($1) ORDER BY node_id FOR NO KEY UPDATE)",
    )
    .bind(node_ids)
    .execute(conn)
    .await?;
    Ok(())
}
