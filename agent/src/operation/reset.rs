//! The reset of a slot's devices after its VM, with its result: VFIO resets them too, when the next VM opens them, and says
//! nothing when that fails.
//!
//! It is the last step, after the disk: a GPU that cannot be reset keeps no tenant's data from being wiped. It comes after
//! the partition of the GPUs was deactivated, and never between an activation and a start. One function alone is reset: the
//! kernel takes no way that would reach another one. A device that fails takes its own slot out of service, and no other one
//! of the allocation.
use std::collections::BTreeMap;
use std::path::Path;

use futures::FutureExt;
use gpuaas_proto::gpuaas::agent::v1::FailureClass;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;

use super::work::{Done, StepDef, Work};
use crate::binding::holders::Holders;
use crate::error::{HostError, HostResult};
use crate::host::blocking;
use crate::host::root::HostRoot;
use crate::ids::PciAddress;
use crate::topology::pci;

/// Resets GPUs and virtual functions, and sees that they answer afterwards.
pub const RESET_DEVICES: StepDef = StepDef {
    name: "reset_devices",
    run: |work| reset_devices(work).boxed(),
    undo: None,
};

async fn reset_devices(work: &Work) -> HostResult<Done> {
    let slots = work.slots()?;
    let mut addresses = Vec::new();
    for slot in &slots {
        for address in slot.functions()? {
            addresses.push((slot.id, address));
        }
    }
    if addresses.is_empty() {
        return Ok(Done::skipped("the slots have no GPU and no function"));
    }
    let (mut done, mut faults, mut last) = (Vec::new(), BTreeMap::new(), None);
    for (slot, address) in addresses {
        let root = work.node.root.clone();
        // the kernel takes its time for a device that does not come back, and the step may end meanwhile: then no other is reset
        match blocking::run(move || one(&root, &address)).await {
            Ok(how) => done.push(how),
            Err(error) if error.class == FailureClass::Device => {
                done.push(error.message.clone());
                faults
                    .entry(slot.to_string())
                    .or_insert_with(|| format!("{}: {}", error.reason_name(), error.message));
                last = Some(error);
            }
            Err(error) => return Err(error),
        }
    }
    match last {
        // nothing of it may be allocated
        Some(error) if faults.len() == slots.len() => Err(error),
        _ => Ok(Done::giving(done.join(", "), json!(faults))),
    }
}

/// Resets one, and returns what was done.
fn one(root: &HostRoot, address: &PciAddress) -> HostResult<String> {
    Ok(match reset(root, address)? {
        None => format!("{address} is reset"),
        Some(why) => format!("{address} is not reset: {why}"),
    })
}

/// Resets one. `None`: it answers afterwards. Else why it was left alone.
fn reset(root: &HostRoot, address: &PciAddress) -> HostResult<Option<String>> {
    let folder = pci::folder(address);
    let failed = |why: String| {
        let message = format!("device {address} {why}");
        HostError::device(ErrorReason::DeviceResetFailed, message)
    };
    if !pci::exists(root, address) {
        let message = format!("device {address} is not there");
        return Err(HostError::device(ErrorReason::DeviceMissing, message));
    }
    // a slot is approved, and its disk wiped, before its devices are bound
    if let Some(driver) = root.link_name(format!("{folder}/driver"))
        && !pci::is_vfio(&driver)
    {
        return Ok(Some(format!("it is the host's, by its driver {driver}")));
    }
    if let Some(holder) = Holders::observe(root)?.of_vfio(root, address) {
        return Err(failed(format!("is in use: {holder}")));
    }
    let file = root.path(format!("{folder}/reset"));
    if !file.exists() {
        return Err(failed("has no reset that reaches it alone".to_owned()));
    }
    write(&file).map_err(|error| failed(format!("cannot be reset: {error}")))?;
    match pci::dead(root, &folder) {
        None => Ok(None),
        Some(why) => Err(failed(format!("{why} after its reset"))),
    }
}

fn write(file: &Path) -> std::io::Result<()> {
    std::fs::OpenOptions::new()
        .write(true)
        .open(file)
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"1\n"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const GPU: &str = "0000:1b:00.0";

    /// A host whose GPU is bound to VFIO, in group 7.
    fn host() -> (tempfile::TempDir, HostRoot) {
        let dir = tempfile::tempdir().unwrap();
        let device = dir.path().join("sys/bus/pci/devices").join(GPU);
        std::fs::create_dir_all(&device).unwrap();
        for (file, text) in [("vendor", "0x10de\n"), ("config", "\u{1}"), ("reset", "")] {
            std::fs::write(device.join(file), text).unwrap();
        }
        symlink("../../../bus/pci/drivers/vfio-pci", device.join("driver")).unwrap();
        symlink("../../kernel/iommu_groups/7", device.join("iommu_group")).unwrap();
        std::fs::create_dir_all(dir.path().join("proc/12/fd")).unwrap();
        std::fs::write(dir.path().join("proc/12/comm"), "qemu-system-x86\n").unwrap();
        let root = HostRoot::new(dir.path());
        (dir, root)
    }

    fn outcome(root: &HostRoot) -> Result<String, (ErrorReason, String)> {
        let done = one(root, &GPU.parse().unwrap());
        done.map_err(|error| (error.reason, error.message))
    }

    fn written(root: &HostRoot) -> String {
        let folder = pci::folder(&GPU.parse().unwrap());
        root.read(format!("{folder}/reset")).unwrap()
    }

    #[test]
    fn p2_a_device_is_reset_and_answers_before_its_slot_is_allocated_again() {
        let (_dir, root) = host();
        assert_eq!(outcome(&root), Ok(format!("{GPU} is reset")));
        assert_eq!(written(&root), "1\n");
    }

    /// D-56: it takes its own slot out of service, with the reason.
    #[test]
    fn p2_a_reset_that_fails_is_the_devices_failure() {
        let folder = format!("sys/bus/pci/devices/{GPU}");
        type Break = fn(&Path);
        let cases: [(Break, ErrorReason, &str); 4] = [
            (
                |device| std::fs::write(device.join("config"), [0xff; 64]).unwrap(),
                ErrorReason::DeviceResetFailed,
                "does not answer on its bus after its reset",
            ),
            (
                |device| {
                    std::fs::remove_file(device.join("reset")).unwrap();
                    std::fs::create_dir(device.join("reset")).unwrap();
                },
                ErrorReason::DeviceResetFailed,
                "cannot be reset: Is a directory",
            ),
            (
                |device| std::fs::remove_file(device.join("reset")).unwrap(),
                ErrorReason::DeviceResetFailed,
                "no reset that reaches it alone",
            ),
            (
                |device| std::fs::remove_dir_all(device).unwrap(),
                ErrorReason::DeviceMissing,
                "is not there",
            ),
        ];
        for (breaks, reason, why) in cases {
            let (dir, root) = host();
            breaks(&dir.path().join(&folder));
            let (found, message) = outcome(&root).unwrap_err();
            assert_eq!(found, reason, "{message}");
            assert!(message.contains(GPU) && message.contains(why), "{message}");
        }
    }

    #[test]
    fn p2_a_device_that_somebody_has_open_is_not_reset_under_them() {
        let (dir, root) = host();
        symlink("/dev/vfio/7", dir.path().join("proc/12/fd/9")).unwrap();
        let (reason, message) = outcome(&root).unwrap_err();
        assert_eq!(reason, ErrorReason::DeviceResetFailed);
        assert!(
            message.contains("process 12 (qemu-system-x86)"),
            "{message}"
        );
        assert_eq!(written(&root), "");
    }

    /// The first wipe of a slot comes before its devices are bound.
    #[test]
    fn d_57_a_device_that_the_host_still_has_is_left_alone() {
        let (dir, root) = host();
        let device = dir.path().join("sys/bus/pci/devices").join(GPU);
        std::fs::remove_file(device.join("driver")).unwrap();
        symlink("../../../bus/pci/drivers/nvidia", device.join("driver")).unwrap();
        let done = outcome(&root).unwrap();
        assert!(done.contains("by its driver nvidia"), "{done}");
        assert_eq!(written(&root), "");
    }
}
