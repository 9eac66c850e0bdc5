//! What allocations hold, for the plans and for their readers.
use std::collections::{BTreeSet, HashMap};

use gpuaas_placement_decision::{
    self as decision, Choice, GpuCount, ImageKey, Move, PlacedAllocation,
};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::rows::Row;
use super::ties::Ties;
use crate::catalog::{self, Sku};
use crate::decision_input::decision_request;
use crate::error::{Error, Result};
use crate::model::{AllocationState, Shape};

/// An allocation as a plan shows it.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct PlannedAllocation {
    pub id: Uuid,
    pub project_id: Uuid,
    pub name: String,
    pub sku: String,
    #[sqlx(try_from = "i32")]
    pub gpu_count: GpuCount,
    pub capacity_shape: Shape,
    pub state: AllocationState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Node it is on.
    pub node_id: Uuid,
    /// Host name of the node.
    pub hostname: String,
}

/// Where placement would put an allocation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedPlacement {
    pub node_id: Uuid,
    /// Its host name.
    pub hostname: String,
    /// Slots; empty for a bare-metal node.
    pub slot_indexes: Vec<i32>,
}

/// An allocation that would be stopped, and where it would be recreated.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedMove {
    /// The allocation as it is.
    pub allocation: PlannedAllocation,
    /// Where it would be.
    pub placement: PlannedPlacement,
}

/// The SKUs that allocations are of, each read once.
#[derive(Debug, Default)]
pub(super) struct Skus(HashMap<String, Sku>);

impl Skus {
    pub(super) async fn of(conn: &mut PgConnection, rows: &[Row]) -> Result<Self> {
        let mut skus = HashMap::new();
        for code in rows.iter().map(|row| &row.sku).collect::<BTreeSet<_>>() {
            skus.insert(code.clone(), catalog::sku(conn, code).await?);
        }
        Ok(Self(skus))
    }

    /// The spec of an allocation if it were launched again. The image is named where the launch requires it in the
    /// cache, as far as that is known.
    pub(super) fn request(&self, row: &Row) -> Result<decision::Request> {
        let sku = self.0.get(&row.sku);
        let sku = sku.ok_or_else(|| Error::not_found("sku", &row.sku))?;
        let prewarmed = row
            .requested()
            .is_some_and(|requested| requested.require_prewarmed);
        let digest = row.image_digest.as_deref().filter(|_| prewarmed);
        Ok(decision::Request {
            image: digest.and_then(ImageKey::of),
            prewarmed,
            ..decision_request(sku, row.gpu_count)
        })
    }
}

/// Slices as the pure functions see them; bare-metal nodes are not among them.
pub(super) fn allocations(rows: &[Row], skus: &Skus) -> Result<Vec<PlacedAllocation>> {
    let ties = Ties::of(rows);
    rows.iter()
        .filter(|row| row.capacity_shape == Shape::GpuSlice)
        .map(|row| {
            let request = skus.request(row)?;
            let running = row.power.as_deref() == Some("running");
            // what is on its way somewhere cannot be judged
            let stable = running || matches!(row.power.as_deref(), Some("stopped" | "rescued"));
            Ok(PlacedAllocation {
                id: row.id,
                node_id: row.node_id,
                slot_ids: row.slot_ids.clone(),
                // of one that is stopped they are owed, so they are back with it, too
                hugepages_1g_back: request.hugepages_1g,
                request,
                movable: row.state == AllocationState::Active && stable && !ties.bound(row),
                anti_affinity: ties.anti_affinity(row),
            })
        })
        .collect()
}

/// Nodes with a backfill reservation in a region; a reservation whose request left the queue does not count.
pub(super) async fn backfill_reserved(
    conn: &mut PgConnection,
    region_code: &str,
) -> Result<BTreeSet<Uuid>> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "SELECT k.node_id FROM backfill_reservations k WHERE k.region_code = $1 AND EXISTS
               (SELECT FROM queued_allocations w JOIN allocations a ON a.id = w.allocation_id
                 WHERE w.batch_id = k.batch_id AND a.state = 'requested')",
    )
    .bind(region_code)
    .fetch_all(conn)
    .await?;
    Ok(ids.into_iter().collect())
}

/// Names for the ids in a plan.
#[derive(Debug, Default)]
pub(super) struct Names {
    hosts: HashMap<Uuid, String>,
    held: HashMap<Uuid, PlannedAllocation>,
}

impl Names {
    pub(super) async fn of(
        conn: &mut PgConnection,
        nodes: Vec<Uuid>,
        allocations: Vec<Uuid>,
    ) -> Result<Self> {
        let hosts: Vec<(Uuid, String)> =
            sqlx::query_as("SELECT id, hostname FROM nodes WHERE id = ANY ($1)")
                .bind(nodes)
                .fetch_all(&mut *conn)
                .await?;
        let held: Vec<PlannedAllocation> = sqlx::query_as(
            "SELECT a.id, a.project_id, a.name, a.sku, a.gpu_count, a.capacity_shape, a.state, a.created_at,
                    n.id AS node_id, n.hostname
               FROM allocations a JOIN nodes n ON n.id = a.node_id WHERE a.id = ANY ($1)",
        )
        .bind(allocations)
        .fetch_all(conn)
        .await?;
        Ok(Self {
            hosts: hosts.into_iter().collect(),
            held: held.into_iter().map(|one| (one.id, one)).collect(),
        })
    }

    /// The names in moves and the nodes that they leave.
    pub(super) async fn of_moves<'a>(
        conn: &mut PgConnection,
        moves: impl Iterator<Item = &'a Move> + Clone,
    ) -> Result<Self> {
        let nodes = moves.clone().flat_map(|one| [one.from, one.to.node_id]);
        Self::of(conn, nodes.collect(), moves.map(|one| one.id).collect()).await
    }

    pub(super) fn host(&self, node_id: Uuid) -> String {
        self.hosts.get(&node_id).cloned().unwrap_or_default()
    }

    pub(super) fn allocation(&self, id: Uuid) -> Result<PlannedAllocation> {
        let held = self.held.get(&id).cloned();
        held.ok_or_else(|| Error::not_found("allocation", id))
    }

    pub(super) fn placement(&self, choice: Choice) -> PlannedPlacement {
        PlannedPlacement {
            hostname: self.host(choice.node_id),
            node_id: choice.node_id,
            slot_indexes: choice.score.indexes,
        }
    }

    pub(super) fn moves(&self, moves: Vec<Move>) -> Result<Vec<PlannedMove>> {
        let planned = moves.into_iter().map(|one| {
            Ok(PlannedMove {
                allocation: self.allocation(one.id)?,
                placement: self.placement(one.to),
            })
        });
        planned.collect()
    }
}
