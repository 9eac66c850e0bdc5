//! Rollouts of the agent, and the nodes of each (migrations 0008, 0013).
use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::rollout::Planned;

/// A rollout with its counts.
#[derive(Debug, Clone, FromRow)]
pub struct RolloutRow {
    pub id: Uuid,
    pub version: String,
    pub digest: String,
    pub size_bytes: i64,
    pub rollback_of: Option<Uuid>,
    /// `running`, `paused`, `completed` or `aborted`.
    pub state: String,
    pub state_reason: String,
    pub max_failures: i32,
    pub max_parallel: i32,
    pub node_timeout_seconds: i32,
    pub current_wave: i32,
    pub principal: String,
    pub reason: String,
    pub revision: i64,
    pub create_time: Timestamp,
    pub end_time: Option<Timestamp>,
    pub total: i64,
    pub succeeded: i64,
    pub failed: i64,
    pub updating: i64,
}

impl RolloutRow {
    /// Differs after every change of the rollout.
    #[must_use]
    pub fn etag(&self) -> String {
        self.revision.to_string()
    }
}

const SELECT: &str = "SELECT r.id, r.version, r.digest, r.size_bytes, r.rollback_of, r.state, r.state_reason, r.max_failures,
        r.max_parallel, r.node_timeout_seconds, r.current_wave, r.principal, r.reason, r.revision, r.create_time, r.end_time,
        c.total, c.succeeded, c.failed, c.updating
    FROM agent_rollouts r, LATERAL (
        SELECT count(*) AS total, count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
               count(*) FILTER (WHERE state = 'failed') AS failed, count(*) FILTER (WHERE state = 'updating') AS updating
          FROM agent_rollout_nodes n WHERE n.rollout_id = r.id) c";

/// A node of a rollout.
#[derive(Debug, Clone, FromRow)]
pub struct RolloutNodeRow {
    pub node_id: Uuid,
    pub hostname: String,
    pub rack: String,
    pub wave: i32,
    /// `pending`, `updating`, `succeeded`, `failed` or `skipped`.
    pub state: String,
    pub reason: String,
    pub version: String,
    pub from_version: String,
    /// Reported now.
    pub agent_version: String,
    pub was_ready: bool,
    /// A name of `AgentUpdateState` in lower case.
    pub reported_state: String,
    pub reported_reason: String,
    /// An operator has gone on although it failed or was left out.
    pub accepted: bool,
    /// Its time is over.
    pub overdue: bool,
    pub start_time: Option<Timestamp>,
    pub end_time: Option<Timestamp>,
}

/// What a host is told to bring its agent to.
#[derive(Debug, Clone, FromRow)]
pub struct Reported {
    pub rollout_id: Uuid,
    pub attempt: i32,
    pub version: String,
    pub digest: String,
    pub size_bytes: i64,
    pub rollback: bool,
}

/// A rollout to be.
#[derive(Debug, Clone, Copy)]
pub struct NewRollout<'a> {
    pub id: Uuid,
    pub version: &'a str,
    pub digest: &'a str,
    pub size_bytes: i64,
    pub rollback_of: Option<Uuid>,
    pub max_failures: i32,
    pub max_parallel: i32,
    pub node_timeout_seconds: i32,
    pub principal: &'a str,
    pub reason: &'a str,
}

/// A node of a rollout to be.
#[derive(Debug, Clone)]
pub struct NewNode {
    pub id: Uuid,
    pub wave: i32,
    pub version: String,
}

/// One rollout; `lock` holds it until the end of the transaction.
///
/// # Errors
/// Database errors.
pub async fn find(
    conn: &mut PgConnection,
    id: Uuid,
    lock: bool,
) -> sqlx::Result<Option<RolloutRow>> {
    if lock {
        sqlx::query("SELECT FROM agent_rollouts WHERE id = $1 FOR NO KEY UPDATE")
            .bind(id)
            .execute(&mut *conn)
            .await?;
    }
    sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE r.id = $1")))
        .bind(id)
        .fetch_optional(conn)
        .await
}

/// What the list of rollouts can be selected by.
pub static ROLLOUTS: Catalog = Catalog {
    fields: &[
        Field::sortable("version", Kind::Text, "listed.version"),
        Field::sortable(
            "state",
            Kind::OneOf(&["running", "paused", "completed", "aborted"]),
            "listed.state",
        ),
        Field::new("state_reason", Kind::Text, "listed.state_reason"),
        Field::new("rollback_of", Kind::Id, "listed.rollback_of"),
        Field::sortable("principal", Kind::Text, "listed.principal"),
        Field::new("reason", Kind::Text, "listed.reason"),
        Field::sortable("total_nodes", Kind::Number, "listed.total"),
        Field::sortable("succeeded_nodes", Kind::Number, "listed.succeeded"),
        Field::sortable("failed_nodes", Kind::Number, "listed.failed"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::new("end_time", Kind::Time, "listed.end_time"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

/// A page of the rollouts that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list(
    conn: &mut PgConnection,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<RolloutRow>, String)> {
    selection
        .page(conn, Statement::new(&[SELECT]), wanted)
        .await
}

/// The nodes of a rollout by wave and hostname; only those that are being updated with `updating`.
///
/// # Errors
/// Database errors.
pub async fn nodes(
    conn: &mut PgConnection,
    rollout_id: Uuid,
    updating: bool,
) -> sqlx::Result<Vec<RolloutNodeRow>> {
    sqlx::query_as(
        "SELECT o.node_id, n.hostname, n.rack, o.wave, o.state, o.reason, o.version, o.from_version,
                coalesce(i.agent_version, '') AS agent_version, o.was_ready, o.reported_state, o.reported_reason, o.accepted,
                coalesce(o.start_time + make_interval(secs => r.node_timeout_seconds) <= clock_timestamp(), false) AS overdue,
                o.start_time, o.end_time
           FROM agent_rollout_nodes o JOIN agent_rollouts r ON r.id = o.rollout_id JOIN nodes n ON n.id = o.node_id
           LEFT JOIN host_instances i ON i.id = n.current_instance_id
          WHERE o.rollout_id = $1 AND (NOT $2 OR o.state = 'updating')
          ORDER BY o.wave, n.hostname, n.id",
    )
    .bind(rollout_id)
    .bind(updating)
    .fetch_all(conn)
    .await
}

/// Enrolled nodes in service: those named, or all when none is.
///
/// # Errors
/// Database errors.
pub async fn candidates(conn: &mut PgConnection, ids: &[Uuid]) -> sqlx::Result<Vec<Planned>> {
    let rows: Vec<(Uuid, String, String)> = sqlx::query_as(
        "SELECT id, hostname, rack FROM nodes
          WHERE removed IS NULL AND current_instance_id IS NOT NULL AND (cardinality($1::uuid[]) = 0 OR id = ANY ($1))
          ORDER BY hostname, id",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    let planned = |(id, hostname, rack)| Planned { id, hostname, rack };
    Ok(rows.into_iter().map(planned).collect())
}

/// Whether a rollout is not ended, or one that is has a node that is being updated.
///
/// # Errors
/// Database errors.
pub async fn live(conn: &mut PgConnection) -> sqlx::Result<bool> {
    // two that begin at once wait for each other here
    sqlx::query("SELECT pg_advisory_xact_lock(hashtext('inventory.agent_rollouts'))")
        .execute(&mut *conn)
        .await?;
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM agent_rollouts WHERE end_time IS NULL)
             OR EXISTS (SELECT FROM agent_rollout_nodes WHERE state = 'updating')",
    )
    .fetch_one(conn)
    .await
}

/// Stores a rollout with its nodes.
///
/// # Errors
/// Database errors.
pub async fn insert(
    conn: &mut PgConnection,
    rollout: &NewRollout<'_>,
    nodes: &[NewNode],
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO agent_rollouts (id, version, digest, size_bytes, rollback_of, max_failures, max_parallel,
                                     node_timeout_seconds, principal, reason)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    )
    .bind(rollout.id)
    .bind(rollout.version)
    .bind(rollout.digest)
    .bind(rollout.size_bytes)
    .bind(rollout.rollback_of)
    .bind(rollout.max_failures)
    .bind(rollout.max_parallel)
    .bind(rollout.node_timeout_seconds)
    .bind(rollout.principal)
    .bind(rollout.reason)
    .execute(&mut *conn)
    .await?;
    let ids: Vec<Uuid> = nodes.iter().map(|node| node.id).collect();
    let waves: Vec<i32> = nodes.iter().map(|node| node.wave).collect();
    let versions: Vec<&str> = nodes.iter().map(|node| node.version.as_str()).collect();
    sqlx::query(
        "INSERT INTO agent_rollout_nodes (rollout_id, node_id, wave, version)
         SELECT $1, * FROM unnest($2::uuid[], $3::integer[], $4::text[])",
    )
    .bind(rollout.id)
    .bind(ids)
    .bind(waves)
    .bind(versions)
    .execute(conn)
    .await?;
    Ok(())
}

/// Moves a locked rollout to a state. One that ends leaves nodes that have not begun as they are.
///
/// # Errors
/// Database errors.
pub async fn set_state(
    conn: &mut PgConnection,
    id: Uuid,
    state: &str,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE agent_rollouts SET state = $2, state_reason = $3, revision = revision + 1,
             end_time = CASE WHEN $2 IN ('completed', 'aborted') THEN clock_timestamp() END
         WHERE id = $1",
    )
    .bind(id)
    .bind(state)
    .bind(reason)
    .execute(&mut *conn)
    .await?;
    if state == "aborted" {
        sqlx::query(
            "UPDATE agent_rollout_nodes SET state = 'skipped', reason = 'The rollout was aborted before its turn.',
                 end_time = clock_timestamp()
             WHERE rollout_id = $1 AND state = 'pending'",
        )
        .bind(id)
        .execute(conn)
        .await?;
    }
    Ok(())
}

/// What has failed or was left out in a locked rollout counts no more; with `retry` it gets another turn, and the rollout goes
/// back to the earliest wave that has one.
///
/// # Errors
/// Database errors.
pub async fn accept_failures(conn: &mut PgConnection, id: Uuid, retry: bool) -> sqlx::Result<()> {
    if !retry {
        sqlx::query(
            "UPDATE agent_rollout_nodes SET accepted = true WHERE rollout_id = $1 AND state IN ('failed', 'skipped')",
        )
        .bind(id)
        .execute(conn)
        .await?;
        return Ok(());
    }
    sqlx::query(
        "UPDATE agent_rollout_nodes SET state = 'pending', reason = '', accepted = false, end_time = NULL, start_time = NULL
         WHERE rollout_id = $1 AND state IN ('failed', 'skipped')",
    )
    .bind(id)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "UPDATE agent_rollouts SET current_wave = coalesce(
             (SELECT min(wave) FROM agent_rollout_nodes WHERE rollout_id = $1 AND state = 'pending'), current_wave)
         WHERE id = $1",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Locks one rollout that is not through, if no other replica works on it.
///
/// # Errors
/// Database errors.
pub async fn take(conn: &mut PgConnection) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar(
        "SELECT id FROM agent_rollouts r
          WHERE end_time IS NULL
             OR EXISTS (SELECT FROM agent_rollout_nodes n WHERE n.rollout_id = r.id AND n.state = 'updating')
          ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED",
    )
    .fetch_optional(conn)
    .await
}

/// Ends a node's turn.
///
/// # Errors
/// Database errors.
pub async fn end_node(
    conn: &mut PgConnection,
    rollout_id: Uuid,
    node_id: Uuid,
    state: &str,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE agent_rollout_nodes SET state = $3, reason = $4, end_time = clock_timestamp()
         WHERE rollout_id = $1 AND node_id = $2 AND state IN ('pending', 'updating')",
    )
    .bind(rollout_id)
    .bind(node_id)
    .bind(state)
    .bind(reason)
    .execute(&mut *conn)
    .await?;
    touch(conn, rollout_id).await
}

/// Begins a node's turn. What a heartbeat says of an earlier one counts no more.
///
/// # Errors
/// Database errors.
pub async fn begin_node(
    conn: &mut PgConnection,
    rollout_id: Uuid,
    node_id: Uuid,
    from_version: &str,
    was_ready: bool,
) -> sqlx::Result<()> {
    // a node that was tried before keeps the version that it had first: to that one it is rolled back
    sqlx::query(
        "UPDATE agent_rollout_nodes SET state = 'updating', start_time = clock_timestamp(), was_ready = $4,
             from_version = CASE WHEN from_version = '' THEN $3 ELSE from_version END,
             attempt = attempt + 1, reported_state = '', reported_reason = '', reason = '', wait_time = NULL
         WHERE rollout_id = $1 AND node_id = $2 AND state = 'pending'",
    )
    .bind(rollout_id)
    .bind(node_id)
    .bind(from_version)
    .bind(was_ready)
    .execute(&mut *conn)
    .await?;
    touch(conn, rollout_id).await
}

/// Goes on to a wave.
///
/// # Errors
/// Database errors.
pub async fn begin_wave(conn: &mut PgConnection, rollout_id: Uuid, wave: i32) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE agent_rollouts SET current_wave = $2, revision = revision + 1 WHERE id = $1",
    )
    .bind(rollout_id)
    .bind(wave)
    .execute(conn)
    .await?;
    Ok(())
}

async fn touch(conn: &mut PgConnection, rollout_id: Uuid) -> sqlx::Result<()> {
    sqlx::query("UPDATE agent_rollouts SET revision = revision + 1 WHERE id = $1")
        .bind(rollout_id)
        .execute(conn)
        .await?;
    Ok(())
}

/// Failures that count against the limit.
///
/// # Errors
/// Database errors.
pub async fn counted_failures(conn: &mut PgConnection, rollout_id: Uuid) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM agent_rollout_nodes WHERE rollout_id = $1 AND state = 'failed' AND NOT accepted",
    )
    .bind(rollout_id)
    .fetch_one(conn)
    .await
}

/// What a host is told now, if its node's turn it is.
///
/// # Errors
/// Database errors.
pub async fn reported(pool: &PgPool, node_id: Uuid) -> sqlx::Result<Option<Reported>> {
    sqlx::query_as(
        "SELECT o.rollout_id, o.attempt, o.version, r.digest, r.size_bytes, r.rollback_of IS NOT NULL AS rollback
           FROM agent_rollout_nodes o JOIN agent_rollouts r ON r.id = o.rollout_id
          WHERE o.node_id = $1 AND o.state = 'updating'",
    )
    .bind(node_id)
    .fetch_optional(pool)
    .await
}

/// Notes what a host says of the update that it was told; of another one it counts for nothing. The time of its turn stands
/// still while it waits, as often as it does, until the rollout has ended: from then on no host holds up the next one for
/// longer than a turn.
///
/// # Errors
/// Database errors.
pub async fn note_report(
    conn: &mut PgConnection,
    node_id: Uuid,
    (rollout_id, attempt): (Uuid, i32),
    state: &str,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        // what a process of the release before has noted as waiting has no time of its wait, or that of an earlier one, which
        // must not put the beginning of the turn off
        "UPDATE agent_rollout_nodes o SET reported_state = $4, reported_reason = $5,
             start_time = CASE WHEN o.reported_state = 'waiting' AND $4 <> 'waiting' AND r.end_time IS NULL
                               THEN least(o.start_time + (clock_timestamp() - coalesce(o.wait_time, o.start_time)), clock_timestamp())
                               ELSE o.start_time END,
             wait_time = CASE WHEN $4 <> 'waiting' THEN NULL
                              WHEN o.reported_state = 'waiting' THEN o.wait_time
                              ELSE clock_timestamp() END
          FROM agent_rollouts r
         WHERE r.id = o.rollout_id AND o.rollout_id = $2 AND o.node_id = $1 AND o.attempt = $3 AND o.state = 'updating'
           AND (o.reported_state, o.reported_reason) IS DISTINCT FROM ($4, $5)",
    )
    .bind(node_id)
    .bind(rollout_id)
    .bind(attempt)
    .bind(state)
    .bind(reason)
    .execute(conn)
    .await?;
    Ok(())
}
