//! `release`: release an allocation.
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1::{AllocationState, ReleaseAllocationRequest};

use crate::allocation::{AllocationRef, state_of};
use crate::failure::Failure;
use crate::output::{print_json, word};
use crate::progress::{self, Goal, Wait};
use crate::session::Session;
use crate::state;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Wait until the disk is wiped and the capacity is free.
    #[arg(long)]
    wait: bool,
    /// Maximum wait in seconds.
    #[arg(long, default_value_t = 1800, value_name = "SECONDS")]
    timeout: u64,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let quiet = session.json();
    // what happened before the release is not news
    let after = if flags.wait && !quiet {
        progress::latest_entry(&session.api, &id).await?
    } else {
        0
    };
    let request = ReleaseAllocationRequest {
        allocation_id: id.clone(),
    };
    let mut answer = session.api.apply(&request, &session.key).await?;
    if flags.wait {
        let wait = Wait {
            goal: Goal::Released,
            limit: Duration::from_secs(flags.timeout),
            start: Instant::now(),
            quiet,
            after,
            is_change: false,
        };
        answer = progress::wait(&session.api, &id, wait).await?;
    }
    let state = state_of(&answer.message);
    if state == AllocationState::Released {
        state::forget(&id);
    }
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let status = answer.message.status.unwrap_or_default();
    match state {
        // a queued request was never billed
        AllocationState::Released if status.active_time.is_none() => {
            say!("{id} is released. It was not billed.");
        }
        AllocationState::Released => {
            say!("{id} is released. Show its cost: gpuaas usage --allocation {id}");
        }
        state => say!("{id} is {}. Watch it: gpuaas watch {id}", word(state)),
    }
    Ok(())
}
