//! Packages of a slice host (I-65, I-75, I-76, I-80, INC-28).
use std::collections::BTreeSet;

use super::{Action, Machine, Plan};
use crate::error::{HostResult, io_error};

/// What the documents name.
pub const RUNTIME: [&str; 8] = [
    "qemu-kvm",
    "libvirt-daemon-system",
    "libvirt-clients",
    "virtinst",
    "openvswitch-switch",
    "cloud-image-utils",
    "ovmf",
    "rdma-core",
];
/// What the agent and the network baseline run besides.
pub const OF_AGENT: [&str; 8] = [
    "dnsmasq",
    "fdisk",
    "genisoimage",
    "iproute2",
    "iptables",
    "nftables",
    "nvme-cli",
    "qemu-utils",
];
/// Installed where the repositories have them.
pub const OPTIONAL: [&str; 4] = ["rshim", "infiniband-diags", "ibverbs-utils", "driverctl"];

const STATUS: &str = "/var/lib/dpkg/status";

/// Installs what is missing: all required packages by one call, each as an argument of its own (INC-28).
///
/// # Errors
/// The list of installed packages cannot be read.
pub async fn plan(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    let text = machine
        .root
        .read(STATUS)
        .map_err(io_error(format_args!("cannot read {STATUS}")))?;
    let there = installed(&text);
    let is_missing = |name: &&str| !there.contains(*name);
    let missing: Vec<&str> = RUNTIME
        .into_iter()
        .chain(OF_AGENT)
        .filter(is_missing)
        .collect();
    if !missing.is_empty() {
        apt(plan, &["update"], "package lists of today", false);
        let mut arguments = vec!["install", "--yes", "--no-install-recommends"];
        arguments.extend(&missing);
        apt(plan, &arguments, "packages of a slice host", false);
    }
    for name in OPTIONAL.into_iter().filter(is_missing) {
        let known = machine.ask("apt-cache", &["show", name]).await;
        if known.is_ok_and(|known| known.status == 0 && describes(&known.stdout, name)) {
            let arguments = ["install", "--yes", "--no-install-recommends", name];
            apt(plan, &arguments, "optional package", true);
        } else {
            plan.note(format!(
                "optional package {name}: no repository of this host has it"
            ));
        }
    }
    Ok(())
}

/// Whether `apt-cache show` has a package to install. Of a name that other packages mention and none has, it shows nothing
/// and ends well.
fn describes(shown: &str, name: &str) -> bool {
    let named = shown
        .lines()
        .filter_map(|line| line.strip_prefix("Package: "));
    named.map(str::trim).any(|own| own == name)
}

fn apt(plan: &mut Plan, arguments: &[&str], reason: &str, best_effort: bool) {
    let action = Action::Run {
        program: "apt-get".to_owned(),
        arguments: arguments.iter().map(|one| (*one).to_owned()).collect(),
        environment: vec![("DEBIAN_FRONTEND".into(), "noninteractive".into())],
        best_effort,
    };
    plan.step(action, reason);
}

/// Installed packages, and what they provide.
fn installed(status: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for paragraph in status.split("\n\n") {
        let field = |name: &str| {
            let mut lines = paragraph.lines();
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
        };
        if field("Status") != Some("install ok installed") {
            continue;
        }
        found.extend(field("Package").map(str::to_owned));
        let provided = field("Provides").unwrap_or_default().split(',');
        found.extend(
            provided
                .filter_map(|one| one.split_whitespace().next())
                .map(str::to_owned),
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_75_a_package_counts_by_its_status_and_by_what_it_provides() {
        let text = "Package: qemu-system-x86\nStatus: install ok installed\nProvides: qemu-kvm, qemu-system-i386 (= 1:8)\n\n\
                    Package: ovmf\nStatus: deinstall ok config-files\n\nPackage: rdma-core\nStatus: install ok installed\n";
        let found = installed(text);
        for name in ["qemu-kvm", "qemu-system-i386", "rdma-core"] {
            assert!(found.contains(name), "{name}");
        }
        assert!(!found.contains("ovmf"));
    }
}
