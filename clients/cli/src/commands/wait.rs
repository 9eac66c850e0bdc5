//! `wait`: until an allocation is as wanted.
use std::time::{Duration, Instant};

use gpuaas_proto::gpuaas::allocation::v1::{AllocationState, PowerState};

use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{print_json, word};
use crate::progress::{self, Goal, Wait};
use crate::session::Session;

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    /// State to wait for. The command fails once the state cannot be reached any more.
    #[arg(long = "for", value_enum, default_value_t, value_name = "STATE")]
    state: Target,
    /// Maximum wait in seconds.
    #[arg(long, default_value_t = 2100, value_name = "SECONDS")]
    timeout: u64,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Target {
    /// A login works.
    #[default]
    Active,
    /// The allocation is active and its VM runs from its own disk.
    Running,
    /// The allocation is active and its VM is stopped.
    Stopped,
    /// The VM runs from a rescue image.
    Rescued,
    /// The allocation has ended, and its capacity is free.
    Released,
}

impl Target {
    fn goal(self) -> Goal {
        match self {
            Self::Active => Goal::Active,
            Self::Running => Goal::Power(PowerState::Running),
            Self::Stopped => Goal::Power(PowerState::Stopped),
            Self::Rescued => Goal::Power(PowerState::Rescued),
            Self::Released => Goal::Released,
        }
    }
}

/// Runs it.
///
/// # Errors
/// The state cannot be reached any more, the time is up, or see [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let quiet = session.json();
    let wait = Wait {
        goal: flags.state.goal(),
        limit: Duration::from_secs(flags.timeout),
        start: Instant::now(),
        quiet,
        // what happened before is not news
        after: match quiet {
            true => 0,
            false => progress::latest_entry(&session.api, &id).await?,
        },
        is_change: false,
    };
    let answer = progress::wait(&session.api, &id, wait).await?;
    if quiet {
        print_json(&answer.json);
        return Ok(());
    }
    let status = answer.message.status.unwrap_or_default();
    let is = match status.state() {
        AllocationState::Active => format!("active, its VM is {}", word(status.power())),
        state => word(state),
    };
    say!("{id} is {is}.");
    Ok(())
}
