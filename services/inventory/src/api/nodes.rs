//! Node administration: registering, enrolment tokens, the read model, topology discovery.
use futures::{StreamExt as _, TryStreamExt as _};
use gpuaas_common::error::{Error, Result};
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{audit, id, page, trace, watch};
use gpuaas_proto::gpuaas::common::v1::SlotStatus;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::scheduler::v1::{ListSlotsRequest, ListSlotsResponse};
use gpuaas_proto::gpuaas::inventory::v1 as api;
use gpuaas_proto::gpuaas::inventory::v1::node_admin_service_server::NodeAdminService;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use super::lifecycle::in_service;
use super::{Mutation, Nodes, bad, gone, no_node};
use crate::convert;
use crate::domain::comparison::{self, ApprovedSlot};
use crate::domain::names::{Hostname, NodeMode, RackName, RegionCode};
use crate::domain::token::{self, ENTROPY_BYTES, Token};
use crate::store::nodes::{self, NewNode, NodeRow, Which};
use crate::store::{enrolment, regions, tasks};

/// Nodes of a page that are read from the ledger concurrently.
const LEDGER_CALLS: usize = 8;

#[tonic::async_trait]
impl NodeAdminService for Nodes {
    type WatchNodesStream = watch::Stream<api::WatchNodesResponse>;

    async fn watch_nodes(
        &self,
        request: Request<api::WatchNodesRequest>,
    ) -> Result<Response<Self::WatchNodesStream>, Status> {
        Ok(Response::new(self.1.watch_nodes(request.get_ref()).await?))
    }

    async fn create_node(
        &self,
        request: Request<api::CreateNodeRequest>,
    ) -> Result<Response<api::Node>, Status> {
        let id = self.create(&request).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn list_nodes(
        &self,
        request: Request<api::ListNodesRequest>,
    ) -> Result<Response<api::ListNodesResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn get_node(
        &self,
        request: Request<api::GetNodeRequest>,
    ) -> Result<Response<api::Node>, Status> {
        Ok(Response::new(
            self.get(id::parse("node_id", &request.get_ref().node_id)?)
                .await?,
        ))
    }

    async fn update_node(
        &self,
        request: Request<api::UpdateNodeRequest>,
    ) -> Result<Response<api::Node>, Status> {
        let id = self.update(&request).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn retire_node(
        &self,
        request: Request<api::RetireNodeRequest>,
    ) -> Result<Response<api::Node>, Status> {
        let id = self.retire_node_as(&request).await?;
        Ok(Response::new(self.get(id).await?))
    }

    async fn delete_node(
        &self,
        request: Request<api::DeleteNodeRequest>,
    ) -> Result<Response<api::DeleteNodeResponse>, Status> {
        self.delete(&request).await?;
        Ok(Response::new(api::DeleteNodeResponse {}))
    }

    async fn list_node_history(
        &self,
        request: Request<api::ListNodeHistoryRequest>,
    ) -> Result<Response<api::ListNodeHistoryResponse>, Status> {
        Ok(Response::new(self.history(request.get_ref()).await?))
    }

    async fn retire_resource_slot(
        &self,
        request: Request<api::RetireResourceSlotRequest>,
    ) -> Result<Response<api::ResourceSlot>, Status> {
        Ok(Response::new(self.retire_slot(&request).await?))
    }

    async fn list_resource_slot_history(
        &self,
        request: Request<api::ListResourceSlotHistoryRequest>,
    ) -> Result<Response<api::ListResourceSlotHistoryResponse>, Status> {
        Ok(Response::new(self.slot_history(request.get_ref()).await?))
    }

    async fn create_enrolment_token(
        &self,
        request: Request<api::CreateEnrolmentTokenRequest>,
    ) -> Result<Response<api::EnrolmentToken>, Status> {
        Ok(Response::new(self.make_token(&request).await?))
    }

    async fn discover_topology(
        &self,
        request: Request<api::DiscoverTopologyRequest>,
    ) -> Result<Response<api::TopologyDiscovery>, Status> {
        Ok(Response::new(self.discover(&request).await?))
    }

    async fn get_topology_discovery(
        &self,
        request: Request<api::GetTopologyDiscoveryRequest>,
    ) -> Result<Response<api::TopologyDiscovery>, Status> {
        let node_id = id::parse("node_id", &request.get_ref().node_id)?;
        Ok(Response::new(self.latest_discovery(node_id).await?))
    }

    async fn attach_host_report(
        &self,
        request: Request<api::AttachHostReportRequest>,
    ) -> Result<Response<api::AttachedHostReport>, Status> {
        Ok(Response::new(self.attach_report(&request).await?))
    }

    async fn list_host_reports(
        &self,
        request: Request<api::ListHostReportsRequest>,
    ) -> Result<Response<api::ListHostReportsResponse>, Status> {
        Ok(Response::new(self.reports(request.get_ref()).await?))
    }

    async fn list_resource_slots(
        &self,
        request: Request<api::ListResourceSlotsRequest>,
    ) -> Result<Response<api::ListResourceSlotsResponse>, Status> {
        Ok(Response::new(self.slots(request.into_inner()).await?))
    }

    async fn approve_resource_slots(
        &self,
        request: Request<api::ApproveResourceSlotsRequest>,
    ) -> Result<Response<api::ListResourceSlotsResponse>, Status> {
        Ok(Response::new(self.approve(&request).await?))
    }

    async fn disable_resource_slot(
        &self,
        request: Request<api::DisableResourceSlotRequest>,
    ) -> Result<Response<api::ResourceSlot>, Status> {
        Ok(Response::new(self.disable(&request).await?))
    }

    async fn enable_resource_slot(
        &self,
        request: Request<api::EnableResourceSlotRequest>,
    ) -> Result<Response<api::ResourceSlot>, Status> {
        Ok(Response::new(self.enable(&request).await?))
    }
}

impl Nodes {
    async fn create(&self, request: &Request<api::CreateNodeRequest>) -> Result<Uuid> {
        let mutation = Mutation::of(request, "CreateNode")?;
        let node = request.get_ref();
        for (field, value) in [
            ("hostname", &node.hostname),
            ("region_code", &node.region_code),
            ("mode", &node.mode),
        ] {
            if value.is_empty() {
                return Err(Error::required(field));
            }
        }
        let hostname = Hostname::parse(&node.hostname).map_err(bad("hostname"))?;
        let region = RegionCode::parse(&node.region_code).map_err(bad("region_code"))?;
        let mode = NodeMode::parse(&node.mode).map_err(bad("mode"))?;
        let max_vms_per_node = i32::try_from(node.max_vms_per_node)
            .map_err(|_| Error::invalid("max_vms_per_node", "must be at most 2147483647"))?;
        let rack = RackName::parse(&node.rack).map_err(bad("rack"))?;
        let node_id = self.0.ids.next();
        let key = node_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if let Some(earlier) = mutation.take_key(&mut tx, &key).await? {
            return earlier.parse().map_err(Error::internal);
        }
        let detail = serde_json::json!({ "hostname": hostname.as_str(), "region": region.as_str(), "mode": mode.as_str() });
        if !regions::hold(&mut tx, region.as_str()).await? {
            return Err(Error::new(
                Code::NotFound,
                ErrorReason::RegionUnknown,
                format!("There is no region {}.", region.as_str()),
            )
            .field("region_code", "must be the code of a region"));
        }
        let new = NewNode {
            id: node_id,
            hostname: &hostname,
            region: &region,
            mode,
            max_vms_per_node,
            rack: &rack,
        };
        if !nodes::insert(&mut tx, &new).await? {
            return Err(Error::new(
                Code::AlreadyExists,
                ErrorReason::AlreadyExists,
                format!("A node named {} already exists.", hostname.as_str()),
            )
            .field("hostname", "must be unique"));
        }
        let made = self.stored(&mut tx, node_id).await?;
        let detail = audit::with_digests(detail, None, Some(&made));
        mutation
            .audit(&mut tx, "node.create", ("node", &key), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(%node_id, hostname = hostname.as_str(), "create node");
        Ok(node_id)
    }

    /// The row of a node that exists.
    pub(super) async fn row(&self, node_id: Uuid) -> Result<NodeRow> {
        let mut conn = self.0.pool.acquire().await?;
        nodes::find(&mut conn, node_id, self.0.config.freshness())
            .await?
            .filter(NodeRow::is_shown)
            .ok_or_else(|| no_node(&node_id))
    }

    async fn get(&self, node_id: Uuid) -> Result<api::Node> {
        self.with_slots(self.row(node_id).await?).await
    }

    async fn list(&self, request: api::ListNodesRequest) -> Result<api::ListNodesResponse> {
        let size = page::page_size(request.page_size)?;
        let which = if request.include_retired {
            Which::Retired
        } else {
            Which::InService
        };
        let selection = Selection::parse(&nodes::CATALOG, &request.filter, &request.order_by)?;
        let wanted = Wanted {
            page_token: &request.page_token,
            size,
            query: &["nodes", which.as_str()],
        };
        let freshness = self.0.config.freshness();
        let mut conn = self.0.pool.acquire().await?;
        let (rows, next_page_token) =
            nodes::select(&mut conn, which, &selection, wanted, freshness).await?;
        // the ledger is asked now
        drop(conn);
        let nodes = futures::stream::iter(rows)
            .map(|row| self.with_slots(row))
            .buffered(LEDGER_CALLS)
            .try_collect()
            .await?;
        Ok(api::ListNodesResponse {
            nodes,
            next_page_token,
        })
    }

    async fn slots(
        &self,
        request: api::ListResourceSlotsRequest,
    ) -> Result<api::ListResourceSlotsResponse> {
        let node_id = id::parse("node_id", &request.node_id)?;
        let size = page::page_size(request.page_size)?;
        self.row(node_id).await?;
        let request = ListSlotsRequest {
            node_id: node_id.to_string(),
            page_size: i32::try_from(size).map_err(Error::internal)?,
            page_token: request.page_token,
            filter: request.filter,
            order_by: request.order_by,
        };
        let listed = self.0.ledger()?.list_slots(request).await?.into_inner();
        Ok(api::ListResourceSlotsResponse {
            slots: listed.slots.into_iter().map(convert::slot).collect(),
            next_page_token: listed.next_page_token,
        })
    }

    /// A node must be shown also while the ledger does not answer.
    async fn with_slots(&self, row: NodeRow) -> Result<api::Node> {
        let slots = match self.0.ledger_slots(row.id).await {
            Ok(answer) => Some(answer),
            // no host has enrolled yet
            Err(error) if error.reason() == ErrorReason::NodeNotFound => {
                Some(ListSlotsResponse::default())
            }
            Err(error) => {
                tracing::warn!(node_id = %row.id, "show node without slots: {}", error.chain());
                None
            }
        };
        convert::node(row, slots.as_ref())
    }

    async fn make_token(
        &self,
        request: &Request<api::CreateEnrolmentTokenRequest>,
    ) -> Result<api::EnrolmentToken> {
        let mutation = Mutation::of(request, "CreateEnrolmentToken")?;
        let node_id = id::parse("node_id", &request.get_ref().node_id)?;
        let token_id = self.0.ids.next();
        let key = token_id.to_string();
        let mut tx = self.0.pool.begin().await?;
        if let Some(earlier) = mutation.take_key(&mut tx, &key).await? {
            let token_id: Uuid = earlier.parse().map_err(Error::internal)?;
            let found = enrolment::find_token(&mut tx, token_id).await?;
            let (node_id, expire_time) = found.ok_or_else(|| gone("the token"))?;
            // the digest cannot be turned back: a secret is shown once
            return Ok(api::EnrolmentToken {
                node_id: node_id.to_string(),
                token: String::new(),
                expire_time: Some(convert::time(expire_time)),
            });
        }
        let mut entropy = [0; ENTROPY_BYTES];
        getrandom::fill(&mut entropy).map_err(Error::internal)?;
        let token = Token::from_entropy(entropy);
        nodes::lock(&mut tx, node_id).await?;
        let node = nodes::find(&mut tx, node_id, self.0.config.freshness())
            .await?
            .filter(NodeRow::is_shown)
            .ok_or_else(|| no_node(&node_id))?;
        in_service(&node)?;
        let node = node_id.to_string();
        let digest = token::digest(token.reveal());
        let lifetime = self.0.config.enrolment_token_seconds;
        let expire_time =
            enrolment::insert_token(&mut tx, token_id, node_id, &digest, lifetime).await?;
        let made = api::EnrolmentToken {
            node_id: node.clone(),
            token: String::new(),
            expire_time: Some(convert::time(expire_time)),
        };
        let detail = serde_json::json!({ "token_id": key });
        let detail = audit::with_digests(detail, None, Some(&made));
        mutation
            .audit(&mut tx, "node.enrol", ("node", &node), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(%node_id, %token_id, "create enrolment token");
        Ok(api::EnrolmentToken {
            token: token.reveal().to_owned(),
            ..made
        })
    }

    async fn discover(
        &self,
        request: &Request<api::DiscoverTopologyRequest>,
    ) -> Result<api::TopologyDiscovery> {
        let mutation = Mutation::of(request, "DiscoverTopology")?;
        let node_id = id::parse("node_id", &request.get_ref().node_id)?;
        let max_age = self.0.config.discovery_max_age_seconds;
        let new = self.0.ids.next();
        let mut tx = self.0.pool.begin().await?;
        if let Some(earlier) = mutation.take_key(&mut tx, &new.to_string()).await? {
            let task_id: Uuid = earlier.parse().map_err(Error::internal)?;
            let task = tasks::find(&mut tx, task_id, max_age).await?;
            return convert::discovery(task.ok_or_else(|| gone("the discovery"))?);
        }
        let node = nodes::find(&mut tx, node_id, self.0.config.freshness())
            .await?
            .filter(NodeRow::is_shown)
            .ok_or_else(|| no_node(&node_id))?;
        in_service(&node)?;
        if node.instance_id.is_none() {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::HostNotReady,
                "No agent has enrolled for this node; create an enrolment token and start the agent with it.",
            ));
        }
        let traceparent = trace::current_traceparent();
        let task_id = tasks::queue_discovery(&mut tx, new, node_id, &traceparent).await?;
        if task_id != new {
            mutation.point_key(&mut tx, &task_id.to_string()).await?;
        }
        let task = tasks::find(&mut tx, task_id, max_age).await?;
        let task = convert::discovery(task.ok_or_else(|| gone("the discovery"))?)?;
        let detail = serde_json::json!({ "task_id": task_id });
        let detail = audit::with_digests(detail, None, Some(&task));
        let about = node_id.to_string();
        mutation
            .audit(&mut tx, "node.discover", ("node", &about), detail)
            .await?;
        tx.commit().await?;
        tracing::info!(%node_id, %task_id, "queue topology discovery");
        self.0.task_due.notify_one();
        Ok(task)
    }

    async fn latest_discovery(&self, node_id: Uuid) -> Result<api::TopologyDiscovery> {
        self.row(node_id).await?;
        let mut conn = self.0.pool.acquire().await?;
        let task =
            tasks::latest_discovery(&mut conn, node_id, self.0.config.discovery_max_age_seconds)
                .await?;
        drop(conn);
        let mut discovery = convert::discovery(task.ok_or_else(|| {
            Error::new(
                Code::NotFound,
                ErrorReason::DiscoveryNotFound,
                "The topology of this node has not been discovered yet; start a discovery.",
            )
        })?)?;
        if discovery.state() == api::DiscoveryState::Completed {
            discovery.comparisons = self.comparisons(node_id, &discovery.candidates).await;
        }
        Ok(discovery)
    }

    /// A discovery must be shown also while the ledger does not answer.
    async fn comparisons(
        &self,
        node_id: Uuid,
        candidates: &[api::SlotCandidate],
    ) -> Vec<api::SlotComparison> {
        let slots = match self.0.ledger_slots(node_id).await {
            Ok(answer) => answer.slots,
            // no host has enrolled yet
            Err(error) if error.reason() == ErrorReason::NodeNotFound => Vec::new(),
            Err(error) => {
                tracing::warn!(%node_id, "show discovery without slots: {}", error.chain());
                return Vec::new();
            }
        };
        let approved: Vec<ApprovedSlot> = slots
            .into_iter()
            .filter(|slot| slot.status() != SlotStatus::Retired)
            .map(|slot| ApprovedSlot {
                slot_index: slot.slot_index,
                id: slot.id,
                bindings: slot.bindings.unwrap_or_default(),
            })
            .collect();
        let found: Vec<_> = candidates
            .iter()
            .map(|one| (one.slot_index, one.bindings.clone().unwrap_or_default()))
            .collect();
        comparison::compare(&found, &approved)
    }
}
