//! What a GPU host's slots are made of when a device is dead or shared.
use super::*;
use crate::disk::DiskFacts;

fn device(kind: PciKind, bus: u8, functions: &[&str]) -> PciDevice {
    PciDevice {
        address: format!("0000:{bus:02x}:00.0").parse().unwrap(),
        kind,
        numa_node: Some(0),
        driver: None,
        functions: functions.iter().map(|one| one.parse().unwrap()).collect(),
        dead: None,
    }
}

fn disk(n: u32) -> NvmeDisk {
    NvmeDisk {
        name: format!("nvme{n}n1"),
        by_id: Some(format!("/dev/disk/by-id/nvme-eui.{n:016}")),
        pci: None,
        numa_node: Some(0),
        facts: DiskFacts {
            bytes: 1 << 30,
            ..DiskFacts::default()
        },
        unreadable: None,
    }
}

fn report(pci: Vec<PciDevice>, nvme: Vec<NvmeDisk>) -> pb::TopologyReport {
    let inspections = nvme
        .iter()
        .map(|disk| {
            let inspection = DiskInspection {
                name: Some(disk.name.clone()),
                bytes: 1 << 30,
                blockers: Vec::new(),
            };
            (disk.by_id.clone().unwrap(), inspection)
        })
        .collect();
    let inventory = Inventory {
        pci,
        nvme,
        machine_id: "m".into(),
        subnet: "10.100.0".into(),
    };
    gpu_report(&inventory, &inspections)
}

#[test]
fn every_virtual_function_of_a_device_makes_a_slot() {
    let first = ["0000:20:00.1", "0000:20:00.2", "0000:20:00.3"];
    let second = ["0000:21:00.1", "0000:21:00.2"];
    let mut pci: Vec<_> = (1..=5).map(|bus| device(PciKind::Gpu, bus, &[])).collect();
    pci.push(device(PciKind::Fabric, 0x20, &first));
    pci.push(device(PciKind::Fabric, 0x21, &second));
    let report = report(pci, (0..5).map(disk).collect());
    let functions: Vec<String> = report
        .candidates
        .iter()
        .map(|slot| {
            slot.bindings
                .as_ref()
                .unwrap()
                .fabric_vf_pci_address
                .clone()
        })
        .collect();
    assert_eq!(
        functions,
        [
            "0000:20:00.1",
            "0000:21:00.1",
            "0000:20:00.2",
            "0000:21:00.2",
            "0000:20:00.3"
        ]
    );
    for slot in &report.candidates {
        assert_eq!(slot.blockers, Vec::<String>::new());
    }
}

#[test]
fn a_dead_gpu_or_disk_or_a_missing_one_blocks_its_own_slot_alone() {
    let functions = [
        "0000:20:00.1",
        "0000:20:00.2",
        "0000:20:00.3",
        "0000:20:00.4",
    ];
    let mut pci: Vec<_> = (1..=4).map(|bus| device(PciKind::Gpu, bus, &[])).collect();
    pci[0].dead = Some("does not answer on its bus".into());
    pci.push(device(PciKind::Fabric, 0x20, &functions));
    let mut disks: Vec<_> = (0..3).map(disk).collect();
    disks[1].facts = DiskFacts::default();
    disks[1].unreadable = Some("cannot read /sys/class/block/nvme1n1/size: I/O error".into());
    let report = report(pci, disks);
    assert_eq!(report.blockers, Vec::<String>::new(), "the host is fit");
    let blockers: Vec<&[String]> = report
        .candidates
        .iter()
        .map(|slot| slot.blockers.as_slice())
        .collect();
    assert_eq!(blockers.len(), 4);
    assert_eq!(blockers[0], ["GPU 0000:01:00.0 does not answer on its bus"]);
    assert!(blockers[1][0].contains("I/O error"), "{:?}", blockers[1]);
    assert_eq!(blockers[2], Vec::<String>::new());
    assert_eq!(blockers[3], ["GPU 0000:04:00.0 has no disk"]);
}

#[test]
fn functions_are_read_in_the_order_of_their_numbers_and_a_dead_device_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let root = HostRoot::new(dir.path());
    let folder = root.path("/sys/bus/pci/devices/0000:20:00.0");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in [("vendor", "0x15b3\n"), ("class", "0x020700\n")] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    for number in [0, 2, 10, 1] {
        let target = format!("../0000:20:01.{}", number % 8);
        std::os::unix::fs::symlink(target, folder.join(format!("virtfn{number}"))).unwrap();
    }
    let found = pci::devices(&root);
    let functions: Vec<String> = found[0].functions.iter().map(ToString::to_string).collect();
    assert_eq!(
        functions,
        [
            "0000:20:01.0",
            "0000:20:01.1",
            "0000:20:01.2",
            "0000:20:01.2"
        ]
    );
    assert_eq!(found[0].dead, None);
    std::fs::write(folder.join("config"), [0xff; 64]).unwrap();
    assert!(pci::devices(&root)[0].dead.is_some());
}
