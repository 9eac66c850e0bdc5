//! `SkuAdminService`: what is sold, and how much a project may hold. Each change has its audit row (P10).
use gpuaas_kit::idempotency::{self, Lookup, Scope};
use gpuaas_kit::identity::Caller;
use gpuaas_kit::{Error, Result, audit, id};
use gpuaas_placement::{catalog, outbox, quota};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::scheduler::v1::sku_admin_service_server::SkuAdminService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    ProjectQuota, PutProjectQuotaRequest, PutSkuRequest, Sku,
};
use serde_json::json;
use tonic::{Code, Request, Response, Status};

use super::{Api, parse, wire};

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
}

impl Api {
    async fn put_sku_as(&self, caller: &Caller, request: PutSkuRequest) -> Result<Sku> {
        let hash = idempotency::hash(&request);
        let scope = Scope {
            principal: &caller.principal,
            method: "PutSku",
            key: caller.idempotency_key()?,
        };
        let sku = parse::sku(request.sku.ok_or_else(|| Error::required("sku"))?)?;
        let mut tx = self.pool.begin().await?;
        if let Lookup::Replay { resource_id } = idempotency::lookup(&mut tx, scope, &hash).await? {
            return Ok(wire::sku(catalog::sku(&mut tx, &resource_id).await?));
        }
        let stored = catalog::put_sku(&mut tx, &sku).await?;
        let detail = json!({
            "capacity_shape": stored.capacity_shape, "slot_class": stored.slot_class,
            "allowed_gpu_counts": stored.allowed_gpu_counts, "profile": stored.profile,
        });
        let entry = audit::Entry {
            principal: &caller.principal,
            action: "sku.put",
            resource: "sku",
            resource_id: &stored.code,
            request_id: &caller.request_id,
            detail,
        };
        audit::record(&mut tx, entry).await?;
        idempotency::record(&mut tx, scope, &hash, &stored.code).await?;
        tx.commit().await?;
        tracing::info!(sku = stored.code, "put SKU");
        Ok(wire::sku(stored))
    }

    async fn put_quota_as(
        &self,
        caller: &Caller,
        request: PutProjectQuotaRequest,
    ) -> Result<ProjectQuota> {
        let hash = idempotency::hash(&request);
        let scope = Scope {
            principal: &caller.principal,
            method: "PutProjectQuota",
            key: caller.idempotency_key()?,
        };
        let project_id = id::parse("project_id", &request.project_id)?;
        let max_gpus = i32::try_from(request.max_gpus)
            .map_err(|_| Error::invalid("max_gpus", "is too large"))?;
        let mut tx = self.pool.begin().await?;
        let quota = match idempotency::lookup(&mut tx, scope, &hash).await? {
            Lookup::Replay { .. } => {
                let default = i64::from(self.policy.default_quota_gpus);
                quota::read(&mut tx, project_id, &request.sku, default).await?
            }
            Lookup::Fresh => {
                let quota = quota::put(&mut tx, project_id, &request.sku, max_gpus)
                    .await
                    .map_err(unknown_sku)?;
                let resource_id = format!("{project_id}/{}", request.sku);
                let entry = audit::Entry {
                    principal: &caller.principal,
                    action: "quota.put",
                    resource: "quota",
                    resource_id: &resource_id,
                    request_id: &caller.request_id,
                    detail: json!({ "max_gpus": max_gpus }),
                };
                audit::record(&mut tx, entry).await?;
                idempotency::record(&mut tx, scope, &hash, &resource_id).await?;
                tx.commit().await?;
                tracing::info!(%project_id, sku = request.sku, max_gpus, "put quota");
                // who waits may be served now
                self.wake.notify(outbox::TOPIC).await;
                quota
            }
        };
        let number = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
        Ok(ProjectQuota {
            project_id: request.project_id,
            sku: request.sku,
            max_gpus: number(quota.max_gpus),
            used_gpus: number(quota.used_gpus),
        })
    }
}

fn unknown_sku(error: gpuaas_placement::Error) -> Error {
    match error {
        gpuaas_placement::Error::NotFound { .. } => Error::new(
            Code::NotFound,
            ErrorReason::SkuUnknown,
            "There is no such SKU; list the SKUs.",
        )
        .field("sku", "is not a SKU"),
        other => other.into(),
    }
}
