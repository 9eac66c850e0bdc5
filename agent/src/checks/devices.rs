//! Checks of devices. What is wrong with one of them is wrong with its slot, and not with the host.
use super::{Check, Observer, Scope, Severities, Severity};

/// Each GPU is alone in its IOMMU group.
pub const IOMMU_GROUPS: Check = Check {
    id: "iommu_groups",
    proves: "Each GPU can be assigned to a VM without other devices.",
    observed: "Each GPU is in an IOMMU group whose other members are bridges or functions of the same device.",
    remedy: "Enable ACS in the firmware, or move the card: its group has a device of another slot.",
    steps: &[
        "`ls -l /sys/bus/pci/devices/ADDRESS/iommu_group/devices` shows the devices of the group.",
        "Only the slots of the named GPUs are unschedulable.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// GPUs are bound to VFIO.
pub const VFIO_BINDING: Check = Check {
    id: "vfio_binding",
    proves: "No driver of the host uses a GPU or a virtual function of an approved slot: each is bound to VFIO, or unbound until its VM starts.",
    observed: "The driver of each GPU and of each approved function. The agent does not use the GPU tools of the host: they cannot see a GPU that is bound to VFIO (INC-37).",
    remedy: "Bind the devices to vfio-pci: restart gpuaas-slice-vfio-devices.",
    steps: &[
        "`lspci -nnk -d 10de:` shows the driver in use.",
        "`gpuaas-node-agent bind-devices --dry-run` shows the devices that would be bound, and the refused ones with the reason.",
        "`systemctl restart gpuaas-slice-vfio-devices`. A GPU without a slot is not bound: discover and approve it first.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// The bus of each GPU is as wide and as fast as it can be.
pub const GPU_LINKS: Check = Check {
    id: "gpu_links",
    proves: "Each GPU has all of its PCIe lanes, and so its full bandwidth.",
    observed: "The current and the maximum width of each GPU's link. A lower speed with all lanes is a warning, since an idle GPU may save power.",
    remedy: "Reseat the GPU or its riser; if lanes stay lost, replace the part.",
    steps: &[
        "`lspci -vv -s ADDRESS | grep -E 'LnkCap|LnkSta'` shows the maximum and the current link; `dmesg | grep -i -e AER -e pcieport` shows errors of the bus.",
        "A lower speed may be power saving: run a load on the GPU in its VM, and check again.",
        "Only the slots of the named GPUs are unschedulable, until the lanes are back.",
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
    proves: "Each GPU can be connected for a VM: Fabric Manager offers it, and no other user has it.",
    observed: "Fabric Manager's table has a single-GPU partition for each GPU, and no partition is active without a VM of this host. Skipped where `agent.gpu_fabric.manager` is `none`.",
    remedy: "Look at the GPU that is named: its partition is missing, or active for somebody else.",
    steps: &[
        "`fmpm -l` shows the table, with the module ids of the GPUs as `physicalId`; `gpuaas-node-agent topology` shows the module id of each GPU.",
        "Only the slots of the named GPUs, and groups with these GPUs, are unschedulable.",
        "[A partition is sick](gpu-partition.md) lists the causes.",
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
        "Only the slots of the named disks are unschedulable. A returning disk is inspected before its slot is schedulable again.",
    ],
    severity: Severities::VMS,
    scope: Scope::Slots,
    by: Observer::Agent,
};

/// What the disks say of themselves.
pub const DISK_HEALTH: Check = Check {
    id: "disk_health",
    proves: "No disk of the host reports a failure.",
    observed: "`nvme smart-log` of each NVMe disk, at most ten minutes ago. A critical warning and spare blocks below their threshold fail the disk; media errors, 90 % of its rated life used and missing health data are a warning.",
    remedy: "Replace the disk, then run discovery again and approve its slot anew.",
    steps: &[
        "`nvme smart-log /dev/nvmeXn1`: `critical_warning`, `available_spare`, `media_errors` and `percentage_used`; the serial number is in `nvme list`.",
        "Only the slots of the named disks are unschedulable. A worn disk or a disk with media errors stays schedulable: plan its replacement.",
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
    proves: "There is a virtual function of the fabric for every GPU.",
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
    proves: "Each virtual function of the fabric has a link: its port is active, and the function is not disabled.",
    observed: "The state of the port of each device that has virtual functions, and the link policy of each function. A function without a link makes only its slot unschedulable.",
    remedy: "Look at the cable and the switch of the device that is named, and at the link policy of its functions.",
    steps: &[
        "`ibstat`, or `cat /sys/class/infiniband/*/ports/*/state`: `4: ACTIVE` is good. `INIT` means that no subnet manager reached the port.",
        "`cat /sys/class/infiniband/DEVICE/device/sriov/*/policy`: `Down` is set with `ip link set DEVICE vf N state disable` or by the fabric's own tools; `Follow` and `Up` are good.",
        "Only the slots of the named functions are unschedulable, until the link is back.",
    ],
    severity: Severities::GPU_SLICES,
    scope: Scope::Slots,
    by: Observer::Agent,
};
