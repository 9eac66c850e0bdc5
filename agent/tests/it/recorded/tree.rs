//! A good Dell XE9680L with eight H200 as a recording: the reference host of the documents (A-69, A-71, A-77).
//!
//! It is made by code, so that each other host here is this one and a change.
use std::path::PathBuf;

use gpuaas_agent::host::recording::{Answer, Entry, Recording, SCHEMA};

/// What one GPU's corner of the host has: the root of its buses, and the addresses there.
pub struct Corner {
    root: &'static str,
    pub gpu: &'static str,
    pub nic: &'static str,
    pub disk: &'static str,
    /// Kernel name of the disk's controller.
    controller: u32,
    /// End of the disk's `eui`.
    pub eui: &'static str,
    /// Place of the GPU on its board.
    pub module: u32,
    numa: u32,
}

const fn corner(
    root: &'static str,
    [gpu, nic, disk]: [&'static str; 3],
    controller: u32,
    eui: &'static str,
    module: u32,
    numa: u32,
) -> Corner {
    Corner {
        root,
        gpu,
        nic,
        disk,
        controller,
        eui,
        module,
        numa,
    }
}

pub const CORNERS: [Corner; 8] = [
    corner("15", ["1b", "1a", "19"], 2, "103331", 2, 0),
    corner("37", ["43", "3c", "3b"], 0, "10dcab", 4, 0),
    corner("48", ["52", "4d", "4c"], 5, "103489", 3, 0),
    corner("59", ["61", "5e", "5d"], 1, "10dc41", 1, 0),
    corner("97", ["9d", "9c", "9b"], 3, "10dc98", 6, 1),
    corner("b7", ["c3", "bf", "be"], 8, "10e101", 8, 1),
    corner("c7", ["d1", "cc", "cb"], 6, "10e115", 7, 1),
    corner("d7", ["df", "da", "d9"], 7, "103483", 5, 1),
];

/// The pairs, the halves and the whole of an HGX board, as its Fabric Manager lists them.
pub const PARTITIONS: [&[u32]; 15] = [
    &[1, 2, 3, 4, 5, 6, 7, 8],
    &[1, 2, 3, 4],
    &[5, 6, 7, 8],
    &[1, 3],
    &[2, 4],
    &[5, 7],
    &[6, 8],
    &[1],
    &[2],
    &[3],
    &[4],
    &[5],
    &[6],
    &[7],
    &[8],
];

/// Programs that the agent runs.
const PROGRAMS: [&str; 13] = [
    "rdma",
    "qemu-img",
    "genisoimage",
    "blkdiscard",
    "blkid",
    "wipefs",
    "losetup",
    "setpriv",
    "ip",
    "partx",
    "nvme",
    "ovs-vsctl",
    "qemu-system-x86_64",
];

impl Corner {
    pub fn gpu_address(&self) -> String {
        format!("0000:{}:00.0", self.gpu)
    }

    pub fn nic_address(&self) -> String {
        format!("0000:{}:00.0", self.nic)
    }

    pub fn function_address(&self) -> String {
        format!("0000:{}:00.1", self.nic)
    }

    pub fn disk_address(&self) -> String {
        format!("0000:{}:00.0", self.disk)
    }

    /// Kernel name of the disk.
    pub fn disk_name(&self) -> String {
        format!("nvme{}n1", self.controller)
    }

    /// Folder of the disk in sysfs.
    pub fn disk_folder(&self) -> String {
        let (root, disk, number) = (self.root, self.disk, self.controller);
        format!("/sys/devices/pci0000:{root}/0000:{disk}:00.0/nvme/nvme{number}/nvme{number}n1")
    }
}

/// Builds a recording.
#[derive(Default)]
pub struct Host {
    pub recording: Recording,
    groups: u32,
}

impl Host {
    /// A file; a number before it is replaced.
    pub fn text(&mut self, path: impl Into<PathBuf>, text: impl Into<String>) {
        let text = format!("{}\n", text.into());
        self.recording
            .entries
            .insert(path.into(), Entry::Text(text));
    }

    pub fn link(&mut self, path: impl Into<PathBuf>, target: impl Into<PathBuf>) {
        self.recording
            .entries
            .insert(path.into(), Entry::Link(target.into()));
    }

    pub fn answer(&mut self, line: impl Into<String>, text: impl Into<String>) {
        self.recording
            .answers
            .insert(line.into(), Answer::text(text));
    }

    /// Takes away everything at and below a path.
    pub fn remove(&mut self, path: &str) {
        let before = self.recording.entries.len();
        self.recording
            .entries
            .retain(|own, _| !own.starts_with(path));
        assert!(before > self.recording.entries.len(), "{path} is not there");
    }

    /// A PCI function below a root, alone in its IOMMU group.
    fn function(
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

    fn gpu(&mut self, corner: &Corner) {
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

    fn nic(&mut self, number: u32, root: &str, address: &str, numa: u32, ethernet: bool) -> String {
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
    fn virtual_function(&mut self, number: usize, corner: &Corner, device: &str) {
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

    fn disk(
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

    /// A line of the first process' mounts.
    pub fn mount(&mut self, number: &str, source: &str, at: &str) {
        let Some(Entry::Text(text)) = self
            .recording
            .entries
            .get_mut(&PathBuf::from("/proc/self/mountinfo"))
        else {
            panic!("no mounts");
        };
        text.push_str(&format!(
            "90 28 {number} / {at} rw,relatime - ext4 {source} rw\n"
        ));
    }

    fn machine(&mut self) {
        for (name, text) in [
            ("sys_vendor", "Dell Inc."),
            ("product_name", "PowerEdge XE9680L"),
            ("product_serial", "7QX4K24"),
            ("chassis_serial", "7QX4K24"),
            ("board_serial", ".7QX4K24.CNFCP0041A00B7."),
            ("bios_vendor", "Dell Inc."),
            ("bios_version", "2.5.4"),
            ("bios_date", "02/12/2026"),
        ] {
            self.text(format!("/sys/class/dmi/id/{name}"), text);
        }
        self.text("/etc/machine-id", "4c4c4544004b4e108051b9c04f4e3534");
        self.text(
            "/etc/os-release",
            "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 24.04.3 LTS\"",
        );
        self.text("/proc/sys/kernel/osrelease", "6.8.0-60-generic");
        self.text(
            "/proc/sys/kernel/random/boot_id",
            "0192f0c1-aaaa-4bbb-8ccc-0123456789ab",
        );
        self.text(
            "/proc/cmdline",
            "BOOT_IMAGE=/boot/vmlinuz-6.8.0-60-generic ro intel_iommu=on iommu=pt",
        );
        self.text(
            "/proc/meminfo",
            "MemTotal:       2113545132 kB\nMemFree:        1513545132 kB",
        );
        let cpu = |cpu: u32| {
            format!(
                "processor\t: {cpu}\nmodel name\t: INTEL(R) XEON(R) PLATINUM 8592+\nphysical id\t: {}\n\
                 cpu cores\t: 64\nmicrocode\t: 0x21000291\nflags\t\t: fpu vmx ept avx512f\n\n",
                cpu % 2
            )
        };
        self.text("/proc/cpuinfo", (0..4).map(cpu).collect::<String>());
        for node in 0..2 {
            let folder = format!("/sys/devices/system/node/node{node}");
            self.text(format!("{folder}/cpulist"), format!("{node}-255:2"));
            self.text(
                format!("{folder}/distance"),
                if node == 0 { "10 21" } else { "21 10" },
            );
            self.text(
                format!("{folder}/meminfo"),
                format!("Node {node} MemTotal:  1056772566 kB"),
            );
            for which in ["nr", "free"] {
                self.text(
                    format!("{folder}/hugepages/hugepages-1048576kB/{which}_hugepages"),
                    "256",
                );
            }
        }
        for which in ["nr", "free"] {
            self.text(
                format!("/sys/kernel/mm/hugepages/hugepages-1048576kB/{which}_hugepages"),
                "512",
            );
        }
        for module in [
            "kvm_intel",
            "vfio",
            "vfio_iommu_type1",
            "vfio_pci",
            "mlx5_core",
        ] {
            self.recording
                .entries
                .insert(format!("/sys/module/{module}").into(), Entry::Folder(0o755));
        }
        self.text("/dev/kvm", "");
        for program in PROGRAMS {
            self.text(format!("/usr/bin/{program}"), "");
        }
        for file in ["OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"] {
            self.text(format!("/usr/share/OVMF/{file}"), "");
        }
        self.recording
            .entries
            .insert("/var/lib/libvirt".into(), Entry::Folder(0o755));
        self.answer(
            "dmidecode --type processor",
            "Processor Information\n\tSerial Number: Not Specified\nProcessor Information\n\tSerial Number: Not Specified\n",
        );
    }

    fn software(&mut self) {
        self.text(
            "/proc/swaps",
            "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority",
        );
        self.text(
            "/proc/self/mountinfo",
            "22 28 0:21 / /proc rw,nosuid - proc proc rw\n28 1 259:10 / / rw,relatime shared:1 - ext4 /dev/nvme4n1p2 rw",
        );
        for (pid, program) in [
            (1, "systemd"),
            (912, "libvirtd"),
            (977, "dnsmasq"),
            (1203, "netdata"),
        ] {
            self.text(format!("/proc/{pid}/comm"), program);
            self.text(
                format!("/proc/{pid}/stat"),
                format!("{pid} ({program}) S 1"),
            );
            self.link(format!("/proc/{pid}/ns/mnt"), "mnt:[4026531841]");
            self.text(
                format!("/proc/{pid}/mountinfo"),
                "28 1 259:10 / / rw,relatime shared:1 - ext4 /dev/nvme4n1p2 rw",
            );
            self.link(format!("/proc/{pid}/fd/0"), "/dev/null");
        }
        self.text("/run/dnsmasq/dnsmasq.pid", "977");
        self.text(
            "/proc/self/net/tcp",
            "   0: 0100007F:4E1E 00000000:0000 0A 00000000:00000000 00:00000000 00000000   999        0 71 1",
        );
        for (name, text) in [
            ("h200-ib.done", ""),
            ("h200-slice-vm.done", ""),
            (
                "h200-slice-vm.validation",
                "kvm=present\niommu_groups=510\nlibvirtd=active",
            ),
        ] {
            self.text(format!("/var/lib/gpuaas/site-bootstrap/{name}"), text);
        }
        self.recording
            .entries
            .insert("/etc/dnsmasq.d/gpuaas-hosts".into(), Entry::Folder(0o755));
    }

    fn network(&mut self) {
        self.text("/proc/sys/net/ipv4/ip_forward", "1");
        self.text("/etc/netplan/60-ipoib.yaml", "network:\n  version: 2");
        let address = |name: &str, address: &str, length: u32| {
            format!(
                r#"{{"ifname":"{name}","addr_info":[{{"family":"inet","local":"{address}","prefixlen":{length},"scope":"global"}}]}}"#
            )
        };
        let bridge = address("ovsbr0", "10.100.0.1", 24);
        let all = [
            address("lo", "127.0.0.1", 8),
            address("eno1", "10.4.0.7", 22),
            bridge.clone(),
            address("ibp26s0", "192.168.4.7", 16),
            address("tmfifo_net0", "192.168.100.1", 30),
            address("tailscale0", "100.127.75.81", 32),
        ];
        for (name, kind) in [("eno1", "1"), ("ibp26s0", "32"), ("tailscale0", "65534")] {
            self.text(format!("/sys/class/net/{name}/type"), kind);
            self.text(
                format!("/sys/class/net/{name}/uevent"),
                format!("INTERFACE={name}"),
            );
        }
        self.text("/dev/ipmi0", "");
        self.answer(
            "ipmitool lan print",
            "IP Address Source       : Static Address\nIP Address              : 10.177.3.241\n\
             Subnet Mask             : 255.255.252.0\nMAC Address             : c4:cb:e1:00:00:01\n",
        );
        self.answer("ip -json address show", format!("[{}]", all.join(",")));
        self.answer("ip -json address show dev ovsbr0", format!("[{bridge}]"));
        self.answer(
            "ip -json -4 route show",
            r#"[{"dst":"default","dev":"eno1"},{"dst":"10.4.0.0/22","dev":"eno1"},{"dst":"192.168.0.0/16","dev":"ibp26s0"}]"#,
        );
        self.answer("probe libvirt-version", "8000000");
        for what in ["domains", "running"] {
            self.answer(format!("probe libvirt-{what}"), "[]");
        }
        self.answer("ovs-vsctl --timeout=5 br-exists ovsbr0", "");
        self.answer("nft --json list ruleset", MASQUERADE);
        self.answer("iptables-save -t nat", "");
        self.answer(
            "lldpcli -f json0 show neighbors details",
            r#"{"lldp":[{"interface":[{"name":"eno1","chassis":[{"id":[{"type":"mac","value":"ec:0d:9a:00:00:01"}],
                "name":[{"value":"leaf-7"}]}],"port":[{"id":[{"type":"ifname","value":"swp12"}],
                "descr":[{"value":"gpu-07 eno1"}]}]}]}]}"#,
        );
    }

    fn board(&mut self) {
        let gpus = CORNERS.iter().map(|corner| {
            format!(
                "<gpu id=\"00000000:{}:00.0\"><serial>16529240{}</serial><uuid>GPU-{}</uuid>\
                 <vbios_version>96.00.A5.00.0{}</vbios_version><module_id>{}</module_id></gpu>",
                corner.gpu.to_uppercase(),
                corner.gpu,
                corner.gpu,
                corner.module % 10,
                corner.module
            )
        });
        let gpus: String = gpus.collect();
        self.text(
            "/var/lib/gpuaas/nvidia-smi.xml",
            format!("<?xml version=\"1.0\" ?>\n<nvidia_smi_log>{gpus}</nvidia_smi_log>"),
        );
        let partition = |(number, modules): (usize, &&[u32])| {
            let gpus: Vec<String> = modules
                .iter()
                .map(|module| {
                    format!(
                        r#"{{"physicalId":{module},"uuid":"","pciBusId":"","maxNumNvLinks":18}}"#
                    )
                })
                .collect();
            let count = modules.len();
            let gpus = gpus.join(",");
            format!(
                r#"{{"partitionId":{number},"isActive":0,"numGpus":{count},"gpuInfo":[{gpus}]}}"#
            )
        };
        let table: Vec<String> = PARTITIONS.iter().enumerate().map(partition).collect();
        self.text(
            "/var/lib/gpuaas/fabric-partitions.json",
            format!(
                r#"{{"version":1,"numPartitions":15,"partitionInfo":[{}]}}"#,
                table.join(",")
            ),
        );
    }
}

const MASQUERADE: &str = r#"{"nftables":[{"metainfo":{"version":"1.0.9"}},
    {"table":{"family":"ip","name":"nat","handle":1}},
    {"chain":{"family":"ip","table":"nat","name":"POSTROUTING","handle":1,"type":"nat","hook":"postrouting","prio":100,"policy":"accept"}},
    {"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","handle":2,"expr":[
        {"match":{"op":"==","left":{"payload":{"protocol":"ip","field":"saddr"}},"right":{"prefix":{"addr":"10.100.0.0","len":24}}}},
        {"masquerade":null}]}}]}"#;

/// The settings that a slice host's agent has.
fn settings() -> serde_json::Value {
    serde_json::json!({
        "profile": {
            "name": "h200-slice",
            "hypervisor": "kvm",
            "cpu_model": "host-passthrough",
            "hugepages": true,
            "firmware_code": "/usr/share/OVMF/OVMF_CODE_4M.fd",
            "firmware_vars_template": "/usr/share/OVMF/OVMF_VARS_4M.fd",
            "emulator": "/usr/bin/qemu-system-x86_64",
        },
        "location": { "rack": "r12", "failure_domain": "row-3" },
    })
}

/// The good host.
pub fn good() -> Host {
    let mut host = Host::default();
    host.recording.schema = SCHEMA;
    host.recording.agent_version = "0.1.0".into();
    host.recording.settings = settings();
    host.machine();
    host.software();
    host.network();
    host.board();
    let display = ["102b", "0536", "030000"];
    host.function("00", "0000:03:00.0", display, 0, "mgag200");
    for (number, corner) in (0..).zip(&CORNERS) {
        host.disk(
            corner.controller,
            corner.root,
            corner.disk,
            corner.numa,
            corner.eui,
            7_501_476_528,
        );
        let device = host.nic(
            number,
            corner.root,
            &corner.nic_address(),
            corner.numa,
            false,
        );
        host.virtual_function(number as usize + 1, corner, &device);
        host.gpu(corner);
    }
    for (number, address) in [(8, "0000:8c:00.0"), (9, "0000:8c:00.1")] {
        host.nic(number, "88", address, 1, false);
    }
    for (number, address) in [(10, "0000:bc:00.0"), (11, "0000:bc:00.1")] {
        host.nic(number, "b8", address, 1, true);
    }
    host.function("b8", "0000:bc:00.2", ["15b3", "c2d5", "080100"], 1, "");
    for bus in ["05", "06", "07", "08"] {
        let switch = ["10de", "22a3", "068000"];
        host.function("01", &format!("0000:{bus}:00.0"), switch, 0, "vfio-pci");
    }
    let disk = host.disk(4, "00", "01", 0, "0fffff", 937_703_088);
    host.partition(&disk, 1, 9);
    host.partition(&disk, 2, 10);
    // a path of native multipath is no disk
    host.text(
        "/sys/devices/pci0000:00/0000:01:00.0/nvme/nvme4/nvme4c4n1/size",
        "937703088",
    );
    host.link(
        "/sys/class/block/nvme4c4n1",
        "../../devices/pci0000:00/0000:01:00.0/nvme/nvme4/nvme4c4n1",
    );
    host
}
