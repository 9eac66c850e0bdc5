//! `stop`, `start`, `reboot`, `rescue` and `unrescue`: the power of an active allocation.
use std::time::Duration;

use reqwest::Method;
use serde_json::{Value, json};

use super::Session;
use crate::allocation::{Allocation, AllocationRef};
use crate::api::parse;
use crate::failure::Failure;
use crate::output::print_json;
use crate::progress::{self, Goal, Wait};

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// Wait until it is done.
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
    /// Do not ask the guest to shut down. What it did not write to its disk is lost.
    #[arg(long)]
    force: bool,
}

#[derive(Debug, clap::Args)]
pub struct Rescue {
    #[command(flatten)]
    forced: Forced,
    /// Image to start from: one that is compatible with the SKU, and not the allocation's own.
    #[arg(long)]
    image: String,
}

/// The power operation.
#[derive(Clone, Copy, Debug)]
pub enum Verb {
    /// Shut down.
    Stop,
    /// Start again.
    Start,
    /// Both.
    Reboot,
    /// Start from a rescue image.
    Rescue,
    /// Start from the own disk again.
    Unrescue,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Reboot => "reboot",
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
        }
    }

    fn goal(self) -> Goal {
        match self {
            Self::Stop => Goal::Power("stopped"),
            Self::Start | Self::Reboot | Self::Unrescue => Goal::Power("running"),
            Self::Rescue => Goal::Power("rescued"),
        }
    }
}

/// Stops, reboots or ends a rescue, with or without asking the guest.
///
/// # Errors
/// See [`Failure`].
pub async fn forced(session: &Session, flags: &Forced, verb: Verb) -> Result<(), Failure> {
    let body = match flags.force {
        true => json!({ "force": true }),
        false => json!({}),
    };
    change(session, &flags.flags, verb, &body).await
}

/// Starts from a rescue image.
///
/// # Errors
/// See [`Failure`].
pub async fn rescue(session: &Session, flags: &Rescue) -> Result<(), Failure> {
    let mut body = json!({ "image": flags.image });
    if flags.forced.force {
        body["force"] = json!(true);
    }
    change(session, &flags.forced.flags, Verb::Rescue, &body).await
}

/// Starts.
///
/// # Errors
/// See [`Failure`].
pub async fn start(session: &Session, flags: &Flags) -> Result<(), Failure> {
    change(session, flags, Verb::Start, &json!({})).await
}

async fn change(session: &Session, flags: &Flags, verb: Verb, body: &Value) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let quiet = session.json();
    // what happened before is not news
    let after = if flags.wait && !quiet {
        progress::latest_entry(&session.api, &id).await?
    } else {
        0
    };
    let path = format!("{id}:{}", verb.name());
    let mut answer = session
        .api
        .change(Method::POST, &["allocations", &path], body, &session.key)
        .await?;
    if flags.wait {
        let wait = Wait {
            goal: verb.goal(),
            limit: Duration::from_secs(flags.timeout),
            quiet,
            after,
        };
        answer = progress::wait(&session.api, &id, wait).await?;
    }
    if session.json() {
        print_json(&answer);
        return Ok(());
    }
    let allocation: Allocation = parse(&answer)?;
    let power = &allocation.status.power;
    say!("{id} is {power}. {}", allocation.status.billing);
    if !flags.wait {
        say!("Watch it: gpuaas watch {id}");
    }
    Ok(())
}
