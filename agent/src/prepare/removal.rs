//! Whether the agent's package may leave its host: no VM of the platform is here and no allocation holds a slot. Who removes it
//! by mistake loses the only program that wipes the disks of these slots and knows whose they are.
use std::path::Path;

use super::{Machine, Plan, runtime};
use crate::binding;
use crate::error::HostResult;
use crate::ids::VmName;

/// Plans nothing: what stands against a removal is refused, and what it leaves as it is is a note.
///
/// # Errors
/// The record of bound devices cannot be read.
pub async fn plan(machine: &Machine, state_dir: &Path) -> HostResult<Plan> {
    let mut plan = Plan::new("removal-check");
    match runtime::live(machine, state_dir).await {
        Ok(live) => {
            let ours = live.iter().filter(|name| name.parse::<VmName>().is_ok());
            for name in ours {
                plan.refuse(format!(
                    "{name} is on this host: drain the node, and wait until its allocations are released or moved"
                ));
            }
        }
        Err(error) => plan.refuse(format!("nobody knows which VMs are here: {error}")),
    }
    for device in binding::bound(machine, state_dir)? {
        plan.note(format!(
            "{device} stays bound to vfio-pci: bind-devices --mode baremetal gives it back"
        ));
    }
    Ok(plan)
}
