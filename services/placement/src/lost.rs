//! The condition `host_lost`: the host of an allocation is silent, or was installed anew.
//!
//! The ledger notes it with the node: inventory says since when a host is silent, and that another instance has enrolled.
//! A host that is heard again ends the condition of its own allocations. What was on an instance that is no more never
//! comes back: its condition lasts until the allocation ends. A bare metal tenant may silence the host's agent, so that
//! says nothing of a bare metal allocation.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use crate::error::Result;
use crate::model::{Allocation, Scope, Shape};
use crate::timeline::State;
use crate::{allocations, nodes, outbox, timeline};

/// Name of the condition, and of the event and timeline entry when it begins.
pub const HOST_LOST: &str = "host_lost";
/// Name of the event and timeline entry when it ends.
pub const HOST_FOUND: &str = "host_found";

/// What the condition means, to the owner of the allocation.
pub const SILENT: &str = "The host does not answer. The VM may still run, but nothing can be done with it until the host is back or an operator ends the allocation.";
/// The same when there is another host instance.
pub const REPLACED: &str =
    "The host was installed anew, so the VM is gone. Release the allocation.";
const BACK: &str = "The host answers again.";

/// Refuses what takes a host that is there, for an allocation on a locked node. A bare metal tenant may silence the agent.
///
/// # Errors
/// `HOST_UNREACHABLE`, which may pass.
pub(crate) async fn refuse(conn: &mut PgConnection, allocation: &Allocation) -> Result<()> {
    let (Shape::GpuSlice, Some(node_id)) = (allocation.capacity_shape, allocation.node_id) else {
        return Ok(());
    };
    let node = nodes::get(conn, node_id).await?;
    if allocation
        .host_lost_since
        .or(node.host_lost_since)
        .is_none()
    {
        return Ok(());
    }
    Err(gpuaas_common::Error::new(
        Code::Unavailable,
        ErrorReason::HostUnreachable,
        "The host of the allocation is lost.",
    )
    .into())
}

/// An allocation whose condition changes.
#[derive(Debug, sqlx::FromRow)]
struct Change {
    id: Uuid,
    since: Option<Timestamp>,
    replaced: bool,
}

/// Notes the condition of every allocation on a locked node, each with its event and its timeline entry; `replaced_now`:
/// another host instance has just taken the place of the one that they are on. A host that is silent since a later moment than
/// is on record was heard in between, and is lost anew: what the ledger is told between two losses may be the second one only.
pub(crate) async fn note(conn: &mut PgConnection, node_id: Uuid, replaced_now: bool) -> Result<()> {
    let changes: Vec<Change> = sqlx::query_as(
        "SELECT id, since, replaced FROM (
             SELECT a.id, a.host_lost_since, bool_or((c.snapshot ->> 'instance_id')::uuid <> n.instance_id) AS replaced,
                    CASE WHEN bool_or((c.snapshot ->> 'instance_id')::uuid <> n.instance_id)
                         THEN coalesce(a.host_lost_since, clock_timestamp())
                         ELSE n.host_lost_since END AS since
               FROM allocations a JOIN nodes n ON n.id = a.node_id
                    JOIN claims c ON c.allocation_id = a.id AND c.state <> 'released'
              WHERE a.node_id = $1 AND a.capacity_shape = 'gpu_slice' AND a.state IN ('provisioning', 'active', 'releasing')
              GROUP BY a.id, n.id) AS now
          WHERE (since IS NULL) <> (host_lost_since IS NULL) OR since > host_lost_since OR $2 AND replaced ORDER BY id",
    )
    .bind(node_id)
    .bind(replaced_now)
    .fetch_all(&mut *conn)
    .await?;
    for change in changes {
        note_one(conn, &change).await?;
    }
    Ok(())
}

async fn note_one(conn: &mut PgConnection, change: &Change) -> Result<()> {
    allocations::lock(conn, change.id).await?;
    sqlx::query(
        "UPDATE allocations SET host_lost_since = $2, revision = revision + 1,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(change.id)
    .bind(change.since)
    .execute(&mut *conn)
    .await?;
    let (kind, reported) = match (change.since, change.replaced) {
        (Some(_), false) => (HOST_LOST, SILENT),
        (Some(_), true) => (HOST_LOST, REPLACED),
        (None, _) => (HOST_FOUND, BACK),
    };
    timeline::append(conn, change.id, kind, State::Done, reported).await?;
    let allocation = allocations::get(conn, Scope::Platform, change.id).await?;
    outbox::append_allocation(conn, &format!("allocation.{kind}"), &allocation).await
}
