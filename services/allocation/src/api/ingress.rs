//! `IngressService`: ports of VMs that are reached from outside (J-13). What is requested here is carried to hosts by
//! [`crate::ingress`].
use std::sync::Arc;

use gpuaas_common::idempotency::{self, Lookup};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::time::from_proto_time;
use gpuaas_common::{Error, audit, id, page};
use gpuaas_placement::Scope;
use gpuaas_placement::ingress::{self, Mapping, New};
use gpuaas_proto::gpuaas::allocation::v1 as pb;
use gpuaas_proto::gpuaas::allocation::v1::ingress_service_server::IngressService;
use jiff_sqlx::{Timestamp, ToSqlx as _};
use serde_json::json;
use sqlx::PgConnection;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::convert::ingress_mapping as message;
use crate::domain::ingress as requested;
use crate::store::owned::owned;
use crate::workflow::Deps;

const EXPIRY: &str = "config.expire_time";

/// The service.
pub struct IngressApi {
    deps: Arc<Deps>,
}

impl IngressApi {
    /// Over these.
    #[must_use]
    pub fn new(deps: Arc<Deps>) -> Self {
        Self { deps }
    }

    async fn create(
        &self,
        caller: &Caller,
        request: &pb::CreateIngressMappingRequest,
    ) -> Result<pb::IngressMapping, Error> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let config = request
            .config
            .as_ref()
            .ok_or_else(|| Error::required("config"))?;
        let wanted = requested::parse(config)?;
        let expires_at = expiry(config)?;
        let scope = idempotency::Scope {
            principal: &caller.principal,
            method: "CreateIngressMapping",
            key: caller.idempotency_key()?,
        };
        let hash = idempotency::hash(request);
        let new_id = Uuid::now_v7();
        let resource_id = new_id.to_string();
        let mut tx = self.deps.pool.begin().await?;
        let (_, project) = owned(&mut tx, caller, allocation_id).await?;
        if let Lookup::Replay { resource_id } =
            idempotency::take(&mut tx, scope, &hash, &resource_id).await?
        {
            let known = id::parse("ingress_mapping_id", &resource_id)?;
            return Ok(message(ingress::get(&mut tx, allocation_id, known).await?));
        }
        // a repeat, which may come after that time, was answered above
        if expires_at.is_some_and(|at| at.to_jiff() <= jiff::Timestamp::now()) {
            return Err(Error::invalid(EXPIRY, "must be in the future"));
        }
        let new = New {
            id: new_id,
            allocation_id,
            protocol: wanted.protocol,
            vm_port: wanted.vm_port,
            external_port: wanted.external_port,
            sources: &wanted.sources,
            expires_at,
            creator: &caller.principal,
        };
        let limits = self.deps.config.ingress_limits();
        let mapping = ingress::create(&mut tx, Scope::Project(project.id()), &new, limits).await?;
        record(&mut tx, caller, "ingress_mapping.create", (None, &mapping)).await?;
        tx.commit().await?;
        tracing::info!(%allocation_id, ingress_mapping_id = %mapping.id, external_port = mapping.external_port,
            "create ingress mapping");
        Ok(message(mapping))
    }

    async fn list(
        &self,
        caller: &Caller,
        request: &pb::ListIngressMappingsRequest,
    ) -> Result<pb::ListIngressMappingsResponse, Error> {
        let selection = Selection::parse(&ingress::MAPPINGS, &request.filter, &request.order_by)?;
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let mut conn = self.deps.pool.acquire().await?;
        owned(&mut conn, caller, allocation_id).await?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &[&request.allocation_id],
        };
        let (mappings, next_page_token) =
            ingress::list(&mut conn, allocation_id, &selection, wanted).await?;
        Ok(pb::ListIngressMappingsResponse {
            ingress_mappings: mappings.into_iter().map(message).collect(),
            next_page_token,
        })
    }

    async fn get(
        &self,
        caller: &Caller,
        request: &pb::GetIngressMappingRequest,
    ) -> Result<pb::IngressMapping, Error> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let mapping_id = id::parse("ingress_mapping_id", &request.ingress_mapping_id)?;
        let mut conn = self.deps.pool.acquire().await?;
        owned(&mut conn, caller, allocation_id).await?;
        Ok(message(
            ingress::get(&mut conn, allocation_id, mapping_id).await?,
        ))
    }

    async fn delete(
        &self,
        caller: &Caller,
        request: &pb::DeleteIngressMappingRequest,
    ) -> Result<pb::IngressMapping, Error> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let mapping_id = id::parse("ingress_mapping_id", &request.ingress_mapping_id)?;
        let scope = idempotency::Scope {
            principal: &caller.principal,
            method: "DeleteIngressMapping",
            key: caller.idempotency_key()?,
        };
        let (hash, id) = (idempotency::hash(request), mapping_id.to_string());
        let mut tx = self.deps.pool.begin().await?;
        owned(&mut tx, caller, allocation_id).await?;
        if let Lookup::Replay { .. } = idempotency::take(&mut tx, scope, &hash, &id).await? {
            return match ingress::get(&mut tx, allocation_id, mapping_id).await {
                // its host has closed the port since
                Err(gpuaas_placement::Error::NotFound { .. }) => Ok(gone(allocation_id, id)),
                found => Ok(message(found?)),
            };
        }
        let before = ingress::locked(&mut tx, allocation_id, mapping_id).await?;
        let (mapping, is_ended) = ingress::end(&mut tx, allocation_id, mapping_id).await?;
        if is_ended {
            record(
                &mut tx,
                caller,
                "ingress_mapping.delete",
                (Some(before), &mapping),
            )
            .await?;
        }
        tx.commit().await?;
        tracing::info!(%allocation_id, ingress_mapping_id = %mapping_id, "delete ingress mapping");
        Ok(message(mapping))
    }
}

/// A mapping that was deleted with this key before, and is not there any more.
fn gone(allocation_id: Uuid, id: String) -> pb::IngressMapping {
    pb::IngressMapping {
        id,
        allocation_id: allocation_id.to_string(),
        status: Some(pb::IngressMappingStatus {
            state: pb::IngressMappingState::Deleting.into(),
            ..Default::default()
        }),
        ..Default::default()
    }
}

async fn record(
    conn: &mut PgConnection,
    caller: &Caller,
    action: &str,
    (before, mapping): (Option<Mapping>, &Mapping),
) -> Result<(), Error> {
    let detail = json!({
        "allocation_id": mapping.allocation_id,
        "protocol": mapping.protocol,
        "vm_port": mapping.vm_port,
        "external_address": mapping.external_address,
        "external_port": mapping.external_port,
        "source_cidrs": mapping.sources,
        "expire_time": mapping.expires_at.map(|at| at.to_jiff().to_string()),
    });
    let (before, after) = (before.map(message), message(mapping.clone()));
    let detail = audit::with_digests(detail, before.as_ref(), Some(&after));
    let entry = audit::Entry {
        principal: &caller.principal,
        action,
        resource: "ingress_mapping",
        resource_id: &mapping.id.to_string(),
        request_id: &caller.request_id,
        detail: audit::in_project(detail, mapping.project_id),
    };
    audit::record(conn, entry).await
}

fn expiry(config: &pb::IngressMappingConfig) -> Result<Option<Timestamp>, Error> {
    let Some(time) = &config.expire_time else {
        return Ok(None);
    };
    let time = from_proto_time(time).ok_or_else(|| Error::invalid(EXPIRY, "must be a time"))?;
    Ok(Some(time.to_sqlx()))
}

#[tonic::async_trait]
impl IngressService for IngressApi {
    async fn create_ingress_mapping(
        &self,
        request: Request<pb::CreateIngressMappingRequest>,
    ) -> Result<Response<pb::IngressMapping>, Status> {
        let caller = Caller::of(&request)?.clone();
        Ok(Response::new(
            self.create(&caller, request.get_ref()).await?,
        ))
    }

    async fn list_ingress_mappings(
        &self,
        request: Request<pb::ListIngressMappingsRequest>,
    ) -> Result<Response<pb::ListIngressMappingsResponse>, Status> {
        let caller = Caller::of(&request)?.clone();
        Ok(Response::new(self.list(&caller, request.get_ref()).await?))
    }

    async fn get_ingress_mapping(
        &self,
        request: Request<pb::GetIngressMappingRequest>,
    ) -> Result<Response<pb::IngressMapping>, Status> {
        let caller = Caller::of(&request)?.clone();
        Ok(Response::new(self.get(&caller, request.get_ref()).await?))
    }

    async fn delete_ingress_mapping(
        &self,
        request: Request<pb::DeleteIngressMappingRequest>,
    ) -> Result<Response<pb::IngressMapping>, Status> {
        let caller = Caller::of(&request)?.clone();
        Ok(Response::new(
            self.delete(&caller, request.get_ref()).await?,
        ))
    }
}
