//! Machine, processors and memory of a host.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::common::v1 as common;

use crate::host::exec;
use crate::host::root::HostRoot;

const DMI: &str = "/sys/class/dmi/id";
const NODES: &str = "/sys/devices/system/node";
const PAGES: &str = "hugepages/hugepages-1048576kB";

/// The machine and its firmware.
pub fn machine(root: &HostRoot) -> common::Machine {
    let dmi = |what: &str| root.read_value(format!("{DMI}/{what}")).unwrap_or_default();
    common::Machine {
        vendor: dmi("sys_vendor"),
        model: dmi("product_name"),
        system_serial: dmi("product_serial"),
        chassis_serial: dmi("chassis_serial"),
        board_serial: dmi("board_serial"),
        bios_vendor: dmi("bios_vendor"),
        bios_version: dmi("bios_version"),
        bios_date: dmi("bios_date"),
        kernel_release: root
            .read_value("/proc/sys/kernel/osrelease")
            .unwrap_or_default(),
        operating_system: operating_system(&root.read("/etc/os-release").unwrap_or_default()),
        memory_bytes: memory(&root.read("/proc/meminfo").unwrap_or_default(), "MemTotal:"),
    }
}

fn operating_system(text: &str) -> String {
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.unwrap_or_default().trim().trim_matches('"').to_owned()
}

/// Bytes in a line like "MemTotal:  2113545132 kB", of a node "Node 0 MemTotal: …".
fn memory(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.split_once(field));
    let number = line.and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// Memory domains, by id.
pub fn numa_nodes(root: &HostRoot) -> Vec<common::NumaNode> {
    let mut ids: Vec<u32> = root
        .names(NODES)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    ids.sort_unstable();
    let node = |id: u32| {
        let value = |what: &str| {
            let text = root.read_value(format!("{NODES}/node{id}/{what}"));
            text.unwrap_or_default()
        };
        let pages = |what: &str| value(&format!("{PAGES}/{what}")).parse().unwrap_or(0);
        common::NumaNode {
            id,
            cpus: value("cpulist"),
            memory_bytes: memory(&value("meminfo"), "MemTotal:"),
            hugepages_1g: pages("nr_hugepages"),
            hugepages_1g_free: pages("free_hugepages"),
            distances: value("distance")
                .split_whitespace()
                .filter_map(|distance| distance.parse().ok())
                .collect(),
        }
    };
    ids.into_iter().map(node).collect()
}

/// Sockets, with the serial numbers that the firmware tells.
pub async fn processors(root: &HostRoot) -> Vec<common::Processor> {
    let mut found = sockets(&root.read("/proc/cpuinfo").unwrap_or_default());
    let answer = exec::run("dmidecode", &["--type", "processor"], exec::PROBE_LIMIT).await;
    if let Ok(output) = answer.and_then(|output| output.success("dmidecode")) {
        let serials = processor_serials(&output.stdout);
        for (socket, serial) in found.iter_mut().zip(serials) {
            socket.serial = serial;
        }
    }
    found
}

/// Reads `/proc/cpuinfo`.
pub fn sockets(text: &str) -> Vec<common::Processor> {
    let mut found: BTreeMap<u32, common::Processor> = BTreeMap::new();
    for block in text.split("\n\n") {
        let fields: BTreeMap<&str, &str> = block
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim(), value.trim()))
            .collect();
        if !fields.contains_key("processor") {
            continue;
        }
        let number = |name: &str| fields.get(name).and_then(|text| text.parse::<u32>().ok());
        let socket = number("physical id").unwrap_or(0);
        let one = found.entry(socket).or_insert_with(|| common::Processor {
            socket,
            model: fields
                .get("model name")
                .copied()
                .unwrap_or_default()
                .to_owned(),
            cores: number("cpu cores").unwrap_or(0),
            microcode: fields
                .get("microcode")
                .copied()
                .unwrap_or_default()
                .to_owned(),
            virtualization: fields.get("flags").is_some_and(|flags| {
                let mut flags = flags.split_whitespace();
                flags.any(|flag| matches!(flag, "vmx" | "svm"))
            }),
            ..common::Processor::default()
        });
        one.threads = one.threads.saturating_add(1);
    }
    found.into_values().collect()
}

/// Serial numbers in `dmidecode --type processor`, by socket; empty where the firmware tells none.
pub fn processor_serials(text: &str) -> Vec<String> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("Serial Number:"))
        .map(|serial| match serial.trim() {
            "Not Specified" | "Unknown" | "To Be Filled By O.E.M." => String::new(),
            serial => serial.to_owned(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_counted_with_their_threads() {
        let one = |cpu: u32, socket: u32| {
            format!(
                "processor\t: {cpu}\nmodel name\t: Xeon 8592+\nphysical id\t: {socket}\ncpu cores\t: 64\n\
                 microcode\t: 0x21\nflags\t\t: fpu vmx avx\n\n"
            )
        };
        let text: String = (0..8).map(|cpu| one(cpu, cpu % 2)).collect();
        let found = sockets(&text);
        assert_eq!(found.len(), 2);
        assert_eq!(
            (found[1].socket, found[1].threads, found[1].cores),
            (1, 4, 64)
        );
        assert!(found[0].virtualization);
        assert!(!sockets(&text.replace(" vmx", ""))[0].virtualization);
        assert!(sockets("").is_empty());
    }

    #[test]
    fn what_a_firmware_does_not_know_is_no_serial_number() {
        let text = "Processor Information\n\tSerial Number: Not Specified\n\nProcessor\n\tSerial Number: 7A\n";
        assert_eq!(processor_serials(text), ["", "7A"]);
        assert_eq!(memory("Node 0 MemTotal:       4 kB\n", "MemTotal:"), 4096);
        assert_eq!(
            operating_system("A=b\nPRETTY_NAME=\"Ubuntu 24.04\"\n"),
            "Ubuntu 24.04"
        );
    }
}
