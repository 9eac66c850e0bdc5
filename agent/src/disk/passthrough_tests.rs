//! What is on record of disks that VMs have, and how the host gets them back.
use std::os::unix::fs::symlink;

use super::*;
use crate::disk::nvme::Controller;

const DISK: &str = "0000:03:00.0";
const OTHER: &str = "0000:04:00.0";
const VM: &str = "gpuaas-slice-0192f0c1aaaa7bbb8ccc0123456789ab";

/// A host with two NVMe controllers, each alone in its group, with their own driver.
struct Host {
    dir: tempfile::TempDir,
    root: HostRoot,
}

impl Host {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = HostRoot::new(dir.path());
        let host = Self { dir, root };
        for (address, group) in [(DISK, "7"), (OTHER, "8")] {
            let device = host.path(&format!("sys/bus/pci/devices/{address}"));
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("vendor"), "0x144d\n").unwrap();
            std::fs::write(device.join("class"), "0x010802\n").unwrap();
            symlink(
                format!("../../../../kernel/iommu_groups/{group}"),
                device.join("iommu_group"),
            )
            .unwrap();
            let listed = host.path(&format!("sys/kernel/iommu_groups/{group}/devices"));
            std::fs::create_dir_all(&listed).unwrap();
            std::fs::write(listed.join(address), "").unwrap();
            host.bind(address, Some("nvme"));
        }
        for driver in ["nvme", "vfio-pci"] {
            std::fs::create_dir_all(host.path(&format!("sys/bus/pci/drivers/{driver}"))).unwrap();
        }
        std::fs::create_dir_all(host.path("proc/12/fd")).unwrap();
        std::fs::write(host.path("proc/12/comm"), "qemu-system-x86\n").unwrap();
        host
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn records(&self) -> PathBuf {
        self.path("state/passthrough")
    }

    fn bind(&self, address: &str, driver: Option<&str>) {
        let link = self.path(&format!("sys/bus/pci/devices/{address}/driver"));
        let _ = std::fs::remove_file(&link);
        if let Some(driver) = driver {
            symlink(format!("../../drivers/{driver}"), link).unwrap();
        }
    }

    /// A disk of the first controller, which may have a second path.
    fn disk(&self, second: bool) {
        let block = self.path("sys/class/block");
        std::fs::create_dir_all(&block).unwrap();
        let namespace = self.path(&format!("sys/devices/pci0000:00/{DISK}/nvme/nvme0/nvme0n1"));
        std::fs::create_dir_all(&namespace).unwrap();
        let device = namespace.join("device");
        std::fs::create_dir_all(&device).unwrap();
        symlink(&namespace, block.join("nvme0n1")).unwrap();
        if second {
            symlink(
                format!("../../../../../pci0000:00/{OTHER}/nvme/nvme1"),
                device.join("nvme1"),
            )
            .unwrap();
        }
    }

    fn take(&self) -> HostResult<()> {
        take(&self.root, &DISK.parse().unwrap())
    }

    fn written(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.path(path)).ok()
    }
}

fn disk(bytes: u64) -> common::NvmeDisk {
    common::NvmeDisk {
        by_id: "/dev/disk/by-id/nvme-eui.0025380000000001".to_owned(),
        model: "a model".to_owned(),
        bytes,
        ..common::NvmeDisk::default()
    }
}

/// At a stop its own driver has a controller before its disk is there, and at a start VFIO comes after its own driver: neither
/// is a disk that is missing.
#[test]
fn d_80_a_controller_on_its_way_is_still_that_of_its_disk() {
    let host = Host::new();
    let address: PciAddress = DISK.parse().unwrap();
    let way = OnTheirWay::default();
    let begun = Instant::now();
    let has = |after| {
        has_vm(
            &host.root,
            &address,
            &way,
            begun + Duration::from_secs(after),
        )
    };
    host.bind(DISK, Some("vfio-pci"));
    assert!(has(0) && has(1000), "a VM has it");
    host.bind(DISK, None);
    assert!(has(1001), "on its way");
    host.bind(DISK, Some("nvme"));
    assert!(has(1030), "its disk may still come");
    assert!(!has(1031), "it did not");
    host.bind(DISK, Some("vfio-pci"));
    assert!(has(1032));
    // the machine was changed, and another device has the address
    let class = host.path(&format!("sys/bus/pci/devices/{DISK}/class"));
    std::fs::write(class, "0x030200\n").unwrap();
    assert!(!has(1033));
    host.take().unwrap();
    assert_eq!(
        host.written("sys/bus/pci/drivers_probe"),
        None,
        "a GPU stays"
    );
}

#[test]
fn a_record_lasts_from_the_definition_of_a_vm_to_the_wipe_of_its_disk() {
    let host = Host::new();
    let (vm, address): (VmName, PciAddress) = (VM.parse().unwrap(), DISK.parse().unwrap());
    assert_eq!(everything(&host.records()).unwrap(), []);
    put(&host.records(), &vm, &address, &disk(7)).unwrap();
    let expected = Given {
        vm,
        controller: address,
        disk: disk(7),
    };
    let one = std::slice::from_ref(&expected);
    assert_eq!(everything(&host.records()).unwrap(), one);
    let link = &expected.disk.by_id;
    assert_eq!(of_disk(&host.records(), link).unwrap(), one);
    assert_eq!(
        of_disk(&host.records(), "/dev/disk/by-id/another").unwrap(),
        []
    );
    remove(&host.records(), &expected).unwrap();
    assert_eq!(names(&host.records()).unwrap(), [""; 0]);
    remove(&host.records(), &expected).unwrap();
}

/// A crash may end the agent in the middle of a write.
#[test]
fn a_record_that_was_not_written_to_its_end_is_none() {
    let host = Host::new();
    let vm: VmName = VM.parse().unwrap();
    let folder = host.records().join(VM);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("0000:03:00.partial"), [1, 2]).unwrap();
    assert_eq!(of_vm(&host.records(), &vm).unwrap(), []);
    std::fs::write(folder.join(DISK), [0xff]).unwrap();
    assert!(of_vm(&host.records(), &vm).is_err(), "no guess");
}

/// The hypervisor may have been stopped before it gave the controller back.
#[test]
fn a_controller_that_stayed_with_vfio_goes_back_to_its_own_driver() {
    let host = Host::new();
    host.bind(DISK, Some("vfio-pci"));
    host.take().unwrap();
    assert_eq!(
        host.written("sys/bus/pci/drivers/vfio-pci/unbind")
            .as_deref(),
        Some(DISK)
    );
    let cleared = host.written(&format!("sys/bus/pci/devices/{DISK}/driver_override"));
    assert_eq!(cleared.as_deref(), Some("\n"));
    assert_eq!(
        host.written("sys/bus/pci/drivers_probe").as_deref(),
        Some(DISK)
    );
}

#[test]
fn p9_a_controller_that_a_process_has_open_is_not_taken_from_it() {
    let host = Host::new();
    host.bind(DISK, Some("vfio-pci"));
    symlink("/dev/vfio/7", host.path("proc/12/fd/9")).unwrap();
    let refused = host.take().unwrap_err();
    assert_eq!(refused.reason, ErrorReason::HypervisorFailed);
    assert!(
        refused.message.contains("process 12 (qemu-system-x86)"),
        "{refused}"
    );
    assert_eq!(host.written("sys/bus/pci/drivers/vfio-pci/unbind"), None);
}

#[test]
fn a_controller_with_its_own_driver_or_without_its_device_is_left_alone() {
    let host = Host::new();
    host.take().unwrap();
    std::fs::remove_dir_all(host.path(&format!("sys/bus/pci/devices/{DISK}"))).unwrap();
    host.take().unwrap();
    assert_eq!(host.written("sys/bus/pci/drivers_probe"), None);
}

#[test]
fn d_47_only_a_controller_that_is_alone_is_passed_through() {
    let host = Host::new();
    host.disk(false);
    let address = controller(&host.root, "nvme0n1").unwrap();
    assert_eq!(address.to_string(), DISK);
    // another device in its group would be the VM's too
    let listed = host.path("sys/kernel/iommu_groups/7/devices/0000:03:00.1");
    std::fs::write(listed, "").unwrap();
    let refused = controller(&host.root, "nvme0n1").unwrap_err();
    assert_eq!(refused.reason, ErrorReason::DiskUnsafe);
    assert!(
        refused
            .message
            .contains("shares IOMMU group 7 with 0000:03:00.1"),
        "{refused}"
    );

    let host = Host::new();
    host.disk(true);
    let refused = controller(&host.root, "nvme0n1").unwrap_err();
    assert!(
        refused
            .message
            .contains("not reached by one controller alone"),
        "{refused}"
    );
}

/// A tenant with the controller can make a namespace, leave something in it, and detach it: the host shows one disk. It can format
/// its own with sectors that no image is made for.
#[test]
fn p2_a_controller_is_clean_with_one_namespace_of_the_sectors_that_images_have() {
    let facts = |nn: u32, namespaces: Option<&[u32]>| NvmeFacts {
        controller: Controller {
            oacs: 0x1e,
            fna: 0,
            nn,
            sanicap: 0,
        },
        namespace: 1,
        namespaces: namespaces.map(<[u32]>::to_vec),
    };
    let host = Host::new();
    host.disk(false);
    let sector = |bytes: &str| {
        let queue = host.path("sys/class/block/nvme0n1/queue");
        std::fs::create_dir_all(&queue).unwrap();
        std::fs::write(queue.join("logical_block_size"), bytes).unwrap();
    };
    sector("512\n");
    let fault = |facts: NvmeFacts| content_fault(&host.root, "nvme0n1", &facts);
    assert_eq!(fault(facts(32, Some(&[1]))), None);
    assert_eq!(fault(facts(1, None)), None);
    let why = fault(facts(32, Some(&[1, 2]))).unwrap();
    assert_eq!(why, "its controller has 2 namespaces");
    let why = fault(facts(32, None)).unwrap();
    assert_eq!(why, "its controller does not list its namespaces");
    let good = facts(32, Some(&[1]));
    assert_eq!(faults(&host.root, "nvme0n1", Some(&good)), [""; 0]);
    assert_eq!(faults(&host.root, "nvme0n1", None).len(), 1);
    sector("4096\n");
    let why = fault(facts(32, Some(&[1]))).unwrap();
    assert_eq!(why, "its sectors have 4096 bytes, and images need 512");
}
