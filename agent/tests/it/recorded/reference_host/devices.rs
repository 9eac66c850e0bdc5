//! Its PCI devices: GPUs, fabric devices with their virtual functions, and disks with their partitions.
use gpuaas_agent::host::recording::{Answer, Entry};

use super::{Corner, Host};

impl Host {
    /// A PCI function below a root, alone in its IOMMU group.
    pub(super) fn function(
        &mut self,
        root: &str,
        address: &str,
        [vendor, device, class]: [&str; 3],
        numa: u32,
        driver: &str,
    ) -> String {
        let folder = format!("/sys/devices/pci0000:{root}/{address}");
        self.link(
            format!("/sys/bus/pci/devices/{address}"),
            format!("../../../devices/pci0000:{root}/{address}"),
        );
        for (name, text) in [("vendor", vendor), ("device", device), ("class", class)] {
            self.text(format!("{folder}/{name}"), format!("0x{text}"));
        }
        self.text(format!("{folder}/numa_node"), numa.to_string());
        self.recording.entries.insert(
            format!("{folder}/config").into(),
            Entry::Bytes("de102335".into()),
        );
        if !driver.is_empty() {
            self.link(
                format!("{folder}/driver"),
                format!("../../../bus/pci/drivers/{driver}"),
            );
        }
        let group = self.groups;
        self.groups += 1;
        self.link(
            format!("{folder}/iommu_group"),
            format!("../../../kernel/iommu_groups/{group}"),
        );
        self.link(
            format!("/sys/kernel/iommu_groups/{group}/devices/{address}"),
            format!("../../../../devices/pci0000:{root}/{address}"),
        );
        folder
    }

    fn lanes(&mut self, folder: &str, speed: &str, width: u32) {
        for which in ["current", "max"] {
            self.text(format!("{folder}/{which}_link_speed"), speed);
            self.text(format!("{folder}/{which}_link_width"), width.to_string());
        }
    }

    pub(super) fn gpu(&mut self, corner: &Corner) {
        let kind = ["10de", "2335", "030200"];
        let folder = self.function(
            corner.root,
            &corner.gpu_address(),
            kind,
            corner.numa,
            "vfio-pci",
        );
        self.text(format!("{folder}/reset"), "");
        self.lanes(&folder, "32.0 GT/s PCIe", 16);
        let bars = "0x000021c042000000 0x000021c042ffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                    0x0000200000000000 0x0000203fffffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                    0x000021c040000000 0x000021c041ffffff 0x000000000014220c\n\
                    0x0000000000000000 0x0000000000000000 0x0000000000000000";
        self.text(format!("{folder}/resource"), bars);
    }

    pub(super) fn nic(
        &mut self,
        number: u32,
        root: &str,
        address: &str,
        numa: u32,
        ethernet: bool,
    ) -> String {
        let kind = match ethernet {
            true => ["15b3", "a2dc", "020000"],
            false => ["15b3", "1021", "020700"],
        };
        let folder = self.function(root, address, kind, numa, "mlx5_core");
        self.lanes(&folder, "32.0 GT/s PCIe", 16);
        let rdma = format!("{folder}/infiniband/mlx5_{number}");
        let guid = format!("a088:c203:00ab:{number:03x}0");
        self.text(format!("{rdma}/node_guid"), guid.clone());
        self.text(format!("{rdma}/fw_ver"), "28.41.1000");
        self.text(format!("{rdma}/board_id"), "DEL0000000034");
        let layer = if ethernet { "Ethernet" } else { "InfiniBand" };
        for (name, text) in [
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", "400 Gb/sec (4X NDR)"),
            ("link_layer", layer),
        ] {
            self.text(format!("{rdma}/ports/1/{name}"), text);
        }
        self.text(
            format!("{rdma}/ports/1/gids/0"),
            format!("fe80:0000:0000:0000:{guid}"),
        );
        // PN and SN of its vital product data
        let vpd = b"\x90\x10\x00PN\x05CA312SN\x05MT230\x78";
        let vpd = vpd.iter().map(|byte| format!("{byte:02x}")).collect();
        self.recording
            .entries
            .insert(format!("{folder}/vpd").into(), Entry::Bytes(vpd));
        self.text(format!("{folder}/sriov_totalvfs"), "16");
        self.text(format!("{folder}/sriov_numvfs"), "0");
        self.link(
            format!("/sys/class/infiniband/mlx5_{number}"),
            format!("../../devices/pci0000:{root}/{address}/infiniband/mlx5_{number}"),
        );
        folder
    }

    /// The only virtual function of a corner's device.
    pub(super) fn virtual_function(&mut self, number: usize, corner: &Corner, device: &str) {
        let address = corner.function_address();
        let kind = ["15b3", "101e", "020700"];
        let folder = self.function(corner.root, &address, kind, corner.numa, "vfio-pci");
        self.text(format!("{folder}/reset"), "");
        self.link(
            format!("{folder}/physfn"),
            format!("../{}", corner.nic_address()),
        );
        self.link(format!("{device}/virtfn0"), format!("../{address}"));
        self.text(format!("{device}/sriov_numvfs"), "1");
        for name in ["node", "port"] {
            self.text(
                format!("{device}/sriov/0/{name}"),
                format!("a0:88:c2:03:00:cd:00:{number:02x}"),
            );
        }
        self.text(format!("{device}/sriov/0/policy"), "Follow");
    }

    pub(super) fn disk(
        &mut self,
        number: u32,
        root: &str,
        bus: &str,
        numa: u32,
        eui: &str,
        sectors: u64,
    ) -> String {
        let address = format!("0000:{bus}:00.0");
        let kind = ["1344", "51c3", "010802"];
        let folder = self.function(root, &address, kind, numa, "nvme");
        self.lanes(&folder, "32.0 GT/s PCIe", 4);
        let name = format!("nvme{number}n1");
        let controller = format!("{folder}/nvme/nvme{number}");
        let disk = format!("{controller}/{name}");
        for (name, text) in [
            ("state", "live"),
            ("model", "Micron_7450_MTFDKCB3T8TFR"),
            ("firmware_rev", "E2MU200"),
        ] {
            self.text(format!("{controller}/{name}"), text);
        }
        self.text(format!("{controller}/serial"), format!("2348{eui}"));
        let wide = format!("000000000000000100a075244a{eui}");
        for (name, text) in [
            ("dev", format!("259:{number}")),
            ("size", sectors.to_string()),
            ("ro", "0".into()),
            ("nsid", "1".into()),
            ("wwid", format!("eui.{wide}")),
            ("queue/discard_max_bytes", "2199023255040".into()),
            ("queue/write_zeroes_max_bytes", "131072".into()),
        ] {
            self.text(format!("{disk}/{name}"), text);
        }
        self.link(format!("{disk}/device"), "..");
        self.link(
            format!("/sys/class/block/{name}"),
            format!("../../devices/pci0000:{root}/{address}/nvme/nvme{number}/{name}"),
        );
        self.link(
            format!("/dev/disk/by-id/nvme-eui.{wide}"),
            format!("../../{name}"),
        );
        self.link(
            format!("/dev/disk/by-id/nvme-Micron_7450_4a{eui}"),
            format!("../../{name}"),
        );
        let device = format!("/dev/{name}");
        self.answer(
            format!("nvme id-ctrl {device} --output-format=json"),
            r#"{"vid":4932,"sn":"234844A10331","oacs":94,"sanicap":3,"nn":128,"fna":4}"#,
        );
        self.answer(
            format!("nvme smart-log {device} --output-format=json"),
            r#"{"critical_warning":0,"temperature":311,"avail_spare":100,"spare_thresh":10,"percent_used":2,
                "media_errors":0,"num_err_log_entries":0,"unsafe_shutdowns":7,"power_on_hours":4242}"#,
        );
        self.answer(format!("wipefs --json --no-act {device}"), "");
        let nothing = Answer::Ended {
            status: 2,
            stdout: String::new(),
            stderr: String::new(),
        };
        self.recording
            .answers
            .insert(format!("blkid -p -o export {device}"), nothing);
        disk
    }

    /// A partition of a disk.
    pub fn partition(&mut self, disk: &str, number: u32, minor: u32) -> String {
        let name = format!("{}p{number}", disk.rsplit('/').next().unwrap());
        for (what, text) in [
            ("partition", number.to_string()),
            ("dev", format!("259:{minor}")),
            ("start", "2048".into()),
            ("size", "1048576".into()),
        ] {
            self.text(format!("{disk}/{name}/{what}"), text);
        }
        let target = disk.strip_prefix("/sys").unwrap();
        self.link(
            format!("/sys/class/block/{name}"),
            format!("../..{target}/{name}"),
        );
        self.answer(
            format!(
                "blkid -p -O 1048576 -S 536870912 -o export /dev/{}",
                disk.rsplit('/').next().unwrap()
            ),
            "TYPE=ext4\n",
        );
        name
    }
}
