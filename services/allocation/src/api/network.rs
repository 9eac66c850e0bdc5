//! `ProjectNetworkService`: what the VMs of a project reach of each other. A change is carried to hosts with the start of a VM,
//! and by the reconciler to VMs that run.
use std::sync::Arc;

use gpuaas_common::idempotency::{self, Lookup};
use gpuaas_common::identity::Caller;
use gpuaas_common::{Error, audit, etag};
use gpuaas_placement::networks;
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::project_network_service_server::ProjectNetworkService;
use serde_json::json;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::workflow::Deps;

/// The service.
pub struct NetworkApi {
    deps: Arc<Deps>,
}

impl NetworkApi {
    /// Over these.
    #[must_use]
    pub fn new(deps: Arc<Deps>) -> Self {
        Self { deps }
    }

    async fn get(
        &self,
        caller: &Caller,
        request: pb::GetProjectNetworkRequest,
    ) -> Result<pb::ProjectNetwork, Error> {
        let project_id = caller.project(&request.project_id)?.id();
        let mut conn = self.deps.pool.acquire().await?;
        let allowed = networks::vms_reach_each_other(&mut conn, project_id).await?;
        Ok(network(project_id, allowed))
    }

    async fn put(
        &self,
        caller: &Caller,
        request: pb::PutProjectNetworkRequest,
    ) -> Result<pb::ProjectNetwork, Error> {
        let project_id = caller.project(&request.project_id)?.id();
        let scope = idempotency::Scope {
            principal: &caller.principal,
            method: "PutProjectNetwork",
            key: caller.idempotency_key()?,
        };
        let hash = idempotency::hash(&request);
        let mut tx = self.deps.pool.begin().await?;
        let resource_id = project_id.to_string();
        let taken = idempotency::take(&mut tx, scope, &hash, &resource_id).await?;
        if taken == Lookup::Fresh {
            let allowed = request.vms_reach_each_other;
            let before = networks::put(&mut tx, project_id, allowed).await?;
            let (before, after) = (network(project_id, before), network(project_id, allowed));
            // the change of who is late ends with its transaction
            etag::check(&request.etag, &before.etag)?;
            let detail = json!({ "vms_reach_each_other": allowed });
            let detail = audit::with_digests(detail, Some(&before), Some(&after));
            let entry = audit::Entry {
                principal: &caller.principal,
                action: "network.put",
                resource: "project",
                resource_id: &resource_id,
                request_id: &caller.request_id,
                detail: audit::in_project(detail, project_id),
            };
            audit::record(&mut tx, entry).await?;
            tx.commit().await?;
            tracing::info!(%project_id, vms_reach_each_other = allowed, "put network of project");
        }
        let get = pb::GetProjectNetworkRequest {
            project_id: project_id.to_string(),
        };
        self.get(caller, get).await
    }
}

fn network(project_id: Uuid, vms_reach_each_other: bool) -> pb::ProjectNetwork {
    let network = pb::ProjectNetwork {
        project_id: project_id.to_string(),
        vms_reach_each_other,
        etag: String::new(),
    };
    pb::ProjectNetwork {
        etag: etag::of(&network),
        ..network
    }
}

#[tonic::async_trait]
impl ProjectNetworkService for NetworkApi {
    async fn get_project_network(
        &self,
        request: Request<pb::GetProjectNetworkRequest>,
    ) -> Result<Response<pb::ProjectNetwork>, Status> {
        let caller = Caller::of(&request)?.clone();
        Ok(Response::new(
            self.get(&caller, request.into_inner()).await?,
        ))
    }

    async fn put_project_network(
        &self,
        request: Request<pb::PutProjectNetworkRequest>,
    ) -> Result<Response<pb::ProjectNetwork>, Status> {
        let caller = Caller::of(&request)?.clone();
        Ok(Response::new(
            self.put(&caller, request.into_inner()).await?,
        ))
    }
}
