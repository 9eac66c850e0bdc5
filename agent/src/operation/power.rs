//! Stop, start and reboot of a VM that was provisioned. A start ends a rescue. There is no undo, but that of a rescue whose VM is
//! off: a VM that started and does not answer is its owner's, and is left as it is; the control plane queries its state.
use std::time::Duration;

use futures::FutureExt;
use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;

use super::address::reserve_again;
use super::domain::{Disks, define_on, start_apart, still_running};
use super::login::{SSH_PORT, not_the_guest};
use super::partition;
use super::release;
use super::remove;
use super::rescue_key;
use super::work::{Done, StepDef, Work};
use crate::disk::Intent;
use crate::error::{HostError, HostResult};
use crate::guest::host_key::parse_pins;
use crate::guest::login::Account;
use crate::guest::{LoginError, log_in};
use crate::host::clock::BootMoment;
use crate::ids::parse_private_ip;
use crate::journal::Kind;
use crate::vm::PowerState;

pub const PROVE_DISK: StepDef = StepDef {
    name: "prove_disk",
    run: |work| prove_disk(work).boxed(),
    undo: None,
};
const DEFINE: StepDef = StepDef {
    name: "define",
    run: |work| define(work).boxed(),
    undo: None,
};
pub const START_VM: StepDef = StepDef {
    name: "start",
    run: |work| start(work).boxed(),
    undo: None,
};
pub const WAIT_LOGIN: StepDef = StepDef {
    name: "wait_login",
    run: |work| wait_login(work).boxed(),
    undo: None,
};

/// Shut down, hard when it must be.
pub const STOP: &[StepDef] = &[release::STOP, partition::DEACTIVATE];
/// Prove, define on today's device, connect the GPUs, start, log in.
pub const START: &[StepDef] = &[
    PROVE_DISK,
    DEFINE,
    partition::ACTIVATE,
    START_VM,
    WAIT_LOGIN,
];
/// Stop and start, where the start can be expected to work.
pub const REBOOT: &[StepDef] = &[
    partition::FIND,
    release::STOP,
    partition::DEACTIVATE,
    PROVE_DISK,
    DEFINE,
    partition::ACTIVATE,
    START_VM,
    WAIT_LOGIN,
];

pub async fn runs(work: &Work) -> HostResult<bool> {
    let state = work.node.hypervisor.state(work.vm().as_str()).await?;
    Ok(state == Some(PowerState::Running))
}

/// Proves every disk: it is the one that was approved, and nothing but this allocation's own domain names or uses it.
/// Returns today's devices.
pub async fn prove(work: &Work) -> HostResult<Vec<std::path::PathBuf>> {
    let intent = Intent::Boot {
        allocation: work.operation.allocation,
    };
    let mut devices = Vec::new();
    for slot in work.slots()? {
        if !work.touched(slot.id)? {
            return Err(HostError::device(
                ErrorReason::DiskUnsafe,
                format!("slot {} holds nothing of this allocation", slot.id),
            ));
        }
        devices.push(work.prove(&slot, intent).await?.device());
    }
    Ok(devices)
}

async fn prove_disk(work: &Work) -> HostResult<Done> {
    if runs(work).await? {
        return Ok(Done::skipped("the domain runs on its disk already"));
    }
    prove(work).await?;
    Ok(Done::with("nobody else uses the disk"))
}

/// The kernel may name the disk anew after a restart of the host: the domain is defined on what it is called now.
pub async fn define(work: &Work) -> HostResult<Done> {
    if runs(work).await? {
        return Ok(Done::skipped("the domain runs already"));
    }
    let disks = Disks {
        rescue: None,
        own: prove(work).await?,
    };
    define_on(work, disks, None).await?;
    // without it no rule lets the VM use the network
    reserve_again(work).await?;
    // of a VM whose first boot was under an agent that left it, or of a rescue
    remove::seed(&work.node, work.operation.allocation).await?;
    remove::rescue(&work.node, work.operation.allocation).await?;
    Ok(Done::with(format!("domain {} is defined", work.vm())))
}

async fn start(work: &Work) -> HostResult<Done> {
    start_apart(work).await?;
    let now = work.node.clock.now();
    Ok(Done::giving(
        "domain started",
        json!({ "nanos": now.nanos }),
    ))
}

/// Logs in at the slot's address: the same disk answers there, and reports its boot id.
async fn wait_login(work: &Work) -> HostResult<Done> {
    let request: pb::PowerRequest = work.request()?;
    let user = request.guest_user.parse()?;
    // a rescue image has a key of its own, which this very operation gave it
    let pins = match work.operation.kind {
        Kind::Rescue => vec![rescue_key::host_key(work)?],
        _ => request.ssh_host_keys.clone(),
    };
    let host_keys = parse_pins(pins.iter().map(String::as_str))?;
    let ip = parse_private_ip(&work.boot_slot()?.bindings.private_ip)?;
    let account = Account {
        server: (ip, SSH_PORT).into(),
        host_keys: &host_keys,
        user: &user,
    };
    let timeout = request
        .boot_timeout
        .and_then(|timeout| Duration::try_from(timeout).ok())
        .filter(|timeout| !timeout.is_zero())
        .unwrap_or(Duration::from_secs(
            work.node.settings.limits.boot_timeout_s,
        ));
    let now = work.node.clock.now();
    let nanos = work.operation.output("start")["nanos"].as_u64();
    let deadline = BootMoment {
        nanos: nanos.unwrap_or(now.nanos),
        ..now
    }
    .plus(timeout);
    let nonce = format!("gpuaas-{}", uuid::Uuid::new_v4().simple());
    let mut last = LoginError::TooSlow;
    loop {
        let left = deadline
            .remaining(&work.node.clock.now())
            .min(work.remaining());
        if left.is_zero() {
            return Err(HostError::guest(
                ErrorReason::GuestNoLogin,
                format!("no login as {} in time: {last}", request.guest_user),
            ));
        }
        match log_in(&*work.node.guests, account, &work.node.relay, &nonce, left).await {
            Ok(login) => match login.boot_id {
                Some(boot_id) => {
                    return Ok(Done::giving(
                        "the guest runs commands",
                        json!({ "boot_id": boot_id }),
                    ));
                }
                None => last = LoginError::NoCommand,
            },
            Err(error @ LoginError::HostKey) => return Err(not_the_guest(account, &error)),
            Err(error) => last = error,
        }
        still_running(work, ErrorReason::GuestNoLogin).await?;
        work.progress(0, &last.to_string());
        tokio::time::sleep(work.node.settings.polling.guest()).await;
    }
}

/// The proof of a start.
pub fn result(work: &Work) -> HostResult<pb::HostOperation> {
    let boot_id = work.operation.output("wait_login")["boot_id"]
        .as_str()
        .unwrap_or_default();
    let ssh_host_keys = match work.operation.kind {
        Kind::Rescue => vec![rescue_key::host_key(work)?],
        _ => Vec::new(),
    };
    Ok(pb::HostOperation {
        power_result: Some(pb::PowerResult {
            boot_id: boot_id.to_owned(),
            ssh_host_keys,
        }),
        ..pb::HostOperation::default()
    })
}
