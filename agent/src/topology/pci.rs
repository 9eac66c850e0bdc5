//! PCI functions from sysfs. Entries of `/sys/bus/pci/devices` are symlinks (INC-16).
use crate::host::root::HostRoot;
use crate::ids::PciAddress;

const DEVICES: &str = "/sys/bus/pci/devices";
const NVIDIA: u32 = 0x10de;
const MELLANOX: u32 = 0x15b3;

/// What a function is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciKind {
    /// 3D controller of NVIDIA.
    Gpu,
    /// Network or InfiniBand controller of Mellanox, physical function.
    Fabric,
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciDevice {
    pub address: PciAddress,
    /// What it is to us.
    pub kind: PciKind,
    /// NUMA node, if the firmware reports it.
    pub numa_node: Option<u32>,
    /// Bound driver.
    pub driver: Option<String>,
    /// SR-IOV virtual functions, in the order of their numbers.
    pub functions: Vec<PciAddress>,
    /// Why the function cannot be used: it fell off the bus, or it cannot be read.
    pub dead: Option<String>,
}

/// All GPUs and fabric functions, by address.
pub fn devices(root: &HostRoot) -> Vec<PciDevice> {
    root.names(DEVICES)
        .iter()
        .filter_map(|name| device(root, name))
        .collect()
}

fn device(root: &HostRoot, name: &str) -> Option<PciDevice> {
    let address: PciAddress = name.parse().ok()?;
    let path = format!("{DEVICES}/{name}");
    let vendor = hex(root, &format!("{path}/vendor"))?;
    let class = hex(root, &format!("{path}/class"))? >> 8;
    let kind = match (vendor, class) {
        (NVIDIA, 0x0302) => PciKind::Gpu,
        // A virtual function has a link to its physical one.
        (MELLANOX, 0x0200 | 0x0207) if !root.exists(format!("{path}/physfn")) => PciKind::Fabric,
        _ => return None,
    };
    let numa = root
        .read_value(format!("{path}/numa_node"))
        .and_then(|text| text.parse::<i64>().ok());
    Some(PciDevice {
        address,
        kind,
        numa_node: numa.and_then(|node| u32::try_from(node).ok()),
        driver: root.link_name(format!("{path}/driver")),
        functions: functions(root, &path),
        dead: dead(root, &path),
    })
}

/// Every virtual function of a physical one: the links `virtfn0`, `virtfn1` and so on.
fn functions(root: &HostRoot, path: &str) -> Vec<PciAddress> {
    let mut numbered: Vec<(u32, PciAddress)> = root
        .names(path)
        .iter()
        .filter_map(|name| {
            let number = name.strip_prefix("virtfn")?.parse().ok()?;
            let function = root.link_name(format!("{path}/{name}"))?.parse().ok()?;
            Some((number, function))
        })
        .collect();
    numbered.sort();
    numbered.into_iter().map(|(_, function)| function).collect()
}

/// A device that fell off the bus keeps its folder, and answers every read of its configuration with ones.
fn dead(root: &HostRoot, path: &str) -> Option<String> {
    match std::fs::read(root.path(format!("{path}/config"))) {
        Ok(config) if config.starts_with(&[0xff; 4]) => Some("does not answer on its bus".into()),
        Ok(_) => None,
        // recordings do not have it
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}

/// Whether a function exists.
pub fn exists(root: &HostRoot, address: &PciAddress) -> bool {
    root.exists(format!("{DEVICES}/{address}/vendor"))
}

fn hex(root: &HostRoot, path: &str) -> Option<u32> {
    u32::from_str_radix(root.read_value(path)?.strip_prefix("0x")?, 16).ok()
}
