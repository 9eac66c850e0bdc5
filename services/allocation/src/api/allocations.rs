//! `AllocationService`: what a user does with allocations.

use std::sync::Arc;

use gpuaas_common::identity::{Caller, ProjectScope};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, audit, id, idempotency, page, trace};
use gpuaas_placement::allocations::Listed;
use gpuaas_placement::power::Action;
use gpuaas_placement::timeline::{self, State};
use gpuaas_placement::{Scope, allocations, auto_release, lock};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_server::AllocationService;
use serde_json::json;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::certificates;
use super::create::{Created, create, create_all};
use super::errors::worth_repeating;
use super::metrics;
use super::power;
use super::update::update;
use crate::convert;
use crate::store::owned::owned;
use crate::store::read;
use crate::watch::Watching;
use crate::workflow::Deps;

const RELEASE: &str = "ReleaseAllocation";

/// The service.
pub struct AllocationApi {
    deps: Arc<Deps>,
    watch: Watching,
}

/// A change of power, as a request names it.
struct Change<'a> {
    id: &'a str,
    forced: bool,
    /// Slug of the image of a rescue.
    image: &'a str,
}

impl AllocationApi {
    /// A service on these parts.
    #[must_use]
    pub fn new(deps: Arc<Deps>, watch: Watching) -> Self {
        Self { deps, watch }
    }

    async fn power<M: prost::Message>(
        &self,
        request: Request<M>,
        requested: fn(&M) -> Change<'_>,
        action: Action,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let Change { id, forced, image } = requested(&request);
        let id = id::parse("allocation_id", id)?;
        let (deps, hash, doing) = (&self.deps, idempotency::hash(&request), (action, forced));
        let mut changed = power::change(deps, &caller, id, doing, image, &hash).await;
        if changed.as_ref().is_err_and(worth_repeating) {
            changed = power::change(deps, &caller, id, doing, image, &hash).await;
        }
        changed?;
        Ok(Response::new(self.get(&caller, id).await?))
    }

    async fn get(&self, caller: &Caller, allocation_id: Uuid) -> Result<pb::Allocation, Error> {
        let mut conn = self.deps.pool.acquire().await?;
        let (row, _) = owned(&mut conn, caller, allocation_id).await?;
        let now = read::now_of(&mut conn, &row).await?;
        Ok(convert::allocation(row, now))
    }

    async fn release(
        &self,
        caller: &Caller,
        request: &pb::ReleaseAllocationRequest,
    ) -> Result<pb::Allocation, Error> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let key = caller.idempotency_key()?;
        let scope = idempotency::Scope {
            principal: &caller.principal,
            method: RELEASE,
            key,
        };
        let hash = idempotency::hash(request);
        let mut conn = self.deps.pool.acquire().await?;
        let (_, project) = owned(&mut conn, caller, allocation_id).await?;
        drop(conn);
        self.begin_release(caller, project, allocation_id, scope, &hash)
            .await?;
        self.get(caller, allocation_id).await
    }

    /// Accepts the release, closes the billable period and starts the workflow in one transaction. The same key again changes
    /// nothing.
    async fn begin_release(
        &self,
        caller: &Caller,
        project: ProjectScope,
        allocation_id: Uuid,
        scope: idempotency::Scope<'_>,
        hash: &[u8],
    ) -> Result<(), Error> {
        let mut tx = self.deps.pool.begin().await?;
        let resource_id = allocation_id.to_string();
        if idempotency::take(&mut tx, scope, hash, &resource_id).await?
            != idempotency::Lookup::Fresh
        {
            return Ok(());
        }
        let ledger_scope = Scope::Project(project.id());
        let traceparent = trace::current_traceparent();
        let before = lock::allocation(&mut tx, Scope::Platform, allocation_id).await?;
        let begun = auto_release::by_owner(
            &mut tx,
            ledger_scope,
            allocation_id,
            &traceparent,
            &caller.request_id,
        )
        .await?;
        if begun.workflow_id.is_some() {
            let reported = "The release is accepted; billing has ended.";
            timeline::append(&mut tx, allocation_id, "releasing", State::Done, reported).await?;
            timeline::attribute(&mut tx, allocation_id, &caller.principal, "").await?;
        }
        let after = allocations::get(&mut tx, ledger_scope, allocation_id).await?;
        let detail = json!({"started": begun.workflow_id.is_some()});
        let detail = allocations::with_digests(detail, Some(&before), &after);
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "allocation.release",
            resource: "allocation",
            resource_id: &resource_id,
            request_id: &caller.request_id,
            detail: audit::in_project(detail, project.id()),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(%allocation_id, workflow_id = begun.workflow_id.map(tracing::field::display), "accept release");
        self.deps
            .wake
            .notify(gpuaas_placement::workflows::TOPIC)
            .await;
        self.deps.wake.notify(gpuaas_placement::outbox::TOPIC).await;
        Ok(())
    }
}

#[tonic::async_trait]
impl AllocationService for AllocationApi {
    type WatchAllocationsStream = gpuaas_common::watch::Stream<pb::WatchAllocationsResponse>;
    type WatchAllocationStream = gpuaas_common::watch::Stream<pb::WatchAllocationResponse>;
    type ReadSerialLogStream = gpuaas_common::watch::Stream<pb::ReadSerialLogResponse>;

    async fn read_serial_log(
        &self,
        request: Request<pb::ReadSerialLogRequest>,
    ) -> Result<Response<Self::ReadSerialLogStream>, Status> {
        let caller = Caller::of(&request)?;
        let opened = self.watch.serial_log(&caller, request.get_ref()).await?;
        Ok(Response::new(opened))
    }

    async fn get_allocation_metrics(
        &self,
        request: Request<pb::GetAllocationMetricsRequest>,
    ) -> Result<Response<pb::AllocationMetrics>, Status> {
        let caller = Caller::of(&request)?;
        let measured = metrics::get(&self.deps, &caller, request.get_ref()).await?;
        Ok(Response::new(measured))
    }

    async fn watch_allocations(
        &self,
        request: Request<pb::WatchAllocationsRequest>,
    ) -> Result<Response<Self::WatchAllocationsStream>, Status> {
        let caller = Caller::of(&request)?;
        let opened = self.watch.project(&caller, request.get_ref()).await?;
        Ok(Response::new(opened))
    }

    async fn watch_allocation(
        &self,
        request: Request<pb::WatchAllocationRequest>,
    ) -> Result<Response<Self::WatchAllocationStream>, Status> {
        let caller = Caller::of(&request)?;
        let opened = self.watch.allocation(&caller, request.get_ref()).await?;
        Ok(Response::new(opened))
    }

    async fn create_allocation(
        &self,
        request: Request<pb::CreateAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut created = create(&self.deps, &caller, &request).await;
        if created.as_ref().is_err_and(worth_repeating) {
            created = create(&self.deps, &caller, &request).await;
        }
        let allocation = match created? {
            Created::Allocation(id) => self.get(&caller, id).await?,
            Created::Validated(checked) => *checked,
        };
        Ok(Response::new(allocation))
    }

    async fn batch_create_allocations(
        &self,
        request: Request<pb::BatchCreateAllocationsRequest>,
    ) -> Result<Response<pb::BatchCreateAllocationsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut created = create_all(&self.deps, &caller, &request).await;
        if created.as_ref().is_err_and(worth_repeating) {
            created = create_all(&self.deps, &caller, &request).await;
        }
        let mut allocations = Vec::new();
        for id in created? {
            allocations.push(self.get(&caller, id).await?);
        }
        Ok(Response::new(pb::BatchCreateAllocationsResponse {
            allocations,
        }))
    }

    async fn get_allocation(
        &self,
        request: Request<pb::GetAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let allocation_id = id::parse("allocation_id", &request.get_ref().allocation_id)?;
        Ok(Response::new(self.get(&caller, allocation_id).await?))
    }

    async fn list_allocations(
        &self,
        request: Request<pb::ListAllocationsRequest>,
    ) -> Result<Response<pb::ListAllocationsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let project = caller.project(&request.project_id)?.id();
        let size = page::page_size(request.page_size)?;
        let selection =
            Selection::parse(&allocations::OF_PROJECT, &request.filter, &request.order_by)?;
        let query = [project.to_string(), request.include_ended.to_string()];
        let listed = Listed {
            project_id: Some(project),
            include_ended: request.include_ended,
            ..Listed::default()
        };
        let wanted = Wanted {
            page_token: &request.page_token,
            size,
            query: &query.each_ref().map(String::as_str),
        };
        let mut conn = self.deps.pool.acquire().await.map_err(Error::from)?;
        let (rows, next_page_token) =
            allocations::select(&mut conn, listed, &selection, wanted).await?;
        let mut now = read::now(&mut conn, &rows).await?;
        let allocations = rows
            .into_iter()
            .map(|row| {
                let now = now.remove(&row.id).unwrap_or_default();
                convert::allocation(row, now)
            })
            .collect();
        Ok(Response::new(pb::ListAllocationsResponse {
            allocations,
            next_page_token,
        }))
    }

    async fn update_allocation(
        &self,
        request: Request<pb::UpdateAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut updated = update(&self.deps, &caller, &request).await;
        if updated.as_ref().is_err_and(worth_repeating) {
            updated = update(&self.deps, &caller, &request).await;
        }
        Ok(Response::new(self.get(&caller, updated?).await?))
    }

    async fn release_allocation(
        &self,
        request: Request<pb::ReleaseAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let mut released = self.release(&caller, &request).await;
        if released.as_ref().is_err_and(worth_repeating) {
            released = self.release(&caller, &request).await;
        }
        Ok(Response::new(released?))
    }

    async fn stop_allocation(
        &self,
        request: Request<pb::StopAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        self.power(
            request,
            |requested| Change {
                id: &requested.allocation_id,
                forced: requested.force,
                image: "",
            },
            Action::Stop,
        )
        .await
    }

    async fn start_allocation(
        &self,
        request: Request<pb::StartAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        self.power(
            request,
            |requested| Change {
                id: &requested.allocation_id,
                forced: false,
                image: "",
            },
            Action::Start,
        )
        .await
    }

    async fn reboot_allocation(
        &self,
        request: Request<pb::RebootAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        self.power(
            request,
            |requested| Change {
                id: &requested.allocation_id,
                forced: requested.force,
                image: "",
            },
            Action::Reboot,
        )
        .await
    }

    async fn rescue_allocation(
        &self,
        request: Request<pb::RescueAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        self.power(
            request,
            |requested| Change {
                id: &requested.allocation_id,
                forced: requested.force,
                image: &requested.image,
            },
            Action::Rescue,
        )
        .await
    }

    async fn unrescue_allocation(
        &self,
        request: Request<pb::UnrescueAllocationRequest>,
    ) -> Result<Response<pb::Allocation>, Status> {
        self.power(
            request,
            |requested| Change {
                id: &requested.allocation_id,
                forced: requested.force,
                image: "",
            },
            Action::Unrescue,
        )
        .await
    }

    async fn list_timeline(
        &self,
        request: Request<pb::ListTimelineRequest>,
    ) -> Result<Response<pb::ListTimelineResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.into_inner();
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let selection = Selection::parse(&timeline::TIMELINE, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["timeline", &request.allocation_id],
        };
        let mut conn = self.deps.pool.acquire().await.map_err(Error::from)?;
        owned(&mut conn, &caller, allocation_id).await?;
        let (entries, next_page_token) =
            timeline::list(&mut conn, allocation_id, &selection, wanted).await?;
        let entries = entries.into_iter().map(convert::timeline_entry).collect();
        Ok(Response::new(pb::ListTimelineResponse {
            entries,
            next_page_token,
        }))
    }

    async fn list_wipe_certificates(
        &self,
        request: Request<pb::ListWipeCertificatesRequest>,
    ) -> Result<Response<pb::ListWipeCertificatesResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.get_ref();
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let listed =
            certificates::of_allocation(&self.deps, &caller, allocation_id, request).await?;
        Ok(Response::new(listed))
    }
}
