//! Where the devices, CPUs and memory of a VM lie on its host. The guest gets its sockets, the distances between them and
//! the place of each GPU as they are (D-47).
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::{HostError, HostResult};
use crate::host::root::HostRoot;
use crate::ids::PciAddress;

const NODES: &str = "/sys/devices/system/node";
const DEVICES: &str = "/sys/bus/pci/devices";
/// MiB of a hugepage.
const PAGE_MIB: u32 = 1024;
/// Base address registers of a function; what follows in `resource` is its ROM and its virtual functions'.
const BARS: usize = 6;
/// Flag of a register in `resource`: it may lie above 4 GiB.
const MEM_64: u64 = 0x0010_0000;
/// Up to this the machine's own window is enough.
const SMALL_WINDOW: u64 = 16 << 30;

/// Devices of one slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotDevices {
    /// NUMA node of the slot, by its approved bindings.
    pub numa_node: Option<u32>,
    /// PCI functions, the GPU first.
    pub functions: Vec<PciAddress>,
}

/// A part of the guest on one NUMA node of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    /// NUMA node of the host.
    pub host_node: u32,
    /// CPUs of that node, as the kernel lists them, for example `0-31,64-95`.
    pub cpus: String,
    /// Virtual CPUs.
    pub vcpus: u32,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Distance to each cell, in their order.
    pub distances: Vec<u32>,
}

/// A function and the cell it is near.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    pub address: PciAddress,
    /// Index of a cell.
    pub cell: Option<usize>,
}

/// Where a VM lies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Locality {
    /// Empty when a slot's NUMA node is not known, as on a host without GPUs.
    pub cells: Vec<Cell>,
    pub functions: Vec<Function>,
    /// Bytes of the window for the functions' memory above 4 GiB; 0: the machine's own is enough.
    pub window_bytes: u64,
}

impl Locality {
    /// CPUs of all cells.
    pub fn cpus(&self) -> String {
        let cpus: Vec<&str> = self.cells.iter().map(|cell| cell.cpus.as_str()).collect();
        cpus.join(",")
    }
}

/// Reads where slots lie, and divides virtual CPUs and memory among their NUMA nodes by the number of slots on each.
///
/// # Errors
/// The host lacks a NUMA node of the bindings, or does not say what it has.
pub fn locality(
    root: &HostRoot,
    slots: &[SlotDevices],
    vcpus: u32,
    memory_mib: u32,
    hugepages: bool,
) -> HostResult<Locality> {
    let nodes: Option<Vec<u32>> = slots.iter().map(|slot| slot.numa_node).collect();
    let mut nodes = nodes.unwrap_or_default();
    nodes.sort_unstable();
    nodes.dedup();
    let unit = if hugepages { PAGE_MIB } else { 1 };
    let mut left = (vcpus, memory_mib / unit, slots.len());
    let mut cells = Vec::with_capacity(nodes.len());
    for node in &nodes {
        let here = |slot: &&SlotDevices| slot.numa_node == Some(*node);
        let share = slots.iter().filter(here).count();
        // of what is left: the last one gets the rest
        let cell = Cell {
            host_node: *node,
            cpus: cpus(root, *node)?,
            vcpus: part(left.0, share, left.2),
            memory_mib: part(left.1, share, left.2) * unit,
            distances: distances(root, *node, &nodes)?,
        };
        left.0 -= cell.vcpus;
        left.1 -= cell.memory_mib / unit;
        left.2 -= share;
        cells.push(cell);
    }
    if cells
        .iter()
        .any(|cell| cell.vcpus == 0 || cell.memory_mib == 0)
    {
        let message = format!(
            "{vcpus} virtual CPUs and {memory_mib} MiB cannot be divided among the {} NUMA nodes of the slots",
            cells.len()
        );
        return Err(HostError::invalid("shape", message));
    }
    let mut functions = Vec::new();
    let mut window = 0_u64;
    for slot in slots {
        let cell = nodes.iter().position(|node| Some(*node) == slot.numa_node);
        for address in &slot.functions {
            window = window.saturating_add(memory_above_4g(root, address));
            functions.push(Function {
                address: address.clone(),
                cell,
            });
        }
    }
    Ok(Locality {
        cells,
        functions,
        window_bytes: match window {
            0..SMALL_WINDOW => 0,
            // each register is aligned to its own size
            _ => window.checked_next_power_of_two().unwrap_or(window) * 2,
        },
    })
}

fn part(whole: u32, share: usize, of: usize) -> u32 {
    let (share, of) = (share as u64, (of as u64).max(1));
    u32::try_from(u64::from(whole) * share / of).unwrap_or(whole)
}

fn cpus(root: &HostRoot, node: u32) -> HostResult<String> {
    let list = root.read_value(format!("{NODES}/node{node}/cpulist"));
    // a node may have memory alone, and then no CPU of it can be used
    let list = list.filter(|list| !list.is_empty());
    list.ok_or_else(|| no_node(node, "has no CPUs here"))
}

/// The kernel lists the distances to all nodes that are online, in their order.
fn distances(root: &HostRoot, node: u32, to: &[u32]) -> HostResult<Vec<u32>> {
    let mut online: Vec<u32> = root
        .names(NODES)
        .iter()
        .filter_map(|name| name.strip_prefix("node")?.parse().ok())
        .collect();
    online.sort_unstable();
    let text = root.read_value(format!("{NODES}/node{node}/distance"));
    let all: Vec<u32> = text
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|distance| distance.parse().ok())
        .collect();
    if all.len() != online.len() {
        return Err(no_node(node, "does not say its distances"));
    }
    let distance = |other: &u32| {
        let index = online.iter().position(|node| node == other);
        index.and_then(|index| all.get(index)).copied()
    };
    let found: Option<Vec<u32>> = to.iter().map(distance).collect();
    found.ok_or_else(|| no_node(node, "has no distance to another node of the slots"))
}

fn no_node(node: u32, why: &str) -> HostError {
    HostError::host(ErrorReason::HostNotReady, format!("NUMA node {node} {why}"))
}

/// Bytes of a function's registers that may lie above 4 GiB.
fn memory_above_4g(root: &HostRoot, address: &PciAddress) -> u64 {
    let text = root.read_value(format!("{DEVICES}/{address}/resource"));
    let text = text.unwrap_or_default();
    let bar = |line: &str| {
        let mut numbers = line
            .split_whitespace()
            .map(|word| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok());
        let (start, end, flags) = (numbers.next()??, numbers.next()??, numbers.next()??);
        (flags & MEM_64 != 0 && end > start).then(|| end - start + 1)
    };
    text.lines().take(BARS).filter_map(bar).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GPU: &str = "\
0x00000000c4000000 0x00000000c4ffffff 0x0000000000040200
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000380000000000 0x0000383fffffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000384000000000 0x0000384001ffffff 0x000000000014220c
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000000000000000 0x0000000000000000 0x0000000000000000
0x0000390000000000 0x00003900ffffffff 0x000000000014220c
";

    /// A host of two sockets, with one GPU on each.
    fn host() -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (node, cpus, distance) in [(0, "0-31,64-95\n", "10 21\n"), (1, "32-63\n", "21 10\n")] {
            write(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
            write(
                &format!("sys/devices/system/node/node{node}/distance"),
                distance,
            );
        }
        for gpu in ["0000:1b:00.0", "0000:9b:00.0"] {
            write(&format!("sys/bus/pci/devices/{gpu}/resource"), GPU);
        }
        let root = HostRoot::new(dir.path());
        (dir, root)
    }

    fn slot(gpu: &str, numa_node: Option<u32>) -> SlotDevices {
        SlotDevices {
            numa_node,
            functions: vec![gpu.parse().unwrap()],
        }
    }

    #[test]
    fn d_47_a_slice_on_two_sockets_has_a_part_on_each() {
        let (_dir, root) = host();
        let slots = [
            slot("0000:9b:00.0", Some(1)),
            slot("0000:1b:00.0", Some(0)),
            slot("0000:9b:00.0", Some(1)),
        ];
        let found = locality(&root, &slots, 48, 6 * 1024 + 2048, true).unwrap();
        let parts: Vec<_> = found
            .cells
            .iter()
            .map(|cell| {
                (
                    cell.host_node,
                    cell.vcpus,
                    cell.memory_mib,
                    &cell.distances[..],
                )
            })
            .collect();
        assert_eq!(
            parts,
            [(0, 16, 2048, &[10, 21][..]), (1, 32, 6144, &[21, 10][..])],
            "whole hugepages, and nothing lost"
        );
        assert_eq!(found.cpus(), "0-31,64-95,32-63");
        let near: Vec<_> = found.functions.iter().map(|one| one.cell).collect();
        assert_eq!(near, [Some(1), Some(0), Some(1)]);
        // three registers of 256 GiB and three of 32 MiB, and not those of virtual functions
        assert_eq!(found.window_bytes, 2 << 40);
    }

    #[test]
    fn d_47_what_the_host_does_not_say_is_not_guessed() {
        let (_dir, root) = host();
        let none = locality(&root, &[slot("0000:1b:00.0", None)], 2, 512, false).unwrap();
        assert!(none.cells.is_empty());
        assert_eq!(none.functions[0].cell, None);
        let absent = locality(&root, &[slot("0000:1b:00.0", Some(2))], 2, 512, false);
        assert_eq!(absent.unwrap_err().message, "NUMA node 2 has no CPUs here");
        let slots = [slot("0000:1b:00.0", Some(0)), slot("0000:9b:00.0", Some(1))];
        let small = locality(&root, &slots, 1, 512, false).unwrap_err();
        assert!(small.message.contains("cannot be divided"), "{small:?}");
    }
}
