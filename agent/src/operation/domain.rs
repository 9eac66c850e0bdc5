//! The domain of a VM: what it is defined on, its start, and whether it runs.
use std::path::PathBuf;

use gpuaas_proto::gpuaas::agent::v1::VmShape;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::remove;
use super::work::Work;
use crate::disk::passthrough;
use crate::error::{HostError, HostResult};
use crate::host::blocking;
use crate::settings::{Network, NvmeAttachment};
use crate::vm::PowerState;
use crate::vm::domain_xml::{Bandwidth, DomainSpec, domain_xml};
use crate::vm::locality::{SlotDevices, locality};
use crate::vm::serial_log;

/// What a domain is defined on.
pub struct Disks {
    /// A file that is booted from in place of the first of its own.
    pub rescue: Option<PathBuf>,
    /// Devices of its slots, in their order.
    pub own: Vec<PathBuf>,
}

/// Defines the allocation's domain on these disks, or defines it again under the same name and UUID, which preserves
/// its NVRAM. The seed is there for the first boot alone. Returns the UUID.
pub async fn define_on(work: &Work, disks: Disks, seed: Option<PathBuf>) -> HostResult<String> {
    let plan = &work.operation.plan;
    let shape = plan.shape.unwrap_or_default();
    let passed = match work.node.settings.profile.nvme {
        NvmeAttachment::Passthrough => {
            passthrough::prepare(&work.node, &work.vm(), &disks.own).await?
        }
        NvmeAttachment::Virtio => Vec::new(),
    };
    let mut devices = Vec::new();
    for (index, slot) in work.slots()?.into_iter().enumerate() {
        let bindings = &slot.bindings;
        let functions = [&bindings.gpu_pci_address, &bindings.fabric_vf_pci_address];
        let functions = functions.into_iter().filter(|address| !address.is_empty());
        let mut functions = functions
            .map(|address| address.parse())
            .collect::<Result<Vec<_>, _>>()?;
        functions.extend(passed.get(index).cloned());
        devices.push(SlotDevices {
            numa_node: bindings.numa_node,
            functions,
        });
    }
    let serial_log = work.node.serial.of_vm(&work.vm());
    let locality = blocking::here(|| {
        serial_log::prepare(&serial_log)?;
        locality(
            &work.node.root,
            &devices,
            shape.vcpus,
            shape.memory_mib,
            shape.hugepages,
        )
    })?;
    let spec = DomainSpec {
        name: work.vm(),
        uuid: work.operation.allocation.0,
        vcpus: shape.vcpus,
        memory_mib: shape.memory_mib,
        hugepages: shape.hugepages,
        boots_from: passed.first().filter(|_| disks.rescue.is_none()).cloned(),
        rescue: disks.rescue,
        disks: if passed.is_empty() {
            disks.own
        } else {
            Vec::new()
        },
        seed,
        mac: plan.mac.parse()?,
        port: work.operation.allocation.port_name(),
        bandwidth: bandwidth(&shape, &work.node.settings.network),
        locality,
        serial_log,
    };
    let xml = domain_xml(
        &spec,
        &work.node.settings.profile,
        &work.node.settings.network,
    )?;
    work.node.hypervisor.define(xml).await
}

/// Limit of the VM's interface: that of its SKU, otherwise that of the host (D-60, J-22).
fn bandwidth(shape: &VmShape, network: &Network) -> Option<Bandwidth> {
    let of_sku = shape.network_mbps.map(|mbits| Bandwidth {
        mbits,
        burst_kb: shape.network_burst_kb,
    });
    of_sku.or_else(|| {
        network.vm_bandwidth_mbits.map(|mbits| Bandwidth {
            mbits,
            burst_kb: None,
        })
    })
}

/// Starts the VM with its neighbours' rules in force and its own from its first frame on: a port that has none yet
/// passes nothing (P11). Its port is a new one, so that it has its limits (D-60).
pub async fn start_apart(work: &Work) -> HostResult<()> {
    let shape = work.operation.plan.shape.unwrap_or_default();
    let limit = bandwidth(&shape, &work.node.settings.network);
    let state = work.node.hypervisor.state(work.vm().as_str()).await?;
    if limit.is_some() && matches!(state, None | Some(PowerState::ShutOff)) {
        remove::port(&work.node, work.operation.allocation).await?;
    }
    work.node.network_rules.put().await?;
    work.node.hypervisor.start(work.vm().as_str()).await?;
    work.node.network_rules.put().await?;
    Ok(())
}

/// What a running VM has open is not written to.
pub async fn still_off(work: &Work) -> HostResult<()> {
    match work.node.hypervisor.state(work.vm().as_str()).await? {
        None | Some(PowerState::ShutOff) => Ok(()),
        Some(state) => Err(HostError::host(
            ErrorReason::HypervisorFailed,
            format!("the domain is {} again", state.as_str()),
        )),
    }
}

/// A guest that ended will not answer any more.
pub async fn still_running(work: &Work, reason: ErrorReason) -> HostResult<()> {
    match work.node.hypervisor.state(work.vm().as_str()).await? {
        Some(PowerState::Running) => Ok(()),
        Some(state) => Err(HostError::guest(
            reason,
            format!("the guest is {}", state.as_str()),
        )),
        None => Err(HostError::host(
            ErrorReason::HypervisorFailed,
            "the domain is gone",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_60_j_22_the_limit_of_the_sku_wins_over_that_of_the_host() {
        let host = |vm_bandwidth_mbits| Network {
            vm_bandwidth_mbits,
            ..Network::default()
        };
        let sku = |network_mbps, network_burst_kb| VmShape {
            network_mbps,
            network_burst_kb,
            ..VmShape::default()
        };
        let limit = |mbits, burst_kb| Some(Bandwidth { mbits, burst_kb });
        for (shape, network, expected) in [
            (sku(None, None), host(None), None),
            (sku(None, None), host(Some(1000)), limit(1000, None)),
            (sku(Some(50), Some(64)), host(None), limit(50, Some(64))),
            (sku(Some(5000), None), host(Some(1000)), limit(5000, None)),
        ] {
            assert_eq!(bandwidth(&shape, &network), expected, "{shape:?}");
        }
    }
}
