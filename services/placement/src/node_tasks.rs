//! The durable record of each call to a host (C-22..C-27, C-33). Its id is the operation id sent to the host,
//! so a call that is made again is the same row.

use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

/// The type of a call to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskType {
    /// Bring up a VM (C-23).
    VmProvision,
    /// Stop a VM, wipe its disks, prove them empty (C-26).
    VmRelease,
    /// Remove what a failed provision left.
    VmCleanUp,
    /// Wipe a slot that no VM uses.
    SlotRepair,
    /// Shut a VM down.
    VmStop,
    /// Start a VM that was shut down.
    VmStart,
    /// Shut a VM down and start it again.
    VmReboot,
    /// Stops a VM, and starts it from a rescue image.
    VmRescue,
}

impl TaskType {
    /// The name in `node_tasks.type`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::VmProvision => "slice.vm_provision",
            Self::VmRelease => "slice.vm_release",
            Self::VmCleanUp => "slice.vm_clean_up",
            Self::SlotRepair => "slice.slot_repair",
            Self::VmStop => "slice.vm_stop",
            Self::VmStart => "slice.vm_start",
            Self::VmReboot => "slice.vm_reboot",
            Self::VmRescue => "slice.vm_rescue",
        }
    }
}

/// A task to record.
#[derive(Debug, Clone)]
pub struct NewTask<'a> {
    /// The operation id.
    pub id: Uuid,
    /// The type of the call.
    pub task_type: TaskType,
    /// The workflow that makes the call.
    pub workflow_id: Uuid,
    /// The allocation it is about.
    pub allocation_id: Option<Uuid>,
    /// The slot it is about, for repairs.
    pub slot_id: Option<Uuid>,
    /// The host.
    pub node_id: Uuid,
    /// The request, without secrets.
    pub payload: &'a Value,
}

/// A task as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Task {
    /// The operation id.
    pub id: Uuid,
    /// Name of the type.
    #[sqlx(rename = "type")]
    pub task_type: String,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// The type of the call.
    pub payload: Value,
    /// What the host answered (C-27).
    pub output: Value,
    /// When it was first called.
    pub created_at: Timestamp,
    /// When the answer was final.
    pub ended_at: Option<Timestamp>,
}

/// Records a call before it is made. The same id again changes nothing.
///
/// # Errors
/// Those of the database.
pub async fn begin(conn: &mut PgConnection, task: &NewTask<'_>) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO node_tasks (id, type, workflow_id, allocation_id, slot_id, node_id, payload)
         VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO NOTHING",
    )
    .bind(task.id)
    .bind(task.task_type.as_str())
    .bind(task.workflow_id)
    .bind(task.allocation_id)
    .bind(task.slot_id)
    .bind(task.node_id)
    .bind(task.payload)
    .execute(conn)
    .await?;
    Ok(())
}

/// Records the answer of a call. A task that has ended keeps its first answer.
///
/// # Errors
/// Those of the database.
pub async fn finish(
    conn: &mut PgConnection,
    id: Uuid,
    succeeded: bool,
    output: &Value,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE node_tasks SET state = $2, output = $3, ended_at = clock_timestamp()
          WHERE id = $1 AND state = 'running'",
    )
    .bind(id)
    .bind(if succeeded { "done" } else { "failed" })
    .bind(output)
    .execute(conn)
    .await?;
    Ok(())
}

/// Ends the tasks of an allocation itself, or of one slot, whose answers are no longer needed: their
/// workflow was cancelled, or gave up on the host. The task that follows reports what the host did.
///
/// # Errors
/// Those of the database.
pub async fn abandon(
    conn: &mut PgConnection,
    allocation_id: Option<Uuid>,
    slot_id: Option<Uuid>,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE node_tasks
            SET state = 'failed', output = jsonb_build_object('abandoned', true), ended_at = clock_timestamp()
          WHERE state = 'running' AND slot_id IS NOT DISTINCT FROM $2 AND allocation_id IS NOT DISTINCT FROM $1",
    )
    .bind(allocation_id)
    .bind(slot_id)
    .execute(conn)
    .await?;
    Ok(())
}

/// The tasks of an allocation, oldest first, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn of_allocation(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<Task>> {
    sqlx::query_as(
        "SELECT id, type, state, payload, output, created_at, ended_at FROM node_tasks
          WHERE allocation_id = $1 ORDER BY created_at, id LIMIT $2",
    )
    .bind(allocation_id)
    .bind(limit)
    .fetch_all(conn)
    .await
}
