//! What a slot must be bound to.
use super::{Bindings, SlotClass};

/// What a slot of this class still lacks before it is schedulable: names of binding fields.
#[must_use]
pub fn missing(class: SlotClass, bindings: &Bindings) -> Vec<&'static str> {
    let mut rules = vec![
        ("management_mac", !bindings.management_mac.is_empty()),
        ("private_ip", !bindings.private_ip.is_empty()),
        ("nvme_bytes", bindings.nvme_bytes > 0),
        (
            "destructive_wipe_policy",
            !bindings.destructive_wipe_policy.is_empty(),
        ),
    ];
    match class {
        SlotClass::Lab => rules.extend([
            ("nvme_device", bindings.nvme_device.starts_with("lab-disk:")),
            (
                "storage_identity_kind",
                bindings.storage_identity_kind == "lab_backing_file",
            ),
        ]),
        SlotClass::H200Sxm => rules.extend([
            (
                "nvme_device",
                bindings.nvme_device.starts_with("/dev/disk/by-id/"),
            ),
            (
                "storage_identity_kind",
                bindings.storage_identity_kind == "nvme_wwn_by_id",
            ),
            ("gpu_pci_address", !bindings.gpu_pci_address.is_empty()),
            (
                "fabric_claim_mode",
                bindings.fabric_claim_mode == "per_slot_vf",
            ),
            (
                "fabric_vf_pci_address",
                !bindings.fabric_vf_pci_address.is_empty(),
            ),
        ]),
    }
    rules
        .into_iter()
        .filter(|(_, present)| !present)
        .map(|(name, _)| name)
        .collect()
}
