//! Checks of the machine and its software.
use super::{Check, Observer, Scope, Severities, Severity};

/// The agent serves.
pub const NODE_AGENT: Check = Check {
    id: "node_agent",
    proves: "The agent of this host runs and serves.",
    observed: "Its systemd unit is active; where systemd has none, its address takes a connection.",
    remedy: "start the agent: systemctl enable --now gpuaas-node-agent",
    steps: &[
        "`systemctl status gpuaas-node-agent` and `journalctl -u gpuaas-node-agent -n 100`.",
        "If the agent ends immediately, its last log line names the invalid setting or certificate.",
    ],
    severity: Severities::EVERYWHERE,
    scope: Scope::Host,
    by: Observer::Parity,
};

/// The host was deployed for what its node is offered as (A-48, INC-07).
pub const NODE_MODE: Check = Check {
    id: "node_mode",
    proves: "The host was deployed for the mode of its node: slices or bare metal.",
    observed: "The setting `agent.profile.mode` of the deployment equals the mode in the platform's answer to every heartbeat.",
    remedy: "Deploy the host again with the profile of its node's mode, or give the node the mode of its profile.",
    steps: &[
        "`gpuaas admin node list` shows the node's mode; the MAAS tag of the machine shows the profile.",
        "Decide which mode is right. Deploy the machine again with the other profile, or change the mode of the node.",
    ],
    severity: Severities::EVERYWHERE,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The site's bootstrap came to its end (A-13, INC-06, I-191, I-192).
pub const SITE_BOOTSTRAP: Check = Check {
    id: "site_bootstrap",
    proves: "The site's bootstrap is complete: a deployed and enrolled host that is only partly configured is not ready.",
    observed: "The markers of the profile (`h200-ib.done`, on slice hosts `h200-slice-vm.done` too) are there, and the validation record of a slice host says that KVM is present, IOMMU groups are there and libvirtd is active.",
    remedy: "Run the site's bootstrap again and read its log: /var/lib/gpuaas/site-bootstrap holds markers and validation record.",
    steps: &[
        "`ls -l /var/lib/gpuaas/site-bootstrap` and read `h200-slice-vm.validation`.",
        "If a marker is missing, run the `bootstrap.sh` of its bundle again; the slice bundle runs the InfiniBand baseline first.",
        "If the record says `kvm=missing` or `iommu_groups=0`, see `kvm` and `iommu`, restart the host, and run the validation again.",
    ],
    severity: Severities::GPUS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// libvirt answers.
pub const LIBVIRT: Check = Check {
    id: "libvirt",
    proves: "libvirt answers, so the agent can create and remove VMs.",
    observed: "A call for the version of libvirt; hanging calls are a warning.",
    remedy: "Start libvirtd and read its log; restart it when calls do not come back.",
    steps: &[
        "`systemctl status libvirtd`, `journalctl -u libvirtd -n 100`, `virsh -c qemu:///system version`.",
        "`systemctl restart libvirtd` does not stop VMs.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Hardware virtualisation works (D-12..D-17, INC-08).
pub const KVM: Check = Check {
    id: "kvm",
    proves: "The processors can run VMs: the kernel creates a VM and a virtual CPU.",
    observed: "`/dev/kvm` and a module of the vendor exist, and the emulator of the profile creates a KVM VM without running it. Skipped if the profile uses software emulation.",
    remedy: "Enable virtualisation (VMX or SVM) in the firmware and load kvm_intel or kvm_amd.",
    steps: &[
        "`dmesg | grep -i -e kvm -e vmx`: \"disabled by BIOS\" must be fixed in the firmware, not in the host's software (A-83).",
        "Enable `ProcVirtualization` in the BIOS, restart, and check that `/dev/kvm` is there.",
        "While this check fails, the agent starts no clone and no write to a disk (D-12).",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The IOMMU is on (D-15, D-18).
pub const IOMMU: Check = Check {
    id: "iommu",
    proves: "The IOMMU is active, so a device can be assigned to a single VM.",
    observed: "`/sys/kernel/iommu_groups` has groups. The kernel's command line and log are not sufficient.",
    remedy: "Enable VT-d in the firmware and boot with intel_iommu=on iommu=pt.",
    steps: &[
        "`ls /sys/kernel/iommu_groups | wc -l`: 0 with the right command line means that the IOMMU is disabled in the firmware.",
        "`gpuaas-node-agent deploy-bootstrap` adds `intel_iommu=on iommu=pt` to the kernel arguments and keeps all others; then restart the host.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// VFIO's modules are loaded (D-16).
pub const VFIO: Check = Check {
    id: "vfio",
    proves: "The kernel can assign PCI devices to VMs.",
    observed: "The modules vfio, vfio_iommu_type1 and vfio_pci are loaded.",
    remedy: "Load vfio, vfio_iommu_type1 and vfio_pci.",
    steps: &[
        "`modprobe -a vfio vfio_iommu_type1 vfio_pci`.",
        "Add the modules to `/etc/modules-load.d/gpuaas-vfio.conf`, so that they are loaded after a restart.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// No host service holds the GPUs (D-96, D-97, INC-18).
pub const GPU_SERVICES: Check = Check {
    id: "gpu_services",
    proves: "No service of the host holds the GPUs, so libvirt can take them.",
    observed: "nvidia-persistenced, nvidia-fabricmanager and the engine of DCGM do not run. Fabric Manager may run if `agent.gpu_fabric` names it on this host.",
    remedy: "Stop nvidia-persistenced and nvidia-fabricmanager on a slice host.",
    steps: &[
        "`gpuaas-node-agent runtime-prepare`, in slice mode, disables and stops them.",
        "`fuser -v /dev/nvidia*` shows other processes that hold the GPUs.",
    ],
    severity: Severities {
        bare_metal: Some(Severity::Info),
        ..Severities::GPU_SLICES
    },
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Fabric Manager answers (D-96).
pub const FABRIC_MANAGER: Check = Check {
    id: "fabric_manager",
    proves: "The GPUs of a VM can be connected only with each other.",
    observed: "Fabric Manager answers with its table of partitions. Skipped where `agent.gpu_fabric.manager` is `none`.",
    remedy: "Start Fabric Manager in its shared NVSwitch mode: FABRIC_MODE=1, and FABRIC_MODE_RESTART=1 while VMs run.",
    steps: &[
        "`fmpm -l`, with `--hostname` or `--unix-domain-socket` according to `agent.gpu_fabric.address`, shows the answer of Fabric Manager.",
        "`journalctl -u nvidia-fabricmanager`, on the host or in its service VM. It exits if it does not get the list of active partitions within 60 seconds of a restart; the agent sends the list every 10 seconds.",
        "[A partition is sick](gpu-partition.md#fabric-manager-does-not-answer) has the steps of a restart.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The driver of a bare-metal host answers for its GPUs.
pub const GPU_DRIVER: Check = Check {
    id: "gpu_driver",
    proves: "The tenant of a bare-metal node gets every GPU: the driver of the host answers for each GPU.",
    observed: "The GPU tool of the driver lists as many GPUs as the bus has. It is used only on a bare-metal host (INC-37).",
    remedy: "Load the driver of the GPUs, and look for one that fell off the bus.",
    steps: &[
        "`nvidia-smi --list-gpus` and `lspci -d 10de:` show the missing GPU.",
        "`dmesg | grep -i -e NVRM -e Xid` shows why the GPU does not answer.",
    ],
    severity: Severities {
        slice: None,
        lab: None,
        bare_metal: Some(Severity::Warn),
    },
    scope: Scope::Host,
    by: Observer::Agent,
};

/// 1 GiB hugepages (D-54, D-55).
pub const HUGEPAGES: Check = Check {
    id: "hugepages",
    proves: "The host has hugepages of 1 GiB, if its profile offers them.",
    observed: "The kernel's count of pages of exactly this size, including pages in use by VMs. Pages of 2 MiB do not count.",
    remedy: "Reserve 1 GiB hugepages at boot.",
    steps: &[
        "`gpuaas-node-agent deploy-bootstrap --hugepages-1g 512` adds the hugepages to the kernel arguments; then restart the host.",
        "`cat /sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages`.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// UEFI files and emulator (D-51).
pub const FIRMWARE: Check = Check {
    id: "firmware",
    proves: "The firmware files of VMs exist.",
    observed: "UEFI code without Secure Boot, its template of variables, and the emulator exist.",
    remedy: "Install the packages ovmf and qemu-system-x86.",
    steps: &["`apt-get install ovmf qemu-system-x86`."],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The hypervisor's user reaches its keys (D-98, INC-19).
pub const LIBVIRT_FOLDER: Check = Check {
    id: "libvirt_folder",
    proves: "The user of the hypervisor can read the keys that libvirt creates.",
    observed: "The mode of `/var/lib/libvirt`.",
    remedy: "Give /var/lib/libvirt the mode 0755, so that the hypervisor's user reads its keys.",
    steps: &["`gpuaas-node-agent runtime-prepare`, or `chmod 0755 /var/lib/libvirt`."],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Programs that the agent runs.
pub const TOOLS: Check = Check {
    id: "tools",
    proves: "Every program that the agent runs is installed.",
    observed: "Each is found in the agent's PATH.",
    remedy: "Install the missing programs.",
    steps: &[
        "The detail names them. Packages: `qemu-utils`, `genisoimage`, `util-linux`, `fdisk`, `iproute2`, `nftables`, `nvme-cli`, `openvswitch-switch`. Without `nvme` a wipe can neither sanitize nor format a disk.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// LVM and mdadm leave the disks of slots alone.
pub const DISK_ASSEMBLY: Check = Check {
    id: "disk_assembly",
    proves: "The host leaves alone what tenants write to the disks of slots: neither LVM nor mdadm assembles it.",
    observed: "Where LVM is installed, its settings have a `global_filter` that rejects disks, or `use_devicesfile = 1` and the file `/etc/lvm/devices/system.devices`. Where mdadm is installed, `/etc/mdadm/mdadm.conf` has `AUTO -all`.",
    remedy: "Run gpuaas-node-agent deploy-bootstrap again, and do by hand what it skips.",
    steps: &[
        "`gpuaas-node-agent deploy-bootstrap --dry-run` shows what it would write, and why it skips LVM or mdadm: it never touches what the host itself stands on.",
        "By hand: a `global_filter` in `/etc/lvm/lvmlocal.conf` that accepts the disks of the host by their links in `/dev/disk/by-id` and rejects `/dev/nvme`; `ARRAY` lines for the arrays of the host (`mdadm --detail --scan`) and `AUTO -all` in `/etc/mdadm/mdadm.conf`. Then `update-initramfs -u -k all`.",
        "If a slot is blocked because `dm-…` or `md…` is stacked on its disk: `vgchange -an NAME` or `mdadm --stop /dev/mdN`, then repair the slot.",
    ],
    severity: Severities::GPU_SLICES.warn(),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// RDMA tools (D-11).
pub const RDMA_TOOLS: Check = Check {
    id: "rdma_tools",
    proves: "The programs to inspect the fabric are installed.",
    observed: "`ibv_devinfo` or `rdma` is found in the agent's PATH.",
    remedy: "Install the packages rdma-core and ibverbs-utils.",
    steps: &["`apt-get install rdma-core ibverbs-utils infiniband-diags`."],
    severity: Severities::GPUS.warn(),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The relay's key.
pub const RELAY_KEY: Check = Check {
    id: "relay_key",
    proves: "The host can log in to its guests, which proves that they are up.",
    observed: "The agent's key exists, readable only by root.",
    remedy: "Give the relay's key back its place and the mode 0600, or restart the agent, which makes a new one for new VMs.",
    steps: &[
        "`ls -l /var/lib/gpuaas/terminal`.",
        "Running VMs have the key of their start: restore this key if you have a copy.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The image cache.
pub const IMAGE_CACHE: Check = Check {
    id: "image_cache",
    proves: "The image cache can store images, and the agent its journal.",
    observed: "The agent writes a file without a name to the cache, and `agent.limits.min_free_bytes` are free on the file systems of `agent.images.cache_dir` and `agent.state_dir`.",
    remedy: "Make the image cache writable, and free some space on the host.",
    steps: &[
        "`df -h` and `ls -ld` of the settings `agent.images.cache_dir` and `agent.state_dir`.",
        "The agent removes cached images that no operation needs before it fails this check; find what else uses the space: `du -xh --max-depth=2 / | sort -h | tail`.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};

/// A restart is pending.
pub const REBOOT: Check = Check {
    id: "reboot",
    proves: "No package waits for a restart of the host.",
    observed: "`/run/reboot-required` is not there.",
    remedy: "Drain the host and restart it.",
    steps: &["Drain the node, wait until its slots are empty, restart, and enable it again."],
    severity: Severities::all(Severity::Warn),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// VMs that powered off with the host.
pub const VMS_AFTER_RESTART: Check = Check {
    id: "vms_after_restart",
    proves: "Every VM that ran before the restart of the host runs again, or its owner stopped it.",
    observed: "The result of the last operation of each VM, compared with libvirt.",
    remedy: "Start the allocations of these VMs again.",
    steps: &["The detail names the VMs; start their allocations, or ask their owners."],
    severity: Severities::VMS.warn(),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The way in for the site's own people (A-52, INC-35).
pub const DEPLOY_USER: Check = Check {
    id: "deploy_user",
    proves: "The deploy user of the site can log in with a key: the installer may have added the key only for the default user of the image.",
    observed: "`.ssh/authorized_keys` in the home folder of the setting `agent.bootstrap.deploy_user` has a key. Skipped where the setting is empty.",
    remedy: "Give the deploy user the site's key; until then log in as the image's own user.",
    steps: &[
        "`getent passwd USER`, and `sudo cat ~USER/.ssh/authorized_keys`.",
        "Log in as the default user of the image (`ubuntu`) and add the site's key, or correct the user data of the site's profile.",
    ],
    severity: Severities::all(Severity::Warn),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// Host telemetry is behind its own proxy (A-19, I-207, INC-36, CON-09).
pub const NETDATA: Check = Check {
    id: "netdata",
    proves: "Only the host's own proxy can reach Netdata of the host.",
    observed: "The listening sockets of the kernel: Netdata's own are on loopback, one of them 127.0.0.1:19998. Skipped where it is not installed. It never makes a host unschedulable.",
    remedy: "Bind Netdata to 127.0.0.1:19998, and let nginx listen on port 19999.",
    steps: &[
        "`ss -ltnp | grep -E ':1999[89]'` shows who listens where.",
        "Netdata on `0.0.0.0:19999` means that the site's bootstrap is incomplete: run it again, or set `bind to = 127.0.0.1:19998` in `/etc/netdata/netdata.conf` and check the site `gpuaas-netdata-edge` of nginx.",
    ],
    severity: Severities::GPUS.warn(),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The agent's settings.
pub const SETTINGS: Check = Check {
    id: "settings",
    proves: "The settings of the host's network are usable.",
    observed: "`agent.network.gateway` is an IPv4 address with prefix length.",
    remedy: "Correct the setting agent.network.gateway.",
    steps: &[
        "Write the address like `10.100.0.1/24` in the agent's configuration file and restart the agent.",
    ],
    severity: Severities::VMS,
    scope: Scope::Host,
    by: Observer::Agent,
};
