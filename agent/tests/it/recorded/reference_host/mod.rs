//! A good Dell XE9680L with eight H200 as a recording: the reference host of the documents.
//!
//! It is made by code, so that each other host here is this one and a change.
mod board;
mod devices;
mod machine;
mod network;

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
}

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
