//! The hosts of the documents' incidents: the good host and a change. They are shipped as recordings.
use gpuaas_agent::host::recording::{Answer, Entry};

use super::reference_host::{CORNERS, Corner, Host};

/// What makes another host of the good one.
pub type Change = fn(&mut Host);

/// By the name of its recording.
pub const HOSTS: [(&str, Change); 15] = [
    ("xe9680l", |_| ()),
    ("vmx-off", vmx_off),
    ("nat-missing", nat_missing),
    ("ipoib-missing", ipoib_missing),
    ("mounted-child-partition", mounted_child_partition),
    ("disk-names-moved", disk_names_moved),
    ("system-on-lvm", system_on_lvm),
    ("shared-fabric-device", shared_fabric_device),
    ("bare-metal", bare_metal),
    ("half-configured-functions", half_configured_functions),
    ("degraded-gpu-link", degraded_gpu_link),
    ("dead-disk", dead_disk),
    ("failing-disk", failing_disk),
    ("function-without-link", function_without_link),
    ("unknown-board", unknown_board),
];

pub fn vmx_off(host: &mut Host) {
    host.remove("/dev/kvm");
    host.remove("/sys/module/kvm_intel");
}

pub fn nat_missing(host: &mut Host) {
    host.answer("nft --json list ruleset", "{\"nftables\":[]}");
}

pub fn ipoib_missing(host: &mut Host) {
    host.remove("/etc/netplan/60-ipoib.yaml");
}

pub fn mounted_child_partition(host: &mut Host) {
    let name = host.partition(&CORNERS[2].disk_folder(), 1, 40);
    host.mount("259:40", &format!("/dev/{name}"), "/share3");
}

/// The system's disk and that of the first slot change names.
pub fn disk_names_moved(host: &mut Host) {
    let swapped = |text: &str| {
        text.replace("nvme2n1", "\u{1}")
            .replace("nvme4n1", "nvme2n1")
            .replace('\u{1}', "nvme4n1")
    };
    let entries = std::mem::take(&mut host.recording.entries);
    host.recording.entries = entries
        .into_iter()
        .map(|(path, entry)| {
            let path = swapped(&path.to_string_lossy()).into();
            let entry = match entry {
                Entry::Link(to) => Entry::Link(swapped(&to.to_string_lossy()).into()),
                Entry::Text(text) => Entry::Text(swapped(&text)),
                other => other,
            };
            (path, entry)
        })
        .collect();
    let answers = std::mem::take(&mut host.recording.answers);
    let moved = answers
        .into_iter()
        .map(|(line, answer)| (swapped(&line), answer));
    host.recording.answers = moved.collect();
}

pub fn system_on_lvm(host: &mut Host) {
    let disk = CORNERS[4].disk_folder();
    let name = host.partition(&disk, 3, 41);
    host.link(
        format!("{disk}/{name}/holders/dm-0"),
        "../../../../../../../virtual/block/dm-0",
    );
    host.link("/sys/class/block/dm-0", "../../devices/virtual/block/dm-0");
    for (what, text) in [
        ("dev", "253:0"),
        ("dm/name", "vg0-root"),
        ("dm/uuid", "LVM-4Xa"),
    ] {
        host.text(format!("/sys/devices/virtual/block/dm-0/{what}"), text);
    }
    let target = format!("../../../..{}", disk.strip_prefix("/sys/devices").unwrap());
    host.link(
        format!("/sys/devices/virtual/block/dm-0/slaves/{name}"),
        format!("{target}/{name}"),
    );
    host.mount("253:0", "/dev/mapper/vg0-root", "/var");
}

/// The second corner's device is gone, and the first one's has two functions.
pub fn shared_fabric_device(host: &mut Host) {
    host.remove("/sys/devices/pci0000:37/0000:3c:00.0");
    host.remove("/sys/bus/pci/devices/0000:3c:00.0");
    let device = "/sys/devices/pci0000:15/0000:1a:00.0";
    host.text(format!("{device}/sriov_numvfs"), "2");
    host.link(
        format!("{device}/virtfn1"),
        format!("../{}", CORNERS[1].function_address()),
    );
    for name in ["node", "port"] {
        host.text(
            format!("{device}/sriov/1/{name}"),
            "a0:88:c2:03:00:cd:00:77",
        );
    }
}

/// Its GPUs are with their own driver, and nothing is prepared for slices.
pub fn native_drivers(host: &mut Host) {
    for corner in &CORNERS {
        let folder = format!("/sys/devices/pci0000:{}", host_root(corner));
        let gpu = corner.gpu_address();
        host.link(
            format!("{folder}/{gpu}/driver"),
            "../../../bus/pci/drivers/nvidia",
        );
        host.remove(&format!("{folder}/{}/virtfn0", corner.nic_address()));
        host.text(
            format!("{folder}/{}/sriov_numvfs", corner.nic_address()),
            "0",
        );
    }
    host.text("/proc/901/comm", "nv-fabricmanage");
    host.text("/proc/901/stat", "901 (nv-fabricmanage) S 1");
    host.link("/proc/901/ns/mnt", "mnt:[4026531841]");
}

/// A host that is meant for bare metal, and as it should be.
pub fn bare_metal(host: &mut Host) {
    native_drivers(host);
    host.recording.settings["profile"]["mode"] = "baremetal".into();
    let gpus = (0..8).map(|gpu| format!("GPU {gpu}: NVIDIA H200 (UUID: GPU-{gpu})\n"));
    host.answer("nvidia-smi --list-gpus", gpus.collect::<String>());
}

/// One of four functions is there.
pub fn half_configured_functions(host: &mut Host) {
    host.text("/sys/devices/pci0000:48/0000:4d:00.0/sriov_numvfs", "4");
}

pub fn degraded_gpu_link(host: &mut Host) {
    host.text(
        "/sys/devices/pci0000:c7/0000:d1:00.0/current_link_width",
        "8",
    );
}

pub fn dead_disk(host: &mut Host) {
    let corner = &CORNERS[5];
    let folder = corner.disk_folder();
    let (controller, _) = folder.rsplit_once('/').unwrap();
    host.text(format!("{controller}/state"), "dead");
    host.text(format!("{folder}/size"), "0");
    let line = format!(
        "nvme smart-log /dev/{} --output-format=json",
        corner.disk_name()
    );
    host.recording
        .answers
        .insert(line, Answer::Failed("nvme did not end within 10 s".into()));
}

/// It answers, and says that it is about to fail.
pub fn failing_disk(host: &mut Host) {
    let line = format!(
        "nvme smart-log /dev/{} --output-format=json",
        CORNERS[1].disk_name()
    );
    host.answer(
        line,
        r#"{"critical_warning":1,"temperature":318,"avail_spare":4,"spare_thresh":10,"percent_used":97,
            "media_errors":212,"num_err_log_entries":212,"unsafe_shutdowns":7,"power_on_hours":31042}"#,
    );
}

/// The port of one corner's device was never reached by a subnet manager.
pub fn function_without_link(host: &mut Host) {
    host.text(
        "/sys/devices/pci0000:59/0000:5e:00.0/infiniband/mlx5_3/ports/1/state",
        "2: INIT",
    );
}

/// Its GPUs are those of a B200.
pub fn unknown_board(host: &mut Host) {
    for corner in &CORNERS {
        let folder = format!(
            "/sys/devices/pci0000:{}/{}",
            host_root(corner),
            corner.gpu_address()
        );
        host.text(format!("{folder}/device"), "0x2901");
    }
}

pub fn host_root(corner: &Corner) -> String {
    let folder = corner.disk_folder();
    folder.split("pci0000:").nth(1).unwrap()[..2].to_owned()
}
