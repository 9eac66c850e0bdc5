//! Power of an active allocation: `running ⇄ stopped`, a reboot, and a rescue: the VM runs from a rescue image. Claims, slots and the billable period stay as
//! they are, since the capacity is held all the while.
use sqlx::PgConnection;
use sqlx::types::Json;
use tonic::Code;
use uuid::Uuid;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::error::Result;
use crate::model::{Allocation, AllocationState, Fence, Image, Outcome, Rescue, Scope, Shape};
use crate::provision::conflict;
use crate::{allocations, lock, outbox, timeline, workflows};

/// The requested power operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// `running → stopping → stopped`.
    Stop,
    /// `stopped → starting → running`.
    Start,
    /// `running → rebooting → running`.
    Reboot,
    /// `running | stopped → rescuing → rescued`.
    Rescue,
    /// `rescued → unrescuing → running`.
    Unrescue,
}

impl Action {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Stop,
        Self::Start,
        Self::Reboot,
        Self::Rescue,
        Self::Unrescue,
    ];

    /// Kind of the workflow that brings it about.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Start => "start",
            Self::Reboot => "reboot",
            Self::Rescue => "rescue",
            Self::Unrescue => "unrescue",
        }
    }

    /// Power before it, while it is under way, and after it.
    #[must_use]
    pub fn powers(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Stop => ("running", "stopping", "stopped"),
            Self::Start => ("stopped", "starting", "running"),
            Self::Reboot => ("running", "rebooting", "running"),
            Self::Rescue => ("running", "rescuing", "rescued"),
            Self::Unrescue => ("rescued", "unrescuing", "running"),
        }
    }

    /// Whether it is accepted at this power: a VM that is off can be rescued, and one that is rescued can be stopped.
    #[must_use]
    pub fn is_accepted(self, power: &str) -> bool {
        let (before, ..) = self.powers();
        power == before
            || matches!(
                (self, power),
                (Self::Rescue, "stopped") | (Self::Stop, "rescued")
            )
    }

    /// The text for the user when it is accepted.
    fn message(self, forced: bool) -> &'static str {
        match (self, forced) {
            (Self::Stop, false) => {
                "The stop is accepted. A stopped allocation is billed like a running one because its GPUs stay allocated."
            }
            (Self::Stop, true) => {
                "The forced stop is accepted. A stopped allocation is billed like a running one because its GPUs stay allocated."
            }
            (Self::Start, _) => "The start is accepted.",
            (Self::Reboot, false) => "The reboot is accepted.",
            (Self::Reboot, true) => "The reset is accepted.",
            (Self::Rescue, _) => {
                "The rescue is accepted. The VM starts from the rescue image with its own disks beside it; billing continues."
            }
            (Self::Unrescue, _) => {
                "The end of the rescue is accepted: the VM starts from its own disk."
            }
        }
    }
}

/// Accepts a change of power and starts its workflow; returns the allocation as it is now and the workflow. A `forced` stop
/// or reboot does not ask the guest to shut down.
///
/// # Errors
/// [`crate::Error::NotFound`]; a conflict with a sentence for the user when the allocation is in another state, or a
/// bare-metal node, whose power nothing changes yet.
pub async fn begin(
    conn: &mut PgConnection,
    scope: Scope,
    id: Uuid,
    action: Action,
    forced: bool,
    traceparent: &str,
    request_id: &str,
) -> Result<(Allocation, Uuid)> {
    begin_with(
        conn,
        scope,
        id,
        action,
        None,
        forced,
        traceparent,
        request_id,
    )
    .await
}

/// The same, with the image of a rescue.
///
/// # Errors
/// As [`begin`].
#[expect(
    clippy::too_many_arguments,
    reason = "the arguments of `begin`, and the image"
)]
pub async fn begin_with(
    conn: &mut PgConnection,
    scope: Scope,
    id: Uuid,
    action: Action,
    image: Option<Image>,
    forced: bool,
    traceparent: &str,
    request_id: &str,
) -> Result<(Allocation, Uuid)> {
    let allocation = lock::allocation(conn, scope, id).await?;
    let (_, meanwhile, _) = action.powers();
    let power = allocation.power.as_deref().unwrap_or_default();
    if allocation.capacity_shape == Shape::Baremetal
        || allocation.state != AllocationState::Active
        || !action.is_accepted(power)
    {
        return Err(refusal(action, &allocation).into());
    }
    let rescue = image.map(|image| Rescue {
        image,
        from: power.to_owned(),
        ssh_host_keys: Vec::new(),
    });
    // What still runs has only its host lease left to release; the new workflow gets the same one.
    workflows::cancel(conn, id).await?;
    let window = workflows::POWER_WINDOW_SECONDS;
    let allocation = set(conn, id, meanwhile, Boot::Keep, rescue, Some(window)).await?;
    timeline::append(
        conn,
        id,
        meanwhile,
        timeline::State::Done,
        action.message(forced),
    )
    .await?;
    let workflow = workflows::New {
        kind: action.as_str(),
        allocation_id: Some(id),
        deadline_seconds: window,
        forced,
        traceparent,
        request_id,
        ..workflows::New::default()
    };
    let workflow_id = workflows::enqueue(conn, &workflow).await?;
    Ok((allocation, workflow_id))
}

/// Ends a power operation: `power` is the state observed on the host, `boot_id` the proof of a start.
///
/// # Errors
/// [`crate::Error::StaleLease`], [`crate::Error::Conflict`].
pub async fn record_outcome(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    power: &str,
    boot_id: Option<Uuid>,
) -> Result<Outcome> {
    record_outcome_with(conn, fence, id, power, boot_id, None).await
}

/// The same, with what is known of a rescue from now on.
///
/// # Errors
/// As [`record_outcome`].
pub async fn record_outcome_with(
    conn: &mut PgConnection,
    fence: Fence,
    id: Uuid,
    power: &str,
    boot_id: Option<Uuid>,
    rescue: Option<Rescue>,
) -> Result<Outcome> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    lock::fence(conn, fence).await?;
    if allocation.state != AllocationState::Active {
        return Err(conflict(&allocation));
    }
    if allocation.power.as_deref() == Some(power) {
        return Ok(Outcome::Unchanged);
    }
    let boot = match power {
        "running" | "rescued" => Boot::Is(boot_id),
        _ => Boot::Keep,
    };
    set(conn, id, power, boot, rescue, None).await?;
    Ok(Outcome::Changed)
}

/// Records an unexpected shutdown of the VM: by the guest, or together `with_host`, and then it is started again;
/// returns the workflow of that start. Changes nothing unless the ledger still states that the boot `boot_id` runs and
/// no workflow works on the allocation: otherwise the observation is outdated.
///
/// # Errors
/// [`crate::Error::NotFound`].
pub async fn unexpected_shutdown(
    conn: &mut PgConnection,
    id: Uuid,
    boot_id: Option<Uuid>,
    with_host: bool,
) -> Result<Option<Uuid>> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    let runs = matches!(allocation.power.as_deref(), Some("running" | "rescued"));
    let same_boot = runs && allocation.boot_id == boot_id;
    if allocation.state != AllocationState::Active || !same_boot || workflows::at(conn, id).await? {
        return Ok(None);
    }
    let (_, _, stopped) = Action::Stop.powers();
    set(conn, id, stopped, Boot::Keep, None, None).await?;
    let reported = if with_host {
        "The host restarted, which shut the VM down unexpectedly. It is being started again."
    } else {
        "The guest shut itself down. Start it again, or release it: a stopped allocation is billed like a running one."
    };
    timeline::append(conn, id, stopped, timeline::State::Done, reported).await?;
    if !with_host {
        return Ok(None);
    }
    let (_, workflow_id) = begin(conn, Scope::Platform, id, Action::Start, false, "", "").await?;
    Ok(Some(workflow_id))
}

/// What becomes of the stored boot id.
enum Boot {
    Keep,
    Is(Option<Uuid>),
}

async fn set(
    conn: &mut PgConnection,
    id: Uuid,
    power: &str,
    boot: Boot,
    rescue: Option<Rescue>,
    window_seconds: Option<i64>,
) -> Result<Allocation> {
    let (keep, boot_id) = match boot {
        Boot::Keep => (true, None),
        Boot::Is(boot_id) => (false, boot_id),
    };
    sqlx::query(
        "WITH clock AS MATERIALIZED
            (SELECT greatest(clock_timestamp(), updated_at) AS t FROM allocations WHERE id = $1)
         UPDATE allocations
            SET power = $2, boot_id = CASE WHEN $3 THEN boot_id ELSE $4 END,
                rescue = CASE WHEN $2 IN ('rescuing', 'rescued', 'unrescuing', 'stopping') THEN coalesce($6, rescue) END,
                revision = revision + 1, updated_at = clock.t, deadline_at = clock.t + make_interval(secs => $5),
                operator_action = CASE WHEN $2 NOT IN ('starting', 'running') OR operator_action = 'release' THEN operator_action END,
                operator_reason = CASE WHEN $2 NOT IN ('starting', 'running') OR operator_action = 'release' THEN operator_reason ELSE '' END,
                operator_at = CASE WHEN $2 NOT IN ('starting', 'running') OR operator_action = 'release' THEN operator_at END
           FROM clock WHERE id = $1",
    )
    .bind(id)
    .bind(power)
    .bind(keep)
    .bind(boot_id)
    .bind(window_seconds.map(|seconds| seconds as f64))
    .bind(rescue.map(Json))
    .execute(&mut *conn)
    .await?;
    let allocation = allocations::get(conn, Scope::Platform, id).await?;
    outbox::append_allocation(conn, &format!("allocation.{power}"), &allocation).await?;
    Ok(allocation)
}

/// Why not, and what to do instead.
fn refusal(action: Action, allocation: &Allocation) -> gpuaas_common::Error {
    let verb = action.as_str();
    let (state, sentence) = match (allocation.state, allocation.power.as_deref()) {
        (state, _) if allocation.capacity_shape == Shape::Baremetal => {
            let sentence = format!("The allocation is bare metal, which cannot {verb} yet.");
            (state.to_string(), sentence)
        }
        (AllocationState::Active, Some(power)) => {
            let instead = match (action, power) {
                (Action::Reboot, "stopped") => "start it instead",
                (Action::Start, "running") => "reboot it instead",
                (Action::Start | Action::Reboot, "rescued") => "end the rescue instead",
                (_, "stopping" | "starting" | "rebooting" | "rescuing" | "unrescuing") => {
                    "wait until that is done"
                }
                _ => "nothing is to be done",
            };
            let sentence =
                format!("The allocation is {power}, so it cannot {verb} now; {instead}.");
            (power.to_owned(), sentence)
        }
        (state, _) => {
            let sentence = format!(
                "The allocation is {state}, so it cannot {verb}; only an active allocation has a VM to {verb}."
            );
            (state.to_string(), sentence)
        }
    };
    gpuaas_common::Error::new(
        Code::FailedPrecondition,
        ErrorReason::StateConflict,
        sentence,
    )
    .meta("state", state)
}
