//! GPUs, virtual functions, links and disks: what is wrong with a device is wrong with its slot.
use std::collections::BTreeSet;

use gpuaas_proto::gpuaas::common::v1::PciLink;

use super::CheckResult;
use super::disk_health::stable_links;
use crate::checks::{
    FABRIC_LINKS, FABRIC_VFS, GPU_LINKS, IOMMU_GROUPS, SLOT_DISKS, VF_LINKS, VFIO_BINDING,
};
use crate::disk::DiskIdentity;
use crate::disk::identity::{Resolution, is_nvme_disk, loop_devices, resolve_lab};
use crate::disk::passthrough;
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::ids::PciAddress;
use crate::node::Node;
use crate::settings::{FabricKind, HostProfile, Hypervisor, NvmeAttachment, Settings};
use crate::topology::pci::{self, PciDevice, PciKind};

const DEVICES: &str = "/sys/bus/pci/devices";
const NO_FABRIC: &str = "this site has no fabric";

/// Checks of the GPUs and of the virtual functions that go with them.
pub(super) fn of_gpus(
    root: &HostRoot,
    profile: &HostProfile,
    fabric: FabricKind,
    approved: &BTreeSet<PciAddress>,
) -> Vec<CheckResult> {
    if profile.lab || profile.hypervisor == Hypervisor::Qemu {
        let why = "this host gives no GPU to a VM";
        return [&IOMMU_GROUPS, &VFIO_BINDING, &FABRIC_VFS, &VF_LINKS]
            .map(|check| CheckResult::skip(check, why))
            .into();
    }
    let devices = pci::devices(root);
    let of = |kind| {
        devices
            .iter()
            .filter(move |device| device.kind == kind && device.dead.is_none())
            .collect::<Vec<_>>()
    };
    let no_fabric = fabric == FabricKind::None;
    let (gpus, fabric) = (of(PciKind::Gpu), of(PciKind::Fabric));
    vec![
        iommu_groups(root, &gpus),
        vfio_binding(root, &gpus, approved),
        match no_fabric {
            true => CheckResult::skip(&FABRIC_VFS, NO_FABRIC),
            false => fabric_vfs(root, &fabric, gpus.len()),
        },
        match no_fabric {
            true => CheckResult::skip(&VF_LINKS, NO_FABRIC),
            false => vf_links(root, &fabric, approved),
        },
    ]
}

/// Whether the bus of each GPU is as wide as it can be. A lower speed alone is no proof of a fault, and none at all of a GPU
/// that rests.
pub(super) fn gpu_links(root: &HostRoot, profile: &HostProfile) -> CheckResult {
    if profile.lab {
        return CheckResult::skip(&GPU_LINKS, "a lab host has no GPU");
    }
    let (mut bad, mut slow) = (Vec::new(), Vec::new());
    let mut count = 0;
    for gpu in pci::devices(root) {
        if gpu.kind != PciKind::Gpu || gpu.dead.is_some() {
            continue;
        }
        count += 1;
        let (address, folder) = (gpu.address.to_string(), pci::folder(&gpu.address));
        match pci::link(root, &folder) {
            None => slow.push(format!("{address} does not report its link")),
            Some(link) if link.degraded => {
                let lanes = format!("runs with {} of {} lanes", link.width, link.max_width);
                bad.push((address, lanes));
            }
            Some(link) if is_slow(&link) && !rests(root, &folder) => {
                slow.push(format!(
                    "{address} runs at {} of {}",
                    link.speed, link.max_speed
                ));
            }
            Some(_) => {}
        }
    }
    if bad.is_empty() && !slow.is_empty() {
        return CheckResult::warn(&GPU_LINKS, slow.join("; "));
    }
    CheckResult::of_devices(
        &GPU_LINKS,
        bad,
        format!("{count} GPUs have all their lanes"),
    )
}

/// By the number that a speed begins with, as in "32.0 GT/s PCIe".
fn is_slow(link: &PciLink) -> bool {
    let speed = |text: &str| text.split(' ').next()?.parse::<f64>().ok();
    speed(&link.speed) < speed(&link.max_speed) && speed(&link.speed).is_some()
}

/// Whether a device sleeps while no VM has it.
fn rests(root: &HostRoot, folder: &str) -> bool {
    let state = root.read_value(format!("{folder}/power_state"));
    state.is_some_and(|state| state.starts_with("D3"))
}

fn iommu_groups(root: &HostRoot, gpus: &[&PciDevice]) -> CheckResult {
    let bad = gpus.iter().filter_map(|gpu| {
        let address = gpu.address.to_string();
        let what = match root.link_name(format!("{DEVICES}/{address}/iommu_group")) {
            None => "is in no IOMMU group".to_owned(),
            Some(group) => {
                let companions = pci::companions_of_device(root, &group, &address);
                if companions.is_empty() {
                    return None;
                }
                format!("shares IOMMU group {group} with {}", companions.join(", "))
            }
        };
        Some((address, what))
    });
    let good = format!("{} GPUs, each alone in its group", gpus.len());
    CheckResult::of_devices(&IOMMU_GROUPS, bad.collect(), good)
}

/// A device without a driver waits for libvirt to bind it. Of the functions of the fabric, those of approved slots count:
/// one that went back to its own driver is no slot's any more (D-56).
fn vfio_binding(
    root: &HostRoot,
    gpus: &[&PciDevice],
    approved: &BTreeSet<PciAddress>,
) -> CheckResult {
    let of_gpus = gpus.iter().map(|gpu| (&gpu.address, gpu.driver.clone()));
    let is_function =
        |address: &&PciAddress| root.link(format!("{DEVICES}/{address}/physfn")).is_some();
    let functions = approved.iter().filter(is_function).map(|address| {
        let driver = root.link_name(format!("{DEVICES}/{address}/driver"));
        (address, driver)
    });
    let bad = of_gpus.chain(functions).filter_map(|(address, driver)| {
        let driver = driver?;
        (!pci::is_vfio(&driver)).then(|| (address.to_string(), format!("is bound to {driver}")))
    });
    let bound = gpus.iter().filter(|gpu| gpu.driver.is_some()).count();
    let good = format!(
        "{bound} of {} GPUs are bound to VFIO, the others to nothing",
        gpus.len()
    );
    CheckResult::of_devices(&VFIO_BINDING, bad.collect(), good)
}

/// A device that did not make what it was told to make takes its own slots out of service. Too few functions for all GPUs only
/// warn: a slot that has one keeps it, and one that lacks it is not approved.
fn fabric_vfs(root: &HostRoot, fabric: &[&PciDevice], gpus: usize) -> CheckResult {
    let number = |device: &PciDevice, name: &str| {
        let text = root.read_value(format!("{DEVICES}/{}/{name}", device.address))?;
        text.parse::<usize>().ok()
    };
    let mut wrong = Vec::new();
    let mut functions = 0;
    for device in fabric {
        let links = device.functions.len();
        functions += links;
        // recordings of old do not have the count
        if let Some(made) = number(device, "sriov_numvfs")
            && made != links
        {
            let what = format!("has {made} virtual functions and {links} links to them");
            wrong.push((device.address.to_string(), what));
        }
    }
    if wrong.is_empty() && functions < gpus {
        let could: usize = fabric
            .iter()
            .filter_map(|device| number(device, "sriov_totalvfs"))
            .sum();
        let detail = format!(
            "{functions} virtual functions for {gpus} GPUs; the devices could have {could}"
        );
        return CheckResult::warn(&FABRIC_VFS, detail);
    }
    let good = format!(
        "{functions} virtual functions of {} devices for {gpus} GPUs",
        fabric.len()
    );
    CheckResult::of_devices(&FABRIC_VFS, wrong, good)
}

/// Functions that go out by a port without a link, and those of approved slots that are held down: the link policy of a function
/// is set once its slot is approved.
fn vf_links(
    root: &HostRoot,
    fabric: &[&PciDevice],
    approved: &BTreeSet<PciAddress>,
) -> CheckResult {
    let mut bad = Vec::new();
    let mut count = 0;
    for device in fabric {
        let (address, folder) = (device.address.to_string(), pci::folder(&device.address));
        let functions = pci::functions(root, &folder);
        if functions.is_empty() {
            continue;
        }
        let port = link_state(root, &address);
        for (number, function) in functions {
            count += 1;
            let policy = root.read_value(format!("{folder}/sriov/{number}/policy"));
            let what = match &port {
                None => format!("has no link: {address} reports no state of a port"),
                Some((state, false)) => format!("has no link: {address} is {state}"),
                Some((_, true))
                    if policy.as_deref() == Some("Down") && approved.contains(&function) =>
                {
                    "is held down by its link policy".to_owned()
                }
                Some((_, true)) => continue,
            };
            bad.push((function.to_string(), what));
        }
    }
    CheckResult::of_devices(
        &VF_LINKS,
        bad,
        format!("{count} virtual functions have a link"),
    )
}

/// Links of the ports whose functions slots have.
pub(super) fn fabric_links(root: &HostRoot, settings: &Settings) -> CheckResult {
    if settings.profile.lab || settings.fabric.kind == FabricKind::None {
        return CheckResult::skip(&FABRIC_LINKS, "there is no fabric");
    }
    let devices = pci::devices(root);
    let used = devices.iter().filter(|device| {
        device.kind == PciKind::Fabric && device.dead.is_none() && !device.functions.is_empty()
    });
    let states: Vec<(String, bool)> = used
        .filter_map(|device| {
            let (state, good) = link_state(root, &device.address.to_string())?;
            Some((format!("{} is {state}", device.address), good))
        })
        .collect();
    let down: Vec<&str> = states
        .iter()
        .filter(|(_, good)| !good)
        .map(|(text, _)| text.as_str())
        .collect();
    let detail = match down.is_empty() {
        true => format!("{} ports are connected", states.len()),
        false => down.join("; "),
    };
    CheckResult::judge(&FABRIC_LINKS, down.is_empty(), detail)
}

/// State of a device's port, of several of the best one, and whether it is good; `None` where the kernel tells none.
fn link_state(root: &HostRoot, address: &str) -> Option<(String, bool)> {
    let folder = format!("{DEVICES}/{address}");
    if let Some(name) = root.names(format!("{folder}/infiniband")).first() {
        let ports = format!("{folder}/infiniband/{name}/ports");
        let numbers = root.names(&ports).into_iter();
        let states =
            numbers.filter_map(|number| root.read_value(format!("{ports}/{number}/state")));
        let states = states.map(|state| (state.ends_with("ACTIVE"), state));
        return states.max().map(|(good, state)| (state, good));
    }
    let name = root.names(format!("{folder}/net")).into_iter().next()?;
    let state = root.read_value(format!("{folder}/net/{name}/operstate"))?;
    let good = state == "up";
    Some((state, good))
}

/// Disks that do not answer: each makes its own slot unschedulable (D-80).
pub(super) async fn slot_disks(node: &Node) -> CheckResult {
    let drifted = drifted(node).await;
    let gone = drifted
        .into_iter()
        .map(|disk| (disk, "is not behind its loop device".to_owned()));
    let (mut dead, count) = blocking::here(|| dead_nvme(&node.root));
    if node.settings.profile.nvme == NvmeAttachment::Passthrough {
        dead.extend(blocking::here(|| not_passable(node)));
    }
    let good = match node.settings.lab_disks.len() {
        0 => format!("{count} NVMe disks answer"),
        lab => format!("{lab} lab disks are behind their loop devices"),
    };
    let bad = match node.settings.profile.lab {
        true => gone.collect(),
        false => dead,
    };
    CheckResult::of_devices(&SLOT_DISKS, bad, good)
}

/// Disks of slots that no VM can have by their controllers, on a host that gives them so: a launch would fail after its clone.
fn not_passable(node: &Node) -> Vec<(String, String)> {
    // a journal that cannot be read shows elsewhere
    let slots = node.journal.devices().unwrap_or_default();
    let links = stable_links(&node.root).into_iter();
    // a link outlives its disk for a moment, when a VM gets it
    let links = links.filter(|(name, _)| node.root.exists(format!("/sys/class/block/{name}")));
    let own = links.filter(|(_, link)| slots.iter().any(|slot| slot.device == *link));
    own.filter_map(|(name, link)| Some((link, passthrough::place_fault(&node.root, &name)?)))
        .collect()
}

/// Configured disks that are not where they should be (D-80).
pub(super) async fn drifted(node: &Node) -> Vec<String> {
    let disks = &node.settings.lab_disks;
    if disks.is_empty() {
        return Vec::new();
    }
    // read once for all of them; what cannot be read is nowhere
    let loops = loop_devices().await.unwrap_or_default();
    let gone = disks
        .iter()
        .filter(|disk| !matches!(resolve_lab(disk, &loops), Resolution::Device(_)));
    gone.map(|disk| DiskIdentity::Lab(disk.id).to_string())
        .collect()
}

/// NVMe disks whose controller is not live or whose namespace has no size, by their stable link; and how many are good.
fn dead_nvme(root: &HostRoot) -> (Vec<(String, String)>, usize) {
    let links = stable_links(root);
    let mut dead = Vec::new();
    let mut good = 0;
    let mut seen = Vec::new();
    for name in root.names("/sys/class/block") {
        if !is_nvme_disk(&name) {
            continue;
        }
        let controller = controller_of(&name).to_owned();
        let state = root.read_value(format!("/sys/class/nvme/{controller}/state"));
        let size = root.read_value(format!("/sys/class/block/{name}/size"));
        let what = match (state, size.as_deref()) {
            (Some(state), _) if state != "live" => format!("has a controller that is {state}"),
            (_, Some("0")) => "has no size".to_owned(),
            _ => {
                good += 1;
                seen.push(controller);
                continue;
            }
        };
        let device = links.get(&name).cloned().unwrap_or(format!("/dev/{name}"));
        dead.push((device, what));
        seen.push(controller);
    }
    // a controller that lost its namespaces with its life
    for controller in root.names("/sys/class/nvme") {
        let state = root.read_value(format!("/sys/class/nvme/{controller}/state"));
        if let Some(state) = state.filter(|state| state == "dead")
            && !seen.contains(&controller)
        {
            let pci = root.read_value(format!("/sys/class/nvme/{controller}/address"));
            dead.push((
                pci.unwrap_or(controller),
                format!("is {state}, and has no disk any more"),
            ));
        }
    }
    (dead, good)
}

/// "nvme3" of "nvme3n1".
fn controller_of(disk: &str) -> &str {
    let digits = disk.strip_prefix("nvme").unwrap_or_default();
    let length = digits.find('n').unwrap_or(digits.len());
    &disk[.."nvme".len() + length]
}

#[cfg(test)]
#[path = "devices_tests.rs"]
mod tests;
