//! `stop`, `start`, `reboot`, `rescue` and `unrescue`: the power of an active allocation.
use std::time::{Duration, Instant};

use gpuaas_proto::call::Unary;
use gpuaas_proto::gpuaas::allocation::v1::{
    Allocation, PowerState, RebootAllocationRequest, RescueAllocationRequest,
    StartAllocationRequest, StopAllocationRequest, UnrescueAllocationRequest,
};

use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{print_json, word};
use crate::progress::{self, Goal, Wait};
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Wait for the result.
    #[arg(long)]
    wait: bool,
    /// Maximum wait in seconds.
    #[arg(long, default_value_t = 900, value_name = "SECONDS")]
    timeout: u64,
}

#[derive(Debug, clap::Args)]
pub struct Forced {
    #[command(flatten)]
    flags: Flags,
    /// Turn the VM off without a shutdown. Data that is not on disk yet is lost.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
pub struct Rescue {
    #[command(flatten)]
    forced: Forced,
    /// Rescue image: compatible with the SKU, and not the image of the allocation.
    #[arg(long)]
    image: String,
}

/// What `--force` belongs to.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    /// Shut down.
    Stop,
    /// Shut down, and start again.
    Reboot,
    /// Start from the own disk again.
    Unrescue,
}

/// Stops, reboots or ends a rescue, with or without asking the guest.
///
/// # Errors
/// See [`Failure`].
pub async fn forced(session: &Session, flags: &Forced, verb: Verb) -> Result<(), Failure> {
    let (force, flags) = (flags.force, &flags.flags);
    let allocation_id = flags.of.id(&session.api).await?;
    match verb {
        Verb::Stop => {
            let request = StopAllocationRequest {
                allocation_id: allocation_id.clone(),
                force,
            };
            change(session, flags, allocation_id, request, PowerState::Stopped).await
        }
        Verb::Reboot => {
            let request = RebootAllocationRequest {
                allocation_id: allocation_id.clone(),
                force,
            };
            change(session, flags, allocation_id, request, PowerState::Running).await
        }
        Verb::Unrescue => {
            let request = UnrescueAllocationRequest {
                allocation_id: allocation_id.clone(),
                force,
            };
            change(session, flags, allocation_id, request, PowerState::Running).await
        }
    }
}

/// Starts from a rescue image.
///
/// # Errors
/// See [`Failure`].
pub async fn rescue(session: &Session, flags: &Rescue) -> Result<(), Failure> {
    let Forced { flags: of, force } = &flags.forced;
    let id = of.of.id(&session.api).await?;
    let request = RescueAllocationRequest {
        allocation_id: id.clone(),
        image: flags.image.clone(),
        force: *force,
    };
    change(session, of, id, request, PowerState::Rescued).await
}

/// Starts.
///
/// # Errors
/// See [`Failure`].
pub async fn start(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let request = StartAllocationRequest {
        allocation_id: id.clone(),
    };
    change(session, flags, id, request, PowerState::Running).await
}

async fn change(
    session: &Session,
    flags: &Flags,
    id: String,
    request: impl Unary<Response = Allocation>,
    goal: PowerState,
) -> Result<(), Failure> {
    // what happened before is not news, and no failure of this change
    let after = match flags.wait {
        true => progress::latest_entry(&session.api, &id).await?,
        false => 0,
    };
    let mut answer = session.api.apply(&request, &session.key).await?;
    if flags.wait {
        let wait = Wait {
            goal: Goal::Power(goal),
            limit: Duration::from_secs(flags.timeout),
            start: Instant::now(),
            quiet: session.json(),
            after,
            is_change: true,
        };
        answer = progress::wait(&session.api, &id, wait).await?;
    }
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let status = answer.message.status.unwrap_or_default();
    say!("{id} is {}. {}", word(status.power()), status.billing);
    if !flags.wait {
        say!("Watch it: gpuaas watch {id}");
    }
    Ok(())
}
