//! What an operator does to an allocation of somebody else: stop and release it, for a reason that its owner reads in the
//! condition, the timeline and the event.
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::Result;
use crate::model::{Allocation, AllocationState, Scope};
use crate::power::{self, Action};
use crate::release::{self, Begun};
use crate::timeline::{self, OPERATOR, State};
use crate::{allocations, lock, outbox};

/// Condition of an allocation that an operator stopped.
pub const STOPPED: &str = "stopped_by_operator";
/// Condition of an allocation that an operator released.
pub const RELEASED: &str = "released_by_operator";

/// Stops a running allocation like its owner, and returns the workflow.
///
/// # Errors
/// Those of [`power::begin`].
pub async fn stop(
    conn: &mut PgConnection,
    id: Uuid,
    reason: &str,
    traceparent: &str,
    request_id: &str,
) -> Result<Uuid> {
    note(conn, id, "stop", STOPPED, reason).await?;
    let (_, workflow_id) = power::begin(
        conn,
        Scope::Platform,
        id,
        Action::Stop,
        false,
        traceparent,
        request_id,
    )
    .await?;
    timeline::attribute(conn, id, OPERATOR, reason).await?;
    Ok(workflow_id)
}

/// Releases an allocation like its owner. One that is being released, or is, stays its owner's doing.
///
/// # Errors
/// Those of [`release::begin`].
pub async fn release(
    conn: &mut PgConnection,
    id: Uuid,
    reason: &str,
    traceparent: &str,
    request_id: &str,
) -> Result<Begun> {
    let before = lock::allocation(conn, Scope::Platform, id).await?;
    let goes_on = !matches!(
        before.state,
        AllocationState::Releasing | AllocationState::Released | AllocationState::Failed
    );
    if goes_on {
        note(conn, id, "release", RELEASED, reason).await?;
    }
    let begun = release::begin(conn, Scope::Platform, id, traceparent, request_id).await?;
    if goes_on {
        let reported = if before.active_at.is_some() {
            "An operator released the allocation; billing has ended."
        } else {
            "An operator released the allocation. It was never billed."
        };
        timeline::append(conn, id, "releasing", State::Done, reported).await?;
        timeline::attribute(conn, id, OPERATOR, reason).await?;
    }
    Ok(begun)
}

/// What the owner reads of it, if an operator did something.
#[must_use]
pub fn message(allocation: &Allocation) -> Option<(&'static str, String)> {
    let (condition, done) = match allocation.operator_action.as_deref()? {
        "stop" => (STOPPED, "stopped"),
        _ => (RELEASED, "released"),
    };
    let reason = allocation.operator_reason.trim_end_matches('.');
    let sentence = format!("An operator {done} this allocation. Reason: {reason}.");
    Some((condition, sentence))
}

async fn note(
    conn: &mut PgConnection,
    id: Uuid,
    action: &str,
    event: &str,
    reason: &str,
) -> Result<()> {
    lock::allocation(conn, Scope::Platform, id).await?;
    sqlx::query(
        "WITH clock AS MATERIALIZED
            (SELECT greatest(clock_timestamp(), updated_at) AS t FROM allocations WHERE id = $1)
         UPDATE allocations
            SET operator_action = $2, operator_reason = $3, operator_at = clock.t, revision = revision + 1,
                updated_at = clock.t
           FROM clock WHERE id = $1",
    )
    .bind(id)
    .bind(action)
    .bind(reason)
    .execute(&mut *conn)
    .await?;
    let allocation = allocations::get(conn, Scope::Platform, id).await?;
    outbox::append_allocation(conn, &format!("allocation.{event}"), &allocation).await
}
