//! `SkuAdminService`: SKUs, and how much a project may hold. Each change has its audit row (P10).
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, Result, audit, etag, id};
use gpuaas_placement::catalog;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    GetProjectQuotasRequest, ProjectAllocationLimit, ProjectQuota, ProjectQuotas,
    PutProjectAllocationLimitRequest, PutProjectQuotaRequest, PutSkuRequest, Sku,
};
use serde_json::json;
use sqlx::PgConnection;
use tonic::{Request, Response, Status};

use super::{Api, convert, parse};

#[tonic::async_trait]
impl SkuAdminService for Api {
    async fn put_sku(&self, request: Request<PutSkuRequest>) -> Result<Response<Sku>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.put_sku_as(&caller, request.into_inner()).await?,
        ))
    }

    async fn put_project_quota(
        &self,
        request: Request<PutProjectQuotaRequest>,
    ) -> Result<Response<ProjectQuota>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.put_quota_as(&caller, request.into_inner()).await?,
        ))
    }

    async fn put_project_allocation_limit(
        &self,
        request: Request<PutProjectAllocationLimitRequest>,
    ) -> Result<Response<ProjectAllocationLimit>, Status> {
        let caller = Caller::of(&request)?;
        Ok(Response::new(
            self.put_allocation_limit_as(&caller, request.get_ref())
                .await?,
        ))
    }

    async fn get_project_quotas(
        &self,
        request: Request<GetProjectQuotasRequest>,
    ) -> Result<Response<ProjectQuotas>, Status> {
        Caller::of(&request)?;
        let project_id = id::parse("project_id", &request.get_ref().project_id)?;
        Ok(Response::new(self.quotas_of(project_id).await?))
    }
}

impl Api {
    async fn put_sku_as(&self, caller: &Caller, request: PutSkuRequest) -> Result<Sku> {
        let hash = idempotency::hash(&request);
        let scope = Scope {
            principal: &caller.principal,
            method: "PutSku",
            key: caller.idempotency_key()?,
        };
        let sku = request.sku.ok_or_else(|| Error::required("sku"))?;
        let (read, stays_as_it_is) = (sku.etag.clone(), sku.disabled.is_none());
        let mut sku = parse_sku::sku(sku)?;
        let mut tx = self.pool.begin().await?;
        let taken = idempotency::take(&mut tx, scope, &hash, &sku.code).await?;
        if let Lookup::Replay { resource_id } = taken {
            let stored = catalog::sku(&mut tx, &resource_id).await?;
            return for_operators(&mut tx, stored).await;
        }
        // of an SKU that is new there is none before
        let before = catalog::lock_sku(&mut tx, &sku.code).await?;
        if stays_as_it_is {
            sku.disabled = before.as_ref().is_some_and(|before| before.disabled);
        }
        let before = before.map(convert::sku);
        etag::check(&read, before.as_ref().map_or("", |before| &before.etag))?;
        let stored = catalog::put_sku(&mut tx, &sku).await?;
        let detail = json!({
            "capacity_shape": stored.capacity_shape, "slot_class": stored.slot_class,
            "allowed_gpu_counts": stored.allowed_gpu_counts, "profile": stored.profile,
        });
        let after = convert::sku(stored.clone());
        let detail = audit::with_digests(detail, before.as_ref(), Some(&after));
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "sku.put",
            resource: "sku",
            resource_id: &stored.code,
            request_id: &caller.request_id,
            detail,
        };
        audit::record(&mut tx, entry).await?;
        let answer = for_operators(&mut tx, stored).await?;
        tx.commit().await?;
        tracing::info!(
            sku = answer.code,
            disabled = answer.disabled(),
            reserved_gpus = answer.reserved_gpus,
            "put SKU"
        );
        Ok(answer)
    }
}

/// A SKU with what capacity reservations have of it: who disables it sees whose GPUs stay reserved.
async fn for_operators(conn: &mut PgConnection, sku: catalog::Sku) -> Result<Sku> {
    let mut one = convert::skus_for_operators(conn, vec![sku]).await?;
    one.pop().ok_or_else(|| Error::internal("no SKU"))
}
