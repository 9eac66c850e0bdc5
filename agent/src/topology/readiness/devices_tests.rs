use std::os::unix::fs::symlink;

use gpuaas_proto::gpuaas::common::v1::EvidenceStatus::{Fail, Pass, Skip, Warn};

use super::*;
use crate::disk::identity::BY_ID;

const GROUPS: &str = "/sys/kernel/iommu_groups";

/// A host that is written file by file.
struct Host {
    dir: tempfile::TempDir,
    approved: Vec<PciAddress>,
}

impl Host {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            approved: Vec::new(),
        }
    }

    fn root(&self) -> HostRoot {
        HostRoot::new(self.dir.path())
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.root().path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.root().path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn device(&self, address: &str, vendor: &str, class: &str, group: u32) {
        let folder = format!("{DEVICES}/{address}");
        self.write(&format!("{folder}/vendor"), vendor);
        self.write(&format!("{folder}/class"), class);
        self.link(
            &format!("{folder}/iommu_group"),
            &format!("../../../../kernel/iommu_groups/{group}"),
        );
        self.write(&format!("{GROUPS}/{group}/devices/{address}"), "");
    }

    fn gpu(&self, address: &str, group: u32) {
        self.device(address, "0x10de\n", "0x030200\n", group);
    }

    fn fabric(&self, address: &str, group: u32) {
        self.device(address, "0x15b3\n", "0x020700\n", group);
    }

    fn found(&self) -> Vec<CheckResult> {
        let profile = "name = \"p\"\nhypervisor = \"kvm\"\ncpu_model = \"host-passthrough\"";
        of_gpus(
            &self.root(),
            &toml::from_str(profile).unwrap(),
            FabricKind::Ipoib,
            &self.approved.iter().cloned().collect(),
        )
    }
}

fn of<'a>(results: &'a [CheckResult], id: &str) -> &'a CheckResult {
    results.iter().find(|one| one.check.id == id).unwrap()
}

#[test]
fn a_143_a_gpu_with_a_companion_blocks_its_slot_alone() {
    let host = Host::new();
    host.gpu("0000:1b:00.0", 1);
    // its own second function, and the bridge above it
    host.device("0000:1b:00.1", "0x10de\n", "0x040300\n", 1);
    host.device("0000:1a:01.0", "0x10b5\n", "0x060400\n", 1);
    host.gpu("0000:43:00.0", 2);
    let results = host.found();
    let good = of(&results, "iommu_groups");
    assert_eq!(
        (good.status, good.detail.as_str()),
        (Pass, "2 GPUs, each alone in its group")
    );

    host.device("0000:44:00.0", "0x144d\n", "0x010802\n", 2);
    std::fs::remove_file(
        host.root()
            .path(format!("{DEVICES}/0000:1b:00.0/iommu_group")),
    )
    .unwrap();
    let results = host.found();
    let bad = of(&results, "iommu_groups");
    assert_eq!(bad.status, Fail);
    assert_eq!(bad.devices, ["0000:1b:00.0", "0000:43:00.0"]);
    assert_eq!(
        bad.detail,
        "0000:1b:00.0 is in no IOMMU group; 0000:43:00.0 shares IOMMU group 2 with 0000:44:00.0"
    );
}

#[test]
fn inc_37_a_gpu_that_vfio_has_is_good_and_one_that_the_host_uses_is_not() {
    let host = Host::new();
    for (index, address) in ["0000:1b:00.0", "0000:43:00.0", "0000:52:00.0"]
        .into_iter()
        .enumerate()
    {
        host.gpu(address, u32::try_from(index).unwrap());
    }
    host.link(
        &format!("{DEVICES}/0000:1b:00.0/driver"),
        "../../../bus/pci/drivers/vfio-pci",
    );
    let results = host.found();
    assert_eq!(of(&results, "vfio_binding").status, Pass, "{results:?}");
    host.link(
        &format!("{DEVICES}/0000:43:00.0/driver"),
        "../../../bus/pci/drivers/nvidia",
    );
    let results = host.found();
    let bad = of(&results, "vfio_binding");
    assert_eq!(
        (bad.status, bad.detail.as_str()),
        (Fail, "0000:43:00.0 is bound to nvidia")
    );
    assert_eq!(bad.devices, ["0000:43:00.0"]);
}

#[test]
fn j_21_virtual_functions_count_by_their_links() {
    let host = Host::new();
    for (group, address) in ["0000:1b:00.0", "0000:43:00.0"].into_iter().enumerate() {
        host.gpu(address, u32::try_from(group).unwrap());
    }
    host.fabric("0000:bc:00.0", 7);
    host.write(&format!("{DEVICES}/0000:bc:00.0/sriov_totalvfs"), "16\n");
    host.write(&format!("{DEVICES}/0000:bc:00.0/sriov_numvfs"), "0\n");
    let results = host.found();
    let none = of(&results, "fabric_vfs");
    assert_eq!(
        none.status, Warn,
        "slots without a function are not approved"
    );
    assert_eq!(
        none.detail,
        "0 virtual functions for 2 GPUs; the devices could have 16"
    );

    host.write(&format!("{DEVICES}/0000:bc:00.0/sriov_numvfs"), "2\n");
    host.link(
        &format!("{DEVICES}/0000:bc:00.0/virtfn0"),
        "../0000:bc:00.3",
    );
    let results = host.found();
    let half = of(&results, "fabric_vfs");
    assert!(
        half.detail
            .starts_with("0000:bc:00.0 has 2 virtual functions and 1 links to them"),
        "{}",
        half.detail
    );
    assert_eq!(half.status, Fail);
    assert_eq!(
        half.devices,
        ["0000:bc:00.0"],
        "the others stay schedulable"
    );
    host.link(
        &format!("{DEVICES}/0000:bc:00.0/virtfn1"),
        "../0000:bc:00.4",
    );
    let results = host.found();
    assert_eq!(of(&results, "fabric_vfs").status, Pass, "{results:?}");
}

#[test]
fn a_144_a_port_without_a_link_is_told() {
    let host = Host::new();
    host.fabric("0000:bc:00.0", 7);
    let settings = |fabric: &str| -> Settings {
        let text = format!(
            "state_dir = \"/x\"\n[profile]\nname = \"p\"\nhypervisor = \"kvm\"\ncpu_model = \"m\"\n[fabric]\nkind = \"{fabric}\""
        );
        toml::from_str(&text).unwrap()
    };
    let found = |fabric| fabric_links(&host.root(), &settings(fabric));
    host.link(
        &format!("{DEVICES}/0000:bc:00.0/virtfn0"),
        "../0000:bc:00.3",
    );
    let state = format!("{DEVICES}/0000:bc:00.0/infiniband/mlx5_0/ports/1/state");
    host.write(&state, "4: ACTIVE\n");
    assert_eq!(found("ipoib").status, Pass);
    host.write(&state, "1: DOWN\n");
    let down = found("ipoib");
    assert_eq!(
        (down.status, down.detail.as_str()),
        (Fail, "0000:bc:00.0 is 1: DOWN")
    );
    assert_eq!(found("none").status, Skip);
}

#[test]
fn a_60_a_gpu_that_lost_lanes_is_named_and_a_slow_one_is_told_unless_it_rests() {
    let host = Host::new();
    let profile = "name = \"p\"\nhypervisor = \"kvm\"\ncpu_model = \"host-passthrough\"";
    let found = || gpu_links(&host.root(), &toml::from_str(profile).unwrap());
    let gpus = ["0000:1b:00.0", "0000:43:00.0"];
    for (group, address) in gpus.into_iter().enumerate() {
        host.gpu(address, u32::try_from(group).unwrap());
    }
    assert_eq!(found().status, Warn, "nothing tells a link");
    let say = |address: &str, what: &str, text: &str| {
        host.write(&format!("{DEVICES}/{address}/{what}"), text);
    };
    for address in gpus {
        for which in ["current", "max"] {
            say(address, &format!("{which}_link_width"), "16\n");
            say(address, &format!("{which}_link_speed"), "32.0 GT/s PCIe\n");
        }
    }
    let good = found();
    assert_eq!(
        (good.status, good.detail.as_str()),
        (Pass, "2 GPUs have all their lanes")
    );
    say(gpus[0], "current_link_speed", "8.0 GT/s PCIe\n");
    let slow = found();
    assert_eq!((slow.status, slow.devices.len()), (Warn, 0));
    assert_eq!(
        slow.detail,
        "0000:1b:00.0 runs at 8.0 GT/s PCIe of 32.0 GT/s PCIe"
    );
    say(gpus[0], "power_state", "D3hot\n");
    assert_eq!(found().status, Pass, "it saves power");
    say(gpus[1], "current_link_width", "8\n");
    let bad = found();
    assert_eq!(
        (bad.status, bad.detail.as_str()),
        (Fail, "0000:43:00.0 runs with 8 of 16 lanes")
    );
    assert_eq!(bad.devices, ["0000:43:00.0"]);
}

#[test]
fn a_144_a_function_without_a_link_blocks_its_slot_alone() {
    let mut host = Host::new();
    let device = format!("{DEVICES}/0000:bc:00.0");
    host.fabric("0000:bc:00.0", 7);
    host.approved = vec!["0000:bc:00.4".parse().unwrap()];
    for (number, function) in ["0000:bc:00.3", "0000:bc:00.4"].into_iter().enumerate() {
        host.link(
            &format!("{device}/virtfn{number}"),
            &format!("../{function}"),
        );
        host.write(&format!("{device}/sriov/{number}/policy"), "Follow\n");
    }
    let found = || {
        let results = host.found();
        let one = of(&results, "vf_links");
        (one.status, one.detail.clone(), one.devices.clone())
    };
    let (status, detail, devices) = found();
    assert_eq!(
        (status, devices.len()),
        (Fail, 2),
        "no driver tells of a port: {detail}"
    );
    let port = |number: u32| format!("{device}/infiniband/mlx5_0/ports/{number}/state");
    host.write(&port(1), "4: ACTIVE\n");
    let good = (
        Pass,
        "2 virtual functions have a link".to_owned(),
        Vec::new(),
    );
    assert_eq!(found(), good);
    host.write(&format!("{device}/sriov/0/policy"), "Down\n");
    assert_eq!(found(), good, "its slot is not approved yet");
    host.write(&format!("{device}/sriov/1/policy"), "Down\n");
    let (status, detail, devices) = found();
    assert_eq!(status, Fail);
    assert_eq!(detail, "0000:bc:00.4 is held down by its link policy");
    assert_eq!(devices, ["0000:bc:00.4"]);
    host.write(&format!("{device}/sriov/1/policy"), "Up\n");
    host.write(&port(1), "2: INIT\n");
    let (status, detail, devices) = found();
    assert_eq!((status, devices.len()), (Fail, 2));
    assert!(
        detail.starts_with("0000:bc:00.3 has no link: 0000:bc:00.0 is 2: INIT"),
        "{detail}"
    );
    // of several ports one is enough
    host.write(&port(2), "4: ACTIVE\n");
    assert_eq!(found(), good);
}

#[test]
fn d_80_a_dead_disk_is_named_by_its_stable_link() {
    let host = Host::new();
    for number in [0, 1, 2, 3] {
        let name = format!("nvme{number}n1");
        host.write(&format!("/sys/class/nvme/nvme{number}/state"), "live\n");
        host.write(&format!("/sys/class/block/{name}/size"), "4096\n");
        host.link(
            &format!("{BY_ID}/nvme-eui.{number}"),
            &format!("../../{name}"),
        );
    }
    assert_eq!(dead_nvme(&host.root()), (Vec::new(), 4));
    host.write("/sys/class/nvme/nvme1/state", "dead\n");
    host.write("/sys/class/block/nvme2n1/size", "0\n");
    host.write("/sys/class/nvme/nvme3/state", "dead\n");
    host.write("/sys/class/nvme/nvme3/address", "0000:03:00.0\n");
    std::fs::remove_dir_all(host.root().path("/sys/class/block/nvme3n1")).unwrap();
    let (dead, good) = dead_nvme(&host.root());
    assert_eq!(good, 1);
    assert_eq!(
        dead,
        [
            (
                format!("{BY_ID}/nvme-eui.1"),
                "has a controller that is dead".to_owned()
            ),
            (format!("{BY_ID}/nvme-eui.2"), "has no size".to_owned()),
            (
                "0000:03:00.0".to_owned(),
                "is dead, and has no disk any more".to_owned()
            ),
        ]
    );
    assert_eq!(controller_of("nvme12n3"), "nvme12");
}

#[test]
fn d_56_an_approved_function_that_went_back_to_its_own_driver_is_reported() {
    let mut host = Host::new();
    host.gpu("0000:1b:00.0", 1);
    for (address, driver) in [("0000:1a:00.1", "mlx5_core"), ("0000:1a:00.2", "vfio-pci")] {
        host.device(address, "0x15b3\n", "0x020700\n", 2);
        host.link(&format!("{DEVICES}/{address}/physfn"), "../0000:1a:00.0");
        host.link(
            &format!("{DEVICES}/{address}/driver"),
            &format!("../../../bus/pci/drivers/{driver}"),
        );
    }
    // one that no slot has is the host's
    assert_eq!(of(&host.found(), "vfio_binding").status, Pass);
    host.approved = vec![
        "0000:1a:00.1".parse().unwrap(),
        "0000:1a:00.2".parse().unwrap(),
    ];
    let results = host.found();
    let bad = of(&results, "vfio_binding");
    assert_eq!(bad.status, Fail);
    assert_eq!(bad.devices, ["0000:1a:00.1"]);
    assert_eq!(bad.detail, "0000:1a:00.1 is bound to mlx5_core");
}
