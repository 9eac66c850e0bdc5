//! `update`: the protection of an allocation from release, and the time of its release.
use gpuaas_proto::gpuaas::allocation::v1::UpdateAllocationRequest;
use jiff::Timestamp;

use super::Session;
use super::launch::parse_deadline;
use crate::allocation::AllocationRef;
use crate::failure::Failure;
use crate::output::{print_json, stamp, time};

#[derive(Debug, clap::Args)]
pub struct Flags {
    #[command(flatten)]
    of: AllocationRef,
    #[command(flatten)]
    change: Change,
}

/// What changes.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Change {
    /// Refuse to release the allocation.
    #[arg(long, conflicts_with_all = ["unprotect", "release_at"])]
    protect: bool,
    /// Allow the release again.
    #[arg(long)]
    unprotect: bool,
    /// Release the allocation after a duration, or at a time: 90m, 8h, 3d, 2027-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME", value_parser = parse_deadline, conflicts_with = "no_release")]
    release_at: Option<Timestamp>,
    /// Cancel the scheduled release.
    #[arg(long)]
    no_release: bool,
}

/// Runs it.
///
/// # Errors
/// See [`Failure`].
pub async fn run(session: &Session, flags: &Flags) -> Result<(), Failure> {
    let id = flags.of.id(&session.api).await?;
    let change = &flags.change;
    let is_protection = change.protect || change.unprotect;
    let request = UpdateAllocationRequest {
        allocation_id: id.clone(),
        termination_protection: is_protection.then_some(change.protect),
        auto_release_time: change.release_at.map(stamp),
        no_auto_release: change.no_release,
        ..UpdateAllocationRequest::default()
    };
    let answer = session.api.apply(&request, &session.key).await?;
    if session.json() {
        print_json(&answer.json);
        return Ok(());
    }
    let allocation = answer.message;
    let protection = if allocation.termination_protection {
        "protected from release"
    } else {
        "not protected from release"
    };
    match allocation.auto_release_time {
        Some(at) => say!(
            "{id} is {protection}. It is released at {}.",
            time(Some(at))
        ),
        None => say!("{id} is {protection}. It has no scheduled release."),
    }
    Ok(())
}
