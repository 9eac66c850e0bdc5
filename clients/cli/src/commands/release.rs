//! `release`: release an allocation.
use std::time::Duration;

use reqwest::Method;
use serde_json::json;

use super::Session;
use crate::allocation::{Allocation, AllocationRef};
use crate::api::parse;
use crate::failure::Failure;
use crate::output::print_json;
use crate::progress::{self, Goal, Wait};
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
    let verb = format!("{id}:release");
    let mut answer = session
        .api
        .change(
            Method::POST,
            &["allocations", &verb],
            &json!({}),
            &session.key,
        )
        .await?;
    if flags.wait {
        let wait = Wait {
            goal: Goal::Released,
            limit: Duration::from_secs(flags.timeout),
            quiet,
            after,
        };
        answer = progress::wait(&session.api, &id, wait).await?;
    }
    let allocation: Allocation = parse(&answer)?;
    if allocation.status.state == "released" {
        state::forget(&id);
    }
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    match allocation.status.state.as_str() {
        // a queued request was never billed
        "released" if allocation.status.active_time.is_none() => {
            say!("{id} is released. It was not billed.");
        }
        "released" => {
            say!("{id} is released. Show its cost: gpuaas usage --allocation {id}");
        }
        state => say!("{id} is {state}. Watch it: gpuaas watch {id}"),
    }
    Ok(())
}
