//! PCI functions from sysfs. Entries of `/sys/bus/pci/devices` are symlinks (A-60, A-61, INC-16).
use std::collections::BTreeMap;
use std::path::Path;

use gpuaas_proto::gpuaas::common::v1 as common;

use crate::host::root::HostRoot;
use crate::ids::PciAddress;

const DEVICES: &str = "/sys/bus/pci/devices";
const SLOTS: &str = "/sys/bus/pci/slots";
const GROUPS: &str = "/sys/kernel/iommu_groups";
/// Classes of PCI functions.
const DISPLAY: u32 = 0x03;
const BRIDGE: u32 = 0x06;
const NVIDIA: u32 = 0x10de;
const MELLANOX: u32 = 0x15b3;
/// Regions of a function that are BARs; its expansion ROM and bridge windows follow them.
const BARS: usize = 6;

/// What a function is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PciKind {
    /// 3D controller of NVIDIA.
    Gpu,
    /// NVSwitch of NVIDIA.
    NvSwitch,
    /// Network or InfiniBand controller of Mellanox, physical function.
    Fabric,
}

/// A PCI function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PciDevice {
    pub address: PciAddress,
    /// What it is to us.
    pub kind: PciKind,
    /// Model id of the vendor.
    pub model: u32,
    /// NUMA node, if the firmware reports it.
    pub numa_node: Option<u32>,
    /// Bound driver.
    pub driver: Option<String>,
    /// SR-IOV virtual functions, in the order of their numbers.
    pub functions: Vec<PciAddress>,
    /// Why the function cannot be used: it fell off the bus, or it cannot be read.
    pub dead: Option<String>,
    /// Why it cannot be given to a VM alone and whole.
    pub passthrough_faults: Vec<String>,
    /// Why none of its virtual functions can be used.
    pub fabric_faults: Vec<String>,
    /// Why one of them cannot.
    pub function_faults: BTreeMap<PciAddress, Vec<String>>,
    /// The buses and bridges above it, from the root.
    pub above: Vec<String>,
}

/// All GPUs, NVSwitches and fabric functions, by address.
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
        (NVIDIA, 0x0680) => PciKind::NvSwitch,
        // A virtual function has a link to its physical one.
        (MELLANOX, 0x0200 | 0x0207) if !root.exists(format!("{path}/physfn")) => PciKind::Fabric,
        _ => return None,
    };
    Some(PciDevice {
        kind,
        model: hex(root, &format!("{path}/device")).unwrap_or(0),
        numa_node: numa_node(root, &path),
        driver: root.link_name(format!("{path}/driver")),
        functions: functions(root, &path)
            .into_iter()
            .map(|(_, address)| address)
            .collect(),
        dead: dead(root, &path),
        passthrough_faults: Vec::new(),
        fabric_faults: Vec::new(),
        function_faults: BTreeMap::new(),
        above: above(&root.link(&path).unwrap_or_default()),
        address,
    })
}

/// What of a link into `/sys/devices` is above the device: "pci0000:15" and the addresses of bridges.
pub fn above(link: &Path) -> Vec<String> {
    let parts = link
        .components()
        .filter_map(|part| part.as_os_str().to_str());
    let mut parts: Vec<String> = parts
        .filter(|part| part.starts_with("pci") || part.parse::<PciAddress>().is_ok())
        .map(str::to_owned)
        .collect();
    parts.pop();
    parts
}

/// A VM gets all functions of an IOMMU group or none, what it pays for has all its lanes, and it is reset after it (D-56).
pub fn passthrough_faults(root: &HostRoot, address: &PciAddress) -> Vec<String> {
    let mut faults = group_faults(root, address);
    // each release ends with one, and its slot would be blocked by the first
    if !root.exists(format!("{DEVICES}/{address}/reset")) {
        faults.push("has no reset that reaches it alone".to_owned());
    }
    let link = link(root, &format!("{DEVICES}/{address}"));
    if let Some(link) = link.filter(|link| link.degraded) {
        faults.push(format!(
            "runs with {} of {} lanes",
            link.width, link.max_width
        ));
    }
    faults
}

/// Why its IOMMU group lets no VM have a device alone.
pub fn group_faults(root: &HostRoot, address: &PciAddress) -> Vec<String> {
    let path = format!("{DEVICES}/{address}");
    let mut faults = Vec::new();
    match iommu_group(root, &path) {
        None => faults.push("has no IOMMU group".to_owned()),
        Some(group) => {
            let (group, own) = (group.to_string(), address.to_string());
            if !root
                .names(format!("{GROUPS}/{group}/devices"))
                .contains(&own)
            {
                faults.push(format!("is not listed in its IOMMU group {group}"));
            }
            // a GPU goes with all its functions; virtual functions of one device are slots of their own
            let class = hex(root, &format!("{path}/class"));
            let others = match class.is_some_and(|class| class >> 16 == DISPLAY) {
                true => companions_of_device(root, &group, &own),
                false => companions(root, &group, &own),
            };
            if !others.is_empty() {
                faults.push(format!(
                    "shares IOMMU group {group} with {}",
                    others.join(", ")
                ));
            }
        }
    }
    faults
}

fn iommu_group(root: &HostRoot, path: &str) -> Option<u32> {
    root.link_name(format!("{path}/iommu_group"))?.parse().ok()
}

/// Everything that sysfs tells of a function; also of one that is none of [`PciKind`], and of one that is not there: then
/// the fault says so.
pub fn describe(root: &HostRoot, address: &PciAddress) -> common::PciFunction {
    let path = format!("{DEVICES}/{address}");
    let id = |what: &str| hex(root, &format!("{path}/{what}"));
    let (vendor, model) = (id("vendor"), id("device"));
    let group = iommu_group(root, &path);
    let fault = match vendor {
        Some(_) => dead(root, &path).unwrap_or_default(),
        None => "is not there".to_owned(),
    };
    common::PciFunction {
        pci_address: address.to_string(),
        model_id: match (vendor, model) {
            (Some(vendor), Some(model)) => format!("{vendor:04x}:{model:04x}"),
            _ => String::new(),
        },
        numa_node: numa_node(root, &path),
        driver: root.link_name(format!("{path}/driver")).unwrap_or_default(),
        native_driver: native_driver(vendor, id("class").map(|class| class >> 8)).to_owned(),
        iommu_group: group,
        iommu_companions: group.map_or_else(Vec::new, |group| {
            companions(root, &group.to_string(), &address.to_string())
        }),
        link: link(root, &path),
        bar_bytes: root
            .read_value(format!("{path}/resource"))
            .map_or_else(Vec::new, |text| bars(&text)),
        fault,
        serial: String::new(),
        physical_slot: physical_slot(root, address).unwrap_or_default(),
    }
}

/// NUMA node of the device with this folder.
pub fn numa_node(root: &HostRoot, path: &str) -> Option<u32> {
    let text = root.read_value(format!("{path}/numa_node"))?;
    // -1: the firmware does not tell
    u32::try_from(text.parse::<i64>().ok()?).ok()
}

/// The driver that serves a device where it is not passed through.
fn native_driver(vendor: Option<u32>, class: Option<u32>) -> &'static str {
    match (vendor, class) {
        (Some(NVIDIA), Some(0x0302)) => "nvidia",
        (Some(NVIDIA), Some(0x0680)) => "nvidia-nvswitch",
        (Some(MELLANOX), Some(0x0200 | 0x0207)) => "mlx5_core",
        (_, Some(0x0108)) => "nvme",
        _ => "",
    }
}

/// Members of an IOMMU group that go to a VM with this function: all others but bridges, which stay with the host.
pub fn companions(root: &HostRoot, group: &str, own: &str) -> Vec<String> {
    let mut members = root.names(format!("{GROUPS}/{group}/devices"));
    members.retain(|member| {
        let class = hex(root, &format!("{DEVICES}/{member}/class"));
        member != own && class.is_none_or(|class| class >> 16 != BRIDGE)
    });
    members
}

/// Those that are of another device.
pub fn companions_of_device(root: &HostRoot, group: &str, own: &str) -> Vec<String> {
    let device = |address: &str| {
        let device = address.rsplit_once('.');
        device.map(|(device, _)| device.to_owned())
    };
    let mut members = companions(root, group, own);
    members.retain(|member| device(member) != device(own));
    members
}

/// The link of the function in a folder, now and at best; none of a virtual function.
pub fn link(root: &HostRoot, path: &str) -> Option<common::PciLink> {
    let text = |what: &str| {
        root.read_value(format!("{path}/{what}"))
            .unwrap_or_default()
    };
    let width = |what: &str| text(what).parse::<u32>().unwrap_or(0);
    let link = common::PciLink {
        speed: text("current_link_speed"),
        width: width("current_link_width"),
        max_speed: text("max_link_speed"),
        max_width: width("max_link_width"),
        degraded: false,
    };
    // a virtual function has no link of its own: it says a width of 0
    if link.width == 0 && (link.speed.is_empty() || root.exists(format!("{path}/physfn"))) {
        return None;
    }
    Some(common::PciLink {
        degraded: link.width < link.max_width,
        ..link
    })
}

/// Sizes from the lines "start end flags" of `resource`.
pub fn bars(text: &str) -> Vec<u64> {
    let number = |word: Option<&str>| u64::from_str_radix(word?.strip_prefix("0x")?, 16).ok();
    let size = |line: &str| {
        let mut words = line.split_whitespace();
        let (start, end) = (number(words.next())?, number(words.next())?);
        match (start, end) {
            (0, 0) => Some(0),
            _ => end.checked_sub(start)?.checked_add(1),
        }
    };
    let sizes = text.lines().take(BARS).map(size);
    sizes.map(Option::unwrap_or_default).collect()
}

fn physical_slot(root: &HostRoot, address: &PciAddress) -> Option<String> {
    // slots are named without the function
    let text = address.to_string();
    let (device, _) = text.rsplit_once('.')?;
    let mut names = root.names(SLOTS).into_iter();
    names.find(|name| {
        root.read_value(format!("{SLOTS}/{name}/address"))
            .as_deref()
            == Some(device)
    })
}

/// The serial number in a function's vital product data. A card needs some time to tell it, so only an inspection asks.
pub fn serial(root: &HostRoot, address: &PciAddress) -> Option<String> {
    let data = root.bytes(format!("{DEVICES}/{address}/vpd")).ok()?;
    vital_product_data(&data).remove("SN")
}

/// The read-only fields of vital product data (PCI 3.0, appendix I), by keyword. What is malformed ends the list.
pub fn vital_product_data(bytes: &[u8]) -> BTreeMap<String, String> {
    const READ_ONLY: u8 = 0x90;
    let mut found = BTreeMap::new();
    let mut rest = bytes;
    while let [tag, after @ ..] = rest {
        let (length, body) = match after {
            // a large resource has its length in two bytes, a small one in its tag
            [low, high, body @ ..] if tag & 0x80 != 0 => {
                (usize::from(u16::from_le_bytes([*low, *high])), body)
            }
            _ if tag & 0x80 != 0 => return found,
            body => (usize::from(tag & 0x07), body),
        };
        let Some((own, next)) = body.split_at_checked(length) else {
            return found;
        };
        if *tag == READ_ONLY {
            fields(own, &mut found);
            return found;
        }
        if *tag == 0x78 {
            return found;
        }
        rest = next;
    }
    found
}

fn fields(mut rest: &[u8], found: &mut BTreeMap<String, String>) {
    while let [one, two, length, body @ ..] = rest {
        let Some((value, next)) = body.split_at_checked(usize::from(*length)) else {
            return;
        };
        let keyword: String = [*one, *two].iter().map(|byte| char::from(*byte)).collect();
        let text: String = value
            .iter()
            .map(|byte| char::from(*byte))
            .filter(|letter| letter.is_ascii_graphic() || *letter == ' ')
            .collect();
        if keyword != "RV" {
            found.insert(keyword, text.trim().to_owned());
        }
        rest = next;
    }
}

/// Every virtual function of a physical one with its number: the links `virtfn0`, `virtfn1` and so on.
pub fn functions(root: &HostRoot, path: &str) -> Vec<(u32, PciAddress)> {
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
    numbered
}

/// Where the attributes of a function are.
pub fn folder(address: &PciAddress) -> String {
    format!("{DEVICES}/{address}")
}

/// Why a function cannot be used. One that fell off the bus keeps its folder, and answers every read of its configuration
/// with ones. So does a healthy virtual function, whose vendor and device are its physical one's: that is asked instead.
pub fn dead(root: &HostRoot, path: &str) -> Option<String> {
    let physical = format!("{path}/physfn");
    let requested = match root.exists(&physical) {
        true => &physical,
        false => path,
    };
    match root.bytes(format!("{requested}/config")) {
        Ok(config) if config.starts_with(&[0xff; 4]) => Some("does not answer on its bus".into()),
        Ok(_) => None,
        // recordings do not have it
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => Some(format!("cannot be read: {error}")),
    }
}

/// Whether a driver gives a device to a VM: VFIO's own, or one that a vendor made of it.
pub fn is_vfio(driver: &str) -> bool {
    driver.replace('_', "-").ends_with("vfio-pci")
}

/// Whether a function exists.
pub fn exists(root: &HostRoot, address: &PciAddress) -> bool {
    root.exists(format!("{DEVICES}/{address}/vendor"))
}

fn hex(root: &HostRoot, path: &str) -> Option<u32> {
    u32::from_str_radix(root.read_value(path)?.strip_prefix("0x")?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_healthy_virtual_function_is_neither_dead_nor_below_its_best_link() {
        let dir = tempfile::tempdir().unwrap();
        let of = |address: &str| format!("sys/bus/pci/devices/{address}");
        let (pf, vf) = (of("0000:9c:00.0"), of("0000:9c:00.1"));
        let write = |path: String, bytes: &[u8]| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        };
        write(format!("{pf}/config"), &[0xb3, 0x15, 0x1e, 0x10]);
        write(format!("{vf}/config"), &[0xff; 4]);
        write(format!("{vf}/current_link_speed"), b"Unknown");
        write(format!("{vf}/current_link_width"), b"0");
        write(format!("{vf}/max_link_width"), b"16");
        let (vf, pf) = (format!("/{vf}"), format!("/{pf}"));
        let root = HostRoot::new(dir.path());
        assert!(dead(&root, &vf).is_some(), "it is no virtual function yet");
        assert!(link(&root, &vf).unwrap().degraded);
        std::os::unix::fs::symlink("../0000:9c:00.0", dir.path().join(&vf[1..]).join("physfn"))
            .unwrap();
        assert_eq!(dead(&root, &vf), None);
        assert_eq!(link(&root, &vf), None);
        // what its physical function lost it has lost too
        write(format!("{}/config", &pf[1..]), &[0xff; 4]);
        assert!(dead(&root, &vf).is_some());
    }

    #[test]
    fn a_60_bars_are_as_large_as_sysfs_says() {
        let text = "0x000021c042000000 0x000021c042ffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                    0x000021a000000000 0x000021bfffffffff 0x000000000014220c\nnonsense\n0x5 0x1 0x0\n";
        assert_eq!(bars(text), [16 << 20, 0, 128 << 30, 0, 0]);
    }

    #[test]
    fn h_29_a_serial_number_is_read_from_vital_product_data() {
        let mut vpd = vec![0x82, 4, 0];
        vpd.extend(b"ConX");
        let mut own = Vec::new();
        for (keyword, value) in [
            ("PN", "MCX75310AAS"),
            ("SN", "MT2301X00001 "),
            ("RV", "\u{1}"),
        ] {
            own.extend(keyword.as_bytes());
            own.push(u8::try_from(value.len()).unwrap());
            own.extend(value.as_bytes());
        }
        vpd.extend([0x90, u8::try_from(own.len()).unwrap(), 0]);
        vpd.extend(&own);
        vpd.push(0x78);
        let found = vital_product_data(&vpd);
        assert_eq!(found["SN"], "MT2301X00001");
        assert_eq!(found["PN"], "MCX75310AAS");
        for cut in 0..vpd.len() {
            vital_product_data(&vpd[..cut]);
        }
    }
}
