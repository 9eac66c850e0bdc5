//! The fleet record: one row per node, counters that contain each other, and when what a project has was not healthy.
//!
//! **Counters.** Every GPU (a slot that is not retired, of a node that is not) has one [`FleetState`], the last of these that
//! holds: *delivered* (it is in the ledger), *healthy* (nothing says otherwise, of it or its host), *reserved* (healthy,
//! and held by a claim or a capacity reservation), *active* (reserved, and its allocation is active). A counter counts
//! those in it or higher. So `delivered ≥ healthy ≥ reserved ≥ active` holds by construction, in every pool
//! and reservation and in their sums. What is held and not healthy is counted beside them, never among them. A node
//! has the state of its best GPU, but none higher than delivered unless it and all of its GPUs are healthy; so the
//! counters of nodes contain each other in the same way, and no counter of nodes is above that of GPUs where every node
//! has one.
use std::collections::BTreeMap;

use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::catalog;
use crate::error::Result;
use crate::model::{Health, Intent, StoredHealth};

mod counts;
mod health_events;

pub use counts::{Counts, FleetCounts, FleetState, GpuFacts};
use health_events::HEALTH;
pub use health_events::{EVENTS, EventQuery, HealthEvent, health_events};

/// A node of the record.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetNode {
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    pub region_code: String,
    /// As an operator named it; empty: unknown.
    pub rack: String,
    /// Class of its slots; empty before the first approval.
    pub hardware_type: String,
    /// "slice" or "baremetal", as it is now.
    pub mode: String,
    /// "enabled", "cordoned" or "draining".
    pub admin_state: String,
    /// The worst of host and slots.
    pub health: Health,
    /// Why placement takes nothing there; empty when it does.
    pub reason: String,
    /// Counted for this node alone.
    pub counts: FleetCounts,
    /// Projects that have allocations on it, by project.
    pub occupants: Vec<Occupant>,
}

/// A project on a node.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Occupant {
    #[sqlx(rename = "node_id")]
    node_id: Uuid,
    pub project_id: Uuid,
    pub allocations: i64,
    pub gpus: i64,
    /// When the first of them was placed.
    pub since: Timestamp,
}

/// Which nodes.
#[derive(Debug, Clone, Default)]
pub struct Query<'a> {
    /// One region, or all.
    pub region_code: Option<&'a str>,
    /// One rack, or all.
    pub rack: Option<&'a str>,
    /// One class of slots, or all.
    pub hardware_type: Option<&'a str>,
    /// The worst health on the node.
    pub health: Option<Health>,
    /// Nodes where this project has an allocation.
    pub project_id: Option<Uuid>,
    /// Nodes where this capacity reservation holds a slot.
    pub reservation_id: Option<Uuid>,
    /// Whether anything is allocated there.
    pub in_use: Option<bool>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    hostname: String,
    region_code: String,
    rack: String,
    hardware_type: String,
    mode: String,
    admin_state: String,
    #[sqlx(try_from = "StoredHealth")]
    health: Health,
    reason: String,
    host_healthy: bool,
    facts: Vec<i32>,
    reserved_for: Vec<Uuid>,
}

/// Nodes with the facts of their GPUs, by slot index. The one definition of what is healthy, held and active.
macro_rules! rows {
    ($where:literal) => {
        concat!(
            "SELECT n.id, n.hostname, n.region_code, n.rack, coalesce(g.class, '') AS hardware_type, n.mode, n.admin_state,
                    greatest(n.host_health, g.health) AS health,
                    CASE WHEN n.admin_state <> 'enabled' THEN n.admin_state || ': ' || n.admin_reason
                         ELSE n.not_schedulable_reason END AS reason,
                    n.host_health <= w.fit AND n.admin_state <> 'broken' AS host_healthy, coalesce(g.facts, '{}') AS facts,
                    coalesce(g.reserved_for, '{}') AS reserved_for
               FROM nodes n
               LEFT JOIN claims x ON x.node_id = n.id AND x.kind = 'node_exclusive' AND x.state <> 'released'
              CROSS JOIN LATERAL (SELECT CASE WHEN x.state IN ('provisioning', 'active', 'releasing')
                                              THEN 'unknown' ELSE 'healthy' END::health AS fit) w
               LEFT JOIN LATERAL (
                    SELECT min(s.class) AS class, max(s.health_state) AS health,
                           array_agg((n.host_health <= w.fit AND n.admin_state <> 'broken'
                                      AND s.health_state <= w.fit AND s.status <> 'cleanup_blocked')::int
                                     + 2 * (x.id IS NOT NULL OR c.id IS NOT NULL OR r.slot_id IS NOT NULL)::int
                                     + 4 * coalesce(coalesce(x.state, c.state) = 'active', false)::int
                                     ORDER BY s.slot_index) AS facts,
                           array_agg(coalesce(r.reservation_id, '00000000-0000-0000-0000-000000000000')
                                     ORDER BY s.slot_index) AS reserved_for
                      FROM slots s
                      LEFT JOIN claims c ON c.slot_id = s.id AND c.state <> 'released'
                      LEFT JOIN reserved_slots r ON r.slot_id = s.id
                     WHERE s.node_id = n.id AND s.status <> 'retired') g ON true
              WHERE n.admin_state <> 'retired' AND ",
            $where
        )
    };
}

/// What the list of nodes can be selected by.
pub static NODES: Catalog = Catalog {
    fields: &[
        Field::sortable("hostname", Kind::Text, "listed.hostname"),
        Field::sortable("region_code", Kind::Text, "listed.region_code"),
        Field::sortable("rack", Kind::Text, "listed.rack"),
        Field::sortable("hardware_type", Kind::Text, "listed.hardware_type"),
        Field::sortable("mode", Kind::OneOf(&["slice", "baremetal"]), "listed.mode"),
        Field::sortable(
            "admin_state",
            Kind::OneOf(Intent::WORDS),
            "listed.admin_state",
        ),
        Field::new("health", Kind::OneOf(HEALTH), "listed.health::text"),
        Field::new("reason", Kind::Text, "listed.reason"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "hostname",
};

/// A page of the nodes that a caller selects, and the token of the next one.
///
/// # Errors
/// [`crate::Error::Invalid`] for a region that does not exist; `PAGE_TOKEN_INVALID`.
pub async fn list(
    conn: &mut PgConnection,
    query: &Query<'_>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<FleetNode>, String)> {
    if let Some(region) = query.region_code {
        catalog::known_region(conn, region).await?;
    }
    let statement = Statement::new(&[rows!(
        "($1::text IS NULL OR n.region_code = $1) AND ($2::text IS NULL OR n.rack = $2)
           AND ($3::text IS NULL OR g.class = $3) AND ($4::health IS NULL OR greatest(n.host_health, g.health) = $4)
           AND ($5::uuid IS NULL OR EXISTS (SELECT FROM claims c JOIN allocations a ON a.id = c.allocation_id
                 WHERE c.node_id = n.id AND c.state <> 'released' AND a.state NOT IN ('released', 'failed')
                   AND a.project_id = $5))
           AND ($6::uuid IS NULL OR EXISTS (SELECT FROM reserved_slots r WHERE r.node_id = n.id AND r.reservation_id = $6))
           AND ($7::boolean IS NULL OR $7 = EXISTS (SELECT FROM claims c JOIN allocations a ON a.id = c.allocation_id
                 WHERE c.node_id = n.id AND c.state <> 'released' AND a.state NOT IN ('released', 'failed')))"
    )])
    .bind(query.region_code)
    .bind(query.rack)
    .bind(query.hardware_type)
    .bind(query.health.map(StoredHealth::from))
    .bind(query.project_id)
    .bind(query.reservation_id)
    .bind(query.in_use);
    let (rows, next) = selection.page::<Row>(conn, statement, wanted).await?;
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let mut occupants = occupants(conn, &ids).await?;
    let nodes = rows.into_iter().map(|row| {
        let mut counts = FleetCounts::default();
        counts.add(row.host_healthy, &facts(&row));
        FleetNode {
            occupants: occupants.remove(&row.id).unwrap_or_default(),
            id: row.id,
            hostname: row.hostname,
            region_code: row.region_code,
            rack: row.rack,
            hardware_type: row.hardware_type,
            mode: row.mode,
            admin_state: row.admin_state,
            health: row.health,
            reason: row.reason,
            counts,
        }
    });
    Ok((nodes.collect(), next))
}

async fn occupants(
    conn: &mut PgConnection,
    node_ids: &[Uuid],
) -> Result<BTreeMap<Uuid, Vec<Occupant>>> {
    let rows: Vec<Occupant> = sqlx::query_as(
        "SELECT c.node_id, a.project_id, count(DISTINCT a.id) AS allocations, min(c.created_at) AS since,
                sum(CASE c.kind WHEN 'slot' THEN 1 ELSE
                    (SELECT count(*) FROM slots s WHERE s.node_id = c.node_id AND s.status <> 'retired') END)::bigint AS gpus
           FROM claims c JOIN allocations a ON a.id = c.allocation_id
          WHERE c.node_id = ANY ($1) AND c.state <> 'released' AND a.state NOT IN ('released', 'failed')
          GROUP BY c.node_id, a.project_id ORDER BY c.node_id, a.project_id",
    )
    .bind(node_ids)
    .fetch_all(conn)
    .await?;
    let mut found: BTreeMap<Uuid, Vec<Occupant>> = BTreeMap::new();
    for row in rows {
        found.entry(row.node_id).or_default().push(row);
    }
    Ok(found)
}

fn facts(row: &Row) -> Vec<GpuFacts> {
    row.facts.iter().map(|bits| GpuFacts::of(*bits)).collect()
}

/// A region and a class of slots; the class is empty for nodes without slots.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pool {
    pub region_code: String,
    /// Class of the slots.
    pub hardware_type: String,
}

/// What a capacity reservation holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservationCounts {
    pub id: Uuid,
    pub project_id: Uuid,
    pub name: String,
    /// GPUs that it is of, those that it has yielded not counted. It may hold fewer.
    pub gpus: u64,
    /// The nodes and GPUs that it holds: only the GPUs that are reserved count, also for the health of a node.
    pub counts: FleetCounts,
}

/// Counters of the whole fleet.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rollup {
    pub total: FleetCounts,
    /// By region and hardware type.
    pub pools: BTreeMap<Pool, FleetCounts>,
    /// Active ones, by project and name.
    pub reservations: Vec<ReservationCounts>,
}

/// Counts the fleet, of one region when given. One statement: the counters are of one moment.
///
/// # Errors
/// [`crate::Error::Invalid`] for a region that does not exist.
pub async fn rollup(conn: &mut PgConnection, region_code: Option<&str>) -> Result<Rollup> {
    if let Some(region) = region_code {
        catalog::known_region(conn, region).await?;
    }
    let rows: Vec<Row> = sqlx::query_as(rows!("($1::text IS NULL OR n.region_code = $1)"))
        .bind(region_code)
        .fetch_all(&mut *conn)
        .await?;
    let mut rollup = Rollup::default();
    let mut held: BTreeMap<Uuid, FleetCounts> = BTreeMap::new();
    for row in rows {
        let gpus = facts(&row);
        rollup.total.add(row.host_healthy, &gpus);
        let mut by_reservation: BTreeMap<Uuid, Vec<GpuFacts>> = BTreeMap::new();
        for (gpu, reservation) in gpus.iter().zip(&row.reserved_for) {
            if !reservation.is_nil() {
                by_reservation.entry(*reservation).or_default().push(*gpu);
            }
        }
        for (reservation, gpus) in by_reservation {
            held.entry(reservation)
                .or_default()
                .add(row.host_healthy, &gpus);
        }
        let pool = Pool {
            region_code: row.region_code,
            hardware_type: row.hardware_type,
        };
        rollup
            .pools
            .entry(pool)
            .or_default()
            .add(row.host_healthy, &gpus);
    }
    let live: Vec<(Uuid, Uuid, String, i32)> = sqlx::query_as(
        "SELECT id, project_id, name, gpu_count - released_gpus FROM capacity_reservations
          WHERE state = 'active' AND ($1::text IS NULL OR region_code = $1) ORDER BY project_id, name, id",
    )
    .bind(region_code)
    .fetch_all(conn)
    .await?;
    let counted = live
        .into_iter()
        .map(|(id, project_id, name, gpus)| ReservationCounts {
            counts: held.get(&id).copied().unwrap_or_default(),
            id,
            project_id,
            name,
            gpus: gpus.unsigned_abs().into(),
        });
    rollup.reservations = counted.collect();
    Ok(rollup)
}
