//! `CapacityReservationService` and `CapacityReservationAdminService`: capacity reserved for one project. Each change
//! has its audit row (P10).
use gpuaas_common::idempotency::{self, Lookup, Scope as Key};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, Result, audit, etag, id, page};
use gpuaas_placement::decision::GpuCount;
use gpuaas_placement::model::Scope;
use gpuaas_placement::quota::{self, LimitChange, Limited};
use gpuaas_placement::reservations::{
    self, Cancellation, CapacityReservation, Query, RESERVATIONS, ReservationSpec, message,
};
use gpuaas_placement::{catalog, outbox};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_admin_service_server::CapacityReservationAdminService;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_server::CapacityReservationService;
use serde_json::json;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::public::given;
use super::{Api, parse};

#[tonic::async_trait]
impl CapacityReservationService for Api {
    async fn create_capacity_reservation(
        &self,
        request: Request<pb::CreateCapacityReservationRequest>,
    ) -> Result<Response<pb::CapacityReservation>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let pb::CreateCapacityReservationRequest { config, gather } = request.into_inner();
        let config = config.ok_or_else(|| Error::required("config"))?;
        let project = caller
            .project(&config.project_id)
            .map_err(|error| in_config(&error))?;
        let requested = requested(&caller, hash, config, gather, Some(project.id()))?;
        Ok(Response::new(self.make(&requested).await?))
    }

    async fn get_capacity_reservation(
        &self,
        request: Request<pb::GetCapacityReservationRequest>,
    ) -> Result<Response<pb::CapacityReservation>, Status> {
        let caller = Caller::of(&request)?;
        let id = id::parse("reservation_id", &request.get_ref().reservation_id)?;
        let scope = self.scope_of(&caller, id).await?;
        Ok(Response::new(self.shown(scope, id).await?))
    }

    async fn list_capacity_reservations(
        &self,
        request: Request<pb::ListCapacityReservationsRequest>,
    ) -> Result<Response<pb::ListCapacityReservationsResponse>, Status> {
        let caller = Caller::of(&request)?;
        let request = request.get_ref();
        let query = Query {
            project_id: Some(caller.project(&request.project_id)?.id()),
            include_ended: request.include_ended,
            ..Query::default()
        };
        let selection = Selection::parse(&RESERVATIONS, &request.filter, &request.order_by)?;
        let (reservations, next_page_token) = self
            .page(query, &selection, request.page_size, &request.page_token)
            .await?;
        Ok(Response::new(pb::ListCapacityReservationsResponse {
            reservations,
            next_page_token,
        }))
    }

    async fn cancel_capacity_reservation(
        &self,
        request: Request<pb::CancelCapacityReservationRequest>,
    ) -> Result<Response<pb::CapacityReservation>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let requested = request.get_ref();
        let id = id::parse("reservation_id", &requested.reservation_id)?;
        let scope = self.scope_of(&caller, id).await?;
        let made = self
            .end(&caller, hash, scope, id, &requested.reason)
            .await?;
        Ok(Response::new(made))
    }
}

#[tonic::async_trait]
impl CapacityReservationAdminService for Api {
    async fn create_project_reservation(
        &self,
        request: Request<pb::CreateProjectReservationRequest>,
    ) -> Result<Response<pb::CapacityReservation>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let pb::CreateProjectReservationRequest { config, gather } = request.into_inner();
        let config = config.ok_or_else(|| Error::required("config"))?;
        let requested = requested(&caller, hash, config, gather, None)?;
        Ok(Response::new(self.make(&requested).await?))
    }

    async fn get_project_reservation(
        &self,
        request: Request<pb::GetProjectReservationRequest>,
    ) -> Result<Response<pb::CapacityReservation>, Status> {
        Caller::of(&request)?;
        let id = id::parse("reservation_id", &request.get_ref().reservation_id)?;
        Ok(Response::new(self.shown(Scope::Platform, id).await?))
    }

    async fn list_all_reservations(
        &self,
        request: Request<pb::ListAllReservationsRequest>,
    ) -> Result<Response<pb::ListAllReservationsResponse>, Status> {
        Caller::of(&request)?;
        let request = request.get_ref();
        let project_id = given(&request.project_id).map(|text| id::parse("project_id", text));
        let query = Query {
            project_id: project_id.transpose()?,
            region_code: given(&request.region_code),
            include_ended: request.include_ended,
        };
        let selection = Selection::parse(&RESERVATIONS, &request.filter, &request.order_by)?;
        let (reservations, next_page_token) = self
            .page(query, &selection, request.page_size, &request.page_token)
            .await?;
        Ok(Response::new(pb::ListAllReservationsResponse {
            reservations,
            next_page_token,
        }))
    }

    async fn cancel_project_reservation(
        &self,
        request: Request<pb::CancelProjectReservationRequest>,
    ) -> Result<Response<pb::CapacityReservation>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let requested = request.get_ref();
        let id = id::parse("reservation_id", &requested.reservation_id)?;
        let made = self
            .end(&caller, hash, Scope::Platform, id, &requested.reason)
            .await?;
        Ok(Response::new(made))
    }

    async fn put_project_reservation_limit(
        &self,
        request: Request<pb::PutProjectReservationLimitRequest>,
    ) -> Result<Response<pb::ProjectReservationLimit>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.put_limit(&caller, request.get_ref()).await?,
        ))
    }

    async fn get_project_reservation_limit(
        &self,
        request: Request<pb::GetProjectReservationLimitRequest>,
    ) -> Result<Response<pb::ProjectReservationLimit>, Status> {
        Caller::of(&request)?;
        let project_id = id::parse("project_id", &request.get_ref().project_id)?;
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        let limit = reservations::limit(&mut conn, project_id).await;
        let limit = limit.map_err(Error::from)?;
        Ok(Response::new(limited(project_id, limit)))
    }
}

/// A request to reserve, parsed; a member's for `project`, an operator's for the project that it names.
fn requested(
    caller: &Caller,
    request_hash: Vec<u8>,
    config: pb::CapacityReservationConfig,
    gather: bool,
    project: Option<Uuid>,
) -> Result<ReservationSpec> {
    parse::label("config.name", &config.name)?;
    for (field, missing) in [
        ("config.region_code", config.region_code.is_empty()),
        ("config.sku", config.sku.is_empty()),
        ("config.gpu_count", config.gpu_count == 0),
        ("config.end_time", config.end_time.is_none()),
    ] {
        if missing {
            return Err(Error::required(field));
        }
    }
    let time = |field: &str, at: &prost_types::Timestamp| {
        from_proto_time(at).ok_or_else(|| Error::invalid(field, "must be a time"))
    };
    let starts_at = config.start_time.as_ref();
    let starts_at = starts_at.map(|at| time("config.start_time", at));
    let unused = config.release_unused_after_seconds;
    Ok(ReservationSpec {
        principal: caller.principal.clone(),
        idempotency_key: caller.idempotency_key()?.to_owned(),
        request_hash,
        request_id: caller.request_id.clone(),
        made_by_project: project.is_some(),
        project_id: match project {
            Some(project) => project,
            None => id::parse("config.project_id", &config.project_id)?,
        },
        starts_at: starts_at.transpose()?,
        ends_at: time("config.end_time", &config.end_time.unwrap_or_default())?,
        name: config.name,
        region_code: config.region_code,
        sku: config.sku,
        gpu_count: config.gpu_count,
        release_unused_after: (unused > 0).then_some(unused),
        gather,
    })
}

/// Names fields as they are named in a request that has them in `config`.
fn in_config(error: &Error) -> Error {
    let mut named = Error::new(error.code(), error.reason(), error.message());
    for (field, rule) in error.fields() {
        named = named.field(format!("config.{field}"), rule);
    }
    for (key, value) in error.metadata() {
        named = named.meta(key, value);
    }
    named
}

impl Api {
    async fn make(&self, requested: &ReservationSpec) -> Result<pb::CapacityReservation> {
        let made = reservations::create(&self.pool, self.ids, self.policy, requested).await;
        let (row, replayed) = made.map_err(|error| match error {
            error @ (gpuaas_placement::Error::Invalid { .. }
            | gpuaas_placement::Error::Refused { .. }) => in_config(&error.into()),
            // the name is taken
            gpuaas_placement::Error::Common(error)
                if error.reason() == ErrorReason::AlreadyExists =>
            {
                in_config(&error)
            }
            other => other.into(),
        })?;
        if !replayed {
            tracing::info!(
                reservation_id = %row.id, project_id = %row.project_id, sku = row.sku, gpu_count = row.gpu_count,
                reserved_gpus = row.reserved_gpus, "reserve capacity"
            );
            // a window that begins soon, and missing slots, are reconciled at once
            self.wake.notify(outbox::TOPIC).await;
        }
        self.with_launches(row).await
    }

    async fn shown(&self, scope: Scope, id: Uuid) -> Result<pb::CapacityReservation> {
        let row = reservations::get(&mut *self.pool.acquire().await?, scope, id).await?;
        self.with_launches(row).await
    }

    async fn with_launches(&self, row: CapacityReservation) -> Result<pb::CapacityReservation> {
        let mut conn = self.pool.acquire().await?;
        let launches = reservations::launches(&mut conn, &row).await?;
        let mut shown = message(row);
        if let Some(status) = &mut shown.status {
            let capacity = |(gpu_count, fits): (GpuCount, u32)| pb::LaunchCapacity {
                gpu_count: gpu_count.get(),
                fits,
            };
            status.launches = launches.into_iter().map(capacity).collect();
        }
        Ok(shown)
    }

    /// The project of the caller whose reservation it is.
    async fn scope_of(&self, caller: &Caller, id: Uuid) -> Result<Scope> {
        let row = reservations::get(&mut *self.pool.acquire().await?, Scope::Platform, id).await?;
        // of another project it does not exist
        let own = caller
            .projects
            .iter()
            .find(|project| **project == row.project_id);
        let own = own.ok_or_else(|| gpuaas_placement::Error::NotFound {
            what: "capacity reservation",
            id: id.to_string(),
        })?;
        Ok(Scope::Project(*own))
    }

    async fn page(
        &self,
        query: Query<'_>,
        selection: &Selection,
        page_size: i32,
        page_token: &str,
    ) -> Result<(Vec<pb::CapacityReservation>, String)> {
        let project = query.project_id.map(|id| id.to_string());
        let parts = [
            "capacity-reservations",
            project.as_deref().unwrap_or_default(),
            query.region_code.unwrap_or_default(),
            if query.include_ended { "all" } else { "live" },
        ];
        let wanted = Wanted {
            page_token,
            size: page::page_size(page_size)?,
            query: &parts,
        };
        let mut conn = self.pool.acquire().await?;
        if let Some(region) = query.region_code {
            catalog::known_region(&mut conn, region).await?;
        }
        let (rows, next) = reservations::list(&mut conn, &query, selection, wanted).await?;
        Ok((rows.into_iter().map(message).collect(), next))
    }

    async fn end(
        &self,
        caller: &Caller,
        hash: Vec<u8>,
        scope: Scope,
        id: Uuid,
        reason: &str,
    ) -> Result<pb::CapacityReservation> {
        audit::check_reason(reason)?;
        let requested = Cancellation {
            principal: &caller.principal,
            idempotency_key: caller.idempotency_key()?,
            request_hash: &hash,
            request_id: &caller.request_id,
            scope,
            id,
            reason,
        };
        let row = reservations::cancel(&self.pool, self.policy, &requested).await?;
        tracing::info!(reservation_id = %row.id, project_id = %row.project_id, "cancel reservation");
        // queued requests may be served now
        self.wake.notify(outbox::TOPIC).await;
        self.with_launches(row).await
    }

    async fn put_limit(
        &self,
        caller: &Caller,
        request: &pb::PutProjectReservationLimitRequest,
    ) -> Result<pb::ProjectReservationLimit> {
        let hash = idempotency::hash(request);
        let key = Key {
            principal: &caller.principal,
            method: "PutProjectReservationLimit",
            key: caller.idempotency_key()?,
        };
        let project_id = id::parse("project_id", &request.project_id)?;
        let max_gpus = parse::signed("max_gpus", request.max_gpus)?;
        let mut tx = self.pool.begin().await?;
        let resource_id = project_id.to_string();
        let taken = idempotency::take(&mut tx, key, &hash, &resource_id).await?;
        let limit = if let Lookup::Fresh = taken {
            quota::lock_limits(&mut tx, project_id).await?;
            let before = reservations::limit(&mut tx, project_id).await?;
            let event = LimitChange {
                project_id,
                of: Limited::ReservedGpus,
                before: before.max_gpus,
                after: i64::from(max_gpus),
            };
            let before = limited(project_id, before);
            etag::check(&request.etag, &before.etag)?;
            quota::emit(&mut tx, event).await?;
            let limit = reservations::put_limit(&mut tx, project_id, max_gpus).await?;
            let after = limited(project_id, limit);
            let detail = json!({ "max_gpus": max_gpus });
            let detail = audit::with_digests(detail, Some(&before), Some(&after));
            let entry = audit::Entry {
                principal: &caller.principal,
                action: "reservation.limit",
                resource: "project",
                resource_id: &resource_id,
                request_id: &caller.request_id,
                detail: audit::in_project(detail, project_id),
            };
            audit::record(&mut tx, entry).await?;
            tx.commit().await?;
            tracing::info!(%project_id, max_gpus, "put reservation limit");
            self.wake.notify(outbox::TOPIC).await;
            limit
        } else {
            reservations::limit(&mut tx, project_id).await?
        };
        Ok(limited(project_id, limit))
    }
}

fn limited(project_id: Uuid, limit: reservations::Limit) -> pb::ProjectReservationLimit {
    let set = pb::ProjectReservationLimit {
        project_id: project_id.to_string(),
        max_gpus: number(limit.max_gpus),
        ..pb::ProjectReservationLimit::default()
    };
    pb::ProjectReservationLimit {
        etag: etag::of(&set),
        reserved_gpus: number(limit.reserved_gpus),
        ..set
    }
}

fn number(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
