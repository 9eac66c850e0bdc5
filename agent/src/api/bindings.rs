//! What a request says of a slot's devices, read into types before anything is looked up or written.
use gpuaas_proto::gpuaas::agent::v1 as pb;

use crate::disk::DiskIdentity;
use crate::disk::policy::WipePolicy;
use crate::error::{HostError, HostResult};
use crate::ids::{ParseError, PciAddress, management_mac, parse_private_ip};

/// Most bytes of what is recorded as it came.
const MAX_TEXT: usize = 128;

/// The devices of a slot, each written in the one way that it is known by here: a device in another spelling would be taken
/// for another device, and two slots could have it (P6).
///
/// # Errors
/// A field that is not what its name says.
pub fn devices(slot: &pb::SlotGrant) -> HostResult<Vec<String>> {
    let bindings = slot.bindings.clone().unwrap_or_default();
    for (field, text) in [
        ("slots.slot_class", &slot.slot_class),
        (
            "slots.bindings.storage_identity_kind",
            &bindings.storage_identity_kind,
        ),
        ("slots.bindings.fabric_device", &bindings.fabric_device),
        (
            "slots.bindings.fabric_claim_mode",
            &bindings.fabric_claim_mode,
        ),
    ] {
        let is_plain = text.bytes().all(|b| b.is_ascii_graphic());
        if text.len() > MAX_TEXT || !is_plain {
            let rule = format!("must be at most {MAX_TEXT} printable characters without spaces");
            return Err(HostError::invalid(field, rule));
        }
    }
    if !bindings.management_mac.is_empty() {
        management_mac(&bindings.management_mac)?;
    }
    if !bindings.private_ip.is_empty() {
        parse_private_ip(&bindings.private_ip)?;
    }
    if !bindings.destructive_wipe_policy.is_empty() {
        let _policy: WipePolicy = bindings.destructive_wipe_policy.parse()?;
    }
    let mut named = Vec::new();
    if !bindings.nvme_device.is_empty() {
        let disk: DiskIdentity = bindings.nvme_device.parse()?;
        named.push(disk.to_string());
    }
    for (field, text) in [
        ("gpu_pci_address", &bindings.gpu_pci_address),
        ("fabric_vf_pci_address", &bindings.fabric_vf_pci_address),
    ] {
        if !text.is_empty() {
            let address: PciAddress = text.parse().map_err(|error: ParseError| error.of(field))?;
            named.push(address.to_string());
        }
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::common::v1::SlotBindings;

    use super::*;

    #[test]
    fn p6_a_device_is_one_device_however_it_is_spelled() {
        let slot = |disk: &str, gpu: &str| pb::SlotGrant {
            bindings: Some(SlotBindings {
                nvme_device: disk.into(),
                gpu_pci_address: gpu.into(),
                ..SlotBindings::default()
            }),
            ..pb::SlotGrant::default()
        };
        let known = slot(
            "lab-disk:0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00",
            "0000:1b:00.0",
        );
        for (disk, gpu) in [
            (
                "lab-disk:0F5D4F6E-5F9C-4F0B-8A54-0D8D7B1F0A00",
                "0000:1B:00.0",
            ),
            (
                "lab-disk:0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00",
                "0000:1B:00.0",
            ),
        ] {
            assert_eq!(devices(&slot(disk, gpu)), devices(&known), "{disk} {gpu}");
        }
        for other in [
            "lab-disk:0f5d4f6e5f9c4f0b8a540d8d7b1f0a00",
            "lab-disk:{0f5d4f6e-5f9c-4f0b-8a54-0d8d7b1f0a00}",
        ] {
            assert!(devices(&slot(other, "0000:1b:00.0")).is_err(), "{other}");
        }
        assert_eq!(devices(&pb::SlotGrant::default()), Ok(Vec::new()));
    }
}
