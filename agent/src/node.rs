//! Everything one agent works with, put together once at start.
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gpuaas_common::config::{self, Settings as CommonSettings};
use gpuaas_common::image::FOLDER;

use crate::checks::{AssignedMode, HostKind, NodeMode};
use crate::dhcp::Dhcp;
use crate::disk::DiskProbe;
use crate::disk::wipe::{Wiper, host_wiper};
use crate::enrol::Signer;
use crate::error::{HostError, HostResult, io_error};
use crate::faults::{Edges, KillFile};
use crate::gpu_fabric::GpuFabric;
use crate::guest::{Bridge, GuestNetwork, RelayKey};
use crate::host::blocking;
use crate::host::clock::BootClock;
use crate::host::root::HostRoot;
use crate::ids::{AllocationId, VmName};
use crate::image::ImageCache;
use crate::image::registry::Registry;
use crate::journal::Journal;
use crate::network::NetworkRules;
use crate::prepare::machine::{Kernel, Sysfs};
use crate::serial::SerialLogs;
use crate::settings::{MIN_LEASE_S, NvmeAttachment, Settings};
use crate::telemetry::Telemetry;
use crate::topology::observed::Observed;
use crate::topology::packet::Packets;
use crate::topology::readiness::disk_health::DiskHealths;
use crate::topology::readiness::kvm::KvmProof;
use crate::update::Updates;
use crate::vm::Hypervisor;
use crate::wall_clock::{now_ms, timestamp};

/// The parts of one agent.
pub struct Node {
    pub settings: Settings,
    /// Files of the host.
    pub root: HostRoot,
    /// Boot clock.
    pub clock: BootClock,
    /// When this agent was started, by the clock of the host.
    pub started: prost_types::Timestamp,
    pub journal: Arc<Journal>,
    /// libvirt.
    pub hypervisor: Hypervisor,
    /// Disk proof.
    pub probe: DiskProbe,
    /// What the VMs print on their serial consoles.
    pub serial: Arc<SerialLogs>,
    /// What the VMs use.
    pub telemetry: Arc<Telemetry>,
    /// Image cache.
    pub images: ImageCache,
    /// dnsmasq.
    pub dhcp: Dhcp,
    /// The rules that isolate guests.
    pub network_rules: NetworkRules,
    /// The NVSwitch partitions of the GPUs; none where there is no Fabric Manager.
    pub gpu_fabric: Option<GpuFabric>,
    /// Packets that this host sends itself as a guest would.
    pub packets: Packets,
    /// When the emulator made a VM with KVM the last time.
    pub kvm: KvmProof,
    /// What the disks said of themselves the last time.
    pub disk_health: DiskHealths,
    /// What the platform offers this node as.
    pub assigned_mode: AssignedMode,
    /// Updates of this agent.
    pub updates: Updates,
    /// Key into the guests.
    pub relay: RelayKey,
    pub wiper: Box<dyn Wiper>,
    /// Signs wipe certificates; none on a host that never enrols.
    pub signer: Option<Signer>,
    /// The way to the guests.
    pub guests: Box<dyn GuestNetwork>,
    /// What the last reports observed.
    pub observed: Observed,
    /// Who stands at the edges of steps.
    pub edges: Box<dyn Edges>,
    /// How devices are bound to drivers.
    pub kernel: Arc<dyn Kernel>,
}

impl Node {
    /// Opens the journal and puts everything together. `ca_pem` is the configured CA.
    pub fn open(settings: Settings, ca_pem: &[u8]) -> HostResult<Self> {
        let root = HostRoot::new(&settings.root);
        Self::open_at(root, settings, ca_pem)
    }

    /// The same over a root that may note what is read.
    pub fn open_at(root: HostRoot, settings: Settings, ca_pem: &[u8]) -> HostResult<Self> {
        check_images(&settings, &root)?;
        check_nvme(&settings)?;
        check_lease(&settings)?;
        prepare_state(
            &settings.state_dir,
            [&seeds_dir(&settings), &rescue_dir(&settings)],
        )?;
        let clock = BootClock::new(&root).map_err(io_error("cannot read the boot id"))?;
        let journal = Arc::new(Journal::open(&settings.state_dir.join("journal.sqlite"))?);
        let hypervisor = Hypervisor::new(&settings.libvirt_uri);
        let probe = DiskProbe::new(root.clone(), settings.lab_disks.clone(), hypervisor.clone())
            .trusting(settings.trusted_programs.clone());
        let registry_ca = if settings.images.registry_ca_file.as_os_str().is_empty() {
            ca_pem.to_vec()
        } else {
            std::fs::read(&settings.images.registry_ca_file)
                .map_err(io_error("cannot read the registry's CA"))?
        };
        let images = ImageCache::new(
            &settings.images.cache_dir,
            Registry::new(&registry_ca),
            Arc::clone(&journal),
            &settings.limits,
        )?;
        let updates = Updates::open(
            &settings.state_dir,
            &settings.update.source,
            Registry::new(&registry_ca),
        );
        let relay = RelayKey::load_or_create(&settings.relay.key_file)?;
        let network_rules = NetworkRules::new(&settings, root.is_live(), Arc::clone(&journal));
        let serial = SerialLogs::new(
            settings.state_dir.join("serial"),
            settings.serial_log.clone(),
        );
        let assigned_mode = AssignedMode::open(&settings.state_dir);
        Ok(Self {
            dhcp: Dhcp::new(settings.dhcp.clone()).of(root.clone()),
            root,
            clock,
            started: timestamp(now_ms()),
            journal,
            hypervisor,
            probe,
            serial: Arc::new(serial),
            telemetry: Arc::new(Telemetry::new(&settings.telemetry)),
            images,
            network_rules,
            gpu_fabric: GpuFabric::of(&settings.gpu_fabric),
            packets: Packets::default(),
            kvm: KvmProof::default(),
            disk_health: DiskHealths::default(),
            assigned_mode,
            updates,
            relay,
            wiper: host_wiper(settings.wipe.clone()),
            signer: None,
            guests: Box::new(Bridge),
            observed: Observed::default(),
            edges: Box::new(KillFile {
                state_dir: settings.state_dir.clone(),
            }),
            kernel: Arc::new(Sysfs),
            settings,
        })
    }

    /// The same with the CA of the settings, and with what signs for this host.
    ///
    /// # Errors
    /// The CA cannot be read; see [`Self::open`].
    pub fn configured(common: &CommonSettings, own: Settings) -> anyhow::Result<Self> {
        let ca = config::read("tls.ca_file", &common.tls.ca_file)?;
        let mut node = Self::open(own, ca.as_bytes())?;
        node.signer = Some(Signer::of(&node.settings, common));
        Ok(node)
    }

    /// What this host is judged as: by what the platform offers it as, else by what it was deployed for.
    pub fn kind(&self) -> HostKind {
        let profile = &self.settings.profile;
        let mode = self.assigned_mode.get().or(profile.mode);
        HostKind::of(mode.unwrap_or(NodeMode::Slice), profile.lab)
    }

    /// Whose VM this is, while its allocation holds a slot here.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub fn holder(&self, vm: &VmName) -> HostResult<Option<AllocationId>> {
        let holds = self.journal.holds()?;
        let owner = AllocationId::of_vm(vm.as_str());
        Ok(owner.filter(|owner| holds.iter().any(|hold| hold.allocation == *owner)))
    }

    /// Where the folders of the VMs' seeds lie.
    pub fn seeds_dir(&self) -> PathBuf {
        seeds_dir(&self.settings)
    }

    /// Folder of a VM's seed.
    pub fn seed_dir(&self, vm: &VmName) -> PathBuf {
        self.seeds_dir().join(vm.as_str())
    }

    /// Folder of a VM's rescue disk.
    pub fn rescue_dir(&self, vm: &VmName) -> PathBuf {
        rescue_dir(&self.settings).join(vm.as_str())
    }

    /// Where the disks are on record whose controllers VMs have.
    pub fn passthrough_dir(&self) -> PathBuf {
        self.settings.state_dir.join("passthrough")
    }

    /// Whether a VM that runs was started from a rescue image: what ends a rescue removes its disk.
    pub fn is_rescued(&self, vm: &VmName) -> bool {
        let folder = self.rescue_dir(vm);
        blocking::here(|| folder.exists())
    }

    /// The guest's host key, while its seed is there (P11).
    pub fn seed_host_key(&self, vm: &VmName) -> PathBuf {
        self.seed_dir(vm).join("host_key")
    }

    /// A VM's seed image.
    pub fn seed_iso(&self, vm: &VmName) -> PathBuf {
        self.seed_dir(vm).join("seed.iso")
    }
}

/// Seeds lie where the hypervisor's user can read them.
fn seeds_dir(settings: &Settings) -> PathBuf {
    settings.state_dir.join("seeds")
}

/// Rescue disks lie where the hypervisor's user can reach them.
fn rescue_dir(settings: &Settings) -> PathBuf {
    settings.state_dir.join("rescue")
}

/// Image paths are one truth: a host keeps its images where catalog, image cache and records of calls say (E-14, C-31).
/// Lab hosts and recorded ones may be several on one machine.
fn check_images(settings: &Settings, root: &HostRoot) -> HostResult<()> {
    let is_alone = root.is_live() && !settings.profile.lab;
    if is_alone && settings.images.cache_dir != Path::new(FOLDER) {
        return Err(HostError::invalid(
            "agent.images.cache_dir",
            format!(
                "agent.images.cache_dir must be {FOLDER}, where the catalog says that images are"
            ),
        ));
    }
    Ok(())
}

/// A lab host's disks are loop devices, which have no controller.
fn check_nvme(settings: &Settings) -> HostResult<()> {
    if settings.profile.lab && settings.profile.nvme == NvmeAttachment::Passthrough {
        let rule =
            "agent.profile.nvme must be \"virtio\" on a lab host: its disks have no controller";
        return Err(HostError::invalid("agent.profile.nvme", rule));
    }
    Ok(())
}

/// A lease is as long as its caller asks for, between two bounds.
fn check_lease(settings: &Settings) -> HostResult<()> {
    if settings.limits.max_lease_s >= MIN_LEASE_S {
        return Ok(());
    }
    let rule = format!("agent.limits.max_lease_s must be at least {MIN_LEASE_S}");
    Err(HostError::invalid("agent.limits.max_lease_s", rule))
}

/// The state folder can be passed through by the hypervisor's user, who reads seeds; everything secret in it
/// has a mode of its own.
fn prepare_state(state: &Path, [seeds, rescue]: [&Path; 2]) -> HostResult<()> {
    for (folder, mode) in [
        (state, 0o711),
        (&state.join("tls"), 0o700),
        (seeds, 0o711),
        (rescue, 0o711),
    ] {
        std::fs::create_dir_all(folder)
            .map_err(io_error(format_args!("cannot make {}", folder.display())))?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(mode)).map_err(
            io_error(format_args!("cannot set the mode of {}", folder.display())),
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(lab: bool, root: &Path, state: &Path, images: &Path) -> Settings {
        let text = format!(
            "state_dir = {state:?}\nroot = {root:?}\nlibvirt_uri = \"test:///default\"\n\
             [profile]\nname = \"h\"\nlab = {lab}\nhypervisor = \"qemu\"\ncpu_model = \"qemu64\"\n\
             [images]\ncache_dir = {images:?}\n[relay]\nkey_file = {key:?}\n",
            key = state.join("relay/id"),
        );
        toml::from_str(&text).unwrap()
    }

    #[test]
    fn d_47_a_lab_host_has_no_controller_to_pass_through() {
        let dir = tempfile::tempdir().unwrap();
        let mut host = settings(
            true,
            dir.path(),
            &dir.path().join("host"),
            &dir.path().join("images"),
        );
        host.profile.nvme = NvmeAttachment::Passthrough;
        let Err(refused) = Node::open(host, b"") else {
            panic!("its disks are files");
        };
        assert!(
            refused.message.contains("agent.profile.nvme must be"),
            "{refused}"
        );
    }

    #[test]
    fn a_longest_lease_below_the_shortest_is_refused_at_the_start() {
        let dir = tempfile::tempdir().unwrap();
        let host = |max_lease_s| {
            let state = dir.path().join("host");
            let images = dir.path().join("images");
            let mut host = settings(true, Path::new("/"), &state, &images);
            host.limits.max_lease_s = max_lease_s;
            Node::open(host, b"")
        };
        let Err(refused) = host(4) else {
            panic!("no lease would lie between its bounds");
        };
        assert_eq!(refused.field, Some("agent.limits.max_lease_s"));
        assert_eq!(
            refused.message,
            "agent.limits.max_lease_s must be at least 5"
        );
        assert!(!dir.path().join("host").exists());
        assert!(host(5).is_ok());
    }

    #[test]
    fn e_14_c_31_c_32_a_host_keeps_images_where_the_catalog_says() {
        let dir = tempfile::tempdir().unwrap();
        let (live, elsewhere) = (Path::new("/"), dir.path().join("images"));
        let host = settings(false, live, &dir.path().join("host"), &elsewhere);
        let Err(refused) = Node::open(host, b"") else {
            panic!("it keeps its images where nobody looks for them");
        };
        assert!(
            refused.message.contains("agent.images.cache_dir") && refused.message.contains(FOLDER),
            "{refused}"
        );
        assert!(!elsewhere.exists());
        let path = gpuaas_common::image::path("slug");
        assert!(Path::new(&path).starts_with(FOLDER));
        let unset = crate::settings::Images::default();
        assert_eq!(unset.cache_dir, Path::new(FOLDER));
        // several lab hosts may be on one machine
        let lab = settings(true, live, &dir.path().join("lab"), &elsewhere);
        Node::open(lab, b"").unwrap();
        assert!(elsewhere.exists());
    }
}
