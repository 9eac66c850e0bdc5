//! What is known of the VM that asks: its reservation, and the request that made it.
use std::net::Ipv4Addr;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use prost::Message as _;

use super::Metadata;
use crate::dhcp::Reservation;
use crate::error::{HostError, HostResult};
use crate::ids::{AllocationId, Mac};

/// A VM as it may know itself.
#[derive(Clone)]
pub struct Instance {
    /// The allocation; the id of the instance, as cloud-init knows it.
    pub id: AllocationId,
    pub ip: Ipv4Addr,
    pub mac: Mac,
    /// Empty when the journal does not know the launch, as of a VM from before this service.
    pub hostname: String,
    /// Empty as above.
    pub region: String,
    /// Of the launch, in its order: type and base64, without the comment.
    pub keys: Vec<String>,
    /// Of the launch, as its tenant sent it; empty: none.
    pub user_data: String,
}

/// Who asks, and who else is there.
pub struct Caller {
    pub id: AllocationId,
    reservation: Reservation,
    /// All VMs of the host.
    pub present: Vec<AllocationId>,
}

impl Metadata {
    /// The VM that has this address; none: nobody we know.
    pub(super) fn caller(&self, source: Ipv4Addr) -> HostResult<Option<Caller>> {
        let reservations = self.dhcp.reservations()?;
        let id = |one: &Reservation| AllocationId::of_vm(one.vm.as_str());
        let present = reservations.iter().filter_map(id).collect();
        let mut own = reservations.into_iter().filter(|one| one.ip == source);
        let (Some(reservation), None) = (own.next(), own.next()) else {
            return Ok(None);
        };
        Ok(id(&reservation).map(|id| Caller {
            id,
            reservation,
            present,
        }))
    }

    pub(super) fn instance(&self, caller: Caller) -> HostResult<Instance> {
        let request = self.journal.launch(caller.id)?;
        let launch = pb::ProvisionRequest::decode(request.unwrap_or_default().as_slice())
            .map_err(|_| HostError::internal("the journal's request of a launch is damaged"))?;
        let keys = launch.ssh_public_keys.iter().map(|key| {
            // the comment is free text
            let parts: Vec<&str> = key.split_whitespace().take(2).collect();
            parts.join(" ")
        });
        Ok(Instance {
            id: caller.id,
            ip: caller.reservation.ip,
            mac: caller.reservation.mac,
            hostname: launch.hostname,
            region: launch.region_code,
            keys: keys.collect(),
            user_data: launch.user_data,
        })
    }
}
