//! Which devices and addresses a slot of each class must name before it is schedulable.
//!
//! GPU, disk, MAC, address and fabric device are those of. Completeness is the union of for a whole-GPU slot. A lab slot has no
//! GPU and names its disk by the identity of its backing file.
use std::net::Ipv4Addr;

use gpuaas_common::value::{Mac, PciAddress, is_nvme_link, lab_disk};
use gpuaas_proto::gpuaas::common::v1::SlotBindings;

/// Class of a slot; decides what its bindings must hold and which SKU offers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotClass {
    /// One H200 with its disk and fabric function.
    H200Sxm,
    /// An emulated slot without GPU.
    Lab,
}

impl SlotClass {
    /// The class of this name, if there is one.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "h200_sxm" => Some(Self::H200Sxm),
            "lab" => Some(Self::Lab),
            _ => None,
        }
    }
}

/// A binding that is missing or wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Field of the bindings.
    pub field: &'static str,
    /// The rule, as a sentence.
    pub rule: &'static str,
}

const WIPE_POLICIES: [&str; 3] = ["blkdiscard", "nvme_format", "site_erase"];

/// What is missing or wrong, in the order of the fields; empty for complete bindings.
#[must_use]
pub fn violations(class: SlotClass, bindings: &SlotBindings) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut require = |ok: bool, field, rule| {
        if !ok {
            found.push(Violation { field, rule });
        }
    };
    match class {
        SlotClass::H200Sxm => {
            require(
                is_pci_address(&bindings.gpu_pci_address),
                "gpu_pci_address",
                "A whole-GPU slot names its GPU by PCI address (dddd:bb:dd.f).",
            );
            require(
                is_nvme_link(&bindings.nvme_device),
                "nvme_device",
                "The disk is named by /dev/disk/by-id/nvme-eui.…, never by a kernel path.",
            );
            require(
                bindings.storage_identity_kind == "nvme_wwn_by_id",
                "storage_identity_kind",
                "The kind of disk identity is nvme_wwn_by_id.",
            );
        }
        SlotClass::Lab => {
            require(
                bindings.gpu_pci_address.is_empty() && bindings.gpu_module_id.is_none(),
                "gpu_pci_address",
                "A lab slot has no GPU.",
            );
            require(
                lab_disk(&bindings.nvme_device).is_some(),
                "nvme_device",
                "A lab disk is named lab-disk: and the UUID of its backing file.",
            );
            require(
                bindings.storage_identity_kind == "lab_backing_file",
                "storage_identity_kind",
                "The kind of disk identity is lab_backing_file.",
            );
        }
    }
    require(
        is_unicast_mac(&bindings.management_mac),
        "management_mac",
        "The slot has a unicast MAC for its management vNIC.",
    );
    require(
        bindings
            .private_ip
            .parse::<Ipv4Addr>()
            .is_ok_and(|ip| ip.is_private()),
        "private_ip",
        "The slot has a reserved private IPv4 address.",
    );
    match class {
        SlotClass::H200Sxm => {
            require(
                bindings.fabric_claim_mode == "per_slot_vf",
                "fabric_claim_mode",
                "A whole-GPU slot claims its fabric as per_slot_vf.",
            );
            require(
                is_pci_address(&bindings.fabric_vf_pci_address),
                "fabric_vf_pci_address",
                "A whole-GPU slot names its own fabric function by PCI address.",
            );
        }
        SlotClass::Lab => require(
            bindings.fabric_vf_pci_address.is_empty() && bindings.fabric_device.is_empty(),
            "fabric_vf_pci_address",
            "A lab slot has no fabric function.",
        ),
    }
    require(
        WIPE_POLICIES.contains(&bindings.destructive_wipe_policy.as_str()),
        "destructive_wipe_policy",
        "The wipe policy is one of blkdiscard, nvme_format, site_erase.",
    );
    require(
        bindings.nvme_bytes > 0,
        "nvme_bytes",
        "The size of the disk is known.",
    );
    found
}

/// A field in which two slots of one node are equal although each must have its own.
#[must_use]
pub fn shared_field(a: &SlotBindings, b: &SlotBindings) -> Option<&'static str> {
    let same = |x: &str, y: &str| !x.is_empty() && x.eq_ignore_ascii_case(y);
    let fields = [
        (
            "gpu_pci_address",
            same(&a.gpu_pci_address, &b.gpu_pci_address),
        ),
        (
            "gpu_module_id",
            a.gpu_module_id.is_some() && a.gpu_module_id == b.gpu_module_id,
        ),
        ("nvme_device", same(&a.nvme_device, &b.nvme_device)),
        ("management_mac", same(&a.management_mac, &b.management_mac)),
        ("private_ip", same(&a.private_ip, &b.private_ip)),
        (
            "fabric_vf_pci_address",
            same(&a.fabric_vf_pci_address, &b.fabric_vf_pci_address),
        ),
    ];
    fields
        .into_iter()
        .find_map(|(field, shared)| shared.then_some(field))
}

fn is_pci_address(text: &str) -> bool {
    text.parse::<PciAddress>().is_ok()
}

fn is_unicast_mac(text: &str) -> bool {
    text.parse::<Mac>().is_ok()
}

/// Complete bindings of both classes, for tests of this crate.
#[cfg(test)]
pub(crate) mod samples {
    use super::SlotBindings;

    pub(crate) fn h200(index: u32) -> SlotBindings {
        SlotBindings {
            gpu_pci_address: format!("0000:{:02x}:00.0", 0x1b + index),
            gpu_module_id: Some(index + 1),
            numa_node: Some(index / 4),
            nvme_device: format!(
                "/dev/disk/by-id/nvme-eui.000000000000000100a075244a10{index:04x}"
            ),
            storage_identity_kind: "nvme_wwn_by_id".into(),
            management_mac: format!("52:54:00:00:00:{index:02x}"),
            private_ip: format!("10.100.0.{}", 10 + index),
            fabric_device: "0000:1a:00.0".into(),
            fabric_vf_pci_address: format!("0000:1a:00.{}", 1 + index),
            fabric_claim_mode: "per_slot_vf".into(),
            destructive_wipe_policy: "blkdiscard".into(),
            nvme_bytes: 3_840_755_982_336,
        }
    }

    pub(crate) fn lab(index: u32) -> SlotBindings {
        SlotBindings {
            nvme_device: format!("lab-disk:0190a5b0-0000-7000-8000-00000000000{index}"),
            storage_identity_kind: "lab_backing_file".into(),
            management_mac: format!("52:54:00:00:00:{index:02x}"),
            private_ip: format!("10.100.0.{}", 10 + index),
            destructive_wipe_policy: "blkdiscard".into(),
            nvme_bytes: 1 << 30,
            ..SlotBindings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = fn(&mut SlotBindings);

    fn fields(class: SlotClass, bindings: &SlotBindings) -> Vec<&'static str> {
        violations(class, bindings)
            .into_iter()
            .map(|violation| violation.field)
            .collect()
    }

    fn assert_refused(class: SlotClass, good: &SlotBindings, field: &str, changes: &[Change]) {
        assert_eq!(fields(class, good), Vec::<&str>::new());
        for (number, change) in changes.iter().enumerate() {
            let mut bindings = good.clone();
            change(&mut bindings);
            assert_eq!(fields(class, &bindings), [field], "change {number}");
        }
    }

    ///
    #[test]
    fn a_117_a_whole_gpu_slot_names_gpu_disk_mac_and_address() {
        let good = samples::h200(0);
        let gpu: [Change; 4] = [
            |b| b.gpu_pci_address.clear(),
            |b| b.gpu_pci_address = "1b:00.0".into(),
            |b| b.gpu_pci_address = "0000:1b:00.8".into(),
            |b| b.gpu_pci_address = "0000:1b:20.0".into(),
        ];
        assert_refused(SlotClass::H200Sxm, &good, "gpu_pci_address", &gpu);
        let mac: [Change; 4] = [
            |b| b.management_mac.clear(),
            |b| b.management_mac = "00:00:00:00:00:00".into(),
            |b| b.management_mac = "01:00:5e:00:00:01".into(),
            |b| b.management_mac = "52-54-00-00-00-01".into(),
        ];
        assert_refused(SlotClass::H200Sxm, &good, "management_mac", &mac);
        let ip: [Change; 3] = [
            |b| b.private_ip.clear(),
            |b| b.private_ip = "8.8.8.8".into(),
            |b| b.private_ip = "10.100.0.300".into(),
        ];
        assert_refused(SlotClass::H200Sxm, &good, "private_ip", &ip);
    }

    ///
    #[test]
    fn a_110_a_kernel_path_is_no_disk_identity() {
        let disk: [Change; 4] = [
            |b| b.nvme_device.clear(),
            |b| b.nvme_device = "/dev/nvme0n1".into(),
            |b| b.nvme_device = "/dev/disk/by-id/nvme-eui.".into(),
            |b| b.nvme_device = "/dev/disk/by-id/nvme-eui.00/../../nvme0n1".into(),
        ];
        assert_refused(SlotClass::H200Sxm, &samples::h200(0), "nvme_device", &disk);
    }

    #[test]
    fn a_106_the_kind_of_identity_is_recorded() {
        let kind: [Change; 2] = [
            |b| b.storage_identity_kind.clear(),
            |b| b.storage_identity_kind = "lab_backing_file".into(),
        ];
        assert_refused(
            SlotClass::H200Sxm,
            &samples::h200(0),
            "storage_identity_kind",
            &kind,
        );
    }

    #[test]
    fn a_107_the_fabric_is_claimed_per_slot() {
        let mode: [Change; 2] = [
            |b| b.fabric_claim_mode.clear(),
            |b| b.fabric_claim_mode = "shared".into(),
        ];
        assert_refused(
            SlotClass::H200Sxm,
            &samples::h200(0),
            "fabric_claim_mode",
            &mode,
        );
    }

    #[test]
    fn a_108_the_fabric_function_is_named() {
        let vf: [Change; 2] = [
            |b| b.fabric_vf_pci_address.clear(),
            |b| b.fabric_vf_pci_address = "vf0".into(),
        ];
        assert_refused(
            SlotClass::H200Sxm,
            &samples::h200(0),
            "fabric_vf_pci_address",
            &vf,
        );
    }

    #[test]
    fn a_122_metadata_of_the_fabric_is_required_as_a_whole() {
        let mut bindings = samples::h200(0);
        bindings.fabric_claim_mode.clear();
        bindings.fabric_vf_pci_address.clear();
        assert_eq!(
            fields(SlotClass::H200Sxm, &bindings),
            ["fabric_claim_mode", "fabric_vf_pci_address"]
        );
    }

    #[test]
    fn a_118_empty_bindings_lack_everything() {
        assert_eq!(
            fields(SlotClass::H200Sxm, &SlotBindings::default()).len(),
            9
        );
        assert_eq!(fields(SlotClass::Lab, &SlotBindings::default()).len(), 6);
    }

    #[test]
    fn a_lab_slot_is_known_by_its_backing_file_and_has_no_devices() {
        let good = samples::lab(1);
        let disk: [Change; 3] = [
            |b| b.nvme_device = "/dev/loop0".into(),
            |b| b.nvme_device = "lab-disk:".into(),
            |b| b.nvme_device = "lab-disk:00000000-0000-0000-0000-000000000000".into(),
        ];
        assert_refused(SlotClass::Lab, &good, "nvme_device", &disk);
        assert_refused(
            SlotClass::Lab,
            &good,
            "gpu_pci_address",
            &[|b| b.gpu_pci_address = "0000:1b:00.0".into()],
        );
        assert_refused(
            SlotClass::Lab,
            &good,
            "fabric_vf_pci_address",
            &[|b| b.fabric_device = "0000:1a:00.0".into()],
        );
        assert_refused(
            SlotClass::Lab,
            &good,
            "destructive_wipe_policy",
            &[|b| b.destructive_wipe_policy.clear()],
        );
        assert_refused(SlotClass::Lab, &good, "nvme_bytes", &[|b| b.nvme_bytes = 0]);
    }

    #[test]
    fn a_125_two_slots_never_share_a_fabric_function() {
        let (a, mut b) = (samples::h200(0), samples::h200(1));
        assert_eq!(
            shared_field(&a, &b),
            None,
            "one parent device, two functions"
        );
        b.fabric_vf_pci_address = a.fabric_vf_pci_address.to_uppercase();
        assert_eq!(shared_field(&a, &b), Some("fabric_vf_pci_address"));
    }

    #[test]
    fn a_126_two_slots_never_share_a_device_or_address() {
        type Copy = fn(&mut SlotBindings, SlotBindings);
        let copies: [(&str, Copy); 5] = [
            ("gpu_pci_address", |b, a| {
                b.gpu_pci_address = a.gpu_pci_address;
            }),
            ("gpu_module_id", |b, a| b.gpu_module_id = a.gpu_module_id),
            ("nvme_device", |b, a| b.nvme_device = a.nvme_device),
            ("management_mac", |b, a| b.management_mac = a.management_mac),
            ("private_ip", |b, a| b.private_ip = a.private_ip),
        ];
        for (field, copy) in copies {
            let (a, mut b) = (samples::h200(0), samples::h200(1));
            copy(&mut b, a.clone());
            assert_eq!(shared_field(&a, &b), Some(field));
        }
        assert_eq!(
            shared_field(&samples::lab(1), &samples::lab(2)),
            None,
            "what both lack is not shared"
        );
    }
}
