//! Reservations as stored, and what their SKUs offer.
use std::collections::HashMap;

use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_placement_decision::{Fleet, GpuCount};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::candidates;
use crate::catalog::{self, Sku};
use crate::decision_input::decision_request;
use crate::error::{Error, Result};
use crate::model::{ReservationState, Scope, Shape, SlotStatus};

/// A reservation with how it stands.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct CapacityReservation {
    pub id: Uuid,
    /// Whose allocations may draw on it.
    pub project_id: Uuid,
    /// DNS label.
    pub name: String,
    pub region_code: String,
    pub sku: String,
    /// GPUs that were requested.
    #[sqlx(try_from = "i32")]
    pub gpu_count: u32,
    /// Of them, released unused.
    #[sqlx(try_from = "i32")]
    pub released_gpus: u32,
    /// Begin of the window.
    pub starts_at: Timestamp,
    /// End of the window.
    pub ends_at: Timestamp,
    /// Seconds that a reserved GPU may be unused.
    pub release_unused_after: Option<i32>,
    pub state: ReservationState,
    /// A member made it, not an operator.
    pub made_by_project: bool,
    /// The member who made it; of operators, of whom the audit trail has the names, [`crate::timeline::OPERATOR`].
    pub principal: String,
    /// What last became of it, a sentence.
    pub reason: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
    /// When it was over.
    pub ended_at: Option<Timestamp>,
    /// GPUs that no other project can use now.
    pub reserved_gpus: i64,
    /// Of them, in use.
    pub used_gpus: i64,
    /// Of them, free for the project to launch on.
    pub unused_gpus: i64,
    /// Since when the longest unused one is unused.
    pub unused_since: Option<Timestamp>,
}

impl CapacityReservation {
    /// GPUs that it reserves and has no slots for.
    #[must_use]
    pub fn missing(&self) -> u32 {
        let missing = i64::from(self.gpu_count - self.released_gpus) - self.reserved_gpus;
        u32::try_from(missing).unwrap_or(0)
    }

    /// It has neither ended nor was it canceled.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.ended_at.is_none()
    }
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT r.id, r.project_id, r.name, r.region_code, r.sku, r.gpu_count, r.released_gpus, r.starts_at, r.ends_at,
                    r.release_unused_after, r.state, r.made_by_project,
                    CASE WHEN r.made_by_project THEN r.principal ELSE 'operator' END AS principal, r.reason, r.created_at,
                    r.updated_at, r.ended_at, h.reserved_gpus, h.used_gpus, h.unused_gpus, h.unused_since
               FROM capacity_reservations r CROSS JOIN LATERAL
                    (SELECT count(*) AS reserved_gpus, count(*) FILTER (WHERE h.idle_since IS NULL) AS used_gpus,
                            count(*) FILTER (WHERE h.idle_since IS NOT NULL AND n.schedulable AND ",
            fits!("r.region_code"),
            ") AS unused_gpus,
                            min(h.idle_since) AS unused_since
                       FROM reserved_slots h JOIN slots s ON s.id = h.slot_id JOIN nodes n ON n.id = h.node_id
                      WHERE h.reservation_id = r.id) h ",
            $tail
        )
    };
}

/// One reservation; another project's does not exist.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn get(conn: &mut PgConnection, scope: Scope, id: Uuid) -> Result<CapacityReservation> {
    sqlx::query_as(select!(
        "WHERE r.id = $1 AND ($2::uuid IS NULL OR r.project_id = $2)"
    ))
    .bind(id)
    .bind(scope.project())
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| Error::not_found("capacity reservation", id))
}

/// Which reservations.
#[derive(Debug, Clone, Default)]
pub struct Query<'a> {
    /// Of one project, or of all.
    pub project_id: Option<Uuid>,
    /// Of one region, or of all.
    pub region_code: Option<&'a str>,
    /// Also those that are over; of no effect with a filter that names the state.
    pub include_ended: bool,
}

/// What the lists of reservations can be selected by.
pub static RESERVATIONS: Catalog = Catalog {
    fields: &[
        Field::sortable("project_id", Kind::Id, "listed.project_id"),
        Field::sortable("name", Kind::Text, "listed.name"),
        Field::sortable("region_code", Kind::Text, "listed.region_code"),
        Field::sortable("sku", Kind::Text, "listed.sku"),
        Field::sortable("gpu_count", Kind::Number, "listed.gpu_count::bigint"),
        Field::sortable(
            "state",
            Kind::OneOf(&["scheduled", "gathering", "active", "ended", "canceled"]),
            // as messages have it
            "(CASE WHEN listed.state = 'active' AND listed.gpu_count - listed.released_gpus > listed.reserved_gpus
                  THEN 'gathering' ELSE listed.state END)",
        ),
        Field::sortable("reserved_gpus", Kind::Number, "listed.reserved_gpus"),
        Field::sortable("used_gpus", Kind::Number, "listed.used_gpus"),
        Field::sortable("unused_gpus", Kind::Number, "listed.unused_gpus"),
        Field::sortable("created_by", Kind::Text, "listed.principal"),
        Field::new("made_by_project", Kind::Flag, "listed.made_by_project"),
        Field::sortable("start_time", Kind::Time, "listed.starts_at"),
        Field::sortable("end_time", Kind::Time, "listed.ends_at"),
        Field::sortable("create_time", Kind::Time, "listed.created_at"),
        Field::sortable("update_time", Kind::Time, "listed.updated_at"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "create_time desc",
};

/// A page of the reservations that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn list(
    conn: &mut PgConnection,
    query: &Query<'_>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<CapacityReservation>, String)> {
    let statement = Statement::new(&[select!(
        "WHERE ($1::uuid IS NULL OR r.project_id = $1) AND ($2::text IS NULL OR r.region_code = $2)
           AND ($3 OR r.ended_at IS NULL)"
    )])
    .bind(query.project_id)
    .bind(query.region_code)
    .bind(query.include_ended || selection.names("state"));
    selection.page(conn, statement, wanted).await
}

/// How many launches of each count that the SKU offers fit on the unused reserved slots of a reservation, each count for
/// itself.
///
/// # Errors
/// Those of the database.
pub async fn launches(
    conn: &mut PgConnection,
    of: &CapacityReservation,
) -> Result<Vec<(GpuCount, u32)>> {
    let sku = catalog::sku(conn, &of.sku).await?;
    let counts = sku.allowed_gpu_counts.iter().copied();
    if sku.capacity_shape == Shape::Baremetal {
        // reserved as bare-metal nodes, and used so
        let unused = u32::try_from(of.unused_gpus).unwrap_or(0);
        return Ok(counts.map(|count| (count, unused / count.get())).collect());
    }
    let fleet = unused(conn, of).await?;
    let fits = |count| fleet.count_fits(&decision_request(&sku, count));
    Ok(counts.map(|count| (count, fits(count))).collect())
}

/// The nodes with reserved slots as if they had nothing but the unused reserved slots.
pub(super) async fn unused(conn: &mut PgConnection, of: &CapacityReservation) -> Result<Fleet> {
    let held: Vec<(Uuid, Uuid)> =
        sqlx::query_as("SELECT slot_id, node_id FROM reserved_slots WHERE reservation_id = $1")
            .bind(of.id)
            .fetch_all(&mut *conn)
            .await?;
    let (slots, mut nodes): (Vec<Uuid>, Vec<Uuid>) = held.into_iter().unzip();
    nodes.sort_unstable();
    nodes.dedup();
    let mut nodes = candidates::load(conn, &of.region_code, &nodes).await?;
    for slot in nodes.iter_mut().flat_map(|node| &mut node.slots) {
        slot.reserved = None;
        if !slots.contains(&slot.id) && slot.status == SlotStatus::Available {
            slot.status = SlotStatus::Reserved;
        }
    }
    Ok(Fleet::of(&nodes))
}

/// How many GPUs live reservations have of each of these SKUs, in use or not; of those that are not there, none.
///
/// # Errors
/// Those of the database.
pub async fn reserved_gpus(conn: &mut PgConnection, skus: &[&str]) -> Result<HashMap<String, u32>> {
    let rows: Vec<(String, i64)> = sqlx::query_as(
        "SELECT r.sku, count(*) FROM reserved_slots h JOIN capacity_reservations r ON r.id = h.reservation_id
          WHERE r.sku = ANY ($1) GROUP BY r.sku",
    )
    .bind(skus)
    .fetch_all(conn)
    .await?;
    let count = |(sku, gpus)| (sku, u32::try_from(gpus).unwrap_or(u32::MAX));
    Ok(rows.into_iter().map(count).collect())
}

/// The SKU of a reservation, if it is offered there now.
pub(super) async fn offered(
    conn: &mut PgConnection,
    policy: crate::reserve::Policy,
    region_code: &str,
    sku: &str,
) -> Result<Sku> {
    let known = catalog::known_sku(conn, sku).await?;
    let request = crate::reserve::Request {
        region_code: region_code.to_owned(),
        sku: sku.to_owned(),
        gpu_count: least(&known),
        ..crate::reserve::Request::default()
    };
    crate::reserve::check(conn, policy, &request).await
}

/// The smallest GPU count that a SKU offers.
pub(super) fn least(sku: &Sku) -> GpuCount {
    sku.allowed_gpu_counts
        .iter()
        .copied()
        .min()
        .unwrap_or_default()
}
