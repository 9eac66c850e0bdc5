//! VMs that name a disk, running or shut off (D-34): the next start of one would write to it.
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::disk::stack::controllers;
use crate::error::{HostError, HostResult};
use crate::host::root::HostRoot;
use crate::prepare::Machine;
use crate::vm::disk_sources::{Sources, pci_device, sources};

const URI: [&str; 2] = ["-c", "qemu:///system"];
/// Without it there is no libvirt on the host, and so no VM of it.
const LIBVIRT: &str = "/var/lib/libvirt";

/// A VM and what it names.
pub struct Domain {
    name: String,
    sources: Vec<Sources>,
}

/// Every VM of the host, as it runs and as it would start.
///
/// # Errors
/// libvirt is here and cannot be asked: any VM may name any disk (P9).
pub async fn all(machine: &Machine) -> HostResult<Vec<Domain>> {
    if !machine.root.exists(LIBVIRT) {
        return Ok(Vec::new());
    }
    let listed = ask(machine, &["list", "--all", "--name"]).await?;
    let mut found = Vec::new();
    for name in listed
        .lines()
        .map(str::trim)
        .filter(|name| !name.is_empty())
    {
        let mut own = Vec::new();
        for arguments in [vec!["dumpxml", name], vec!["dumpxml", name, "--inactive"]] {
            let text = ask(machine, &arguments).await?;
            let parsed = sources(&text).map_err(|why| {
                let message = format!("the description of VM {name} cannot be read: {why}");
                HostError::host(ErrorReason::HypervisorFailed, message)
            })?;
            own.push(parsed);
        }
        found.push(Domain {
            name: name.to_owned(),
            sources: own,
        });
    }
    Ok(found)
}

async fn ask(machine: &Machine, arguments: &[&str]) -> HostResult<String> {
    let arguments: Vec<&str> = URI.iter().chain(arguments).copied().collect();
    let output = machine.ask("virsh", &arguments).await?;
    Ok(output.success("virsh")?.stdout)
}

/// Names of VMs that name a disk, or something of which nobody knows where it lies.
///
/// # Errors
/// The disk's controllers cannot be observed.
pub fn using(
    root: &HostRoot,
    domains: &[Domain],
    disk: &str,
    parts: &[String],
) -> HostResult<Vec<String>> {
    let names = |kernel: &str| kernel == disk || parts.iter().any(|part| part == kernel);
    let functions: Vec<String> = controllers(root, disk)?.iter().map(pci_device).collect();
    let is_ours = |path: &String| {
        let linked = root.link_name(path);
        let named = path.strip_prefix("/dev/").is_some_and(names);
        named || linked.is_some_and(|linked| names(&linked)) || functions.contains(path)
    };
    let uses = |one: &Sources| {
        one.paths.iter().any(is_ours) || !one.volumes.is_empty() || !one.untraced.is_empty()
    };
    let found = domains
        .iter()
        .filter(|domain| domain.sources.iter().any(uses));
    Ok(found.map(|domain| domain.name.clone()).collect())
}
