//! Where a session leads: asked of the allocation service, never of a client (F-10).
use std::time::Duration;

use gpuaas_common::client::Peers;
use gpuaas_common::{Error, Result, id};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_client::AccessServiceClient;
use gpuaas_proto::gpuaas::internal::allocation::v1::{
    ResolveTerminalTargetRequest, ResolveTerminalTargetResponse,
};
use uuid::Uuid;

const CALL: Duration = Duration::from_secs(10);

/// A resolved target.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) project_id: Uuid,
    pub(crate) node_id: Uuid,
    pub(crate) instance_id: Uuid,
    pub(crate) wire: ResolveTerminalTargetResponse,
}

/// Refuses an allocation that none of these projects has; another one exists, whatever it is at.
///
/// # Errors
/// `ALLOCATION_NOT_FOUND`, or the service does not answer.
pub(crate) async fn exists(peers: &Peers, allocation_id: Uuid, projects: &[Uuid]) -> Result<()> {
    match resolve(peers, allocation_id, projects).await {
        Err(error) if error.reason() == ErrorReason::AllocationNotFound || error.is_transient() => {
            Err(error)
        }
        // it is theirs, and no shell can be in it now
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Resolves an allocation of one of these projects.
///
/// # Errors
/// `ALLOCATION_NOT_FOUND`, `STATE_CONFLICT`, or the service does not answer.
pub(crate) async fn resolve(
    peers: &Peers,
    allocation_id: Uuid,
    projects: &[Uuid],
) -> Result<Target> {
    let mut request = tonic::Request::new(ResolveTerminalTargetRequest {
        allocation_id: allocation_id.to_string(),
        project_ids: projects.iter().map(Uuid::to_string).collect(),
    });
    request.set_timeout(CALL);
    let wire = AccessServiceClient::new(peers.channel("allocation")?)
        .resolve_terminal_target(request)
        .await
        .map_err(Error::from)?
        .into_inner();
    Ok(Target {
        project_id: id::parse("project_id", &wire.project_id)?,
        node_id: id::parse("node_id", &wire.node_id)?,
        instance_id: id::parse("instance_id", &wire.instance_id)?,
        wire,
    })
}
