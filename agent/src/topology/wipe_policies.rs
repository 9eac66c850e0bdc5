//! What a discovery says of the wipe of each disk: which policies its host can meet, which one it proposes, and by which
//! manifest a storage transition took the disk over.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::agent::v1 as pb;

use super::discover::Inventory;
use crate::disk::method::possible;
use crate::disk::policy::WipePolicy;
use crate::ids::PciAddress;

/// Proposes a wipe policy for every slot (D-76): who approves the slots approves it with them.
pub fn propose_wipe_policy(report: &mut pb::TopologyReport, policy: WipePolicy) {
    let bindings = report
        .candidates
        .iter_mut()
        .filter_map(|candidate| candidate.bindings.as_mut());
    for bindings in bindings {
        policy
            .as_str()
            .clone_into(&mut bindings.destructive_wipe_policy);
    }
}

/// Sets for every disk by which manifest a storage transition took it over.
pub fn set_storage_transitions(
    report: &mut pb::TopologyReport,
    manifests: &BTreeMap<String, String>,
) {
    for one in &mut report.inspected_devices {
        if let Some(manifest) = manifests.get(&one.device) {
            manifest.clone_into(&mut one.storage_transition_manifest);
        }
    }
}

/// Sets for every disk which wipe policies this host can meet on it (D-75): an operator chooses among those.
pub fn set_wipe_policies(
    report: &mut pb::TopologyReport,
    inventory: &Inventory,
    has_site_command: bool,
) {
    let of_nvme = |device: &str| {
        let mut disks = inventory.nvme.iter();
        let disk = disks.find(|disk| disk.by_id.as_deref() == Some(device))?;
        inventory.answers.get(&disk.name)?.wipe.clone()
    };
    for one in &mut report.inspected_devices {
        if one.device.parse::<PciAddress>().is_ok() {
            continue;
        }
        // what a controller can do that did not answer is not known: nothing is refused then
        let facts = of_nvme(&one.device);
        if facts.is_none() && one.device.starts_with("/dev/") {
            continue;
        }
        let facts = facts.ok_or_else(|| "it has no controller".to_owned());
        let possible = possible(&facts, has_site_command).into_iter();
        one.wipe_policies = possible.map(|policy| policy.as_str().to_owned()).collect();
    }
}
