//! What a slot is bound to, and what it must be.
use gpuaas_placement_decision::model::SlotClass;
use serde::{Deserialize, Serialize};

/// The devices and addresses of a slot on its host (A-95..A-99, A-102..A-108); empty text is "none".
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, sqlx::FromRow)]
#[serde(default)]
pub struct Bindings {
    pub gpu_pci_address: String,
    /// Module id of the GPU on its baseboard.
    pub gpu_module_id: Option<i32>,
    /// NUMA node of the GPU.
    pub numa_node: Option<i32>,
    /// Stable identity of the disk.
    pub nvme_device: String,
    /// "nvme_wwn_by_id" or "lab_backing_file".
    pub storage_identity_kind: String,
    /// Size of the disk.
    pub nvme_bytes: i64,
    /// MAC of the management vNIC.
    pub management_mac: String,
    /// Address reserved for that MAC.
    pub private_ip: String,
    /// Parent fabric device.
    pub fabric_device: String,
    /// The slot's own data-plane function.
    pub fabric_vf_pci_address: String,
    /// "per_slot_vf" for a whole-GPU slot.
    pub fabric_claim_mode: String,
    /// "blkdiscard", "nvme_format" or "site_erase".
    pub destructive_wipe_policy: String,
}

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
