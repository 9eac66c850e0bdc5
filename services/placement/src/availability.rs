//! What could be launched now, per region, SKU and GPU count, and the unschedulable reasons (B-57, B-58).
use std::sync::Arc;

use gpuaas_placement_decision::{
    self as decision, BaremetalCandidate, Fleet, GpuCount, Rules, judge_baremetal, refusal_reasons,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::candidates;
use crate::capacity::Capacity;
use crate::catalog::{self, Sku};
use crate::decision_input::decision_request;
use crate::error::{Reason, Result, cause, reasons};
use crate::model::{Policy, Shape};
use crate::reserved_slots::Unused;

/// How many allocations of one size fit now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Availability {
    pub region_code: String,
    pub sku: String,
    /// GPUs of one allocation.
    pub gpu_count: GpuCount,
    /// Such allocations that fit.
    pub fits: u32,
    /// The unschedulable reasons; empty when something fits.
    pub reasons: Vec<Reason>,
}

/// Most SKUs that are counted.
const SKUS: i64 = 500;

/// Counts per region, SKU and allowed GPU count what a project could launch: what is free for everybody, and what is
/// reserved for it; of a SKU that is not offered any more the latter alone. Narrowed by region and SKU when given. Bare-metal
/// nodes are read from the tables, since the copy has no
/// nodes in mode baremetal.
///
/// # Errors
/// [`crate::Error::Invalid`] for a region or SKU that does not exist.
pub async fn list(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    project: Option<Uuid>,
    region_code: Option<&str>,
    sku: Option<&str>,
) -> Result<Vec<Availability>> {
    if let Some(region) = region_code {
        catalog::known_region(conn, region).await?;
    }
    let regions = catalog::regions(conn, region_code).await?;
    let skus = match sku {
        // what has no price yet, or is not offered any more, is the operators' matter
        None => catalog::skus(conn, project.as_ref().map(std::slice::from_ref), SKUS).await?,
        Some(code) => vec![catalog::known_sku(conn, code).await?],
    };
    let nodes = capacity.now(conn).await?;
    let rules = Rules {
        project,
        ..Rules::default()
    };
    let none = Arc::default();
    let mut rows = Vec::new();
    for region in regions {
        let region_code = &region.code;
        let fleet = nodes.get(region_code).unwrap_or(&none);
        let baremetal = if region.enabled && policy.baremetal && skus.iter().any(is_baremetal) {
            candidates::load_baremetal(conn, region_code, None).await?
        } else {
            Vec::new()
        };
        for sku in &skus {
            let mut rules = rules.clone();
            let mut unused = 0;
            if sku.disabled
                && let Some(project) = project
            {
                let reserved = Unused::of(conn, project, Some(region_code), &sku.code).await?;
                unused = reserved.gpus();
                reserved.limit(&mut rules);
            }
            for &gpu_count in &sku.allowed_gpu_counts {
                let (fits, reasons) = if let Some(message) = region.closed() {
                    let closed = cause(ErrorReason::RegionDisabled);
                    (0, vec![Reason { message, ..closed }])
                } else if sku.disabled && unused == 0 {
                    (0, vec![disabled()])
                } else if sku.price.is_none() {
                    (0, vec![without_a_price()])
                } else if !is_baremetal(sku) {
                    count_in(&rules, &decision_request(sku, gpu_count), fleet)
                } else if policy.baremetal {
                    count_baremetal(&rules, &decision_request(sku, gpu_count), &baremetal)
                } else {
                    (0, vec![nobody_brings_up()])
                };
                rows.push(Availability {
                    region_code: region_code.clone(),
                    sku: sku.code.clone(),
                    gpu_count,
                    fits,
                    reasons,
                });
            }
        }
    }
    Ok(rows)
}

fn count_in(rules: &Rules, request: &decision::Request, fleet: &Fleet) -> (u32, Vec<Reason>) {
    let fits = fleet.count_fits_by(rules, request);
    if fits > 0 {
        return (fits, Vec::new());
    }
    let removed = fleet.rank(rules, request).removed();
    (0, reasons(refusal_reasons(removed, request.gpu_count)))
}

fn count_baremetal(
    rules: &Rules,
    request: &decision::Request,
    nodes: &[BaremetalCandidate],
) -> (u32, Vec<Reason>) {
    let (fit, removed) = judge_baremetal(rules, request, nodes);
    match u32::try_from(fit.len()).unwrap_or(u32::MAX) {
        0 => (0, reasons(removed)),
        fits => (fits, Vec::new()),
    }
}

fn is_baremetal(sku: &Sku) -> bool {
    sku.capacity_shape == Shape::Baremetal
}

fn disabled() -> Reason {
    Reason {
        message: "The SKU is not offered any more.".to_owned(),
        ..cause(ErrorReason::NoCapacity)
    }
}

fn without_a_price() -> Reason {
    Reason {
        message: "The SKU has no price yet.".to_owned(),
        ..cause(ErrorReason::NoCapacity)
    }
}

/// Why no bare-metal node can be had where nothing could bring one up.
fn nobody_brings_up() -> Reason {
    Reason {
        message: "Bare metal is not offered on this platform.".to_owned(),
        ..cause(ErrorReason::NoCapacity)
    }
}
