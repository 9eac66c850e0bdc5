//! The guest's first answers after a launch: its address, and a login (D-67, D-68).
use std::time::Duration;

use gpuaas_proto::gpuaas::agent::v1 as pb;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::json;

use super::domain::still_running;
use super::work::{Done, Work};
use crate::dhcp::LeaseState;
use crate::error::{HostError, HostResult};
use crate::guest::host_key::parse_pins;
use crate::guest::login::Account;
use crate::guest::{LoginError, log_in};
use crate::host::blocking;
use crate::host::clock::BootMoment;
use crate::ids::{management_mac, parse_private_ip};
use crate::vm::serial_log;

/// Left of the budget for the undo when a guest never answers.
pub const UNDO_MARGIN: Duration = Duration::from_secs(10);
/// Where sshd listens in the guest.
pub const SSH_PORT: u16 = 22;

/// When the guest must have answered: its boot timeout from the start, within the budget.
fn boot_deadline(work: &Work) -> HostResult<BootMoment> {
    let request: pb::ProvisionRequest = work.request()?;
    let timeout = request.image.and_then(|image| image.boot_timeout);
    let timeout = timeout
        .and_then(|timeout| Duration::try_from(timeout).ok())
        .filter(|timeout| !timeout.is_zero());
    let timeout = timeout.unwrap_or(Duration::from_secs(
        work.node.settings.limits.boot_timeout_s,
    ));
    let now = work.node.clock.now();
    let nanos = work.operation.output("start")["nanos"]
        .as_u64()
        .unwrap_or(now.nanos);
    let by_boot = BootMoment {
        boot_id: now.boot_id.clone(),
        nanos,
    }
    .plus(timeout);
    let by_budget = now.plus(work.remaining().saturating_sub(UNDO_MARGIN));
    Ok(if by_boot.nanos < by_budget.nanos {
        by_boot
    } else {
        by_budget
    })
}

/// Adds to a guest's failure what it printed last: whoever launched it cannot see its console (it is gone with the VM).
pub async fn with_serial_log(
    work: &Work,
    waiting: impl Future<Output = HostResult<Done>>,
) -> HostResult<Done> {
    let mut outcome = waiting.await;
    if let Err(error) = &mut outcome
        && error.class == pb::FailureClass::Guest
    {
        let log = work.node.serial.of_vm(&work.vm());
        error.serial_log_end = blocking::here(|| serial_log::end_of(&log));
    }
    outcome
}

/// Waits until the guest has taken its address.
pub async fn wait_address(work: &Work) -> HostResult<Done> {
    let bindings = work.boot_slot()?.bindings;
    let mac = management_mac(&bindings.management_mac)?;
    let expected = parse_private_ip(&bindings.private_ip)?;
    let before = work.operation.output("reserve_address")["before"].as_u64();
    let deadline = boot_deadline(work)?;
    loop {
        let lease = work.node.dhcp.lease(&mac)?;
        let state = LeaseState::of(lease.as_ref(), expected, before);
        if state == LeaseState::Bound {
            let actual = lease.map(|lease| lease.ip.to_string());
            let report = json!({ "actual_ip": actual, "lease_state": state.as_str() });
            return Ok(Done::giving(format!("{mac} has {expected}"), report));
        }
        if deadline.remaining(&work.node.clock.now()).is_zero() {
            return Err(HostError::guest(
                ErrorReason::GuestNoAddress,
                format!(
                    "the guest did not take its address {expected} in time, its lease is {}",
                    state.as_str()
                ),
            ));
        }
        still_running(work, ErrorReason::GuestNoAddress).await?;
        tokio::time::sleep(work.node.settings.polling.guest()).await;
    }
}

/// Logs in.
pub async fn wait_login(work: &Work) -> HostResult<Done> {
    let request: pb::ProvisionRequest = work.request()?;
    let user = request.guest_user.parse()?;
    let host_keys = parse_pins(work.operation.output("seed")["host_key"].as_str())?;
    let ip = parse_private_ip(&work.boot_slot()?.bindings.private_ip)?;
    let account = Account {
        server: (ip, SSH_PORT).into(),
        host_keys: &host_keys,
        user: &user,
    };
    let deadline = boot_deadline(work)?;
    let nonce = format!("gpuaas-{}", uuid::Uuid::new_v4().simple());
    let mut last = LoginError::TooSlow;
    loop {
        let left = deadline.remaining(&work.node.clock.now());
        if left.is_zero() {
            return Err(HostError::guest(
                ErrorReason::GuestNoLogin,
                format!("no login as {} in time: {last}", request.guest_user),
            ));
        }
        match log_in(&*work.node.guests, account, &work.node.relay, &nonce, left).await {
            Ok(login) => {
                return Ok(Done::giving(
                    "the guest runs commands",
                    json!({ "boot_id": login.boot_id }),
                ));
            }
            Err(error @ LoginError::HostKey) => return Err(not_the_guest(account, &error)),
            Err(error) => last = error,
        }
        still_running(work, ErrorReason::GuestNoLogin).await?;
        work.progress(0, &last.to_string());
        tokio::time::sleep(work.node.settings.polling.guest()).await;
    }
}

/// Another key is no guest that is slow: whoever answers there is somebody else, or an image that took no key.
pub fn not_the_guest(account: Account<'_>, error: &LoginError) -> HostError {
    HostError::guest(
        ErrorReason::HostKeyMismatch,
        format!("at {}: {error}", account.server),
    )
}
