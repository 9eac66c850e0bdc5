//! `AccessService`: where a terminal into an allocation leads.

use std::sync::Arc;

use gpuaas_common::{Error, id};
use gpuaas_placement::model::{Allocation, AllocationState, GuestAccess, Shape};
use gpuaas_placement::nodes::{self, Node};
use gpuaas_placement::{Scope, allocations, claims, lost};
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::allocation::v1 as pb;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_server::AccessService;
use tonic::{Code, Request, Response, Status};
use uuid::Uuid;

use crate::workflow::Deps;

/// The service.
pub struct AccessApi {
    deps: Arc<Deps>,
}

impl AccessApi {
    /// A service on these parts.
    #[must_use]
    pub fn new(deps: Arc<Deps>) -> Self {
        Self { deps }
    }

    async fn resolve(
        &self,
        request: &pb::ResolveTerminalTargetRequest,
    ) -> Result<pb::ResolveTerminalTargetResponse, Error> {
        let allocation_id = id::parse("allocation_id", &request.allocation_id)?;
        let mut projects = Vec::new();
        for project in &request.project_ids {
            projects.push(id::parse("project_ids", project)?);
        }
        let mut conn = self.deps.pool.acquire().await?;
        let found = match allocations::get(&mut conn, Scope::Platform, allocation_id).await {
            Ok(found) => Some(found),
            Err(gpuaas_placement::Error::NotFound { .. }) => None,
            Err(error) => return Err(error.into()),
        };
        let (allocation, node_id) = reachable(found, &projects)?;
        let node = nodes::get(&mut conn, node_id).await?;
        if claims::on_replaced_host(&mut conn, allocation_id).await? {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::HostReplaced,
                lost::REPLACED,
            ));
        }
        Ok(target(allocation, node))
    }
}

/// The allocation with its node, if one of the projects owns it and a shell can be in it (F-11). A foreign one does
/// not exist.
fn reachable(found: Option<Allocation>, projects: &[Uuid]) -> Result<(Allocation, Uuid), Error> {
    let owned = found.filter(|allocation| projects.contains(&allocation.project_id));
    let allocation = owned.ok_or_else(|| {
        Error::new(
            Code::NotFound,
            ErrorReason::AllocationNotFound,
            "Your projects have no such allocation.",
        )
    })?;
    let refuse = |message: String| {
        Error::new(
            Code::FailedPrecondition,
            ErrorReason::StateConflict,
            message,
        )
    };
    if allocation.capacity_shape == Shape::Baremetal {
        let reported = "The allocation is bare metal, which has no terminal.";
        return Err(refuse(reported.to_owned()));
    }
    if allocation.state != AllocationState::Active {
        return Err(refuse(format!(
            "The allocation is {}; a terminal needs an active one.",
            allocation.state
        )));
    }
    match allocation.power.as_deref() {
        Some("running" | "rescued") => {}
        power => {
            let power = power.unwrap_or("stopped");
            return Err(refuse(format!(
                "The allocation is {power}; start it to open a terminal."
            )));
        }
    }
    match allocation.node_id {
        Some(node_id) => Ok((allocation, node_id)),
        None => Err(refuse("The allocation has no host.".to_owned())),
    }
}

/// Host, port and user as the ledger has them (F-10).
fn target(allocation: Allocation, node: Node) -> pb::ResolveTerminalTargetResponse {
    let rescued = allocation
        .rescued()
        .map(|rescue| rescue.ssh_host_keys.clone());
    let guest = allocation.access.map_or_else(no_guest, |access| access.0);
    pb::ResolveTerminalTargetResponse {
        allocation_id: allocation.id.to_string(),
        project_id: allocation.project_id.to_string(),
        // nothing else is reachable
        capacity_shape: CapacityShape::GpuSlice.into(),
        target_host: guest.private_ip,
        target_port: guest.ssh_port,
        user: allocation.guest_user,
        ssh_host_keys: rescued.unwrap_or(guest.ssh_host_keys),
        node_id: node.id.to_string(),
        instance_id: node.instance_id.to_string(),
        agent_address: node.agent_address,
    }
}

fn no_guest() -> GuestAccess {
    GuestAccess {
        private_ip: String::new(),
        ssh_port: 0,
        ssh_ready: false,
        ssh_host: String::new(),
        ssh_host_port: 0,
        ssh_host_keys: Vec::new(),
    }
}

#[tonic::async_trait]
impl AccessService for AccessApi {
    async fn resolve_terminal_target(
        &self,
        request: Request<pb::ResolveTerminalTargetRequest>,
    ) -> Result<Response<pb::ResolveTerminalTargetResponse>, Status> {
        Ok(Response::new(self.resolve(request.get_ref()).await?))
    }
}
