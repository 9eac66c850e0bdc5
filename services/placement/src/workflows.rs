//! Rows of durable work: starting a workflow in the transaction that needs it, and ending one that another
//! workflow takes over from. Running them is the allocation service's business.

use sqlx::PgConnection;
use uuid::Uuid;

use crate::model::Shape;

/// Redis topic that wakes workflow runners. Notified after commit, never the record (P8).
pub const TOPIC: &str = "workflows";

/// Seconds a provision workflow may take in all (C-29, INC-22).
pub const PROVISION_WINDOW_SECONDS: i64 = 30 * 60;
/// Seconds that a host is given to wipe the disks of a release or repair and to prove them empty, unless a site sets another
/// time: large disks are overwritten at the speed that they have.
pub const WIPE_SECONDS: i64 = 6 * 60 * 60;
/// Seconds a release workflow may take before it reports so; it goes on until the host is proven clean.
pub const RELEASE_WINDOW_SECONDS: i64 = WIPE_SECONDS + 30 * 60;
/// Seconds a slot repair may take before it reports so; each of its steps has a bound of its own.
pub const REPAIR_WINDOW_SECONDS: i64 = WIPE_SECONDS + 30 * 60;
/// Seconds a clean-up may take in all.
pub const CLEAN_UP_WINDOW_SECONDS: i64 = 10 * 60;

/// Seconds a stop, start or reboot may take in all.
pub const POWER_WINDOW_SECONDS: i64 = 15 * 60;

/// Kind of the workflow that brings an allocation of a shape up.
#[must_use]
pub fn provision_of(shape: Shape) -> &'static str {
    match shape {
        Shape::GpuSlice => "provision",
        Shape::Baremetal => "provision_node",
    }
}

/// Kind of the workflow that ends an allocation of a shape.
#[must_use]
pub fn release_of(shape: Shape) -> &'static str {
    match shape {
        Shape::GpuSlice => "release",
        Shape::Baremetal => "release_node",
    }
}

/// A workflow to start.
#[derive(Debug, Clone, Copy, Default)]
pub struct New<'a> {
    /// [`provision_of`], [`release_of`], `repair`, `clean_up`, `stop`, `start` or `reboot`.
    pub kind: &'a str,
    pub allocation_id: Option<Uuid>,
    pub slot_id: Option<Uuid>,
    /// Its window.
    pub deadline_seconds: i64,
    /// Of a stop or reboot: the guest is not asked to shut down.
    pub forced: bool,
    pub traceparent: &'a str,
    pub request_id: &'a str,
}

/// Starts a workflow and returns its id.
///
/// Call it inside the transaction whose ledger change needs the work; notify [`TOPIC`] after the commit.
///
/// # Errors
/// A unique violation when another workflow still works on the same allocation or slot.
pub async fn enqueue(conn: &mut PgConnection, new: &New<'_>) -> sqlx::Result<Uuid> {
    let id = Uuid::now_v7();
    sqlx::query(
        "INSERT INTO workflows (id, kind, allocation_id, slot_id, deadline_at, forced, traceparent, request_id)
         VALUES ($1, $2, $3, $4, clock_timestamp() + make_interval(secs => $5), $6, $7, $8)",
    )
    .bind(id)
    .bind(new.kind)
    .bind(new.allocation_id)
    .bind(new.slot_id)
    .bind(new.deadline_seconds as f64)
    .bind(new.forced)
    .bind(new.traceparent)
    .bind(new.request_id)
    .execute(conn)
    .await?;
    Ok(id)
}

/// Ends every running workflow on the allocation itself: a release takes over from a provision
/// (`provisioning → releasing`). Raising the epoch makes the old runner's next write change no row.
///
/// Returns the ids of the workflows that were ended.
///
/// # Errors
/// Those of the database.
pub async fn cancel(conn: &mut PgConnection, allocation_id: Uuid) -> sqlx::Result<Vec<Uuid>> {
    sqlx::query_scalar(
        "UPDATE workflows
            SET state = 'cancelled', ended_at = clock_timestamp(), lease_epoch = nextval('workflow_epochs'),
                lease_expires_at = NULL
          WHERE allocation_id = $1 AND slot_id IS NULL AND state = 'running'
          RETURNING id",
    )
    .bind(allocation_id)
    .fetch_all(conn)
    .await
}

/// Ends every running repair of these slots.
///
/// # Errors
/// Those of the database.
pub(crate) async fn cancel_repairs(conn: &mut PgConnection, slot_ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE workflows
            SET state = 'cancelled', ended_at = clock_timestamp(), lease_epoch = nextval('workflow_epochs'),
                lease_expires_at = NULL
          WHERE slot_id = ANY ($1) AND state = 'running'",
    )
    .bind(slot_ids)
    .execute(&mut *conn)
    .await?;
    sqlx::query(
        "UPDATE node_tasks
            SET state = 'failed', output = jsonb_build_object('abandoned', true), ended_at = clock_timestamp()
          WHERE slot_id = ANY ($1) AND state = 'running'",
    )
    .bind(slot_ids)
    .execute(conn)
    .await?;
    Ok(())
}

/// Whether a workflow is at the allocation.
///
/// # Errors
/// Those of the database.
pub async fn at(conn: &mut PgConnection, allocation_id: Uuid) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM workflows WHERE allocation_id = $1 AND state = 'running')",
    )
    .bind(allocation_id)
    .fetch_one(conn)
    .await
}
