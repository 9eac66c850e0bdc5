//! What is held on nodes, as the plans read it.
use std::collections::BTreeMap;

use gpuaas_placement_decision::GpuCount;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::Result;
use crate::model::{AllocationState, Constraints, Shape};

/// An allocation with its live claims.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(super) struct Row {
    pub(super) id: Uuid,
    pub(super) project_id: Uuid,
    pub(super) sku: String,
    #[sqlx(try_from = "i32")]
    pub(super) gpu_count: GpuCount,
    pub(super) capacity_shape: Shape,
    pub(super) state: AllocationState,
    pub(super) power: Option<String>,
    pub(super) node_id: Uuid,
    pub(super) slot_ids: Vec<Uuid>,
    /// None: unknown, the platform before this one made it.
    pub(super) constraints: Option<Json<Constraints>>,
    pub(super) labels: Json<BTreeMap<String, String>>,
    pub(super) image_digest: Option<String>,
}

impl Row {
    /// Its placement constraints, as far as they are known.
    pub(super) fn requested(&self) -> Option<&Constraints> {
        self.constraints.as_ref().map(|known| &known.0)
    }
}

macro_rules! rows {
    ($which:literal) => {
        concat!(
            "SELECT a.id, a.project_id, a.sku, a.gpu_count, a.capacity_shape, a.state, a.power, c.node_id, c.slot_ids,
                    a.constraints, a.labels, a.image ->> 'digest' AS image_digest
               FROM (SELECT allocation_id, node_id,
                            coalesce(array_agg(slot_id) FILTER (WHERE slot_id IS NOT NULL), '{}') AS slot_ids
                       FROM claims WHERE state NOT IN ('released', 'cleanup_blocked') AND ",
            $which,
            " GROUP BY allocation_id, node_id) c
               JOIN allocations a ON a.id = c.allocation_id AND a.state NOT IN ('released', 'failed')
              ORDER BY a.id"
        )
    };
}

/// What is held on these nodes, by id.
pub(super) async fn on_nodes(conn: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<Row>> {
    Ok(sqlx::query_as(rows!("node_id = ANY ($1)"))
        .bind(ids)
        .fetch_all(conn)
        .await?)
}

/// What is held on all nodes of regions, by id.
pub(super) async fn in_regions(conn: &mut PgConnection, codes: &[String]) -> Result<Vec<Row>> {
    Ok(sqlx::query_as(rows!(
        "node_id IN (SELECT id FROM nodes WHERE region_code = ANY ($1))"
    ))
    .bind(codes)
    .fetch_all(conn)
    .await?)
}
