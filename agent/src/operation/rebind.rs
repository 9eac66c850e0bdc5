//! The binding of the devices of a slot under repair: those that another driver has are VFIO's afterwards, or the repair fails
//! with the reason, unless it is the slot's first wipe or the host is for bare metal. It comes after the disk, which no device
//! keeps from being wiped, and before the reset, which leaves a device of the host alone.
use std::sync::Arc;

use futures::FutureExt;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::work::{Done, StepDef, Work};
use crate::binding::rebind::{Host, Rebound, is_unbound, rebind};
use crate::error::{HostError, HostResult};
use crate::host::blocking;
use crate::ids::{PciAddress, SlotId};
use crate::prepare::Machine;
use crate::prepare::mode::Modes;

/// Binds GPUs and virtual functions that another driver took.
pub const REBIND_DEVICES: StepDef = StepDef {
    name: "rebind_devices",
    run: |work| rebind_devices(work).boxed(),
    undo: None,
};

async fn rebind_devices(work: &Work) -> HostResult<Done> {
    let (mut done, mut refused) = (Vec::new(), Vec::new());
    for slot in work.slots()? {
        for address in slot.functions()? {
            if !is_unbound(&work.node.root, &address) {
                continue;
            }
            work.check_purpose()?;
            work.touched(slot.id)?;
            // one after the other: when the step ends meanwhile, no other device is touched
            match one(work, slot.id, address.clone()).await? {
                Rebound::Bound => done.push(format!("{address} is bound to VFIO again")),
                Rebound::Left(why) => done.push(format!("{address} is not bound: {why}")),
                Rebound::Refused(why) => refused.push(format!("device {address}: {why}")),
            }
        }
    }
    if !refused.is_empty() {
        let message = format!("not bound to VFIO: {}", refused.join(", "));
        return Err(HostError::device(ErrorReason::DeviceNotBound, message));
    }
    if done.is_empty() {
        return Ok(Done::skipped("no device of the slot has another driver"));
    }
    Ok(Done::with(done.join(", ")))
}

async fn one(work: &Work, slot: SlotId, address: PciAddress) -> HostResult<Rebound> {
    let node = Arc::clone(&work.node);
    let domains = node.hypervisor.domains().await?;
    let known = node.journal.devices()?;
    blocking::run(move || {
        let machine = Machine::new(node.root.clone(), None).with_kernel(Arc::clone(&node.kernel));
        let host = Host {
            machine: &machine,
            modes: Modes {
                flag: None,
                profile: node.settings.profile.mode,
                reported: node.assigned_mode.get(),
            },
            state_dir: &node.settings.state_dir,
            fabric: &node.settings.gpu_fabric,
            known: &known,
            domains: &domains,
        };
        rebind(&host, slot, &address)
    })
    .await
}
