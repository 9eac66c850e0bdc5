//! Settings of the agent: the host profile and where the host's services have their files.
//!
//! # What the agent needs from its host
//!
//! The agent starts no host service. Before it serves, the host (a systemd unit on a GPU node, the sandbox of
//! `deploy/lab` in development) has brought up, in the network and mount namespace the agent runs in:
//!
//! | thing | setting | lab value |
//! |---|---|---|
//! | libvirtd (and virtlogd) | `agent.libvirt_uri` | `qemu:///system`, socket `/run/libvirt/libvirt-sock` |
//! | bridge with the gateway's address, and `169.254.169.254/32` for the host service `metadata` | `agent.network.bridge`, `.gateway` | Open vSwitch `ovsbr0`, `datapath_type=netdev`, `10.100.0.1/24`, up |
//! | dnsmasq reading one file per VM | `agent.dhcp.hosts_dir` | `--dhcp-hostsdir=DIR` (the agent writes `gpuaas-<vm name>.conf`, then sends SIGHUP, which keeps every lease) |
//! | dnsmasq's pid and lease files | `agent.dhcp.pid_file`, `.leases_file` | `--pid-file=…`, `--dhcp-leasefile=…` |
//! | dnsmasq's range | – | `--dhcp-range=10.100.0.0,static,255.255.255.0,1h --dhcp-option=option:router,10.100.0.1 --dhcp-authoritative --no-ping --dhcp-ignore-clid --port=0` on the bridge |
//! | Open vSwitch or nftables, for the rules that the agent makes (the module `wire`); the bridge has no port but those of guests | `agent.network.host_services`, `.reachable`, `.unreachable` | `["dhcp"]`, none, none |
//! | NAT and forwarding | `agent.network.mode = "private-nat"` | an nft or iptables masquerade rule of `10.100.0.0/24`, `net.ipv4.ip_forward=1` |
//! | a way out | `agent.network.outside` | a route to that address; no packet leaves, it is where checks send one |
//! | slot disks | `agent.lab_disks` | a loop device per backing file, attached before the agent starts; the agent never attaches or detaches |
//! | a way in from outside | `agent.access` | port `22000 + slot index` of the host forwarded to port 22 of `10.100.0.(10 + slot index)` |
//!
//! The hosts directory must be a real directory that only the agent writes. The cache directory holds whole
//! images; in the lab it may be on any file system that takes `O_DIRECT`.
//!
//! # Configuration file
//!
//! The common sections (`cell`, `[server]`, `[tls]`, `[peers]`, `[telemetry]`) are those of every service.
//! `[tls] ca_file` is given; `cert_file` and `key_file` name files that enrolment writes, by convention
//! `<state_dir>/tls/cert.pem` and `<state_dir>/tls/key.pem`. A complete lab file:
//!
//! ```toml
//! cell = 1
//! [server]
//! listen = ["10.99.0.2:7110", "127.0.0.1:7110"]
//! metrics_listen = "127.0.0.1:7210"
//! [tls]
//! ca_file = "/srv/lab/ca.pem"
//! cert_file = "/srv/lab/agent/tls/cert.pem"
//! key_file = "/srv/lab/agent/tls/key.pem"
//! [peers]
//! inventory = "https://10.99.0.1:7107"             # where inventory hears enrolled hosts
//! inventory-enrolment = "https://10.99.0.1:7108"   # where it enrols them
//! [telemetry]
//! log = "info"
//! otlp_endpoint = ""
//!
//! [agent]
//! state_dir = "/srv/lab/agent"                 # journal.sqlite, tls/, seeds/
//! advertised_address = "10.99.0.2:7110"        # where allocation dials this agent
//! libvirt_uri = "qemu:///system"
//!
//! [agent.profile]
//! name = "lab"
//! lab = true
//! hypervisor = "qemu"                          # or "kvm"; never guessed from /dev/kvm
//! cpu_model = "qemu64"                         # or "host-passthrough"
//!
//! [agent.network]
//! bridge = "ovsbr0"
//! bridge_kind = "ovs"                          # or "linux"
//! datapath = "netdev"                          # or "system"
//! gateway = "10.100.0.1/24"
//! host_services = ["dhcp"]                     # what guests reach of the host: "dhcp", "dns", "metadata", "ping"
//! reachable = []                               # private networks that guests may reach, as "10.20.0.0/16"
//! unreachable = []                             # public networks that they may not reach
//!
//! [agent.ingress]                              # left out: no VM is reachable from outside
//! address = "203.0.113.7"                      # to which packets from outside come
//! ports = "30000-30999"                        # which are the platform's alone
//!
//! [agent.dhcp]
//! hosts_dir = "/run/gpuaas-lab/dnsmasq.d"
//! leases_file = "/run/gpuaas-lab/dnsmasq.leases"
//! pid_file = "/run/gpuaas-lab/dnsmasq.pid"
//!
//! [agent.images]
//! registry_ca_file = "/srv/lab/ca.pem"         # CA of the OCI registry; empty: [tls] ca_file
//!
//! [agent.update]
//! source = "oci://registry.site/gpuaas/node-agent"  # packages of the agent; empty: no updates by rollouts
//!
//! [agent.relay]
//! key_file = "/srv/lab/terminal/id_ed25519"    # made if missing, never overwritten
//!
//! [agent.access]
//! host = "100.64.0.2"                          # what a user's ssh command names
//! port_base = 22000                            # plus the slot's index
//!
//! [agent.enrolment]
//! token_file = "/srv/lab/enrolment-token"      # single use; deleted after enrolment
//!
//! [[agent.lab_disks]]
//! id = "0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00"  # identity lab-disk:<id>
//! backing_file = "/srv/lab/disks/slot0.img"
//! [[agent.lab_disks]]
//! id = "0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a01"
//! backing_file = "/srv/lab/disks/slot1.img"
//! ```
//!
//! Slot indexes of a lab host follow the order of `lab_disks`.
//!
//! A development build (one with debug assertions, never a release) reads three more things: the file
//! `<state_dir>/kill-at` (`<step>:before` or `<step>:after`; the agent removes it, writes the same text to
//! `<state_dir>/killed-at`, syncs that and kills itself there; it passes no further point until that file is gone, for
//! 20 seconds), the file `<state_dir>/hold-at` of the same form (the agent writes the text to `<state_dir>/held-at` and stays
//! there until that file is gone, for 60 seconds), and the variable
//! `GPUAAS_FAULT_WIPE=lie` (the wipe does nothing).
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checks::NodeMode;
use crate::disk::policy::WipePolicy;
use crate::ip::Ipv4Net;
use crate::ip::PortRange;
use crate::journal::Kind;

/// The section `[agent]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Journal, certificate and seeds; made with mode 0711, so that the hypervisor reads seeds.
    pub state_dir: PathBuf,
    /// `/proc`, `/sys` and `/etc` are read below this folder, so that recorded hosts run through the same code.
    #[serde(default = "defaults::root")]
    pub root: PathBuf,
    /// "host:port" under which the control plane dials this agent.
    #[serde(default)]
    pub advertised_address: String,
    /// libvirt connection.
    #[serde(default = "defaults::libvirt_uri")]
    pub libvirt_uri: String,
    /// What kind of host this is.
    pub profile: HostProfile,
    /// Bridge of the management vNICs.
    #[serde(default)]
    pub network: Network,
    /// What of its public addresses this host gives to the platform.
    #[serde(default)]
    pub ingress: Ingress,
    /// The InfiniBand fabric of the site.
    #[serde(default)]
    pub fabric: Fabric,
    /// The NVSwitch partitions of the GPUs.
    #[serde(default)]
    pub gpu_fabric: GpuFabric,
    /// What the site's bootstrap leaves when it came to its end.
    #[serde(default)]
    pub bootstrap: Bootstrap,
    /// Files of dnsmasq.
    #[serde(default)]
    pub dhcp: Dhcp,
    /// Image cache and registry.
    #[serde(default)]
    pub images: Images,
    /// Key by which this host logs into its guests.
    #[serde(default)]
    pub relay: Relay,
    /// How a user reaches a guest from outside.
    #[serde(default)]
    pub access: Access,
    /// First start of a host instance.
    #[serde(default)]
    pub enrolment: Enrolment,
    /// Where the operator or MAAS says that this host is.
    #[serde(default)]
    pub location: Location,
    /// Backing files that play NVMe disks, lab only.
    #[serde(default)]
    pub lab_disks: Vec<LabDisk>,
    /// Programs that the agent may not look into, since they have more rights than it, and that hold no disk open; by
    /// the name in `/proc/<pid>/comm`. Any other such program makes every disk unproven. None where the agent is root of
    /// its machine.
    #[serde(default)]
    pub trusted_programs: Vec<String>,
    /// Bounds of time and size.
    #[serde(default)]
    pub limits: Limits,
    /// How disks are wiped.
    #[serde(default)]
    pub wipe: Wipe,
    /// Pause between two checks.
    #[serde(default)]
    pub polling: Polling,
    /// What the journal retains.
    #[serde(default)]
    pub journal: JournalSettings,
    /// What the VMs print on their serial consoles.
    #[serde(default)]
    pub serial_log: SerialLog,
    /// Updates of the agent by rollouts.
    #[serde(default)]
    pub update: Update,
    /// What is measured of the VMs.
    #[serde(default)]
    pub telemetry: Telemetry,
}

/// Kind of hypervisor. Explicit, since `/dev/kvm` existing proves nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Hypervisor {
    /// Hardware virtualisation.
    Kvm,
    /// Software emulation.
    Qemu,
}

impl Hypervisor {
    /// The libvirt domain type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Qemu => "qemu",
        }
    }
}

/// How a VM gets the NVMe disks of its slots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum NvmeAttachment {
    /// As virtio disks: the guest reads and writes blocks, and the controller stays the host's.
    #[default]
    Virtio,
    /// The controller itself by VFIO: the guest has every command of it, those that change firmware and namespaces too.
    Passthrough,
}

/// The host profile.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    /// Name, for example "lab" or "h200-slice".
    pub name: String,
    /// Marks a host without GPUs; its slots are of class `lab`.
    #[serde(default)]
    pub lab: bool,
    /// What this host was deployed for, "slice" or "baremetal". Checks judge it by its node's mode, as the platform reports
    /// it; before that, by this. A difference between the two is a failure of its own (A-48, INC-07).
    #[serde(default)]
    pub mode: Option<NodeMode>,
    /// Domain type.
    pub hypervisor: Hypervisor,
    /// libvirt CPU model, or "host-passthrough".
    pub cpu_model: String,
    /// Machine type.
    #[serde(default = "defaults::machine")]
    pub machine: String,
    /// Bus of the seed CD. `sata` is invisible to kernels without AHCI.
    #[serde(default = "defaults::seed_bus")]
    pub seed_bus: String,
    /// `<locked/>` memory, where the host can limit it.
    #[serde(default)]
    pub memory_locking: bool,
    /// Whether this host offers 1 GiB hugepages (D-55); a VM gets them only when its shape requests them.
    #[serde(default)]
    pub hugepages: bool,
    /// How a VM gets its NVMe disks (D-47), "virtio" or "passthrough"; a lab host has none to pass through.
    #[serde(default)]
    pub nvme: NvmeAttachment,
    /// UEFI code without Secure Boot (D-51).
    #[serde(default = "defaults::firmware_code")]
    pub firmware_code: PathBuf,
    /// UEFI variables template (D-51).
    #[serde(default = "defaults::firmware_vars_template")]
    pub firmware_vars_template: PathBuf,
    /// QEMU binary.
    #[serde(default = "defaults::emulator")]
    pub emulator: PathBuf,
}

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
    /// What a VM may send, and what it may receive, in megabits a second (D-60, J-22); none: as much as the wire takes. The
    /// kernel limits it, so a bridge that passes packets on in user space cannot.
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
    /// What the site's bootstrap renders (A-145).
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

/// What the site's bootstrap leaves when it came to its end (I-191..I-193). A lab host has none, whatever stands here.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bootstrap {
    /// Where markers and validation record are.
    pub folder: PathBuf,
    /// Files of this folder that every host has; none where the site has no such baseline.
    pub markers: Vec<String>,
    /// Files that slice hosts have besides.
    pub slice_markers: Vec<String>,
    /// The validation record of slice hosts, which must say `kvm=present`, `iommu_groups=` more than 0 and
    /// `libvirtd=active`; empty: none.
    pub slice_validation: String,
    /// The user that the site deploys with; a check looks whether a key leads to it (INC-35). Empty: nobody is looked for.
    pub deploy_user: String,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self {
            folder: "/var/lib/gpuaas/site-bootstrap".into(),
            markers: vec!["h200-ib.done".into()],
            slice_markers: vec!["h200-slice-vm.done".into()],
            slice_validation: "h200-slice-vm.validation".into(),
            deploy_user: String::new(),
        }
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

/// Image cache and registry.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Images {
    /// One file per digest, `<cache_dir>/sha256-<hex>.raw`, and a link `<cache_dir>/<slug>.raw` to the one that was last
    /// provisioned by its slug. The catalog names these paths (E-14): only a lab host may have another folder.
    pub cache_dir: PathBuf,
    /// CA that signed the registry's certificate; empty: the CA of `[tls]`.
    pub registry_ca_file: PathBuf,
}

impl Default for Images {
    fn default() -> Self {
        Self {
            cache_dir: gpuaas_common::image::FOLDER.into(),
            registry_ca_file: PathBuf::new(),
        }
    }
}

/// Updates of the agent by rollouts of the platform.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Update {
    /// Repository of the agent's packages in an OCI registry, as "oci://host/namespace/name", without a tag or digest; its
    /// certificate is checked as that of images is. Empty: this host takes no updates.
    pub source: String,
}

/// Key by which this host logs into its guests (D-86).
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Relay {
    /// Private key in OpenSSH format; the public half is in the same folder as `.pub`.
    pub key_file: PathBuf,
}

impl Default for Relay {
    fn default() -> Self {
        Self {
            key_file: "/var/lib/gpuaas/terminal/id_ed25519".into(),
        }
    }
}

/// How a user reaches a guest from outside.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Access {
    /// Name or address in the user's ssh command; empty: the guest's own address and port 22.
    pub host: String,
    /// Port of slot 0; a slot's port is this plus its index.
    pub port_base: u16,
}

/// First start of a host instance.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Enrolment {
    /// File with the single-use token; deleted after enrolment.
    pub token_file: PathBuf,
}

/// Where a host is. It is reported as it stands here.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Location {
    /// Rack, and where in it.
    pub rack: String,
    /// What fails together: a power feed, a row, a leaf switch.
    pub failure_domain: String,
}

/// A backing file that plays an NVMe disk.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LabDisk {
    /// Identity of the disk, `lab-disk:<id>`.
    pub id: Uuid,
    /// The sparse file behind the loop device.
    pub backing_file: PathBuf,
}

/// Bounds of time and size. All times in seconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Longest graceful shutdown a caller may request.
    pub max_graceful_s: u64,
    /// Longest lease.
    pub max_lease_s: u64,
    /// Longest wait for the guest's address when the image names no boot timeout.
    pub boot_timeout_s: u64,
    /// Budget of an operation when the caller gives none: 20 minutes (INC-22).
    pub budget_s: u64,
    /// Longest time of a release or of a repair of a slot, in seconds: both wipe disks, which takes as long as the disk needs.
    /// The caller may give less (`allocation.wipe_seconds`).
    pub wipe_budget_s: u64,
    /// Disks up to this size are read back completely after a wipe; larger ones at both ends and in samples.
    pub full_verify_bytes: u64,
    /// Bytes read back of a larger disk.
    pub sample_verify_bytes: u64,
    /// Largest image that is pulled.
    pub max_image_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        const GIB: u64 = 1 << 30;
        Self {
            max_graceful_s: 600,
            max_lease_s: 3600,
            boot_timeout_s: 300,
            budget_s: 1200,
            wipe_budget_s: 6 * 3600,
            full_verify_bytes: 16 * GIB,
            sample_verify_bytes: 4 * GIB,
            max_image_bytes: 256 * GIB,
        }
    }
}

impl Limits {
    /// Longest time of an operation of a kind.
    pub fn budget(&self, kind: Kind) -> Duration {
        Duration::from_secs(match kind {
            Kind::Release | Kind::RepairSlot => self.wipe_budget_s,
            _ => self.budget_s,
        })
    }
}

/// How disks are wiped, and how that is proven.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Wipe {
    /// Wipe policy that this host proposes for its slots, and that is approved with them (D-75, D-76): "blkdiscard",
    /// "nvme_format" or "site_erase". It names the least: the strongest method that the disk's controller offers and that
    /// reaches no other slot's disk is taken, and one that cannot meet it leaves the slot `cleanup_blocked`. Slots that are
    /// approved keep theirs.
    pub policy: WipePolicy,
    /// Program of the site that erases the disk of a slot whose wipe policy is `site_erase` (D-75): an absolute path. It runs
    /// as root, without arguments and without a shell, with the variables `GPUAAS_SLOT_ID`, `GPUAAS_DISK` (the disk's path in
    /// `/dev/disk/by-id`) and `GPUAAS_DISK_BYTES`; status 0 says that the disk is erased. Empty: none, and such a slot is not
    /// wiped.
    pub site_command: PathBuf,
    /// Longest time of the site's program, in seconds; never longer than what is left of `agent.limits.wipe_budget_s`.
    pub site_limit_s: u64,
    /// How much of a disk is read back after its wipe.
    pub verify: WipeVerification,
}

/// How much of a disk is read back after its wipe. Signatures and partitions are looked for always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WipeVerification {
    /// A disk of up to `agent.limits.full_verify_bytes` completely, a larger one at both ends and in samples.
    #[default]
    Samples,
    /// Every disk completely, which takes as long as reading it.
    Whole,
}

impl Default for Wipe {
    fn default() -> Self {
        Self {
            policy: WipePolicy::Blkdiscard,
            site_command: PathBuf::new(),
            site_limit_s: 3600,
            verify: WipeVerification::Samples,
        }
    }
}

/// What the journal retains.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JournalSettings {
    /// Days that an operation is retained after it ended, at least one: the control plane may still query its result.
    pub retention_days: u32,
}

impl JournalSettings {
    pub(crate) fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days.max(1)) * 24 * 3600)
    }
}

impl Default for JournalSettings {
    fn default() -> Self {
        Self { retention_days: 30 }
    }
}

/// What the VMs of this host print on their serial consoles, kept on its own disk, for root alone.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SerialLog {
    /// Days that it is retained after it was printed, at least one; also after its VM is gone. Its tenant can read it so long.
    pub retention_days: u32,
    /// Mebibytes that are retained of one VM, at least one; the oldest go first.
    pub max_mib: u32,
}

impl SerialLog {
    pub(crate) fn retention(&self) -> Duration {
        Duration::from_secs(u64::from(self.retention_days.max(1)) * 24 * 3600)
    }

    pub(crate) fn max_bytes(&self) -> u64 {
        u64::from(self.max_mib.max(1)) << 20
    }
}

impl Default for SerialLog {
    fn default() -> Self {
        Self {
            retention_days: 30,
            max_mib: 16,
        }
    }
}

/// What is measured of the VMs (D-90), for charts of their owners and for Prometheus.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Telemetry {
    /// Pause between two measurements of a VM, in milliseconds.
    pub pause_ms: u64,
    /// Ask each guest for its memory and its GPUs, over the login that the host has for itself. Without it there is only what
    /// libvirt counts.
    pub guests: bool,
}

impl Telemetry {
    pub(crate) fn pause(&self) -> Duration {
        Duration::from_millis(self.pause_ms.max(1))
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Self {
            pause_ms: 15_000,
            guests: true,
        }
    }
}

/// Pauses between two polls, in milliseconds.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Polling {
    /// At a guest that boots.
    pub guest_ms: u64,
    /// At a guest that shuts down.
    pub shutdown_ms: u64,
    /// At an undo that failed.
    pub undo_ms: u64,
    /// At a serial log, for what was printed since.
    pub serial_ms: u64,
}

impl Polling {
    pub(crate) fn guest(&self) -> Duration {
        Duration::from_millis(self.guest_ms.max(1))
    }

    pub(crate) fn shutdown(&self) -> Duration {
        Duration::from_millis(self.shutdown_ms.max(1))
    }

    pub(crate) fn undo(&self) -> Duration {
        Duration::from_millis(self.undo_ms.max(1))
    }

    pub(crate) fn serial(&self) -> Duration {
        Duration::from_millis(self.serial_ms.max(1))
    }
}

impl Default for Polling {
    fn default() -> Self {
        Self {
            guest_ms: 400,
            shutdown_ms: 250,
            undo_ms: 1000,
            serial_ms: 500,
        }
    }
}

mod defaults {
    use std::path::PathBuf;

    pub fn root() -> PathBuf {
        "/".into()
    }
    pub fn libvirt_uri() -> String {
        "qemu:///system".into()
    }
    pub fn machine() -> String {
        "q35".into()
    }
    pub fn seed_bus() -> String {
        "scsi".into()
    }
    pub fn firmware_code() -> PathBuf {
        "/usr/share/OVMF/OVMF_CODE_4M.fd".into()
    }
    pub fn firmware_vars_template() -> PathBuf {
        "/usr/share/OVMF/OVMF_VARS_4M.fd".into()
    }
    pub fn emulator() -> PathBuf {
        "/usr/bin/qemu-system-x86_64".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d_75_a_wipe_has_the_time_that_the_sites_program_may_take() {
        let limits = Limits::default();
        let site = Duration::from_secs(Wipe::default().site_limit_s);
        for kind in [Kind::Release, Kind::RepairSlot] {
            assert!(limits.budget(kind) > site, "{kind:?}");
        }
        // INC-22
        assert_eq!(limits.budget(Kind::Provision), Duration::from_secs(1200));
    }
}
