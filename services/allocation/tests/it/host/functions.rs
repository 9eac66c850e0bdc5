//! A virtual function of the fabric for each slot: files of sysfs, and a kernel that binds drivers to them.
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use gpuaas_agent::host::root::HostRoot;
use gpuaas_agent::prepare::machine::Kernel;

use super::Host;

/// Drivers take and let go of devices as the kernel has it.
pub struct Drivers;

impl Kernel for Drivers {
    fn write(&self, root: &HostRoot, path: &Path, value: &str) -> io::Result<()> {
        let text = path.to_str().expect("plain");
        let link = |address: &str| root.path(format!("/sys/bus/pci/devices/{address}/driver"));
        if text.ends_with("/driver_override") {
            return std::fs::write(root.path(path), value.trim());
        }
        if text.ends_with("/unbind") {
            return std::fs::remove_file(link(value));
        }
        assert_eq!(text, "/sys/bus/pci/drivers_probe");
        let chosen = format!("/sys/bus/pci/devices/{value}/driver_override");
        let chosen = root.read_value(chosen).unwrap_or_default();
        symlink(format!("/sys/bus/pci/drivers/{chosen}"), link(value))
    }
}

impl Host {
    /// Gives each slot a function that was bound to VFIO on this host, which is in slice mode.
    pub fn with_functions(mut self) -> Self {
        self.functions = true;
        for (file, text) in [
            ("proc/self/mountinfo", ""),
            ("proc/swaps", ""),
            ("sys/class/block/none/partition", "1\n"),
            ("sys/bus/pci/devices/0000:1b:00.0/config", "\u{1}"),
        ] {
            self.write_root(file, text);
        }
        for index in 0..self.disks.len() {
            let address = self.function(index).expect("it has one");
            let node = format!("infiniband_verbs/uverbs{index}/uevent");
            let name = format!("DEVNAME=infiniband/uverbs{index}\n");
            for (file, text) in [
                ("vendor", "0x15b3\n"),
                ("config", "\u{1}"),
                ("reset", ""),
                ("driver_override", "vfio-pci"),
                (node.as_str(), name.as_str()),
            ] {
                self.write_root(&format!("sys/bus/pci/devices/{address}/{file}"), text);
            }
            let device = self.path(&format!("root/sys/bus/pci/devices/{address}"));
            symlink("../0000:1b:00.0", device.join("physfn")).expect("a link");
            self.write_root(&format!("etc/driverctl.d/pci-{address}"), "vfio-pci\n");
            self.bind_function(index, "vfio-pci");
        }
        self
    }

    /// PCI address of a slot's function.
    pub fn function(&self, index: usize) -> Option<String> {
        self.functions.then(|| format!("0000:1b:00.{}", 1 + index))
    }

    fn driver_link(&self, index: usize) -> PathBuf {
        let address = self.function(index).expect("it has one");
        self.path(&format!("root/sys/bus/pci/devices/{address}/driver"))
    }

    /// A driver takes a slot's function from the one that has it.
    pub fn bind_function(&self, index: usize, driver: &str) {
        let link = self.driver_link(index);
        let _it_may_have_none = std::fs::remove_file(&link);
        symlink(format!("/sys/bus/pci/drivers/{driver}"), link).expect("a link");
    }

    /// Which driver has a slot's function; empty: none.
    pub fn function_driver(&self, index: usize) -> String {
        let target = std::fs::read_link(self.driver_link(index)).unwrap_or_default();
        let name = target.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// A program of the host has a slot's function open, or has ended.
    pub fn use_function(&self, index: usize, is_used: bool) {
        if !is_used {
            std::fs::remove_dir_all(self.path("root/proc/4242")).expect("it ran");
            return;
        }
        self.write_root("proc/4242/comm", "ib_write_bw\n");
        let folder = self.path("root/proc/4242/fd");
        std::fs::create_dir(&folder).expect("a folder");
        let node = format!("/dev/infiniband/uverbs{index}");
        symlink(node, folder.join("7")).expect("a link");
    }

    pub(super) fn write_root(&self, file: &str, text: &str) {
        let file = self.path("root").join(file);
        std::fs::create_dir_all(file.parent().expect("a folder")).expect("a folder");
        std::fs::write(file, text).expect("a file");
    }
}
