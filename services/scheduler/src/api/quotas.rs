//! `QuotaService`, and what `SkuAdminService` does about quotas: how much a project may hold. Each change has its audit
//! row (P10).
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, Result, audit, etag, id};
use gpuaas_placement::quota::{self, LimitChange, Limited};
use gpuaas_placement::{outbox, reservations};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::scheduler::v1 as pb;
use gpuaas_proto::gpuaas::scheduler::v1::quota_service_server::QuotaService;
use serde_json::json;
use sqlx::PgConnection;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::{Api, parse};

#[tonic::async_trait]
impl QuotaService for Api {
    async fn get_quotas(
        &self,
        request: Request<pb::GetQuotasRequest>,
    ) -> Result<Response<pb::ProjectQuotas>, Status> {
        let caller = Caller::of(&request)?;
        let project = caller.project(&request.get_ref().project_id)?;
        Ok(Response::new(self.quotas_of(project.id()).await?))
    }
}

/// A limit that an operator sets.
struct Change<'a> {
    method: &'static str,
    request_hash: Vec<u8>,
    project_id: Uuid,
    /// What it is of.
    of: Limited<'a>,
    /// What it is to be.
    limit: i32,
    /// What the audit names.
    resource_id: &'a str,
    detail: serde_json::Value,
    /// Of the limits that the caller has read.
    etag: &'a str,
}

impl Api {
    pub(super) async fn quotas_of(&self, project_id: Uuid) -> Result<pb::ProjectQuotas> {
        let mut conn = self.pool.acquire().await?;
        self.quotas(&mut conn, project_id).await
    }

    async fn quotas(&self, conn: &mut PgConnection, project_id: Uuid) -> Result<pb::ProjectQuotas> {
        let found = quota::of_project(conn, project_id, self.policy).await?;
        let reservable = reservations::limit(conn, project_id).await?;
        let of_sku = |one: quota::SkuQuota| pb::ProjectQuota {
            project_id: project_id.to_string(),
            sku: one.sku,
            max_gpus: number(one.max_gpus),
            used_gpus: number(one.used_gpus),
            etag: String::new(),
        };
        let mut quotas = pb::ProjectQuotas {
            project_id: project_id.to_string(),
            max_allocations: number(found.max_allocations),
            used_allocations: number(found.used_allocations),
            quotas: found.skus.into_iter().map(of_sku).collect(),
            default_max_gpus: self.policy.default_quota_gpus,
            max_reserved_gpus: number(reservable.max_gpus),
            reserved_gpus: number(reservable.reserved_gpus),
            etag: String::new(),
        };
        quotas.etag = etag::of(&limits(quotas.clone()));
        for quota in &mut quotas.quotas {
            quota.etag.clone_from(&quotas.etag);
        }
        Ok(quotas)
    }

    pub(super) async fn put_quota_as(
        &self,
        caller: &Caller,
        request: pb::PutProjectQuotaRequest,
    ) -> Result<pb::ProjectQuota> {
        let request_hash = idempotency::hash(&request);
        let project_id = id::parse("project_id", &request.project_id)?;
        let max_gpus = parse::signed("max_gpus", request.max_gpus)?;
        let sku = request.sku;
        let change = Change {
            method: "PutProjectQuota",
            request_hash,
            project_id,
            of: Limited::Gpus(&sku),
            limit: max_gpus,
            resource_id: &format!("{project_id}/{sku}"),
            detail: json!({ "max_gpus": max_gpus }),
            etag: &request.etag,
        };
        let put = async |conn: &mut PgConnection| {
            let done = quota::put(conn, project_id, &sku, max_gpus).await;
            done.map_err(unknown_sku)
        };
        self.change_quota(caller, change, put).await?;
        let found = self.quotas_of(project_id).await?;
        let mut of_skus = found.quotas.into_iter();
        of_skus
            .find(|quota| quota.sku == sku)
            .ok_or_else(|| Error::internal("no quota"))
    }

    pub(super) async fn put_allocation_limit_as(
        &self,
        caller: &Caller,
        request: &pb::PutProjectAllocationLimitRequest,
    ) -> Result<pb::ProjectAllocationLimit> {
        let project_id = id::parse("project_id", &request.project_id)?;
        let max_allocations = parse::signed("max_allocations", request.max_allocations)?;
        let change = Change {
            method: "PutProjectAllocationLimit",
            request_hash: idempotency::hash(request),
            project_id,
            of: Limited::Allocations,
            limit: max_allocations,
            resource_id: &project_id.to_string(),
            detail: json!({ "max_allocations": max_allocations }),
            etag: &request.etag,
        };
        let put = async |conn: &mut PgConnection| {
            let done = quota::put_allocations(conn, project_id, max_allocations).await;
            done.map_err(Error::from)
        };
        self.change_quota(caller, change, put).await?;
        let found = self.quotas_of(project_id).await?;
        Ok(pb::ProjectAllocationLimit {
            project_id: found.project_id,
            max_allocations: found.max_allocations,
            used_allocations: found.used_allocations,
            etag: found.etag,
        })
    }

    /// Makes a change once per key.
    async fn change_quota(
        &self,
        caller: &Caller,
        change: Change<'_>,
        put: impl AsyncFnOnce(&mut PgConnection) -> Result<()>,
    ) -> Result<()> {
        let scope = Scope {
            principal: &caller.principal,
            method: change.method,
            key: caller.idempotency_key()?,
        };
        let hash = change.request_hash;
        let mut tx = self.pool.begin().await?;
        // a repeat of a call that is still at work waits for it, and is no change of who read what that one replaces
        let taken = idempotency::take(&mut tx, scope, &hash, change.resource_id).await?;
        if let Lookup::Replay { .. } = taken {
            return Ok(());
        }
        quota::lock_limits(&mut tx, change.project_id).await?;
        let before = self.quotas(&mut tx, change.project_id).await?;
        etag::check(change.etag, &before.etag)?;
        let event = LimitChange {
            project_id: change.project_id,
            of: change.of,
            before: i64::from(limit_of(&before, change.of)),
            after: i64::from(change.limit),
        };
        quota::emit(&mut tx, event).await?;
        put(&mut tx).await?;
        let after = self.quotas(&mut tx, change.project_id).await?;
        let (before, after) = (limits(before), limits(after));
        let reported = change.detail.to_string();
        let detail = audit::with_digests(change.detail, Some(&before), Some(&after));
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "quota.put",
            resource: "quota",
            resource_id: change.resource_id,
            request_id: &caller.request_id,
            detail: audit::in_project(detail, change.project_id),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        tracing::info!(project_id = %change.project_id, quota = change.resource_id, limit = reported, "put quota");
        // queued requests may be served now
        self.wake.notify(outbox::TOPIC).await;
        Ok(())
    }
}

/// A limit as it is, be it the default.
fn limit_of(quotas: &pb::ProjectQuotas, of: Limited<'_>) -> u32 {
    match of {
        Limited::Gpus(sku) => {
            let mut all = quotas.quotas.iter();
            let own = all.find(|quota| quota.sku == sku);
            own.map_or(quotas.default_max_gpus, |quota| quota.max_gpus)
        }
        Limited::Allocations => quotas.max_allocations,
        Limited::ReservedGpus => quotas.max_reserved_gpus,
    }
}

/// What etags and the digests of audit rows are of: the limits, without what is in use.
fn limits(mut quotas: pb::ProjectQuotas) -> pb::ProjectQuotas {
    quotas.used_allocations = 0;
    quotas.reserved_gpus = 0;
    quotas.etag.clear();
    // what is in use without a limit of its own is listed as well
    let default = quotas.default_max_gpus;
    quotas.quotas.retain(|quota| quota.max_gpus != default);
    for quota in &mut quotas.quotas {
        quota.used_gpus = 0;
        quota.etag.clear();
    }
    quotas
}

fn number(count: i64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn unknown_sku(error: gpuaas_placement::Error) -> Error {
    match error {
        gpuaas_placement::Error::NotFound { .. } => Error::new(
            Code::NotFound,
            ErrorReason::SkuUnknown,
            "The SKU does not exist. List the SKUs.",
        )
        .field("sku", "is not a SKU"),
        other => other.into(),
    }
}
