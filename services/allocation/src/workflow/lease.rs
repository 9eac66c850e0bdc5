//! The host lease that every workflow works under: taken first, released last, and released when the work fails.

use std::time::Duration;

use futures::future::BoxFuture;
use gpuaas_proto::gpuaas::agent::v1::{AcquireLeaseResponse, LeasePurpose};
use serde_json::json;

use super::failure::StepError;
use super::host::Host;
use super::subject;
use super::table::{Effect, OnFailure, Shown, Step, StepResult};
use super::work::Work;

/// First step of a workflow that works on a host. What it records begins with the lease's id.
pub const fn acquire(
    effect: for<'a> fn(&'a Work) -> BoxFuture<'a, StepResult>,
    deadline: Duration,
) -> Step {
    Step {
        name: "acquire_lease",
        effect: Effect::Outside(effect),
        records: "lease id",
        deadline,
        on_failure: OnFailure::Undo,
        undo: Some(&RETURN_LEASE),
        shown: None,
    }
}

/// The text for users while the lease is taken.
pub const REQUESTED: Option<Shown> = Some(Shown {
    running: "Requesting the slot from the host.",
    done: "The host granted the slot.",
});

const RETURN_LEASE: Step = Step {
    name: "return_lease",
    effect: Effect::Outside(return_lease),
    records: "whether the host still holds a slot for the allocation",
    deadline: Duration::from_secs(30),
    on_failure: OnFailure::Ignore,
    undo: None,
    shown: None,
};

/// Last step of every workflow that took a host lease: the lease would end by itself, so it is not retried until done.
pub const RELEASE_LEASE: Step = Step {
    name: "release_lease",
    effect: Effect::Outside(release_lease),
    records: "nothing",
    deadline: Duration::from_secs(15),
    on_failure: OnFailure::Ignore,
    undo: None,
    shown: None,
};

/// Takes the lease for the allocation's slots.
///
/// # Errors
/// Those of the ledger and of the host.
pub async fn of_allocation(
    work: &Work,
    purpose: LeasePurpose,
) -> Result<AcquireLeaseResponse, StepError> {
    let (_, subject) = subject::of_allocation(work).await?;
    let host = Host::of_subject(&work.deps, &subject)?;
    host.acquire(work, &subject, purpose).await
}

/// The effect of [`acquire`] for a workflow that wipes or removes what an allocation left.
pub fn for_release(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        of_allocation(work, LeasePurpose::Release).await?;
        Ok(json!({"lease_id": work.lease()}))
    })
}

fn release_lease(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let Some(lease_id) = work.recorded_lease() else {
            return Ok(json!({}));
        };
        let subject = subject::of_lease(work).await?;
        let released = Host::of_subject(&work.deps, &subject)?
            .release(lease_id, &subject)
            .await;
        match released {
            // the slots are somebody else's by now, and the lease ended with that
            Err(StepError::Fail(failure)) if failure.reason == "FENCED" => Ok(json!({})),
            released => released.map(|()| json!({})),
        }
    })
}

/// Ends every lease the host has for the allocation, also one whose grant never reached us, and checks whether it
/// still holds a slot for it. The tokens keep a late runner from ending the lease of its successor.
fn return_lease(work: &Work) -> BoxFuture<'_, StepResult> {
    Box::pin(async move {
        let subject = subject::of_work(work).await?;
        let host = Host::of_subject(&work.deps, &subject)?;
        let owner = subject.allocation_id.to_string();
        let found = host.holds().await?;
        for lease in found
            .leases
            .into_iter()
            .filter(|lease| lease.allocation_id == owner)
        {
            host.release(lease.lease_id, &subject).await?;
        }
        let held = found.holds.iter().any(|hold| hold.allocation_id == owner);
        Ok(json!({"held": held}))
    })
}
