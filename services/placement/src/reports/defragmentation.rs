//! Which few allocations would have to be elsewhere for more launches of a size to fit.
use gpuaas_placement_decision::{GpuCount, PackingStrategy, PlanInput, Step, defragment};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use uuid::Uuid;

use super::allocations::{Names, PlannedMove, Skus, allocations, backfill_reserved};
use super::rows::in_regions;
use crate::capacity::Capacity;
use crate::catalog::{self, Sku};
use crate::decision_input::decision_request;
use crate::error::{Error, Result};
use crate::model::Shape;

/// Most moves of one suggestion.
pub const MAX_MOVES: u32 = 64;

/// The launches to make capacity for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefragmentationSpec {
    pub region_code: String,
    /// SKU, offered in slices.
    pub sku: String,
    /// GPUs of one launch.
    pub gpu_count: GpuCount,
    /// Most allocations to move, at most [`MAX_MOVES`].
    pub max_moves: u32,
}

/// One node that something would be moved off.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedStep {
    pub node_id: Uuid,
    /// Its host name.
    pub hostname: String,
    /// The moves, in their order.
    pub moves: Vec<PlannedMove>,
    /// Additional launches that would fit, in the whole region.
    pub gained: u32,
}

/// What moving a few allocations would bring.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// Launches that fit now.
    pub before: u32,
    /// Launches that fit after all steps.
    pub after: u32,
    /// In the order in which they would be done.
    pub steps: Vec<PlannedStep>,
    /// The search ended at its bound.
    pub cut: bool,
}

/// Suggests moves after which more launches of a size fit. Nothing is written.
///
/// # Errors
/// [`Error::Invalid`] that names the field.
pub async fn defragmentation(
    conn: &mut PgConnection,
    capacity: &Capacity,
    packing_strategy: PackingStrategy,
    spec: &DefragmentationSpec,
) -> Result<Suggestion> {
    // first, so that the copy and what follows are of one snapshot
    let nodes = capacity.now(conn).await?;
    let sku = check(conn, spec).await?;
    let fleet = nodes.fleet(&spec.region_code);
    let rows = in_regions(conn, std::slice::from_ref(&spec.region_code)).await?;
    let allocations = allocations(&rows, &Skus::of(conn, &rows).await?)?;
    let input = PlanInput {
        fleet: &fleet,
        packing_strategy,
        backfill_reserved: &backfill_reserved(conn, &spec.region_code).await?,
    };
    let request = decision_request(&sku, spec.gpu_count);
    let found = defragment(&input, &request, &allocations, spec.max_moves as usize);
    let names = Names::of_moves(conn, found.steps.iter().flat_map(|step| &step.moves)).await?;
    let planned = |step: Step| {
        Ok(PlannedStep {
            node_id: step.node_id,
            hostname: names.host(step.node_id),
            moves: names.moves(step.moves)?,
            gained: step.gained,
        })
    };
    Ok(Suggestion {
        before: found.before,
        after: found.after,
        steps: found
            .steps
            .into_iter()
            .map(planned)
            .collect::<Result<_>>()?,
        cut: found.cut,
    })
}

async fn check(conn: &mut PgConnection, spec: &DefragmentationSpec) -> Result<Sku> {
    let invalid = |reason, field, rule: String| Error::Invalid {
        reason,
        field,
        rule,
    };
    catalog::known_region(conn, &spec.region_code).await?;
    let sku = catalog::known_sku(conn, &spec.sku).await?;
    if sku.capacity_shape != Shape::GpuSlice {
        let rule = "is a bare-metal SKU; see the preservation report for bare metal".to_owned();
        return Err(invalid(ErrorReason::FieldInvalid, "sku", rule));
    }
    sku.check_gpu_count(spec.gpu_count)?;
    if !(1..=MAX_MOVES).contains(&spec.max_moves) {
        let rule = format!("must be from 1 to {MAX_MOVES}");
        return Err(invalid(ErrorReason::FieldInvalid, "max_moves", rule));
    }
    Ok(sku)
}
