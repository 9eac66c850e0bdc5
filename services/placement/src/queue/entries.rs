//! Reads queues: the queued requests, their order, and their positions.
use std::collections::HashMap;

use gpuaas_placement_decision::GpuCount;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::fair_share::{Batch, order};
use crate::error::Result;
use crate::model::{Allocation, AllocationState, Constraints, Priority, SlotClass, Stored};

/// A request in the queue.
#[derive(Debug, Clone)]
pub struct QueuedRequest {
    /// What its position follows from.
    pub batch: Batch,
    /// Its allocations that are still queued, by id.
    pub members: Vec<Member>,
    /// When it gives up.
    pub deadline: jiff::Timestamp,
    /// Why it did not fit when it was last evaluated: a name of `ErrorReason` without prefix.
    pub reason: String,
    /// Its project has a capacity reservation: something may be reserved for it.
    pub(super) reserves: bool,
    /// Its project is suspended: it is not served, and blocks nobody.
    pub(crate) suspended: bool,
}

impl QueuedRequest {
    /// GPUs of all its allocations.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        self.members
            .iter()
            .map(|member| member.gpu_count.get())
            .sum()
    }
}

/// One allocation of a request in the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    pub allocation_id: Uuid,
    pub sku: String,
    pub gpu_count: GpuCount,
    /// Placement constraints.
    pub constraints: Constraints,
    pub image_digest: String,
}

#[derive(sqlx::FromRow)]
struct Row {
    batch_id: Uuid,
    allocation_id: Uuid,
    project_id: Uuid,
    sku: String,
    #[sqlx(try_from = "i32")]
    gpu_count: GpuCount,
    created_at: Timestamp,
    deadline_at: Timestamp,
    constraints: Json<Constraints>,
    image_digest: String,
    reason: String,
    priority: Priority,
    last_served: i64,
    reserves: bool,
    suspended: bool,
    now: Timestamp,
    region_code: String,
    #[sqlx(try_from = "String")]
    slot_class: SlotClass,
}

/// All queued allocations, or a selection.
macro_rules! queued {
    ($which:literal) => {
        concat!(
            "SELECT w.batch_id, a.id AS allocation_id, a.project_id, a.sku, a.gpu_count, a.created_at, a.deadline_at,
                a.constraints, a.image ->> 'digest' AS image_digest,
                w.reason, a.region_code, w.slot_class,
                coalesce(p.priority, 'normal') AS priority, coalesce(t.last_served, 0) AS last_served, statement_timestamp() AS now,
                EXISTS (SELECT FROM capacity_reservations r
                         WHERE r.project_id = a.project_id AND r.state IN ('scheduled', 'active')) AS reserves,
                coalesce(s.suspended, false) AS suspended
           FROM allocations a
           JOIN queued_allocations w ON w.allocation_id = a.id
           LEFT JOIN project_priorities p ON p.project_id = a.project_id
           LEFT JOIN project_suspensions s ON s.project_id = a.project_id
           LEFT JOIN fair_share t ON t.region_code = a.region_code AND t.slot_class = w.slot_class
                            AND t.project_id = a.project_id
          WHERE a.state = 'requested' AND ",
            $which,
            " ORDER BY a.id"
        )
    };
}

/// The queues that are not empty: region and slot class.
///
/// # Errors
/// Those of the database.
pub async fn queues(conn: &mut PgConnection) -> Result<Vec<(String, SlotClass)>> {
    let queues: Vec<(String, Stored<SlotClass>)> = sqlx::query_as(
        "SELECT DISTINCT a.region_code, w.slot_class FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id
          WHERE a.state = 'requested' ORDER BY 1, 2",
    )
    .fetch_all(conn)
    .await?;
    Ok(queues
        .into_iter()
        .map(|(region, class)| (region, class.0))
        .collect())
}

/// A queue in its order, and the time by the ledger's clock that the order is of.
///
/// # Errors
/// Those of the database.
pub async fn load(
    conn: &mut PgConnection,
    region_code: &str,
    slot_class: SlotClass,
) -> Result<(Vec<QueuedRequest>, jiff::Timestamp)> {
    let rows: Vec<Row> = sqlx::query_as(queued!("a.region_code = $1 AND w.slot_class = $2"))
        .bind(region_code)
        .bind(slot_class.as_str())
        .fetch_all(conn)
        .await?;
    Ok(ordered(rows))
}

/// The rows of one queue in its order, and the time that the order is of.
fn ordered(rows: Vec<Row>) -> (Vec<QueuedRequest>, jiff::Timestamp) {
    let now = rows
        .first()
        .map_or(jiff::Timestamp::UNIX_EPOCH, |row| row.now.to_jiff());
    (in_order(gathered(rows), now), now)
}

/// One entry per batch; a batch is queued since its first allocation.
fn gathered(rows: Vec<Row>) -> Vec<QueuedRequest> {
    let mut places: HashMap<Uuid, usize> = HashMap::new();
    let mut all: Vec<QueuedRequest> = Vec::new();
    for row in rows {
        let place = *places.entry(row.batch_id).or_insert_with(|| {
            all.push(QueuedRequest {
                batch: Batch {
                    id: row.batch_id,
                    project_id: row.project_id,
                    priority: row.priority,
                    since: row.created_at.to_jiff(),
                    last_served: row.last_served,
                },
                members: Vec::new(),
                deadline: row.deadline_at.to_jiff(),
                reason: row.reason,
                reserves: row.reserves,
                suspended: row.suspended,
            });
            all.len() - 1
        });
        let entry = &mut all[place];
        entry.batch.since = entry.batch.since.min(row.created_at.to_jiff());
        entry.members.push(Member {
            allocation_id: row.allocation_id,
            sku: row.sku,
            gpu_count: row.gpu_count,
            constraints: row.constraints.0,
            image_digest: row.image_digest,
        });
    }
    all
}

/// Puts a queue in order.
pub(super) fn in_order(queued: Vec<QueuedRequest>, now: jiff::Timestamp) -> Vec<QueuedRequest> {
    let batches: Vec<Batch> = queued.iter().map(|entry| entry.batch.clone()).collect();
    let mut queued: Vec<Option<QueuedRequest>> = queued.into_iter().map(Some).collect();
    order(&batches, now)
        .into_iter()
        .filter_map(|place| queued[place].take())
        .collect()
}

/// The place of an allocation in its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuePosition {
    /// 1: next.
    pub position: u32,
    /// Why it is queued: a name of `ErrorReason` without prefix.
    pub reason: String,
    /// Since when.
    pub since: jiff::Timestamp,
    /// When it gives up.
    pub deadline: jiff::Timestamp,
}

/// Queue positions of the allocations. It reads their queues completely, in one statement however many they are,
/// and nothing when none is queued.
///
/// # Errors
/// Those of the database.
pub async fn positions(
    conn: &mut PgConnection,
    allocations: &[Allocation],
) -> Result<HashMap<Uuid, QueuePosition>> {
    let ids: Vec<Uuid> = allocations
        .iter()
        .filter(|row| row.state == AllocationState::Requested)
        .map(|row| row.id)
        .collect();
    let mut found = HashMap::new();
    if ids.is_empty() {
        return Ok(found);
    }
    let rows: Vec<Row> = sqlx::query_as(queued!(
        "(a.region_code, w.slot_class) IN
           (SELECT m.region_code, v.slot_class FROM allocations m JOIN queued_allocations v ON v.allocation_id = m.id WHERE m.id = ANY ($1))"
    ))
    .bind(&ids)
    .fetch_all(conn)
    .await?;
    let mut queues: HashMap<(String, SlotClass), Vec<Row>> = HashMap::new();
    for row in rows {
        let queue = (row.region_code.clone(), row.slot_class);
        queues.entry(queue).or_default().push(row);
    }
    for rows in queues.into_values() {
        let (queued, _) = ordered(rows);
        for (place, entry) in queued.into_iter().enumerate() {
            for member in entry.members {
                if ids.contains(&member.allocation_id) {
                    let position = QueuePosition {
                        position: u32::try_from(place + 1).unwrap_or(u32::MAX),
                        reason: entry.reason.clone(),
                        since: entry.batch.since,
                        deadline: entry.deadline,
                    };
                    found.insert(member.allocation_id, position);
                }
            }
        }
    }
    Ok(found)
}

/// Nodes with a backfill reservation in a queue, and the batches they are for.
///
/// # Errors
/// Those of the database.
pub async fn backfill_reservations(
    conn: &mut PgConnection,
    region_code: &str,
    slot_class: SlotClass,
) -> Result<Vec<(Uuid, Uuid)>> {
    Ok(sqlx::query_as(
        "SELECT node_id, batch_id FROM backfill_reservations WHERE region_code = $1 AND slot_class = $2 ORDER BY node_id",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .fetch_all(conn)
    .await?)
}

/// Why a request is queued, for the user.
#[must_use]
pub fn sentence(reason: &str) -> &'static str {
    let reason = ErrorReason::from_str_name(&format!("ERROR_REASON_{reason}"));
    match reason.unwrap_or(ErrorReason::NoCapacity) {
        ErrorReason::SlotsInUse => "All suitable GPUs are in use.",
        ErrorReason::NoCapacity => "No suitable capacity is free.",
        ErrorReason::Quota => {
            "The quota of the project is used up. The request fits once an allocation is released or the quota is raised."
        }
        ErrorReason::ProjectSuspended => {
            "The project is suspended, or its organisation is. The request is served once it is resumed."
        }
        other => crate::error::sentence(other),
    }
}
