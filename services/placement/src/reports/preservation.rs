//! Whether packing preserves bare-metal nodes (B-47, B-48).
use gpuaas_placement_decision::{
    self as decision, DrainedNode, PackingStrategy, PlanInput, preserve,
};
use sqlx::PgConnection;
use uuid::Uuid;

use super::allocations::{Names, PlannedMove, Skus, allocations, backfill_reserved};
use super::rows::{Row, in_regions};
use crate::capacity::Capacity;
use crate::catalog;
use crate::error::Result;
use crate::model::{SlotClass, Stored};

/// Most nodes that are shown with their moves.
pub const SHOWN: usize = 50;

/// A sliced node that would be free for bare metal again.
#[derive(Debug, Clone, PartialEq)]
pub struct Recoverable {
    pub node_id: Uuid,
    /// Its host name.
    pub hostname: String,
    /// The moves, in their order.
    pub moves: Vec<PlannedMove>,
}

/// The nodes of a region and a class of slots. Each is counted as one of free, held, clean and sliced.
#[derive(Debug, Clone, PartialEq)]
pub struct RegionReport {
    pub region_code: String,
    pub slot_class: SlotClass,
    pub nodes: u32,
    /// Could be allocated as bare metal now.
    pub baremetal_free: u32,
    /// Held as bare metal, or in mode baremetal.
    pub baremetal_allocated: u32,
    /// No claims, but not all of it is schedulable.
    pub clean: u32,
    /// Somebody has a part of it.
    pub sliced: u32,
    /// Sliced nodes that could all be free for bare metal again.
    pub recoverable: u32,
    /// Allocations that would have to be moved for that.
    pub moves: u32,
    /// Their GPUs.
    pub gpus_moved: u32,
    /// The first [`SHOWN`] of them, the least GPUs first.
    pub easiest: Vec<Recoverable>,
}

/// Counts per region and class, by both; of one region when given. Nothing is written.
///
/// # Errors
/// [`crate::Error::Invalid`] for a region that does not exist.
pub async fn preservation(
    conn: &mut PgConnection,
    capacity: &Capacity,
    packing_strategy: PackingStrategy,
    region_code: Option<&str>,
) -> Result<Vec<RegionReport>> {
    // first, so that the copy and what follows are of one snapshot
    let nodes = capacity.now(conn).await?;
    if let Some(region) = region_code {
        catalog::known_region(conn, region).await?;
    }
    let regions = catalog::regions(conn, region_code).await?;
    let mut reports = Vec::new();
    for catalog::Region { code, .. } in regions {
        let fleet = nodes.get(&code).cloned().unwrap_or_default();
        let rows: Vec<Row> = in_regions(conn, std::slice::from_ref(&code)).await?;
        let allocations = allocations(&rows, &Skus::of(conn, &rows).await?)?;
        let input = PlanInput {
            fleet: &fleet,
            packing_strategy,
            backfill_reserved: &backfill_reserved(conn, &code).await?,
        };
        let mut by_class = preserve(&input, &allocations);
        for (class, nodes) in in_mode_baremetal(conn, &code).await? {
            let report = by_class.entry(class).or_default();
            report.nodes += nodes;
            report.baremetal_allocated += nodes;
        }
        for (class, report) in by_class {
            reports.push(shown(conn, &code, class, report).await?);
        }
    }
    Ok(reports)
}

async fn shown(
    conn: &mut PgConnection,
    region_code: &str,
    slot_class: SlotClass,
    mut report: decision::ClassReport,
) -> Result<RegionReport> {
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let moves = report.drained.iter().flat_map(|one| &one.moves);
    let (all, gpus) = (
        moves.clone().count(),
        moves.map(|one| one.gpu_count.get()).sum(),
    );
    let recoverable = count(report.drained.len());
    report.drained.truncate(SHOWN);
    let names = Names::of_moves(conn, report.drained.iter().flat_map(|one| &one.moves)).await?;
    let easiest = report
        .drained
        .into_iter()
        .map(|DrainedNode { node_id, moves }| {
            Ok(Recoverable {
                node_id,
                hostname: names.host(node_id),
                moves: names.moves(moves)?,
            })
        });
    Ok(RegionReport {
        region_code: region_code.to_owned(),
        slot_class,
        nodes: report.nodes,
        baremetal_free: report.baremetal_free,
        baremetal_allocated: report.baremetal_allocated,
        clean: report.clean,
        sliced: report.sliced,
        recoverable,
        moves: count(all),
        gpus_moved: gpus,
        easiest: easiest.collect::<Result<_>>()?,
    })
}

/// Nodes in mode baremetal by class of their slots: they are in no fleet of slice nodes.
async fn in_mode_baremetal(
    conn: &mut PgConnection,
    region_code: &str,
) -> Result<Vec<(SlotClass, u32)>> {
    let rows: Vec<(Stored<SlotClass>, i64)> = sqlx::query_as(
        "SELECT s.class, count(DISTINCT n.id) FROM nodes n JOIN slots s ON s.node_id = n.id AND s.status <> 'retired'
          WHERE n.mode = 'baremetal' AND n.region_code = $1 GROUP BY s.class ORDER BY s.class",
    )
    .bind(region_code)
    .fetch_all(conn)
    .await?;
    let number = |nodes: i64| u32::try_from(nodes).unwrap_or(u32::MAX);
    Ok(rows
        .into_iter()
        .map(|(class, nodes)| (class.0, number(nodes)))
        .collect())
}
