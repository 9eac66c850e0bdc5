//! `SuspensionService`: which projects are suspended, as the gateway says it. Repeating it changes nothing.
use gpuaas_common::{Result, id};
use gpuaas_placement::outbox;
use gpuaas_placement::suspensions::{self, Suspension};
use gpuaas_proto::gpuaas::internal::scheduler::v1::suspension_service_server::SuspensionService;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{
    PutProjectSuspensionsRequest, PutProjectSuspensionsResponse,
};
use tonic::{Request, Response, Status};

use super::Api;

#[tonic::async_trait]
impl SuspensionService for Api {
    async fn put_project_suspensions(
        &self,
        request: Request<PutProjectSuspensionsRequest>,
    ) -> Result<Response<PutProjectSuspensionsResponse>, Status> {
        Ok(Response::new(
            self.take_suspensions(request.into_inner()).await?,
        ))
    }
}

impl Api {
    async fn take_suspensions(
        &self,
        request: PutProjectSuspensionsRequest,
    ) -> Result<PutProjectSuspensionsResponse> {
        let mut said = Vec::with_capacity(request.projects.len());
        for one in request.projects {
            said.push(Suspension {
                project_id: id::parse("project_id", &one.project_id)?,
                suspended: one.suspended,
                version: one.version,
            });
        }
        let mut tx = self.pool.begin().await?;
        let changed = suspensions::put(&mut tx, &said).await?;
        let suspended = suspensions::all(&mut tx).await?;
        tx.commit().await?;
        if changed {
            tracing::info!(suspended = suspended.len(), "take in suspended projects");
            // what is queued is told what it waits for, or served now
            self.wake.notify(outbox::TOPIC).await;
        }
        Ok(PutProjectSuspensionsResponse {
            suspended_project_ids: suspended.iter().map(ToString::to_string).collect(),
        })
    }
}
