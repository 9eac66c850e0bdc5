//! Its processors, memory and programs, and what runs on it.
use std::path::PathBuf;

use gpuaas_agent::host::recording::Entry;

use super::Host;

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

impl Host {
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

    pub(super) fn machine(&mut self) {
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

    pub(super) fn software(&mut self) {
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
}
