//! What a GPU host's slots are made of when a device is dead or shared.
use super::*;
use crate::disk::DiskFacts;
use crate::topology::pci;
use crate::topology::wipe_policies::{propose_wipe_policy, set_wipe_policies};

fn device(kind: PciKind, bus: u8, functions: &[&str]) -> PciDevice {
    PciDevice {
        address: format!("0000:{bus:02x}:00.0").parse().unwrap(),
        kind,
        model: 0x2335,
        numa_node: Some(0),
        driver: None,
        functions: functions.iter().map(|one| one.parse().unwrap()).collect(),
        dead: None,
        passthrough_faults: Vec::new(),
        fabric_faults: Vec::new(),
        function_faults: BTreeMap::new(),
        above: Vec::new(),
    }
}

fn disk(n: u32) -> NvmeDisk {
    NvmeDisk {
        name: format!("nvme{n}n1"),
        by_id: Some(format!("/dev/disk/by-id/nvme-eui.{n:016}")),
        pci: None,
        numa_node: Some(0),
        above: Vec::new(),
        state: Some("live".into()),
        facts: DiskFacts {
            bytes: 1 << 30,
            ..DiskFacts::default()
        },
        unreadable: None,
        passed_through: None,
        passthrough_faults: Vec::new(),
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
        platform: Platform::default(),
        answers: BTreeMap::new(),
        machine_id: "m".into(),
        subnet: "10.100.0".into(),
    };
    gpu_report(&inventory, &inspections)
}

/// A report while VMs run proposes what it proposed before: other GPUs get no other disks.
#[test]
fn d_80_a_disk_whose_controller_a_vm_has_is_still_that_of_its_slot() {
    let pci = || {
        let mut all: Vec<_> = (1..=3).map(|bus| device(PciKind::Gpu, bus, &[])).collect();
        all.push(device(
            PciKind::Fabric,
            0x20,
            &["0000:20:00.1", "0000:20:00.2", "0000:20:00.3"],
        ));
        all
    };
    let mut before: Vec<_> = (0..3).map(disk).collect();
    for (one, bus) in before.iter_mut().zip(["11", "12", "13"]) {
        one.pci = Some(format!("0000:{bus}:00.0").parse().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let root = HostRoot::new(dir.path());
    let folder = dir.path().join("sys/bus/pci/devices/0000:12:00.0");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("numa_node"), "0\n").unwrap();
    let given = before.remove(1);
    let mut during = Inventory {
        pci: pci(),
        nvme: before.clone(),
        platform: Platform::default(),
        answers: BTreeMap::new(),
        machine_id: "m".into(),
        subnet: "10.100.0".into(),
    };
    let known = gpuaas_proto::gpuaas::common::v1::NvmeDisk {
        by_id: given.by_id.clone().unwrap(),
        bytes: given.facts.bytes,
        serial: "S2".to_owned(),
        ..Default::default()
    };
    before.insert(1, given);
    let disks = vec![Given {
        vm: format!("{VM_PREFIX}0192f0c1aaaa7bbb8ccc0123456789ab")
            .parse()
            .unwrap(),
        controller: "0000:12:00.0".parse().unwrap(),
        disk: known,
    }];
    let domain = |name: &str| Domain {
        name: name.to_owned(),
        state: crate::vm::PowerState::Running,
        disk_sources: vec!["/sys/bus/pci/devices/0000:12:00.0".to_owned()],
        untraced_sources: Vec::new(),
    };
    let mut foreign = during.clone();
    foreign.give(&root, disks.clone(), &[domain("somebody")]);
    let why = &report(foreign.pci, foreign.nvme).candidates[1].blockers;
    assert_eq!(
        why[..],
        ["0000:12:00.0: domain somebody has its controller"]
    );
    during.give(&root, disks.clone(), &[domain(disks[0].vm.as_str())]);
    let (before, during) = (report(pci(), before), report(during.pci, during.nvme));
    let bindings = |report: &pb::TopologyReport| -> Vec<SlotBindings> {
        let all = report.candidates.iter();
        all.map(|one| one.bindings.clone().unwrap()).collect()
    };
    assert_eq!(bindings(&during), bindings(&before));
    assert_eq!(during.candidates[1].blockers, Vec::<String>::new());
    assert_eq!(
        during.candidates[1].kernel_path, "",
        "the host has no name for it"
    );
    assert_eq!(during.candidates[2].kernel_path, "/dev/nvme2n1");
    assert_eq!(during.nvme_devices, 3);
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
    // another disk can be chosen for the slots whose disk alone is at fault
    let of_disk: Vec<usize> = (0..4)
        .filter(|index| !report.candidates[*index].disk_blockers.is_empty())
        .collect();
    assert_eq!(of_disk, [1, 3]);
    assert_eq!(report.candidates[3].disk_blockers, *blockers[3]);
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

#[test]
fn a_gpu_that_is_no_model_of_ours_or_cannot_be_passed_through_alone_makes_no_slot() {
    let functions = ["0000:20:00.1", "0000:20:00.2", "0000:20:00.3"];
    let mut pci: Vec<_> = (1..=3).map(|bus| device(PciKind::Gpu, bus, &[])).collect();
    pci[0].model = 0x2901;
    pci[1].passthrough_faults = vec!["shares IOMMU group 7 with 0000:02:00.1".into()];
    pci.push(device(PciKind::Fabric, 0x20, &functions));
    let report = report(pci, (0..3).map(disk).collect());
    let [first, second, third] = report.candidates.as_slice() else {
        panic!("{report:?}");
    };
    assert_eq!(first.slot_class, "10de:2901");
    assert!(
        first.blockers[0].contains("no slot class"),
        "{:?}",
        first.blockers
    );
    assert!(
        second.blockers[0].contains("IOMMU group 7"),
        "{:?}",
        second.blockers
    );
    assert_eq!(third.blockers, Vec::<String>::new());
    assert_eq!(third.slot_class, "h200_sxm");
}

#[test]
fn b_43_a_host_reports_the_groups_of_its_fabric_manager_and_each_gpus_place() {
    let functions = ["0000:20:00.1", "0000:20:00.2"];
    let mut pci: Vec<_> = (1..=2).map(|bus| device(PciKind::Gpu, bus, &[])).collect();
    pci.push(device(PciKind::Fabric, 0x20, &functions));
    let mut inventory = Inventory {
        pci,
        nvme: Vec::new(),
        platform: Platform::default(),
        answers: BTreeMap::new(),
        machine_id: "m".into(),
        subnet: "10.100.0".into(),
    };
    let none = gpu_report(&inventory, &BTreeMap::new());
    assert!(none.legal_groups.is_empty(), "nothing tells them");
    for (bus, module) in [(1, 5), (2, 2)] {
        let gpu = super::super::platform::BoardGpu {
            module_id: Some(module),
            ..Default::default()
        };
        let address = format!("0000:{bus:02x}:00.0").parse().unwrap();
        inventory.platform.gpus.insert(address, gpu);
    }
    inventory.platform.source = "fmpm -l".into();
    inventory.platform.partitions = vec![[2, 5].into(), [2].into(), [5].into()];
    let report = gpu_report(&inventory, &BTreeMap::new());
    assert_eq!(
        report.legal_groups,
        [pb::LegalGroup {
            module_ids: vec![2, 5]
        }]
    );
    let modules: Vec<Option<u32>> = report
        .candidates
        .iter()
        .map(|slot| slot.bindings.as_ref().unwrap().gpu_module_id)
        .collect();
    assert_eq!(modules, [Some(5), Some(2)]);
}

#[test]
fn a_68_what_one_gpu_lacks_changes_no_other_pair() {
    let functions: Vec<[String; 1]> = (0..4)
        .map(|n| [format!("0000:{:02x}:00.1", 0x20 + n)])
        .collect();
    let build = |without: Option<usize>| {
        let mut pci: Vec<_> = (1..=4_u8)
            .map(|bus| device(PciKind::Gpu, bus, &[]))
            .collect();
        let mut disks: Vec<_> = (0..4).map(disk).collect();
        for n in 0..4 {
            // the disks of the slots are in another order than the GPUs
            let other = 3 - n;
            pci[n].above = vec![format!("pci0000:{n}0")];
            disks[other].above = vec![format!("pci0000:{n}0")];
            let function = [functions[n][0].as_str()];
            let mut nic = device(PciKind::Fabric, u8::try_from(0x20 + n).unwrap(), &function);
            nic.above = vec![format!("pci0000:{n}0")];
            if without != Some(n) {
                pci.push(nic);
            }
        }
        if let Some(n) = without {
            disks.remove(3 - n);
        }
        report(pci, disks)
    };
    let all = build(None);
    let disk_of = |slot: &pb::CandidateSlot| slot.kernel_path.clone();
    let paths: Vec<String> = all.candidates.iter().map(disk_of).collect();
    assert_eq!(
        paths,
        [
            "/dev/nvme3n1",
            "/dev/nvme2n1",
            "/dev/nvme1n1",
            "/dev/nvme0n1"
        ]
    );
    let less = build(Some(1));
    for (n, (before, after)) in all.candidates.iter().zip(&less.candidates).enumerate() {
        if n == 1 {
            assert_eq!(after.blockers.len(), 2, "{:?}", after.blockers);
        } else {
            assert_eq!(before, after);
        }
    }
}

#[test]
fn a_fault_of_a_disk_or_a_function_blocks_its_own_slot_alone() {
    let functions = ["0000:20:00.1", "0000:20:00.2", "0000:20:00.3"];
    let mut pci: Vec<_> = (1..=3).map(|bus| device(PciKind::Gpu, bus, &[])).collect();
    let mut nic = device(PciKind::Fabric, 0x20, &functions);
    let second = functions[1].parse().unwrap();
    nic.function_faults
        .insert(second, vec!["has no GUID of its own".into()]);
    pci.push(nic);
    let mut disks: Vec<_> = (0..3).map(disk).collect();
    disks[2].state = Some("dead".into());
    let report = report(pci, disks);
    let blockers: Vec<String> = report
        .candidates
        .iter()
        .map(|one| one.blockers.join("; "))
        .collect();
    let expected = [
        "",
        "fabric function 0000:20:00.2 has no GUID of its own",
        "nvme2n1: its controller is dead",
    ];
    assert_eq!(blockers, expected);
}

///
#[test]
fn d_76_every_slot_is_proposed_with_the_hosts_wipe_policy() {
    let mut report = report(
        vec![device(PciKind::Gpu, 1, &[])],
        (0..1).map(disk).collect(),
    );
    let proposed = |report: &pb::TopologyReport| -> Vec<String> {
        let all = report.candidates.iter();
        all.map(|one| {
            let bindings = one.bindings.as_ref().unwrap();
            bindings.destructive_wipe_policy.clone()
        })
        .collect()
    };
    assert_eq!(proposed(&report), ["blkdiscard"]);
    propose_wipe_policy(&mut report, WipePolicy::SiteErase);
    assert_eq!(proposed(&report), ["site_erase"]);
    // as the settings name it
    for policy in [
        WipePolicy::Blkdiscard,
        WipePolicy::NvmeFormat,
        WipePolicy::SiteErase,
    ] {
        let text = format!("policy = \"{}\"", policy.as_str());
        let settings: crate::settings::Wipe = toml::from_str(&text).unwrap();
        assert_eq!(settings.policy, policy);
    }
}

#[test]
fn d_75_every_disk_tells_how_this_host_can_wipe_it() {
    use crate::disk::method::NvmeFacts;
    use crate::disk::nvme::Controller;

    let nvme: Vec<NvmeDisk> = (0..2).map(disk).collect();
    let inspections = BTreeMap::new();
    let controller = Controller {
        oacs: 94,
        fna: 4,
        nn: 128,
        sanicap: 3,
    };
    let reported = Answers {
        wipe: Some(NvmeFacts {
            controller,
            namespace: 1,
            namespaces: None,
        }),
        ..Answers::default()
    };
    let functions = ["0000:20:00.1"];
    let inventory = Inventory {
        pci: vec![device(PciKind::Fabric, 0x20, &functions)],
        nvme,
        platform: Platform::default(),
        answers: BTreeMap::from([("nvme0n1".to_owned(), reported)]),
        machine_id: "m".into(),
        subnet: "10.100.0".into(),
    };
    let policies = |report: &mut pb::TopologyReport, has_site_command| {
        set_wipe_policies(report, &inventory, has_site_command);
        let all = report.inspected_devices.iter();
        all.map(|one| one.wipe_policies.join(" "))
            .collect::<Vec<_>>()
    };
    let mut report = gpu_report(&inventory, &inspections);
    // two disks, of which one does not tell, and a function: of what is not known nothing is refused
    assert_eq!(
        policies(&mut report, false),
        ["blkdiscard nvme_format", "", ""]
    );
    let lab = [("lab-disk:x".to_owned(), DiskInspection::default())];
    let mut report = lab_report(&inventory, &lab);
    assert_eq!(policies(&mut report, false), ["blkdiscard"]);
    assert_eq!(policies(&mut report, true), ["blkdiscard site_erase"]);
}
