//! What an operator runs on the first real host, and after every change of it: all checks of the registry, the versions of
//! what VMs are made of, the units and files of the documented baseline, and a list of what only real hardware shows, to be
//! done by hand. The report is a text, and a JSON file that is attached to the node (I-218, I-219, A-154, D-13, D-22).
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use gpuaas_proto::gpuaas::common::v1::{CheckSeverity, EvidenceStatus};
use serde::Serialize;

use crate::build;
use crate::disk::identity::BY_ID;
use crate::disk::passthrough;
use crate::host::root::HostRoot;
use crate::host::{exec, units};
use crate::node::Node;
use crate::prepare::network;
use crate::topology::pci::{self, PciKind};
use crate::topology::readiness;

/// Version of the report.
const SCHEMA: u32 = 1;

/// Units of a slice host (A-151, A-152, I-220).
const UNITS: [&str; 7] = [
    "gpuaas-node-agent",
    "gpuaas-slice-fabric-vfs",
    "gpuaas-slice-vfio-devices",
    "gpuaas-slice-network-baseline",
    "gpuaas-slice-ovs-bridge",
    "libvirtd",
    "dnsmasq",
];

/// Programs whose versions matter when two hosts behave differently.
const PROGRAMS: [(&str, &[&str]); 10] = [
    ("qemu-system-x86_64", &["--version"]),
    ("qemu-img", &["--version"]),
    ("virsh", &["--version"]),
    ("ovs-vswitchd", &["--version"]),
    ("dnsmasq", &["--version"]),
    ("nft", &["--version"]),
    ("iptables", &["--version"]),
    ("nvme", &["version"]),
    ("driverctl", &["--version"]),
    ("docker", &["compose", "version"]),
];

/// What no program of a host without tenants can show: `docs/real-hardware.md` is made of it.
///
/// partly J-27: a VM of the lab reaches an address beyond its host; whether a site lets it reach the internet is tried by hand
pub const BY_HAND: [ByHand; 18] = [
    ByHand::new(
        "identities",
        "Serial numbers, the switch behind each link and the address of the management controller are made up on every host but a real one.",
        "Compare the serial numbers on the machine's labels, the site's cabling plan and the address in MAAS with `gpuaas admin node show NODE`.",
        "Model, serial numbers, switches with their ports, and the address of kind `bmc` are the same.",
    ),
    ByHand::new(
        "first_slice",
        "VMs of the lab run under emulation, with a sparse file as their disk: no time of theirs is that of a host, and no GPU goes with them.",
        "Launch one slice of each size, log in, stop, start and release it.",
        "Each is active within the time of its image, and its slot is available again.",
    ),
    ByHand::new(
        "guest_gpu",
        "No machine of development or CI has a GPU; a virtual host has a device that looks like one on the bus and computes nothing.",
        "In the guest: nvidia-smi -q, and a CUDA sample over all GPUs of the slice.",
        "Every GPU of the slice is there without errors. Passthrough alone does not show it (INC-24).",
    ),
    ByHand::new(
        "guest_fabric",
        "An emulated function passes no RDMA, and there is no switch and no subnet manager.",
        "In two guests on two hosts: ibv_devinfo -l, then ib_write_bw between them.",
        "Each guest has its own function, and the bandwidth is that of the port.",
    ),
    ByHand::new(
        "nvlink_partition",
        "There is no NVSwitch. Fabric Manager is played by a program that answers as its documents say.",
        "Launch slices of 2 and 4 GPUs; in the guest run nvidia-smi topo -m and nccl-tests, also while Fabric Manager is restarted, and after a reboot of the VM.",
        "GPUs of one slice see each other by NVLink, throughout, and none of another slice.",
    ),
    ByHand::new(
        "gpu_reset",
        "Only a GPU can fail a reset, keep its memory or leave its bus.",
        "Release and launch on the same slot ten times; read dmesg for AER and reset errors.",
        "Every reset succeeds.",
    ),
    ByHand::new(
        "neighbours",
        "Slices of the lab share no PCI switch, no NVSwitch, no disk controller and no power limit.",
        "Release a slice while the other seven run a load.",
        "No neighbour loses a packet, a request or a GPU.",
    ),
    ByHand::new(
        "wipe_time",
        "A file discards at once; a sanitize of a real disk takes minutes, and goes on over a loss of power in ways of its controller.",
        "Read the time of a wipe from the repair of each slot.",
        "It ends within the operation's budget; write the time down.",
    ),
    ByHand::new(
        "nvme_passthrough",
        "An emulated NVMe disk has no firmware, and its controller comes back from a VM at once.",
        "Only with agent.profile.nvme = \"passthrough\": launch, reboot and release on each slot; in the guest run fio on the disk; ask its maker whether it accepts unsigned firmware.",
        "The VM boots from its disk, the host has the disk within 30 s of each stop, and only the maker's firmware is accepted.",
    ),
    ByHand::new(
        "restart",
        "A virtual host restarts with devices that are always found, in order and at once; firmware of a real one trains links, retries and finds them in any order.",
        "Restart the host with slices stopped, then read `gpuaas-node-agent validate-host` again.",
        "Kernel names may differ; bindings, functions, bridge and NAT are as before.",
    ),
    ByHand::new(
        "power_loss",
        "A virtual host loses power, and its disks lose nothing that they had promised: their caches are files of another machine.",
        "Cut the power during the wipe of an empty slot.",
        "After the start the wipe is repeated, and the slot is available only then.",
    ),
    ByHand::new(
        "speed",
        "Under emulation every number is that of the emulator: CPU pinning, memory of the GPU's NUMA node, hugepages and link speeds change nothing there.",
        "Run scripts/ops/gpuaas_benchmark_capture.sh on the host before it is sliced and in a slice afterwards; read `gpu_links` in validate-host while the GPUs are under load.",
        "The slice is as fast as the documents' reference allows (I-33), and every GPU has its lanes at full speed.",
    ),
    ByHand::new(
        "egress",
        "The packet that a check sends ends at the host's packet filter: what a site's firewall does with it afterwards is the site's.",
        "From a guest: reach an address of the internet, and read its source there.",
        "It is an address of the host; no private address leaves (J-27).",
    ),
    ByHand::new(
        "guest_topology",
        "Slices of a virtual host have one GPU and one vCPU, and its GPU a small BAR: sockets, NUMA distances, pinning and the 64-bit window of a real slice are checked as XML against libvirt's schema alone.",
        "Launch slices of 4 and 8 GPUs; in the guest compare lscpu, numactl --hardware and nvidia-smi topo -m with the host's, and read dmesg for BARs without an address.",
        "Each GPU is on the NUMA node that it has on the host, and no BAR lacks an address.",
    ),
    ByHand::new(
        "bandwidth",
        "The switch of a lab host cannot limit a port. A virtual host has one guest, held at 2 Mbit/s: no second guest competes, and no cable is in between.",
        "Set agent.network.vm_bandwidth_mbits, launch two slices, and run iperf3 from both at once.",
        "Each has the rate that is set, whatever the other does.",
    ),
    ByHand::new(
        "agent_update",
        "On a virtual host a rollout and its way back ran beside a slice that computes nothing; the packages had the same program under two versions.",
        "Roll out another version of the agent to the host while a slice runs a load, then roll it back.",
        "The slice runs on, its serial log has no gap, and the node reports the version of each.",
    ),
    ByHand::new(
        "gpu_memory",
        "No machine of development has a GPU whose memory could keep anything.",
        "Fill the memory of every GPU of a slice with a pattern, release it, launch on the same slot and search for the pattern.",
        "It is nowhere: the reset of the GPU has cleared its memory.",
    ),
    ByHand::new(
        "distribution",
        "The virtual host is a Debian 12 that has all packages and whose kernel is started without a boot loader; apt installed nothing there, and Ubuntu was never the host.",
        "Run gpuaas_slice_host_deploy_bootstrap.sh on a fresh host with --dry-run, then without, restart, and run it again.",
        "The kernel has the arguments that the plan named, the second run changes nothing, and parity-check has no failure.",
    ),
];

/// Something that a person does on the hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ByHand {
    pub id: &'static str,
    /// Why no lab host, no recording and no virtual host shows it.
    pub why: &'static str,
    /// What to do.
    pub what: &'static str,
    /// When it is good.
    pub good: &'static str,
    /// For the operator to fill in.
    pub result: &'static str,
}

impl ByHand {
    const fn new(
        id: &'static str,
        why: &'static str,
        what: &'static str,
        good: &'static str,
    ) -> Self {
        Self {
            id,
            why,
            what,
            good,
            result: "",
        }
    }
}

/// One check of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Checked {
    pub check: String,
    /// "PASS", "FAIL", "WARN" or "SKIP".
    pub status: &'static str,
    /// "hard", "warn" or "info"; empty where the check does not apply.
    pub severity: &'static str,
    pub detail: String,
    pub remediation: String,
    pub devices: Vec<String>,
}

/// The report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    pub schema: u32,
    /// The agent's build.
    pub agent_version: String,
    pub agent_built_at: String,
    /// When it was made.
    pub time: String,
    /// "slice host", "lab host" or "bare-metal host".
    pub kind: &'static str,
    /// Operating system, kernel and machine.
    pub host: BTreeMap<&'static str, String>,
    /// Hardware by count.
    pub hardware: BTreeMap<&'static str, usize>,
    pub checks: Vec<Checked>,
    /// First line of what each program says of itself; empty: it does not answer.
    pub versions: BTreeMap<&'static str, String>,
    /// The documented baseline, as `unit=active` or `unit=NOT_ACTIVE` and so on (A-153..A-157, I-219).
    pub baseline: BTreeMap<String, String>,
    /// Checks that keep the host out of service.
    pub blockers: Vec<String>,
    pub by_hand: Vec<ByHand>,
}

/// Makes it.
pub async fn report(node: &Node) -> Report {
    let readiness = readiness::report(node).await;
    let mut versions = BTreeMap::new();
    for (program, arguments) in PROGRAMS {
        let output = exec::run(program, arguments, exec::PROBE_LIMIT).await;
        let text = output.ok().filter(|output| output.status == 0);
        let text = text.map(|output| output.stdout).unwrap_or_default();
        versions.insert(program, version(&text).to_owned());
    }
    let devices = pci::devices(&node.root);
    let count = |kind| devices.iter().filter(|one| one.kind == kind).count();
    let functions = devices.iter().map(|one| one.functions.len()).sum();
    let disks = node.root.names("/sys/class/block");
    let disks = disks
        .iter()
        .filter(|name| crate::disk::identity::is_nvme_disk(name));
    let links = node.root.names(BY_ID);
    let seen = |link: &str| links.iter().any(|name| link == format!("{BY_ID}/{name}"));
    // what is on record and cannot be read is missed by the checks
    let given = passthrough::given(node, seen).ok();
    Report {
        schema: SCHEMA,
        agent_version: build::version().to_owned(),
        agent_built_at: build::built_at().map_or_else(String::new, |at| at.to_string()),
        time: jiff::Timestamp::now().to_string(),
        kind: node.kind().as_str(),
        host: host(&node.root),
        hardware: BTreeMap::from([
            ("gpus", count(PciKind::Gpu)),
            ("nvswitches", count(PciKind::NvSwitch)),
            ("fabric_devices", count(PciKind::Fabric)),
            ("virtual_functions", functions),
            (
                "nvme_disks",
                disks.count() + given.map_or(0, |all| all.len()),
            ),
            (
                "iommu_groups",
                node.root.names("/sys/kernel/iommu_groups").len(),
            ),
        ]),
        checks: checked(&readiness),
        versions,
        baseline: baseline(&node.root).await,
        blockers: readiness.blockers,
        by_hand: BY_HAND.into(),
    }
}

/// The first line of what a program says of itself. One that explains its use instead has told no version, as driverctl of
/// Debian 12, which ends well.
fn version(text: &str) -> &str {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty()).unwrap_or_default();
    match first.to_ascii_lowercase().starts_with("usage:") {
        true => "it does not report one",
        false => first,
    }
}

fn checked(readiness: &ReadinessReport) -> Vec<Checked> {
    let each = readiness.evidence.iter();
    each.map(|one| Checked {
        check: one.check.clone(),
        status: status(one.status()),
        severity: match one.severity() {
            CheckSeverity::Hard => "hard",
            CheckSeverity::Warn => "warn",
            CheckSeverity::Info => "info",
            CheckSeverity::Unspecified => "",
        },
        detail: one.detail.clone(),
        remediation: one.remediation.clone(),
        devices: one.devices.clone(),
    })
    .collect()
}

/// As every report of checks has it.
pub fn status(status: EvidenceStatus) -> &'static str {
    match status {
        EvidenceStatus::Pass => "PASS",
        EvidenceStatus::Fail => "FAIL",
        EvidenceStatus::Warn => "WARN",
        EvidenceStatus::Skip => "SKIP",
        EvidenceStatus::Unspecified => "????",
    }
}

fn host(root: &HostRoot) -> BTreeMap<&'static str, String> {
    let files = [
        ("hostname", "/proc/sys/kernel/hostname"),
        ("kernel", "/proc/sys/kernel/osrelease"),
        ("cmdline", "/proc/cmdline"),
        ("vendor", "/sys/class/dmi/id/sys_vendor"),
        ("product", "/sys/class/dmi/id/product_name"),
        ("serial", "/sys/class/dmi/id/product_serial"),
        ("bios", "/sys/class/dmi/id/bios_version"),
    ];
    let mut found: BTreeMap<_, _> = files
        .into_iter()
        .map(|(key, path)| (key, root.read_value(path).unwrap_or_default()))
        .collect();
    let release = root.read("/etc/os-release").unwrap_or_default();
    let name = release
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let name = name.unwrap_or_default().trim_matches('"').to_owned();
    found.insert("operating_system", name);
    found
}

async fn baseline(root: &HostRoot) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for name in UNITS {
        let state = units::state(&format!("{name}.service")).await;
        let is_active = matches!(state, Ok(Some(state)) if state.starts_with("active/"));
        let state = if is_active { "active" } else { "NOT_ACTIVE" };
        found.insert(name.to_owned(), state.to_owned());
    }
    let mut present = |key: &str, is_there: bool| {
        let value = if is_there { "present" } else { "missing" };
        found.insert(key.to_owned(), value.to_owned());
    };
    present("ipoib_netplan", root.exists("/etc/netplan/60-ipoib.yaml"));
    present("dnsmasq_gpu_subnet", network::has_dnsmasq_file(root));
    let line = root.read_value("/proc/cmdline").unwrap_or_default();
    let words: Vec<&str> = line.split_whitespace().collect();
    for word in ["intel_iommu=on", "amd_iommu=on", "iommu=pt"] {
        if words.contains(&word) || word != "amd_iommu=on" {
            present(word, words.contains(&word));
        }
    }
    found
}

impl Report {
    /// For people.
    pub fn text(&self) -> String {
        let built = match self.agent_built_at.as_str() {
            "" => "unknown",
            at => at,
        };
        let mut text = format!(
            "gpuaas-node-agent version={} built_at={built}\n{} at {}\n",
            self.agent_version, self.kind, self.time
        );
        let head = |title: &str| format!("\n{title}\n");
        let mut lines = head("Host");
        for (key, value) in &self.host {
            lines.push_str(&format!("  {key}={value}\n"));
        }
        for (key, value) in &self.hardware {
            lines.push_str(&format!("  {key}={value}\n"));
        }
        lines.push_str(&head("Checks"));
        for one in &self.checks {
            let rest = format!("{} {}", one.detail, one.remediation);
            lines.push_str(&format!(
                "  {} {}: {}\n",
                one.status,
                one.check,
                rest.trim_end()
            ));
        }
        lines.push_str(&head("Baseline"));
        for (key, value) in &self.baseline {
            lines.push_str(&format!("  {key}={value}\n"));
        }
        lines.push_str(&head("Versions"));
        for (key, value) in &self.versions {
            let value = if value.is_empty() { "not there" } else { value };
            lines.push_str(&format!("  {key}: {value}\n"));
        }
        lines.push_str(&head("By hand, on the hardware"));
        for one in &self.by_hand {
            lines.push_str(&format!("  [ ] {}: {} {}\n", one.id, one.what, one.good));
        }
        text.push_str(&lines);
        let blockers = match self.blockers.is_empty() {
            true => "none".to_owned(),
            false => self.blockers.join(", "),
        };
        text.push_str(&format!("\nblockers: {blockers}\n"));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i_219_a_version_is_the_first_line_and_no_explanation_of_use() {
        assert_eq!(version("\nvirsh 9.0.0\nmore\n"), "virsh 9.0.0");
        let usage = "Usage: driverctl [OPTIONS...] {COMMAND}...\n";
        assert_eq!(version(usage), "it does not report one");
        assert_eq!(version(""), "");
    }
}
