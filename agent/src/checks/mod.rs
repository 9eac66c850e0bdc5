//! The registry of checks: what a host must prove before it is offered, once.
//!
//! Everything that judges a host is a view of it: the evidence of readiness, what a lease asks first, the blockers that
//! operators see, the parity check, and the runbook page `docs/runbooks/host-checks.md`. So they cannot disagree.
//!
//! A check is judged by what the host is for: a node for bare metal needs no bridge, and its absence there is no fault
//! (A-47, INC-07). What a site does not have (a fabric, hugepages) is for the observation to skip, by its settings.
mod devices;
mod kind;
mod machine;
mod network;

pub use devices::*;
pub use kind::{AssignedMode, HostKind, NodeMode};
pub use machine::*;
pub use network::*;

use gpuaas_proto::gpuaas::common::v1::CheckSeverity;

/// How much a check counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// A failure makes what it concerns unschedulable.
    Hard,
    /// A failure is told, and blocks nothing.
    Warn,
    /// Told only: neither outcome is a fault.
    Info,
}

impl Severity {
    /// As texts have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Warn => "warn",
            Self::Info => "info",
        }
    }
}

impl From<Severity> for CheckSeverity {
    fn from(severity: Severity) -> Self {
        match severity {
            Severity::Hard => Self::Hard,
            Severity::Warn => Self::Warn,
            Severity::Info => Self::Info,
        }
    }
}

/// What a failure takes out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// The host.
    Host,
    /// The slots that have one of the devices that the evidence names.
    Slots,
}

/// Who makes the observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Observer {
    /// The agent, in every report.
    Agent,
    /// The parity check alone: only somebody beside the agent can tell.
    Parity,
}

/// Severity for each kind of host; `None` where the check does not apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Severities {
    /// A host with GPUs, offered in slices.
    pub slice: Option<Severity>,
    /// A host without GPUs that plays one.
    pub lab: Option<Severity>,
    /// A host that is offered whole.
    pub bare_metal: Option<Severity>,
}

impl Severities {
    const EVERYWHERE: Self = Self::all(Severity::Hard);
    /// Hosts that run VMs.
    const VMS: Self = Self {
        bare_metal: None,
        ..Self::EVERYWHERE
    };
    /// Hosts whose GPUs go into VMs.
    const GPU_SLICES: Self = Self {
        lab: None,
        ..Self::VMS
    };
    /// Hosts with GPUs.
    const GPUS: Self = Self {
        lab: None,
        ..Self::EVERYWHERE
    };

    const fn all(severity: Severity) -> Self {
        Self {
            slice: Some(severity),
            lab: Some(severity),
            bare_metal: Some(severity),
        }
    }

    /// The same hosts, and a failure only warns.
    const fn warn(self) -> Self {
        const fn warn(one: Option<Severity>) -> Option<Severity> {
            match one {
                Some(_) => Some(Severity::Warn),
                None => None,
            }
        }
        Self {
            slice: warn(self.slice),
            lab: warn(self.lab),
            bare_metal: warn(self.bare_metal),
        }
    }
}

/// One check.
#[derive(Debug, PartialEq, Eq)]
pub struct Check {
    /// Name in evidence, blockers, lines of the parity check and headings of the runbook.
    pub id: &'static str,
    /// What is true of the host when it passes.
    pub proves: &'static str,
    /// How it is observed.
    pub observed: &'static str,
    /// What to do about a failure: one sentence, as the evidence has it.
    pub remedy: &'static str,
    /// What an operator does, step by step.
    pub steps: &'static [&'static str],
    pub severity: Severities,
    pub scope: Scope,
    pub by: Observer,
}

impl Check {
    /// How much it counts on a kind of host.
    pub fn severity(&self, kind: HostKind) -> Option<Severity> {
        match kind {
            HostKind::Slice => self.severity.slice,
            HostKind::Lab => self.severity.lab,
            HostKind::BareMetal => self.severity.bare_metal,
        }
    }
}

/// Every check, in the order of evidence and runbook.
pub const ALL: [&Check; 45] = [
    &NODE_AGENT,
    &NODE_MODE,
    &SITE_BOOTSTRAP,
    &LIBVIRT,
    &KVM,
    &IOMMU,
    &VFIO,
    &IOMMU_GROUPS,
    &VFIO_BINDING,
    &GPU_LINKS,
    &GPU_SERVICES,
    &FABRIC_MANAGER,
    &GPU_PARTITIONS,
    &GPU_DRIVER,
    &HUGEPAGES,
    &FIRMWARE,
    &LIBVIRT_FOLDER,
    &TOOLS,
    &DISK_ASSEMBLY,
    &RDMA_TOOLS,
    &RELAY_KEY,
    &IMAGE_CACHE,
    &SLOT_DISKS,
    &DISK_HEALTH,
    &BRIDGE,
    &OVS_BRIDGE,
    &IP_FORWARDING,
    &NAT,
    &GUEST_ISOLATION,
    &DNSMASQ,
    &IPOIB_NETPLAN,
    &FABRIC_ADDRESS,
    &FABRIC_ROUTE,
    &FABRIC_VFS,
    &FABRIC_LINKS,
    &VF_LINKS,
    &TMFIFO,
    &REBOOT,
    &VMS_AFTER_RESTART,
    &DEPLOY_USER,
    &NETDATA,
    &HISTORICAL_NETWORK_SERVICE,
    &API_TOPOLOGY,
    &SSH,
    &SETTINGS,
];

/// The check of a name.
pub fn find(id: &str) -> Option<&'static Check> {
    ALL.into_iter().find(|check| check.id == id)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_86_every_check_has_a_name_of_its_own_and_says_what_to_do() {
        let mut names = BTreeSet::new();
        for check in ALL {
            assert!(names.insert(check.id), "{} twice", check.id);
            let legal =
                |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
            assert!(check.id.bytes().all(legal), "{}", check.id);
            assert_eq!(find(check.id), Some(check));
            for text in [check.proves, check.observed, check.remedy] {
                assert!(!text.is_empty() && !text.contains('\n'), "{}", check.id);
            }
            assert!(!check.steps.is_empty(), "{} has no runbook", check.id);
            let kinds = HostKind::ALL.map(|kind| check.severity(kind));
            assert!(
                kinds.iter().any(Option::is_some),
                "{} judges nothing",
                check.id
            );
        }
        assert_eq!(find("no_such_check"), None);
    }

    #[test]
    fn inc_07_a_47_a_bare_metal_host_needs_no_service_of_slices() {
        let of = |kind: HostKind| {
            let hard = ALL
                .into_iter()
                .filter(move |check| check.severity(kind) == Some(Severity::Hard));
            hard.map(|check| check.id).collect::<BTreeSet<_>>()
        };
        let bare_metal = of(HostKind::BareMetal);
        for check in [
            "bridge",
            "ovs_bridge",
            "nat",
            "ip_forwarding",
            "dnsmasq",
            "guest_isolation",
            "libvirt",
            "kvm",
            "vfio",
            "gpu_services",
            "hugepages",
        ] {
            assert!(!bare_metal.contains(check), "{check}");
        }
        // what it has in common with a slice host (INC-06)
        for check in [
            "node_agent",
            "ipoib_netplan",
            "fabric_address",
            "fabric_route",
            "site_bootstrap",
        ] {
            assert!(bare_metal.contains(check), "{check}");
        }
        assert!(of(HostKind::Slice).is_superset(&bare_metal));
    }

    /// What is wrong with the link or the health of a device is wrong with its slot; on bare metal it is reported, and the node is
    /// offered by what the site agreed on.
    #[test]
    fn a_86_links_and_health_of_devices_count_by_what_the_host_is_for() {
        use HostKind::{BareMetal, Lab, Slice};
        for (check, bare_metal) in [
            (&GPU_LINKS, Some(Severity::Warn)),
            (&DISK_HEALTH, Some(Severity::Warn)),
            (&VF_LINKS, None),
        ] {
            let of = |kind| check.severity(kind);
            assert_eq!(of(Slice), Some(Severity::Hard), "{}", check.id);
            assert_eq!((of(Lab), of(BareMetal)), (None, bare_metal), "{}", check.id);
            assert_eq!(check.scope, Scope::Slots, "{}", check.id);
        }
    }

    ///
    #[test]
    fn inc_37_no_check_asks_nvml_of_a_host() {
        for check in ALL {
            assert!(!check.observed.contains("nvidia-smi"), "{}", check.id);
        }
    }

    /// CON-09
    #[test]
    fn a_78_a_87_a_19_i_17_what_is_history_or_optional_never_blocks() {
        for check in [&TMFIFO, &HISTORICAL_NETWORK_SERVICE, &NETDATA, &DEPLOY_USER] {
            for kind in HostKind::ALL {
                assert_ne!(check.severity(kind), Some(Severity::Hard), "{}", check.id);
            }
        }
    }
}
