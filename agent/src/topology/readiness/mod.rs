//! Readiness: a list of evidence, each a behaviour that was observed just now, judged by the registry of checks
//! for what the host is. A hard check that fails blocks the host, or the slots whose devices it names.
mod bootstrap;
mod check_result;
mod devices;
pub(crate) mod disk_health;
mod fabric;
pub(crate) mod kvm;
mod machine;
mod network;
mod pages;
mod partitions;
mod site;
mod software;
mod vms;

use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::Evidence;

pub use check_result::CheckResult;
pub use machine::{
    free_hugepages, gpu_service_holders, gpu_services, virtualisation, wants_reboot,
};

use self::check_result::blocks_host;
use crate::binding::Approved;
use crate::checks::{self, HostKind, Observer};
use crate::host::blocking;
use crate::node::Node;
use crate::topology::in_use;
use crate::vm::without_waiting;
use crate::wall_clock::{now_ms, timestamp};

/// Most cached images that are reported.
const MAX_IMAGES: usize = 1000;
/// A lease needs no packet of its own when one went through the host so lately: everything else is observed anew.
const PACKET_FOR_LEASE: Duration = Duration::from_secs(30);

/// Runs all checks, with a packet that is sent now. It does not wait for a libvirt that is down: what that would tell is left
/// out or as it was, and the check of libvirt says why.
pub async fn report(node: &Node) -> pb::ReadinessReport {
    // boxed: it is large
    without_waiting(Box::pin(complete_report(node))).await
}

async fn complete_report(node: &Node) -> pb::ReadinessReport {
    let kind = node.kind();
    let results = observe(node, kind, Duration::ZERO).await;
    // one time for all: a report that says what the last one said is known by that
    let now = timestamp(now_ms());
    let evidence = judge(results, kind, now);
    let profile = &node.settings.profile;
    let (hugepages_1g_free, hugepages_allocated_to) = pages::free(node).await;
    let observed_uptime = node.clock.now().since_start();
    pb::ReadinessReport {
        devices: in_use::observe(node, &evidence).await,
        schema_version: in_use::SCHEMA_VERSION,
        observed_uptime: Some(observed_uptime),
        agent_started_time: Some(node.started),
        blockers: blockers(&evidence),
        evidence,
        hugepages_1g_free,
        hugepages_allocated_to,
        hypervisor: profile.hypervisor.as_str().to_owned(),
        host_profile: profile.name.clone(),
        lab: profile.lab,
        observed_time: Some(now),
        drifted_disks: devices::drifted(node).await,
        cached_image_digests: blocking::here(|| cached(node)),
    }
}

/// What a lease for a new VM needs of this host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Prerequisites {
    /// Checks that block the host.
    pub blockers: Vec<String>,
    /// Devices that a check names, each with what it says.
    pub devices: Vec<(String, String)>,
}

/// Runs the checks that a lease asks first: the same ones.
pub async fn prerequisites(node: &Node) -> Prerequisites {
    let kind = node.kind();
    let results = observe(node, kind, PACKET_FOR_LEASE).await;
    let evidence = judge(results, kind, timestamp(now_ms()));
    let of_devices = evidence.iter().flat_map(|one| {
        let said =
            move |device: &String| (device.clone(), format!("{}: {}", one.check, one.detail));
        one.devices.iter().map(said)
    });
    Prerequisites {
        blockers: blockers(&evidence),
        devices: of_devices.collect(),
    }
}

/// Makes the observations that a kind of host needs. `packet_age` is how old the last packet through the host may be.
async fn observe(node: &Node, kind: HostKind, packet_age: Duration) -> Vec<CheckResult> {
    let root = &node.root;
    let mut results = vec![machine::node_mode(node), machine::reboot_required(root)];
    results.extend(fabric::all(node).await);
    results.push(blocking::here(|| bootstrap::completed(node, kind)));
    results.push(software::rdma_tools(root, &node.settings.profile));
    results.push(blocking::here(|| {
        site::deploy_user(root, &node.settings.bootstrap)
    }));
    results.push(blocking::here(|| site::netdata(root)));
    results.push(blocking::here(|| {
        devices::fabric_links(root, &node.settings)
    }));
    results.push(blocking::here(|| {
        gpu_services(root, &node.settings.profile, &node.settings.gpu_fabric)
    }));
    results.push(blocking::here(|| {
        devices::gpu_links(root, &node.settings.profile)
    }));
    results.push(disk_health::check(root, node.settings.profile.lab, &node.disk_health).await);
    if kind == HostKind::BareMetal {
        results.push(machine::gpu_driver(root, &node.settings.profile).await);
    } else {
        results.push(software::libvirt(node).await);
        results.extend(blocking::here(|| of_machine(node)));
        kvm::prove(root, &node.settings.profile, &node.kvm, &mut results).await;
        results.extend(partitions::all(node).await);
        results.push(devices::slot_disks(node).await);
        results.extend(network::all(node, packet_age).await);
        results.push(blocking::here(|| software::relay_key(node)));
        results.push(blocking::here(|| {
            software::disk_assembly(root, &node.settings.profile)
        }));
        let settings = &node.settings;
        results.push(blocking::here(|| {
            let (cache, state) = (&settings.images.cache_dir, &settings.state_dir);
            software::image_cache(cache, state, settings.limits.min_free_bytes)
        }));
        results.push(vms::ended_with_host(node).await);
    }
    complete(results, kind)
}

/// In the order of the registry, each check once: those that nobody had to observe are skipped.
fn complete(mut results: Vec<CheckResult>, kind: HostKind) -> Vec<CheckResult> {
    debug_assert!(results.iter().all(check_result::names_its_devices));
    let of_agent = checks::ALL
        .into_iter()
        .filter(|check| check.by == Observer::Agent);
    let take = |check: &'static checks::Check| {
        let found = results.iter().position(|result| result.check == check);
        match found {
            Some(index) => results.swap_remove(index),
            None => CheckResult::skip(check, format!("nothing to a {}", kind.as_str())),
        }
    };
    of_agent.map(take).collect()
}

fn judge(results: Vec<CheckResult>, kind: HostKind, now: prost_types::Timestamp) -> Vec<Evidence> {
    results
        .into_iter()
        .map(|result| result.evidence(kind, now))
        .collect()
}

/// Names of the checks that block the host.
fn blockers(evidence: &[Evidence]) -> Vec<String> {
    let blocking = evidence.iter().filter(|one| blocks_host(one));
    blocking.map(|one| one.check.clone()).collect()
}

/// What files of the machine show.
fn of_machine(node: &Node) -> Vec<CheckResult> {
    let (root, profile) = (&node.root, &node.settings.profile);
    let mut results = virtualisation(root, profile);
    results.extend(software::files(root, profile));
    let approved = Approved::of(&node.journal).unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot tell which devices are approved");
        Approved::default()
    });
    let fabric = node.settings.fabric.kind;
    results.extend(devices::of_gpus(root, profile, fabric, &approved.all));
    results.push(machine::hugepages(root, profile));
    results.push(software::tools(node));
    results
}

/// Images that a VM could start from without a pull. One that cannot be read is none.
fn cached(node: &Node) -> Vec<String> {
    let verified = node.images.verified().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot list the cached images");
        Vec::new()
    });
    let reported = verified.iter().take(MAX_IMAGES);
    reported.map(|digest| digest.as_str().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;

    use super::*;

    #[test]
    fn a_86_every_check_of_the_registry_is_in_the_evidence_once() {
        for kind in HostKind::ALL {
            let some = vec![
                CheckResult::judge(&checks::NAT, false, "no rule"),
                CheckResult::pass(&checks::REBOOT, "none pending"),
            ];
            let evidence = judge(complete(some, kind), kind, timestamp(7));
            let named: Vec<&str> = evidence.iter().map(|one| one.check.as_str()).collect();
            let registry: Vec<&str> = checks::ALL
                .into_iter()
                .filter(|check| check.by == Observer::Agent)
                .map(|check| check.id)
                .collect();
            assert_eq!(named, registry);
            let expected: &[&str] = match kind {
                HostKind::BareMetal => &[],
                HostKind::Slice | HostKind::Lab => &["nat"],
            };
            assert_eq!(blockers(&evidence), expected, "{kind:?}");
            let unobserved = evidence.iter().find(|one| one.check == "bridge").unwrap();
            assert_eq!(unobserved.status(), EvidenceStatus::Skip);
        }
    }
}
