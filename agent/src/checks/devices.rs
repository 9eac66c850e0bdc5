//! Checks of devices. What is wrong with one of them is wrong with its slot, and not with the host.
use super::{Check, Observer, Scope, Severities, Severity};

/// Each GPU is alone in its IOMMU group.
pub const IOMMU_GROUPS: Check = Check {
    id: "iommu_groups",
    proves: "Each GPU can be given to a VM alone: nothing else goes with it.",
    observed: "Each GPU is in an IOMMU group whose other members are bridges or functions of the same device.",
    remedy: "Enable ACS in the firmware, or move the card: its group has a device of another slot.",
    steps: &[
        "`ls -l /sys/bus/pci/devices/ADDRESS/iommu_group/devices` shows what shares the group.",
        "Only the slots whose GPU the evidence names are unschedulable.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// GPUs are bound to VFIO.
pub const VFIO_BINDING: Check = Check {
    id: "vfio_binding",
    proves: "No driver of the host uses a GPU, or a virtual function of an approved slot: each is bound to VFIO, or to nothing until its VM starts.",
    observed: "The driver of each GPU and of each approved function. The GPU tools of the host are not asked: they cannot see a GPU that is bound to VFIO (INC-37).",
    remedy: "Bind the devices to vfio-pci: restart gpuaas-slice-vfio-devices.",
    steps: &[
        "`lspci -nnk -d 10de:` shows the driver in use.",
        "`gpuaas-node-agent bind-devices --dry-run` shows what would be bound, and what is refused and why.",
        "`systemctl restart gpuaas-slice-vfio-devices`. A GPU that no slot has is not bound: discover and approve it first.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// The bus of each GPU is as wide and as fast as it can be.
pub const GPU_LINKS: Check = Check {
    id: "gpu_links",
    proves: "Each GPU has all the lanes of its bus: what a tenant pays for is not half as fast.",
    observed: "The width of each GPU's link now and at best. A lower speed with all lanes is a warning, since a GPU that rests may save power.",
    remedy: "Reseat the GPU or its riser; if lanes stay lost, replace the part.",
    steps: &[
        "`lspci -vv -s ADDRESS | grep -E 'LnkCap|LnkSta'` shows the best link and the one now; `dmesg | grep -i -e AER -e pcieport` what the bus complained of.",
        "A speed below the best may be power saving: run a load on the GPU in its VM, and look again.",
        "Only the slots whose GPU the evidence names are unschedulable. Lanes that come back make them schedulable again.",
    ],
    severity: Severities {
        bare_metal: Some(Severity::Warn),
        ..Severities::GPU_SLICES
    },
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// NVSwitch partitions of single GPUs (D-96).
pub const GPU_PARTITIONS: Check = Check {
    id: "gpu_partitions",
    proves: "Each GPU can be connected for a VM: Fabric Manager offers it, and nobody else has it.",
    observed: "Fabric Manager's table has a partition of each GPU alone, and no partition is active that is of no VM of this host. Skipped where `agent.gpu_fabric.manager` is `none`.",
    remedy: "Look at the GPU that is named: its partition is missing, or active for somebody else.",
    steps: &[
        "`fmpm -l` shows the table, with the module ids of the GPUs as `physicalId`; `gpuaas-node-agent topology` shows the module id of each GPU.",
        "Only the slots whose GPU the evidence names are unschedulable, and with them every group of GPUs that has one of them.",
        "[A partition is sick](gpu-partition.md) tells the causes apart.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// The disks of slots (D-80).
pub const SLOT_DISKS: Check = Check {
    id: "slot_disks",
    proves: "The disks of the host answer.",
    observed: "The controller of each NVMe disk is live and its namespace has a size; each disk of a lab host is behind its loop device.",
    remedy: "Look at the disk: reseat or replace it, then run discovery again and approve its slot anew.",
    steps: &[
        "`nvme list`, `dmesg | grep nvme`, `cat /sys/class/nvme/*/state`.",
        "Only the slots whose disk the evidence names are unschedulable. A disk that comes back is inspected before its slot is schedulable again.",
    ],
    severity: Severities::VMS,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// What the disks say of themselves.
pub const DISK_HEALTH: Check = Check {
    id: "disk_health",
    proves: "No disk of the host says that it fails: a slot's tenant gets a disk that answers for its data.",
    observed: "`nvme smart-log` of each NVMe disk, at most ten minutes ago. A critical warning and spare blocks below their threshold fail the disk; media errors, 90 % of its rated life used and a disk that does not tell are a warning.",
    remedy: "Replace the disk, then run discovery again and approve its slot anew.",
    steps: &[
        "`nvme smart-log /dev/nvmeXn1`: `critical_warning`, `available_spare`, `media_errors` and `percentage_used`; the serial number is in `nvme list`.",
        "Only the slots whose disk the evidence names are unschedulable. A disk that is only worn or had errors stays schedulable: plan its replacement.",
        "Before a disk leaves the site, see [how to wipe disks, and prove it](../how-to/wipes.md).",
    ],
    severity: Severities {
        bare_metal: Some(Severity::Warn),
        ..Severities::GPU_SLICES
    },
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// Virtual functions of the fabric (A-122, A-144, J-21, J-25).
pub const FABRIC_VFS: Check = Check {
    id: "fabric_vfs",
    proves: "Every GPU can have a virtual function of the fabric for itself.",
    observed: "Each physical function with virtual ones has as many links as its count says; if not, its own slots are unschedulable. Fewer virtual functions than GPUs are a warning: a slot without one is not approved.",
    remedy: "Make the virtual functions: restart gpuaas-slice-fabric-vfs.",
    steps: &[
        "`cat /sys/bus/pci/devices/*/sriov_totalvfs /sys/bus/pci/devices/*/sriov_numvfs`.",
        "`systemctl restart gpuaas-slice-fabric-vfs`; the firmware must have `SriovGlobalEnable`.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// Links of the fabric.
pub const FABRIC_LINKS: Check = Check {
    id: "fabric_links",
    proves: "The ports of the fabric that have virtual functions are connected.",
    observed: "The state of each port below `/sys/class/infiniband`; where there is none, of the network interface.",
    remedy: "Look at the cable and the switch of the ports that are named.",
    steps: &["`ibstat` or `cat /sys/class/infiniband/*/ports/*/state`; `4: ACTIVE` is good."],
    severity: Severities::GPUS.warn(),
    scope: Scope::Host,
    by: Observer::Agent,
};

/// The link of each virtual function.
pub const VF_LINKS: Check = Check {
    id: "vf_links",
    proves: "Each virtual function of the fabric has a link: the port that it goes out by passes packets on, and nobody holds the function down.",
    observed: "The state of the port of each device that has virtual functions, and the link policy of each function. One without a link makes its own slot unschedulable.",
    remedy: "Look at the cable and the switch of the device that is named, and at the link policy of its functions.",
    steps: &[
        "`ibstat`, or `cat /sys/class/infiniband/*/ports/*/state`: `4: ACTIVE` is good. `INIT` means that no subnet manager reached the port.",
        "`cat /sys/class/infiniband/DEVICE/device/sriov/*/policy`: `Down` is set with `ip link set DEVICE vf N state disable` or by the fabric's own tools; `Follow` and `Up` are good.",
        "Only the slots whose function the evidence names are unschedulable, until the link is back.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};
