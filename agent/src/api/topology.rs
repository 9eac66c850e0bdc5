//! `Topology`: discovery and readiness.
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::agent::v1::topology_server::Topology;
use tonic::{Request, Response, Status};

use super::Shared;
use crate::disk::{DiskIdentity, passthrough};
use crate::host::blocking;
use crate::node::Node;
use crate::prepare::storage;
use crate::settings::NvmeAttachment;
use crate::topology::discover::{Inventory, gpu_report, inventory, lab_report};
use crate::topology::wipe_policies::{
    propose_wipe_policy, set_storage_transitions, set_wipe_policies,
};
use crate::topology::{describe, inspect, printable, readiness};

/// The service.
pub struct TopologyApi(pub Shared);

#[tonic::async_trait]
impl Topology for TopologyApi {
    async fn discover(
        &self,
        request: Request<pb::DiscoverRequest>,
    ) -> Result<Response<pb::TopologyReport>, Status> {
        let left_by_tenants = request.into_inner().left_by_tenants;
        Ok(Response::new(
            Box::pin(discover(&self.0.node, left_by_tenants)).await,
        ))
    }

    async fn check_readiness(
        &self,
        _: Request<pb::CheckReadinessRequest>,
    ) -> Result<Response<pb::ReadinessReport>, Status> {
        Ok(Response::new(readiness::report(&self.0.node).await))
    }
}

/// Adds the disks that VMs have by their controllers, and says which of the others no VM can have.
async fn passed_through(node: &Node, devices: &mut Inventory) {
    let seen: Vec<String> = devices
        .nvme
        .iter()
        .filter_map(|one| one.by_id.clone())
        .collect();
    let given =
        blocking::here(|| passthrough::given(node, |link| seen.iter().any(|one| one == link)));
    match given {
        Ok(given) if !given.is_empty() => match node.hypervisor.domains().await {
            Ok(domains) => devices.give(&node.root, given, &domains),
            Err(error) => tracing::warn!(%error, "cannot tell which VMs have disks"),
        },
        Ok(_) => {}
        Err(error) => tracing::warn!(%error, "cannot tell which disks VMs have"),
    }
    if node.settings.profile.nvme == NvmeAttachment::Passthrough {
        blocking::here(|| devices.judge_passthrough(&node.root));
    }
}

/// Inspects the host and proposes slots. Of the named disks a tenant was the last holder.
pub async fn discover(node: &Node, left_by_tenants: Vec<String>) -> pb::TopologyReport {
    let probe = node.probe.clone().left_by_tenants(left_by_tenants);
    let settings = &node.settings;
    let mut devices = inventory(
        &node.root,
        &settings.network.gateway,
        &settings.trusted_programs,
        node.gpu_fabric.as_ref(),
    )
    .await;
    passed_through(node, &mut devices).await;
    let mut report = if node.settings.profile.lab {
        let mut disks = Vec::new();
        for disk in &node.settings.lab_disks {
            let identity = DiskIdentity::Lab(disk.id);
            disks.push((identity.to_string(), inspect::disk(&probe, &identity).await));
        }
        lab_report(&devices, &disks)
    } else {
        gpu_report(&devices, &inspect::disks(&probe, &devices.nvme).await)
    };
    propose_wipe_policy(&mut report, settings.wipe.policy);
    let has_site_command = !settings.wipe.site_command.as_os_str().is_empty();
    set_wipe_policies(&mut report, &devices, has_site_command);
    set_storage_transitions(&mut report, &storage::manifests(&node.root));
    report.schema_version = gpuaas_proto::TOPOLOGY_SCHEMA_VERSION;
    report.host = Some(printable::inventory(
        Box::pin(describe::host(node, &devices)).await,
    ));
    let readiness = readiness::report(node).await;
    report.blockers.extend(
        readiness
            .evidence
            .iter()
            .filter(|one| readiness.blockers.contains(&one.check))
            .map(|one| format!("{}: {}", one.check, one.detail)),
    );
    report.evidence = readiness.evidence;
    report.reboot_required = readiness::wants_reboot(&node.root);
    report.hugepages_1g_free = readiness.hugepages_1g_free;
    report
}
