//! Readiness: a list of evidence, each a behaviour that was observed just now. Any FAIL is a blocker.
mod fabric;
mod finding;
mod machine;
mod network;
mod pages;
mod software;
mod vms;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::common::v1::{Evidence, EvidenceStatus};

pub use finding::Finding;
pub use machine::{free_hugepages, gpu_services, virtualisation, wants_reboot};

use crate::disk::DiskIdentity;
use crate::disk::identity::{Resolution, loop_devices, resolve_lab};
use crate::host::blocking;
use crate::node::{Node, now_ms, timestamp};
use crate::topology::in_use;

/// Most cached images that are reported.
const MAX_IMAGES: usize = 1000;
/// Longest detail that is reported, in bytes.
const MAX_DETAIL: usize = 4000;

/// Runs all checks.
pub async fn report(node: &Node) -> pb::ReadinessReport {
    let profile = &node.settings.profile;
    let mut findings = vec![software::libvirt(node).await];
    findings.extend(blocking::here(|| of_machine(node)));
    findings.extend(network::all(node).await);
    findings.extend(fabric::all(node).await);
    findings.push(Finding::pass(
        "relay_key",
        format!("{} is usable", node.settings.relay.key_file.display()),
    ));
    let cache = &node.settings.images.cache_dir;
    findings.push(blocking::here(|| software::image_cache(cache)));
    findings.push(machine::reboot_required(&node.root));
    findings.push(vms::ended_with_host(node).await);
    let (hugepages_1g_free, hugepages_allocated_to) = pages::free(node).await;
    let now = timestamp(now_ms());
    let observed_uptime = node.clock.now().since_start();
    let evidence: Vec<Evidence> = findings
        .iter()
        .map(|finding| evidence(finding, now))
        .collect();
    pb::ReadinessReport {
        devices: in_use::observe(node, &evidence).await,
        schema_version: in_use::SCHEMA_VERSION,
        observed_uptime: Some(observed_uptime),
        blockers: findings
            .iter()
            .filter(|finding| finding.status == EvidenceStatus::Fail)
            .map(|finding| finding.check.to_owned())
            .collect(),
        evidence,
        hugepages_1g_free,
        hugepages_allocated_to,
        hypervisor: profile.hypervisor.as_str().to_owned(),
        host_profile: profile.name.clone(),
        lab: profile.lab,
        observed_time: Some(now),
        drifted_disks: drifted(node).await,
        cached_image_digests: blocking::here(|| cached(node)),
    }
}

/// What files of the machine show.
fn of_machine(node: &Node) -> Vec<Finding> {
    let profile = &node.settings.profile;
    let mut findings = virtualisation(&node.root, profile);
    findings.extend(software::files(&node.root, profile));
    findings.push(gpu_services(&node.root, profile));
    findings.push(machine::hugepages(&node.root, profile));
    findings.push(software::tools(node));
    findings
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

/// A finding on the wire.
fn evidence(finding: &Finding, now: prost_types::Timestamp) -> Evidence {
    Evidence {
        check: finding.check.to_owned(),
        status: finding.status.into(),
        detail: clip(&finding.detail),
        remediation: finding.remediation.to_owned(),
        observed_at: Some(now),
    }
}

/// At most as much as inventory takes in.
fn clip(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_DETAIL);
    text[..end].replace(char::is_control, " ")
}

/// Configured disks that are not where they should be (D-80).
async fn drifted(node: &Node) -> Vec<String> {
    let disks = &node.settings.lab_disks;
    if disks.is_empty() {
        return Vec::new();
    }
    // read once for all of them; what cannot be read is nowhere
    let loops = loop_devices().await.unwrap_or_default();
    let gone = disks
        .iter()
        .filter(|disk| !matches!(resolve_lab(disk, &loops), Resolution::Device(_)));
    gone.map(|disk| DiskIdentity::Lab(disk.id).to_string())
        .collect()
}
