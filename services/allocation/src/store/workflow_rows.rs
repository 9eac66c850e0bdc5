//! Rows of workflows and their steps. Taking work is `FOR UPDATE SKIP LOCKED`; every later write carries the
//! epoch of the taking, so a late writer changes no row (P6). Times are compared in SQL only.

use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// A workflow as taken by this process: the fence for all its writes.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Taken {
    /// Workflow.
    pub id: Uuid,
    /// `provision`, `release`, either with `_node` for a bare-metal one, `repair`, `clean_up`, `stop`, `start` or `reboot`.
    pub kind: String,
    /// The allocation worked on.
    pub allocation_id: Option<Uuid>,
    /// The slot worked on, for a repair.
    pub slot_id: Option<Uuid>,
    /// Of a stop or reboot: the guest is not asked to shut down.
    pub forced: bool,
    /// `forward` or `undo`.
    pub direction: String,
    /// Why it failed, once it has.
    pub failure: Option<Value>,
    /// Epoch of this taking.
    pub lease_epoch: i64,
    /// Trace the work belongs to.
    pub traceparent: String,
    /// Request that caused it.
    pub request_id: String,
    /// Seconds since it was started.
    pub age_seconds: f64,
    /// Seconds left of the workflow's window; negative past it.
    pub left_seconds: f64,
}

/// A step's row.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct StepRow {
    /// Name.
    pub step: String,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// How often its effect was started.
    pub attempts: i32,
    /// What it recorded.
    pub output: Value,
    /// Reason and message of its last failed attempt.
    pub error: Option<Value>,
    /// Seconds since it was first started.
    pub age_seconds: f64,
}

/// The write found another epoch: another runner has the work now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost;

/// Takes one due workflow for `lease_seconds`.
///
/// # Errors
/// Those of the database.
pub async fn take(pool: &PgPool, owner: &str, lease_seconds: f64) -> sqlx::Result<Option<Taken>> {
    sqlx::query_as(
        "WITH due AS (
             SELECT id FROM workflows
              WHERE state = 'running' AND due_at <= clock_timestamp()
                AND (lease_expires_at IS NULL OR lease_expires_at < clock_timestamp())
              ORDER BY due_at LIMIT 1
              FOR UPDATE SKIP LOCKED)
         UPDATE workflows w
            SET lease_owner = $1, lease_epoch = nextval('workflow_epochs'),
                lease_expires_at = clock_timestamp() + make_interval(secs => $2)
           FROM due WHERE w.id = due.id
         RETURNING w.id, w.kind, w.allocation_id, w.slot_id, w.forced, w.direction, w.failure, w.lease_epoch,
                   w.traceparent, w.request_id,
                   extract(epoch FROM clock_timestamp() - w.created_at)::float8 AS age_seconds,
                   extract(epoch FROM w.deadline_at - clock_timestamp())::float8 AS left_seconds",
    )
    .bind(owner)
    .bind(lease_seconds)
    .fetch_optional(pool)
    .await
}

/// The workflow as it is now, if this taking still holds.
///
/// # Errors
/// Those of the database.
pub async fn reload(pool: &PgPool, id: Uuid, epoch: i64) -> sqlx::Result<Option<Taken>> {
    sqlx::query_as(
        "SELECT id, kind, allocation_id, slot_id, forced, direction, failure, lease_epoch, traceparent, request_id,
                extract(epoch FROM clock_timestamp() - created_at)::float8 AS age_seconds,
                extract(epoch FROM deadline_at - clock_timestamp())::float8 AS left_seconds
           FROM workflows WHERE id = $1 AND lease_epoch = $2 AND state = 'running'",
    )
    .bind(id)
    .bind(epoch)
    .fetch_optional(pool)
    .await
}

/// Extends the lease.
///
/// # Errors
/// Those of the database; `Ok(Err(Lost))` when the epoch is another.
pub async fn renew(
    pool: &PgPool,
    id: Uuid,
    epoch: i64,
    lease_seconds: f64,
) -> sqlx::Result<Result<(), Lost>> {
    let done = sqlx::query(
        "UPDATE workflows SET lease_expires_at = clock_timestamp() + make_interval(secs => $3)
          WHERE id = $1 AND lease_epoch = $2 AND state = 'running'",
    )
    .bind(id)
    .bind(epoch)
    .bind(lease_seconds)
    .execute(pool)
    .await?;
    Ok(fence(done.rows_affected()))
}

/// Checks the fence inside a transaction and locks the row until it ends, so that what the transaction
/// writes belongs to this taking. Call it after the ledger's own locks.
///
/// # Errors
/// Those of the database; `Ok(Err(Lost))` when the epoch is another.
pub async fn hold(conn: &mut PgConnection, id: Uuid, epoch: i64) -> sqlx::Result<Result<(), Lost>> {
    let row: Option<Uuid> = sqlx::query_scalar(
        "SELECT id FROM workflows WHERE id = $1 AND lease_epoch = $2 AND state = 'running' FOR UPDATE",
    )
    .bind(id)
    .bind(epoch)
    .fetch_optional(conn)
    .await?;
    Ok(fence(u64::from(row.is_some())))
}

/// The rows of a workflow's steps.
///
/// # Errors
/// Those of the database.
pub async fn steps(pool: &PgPool, id: Uuid) -> sqlx::Result<Vec<StepRow>> {
    sqlx::query_as(
        "SELECT step, state, attempts, output, error,
                extract(epoch FROM clock_timestamp() - started_at)::float8 AS age_seconds
           FROM workflow_steps WHERE workflow_id = $1 ORDER BY started_at, step",
    )
    .bind(id)
    .fetch_all(pool)
    .await
}

/// Records that a step's effect is about to start.
///
/// # Errors
/// Those of the database, which refuses a step that is done by now; `Ok(Err(Lost))` when the epoch or the direction is
/// another: a turn to undo is known to the row before its answer is known here, or instead of it.
pub async fn begin_step(
    pool: &PgPool,
    id: Uuid,
    epoch: i64,
    direction: &str,
    step: &str,
) -> sqlx::Result<Result<StepRow, Lost>> {
    let row: Option<StepRow> = sqlx::query_as(
        "INSERT INTO workflow_steps (workflow_id, step, state, lease_epoch)
         SELECT id, $3, 'running', $2 FROM workflows
          WHERE id = $1 AND lease_epoch = $2 AND direction = $4 AND state = 'running' FOR UPDATE
         ON CONFLICT (workflow_id, step) DO UPDATE
             SET attempts = workflow_steps.attempts + 1, lease_epoch = excluded.lease_epoch, state = 'running'
         RETURNING step, state, attempts, output, error,
                   extract(epoch FROM clock_timestamp() - started_at)::float8 AS age_seconds",
    )
    .bind(id)
    .bind(epoch)
    .bind(step)
    .bind(direction)
    .fetch_optional(pool)
    .await?;
    Ok(row.ok_or(Lost))
}

/// Records how a step's effect ended, if the step still runs: an attempt whose commit the database carried out without its
/// answer coming back has ended it already, and that record stays. Says whether it did. The caller holds the fence ([`hold`])
/// in the same transaction.
///
/// # Errors
/// Those of the database.
pub async fn end_step(
    conn: &mut PgConnection,
    id: Uuid,
    step: &str,
    succeeded: bool,
    output: &Value,
    error: Option<&Value>,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE workflow_steps SET state = $3, output = $4, error = $5, ended_at = clock_timestamp()
          WHERE workflow_id = $1 AND step = $2 AND state = 'running'",
    )
    .bind(id)
    .bind(step)
    .bind(if succeeded { "done" } else { "failed" })
    .bind(output)
    .bind(error)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Reverses a workflow: from here on its steps are compensated.
///
/// # Errors
/// Those of the database; `Ok(Err(Lost))` when the epoch is another.
pub async fn turn_to_undo(
    conn: &mut PgConnection,
    id: Uuid,
    epoch: i64,
    failure: &Value,
) -> sqlx::Result<Result<(), Lost>> {
    let done = sqlx::query(
        "UPDATE workflows SET direction = 'undo', failure = $3
          WHERE id = $1 AND lease_epoch = $2 AND state = 'running'",
    )
    .bind(id)
    .bind(epoch)
    .bind(failure)
    .execute(conn)
    .await?;
    Ok(fence(done.rows_affected()))
}

/// Yields the work, to be taken again after `delay_seconds`, with the reason on the running step.
///
/// # Errors
/// Those of the database; `Ok(Err(Lost))` when the epoch is another.
pub async fn yield_workflow(
    pool: &PgPool,
    id: Uuid,
    epoch: i64,
    delay_seconds: f64,
    step: &str,
    error: Option<&Value>,
) -> sqlx::Result<Result<(), Lost>> {
    let done = sqlx::query(
        "WITH mine AS (
             UPDATE workflows
                SET due_at = clock_timestamp() + make_interval(secs => $3), lease_expires_at = NULL
              WHERE id = $1 AND lease_epoch = $2 AND state = 'running' RETURNING id),
         step AS (
             UPDATE workflow_steps s SET error = $5 FROM mine
              WHERE s.workflow_id = mine.id AND s.step = $4 AND s.state = 'running' AND $5::jsonb IS NOT NULL)
         SELECT id FROM mine",
    )
    .bind(id)
    .bind(epoch)
    .bind(delay_seconds)
    .bind(step)
    .bind(error)
    .fetch_optional(pool)
    .await?;
    Ok(fence(u64::from(done.is_some())))
}

/// Ends a workflow.
///
/// # Errors
/// Those of the database; `Ok(Err(Lost))` when the epoch or the direction is another.
pub async fn finish(
    pool: &PgPool,
    id: Uuid,
    epoch: i64,
    direction: &str,
    succeeded: bool,
) -> sqlx::Result<Result<(), Lost>> {
    let done = sqlx::query(
        "UPDATE workflows
            SET state = $3, ended_at = clock_timestamp(), lease_expires_at = NULL, progress = NULL
          WHERE id = $1 AND lease_epoch = $2 AND direction = $4 AND state = 'running'",
    )
    .bind(id)
    .bind(epoch)
    .bind(if succeeded { "done" } else { "failed" })
    .bind(direction)
    .execute(pool)
    .await?;
    Ok(fence(done.rows_affected()))
}

/// Notes what runs now, for the read model.
///
/// # Errors
/// Those of the database; `Ok(Err(Lost))` when the epoch is another.
pub async fn set_progress(
    conn: &mut PgConnection,
    id: Uuid,
    epoch: i64,
    progress: &Value,
) -> sqlx::Result<Result<(), Lost>> {
    let done = sqlx::query(
        "UPDATE workflows SET progress = $3 WHERE id = $1 AND lease_epoch = $2 AND state = 'running'",
    )
    .bind(id)
    .bind(epoch)
    .bind(progress)
    .execute(conn)
    .await?;
    Ok(fence(done.rows_affected()))
}

/// How many calls of a type the workflow has had fail: the next one is a new operation.
///
/// # Errors
/// Those of the database.
pub async fn failed_tasks(pool: &PgPool, id: Uuid, task_type: &str) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "SELECT count(*) FROM node_tasks WHERE workflow_id = $1 AND type = $2 AND state = 'failed'",
    )
    .bind(id)
    .bind(task_type)
    .fetch_one(pool)
    .await
}

/// The node of an allocation, else of a slot.
///
/// # Errors
/// Those of the database.
pub async fn node_of(
    pool: &PgPool,
    allocation_id: Option<Uuid>,
    slot_id: Option<Uuid>,
) -> sqlx::Result<Option<Uuid>> {
    sqlx::query_scalar(
        "SELECT coalesce((SELECT node_id FROM slots WHERE id = $2), (SELECT node_id FROM allocations WHERE id = $1))",
    )
    .bind(allocation_id)
    .bind(slot_id)
    .fetch_one(pool)
    .await
}

/// What was last reported of each step in the timeline since the workflow began: step, state, percent.
///
/// # Errors
/// Those of the database.
pub async fn shown_steps(pool: &PgPool, id: Uuid) -> sqlx::Result<Vec<(String, String, i16)>> {
    sqlx::query_as(
        "SELECT DISTINCT ON (t.step) t.step, t.state, t.percent
           FROM workflows w JOIN timeline t ON t.allocation_id = w.allocation_id AND t.at >= w.created_at
          WHERE w.id = $1 ORDER BY t.step, t.sequence DESC",
    )
    .bind(id)
    .fetch_all(pool)
    .await
}

fn fence(rows: u64) -> Result<(), Lost> {
    if rows == 1 { Ok(()) } else { Err(Lost) }
}
