//! The deployed host's bootstrap (I-64..I-88): packages, kernel arguments, modules, libvirt, units, the network of the fabric, LVM and mdadm. It makes an installed
//! Ubuntu capable of slices and marks nothing schedulable (I-79).
use super::host_settings::HostSettings;
use super::mode::Modes;
use super::systemd::{enable_now, unit};
use super::{Action, Machine, Plan, assembly, grub, ipoib, packages, runtime, tuning};
use crate::error::HostResult;
use crate::host::root::HostRoot;

/// Modules that are loaded at every start (I-84).
pub const MODULES_FILE: &str = "/etc/modules-load.d/gpuaas-vfio.conf";
const MODULES: [&str; 3] = ["vfio", "vfio_iommu_type1", "vfio_pci"];

/// Units of a slice host besides the agent (I-220), with their texts for a host whose package lacks them.
pub const UNITS: [(&str, &str); 4] = [
    (
        "gpuaas-slice-fabric-vfs.service",
        include_str!("../../../deploy/deb/gpuaas-slice-fabric-vfs.service"),
    ),
    (
        "gpuaas-slice-vfio-devices.service",
        include_str!("../../../deploy/deb/gpuaas-slice-vfio-devices.service"),
    ),
    (
        "gpuaas-slice-ovs-bridge.service",
        include_str!("../../../deploy/deb/gpuaas-slice-ovs-bridge.service"),
    ),
    (
        "gpuaas-slice-network-baseline.service",
        include_str!("../../../deploy/deb/gpuaas-slice-network-baseline.service"),
    ),
];
/// Those that are started now. The others act at the next start, once there is an approved topology.
const STARTED: [&str; 2] = [
    "gpuaas-slice-ovs-bridge.service",
    "gpuaas-slice-network-baseline.service",
];

/// A start waits for one network and never for long: a host has fabric ports that nobody connected (INC-33). Its
/// name is read after that of the drop-in that netplan makes.
const WAIT_ONLINE: (&str, &str) = (
    "/etc/systemd/system/systemd-networkd-wait-online.service.d/90-gpuaas.conf",
    "[Service]\nExecStart=\nExecStart=/usr/lib/systemd/systemd-networkd-wait-online --any --timeout=60\n",
);

/// Scripts under the names that the documents give (I-99, I-110, I-218).
const SCRIPTS: [(&str, &str); 3] = [
    (
        "/usr/local/sbin/gpuaas-slice-network-baseline.sh",
        include_str!("../../../scripts/ops/gpuaas_slice_host_net_baseline.sh"),
    ),
    (
        "/usr/local/sbin/gpuaas-slice-storage-transition",
        include_str!("../../../scripts/ops/gpuaas_slice_storage_transition.sh"),
    ),
    (
        "/usr/local/sbin/gpuaas-h200-host-image-validate.sh",
        include_str!("../../../scripts/ops/gpuaas_h200_host_image_validate.sh"),
    ),
];

/// The network baseline's former name (I-97, I-98, CON-01).
const FORMER_UNIT: &str = "gpuaas-slice-host-net-baseline.service";
const FORMER_FILES: [&str; 2] = [
    "/etc/systemd/system/gpuaas-slice-host-net-baseline.service",
    "/usr/local/sbin/gpuaas-slice-host-net-baseline",
];

/// What the caller opts into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Install packages; off where the image has them.
    pub packages: bool,
    /// 1 GiB hugepages to reserve at boot; 0: the arguments stay as they are (I-72).
    pub hugepages: u32,
    /// The tuning profile of the network (I-73).
    pub tuning: bool,
    /// Keep LVM and mdadm from the disks of slots; off where the site does.
    pub limit_disk_assembly: bool,
    /// The caller may restart the host, and does where it is needed (I-71).
    pub reboot_if_required: bool,
}

/// Plans it. `stamp` names backups, as 20260417152532.
///
/// # Errors
/// Something that must be known cannot be observed.
pub async fn plan(
    machine: &Machine,
    settings: &HostSettings,
    modes: Modes,
    options: Options,
    stamp: &str,
) -> HostResult<Plan> {
    let mut plan = Plan::new("deploy-bootstrap");
    if options.packages {
        packages::plan(machine, &mut plan).await?;
    } else {
        plan.note("packages: the caller says that the image has them");
    }
    let mut arguments = grub::iommu_arguments(machine)?;
    if options.hugepages > 0 {
        arguments.extend(grub::hugepage_arguments(options.hugepages));
    }
    let restart_helps = match grub::plan(machine, &mut plan, &arguments, stamp) {
        Ok(helps) => helps,
        Err(error) => {
            plan.refuse(error.message);
            false
        }
    };
    modules(machine, &mut plan)?;
    enable_now(machine, &mut plan, "libvirtd.service", "VMs run by libvirt").await?;
    one_service_name(machine, &mut plan, stamp).await?;
    scripts(machine, &mut plan)?;
    units(machine, &mut plan).await?;
    ipoib::plan(machine, &mut plan, &settings.fabric, stamp).await?;
    if options.tuning {
        tuning::plan(machine, &mut plan)?;
    }
    match modes.slice() {
        Ok(()) => {
            if options.limit_disk_assembly {
                assembly::plan(machine, &mut plan, stamp).await?;
            } else {
                plan.note("LVM and mdadm: the caller says that the site keeps them from the disks of slots");
            }
            let own = runtime::plan(machine, modes, settings).await?;
            plan.append(own);
        }
        // the same host may become one for bare metal: its GPU services stay (CON-26)
        Err(why) => plan.note(format!("runtime-prepare: {why}")),
    }
    if restart_helps && options.reboot_if_required {
        match restart_is_safe(machine, settings).await {
            Ok(()) => {
                let reason = "the kernel's arguments count from the next start on";
                plan.run("systemctl", &["reboot"], reason);
            }
            Err(why) => plan.note(format!("no restart: {why}")),
        }
    }
    Ok(plan)
}

/// Whether a restart of the host ends nobody's VM: libvirt has none, and no allocation holds a slot.
async fn restart_is_safe(machine: &Machine, settings: &HostSettings) -> Result<(), String> {
    let live = runtime::live(machine, &settings.state_dir).await;
    let live = live.map_err(|error| format!("nobody knows which VMs run: {}", error.message))?;
    match live.first() {
        None => Ok(()),
        Some(name) => Err(format!(
            "{name} is on this host; drain the node, and restart the host when no VM is left"
        )),
    }
}

fn modules(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    let text = MODULES.map(|name| format!("{name}\n")).concat();
    let reason = "VFIO at every start";
    plan.file(machine, MODULES_FILE, (&text, 0o644), None, reason)?;
    let is_loaded = |name: &str| machine.root.exists(format!("/sys/module/{name}"));
    if !MODULES.into_iter().all(is_loaded) {
        let arguments = ["-a", MODULES[0], MODULES[1], MODULES[2]];
        plan.run("modprobe", &arguments, "VFIO now");
    }
    Ok(())
}

/// Only one service makes the network: what earlier tools installed under the former name goes, with a backup of a unit
/// that somebody may have changed (I-97, INC-05).
async fn one_service_name(machine: &Machine, plan: &mut Plan, stamp: &str) -> HostResult<()> {
    let found = unit(machine, FORMER_UNIT).await?;
    if found.is_there && (found.is_active || found.is_enabled) {
        let reason = "gpuaas-slice-network-baseline does its work";
        plan.run("systemctl", &["disable", "--now", FORMER_UNIT], reason);
    }
    for path in FORMER_FILES {
        if machine.root.exists(path) {
            let action = Action::RemoveFile {
                path: path.into(),
                backup: Some(machine.free_path(&format!("{path}.gpuaas-backup-{stamp}"))),
            };
            plan.step(action, "the former name of the network baseline");
        }
    }
    Ok(())
}

fn scripts(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    for (path, text) in SCRIPTS {
        plan.file(
            machine,
            path,
            (text, 0o755),
            None,
            "a command under its documented name",
        )?;
    }
    Ok(())
}

async fn units(machine: &Machine, plan: &mut Plan) -> HostResult<()> {
    let (path, text) = WAIT_ONLINE;
    let reason = "no start waits for ports that nobody connected";
    let mut written = plan.file(machine, path, (text, 0o644), None, reason)?;
    for (name, text) in UNITS {
        let folders = ["/lib/systemd/system", "/usr/lib/systemd/system"];
        let is_packaged = folders
            .iter()
            .any(|folder| machine.root.exists(format!("{folder}/{name}")));
        if !is_packaged {
            let path = format!("/etc/systemd/system/{name}");
            written |= plan.file(machine, path, (text, 0o644), None, "a unit of a slice host")?;
        }
    }
    let mut found = Vec::new();
    for (name, _) in UNITS {
        found.push((name, unit(machine, name).await?));
    }
    // an earlier run may have been broken off between the file and this
    if written || found.iter().any(|(_, unit)| unit.needs_reload) {
        plan.run("systemctl", &["daemon-reload"], "units were written");
    }
    for (name, found) in found {
        if !found.is_enabled {
            plan.run("systemctl", &["enable", name], "at every start of the host");
        }
    }
    for name in STARTED {
        if !unit(machine, name).await?.is_active {
            plan.run("systemctl", &["start", name], "the guests' network now");
        }
    }
    Ok(())
}

/// The validation keys of a slice host (I-88).
pub async fn validation(machine: &Machine) -> Vec<(String, String)> {
    let root = &machine.root;
    let libvirt = unit(machine, "libvirtd.service").await;
    let libvirt = match libvirt.is_ok_and(|unit| unit.is_active) {
        true => "active",
        false => "inactive",
    };
    let mut keys = of_files(root);
    keys.push(("libvirtd".to_owned(), libvirt.to_owned()));
    keys
}

fn of_files(root: &HostRoot) -> Vec<(String, String)> {
    let kvm = match root.exists("/dev/kvm") {
        true => "present",
        false => "missing",
    };
    [
        (
            "cmdline",
            root.read_value("/proc/cmdline").unwrap_or_default(),
        ),
        ("kvm", kvm.to_owned()),
        (
            "iommu_groups",
            root.names("/sys/kernel/iommu_groups").len().to_string(),
        ),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}
