//! `AllocationAdminService`: what operators see and do of the allocations of all projects, and the repair of slots.

use std::sync::Arc;

use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, audit, id, idempotency, trace};
use gpuaas_placement::host_holds::is_free;
use gpuaas_placement::model::Slot;
use gpuaas_placement::{Scope, allocations, claims, node_tasks, repair, slots, timeline};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::allocation_admin_service_server::AllocationAdminService;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::{Value, json};
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::errors::worth_repeating;
use super::operator_actions::{self, Doing};
use super::{
    certificates, comparison, comparison_correction, force_release, partition_deactivation,
};
use crate::convert;
use crate::reconcile;
use crate::store::read;
use crate::workflow::Deps;

const REPAIR: &str = "RepairResourceSlot";
/// Most calls to a host that a detail shows.
const MAX_TASKS: i64 = 200;

/// Most entries of a timeline that a detail shows.
const MAX_ENTRIES: i64 = 500;

/// The service.
pub struct AdminApi {
    pub(super) deps: Arc<Deps>,
}

impl AdminApi {
    /// A service on these parts.
    #[must_use]
    pub fn new(deps: Arc<Deps>) -> Self {
        Self { deps }
    }

    async fn detail(&self, allocation_id: Uuid) -> Result<pb::AllocationDetail, Error> {
        let mut conn = self.deps.pool.acquire().await?;
        let row = allocations::get(&mut conn, Scope::Platform, allocation_id).await?;
        let held = claims::of_allocation(&mut conn, allocation_id).await?;
        let tasks = node_tasks::of_allocation(&mut conn, allocation_id, MAX_TASKS).await?;
        let timeline = timeline::latest(&mut conn, allocation_id, MAX_ENTRIES).await?;
        let now = read::now_of(&mut conn, &row).await?;
        Ok(pb::AllocationDetail {
            node_id: row.node_id.map(|id| id.to_string()).unwrap_or_default(),
            allocation: Some(convert::allocation(row, now)),
            claims: held.into_iter().map(convert::claim).collect(),
            tasks: tasks.into_iter().map(convert::node_task).collect(),
            timeline: timeline.into_iter().map(convert::timeline_entry).collect(),
        })
    }

    async fn repair(
        &self,
        caller: &Caller,
        request: &pb::RepairResourceSlotRequest,
    ) -> Result<pb::SlotRepair, Error> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let slot_id = id::parse("slot_id", &request.slot_id)?;
        let reason = audit::reason(&request.reason)?;
        let key = caller.idempotency_key()?;
        let scope = idempotency::Scope {
            principal: &caller.principal,
            method: REPAIR,
            key,
        };
        let hash = idempotency::hash(request);
        let mut conn = self.deps.pool.acquire().await?;
        let known = idempotency::lookup(&mut conn, scope, &hash).await?;
        drop(conn);
        // a repeated call changes nothing, of other slots of the node neither
        if known == idempotency::Lookup::Fresh {
            self.note_hold(node_id, slot_id).await?;
        }
        let mut tx = self.deps.pool.begin().await?;
        let resource_id = slot_id.to_string();
        let taken = idempotency::take(&mut tx, scope, &hash, &resource_id).await?;
        if taken == idempotency::Lookup::Fresh {
            let traceparent = trace::current_traceparent();
            let before = read::latest_repair(&mut tx, slot_id).await?;
            let slot = slots::get(&mut tx, node_id, slot_id).await?;
            let before = before.map(|row| slot_repair(row, &slot));
            let begun =
                repair::begin(&mut tx, node_id, slot_id, &traceparent, &caller.request_id).await?;
            let slot = slots::get(&mut tx, node_id, slot_id).await?;
            let after = read::latest_repair(&mut tx, slot_id).await?;
            let after = after.map(|row| slot_repair(row, &slot));
            let detail = json!({"reason": reason, "started": begun.started});
            let entry = audit::Entry {
                principal: &caller.principal,
                action: "slot.repair",
                resource: "slot",
                resource_id: &resource_id,
                request_id: &caller.request_id,
                detail: audit::with_digests(detail, before.as_ref(), after.as_ref()),
            };
            audit::record(&mut tx, entry).await?;
            tx.commit().await?;
            tracing::info!(%slot_id, workflow_id = %begun.workflow_id, "accept repair");
            self.deps
                .wake
                .notify(gpuaas_placement::workflows::TOPIC)
                .await;
            self.deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
        } else {
            tx.rollback().await?;
        }
        self.latest(node_id, slot_id).await
    }

    /// A slot that the ledger has for free may be held by its host: it is asked, so that a repair need not wait for the
    /// reconciler. A host that does not answer leaves the slot what it is.
    async fn note_hold(&self, node_id: Uuid, slot_id: Uuid) -> Result<(), Error> {
        let mut conn = self.deps.pool.acquire().await?;
        let slot = slots::get(&mut conn, node_id, slot_id).await?;
        drop(conn);
        if !is_free(&slot) || slot.host_holder.is_some() {
            return Ok(());
        }
        if let Err(error) = reconcile::find_leaked_holds(&self.deps, node_id).await {
            tracing::warn!(%node_id, %slot_id, "cannot ask the host which slots it holds: {error:?}");
        }
        Ok(())
    }

    async fn latest(&self, node_id: Uuid, slot_id: Uuid) -> Result<pb::SlotRepair, Error> {
        let mut conn = self.deps.pool.acquire().await?;
        let slot = slots::get(&mut conn, node_id, slot_id).await?;
        let latest = read::latest_repair(&mut conn, slot_id).await?;
        let none = || {
            Error::new(
                Code::NotFound,
                ErrorReason::NotFound,
                "This slot was never repaired.",
            )
        };
        Ok(slot_repair(latest.ok_or_else(none)?, &slot))
    }
}

fn slot_repair(row: read::Repair, slot: &Slot) -> pb::SlotRepair {
    let failure = row
        .failure
        .as_ref()
        .and_then(|failure| failure.get("message").and_then(Value::as_str));
    let running = row.progress.filter(|_| row.ended_at.is_none());
    let running = running.map(|progress| {
        let (message, percent) = (&progress.message, progress.percent);
        format!("{message} ({percent} %)").trim_start().to_owned()
    });
    let detail = failure.map(str::to_owned).or(running);
    let status = gpuaas_placement::convert::slot_status(slot.status);
    let health = gpuaas_placement::convert::health_state(slot.health_state);
    pb::SlotRepair {
        id: row.id.to_string(),
        slot_id: slot.id.to_string(),
        state: row.state,
        slot_status: status.into(),
        health_state: health.into(),
        detail: detail.unwrap_or_else(|| slot.health_detail.clone()),
        create_time: Some(convert::time(row.created_at)),
        end_time: row.ended_at.map(convert::time),
    }
}

#[tonic::async_trait]
impl AllocationAdminService for AdminApi {
    async fn list_all_allocations(
        &self,
        request: Request<pb::ListAllAllocationsRequest>,
    ) -> Result<Response<pb::ListAllAllocationsResponse>, Status> {
        Ok(Response::new(
            operator_actions::list_all(&self.deps, request.get_ref()).await?,
        ))
    }

    async fn stop_tenant_allocation(
        &self,
        request: Request<pb::StopTenantAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let of = (request.allocation_id.as_str(), request.reason.as_str());
        let mut stopped =
            operator_actions::operate(&self.deps, &caller, &request, of, Doing::Stop).await;
        if stopped.as_ref().is_err_and(worth_repeating) {
            stopped =
                operator_actions::operate(&self.deps, &caller, &request, of, Doing::Stop).await;
        }
        Ok(Response::new(stopped?))
    }

    async fn release_tenant_allocation(
        &self,
        request: Request<pb::ReleaseTenantAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let of = (request.allocation_id.as_str(), request.reason.as_str());
        let mut released =
            operator_actions::operate(&self.deps, &caller, &request, of, Doing::Release).await;
        if released.as_ref().is_err_and(worth_repeating) {
            released =
                operator_actions::operate(&self.deps, &caller, &request, of, Doing::Release).await;
        }
        Ok(Response::new(released?))
    }

    async fn force_release_allocation(
        &self,
        request: Request<pb::ForceReleaseAllocationRequest>,
    ) -> Result<Response<pb::ForceRelease>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut released = force_release::force_release(&self.deps, &caller, &request).await;
        if released.as_ref().is_err_and(worth_repeating) {
            released = force_release::force_release(&self.deps, &caller, &request).await;
        }
        Ok(Response::new(released?))
    }

    async fn get_allocation_detail(
        &self,
        request: Request<pb::GetAllocationDetailRequest>,
    ) -> Result<Response<pb::AllocationDetail>, Status> {
        let allocation_id = id::parse("allocation_id", &request.get_ref().allocation_id)?;
        Ok(Response::new(self.detail(allocation_id).await?))
    }

    async fn repair_resource_slot(
        &self,
        request: Request<pb::RepairResourceSlotRequest>,
    ) -> Result<Response<pb::SlotRepair>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut repaired = self.repair(&caller, &request).await;
        if repaired.as_ref().is_err_and(worth_repeating) {
            repaired = self.repair(&caller, &request).await;
        }
        Ok(Response::new(repaired?))
    }

    async fn compare_node(
        &self,
        request: Request<pb::CompareNodeRequest>,
    ) -> Result<Response<pb::NodeComparison>, Status> {
        Ok(Response::new(
            comparison::comparison(&self.deps, request.get_ref()).await?,
        ))
    }

    async fn correct_comparison(
        &self,
        request: Request<pb::CorrectComparisonRequest>,
    ) -> Result<Response<pb::NodeComparisonRow>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut corrected = comparison_correction::correct_row(&self.deps, &caller, &request).await;
        if corrected.as_ref().is_err_and(worth_repeating) {
            corrected = comparison_correction::correct_row(&self.deps, &caller, &request).await;
        }
        Ok(Response::new(corrected?))
    }

    async fn deactivate_partition(
        &self,
        request: Request<pb::DeactivatePartitionRequest>,
    ) -> Result<Response<pb::DeactivatePartitionResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut deactivated =
            partition_deactivation::deactivate_unowned(&self.deps, &caller, &request).await;
        if deactivated.as_ref().is_err_and(worth_repeating) {
            deactivated =
                partition_deactivation::deactivate_unowned(&self.deps, &caller, &request).await;
        }
        deactivated?;
        Ok(Response::new(pb::DeactivatePartitionResponse {}))
    }

    async fn get_slot_repair(
        &self,
        request: Request<pb::GetSlotRepairRequest>,
    ) -> Result<Response<pb::SlotRepair>, Status> {
        let node_id = id::parse("node_id", &request.get_ref().node_id)?;
        let slot_id = id::parse("slot_id", &request.get_ref().slot_id)?;
        Ok(Response::new(self.latest(node_id, slot_id).await?))
    }

    async fn list_slot_wipe_certificates(
        &self,
        request: Request<pb::ListSlotWipeCertificatesRequest>,
    ) -> Result<Response<pb::ListSlotWipeCertificatesResponse>, Status> {
        let request = request.into_inner();
        let node_id = id::parse("node_id", &request.node_id)?;
        let slot_id = id::parse("slot_id", &request.slot_id)?;
        let listed = certificates::of_slot(&self.deps, node_id, slot_id, &request).await?;
        Ok(Response::new(listed))
    }
}
