//! The address of a VM: its reservation with dnsmasq.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;

use super::work::{Done, Work};
use crate::dhcp::Reservation;
use crate::error::{HostError, HostResult};
use crate::ids::{NetworkGroup, parse_private_ip};

/// The group of a request; none when it is empty.
pub fn network_group(text: &str) -> HostResult<Option<NetworkGroup>> {
    let group = (!text.is_empty()).then(|| text.parse());
    Ok(group.transpose()?)
}

/// Reserves the address of the boot slot.
pub async fn reserve_address(work: &Work) -> HostResult<Done> {
    let group = network_group(&work.request::<pb::ProvisionRequest>()?.network_group)?;
    let desired = free_reservation(work, group).await?;
    let before = work
        .node
        .dhcp
        .lease(&desired.mac)?
        .map(|lease| lease.expires);
    work.node.dhcp.reserve(&desired)?;
    Ok(Done::giving(
        format!("{} is {}", desired.mac, desired.ip),
        json!({ "before": before }),
    ))
}

/// Reserves the address of a VM whose reservation was lost. It is alone until the control plane says again with whom it is.
pub async fn reserve_again(work: &Work) -> HostResult<()> {
    let vm = work.vm();
    if work
        .node
        .dhcp
        .reservations()?
        .iter()
        .any(|one| one.vm == vm)
    {
        return Ok(());
    }
    let desired = free_reservation(work, None).await?;
    tracing::warn!(%vm, ip = %desired.ip, "reserve the address of a VM again");
    work.node.dhcp.reserve(&desired)
}

/// The reservation of the boot slot's address, which nobody has any more: a stale one of a VM that is gone is removed.
async fn free_reservation(work: &Work, group: Option<NetworkGroup>) -> HostResult<Reservation> {
    let bindings = work.boot_slot()?.bindings;
    let desired = Reservation {
        vm: work.vm(),
        mac: bindings.management_mac.parse()?,
        ip: parse_private_ip(&bindings.private_ip)?,
        group,
        version: 0,
    };
    let in_the_way = work.node.dhcp.reservations()?.into_iter().filter(|other| {
        other.vm != desired.vm && (other.mac == desired.mac || other.ip == desired.ip)
    });
    for stale in in_the_way {
        // The hold proves that the slot is ours; the domain that had this address is gone, or something is wrong.
        if let Some(state) = work.node.hypervisor.state(stale.vm.as_str()).await? {
            return Err(HostError::host(
                ErrorReason::HostNotReady,
                format!(
                    "{} is reserved for domain {}, which is {}",
                    stale.ip,
                    stale.vm,
                    state.as_str()
                ),
            ));
        }
        if let Some(holder) = work.node.holder(&stale.vm)? {
            let message = format!(
                "{} belongs to allocation {holder}, which holds a slot",
                stale.ip
            );
            return Err(HostError::host(ErrorReason::LeaseHeld, message));
        }
        tracing::warn!(vm = %stale.vm, ip = %stale.ip, "remove a stale reservation");
        work.node.dhcp.remove(&stale.vm)?;
    }
    Ok(desired)
}
