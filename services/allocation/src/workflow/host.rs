//! Calls to one host: leases and the start of operations, at the address and to the instance the ledger knows.

use std::time::Duration;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::{Error, time};
use gpuaas_placement::model::Claim;
use gpuaas_placement::{claims, lost, networks, nodes};
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_client::NodeSchedulerClient;
use gpuaas_proto::gpuaas::agent::v1::virtual_machines_client::VirtualMachinesClient;
use gpuaas_proto::gpuaas::agent::v1::{
    AcquireLeaseRequest, AcquireLeaseResponse, DeactivatePartitionRequest, LeasePurpose,
    ListHoldsRequest, ListHoldsResponse, NetworkGroup, ReleaseLeaseRequest, RemoveLeftoversRequest,
    RenewLeaseRequest, SetIngressRequest, SetNetworkGroupRequest,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::failure::StepError;
use super::subject::{Subject, ledger};
use super::work::{Deps, Work};

/// How long a host lease lasts without renewal. Operations outlive it; only their start needs it.
pub const LEASE: Duration = Duration::from_secs(300);
/// Longest time for an answer to a short call.
const CALL: Duration = Duration::from_secs(30);

/// A host as it can be called now.
pub struct Host {
    leases: NodeSchedulerClient<GrpcChannel>,
    /// Operations.
    pub vms: VirtualMachinesClient<GrpcChannel>,
}

impl Host {
    /// The host instance of a node now, for what is no work on a claim.
    ///
    /// # Errors
    /// Those of the ledger; a malformed address.
    pub async fn of_node(deps: &Deps, node_id: Uuid) -> Result<Self, StepError> {
        let found = async {
            let mut conn = deps.pool.acquire().await?;
            nodes::get(&mut conn, node_id).await.map_err(ledger)
        };
        let node = deps.within(found).await?;
        Self::at(deps, &node.agent_address, node_id, node.instance_id)
    }

    /// The very host instance that the subject's slots were claimed on: TLS refuses any other.
    ///
    /// # Errors
    /// A malformed address.
    pub fn of_subject(deps: &Deps, subject: &Subject) -> Result<Self, StepError> {
        Self::at(
            deps,
            &subject.agent_address,
            subject.node_id,
            subject.instance_id,
        )
    }

    fn at(deps: &Deps, address: &str, node_id: Uuid, instance_id: Uuid) -> Result<Self, StepError> {
        let channel = deps.peers.host_channel(address, &node_id, &instance_id)?;
        Ok(Self {
            leases: NodeSchedulerClient::new(channel.clone()),
            vms: VirtualMachinesClient::new(channel),
        })
    }

    /// The host instance that an allocation was placed on, with the allocation's claims: a later instance of the same node has
    /// nothing of it. `none` is the answer for one that was never placed.
    ///
    /// # Errors
    /// The host was installed anew; a malformed address; those of the ledger.
    pub(crate) async fn placed_on(
        deps: &Deps,
        conn: &mut PgConnection,
        allocation_id: Uuid,
        none: impl FnOnce() -> Error,
    ) -> Result<(VirtualMachinesClient<GrpcChannel>, Vec<Claim>), Error> {
        let claims = claims::of_allocation(conn, allocation_id).await?;
        let claim = claims.first().ok_or_else(none)?;
        let node = nodes::get(conn, claim.node_id).await?;
        if node.instance_id != claim.snapshot.instance_id {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::HostReplaced,
                lost::REPLACED,
            ));
        }
        let channel = deps
            .peers
            .host_channel(&node.agent_address, &node.id, &node.instance_id)?;
        Ok((VirtualMachinesClient::new(channel), claims))
    }

    /// Takes or renews the lease for the subject's slots and remembers it in `work`.
    ///
    /// # Errors
    /// The host's refusal.
    pub async fn acquire(
        &self,
        work: &Work,
        subject: &Subject,
        purpose: LeasePurpose,
    ) -> Result<AcquireLeaseResponse, StepError> {
        let mut request = tonic::Request::new(AcquireLeaseRequest {
            allocation_id: subject.allocation_id.to_string(),
            slots: subject.grants.clone(),
            shape: Some(subject.shape),
            duration: Some(time::proto_duration(LEASE)),
            purpose: purpose.into(),
        });
        request.set_timeout(CALL);
        let response = self
            .leases
            .clone()
            .acquire_lease(request)
            .await
            .map_err(refused)?
            .into_inner();
        work.set_lease(response.lease.as_ref().map(|lease| lease.lease_id.clone()));
        Ok(response)
    }

    /// Extends the lease of this taking, as long as no later one has taken the slots. A lease that is gone is no error:
    /// the operation goes on without it.
    pub async fn renew(&self, work: &Work, subject: &Subject) {
        let Some(lease_id) = work.lease() else { return };
        let mut request = tonic::Request::new(RenewLeaseRequest {
            lease_id,
            duration: Some(time::proto_duration(LEASE)),
            tokens: subject.tokens(),
        });
        request.set_timeout(CALL);
        if let Err(status) = self.leases.clone().renew_lease(request).await {
            tracing::debug!(workflow_id = %work.taken.id, "skip renewal of the host lease: {}", status.message());
        }
    }

    /// Ends a lease of the subject, as long as no later taking has the slots.
    ///
    /// # Errors
    /// The host does not answer; it knows a higher token.
    pub async fn release(&self, lease_id: String, subject: &Subject) -> Result<(), StepError> {
        let mut request = tonic::Request::new(ReleaseLeaseRequest {
            lease_id,
            allocation_id: subject.allocation_id.to_string(),
            tokens: subject.tokens(),
        });
        request.set_timeout(CALL);
        self.leases
            .clone()
            .release_lease(request)
            .await
            .map(drop)
            .map_err(refused)
    }

    /// Says which other VMs of the host the VM of an allocation may reach.
    ///
    /// # Errors
    /// The host does not answer.
    pub async fn set_network_group(&self, group: networks::Group) -> Result<(), StepError> {
        let network_group = NetworkGroup {
            allocation_id: group.allocation_id.to_string(),
            group: group.name,
        };
        let mut request = tonic::Request::new(SetNetworkGroupRequest {
            network_group: Some(network_group),
            version: group.version.unsigned_abs(),
        });
        request.set_timeout(CALL);
        let mut leases = self.leases.clone();
        leases
            .set_network_group(request)
            .await
            .map(drop)
            .map_err(refused)
    }

    /// Says which external ports lead to the VM of an allocation, and that no others do.
    ///
    /// # Errors
    /// The host's refusal; it does not answer.
    pub async fn set_ingress(&self, request: SetIngressRequest) -> Result<(), StepError> {
        let mut request = tonic::Request::new(request);
        request.set_timeout(CALL);
        let mut leases = self.leases.clone();
        leases.set_ingress(request).await.map(drop).map_err(refused)
    }

    /// Has the files removed of an allocation that has nothing else on the host; the host refuses what is claimed. Returns the
    /// kinds that were removed.
    ///
    /// # Errors
    /// The host's refusal; it does not answer.
    pub async fn remove_leftovers(&self, allocation_id: Uuid) -> Result<Vec<String>, Error> {
        let mut request = tonic::Request::new(RemoveLeftoversRequest {
            allocation_id: allocation_id.to_string(),
        });
        request.set_timeout(CALL);
        let mut leases = self.leases.clone();
        let removed = leases
            .remove_leftovers(request)
            .await
            .map_err(Error::from)?;
        Ok(removed.into_inner().removed)
    }

    /// Has an active NVSwitch partition without an owner deactivated; the host refuses what is claimed.
    ///
    /// # Errors
    /// The host's refusal; it does not answer.
    pub async fn deactivate_partition(&self, partition_id: u32) -> Result<(), Error> {
        let mut request = tonic::Request::new(DeactivatePartitionRequest { partition_id });
        request.set_timeout(CALL);
        let mut leases = self.leases.clone();
        let done = leases.deactivate_partition(request).await;
        done.map(drop).map_err(Error::from)
    }

    /// What the host holds.
    ///
    /// # Errors
    /// The host does not answer.
    pub async fn holds(&self) -> Result<ListHoldsResponse, StepError> {
        let mut request = tonic::Request::new(ListHoldsRequest {});
        request.set_timeout(CALL);
        Ok(self
            .leases
            .clone()
            .list_holds(request)
            .await
            .map_err(refused)?
            .into_inner())
    }
}

/// A host's answer as a step sees it. A broken connection shows as an error without a reason: the host
/// is unreachable, whatever the transport calls it.
pub fn refused(status: tonic::Status) -> StepError {
    let broken = matches!(
        status.code(),
        Code::Internal | Code::Unknown | Code::Cancelled
    );
    if broken && status.details().is_empty() {
        let message = status.message().to_owned();
        return StepError::Retry {
            reason: "HOST_UNREACHABLE".into(),
            message,
        };
    }
    StepError::of_host(&Error::from(status))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_breaks_is_a_host_that_is_away() {
        let reason = |status| match refused(status) {
            StepError::Retry { reason, .. } => reason,
            other => format!("{other:?}"),
        };
        assert_eq!(
            reason(tonic::Status::internal("h2 protocol error")),
            "HOST_UNREACHABLE"
        );
        assert_eq!(
            reason(tonic::Status::unavailable("connect")),
            "HOST_UNREACHABLE"
        );
        let own = Error::new(Code::Internal, ErrorReason::Internal, "journal");
        assert_eq!(reason(own.into()), "INTERNAL");
    }
}
