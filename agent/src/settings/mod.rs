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
//! | Open vSwitch or nftables, for the rules that the agent makes (the module `network`); the bridge has no port but those of guests | `agent.network.host_services`, `.reachable`, `.unreachable` | `["dhcp"]`, none, none |
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
//! routed_sources = []                          # networks that reach guests at their own addresses, where the site routes them
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
mod limits;
mod network;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checks::NodeMode;

pub use limits::{
    JournalSettings, Limits, MIN_LEASE_S, Polling, SerialLog, Telemetry, Wipe, WipeVerification,
};
pub use network::{
    BridgeKind, Dhcp, Fabric, FabricKind, GpuFabric, GpuFabricManager, HostService, Ingress,
    Network, PRIVATE_NAT,
};

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
    /// Name or address in the user's ssh command; empty: the guest's own address and port 22, which is reached from
    /// `agent.network.routed_sources` alone.
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
