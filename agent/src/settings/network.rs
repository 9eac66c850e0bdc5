//! Settings of the guests' network, of the fabric and of the GPUs' own.
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::ip::{Ipv4Net, PortRange};

/// Kind of bridge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BridgeKind {
    /// Open vSwitch.
    Ovs,
    /// Linux bridge.
    Linux,
}

/// The network mode in which guests have private addresses behind the host, and the agent makes the rules of their
/// network.
pub const PRIVATE_NAT: &str = "private-nat";

/// What a guest may reach of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HostService {
    /// An address: UDP port 67.
    Dhcp,
    /// Names: port 53 of the gateway.
    Dns,
    /// Metadata: TCP port 80 of 169.254.169.254, which becomes an address of the host.
    Metadata,
    /// Echo requests to the gateway.
    Ping,
}

/// Bridge of the management vNICs.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Network {
    /// Name of the bridge.
    pub bridge: String,
    /// Open vSwitch or Linux.
    pub bridge_kind: BridgeKind,
    /// Open vSwitch datapath: "system", or "netdev", which passes packets on in user space and computes no checksums.
    pub datapath: String,
    /// The bridge's own address with its prefix length.
    pub gateway: String,
    /// "private-nat": NAT and forwarding are hard conditions (A-74, INC-01), and the agent isolates guests (P11). With any
    /// other text the site makes the network, and its rules.
    pub mode: String,
    /// What a guest may reach of this host, and nothing else of it (P11).
    pub host_services: Vec<HostService>,
    /// Private networks that guests may reach all the same; every other is dropped.
    pub reachable: Vec<Ipv4Net>,
    /// Networks that guests may not reach, public ones too; they win over `reachable`.
    pub unreachable: Vec<Ipv4Net>,
    /// Networks from which every port of a guest is reached at the guest's own address, where the site routes the guests' network
    /// to this host, as with an empty `agent.access.host`. From elsewhere a guest is reached only through ports of the host that
    /// are translated: those of ingress mappings, and those of the site.
    pub routed_sources: Vec<Ipv4Net>,
    /// What a VM may send, and what it may receive, in megabits a second, where its SKU says nothing (D-60, J-22); none: as much
    /// as the wire takes. The kernel limits it, so a bridge that passes packets on in user space cannot.
    pub vm_bandwidth_mbits: Option<u32>,
    /// An address outside of this host that guests may reach. A check sends a packet to it from the bridge, which is
    /// counted and dropped before it would leave.
    pub outside: Ipv4Addr,
}

impl Network {
    /// The bridge passes packets on as it gets them.
    pub(crate) fn passes_in_user_space(&self) -> bool {
        self.bridge_kind == BridgeKind::Ovs && self.datapath == "netdev"
    }
}

impl Default for Network {
    fn default() -> Self {
        Self {
            bridge: "ovsbr0".into(),
            bridge_kind: BridgeKind::Ovs,
            datapath: "system".into(),
            gateway: "10.100.0.1/24".into(),
            mode: PRIVATE_NAT.into(),
            host_services: vec![HostService::Dhcp],
            reachable: Vec::new(),
            unreachable: Vec::new(),
            routed_sources: Vec::new(),
            vm_bandwidth_mbits: None,
            outside: Ipv4Addr::new(192, 175, 48, 1),
        }
    }
}

/// What of its public addresses this host gives to the platform, for ingress mappings of tenants (J-13, L-16). Off unless both
/// are named: by naming them the operator says that address and ports are the platform's alone, and that the firewalls before the
/// host let them through.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Ingress {
    /// Address to which packets from outside come at this host.
    pub address: Option<Ipv4Addr>,
    /// Ports of it, from 1024 on, like "30000-30999". No service of the host listens on one of them.
    pub ports: Option<PortRange>,
}

/// How this host is reached by the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FabricKind {
    /// IP over InfiniBand: the netplan file, an address and a route are hard conditions (A-145, A-146, INC-06).
    Ipoib,
    /// This site has no fabric.
    None,
}

/// The InfiniBand fabric of the site. A lab host has none, whatever stands here.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Fabric {
    /// "ipoib" or "none".
    pub kind: FabricKind,
    /// The fabric's IPv4 network: an address of each host lies in it, and a route leads to it.
    pub subnet: String,
    /// Addresses of this host on the fabric with the length of their network, by interface, like `ibp26s0 = "192.168.4.7/16"`:
    /// `deploy-bootstrap` renders `netplan_file` of them (I-223). None: the site's bootstrap renders it.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub interfaces: BTreeMap<String, String>,
    /// The netplan file of the fabric.
    pub netplan_file: PathBuf,
    /// Virtual functions that `fabric-vfs` makes before any slot is approved, by the PCI address of their device; afterwards
    /// the approved slots say how many there are.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub virtual_functions: BTreeMap<String, u32>,
}

impl Default for Fabric {
    fn default() -> Self {
        Self {
            kind: FabricKind::Ipoib,
            subnet: "192.168.0.0/16".into(),
            interfaces: BTreeMap::new(),
            netplan_file: "/etc/netplan/60-ipoib.yaml".into(),
            virtual_functions: BTreeMap::new(),
        }
    }
}

/// Who connects the GPUs of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuFabricManager {
    /// Nobody: this host has no NVSwitch, or the site connects its GPUs itself.
    None,
    /// Fabric Manager in its shared NVSwitch mode: every VM gets its GPUs as a partition.
    FabricManager,
}

/// The NVSwitch partitions of the GPUs.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct GpuFabric {
    /// "none" or "fabric_manager".
    pub manager: GpuFabricManager,
    /// NVIDIA's FM Partition Manager.
    pub program: String,
    /// Where Fabric Manager answers: the address of its service VM, or a Unix socket by its path; empty: on this host, where
    /// it may run then although it holds the NVSwitches (D-96).
    pub address: String,
}

impl Default for GpuFabric {
    fn default() -> Self {
        Self {
            manager: GpuFabricManager::None,
            program: "fmpm".into(),
            address: String::new(),
        }
    }
}

impl GpuFabric {
    pub(crate) fn is_managed(&self) -> bool {
        self.manager == GpuFabricManager::FabricManager
    }

    /// Fabric Manager is a service of this host.
    pub(crate) fn runs_here(&self) -> bool {
        self.is_managed() && (self.address.is_empty() || self.address.starts_with('/'))
    }

    /// What says to `fmpm` which Fabric Manager is meant.
    pub(crate) fn address_arguments(&self) -> Vec<String> {
        let option = match self.address.as_str() {
            "" => return Vec::new(),
            path if path.starts_with('/') => "--unix-domain-socket",
            _ => "--hostname",
        };
        vec![option.to_owned(), self.address.clone()]
    }
}

/// Files of dnsmasq.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dhcp {
    /// dnsmasq's `--dhcp-hostsdir` (D-63).
    pub hosts_dir: PathBuf,
    /// dnsmasq's `--dhcp-leasefile`.
    pub leases_file: PathBuf,
    /// dnsmasq's `--pid-file`.
    pub pid_file: PathBuf,
}

impl Default for Dhcp {
    fn default() -> Self {
        Self {
            hosts_dir: "/etc/dnsmasq.d/gpuaas-hosts".into(),
            leases_file: "/var/lib/misc/dnsmasq.leases".into(),
            pid_file: "/run/dnsmasq/dnsmasq.pid".into(),
        }
    }
}
