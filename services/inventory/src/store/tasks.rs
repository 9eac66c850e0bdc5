//! Node tasks: the durable record and the queue of host inspections (`slice.topology_discover`, A-56).
use std::collections::BTreeMap;
use std::time::Duration;

use jiff_sqlx::Timestamp;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

/// Type of the task that inspects a host's topology.
pub const DISCOVER: &str = "slice.topology_discover";

/// Generations of a node's slots, by index.
pub type Generations = BTreeMap<u32, i64>;

/// A task as read.
#[derive(Debug, Clone, FromRow)]
pub struct TaskRow {
    /// Task; also the id of the discovery.
    pub id: Uuid,
    pub node_id: Uuid,
    pub task_type: String,
    /// `queued`, `running`, `completed` or `failed`.
    pub state: String,
    /// Instance that was inspected.
    pub instance_id: Option<Uuid>,
    /// Why it failed.
    pub error: String,
    /// The same as a name of `ErrorReason`; empty: unknown.
    pub error_reason: String,
    /// Encoded report of the host.
    pub output: Option<Vec<u8>>,
    /// What the ledger's slots were before the inspection.
    pub slot_generations: Json<Generations>,
    /// When it was requested.
    pub create_time: Timestamp,
    /// When it ended.
    pub end_time: Option<Timestamp>,
    /// It ended recently enough to be approved from.
    pub fresh: bool,
}

const SELECT: &str =
    "SELECT id, node_id, task_type, state, instance_id, error, error_reason, output, slot_generations, create_time, end_time,
        coalesce(end_time > clock_timestamp() - make_interval(secs => $1), false) AS fresh
    FROM node_tasks";

/// Queues an inspection of a node, or joins the one that is queued already. Returns the task.
///
/// # Errors
/// Database errors.
pub async fn queue_discovery(
    conn: &mut PgConnection,
    id: Uuid,
    node_id: Uuid,
    traceparent: &str,
) -> sqlx::Result<Uuid> {
    // the no-op update makes the waiting row visible to RETURNING
    sqlx::query_scalar(
        "INSERT INTO node_tasks (id, node_id, task_type, traceparent) VALUES ($1, $2, $3, $4)
         ON CONFLICT (node_id, task_type) WHERE state = 'queued' DO UPDATE SET attempts = node_tasks.attempts
         RETURNING id",
    )
    .bind(id)
    .bind(node_id)
    .bind(DISCOVER)
    .bind(traceparent)
    .fetch_one(conn)
    .await
}

/// One task. `max_age_seconds` decides whether it is fresh.
///
/// # Errors
/// Database errors.
pub async fn find(
    conn: &mut PgConnection,
    id: Uuid,
    max_age_seconds: u32,
) -> sqlx::Result<Option<TaskRow>> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE id = $2")))
        .bind(f64::from(max_age_seconds))
        .bind(id)
        .fetch_optional(conn)
        .await
}

/// The newest discovery of a node, whatever its state.
///
/// # Errors
/// Database errors.
pub async fn latest_discovery(
    conn: &mut PgConnection,
    node_id: Uuid,
    max_age_seconds: u32,
) -> sqlx::Result<Option<TaskRow>> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{SELECT} WHERE node_id = $2 AND task_type = $3 ORDER BY create_time DESC, id DESC LIMIT 1"
    )))
    .bind(f64::from(max_age_seconds))
    .bind(node_id)
    .bind(DISCOVER)
    .fetch_optional(conn)
    .await
}

/// Report of the newest completed discovery of a node's current instance.
///
/// # Errors
/// Database errors.
pub async fn current_topology(
    conn: &mut PgConnection,
    node_id: Uuid,
) -> sqlx::Result<Option<Vec<u8>>> {
    sqlx::query_scalar(
        "SELECT t.output FROM node_tasks t JOIN nodes n ON n.id = t.node_id AND n.current_instance_id = t.instance_id
         WHERE t.node_id = $1 AND t.task_type = $2 AND t.state = 'completed'
         ORDER BY t.create_time DESC, t.id DESC LIMIT 1",
    )
    .bind(node_id)
    .bind(DISCOVER)
    .fetch_optional(conn)
    .await
}

/// A task that this process works on until its lease ends.
#[derive(Debug, Clone, FromRow)]
pub struct ClaimedTask {
    /// Task.
    pub id: Uuid,
    /// Node to inspect.
    pub node_id: Uuid,
    /// Instance to inspect; a node has one before it can be inspected.
    pub instance_id: Uuid,
    /// Where its agent answers.
    pub agent_address: String,
    /// Trace of the request.
    pub traceparent: String,
    /// How often it was begun, this time included.
    pub attempts: i32,
    /// This claim; every write of it carries this number.
    pub lease_epoch: i64,
}

/// Takes the oldest task that is queued or whose worker died, one per node at a time.
///
/// # Errors
/// Database errors.
pub async fn claim(pool: &PgPool, lease_seconds: u32) -> sqlx::Result<Option<ClaimedTask>> {
    sqlx::query_as(
        "UPDATE node_tasks t SET state = 'running', attempts = t.attempts + 1, lease_epoch = t.lease_epoch + 1,
             lease_until = clock_timestamp() + make_interval(secs => $1), instance_id = i.id
         FROM nodes n JOIN host_instances i ON i.id = n.current_instance_id
         WHERE n.id = t.node_id AND t.id = (
             SELECT q.id FROM node_tasks q
             WHERE q.state IN ('queued', 'running') AND q.not_before <= clock_timestamp()
               AND (q.lease_until IS NULL OR q.lease_until <= clock_timestamp())
               AND NOT EXISTS (SELECT FROM node_tasks r WHERE r.node_id = q.node_id AND r.id <> q.id
                               AND r.state = 'running' AND r.lease_until > clock_timestamp())
             ORDER BY q.create_time LIMIT 1 FOR UPDATE SKIP LOCKED)
         RETURNING t.id, t.node_id, t.instance_id, i.agent_address, t.traceparent, t.attempts, t.lease_epoch",
    )
    .bind(f64::from(lease_seconds))
    .fetch_optional(pool)
    .await
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub enum Ending<'a> {
    /// The host reported; what its slots were before.
    Completed(&'a [u8], &'a Generations),
    /// It will not be tried again: a sentence, and a name of `ErrorReason`.
    Failed(&'a str, &'a str),
    /// It is tried again after this pause.
    Retry(Duration),
}

/// Writes how an attempt ended. `false`, and nothing changed, when the claim is not the current one.
///
/// # Errors
/// Database errors.
pub async fn finish(
    conn: &mut PgConnection,
    task: &ClaimedTask,
    ending: Ending<'_>,
) -> sqlx::Result<bool> {
    let none = Generations::new();
    let (error, reason) = match ending {
        Ending::Failed(error, reason) => (error, reason),
        Ending::Completed(..) | Ending::Retry(_) => ("", ""),
    };
    let (state, output, generations, pause) = match ending {
        Ending::Completed(report, generations) => {
            ("completed", Some(report), generations, Duration::ZERO)
        }
        Ending::Failed(..) => ("failed", None, &none, Duration::ZERO),
        Ending::Retry(pause) => ("running", None, &none, pause),
    };
    // A task to be tried again stays "running" with its lease at the moment it is due: the slot of the one
    // queued task of the node may be taken by then.
    let done = sqlx::query(
        "UPDATE node_tasks SET state = $3, output = $4, error = $5, error_reason = $8, slot_generations = $7,
             lease_until = CASE WHEN $3 = 'running' THEN clock_timestamp() + make_interval(secs => $6) END,
             end_time = CASE WHEN $3 <> 'running' THEN clock_timestamp() END
         WHERE id = $1 AND lease_epoch = $2 AND state = 'running'",
    )
    .bind(task.id)
    .bind(task.lease_epoch)
    .bind(state)
    .bind(output)
    .bind(error)
    .bind(pause.as_secs_f64())
    .bind(Json(generations))
    .bind(reason)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Rows of one transaction.
const BATCH: i32 = 200;

/// Removes discoveries that ended so many days ago, and returns how many: the database itself keeps those that an approval
/// names and the latest of each node, whoever calls.
///
/// # Errors
/// Database errors.
pub async fn sweep(pool: &PgPool, retention_days: u32) -> sqlx::Result<u64> {
    let mut total = 0;
    loop {
        let gone: i64 =
            sqlx::query_scalar("SELECT sweep_discoveries(make_interval(days => $1), $2)")
                .bind(i32::try_from(retention_days.max(1)).unwrap_or(i32::MAX))
                .bind(BATCH)
                .fetch_one(pool)
                .await?;
        total += gone.unsigned_abs();
        if gone < i64::from(BATCH) {
            return Ok(total);
        }
    }
}
