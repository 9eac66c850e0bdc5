//! `NodePlacementService`: cordon, drain, maintenance, and what placement makes of each node. Each change has its audit row (P10).
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::identity::Caller;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, audit, id, page};
use gpuaas_placement::model::Attribution;
use gpuaas_placement::node_placement::{self, Intent};
use gpuaas_placement::{outbox, reserve};
use gpuaas_proto::gpuaas::scheduler::v1::node_placement_service_server::NodePlacementService;
use gpuaas_proto::gpuaas::scheduler::v1::{
    CordonNodeRequest, DrainNodeRequest, ExplainNodesRequest, ExplainNodesResponse,
    ExplainPlacementRequest, GetNodePlacementRequest, ListNodePlacementsRequest,
    ListNodePlacementsResponse, NodePlacement, StartNodeMaintenanceRequest, UncordonNodeRequest,
};
use serde_json::json;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use super::public::given;
use super::{Api, convert, parse};

#[tonic::async_trait]
impl NodePlacementService for Api {
    async fn list_node_placements(
        &self,
        request: Request<ListNodePlacementsRequest>,
    ) -> Result<Response<ListNodePlacementsResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(self.placements(request.get_ref()).await?))
    }

    async fn get_node_placement(
        &self,
        request: Request<GetNodePlacementRequest>,
    ) -> Result<Response<NodePlacement>, Status> {
        Caller::of(&request)?;
        let node_id = id::parse("node_id", &request.get_ref().node_id)?;
        let mut conn = self.pool.acquire().await.map_err(Error::from)?;
        let node = node_placement::get(&mut conn, node_id)
            .await
            .map_err(Error::from)?;
        Ok(Response::new(convert::placement(node)))
    }

    async fn cordon_node(
        &self,
        request: Request<CordonNodeRequest>,
    ) -> Result<Response<NodePlacement>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let CordonNodeRequest {
            node_id,
            reason,
            etag,
        } = request.into_inner();
        let requested = requested(
            "CordonNode",
            Intent::Cordoned,
            &node_id,
            (&reason, &etag),
            hash,
        )?;
        Ok(Response::new(self.set_intent(&caller, requested).await?))
    }

    async fn uncordon_node(
        &self,
        request: Request<UncordonNodeRequest>,
    ) -> Result<Response<NodePlacement>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let UncordonNodeRequest {
            node_id,
            reason,
            etag,
        } = request.into_inner();
        let requested = requested(
            "UncordonNode",
            Intent::Enabled,
            &node_id,
            (&reason, &etag),
            hash,
        )?;
        Ok(Response::new(self.set_intent(&caller, requested).await?))
    }

    async fn drain_node(
        &self,
        request: Request<DrainNodeRequest>,
    ) -> Result<Response<NodePlacement>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let DrainNodeRequest {
            node_id,
            reason,
            etag,
        } = request.into_inner();
        let requested = requested(
            "DrainNode",
            Intent::Draining,
            &node_id,
            (&reason, &etag),
            hash,
        )?;
        Ok(Response::new(self.set_intent(&caller, requested).await?))
    }

    async fn start_node_maintenance(
        &self,
        request: Request<StartNodeMaintenanceRequest>,
    ) -> Result<Response<NodePlacement>, Status> {
        let caller = Caller::of(&request)?;
        let hash = idempotency::hash(request.get_ref());
        let StartNodeMaintenanceRequest {
            node_id,
            reason,
            etag,
        } = request.into_inner();
        let (method, intent) = ("StartNodeMaintenance", Intent::Maintenance);
        let requested = requested(method, intent, &node_id, (&reason, &etag), hash)?;
        Ok(Response::new(self.set_intent(&caller, requested).await?))
    }

    async fn explain_nodes(
        &self,
        request: Request<ExplainNodesRequest>,
    ) -> Result<Response<ExplainNodesResponse>, Status> {
        Caller::of(&request)?;
        Ok(Response::new(
            self.explained_nodes(request.into_inner()).await?,
        ))
    }
}

/// An operator's intent for a node, parsed.
struct Requested<'a> {
    method: &'static str,
    action: &'static str,
    intent: Intent,
    node_id: Uuid,
    reason: &'a str,
    /// What the caller has read; empty: not checked.
    etag: &'a str,
    hash: Vec<u8>,
}

fn requested<'a>(
    method: &'static str,
    intent: Intent,
    node_id: &str,
    (reason, etag): (&'a str, &'a str),
    hash: Vec<u8>,
) -> Result<Requested<'a>> {
    let action = match intent {
        Intent::Enabled => "node.uncordon",
        Intent::Cordoned => "node.cordon",
        Intent::Draining => "node.drain",
        Intent::Maintenance => "node.maintain",
        // said by the calls that they follow from
        Intent::Broken | Intent::Retired => {
            return Err(Error::internal("no intent of this service"));
        }
    };
    if reason.trim().is_empty() && intent != Intent::Enabled {
        return Err(Error::required("reason"));
    }
    audit::check_reason(reason)?;
    Ok(Requested {
        method,
        action,
        intent,
        node_id: id::parse("node_id", node_id)?,
        reason,
        etag,
        hash,
    })
}

impl Api {
    async fn set_intent(&self, caller: &Caller, requested: Requested<'_>) -> Result<NodePlacement> {
        let scope = Scope {
            principal: &caller.principal,
            method: requested.method,
            key: caller.idempotency_key()?,
        };
        let node_id = requested.node_id;
        let mut tx = self.pool.begin().await?;
        let resource_id = node_id.to_string();
        let taken = idempotency::take(&mut tx, scope, &requested.hash, &resource_id).await?;
        if taken != Lookup::Fresh {
            return Ok(convert::placement(
                node_placement::get(&mut tx, node_id).await?,
            ));
        }
        node_placement::expect(&mut tx, node_id, requested.etag).await?;
        let before = convert::placement(node_placement::get(&mut tx, node_id).await?);
        let by = Attribution::of(&caller.principal, requested.reason);
        let (node, _) = node_placement::set_intent(&mut tx, node_id, requested.intent, by).await?;
        let detail = json!({ "reason": requested.reason, "live_claims": node.live_claims });
        let node = convert::placement(node);
        let entry = audit::Entry {
            principal: &caller.principal,
            action: requested.action,
            resource: "node",
            resource_id: &resource_id,
            request_id: &caller.request_id,
            detail: audit::with_digests(detail, Some(&before), Some(&node)),
        };
        audit::record(&mut tx, entry).await?;
        tx.commit().await?;
        self.wake.notify(outbox::TOPIC).await;
        tracing::info!(%node_id, intent = requested.intent.as_str(), "set intent of node");
        Ok(node)
    }

    async fn placements(
        &self,
        request: &ListNodePlacementsRequest,
    ) -> Result<ListNodePlacementsResponse> {
        let selection =
            Selection::parse(&node_placement::NODES, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size: page::page_size(request.page_size)?,
            query: &["node-placements", &request.region_code],
        };
        let region = Some(request.region_code.as_str()).filter(|code| !code.is_empty());
        let mut conn = self.pool.acquire().await?;
        let (rows, next_page_token) =
            node_placement::list(&mut conn, region, &selection, wanted).await?;
        Ok(ListNodePlacementsResponse {
            nodes: rows.into_iter().map(convert::placement).collect(),
            next_page_token,
        })
    }

    async fn explained_nodes(&self, request: ExplainNodesRequest) -> Result<ExplainNodesResponse> {
        let limit = usize::try_from(page::page_size(request.page_size)?).unwrap_or(usize::MAX);
        let project_id = given(&request.project_id);
        let project_id = project_id
            .map(|id| id::parse("project_id", id))
            .transpose()?;
        let requested = ExplainPlacementRequest {
            region_code: request.region_code,
            sku: request.sku,
            gpu_count: request.gpu_count,
            project_id: request.project_id,
            image_digest: request.image_digest,
            placement: request.placement,
        };
        let requested = parse::placement(requested, project_id)?;
        let mut conn = self.pool.acquire().await?;
        let (found, verdicts) = reserve::explain_nodes(
            &mut conn,
            &self.pool.capacity,
            self.policy,
            &requested,
            limit,
        )
        .await?;
        Ok(ExplainNodesResponse {
            explanation: Some(convert::explanation(
                &requested.region_code,
                &requested.sku,
                requested.gpu_count,
                found,
            )),
            nodes: verdicts.into_iter().map(convert::verdict).collect(),
        })
    }
}
