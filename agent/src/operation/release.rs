//! Release, clean-up and repair: from a VM to a clean disk, wiped and verified (D-74), and devices that were reset.
use std::time::Duration;

use futures::FutureExt;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use super::rebind::REBIND_DEVICES;
use super::reset::RESET_DEVICES;
use super::work::{Done, StepDef, Work};
use super::{partition, remove, wiping};
use crate::error::{HostError, HostResult};
use crate::journal::Kind;
use crate::vm::PowerState;

/// A guest that still boots misses the first press of its power button.
const PRESS_AGAIN: Duration = Duration::from_secs(5);

/// Shuts the guest down, and stops it hard when it does not end in time.
pub const STOP: StepDef = StepDef {
    name: "stop",
    run: |work| stop(work).boxed(),
    undo: None,
};
const UNDEFINE: StepDef = StepDef {
    name: "undefine",
    run: |work| undefine(work).boxed(),
    undo: None,
};
const REMOVE_RESERVATION: StepDef = StepDef {
    name: "remove_reservation",
    run: |work| remove_reservation(work).boxed(),
    undo: None,
};
const WIPE: StepDef = StepDef {
    name: "wipe",
    run: |work| wiping::wipe(work).boxed(),
    undo: None,
};
const VERIFY_WIPE: StepDef = StepDef {
    name: "verify_wipe",
    run: |work| wiping::verify_wipe(work).boxed(),
    undo: None,
};

/// Stop, remove, wipe, prove, reset.
pub const RELEASE: &[StepDef] = &[
    STOP,
    partition::DEACTIVATE,
    UNDEFINE,
    REMOVE_RESERVATION,
    WIPE,
    VERIFY_WIPE,
    RESET_DEVICES,
];
/// Stop hard and remove; the disk stays as it is.
pub const CLEAN_UP: &[StepDef] = &[STOP, partition::DEACTIVATE, UNDEFINE, REMOVE_RESERVATION];
/// Prove unused, wipe, prove empty (CON-25), bind to VFIO again what another driver took (D-80), reset.
pub const REPAIR: &[StepDef] = &[
    StepDef {
        name: "prove_disk",
        run: |work| prove_unused(work).boxed(),
        undo: None,
    },
    partition::DEACTIVATE,
    REMOVE_RESERVATION,
    WIPE,
    VERIFY_WIPE,
    REBIND_DEVICES,
    RESET_DEVICES,
];

/// How long the caller lets the guest shut down by itself.
fn graceful_timeout(work: &Work) -> HostResult<Option<prost_types::Duration>> {
    Ok(if work.operation.kind == Kind::Release {
        work.request::<pb::ReleaseRequest>()?.graceful_timeout
    } else {
        work.request::<pb::PowerRequest>()?.graceful_timeout
    })
}

async fn stop(work: &Work) -> HostResult<Done> {
    let name = work.vm();
    let hypervisor = &work.node.hypervisor;
    match hypervisor.state(name.as_str()).await? {
        None => return Ok(Done::skipped("there is no domain")),
        Some(PowerState::ShutOff) => return Ok(Done::skipped("the domain does not run")),
        Some(PowerState::Running) if work.operation.kind != Kind::CleanUp => {
            let signalled =
                graceful_timeout(work)?.and_then(|timeout| Duration::try_from(timeout).ok());
            let most = Duration::from_secs(work.node.settings.limits.max_graceful_s);
            // Half of the budget belongs to what comes after.
            let graceful = signalled
                .unwrap_or_default()
                .min(most)
                .min(work.remaining() / 2);
            if shut_down(work, graceful).await? {
                return Ok(Done::with("the guest shut down"));
            }
        }
        Some(_) => {}
    }
    hypervisor.destroy(name.as_str()).await?;
    match hypervisor.state(name.as_str()).await? {
        None | Some(PowerState::ShutOff) => Ok(Done::with("the domain was stopped hard")),
        Some(state) => Err(HostError::host(
            ErrorReason::HypervisorFailed,
            format!(
                "domain {name} is still {} after it was destroyed",
                state.as_str()
            ),
        )),
    }
}

/// Presses the power button until the guest is off or the time is over (D-71).
async fn shut_down(work: &Work, graceful: Duration) -> HostResult<bool> {
    let name = work.vm();
    let deadline = work.node.clock.now().plus(graceful);
    let mut press_at = work.node.clock.now();
    loop {
        let now = work.node.clock.now();
        if deadline.remaining(&now).is_zero() {
            return Ok(false);
        }
        if press_at.remaining(&now).is_zero() {
            work.node.hypervisor.shutdown(name.as_str()).await?;
            press_at = now.plus(PRESS_AGAIN);
        }
        match work.node.hypervisor.state(name.as_str()).await? {
            None | Some(PowerState::ShutOff) => return Ok(true),
            // paused, by an error of its disk for example: it will never shut down, and it is not off
            Some(PowerState::Stuck) => return Ok(false),
            Some(PowerState::Running) => {}
        }
        tokio::time::sleep(work.node.settings.polling.shutdown()).await;
    }
}

async fn undefine(work: &Work) -> HostResult<Done> {
    remove::undefine(&work.node, work.operation.allocation).await?;
    Ok(Done::with("no domain of this name is left"))
}

async fn remove_reservation(work: &Work) -> HostResult<Done> {
    remove::reservation(&work.node, work.operation.allocation).await?;
    remove::seed(&work.node, work.operation.allocation).await?;
    remove::rescue(&work.node, work.operation.allocation).await?;
    Ok(Done::with(
        "no reservation, port, seed or rescue disk is left",
    ))
}

async fn prove_unused(work: &Work) -> HostResult<Done> {
    for slot in work.slots()? {
        work.prove(&slot, work.wiping(&slot)?).await?;
    }
    Ok(Done::with("nobody uses the disk"))
}
