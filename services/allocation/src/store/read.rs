//! Read models: running progress, queue positions, the latest repair of a slot.

use std::collections::{HashMap, HashSet};

use gpuaas_common::Error;
use gpuaas_placement::claims;
use gpuaas_placement::model::Allocation;
use gpuaas_placement::queue::{self, QueuePosition};
use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::domain::operation::Progress;

/// What an allocation's own row does not hold.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Now {
    /// What runs for it.
    pub progress: Option<Progress>,
    /// Its queue position, while it is queued.
    pub queue_position: Option<QueuePosition>,
    /// Its host was installed anew since it was placed there.
    pub host_replaced: bool,
    /// What its VM has, once slots are claimed for it.
    pub resources: Option<Resources>,
}

/// What a VM has, as it was when its slots were claimed.
#[derive(Debug, Clone, Copy, PartialEq, sqlx::FromRow)]
pub struct Resources {
    /// Virtual CPUs.
    pub vcpus: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// Disks, one per slot.
    pub disks: i64,
    /// Bytes of all disks.
    pub disk_bytes: i64,
}

/// What is now with these allocations.
///
/// # Errors
/// Those of the database.
pub async fn now(
    conn: &mut PgConnection,
    rows: &[Allocation],
) -> Result<HashMap<Uuid, Now>, Error> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut progress = progress(conn, &ids).await?;
    let mut positions = queue::positions(conn, rows).await?;
    let mut resources = resources(conn, &ids).await?;
    let mut replaced = HashSet::new();
    for row in rows.iter().filter(|row| row.host_lost_since.is_some()) {
        if claims::on_replaced_host(conn, row.id).await? {
            replaced.insert(row.id);
        }
    }
    let of = |id: &Uuid| Now {
        progress: progress.remove(id),
        queue_position: positions.remove(id),
        host_replaced: replaced.contains(id),
        resources: resources.remove(id),
    };
    let all: Vec<Now> = ids.iter().map(of).collect();
    Ok(ids.into_iter().zip(all).collect())
}

/// What is now with one allocation.
///
/// # Errors
/// Those of the database.
pub async fn now_of(conn: &mut PgConnection, row: &Allocation) -> Result<Now, Error> {
    let mut all = now(conn, std::slice::from_ref(row)).await?;
    Ok(all.remove(&row.id).unwrap_or_default())
}

async fn progress(
    conn: &mut PgConnection,
    allocation_ids: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, Progress>> {
    let rows: Vec<(Uuid, Json<Progress>)> = sqlx::query_as(
        "SELECT allocation_id, progress FROM workflows
          WHERE allocation_id = ANY ($1) AND slot_id IS NULL AND state = 'running' AND progress IS NOT NULL
            AND kind IN ('provision', 'provision_node', 'release', 'release_node', 'stop', 'start', 'reboot', 'rescue', 'unrescue')",
    )
    .bind(allocation_ids)
    .fetch_all(conn)
    .await?;
    Ok(rows
        .into_iter()
        .map(|(id, Json(progress))| (id, progress))
        .collect())
}

async fn resources(
    conn: &mut PgConnection,
    allocation_ids: &[Uuid],
) -> sqlx::Result<HashMap<Uuid, Resources>> {
    #[derive(sqlx::FromRow)]
    struct Of {
        allocation_id: Uuid,
        #[sqlx(flatten)]
        resources: Resources,
    }
    // a claim of an older release may lack the snapshot
    let rows: Vec<Of> = sqlx::query_as(
        "SELECT allocation_id, count(*) AS disks,
                sum((snapshot #>> '{profile,vcpus_per_gpu}')::bigint)::bigint AS vcpus,
                sum((snapshot #>> '{profile,memory_mib_per_gpu}')::bigint)::bigint AS memory_mib,
                sum((snapshot #>> '{bindings,nvme_bytes}')::bigint)::bigint AS disk_bytes
           FROM claims WHERE allocation_id = ANY ($1) AND kind = 'slot'
          GROUP BY allocation_id
         HAVING bool_and(snapshot #>> '{profile,vcpus_per_gpu}' IS NOT NULL
                         AND snapshot #>> '{profile,memory_mib_per_gpu}' IS NOT NULL
                         AND snapshot #>> '{bindings,nvme_bytes}' IS NOT NULL)",
    )
    .bind(allocation_ids)
    .fetch_all(conn)
    .await?;
    let by_id = |of: Of| (of.allocation_id, of.resources);
    Ok(rows.into_iter().map(by_id).collect())
}

/// Whether anything is still done for an allocation; the repair of a slot is not for it.
///
/// # Errors
/// Those of the database.
pub async fn at_work(conn: &mut PgConnection, allocation_id: Uuid) -> sqlx::Result<bool> {
    sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM workflows
                         WHERE allocation_id = $1 AND state = 'running' AND kind <> 'repair')",
    )
    .bind(allocation_id)
    .fetch_one(conn)
    .await
}

/// A repair as its workflow reports it.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Repair {
    /// Workflow.
    pub id: Uuid,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// Why it failed.
    pub failure: Option<Value>,
    /// What runs now.
    pub progress: Option<Json<Progress>>,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
}

/// The latest repair of a slot.
///
/// # Errors
/// Those of the database.
pub async fn latest_repair(conn: &mut PgConnection, slot_id: Uuid) -> sqlx::Result<Option<Repair>> {
    sqlx::query_as(
        "SELECT id, state, failure, progress, created_at, ended_at FROM workflows
          WHERE slot_id = $1 AND kind = 'repair' ORDER BY created_at DESC, id DESC LIMIT 1",
    )
    .bind(slot_id)
    .fetch_optional(conn)
    .await
}
