//! When what a project has was not healthy or under break-fix, and until when: its own claims decide what it reads.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::model::{Health, StoredHealth};

/// The values of a health in the database.
pub(super) const HEALTH: &[&str] = &["healthy", "unknown", "degraded", "failed"];

/// A time in which GPUs of an allocation were not healthy, as far as the allocation had them.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct HealthEvent {
    /// Of the first GPU of the event; of break-fix below 0.
    pub id: i64,
    pub allocation_id: Uuid,
    /// GPUs of the allocation.
    pub gpus: i64,
    #[sqlx(try_from = "StoredHealth")]
    pub health: Health,
    /// Break-fix: an operator worked on the host, or the device, by hand.
    pub break_fix: bool,
    /// Not before the allocation had them.
    pub started_at: Timestamp,
    /// Not after; none: it lasts.
    pub ended_at: Option<Timestamp>,
}

/// Which events.
#[derive(Debug, Clone, Copy)]
pub struct EventQuery {
    /// Whose.
    pub project_id: Uuid,
    /// One allocation of it, or all.
    pub allocation_id: Option<Uuid>,
}

/// What the list of health events can be selected by.
pub static EVENTS: Catalog = Catalog {
    fields: &[
        Field::sortable("allocation_id", Kind::Id, "listed.allocation_id"),
        Field::sortable("gpu_count", Kind::Number, "listed.gpus"),
        Field::new("health", Kind::OneOf(HEALTH), "listed.health::text"),
        Field::new("break_fix", Kind::Flag, "listed.break_fix"),
        Field::sortable("start_time", Kind::Time, "listed.started_at"),
        Field::new("end_time", Kind::Time, "listed.ended_at"),
    ],
    // an event of a host is one of each allocation that has it
    key: Field::new("key", Kind::Id, "listed.key"),
    order: "start_time desc",
};

/// A page of the health events of a project that a caller selects, and the token of the next one. What was before an
/// allocation had a GPU, and what is after, is not its business.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn health_events(
    conn: &mut PgConnection,
    query: EventQuery,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<HealthEvent>, String)> {
    let statement = Statement::new(&[
        "WITH mine AS (
             SELECT e.id, c.allocation_id, 1::bigint AS gpus, e.health, false AS break_fix, greatest(e.started_at, c.created_at) AS started_at,
                    least(e.ended_at, c.released_at) AS ended_at
               FROM allocations a
               JOIN claims c ON c.allocation_id = a.id
               JOIN slot_health_events e ON e.node_id = c.node_id AND (c.kind = 'node_exclusive' OR e.slot_id = c.slot_id)
                AND e.started_at < coalesce(c.released_at, 'infinity') AND coalesce(e.ended_at, 'infinity') > c.created_at
              WHERE a.project_id = $1 AND ($2::uuid IS NULL OR a.id = $2)
             UNION ALL
             SELECT - ('x' || left(replace(b.id::text, '-', ''), 15))::bit(60)::bigint, c.allocation_id,
                    CASE WHEN c.kind = 'node_exclusive' AND b.slot_id IS NULL THEN
                         (SELECT count(*) FROM slots s WHERE s.node_id = c.node_id AND s.status <> 'retired')
                         ELSE 1 END, 'degraded', true,
                    greatest(b.opened_at, c.created_at), least(b.closed_at, c.released_at)
               FROM allocations a
               JOIN claims c ON c.allocation_id = a.id
               JOIN break_fixes b ON b.node_id = c.node_id
                AND (c.kind = 'node_exclusive' OR b.slot_id IS NULL OR b.slot_id = c.slot_id)
                AND b.opened_at < coalesce(c.released_at, 'infinity') AND coalesce(b.closed_at, 'infinity') > c.created_at
              WHERE a.project_id = $1 AND ($2::uuid IS NULL OR a.id = $2)),
              events AS (
             SELECT min(id) AS id, allocation_id, sum(gpus)::bigint AS gpus, health, break_fix, started_at, ended_at
               FROM mine GROUP BY allocation_id, health, break_fix, started_at, ended_at)
         SELECT *, md5(concat_ws('/', id, allocation_id, extract(epoch FROM started_at)))::uuid AS key FROM events",
    ])
    .bind(query.project_id)
    .bind(query.allocation_id);
    selection.page(conn, statement, wanted).await
}
