//! InfiniBand, Ethernet and BlueField devices with all their virtual functions, from `/sys/class/infiniband` and PCI.
use gpuaas_proto::gpuaas::common::v1 as common;

use super::pci::{self, PciDevice, describe, folder};
use crate::host::root::HostRoot;
use crate::ids::PciAddress;

/// Models of BlueField cards whose port is a ConnectX.
const BLUEFIELD: [u32; 4] = [0xa2d2, 0xa2d6, 0xa2dc, 0xa2df];
/// What the kernel calls a port that passes packets on.
const ACTIVE: &str = "ACTIVE";
/// What the kernel calls a port whose fabric knows no GUIDs.
const ETHERNET: &str = "Ethernet";

/// Everything that sysfs tells of a device.
pub fn device(root: &HostRoot, device: &PciDevice) -> common::FabricDevice {
    let path = folder(&device.address);
    let rdma = root.names(format!("{path}/infiniband")).into_iter().next();
    let own = |what: &str| {
        let rdma = rdma.as_ref()?;
        root.read_value(format!("{path}/infiniband/{rdma}/{what}"))
    };
    let number = |what: &str| {
        let text = root.read_value(format!("{path}/{what}"));
        text.and_then(|text| text.parse().ok()).unwrap_or(0)
    };
    common::FabricDevice {
        function: Some(describe(root, &device.address)),
        bluefield: BLUEFIELD.contains(&device.model),
        firmware_version: own("fw_ver").unwrap_or_default(),
        board_id: own("board_id").unwrap_or_default(),
        node_guid: own("node_guid").unwrap_or_default(),
        ports: rdma.as_ref().map_or_else(Vec::new, |rdma| {
            ports(root, &format!("{path}/infiniband/{rdma}"))
        }),
        sriov_totalvfs: number("sriov_totalvfs"),
        sriov_numvfs: number("sriov_numvfs"),
        virtual_functions: virtual_functions(root, &path, rdma.as_deref()),
        interfaces: root.names(format!("{path}/net")),
        rdma_device: rdma.unwrap_or_default(),
    }
}

fn ports(root: &HostRoot, rdma: &str) -> Vec<common::FabricPort> {
    let mut numbers: Vec<u32> = root
        .names(format!("{rdma}/ports"))
        .iter()
        .filter_map(|name| name.parse().ok())
        .collect();
    numbers.sort_unstable();
    let port = |number: u32| {
        let value = |what: &str| {
            let text = root.read_value(format!("{rdma}/ports/{number}/{what}"));
            text.unwrap_or_default()
        };
        common::FabricPort {
            number,
            link_layer: value("link_layer"),
            state: without_number(&value("state")),
            physical_state: without_number(&value("phys_state")),
            rate: value("rate"),
            guid: port_guid(&value("gids/0")),
        }
    };
    numbers.into_iter().map(port).collect()
}

/// "4: ACTIVE" is "ACTIVE".
fn without_number(text: &str) -> String {
    let name = text.split_once(": ").map_or(text, |(_, name)| name);
    name.trim().to_owned()
}

/// The lower half of a port's first GID.
fn port_guid(gid: &str) -> String {
    let parts: Vec<&str> = gid.split(':').collect();
    match parts.as_slice() {
        [_, _, _, _, lower @ ..] if lower.len() == 4 => lower.join(":"),
        _ => String::new(),
    }
}

fn virtual_functions(
    root: &HostRoot,
    path: &str,
    rdma: Option<&str>,
) -> Vec<common::VirtualFunction> {
    let one = |(number, address): (u32, PciAddress)| {
        let value = |what: &str| {
            let rdma = rdma?;
            root.read_value(format!(
                "{path}/infiniband/{rdma}/device/sriov/{number}/{what}"
            ))
            .or_else(|| root.read_value(format!("{path}/sriov/{number}/{what}")))
        };
        common::VirtualFunction {
            number,
            function: Some(describe(root, &address)),
            node_guid: value("node").unwrap_or_default(),
            port_guid: value("port").unwrap_or_default(),
            link_policy: value("policy").unwrap_or_default(),
        }
    };
    pci::functions(root, path).into_iter().map(one).collect()
}

/// What stands against every function of a device: none of its ports passes packets on, or it has not made the functions
/// that it was told to make.
pub fn faults(device: &common::FabricDevice) -> Vec<String> {
    let mut faults = Vec::new();
    if device.rdma_device.is_empty() {
        faults.push("has no RDMA device: its driver is not loaded".to_owned());
    } else if !device.ports.iter().any(|port| port.state == ACTIVE) {
        let states: Vec<String> = device
            .ports
            .iter()
            .map(|port| match port.state.as_str() {
                "" => format!("port {} does not report its state", port.number),
                state => format!("port {} is {state}", port.number),
            })
            .collect();
        faults.push(match states.is_empty() {
            true => "has no port".to_owned(),
            false => states.join(", "),
        });
    }
    let found = device.virtual_functions.len();
    if u32::try_from(found).unwrap_or(u32::MAX) != device.sriov_numvfs {
        faults.push(format!(
            "has {found} of the {} virtual functions that are configured",
            device.sriov_numvfs
        ));
    }
    faults
}

/// What stands against one virtual function.
pub fn function_faults(
    device: &common::FabricDevice,
    one: &common::VirtualFunction,
    passthrough: &[String],
) -> Vec<String> {
    let mut faults: Vec<String> = passthrough.to_vec();
    if let Some(function) = one.function.as_ref().filter(|own| !own.fault.is_empty()) {
        faults.push(function.fault.clone());
    }
    let ethernet = |port: &common::FabricPort| port.link_layer == ETHERNET;
    let needs_guid = device.ports.is_empty() || !device.ports.iter().all(ethernet);
    // the fabric manager of the site knows a node by its GUID, and one of zeros is not known at all
    let set = |guid: &str| guid.bytes().any(|byte| !matches!(byte, b'0' | b':' | b'x'));
    if needs_guid && !(set(&one.node_guid) && set(&one.port_guid)) {
        faults.push("has no GUID of its own".to_owned());
    }
    if one.link_policy == "Down" {
        faults.push("is held down by its link policy".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut common::FabricDevice);

    fn device() -> common::FabricDevice {
        let one = |number| common::VirtualFunction {
            number,
            function: Some(common::PciFunction::default()),
            node_guid: format!("a0:88:c2:03:00:00:00:0{}", number + 1),
            port_guid: format!("a0:88:c2:03:00:00:00:0{}", number + 1),
            link_policy: "Follow".into(),
        };
        common::FabricDevice {
            rdma_device: "mlx5_0".into(),
            ports: vec![common::FabricPort {
                number: 1,
                link_layer: "InfiniBand".into(),
                state: ACTIVE.into(),
                ..common::FabricPort::default()
            }],
            sriov_totalvfs: 16,
            sriov_numvfs: 2,
            virtual_functions: vec![one(0), one(1)],
            ..common::FabricDevice::default()
        }
    }

    #[test]
    fn a_144_a_device_counts_only_with_a_link_and_all_its_functions() {
        assert!(faults(&device()).is_empty());
        let changes: [(Change, &str); 4] = [
            (|one| one.rdma_device.clear(), "no RDMA device"),
            (|one| one.ports[0].state = "DOWN".into(), "port 1 is DOWN"),
            (|one| one.ports.clear(), "no port"),
            (|one| one.sriov_numvfs = 8, "has 2 of the 8"),
        ];
        for (change, expected) in changes {
            let mut changed = device();
            change(&mut changed);
            let found = faults(&changed).join("; ");
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn a_144_a_function_counts_only_with_a_guid_of_its_own() {
        let judge = |change: fn(&mut common::VirtualFunction)| {
            let device = device();
            let mut one = device.virtual_functions[0].clone();
            change(&mut one);
            function_faults(&device, &one, &[])
        };
        assert!(judge(|_| ()).is_empty());
        assert_eq!(
            judge(|one| one.node_guid.clear()),
            ["has no GUID of its own"]
        );
        let zero = judge(|one| one.port_guid = "00:00:00:00:00:00:00:00".into());
        assert_eq!(zero, ["has no GUID of its own"]);
        assert_eq!(judge(|one| one.link_policy = "Down".into()).len(), 1);
        let mut ethernet = device();
        ethernet.ports[0].link_layer = ETHERNET.into();
        let plain = common::VirtualFunction::default();
        assert!(function_faults(&ethernet, &plain, &[]).is_empty());
        ethernet.ports[0].link_layer.clear();
        assert_eq!(
            function_faults(&ethernet, &plain, &[]).len(),
            1,
            "not known to be one"
        );
        let gone = judge(|one| one.function.as_mut().unwrap().fault = "is not there".into());
        assert_eq!(gone, ["is not there"]);
    }

    #[test]
    fn names_and_guids_are_what_sysfs_says() {
        assert_eq!(without_number("4: ACTIVE\n"), "ACTIVE");
        assert_eq!(without_number(""), "");
        assert_eq!(
            port_guid("fe80:0000:0000:0000:a088:c203:00ab:cdef"),
            "a088:c203:00ab:cdef"
        );
        assert_eq!(port_guid("nonsense"), "");
    }
}
