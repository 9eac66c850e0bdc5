//! The planning reports of `CapacityAdminService`: read, answered, and nothing executed (B-49).
use std::collections::BTreeSet;

use gpuaas_common::time::proto_time;
use gpuaas_common::{Error, Result, id};
use gpuaas_placement::reports::{
    self, DefragmentationSpec, MAX_MOVES, NOTICE, Outcome, Planned, PlannedAllocation, PlannedMove,
    PlannedPlacement, PlannedStep, Recoverable, RegionReport,
};
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use sqlx::{Postgres, Transaction};

use super::public::given;
use super::{Api, convert, parse};

/// Most moves of a suggestion when the request names no bound.
const DEFAULT_MOVES: u32 = 8;

impl Api {
    /// Free and held capacity must be of one moment.
    async fn snapshot(&self) -> Result<Transaction<'static, Postgres>> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        Ok(self.pool.begin_with(begin).await?)
    }

    pub(super) async fn evacuation_plan(
        &self,
        request: &pb::PlanEvacuationRequest,
    ) -> Result<pb::EvacuationPlan> {
        if request.node_ids.is_empty() {
            return Err(Error::required("node_ids"));
        }
        let node_ids = request
            .node_ids
            .iter()
            .map(|node_id| id::parse("node_ids", node_id))
            .collect::<Result<BTreeSet<_>, _>>()?;
        let mut tx = self.snapshot().await?;
        let plan =
            reports::evacuation(&mut tx, &self.pool.capacity, self.policy, &node_ids).await?;
        tx.rollback().await?;
        let mut answer = pb::EvacuationPlan {
            region_code: plan.region_code,
            blocked_slots: plan.blocked_slots,
            notice: NOTICE.to_owned(),
            ..pb::EvacuationPlan::default()
        };
        for planned in plan.allocations {
            let gpus = planned.allocation.gpu_count.get();
            match planned.outcome {
                Outcome::Fits(_) => {
                    answer.allocations_fit += 1;
                    answer.gpus_fit += gpus;
                }
                Outcome::Nowhere(_) => {
                    answer.allocations_unplaceable += 1;
                    answer.gpus_unplaceable += gpus;
                }
                Outcome::Ends => answer.allocations_ending += 1,
            }
            answer.allocations.push(evacuated(planned));
        }
        Ok(answer)
    }

    pub(super) async fn defragmentation(
        &self,
        request: &pb::SuggestDefragmentationRequest,
    ) -> Result<pb::DefragmentationSuggestion> {
        for (field, value) in [("region_code", &request.region_code), ("sku", &request.sku)] {
            if value.is_empty() {
                return Err(Error::required(field));
            }
        }
        let requested = DefragmentationSpec {
            region_code: request.region_code.clone(),
            sku: request.sku.clone(),
            gpu_count: parse::gpu_count(request.gpu_count)?,
            max_moves: match request.max_moves {
                0 => DEFAULT_MOVES.min(MAX_MOVES),
                most => most,
            },
        };
        let mut tx = self.snapshot().await?;
        let packing_strategy = self.policy.packing_strategy;
        let found =
            reports::defragmentation(&mut tx, &self.pool.capacity, packing_strategy, &requested)
                .await?;
        tx.rollback().await?;
        let moves = found.steps.iter().flat_map(|step| &step.moves);
        Ok(pb::DefragmentationSuggestion {
            region_code: requested.region_code,
            sku: requested.sku,
            gpu_count: requested.gpu_count.get(),
            fits_before: found.before,
            fits_after: found.after,
            gpus_moved: moves.map(|one| one.allocation.gpu_count.get()).sum(),
            steps: found.steps.into_iter().map(step).collect(),
            cut: found.cut,
            notice: NOTICE.to_owned(),
        })
    }

    pub(super) async fn preservation(
        &self,
        request: &pb::GetPreservationReportRequest,
    ) -> Result<pb::PreservationReport> {
        let mut tx = self.snapshot().await?;
        let packing_strategy = self.policy.packing_strategy;
        let region = given(&request.region_code);
        let found =
            reports::preservation(&mut tx, &self.pool.capacity, packing_strategy, region).await?;
        tx.rollback().await?;
        Ok(pb::PreservationReport {
            nodes: found.into_iter().map(preserved).collect(),
            notice: NOTICE.to_owned(),
        })
    }
}

fn evacuated(planned: Planned) -> pb::EvacuatedAllocation {
    let (placement, reasons) = match planned.outcome {
        Outcome::Fits(at) => (Some(placement(at)), Vec::new()),
        Outcome::Nowhere(causes) => (None, convert::reasons(causes)),
        Outcome::Ends => (None, Vec::new()),
    };
    pb::EvacuatedAllocation {
        allocation: Some(allocation(planned.allocation)),
        placement,
        reasons,
        constraints_known: planned.constraints_known,
    }
}

fn step(step: PlannedStep) -> pb::DefragmentationStep {
    pb::DefragmentationStep {
        node_id: step.node_id.to_string(),
        hostname: step.hostname,
        moves: step.moves.into_iter().map(moved).collect(),
        gained: step.gained,
    }
}

fn preserved(report: RegionReport) -> pb::NodePreservation {
    pb::NodePreservation {
        region_code: report.region_code,
        slot_class: report.slot_class.to_string(),
        nodes: report.nodes,
        baremetal_free: report.baremetal_free,
        baremetal_allocated: report.baremetal_allocated,
        clean: report.clean,
        sliced: report.sliced,
        recoverable: report.recoverable,
        moves: report.moves,
        gpus_moved: report.gpus_moved,
        easiest: report.easiest.into_iter().map(recoverable).collect(),
    }
}

fn recoverable(node: Recoverable) -> pb::RecoverableNode {
    pb::RecoverableNode {
        node_id: node.node_id.to_string(),
        hostname: node.hostname,
        moves: node.moves.into_iter().map(moved).collect(),
    }
}

fn moved(planned: PlannedMove) -> pb::PlannedMove {
    pb::PlannedMove {
        allocation: Some(allocation(planned.allocation)),
        placement: Some(placement(planned.placement)),
    }
}

fn placement(at: PlannedPlacement) -> pb::PlannedPlacement {
    let indexes = at.slot_indexes.into_iter();
    pb::PlannedPlacement {
        node_id: at.node_id.to_string(),
        hostname: at.hostname,
        slot_indexes: indexes.map(i32::unsigned_abs).collect(),
    }
}

fn allocation(planned: PlannedAllocation) -> pb::PlannedAllocation {
    pb::PlannedAllocation {
        id: planned.id.to_string(),
        project_id: planned.project_id.to_string(),
        name: planned.name,
        sku: planned.sku,
        gpu_count: planned.gpu_count.get(),
        capacity_shape: CapacityShape::from(planned.capacity_shape).into(),
        state: planned.state.to_string(),
        create_time: Some(proto_time(planned.created_at.to_jiff())),
        node_id: planned.node_id.to_string(),
        hostname: planned.hostname,
    }
}
