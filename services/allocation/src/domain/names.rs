//! Names that are derived: the VM's and the operation ids.

use sha2::{Digest as _, Sha256};
use uuid::{Builder, Uuid};

/// Name of an allocation's domain on the host (C-17).
#[must_use]
pub fn vm_name(allocation_id: Uuid) -> String {
    format!("gpuaas-slice-{}", allocation_id.simple())
}

/// Name of the VM's port on the host's bridge.
#[must_use]
pub fn port_name(allocation_id: Uuid) -> String {
    let hex = allocation_id.simple().to_string();
    format!("gs{}", &hex[hex.len() - 12..])
}

/// The allocation a domain's name belongs to; nothing when the name is not ours.
#[must_use]
pub fn allocation_of(vm_name: &str) -> Option<Uuid> {
    let id = vm_name.strip_prefix("gpuaas-slice-")?;
    (id.len() == 32).then(|| Uuid::try_parse(id).ok()).flatten()
}

/// Id of the host operation of a workflow's step. The same step and attempt always has the same id, so a call
/// that is made again after a crash attaches to the first one (P4, P5).
#[must_use]
pub fn operation_id(workflow_id: Uuid, step: &str, attempt: u32) -> Uuid {
    let digest = Sha256::new()
        .chain_update(workflow_id.as_bytes())
        .chain_update(step.as_bytes())
        .chain_update(attempt.to_be_bytes())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    Builder::from_custom_bytes(bytes).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c_17_c_18_vm_name_is_the_prefix_and_the_id_without_dashes() {
        for (id, name) in [
            (
                "23bd713b-6073-4ef7-8a51-2897e902365d",
                "gpuaas-slice-23bd713b60734ef78a512897e902365d",
            ),
            (
                "158ea147-0115-407f-bbd5-1850c32b9517",
                "gpuaas-slice-158ea1470115407fbbd51850c32b9517",
            ),
        ] {
            let id: Uuid = id.parse().expect("a uuid");
            assert_eq!(vm_name(id), name);
            assert_eq!(allocation_of(name), Some(id));
        }
        for foreign in [
            "debian",
            "gpuaas-slice-",
            "gpuaas-slice-23bd713b-6073-4ef7-8a51-2897e902365d",
            "x",
        ] {
            assert_eq!(allocation_of(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn d_60_the_port_is_named_by_the_end_of_the_id() {
        let id = Uuid::from_u128(0x23bd_713b_6073_4ef7_8a51_2897_e902_365d);
        assert_eq!(port_name(id), "gs2897e902365d");
    }

    #[test]
    fn operation_ids_are_stable_and_differ_by_every_part() {
        let (one, two) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let id = operation_id(one, "provision", 1);
        assert_eq!(id, operation_id(one, "provision", 1));
        for other in [
            operation_id(two, "provision", 1),
            operation_id(one, "clean_up", 1),
            operation_id(one, "provision", 2),
        ] {
            assert_ne!(id, other);
        }
    }
}
