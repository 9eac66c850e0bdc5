//! Reconciles reservations with time: begin, missing slots, replacement, release, the end.
//!
//! Any number of replicas may do it: a worker locks the reservation's row, and others skip it. Each GPU group
//! is reserved in a transaction of its own, so a process that dies leaves fewer slots and nothing wrong, and no node is kept
//! locked while another one is waited for. Missing slots are searched in the copy of the fleet first: as long
//! as nothing fits, nothing but what changed is read.
use std::time::Instant;

use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use super::end::close;
use super::hold::{self, SearchState, Which};
use super::record::{SYSTEM, digested, record};
use super::stored::{CapacityReservation, get, least, offered};
use crate::capacity::Ledger;
use crate::error::{Error, Result};
use crate::model::{ReservationState, Scope};
use crate::reserve::{Mode, Policy, Search, in_transaction};
use crate::suspensions;

/// The result of one pass over all reservations.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Reconciled {
    /// Reservations whose window began.
    pub begun: Vec<Uuid>,
    /// Reservations that are over.
    pub ended: Vec<Uuid>,
    /// GPUs that are newly reserved.
    pub held: u32,
    /// GPUs that were released unused.
    pub released: u32,
    /// Reserved GPUs that became unfit and were released.
    pub dropped: u32,
    /// Contention: run again soon.
    pub busy: bool,
}

impl Reconciled {
    /// Whether anything changed.
    #[must_use]
    pub fn changed(&self) -> bool {
        let still = Self {
            busy: self.busy,
            ..Self::default()
        };
        *self != still
    }
}

/// Does what is due. Released slots are free for others at once.
///
/// # Errors
/// Those of the database when reservations cannot be read; what is wrong with one does not block the others.
pub async fn reconcile(ledger: &Ledger, policy: Policy) -> Result<Reconciled> {
    let due: Vec<Uuid> = sqlx::query_scalar(concat!(
        "SELECT r.id FROM capacity_reservations r
          WHERE r.state IN ('scheduled', 'active') AND (r.ends_at <= clock_timestamp()
             OR r.state = 'scheduled' AND r.starts_at <= clock_timestamp()
             OR r.state = 'active' AND
                (SELECT count(*) FILTER (WHERE (h.idle_since < clock_timestamp() - make_interval(secs => r.release_unused_after)
                                                AND n.schedulable) IS NOT TRUE AND ",
        fits!("r.region_code"),
        ") FROM reserved_slots h JOIN slots s ON s.id = h.slot_id JOIN nodes n ON n.id = h.node_id
                  WHERE h.reservation_id = r.id) < r.gpu_count - r.released_gpus)
          ORDER BY r.starts_at, r.id",
    ))
    .fetch_all(&mut *ledger.acquire().await?)
    .await?;
    let mut reconciled = Reconciled::default();
    for id in due {
        reconcile_one(ledger, policy, id, &mut reconciled).await?;
    }
    Ok(reconciled)
}

/// Does what is due of one reservation, step by step. What cannot be done now is left for the next time.
pub(super) async fn reconcile_one(
    ledger: &Ledger,
    policy: Policy,
    id: Uuid,
    reconciled: &mut Reconciled,
) -> Result<()> {
    let mut seen = SearchState::nothing();
    loop {
        let search = Search {
            capacity: &ledger.capacity,
            policy,
            until: Instant::now(),
            savepoints: true,
        };
        let mut step = Reconciled::default();
        let mut conn = ledger.acquire().await?;
        let outcome = match ledger.capacity.refresh(&mut conn).await {
            Ok(()) => {
                let body = async |conn: &mut PgConnection| {
                    one(conn, search, id, &mut seen, &mut step).await
                };
                in_transaction(&mut conn, Mode::Commit, body).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(again) => {
                reconciled.add(step);
                if !again {
                    return Ok(());
                }
            }
            Err(error) => {
                reconciled.busy |= error.is_contention();
                if !error.is_contention() {
                    let error = gpuaas_common::Error::from(error);
                    tracing::error!(reservation_id = %id, "reconcile the reservation later: {error:?}");
                }
                return Ok(());
            }
        }
    }
}

impl Reconciled {
    fn add(&mut self, step: Self) {
        self.begun.extend(step.begun);
        self.ended.extend(step.ended);
        self.held += step.held;
        self.released += step.released;
        self.dropped += step.dropped;
        self.busy |= step.busy;
    }
}

/// One step of one reservation; true when there is more to hold.
async fn one(
    conn: &mut PgConnection,
    search: Search<'_>,
    id: Uuid,
    seen: &mut SearchState,
    step: &mut Reconciled,
) -> Result<bool> {
    let locked: Option<(bool, bool)> = sqlx::query_as(
        "SELECT ends_at <= clock_timestamp(), starts_at <= clock_timestamp() FROM capacity_reservations
          WHERE id = $1 AND state IN ('scheduled', 'active') FOR NO KEY UPDATE SKIP LOCKED",
    )
    .bind(id)
    .fetch_optional(&mut *conn)
    .await?;
    let Some((over, begun)) = locked else {
        // it is over, or another replica holds it
        step.busy = true;
        return Ok(false);
    };
    if over {
        end(conn, id, "The reservation reached its end time.", step).await?;
        return Ok(false);
    }
    let row = get(conn, Scope::Platform, id).await?;
    let is_suspended = suspensions::is_suspended(conn, row.project_id).await?;
    if row.state == ReservationState::Scheduled {
        if !begun {
            return Ok(false);
        }
        if is_suspended {
            hold_back(conn, id).await?;
            return Ok(false);
        }
        begin(conn, id).await?;
        step.begun.push(id);
    }
    step.dropped = hold::drop(conn, id, Which::Unfit).await?;
    let mut row = get(conn, Scope::Platform, id).await?;
    if let Some(seconds) = row.release_unused_after {
        if release(conn, &row, seconds, step).await? {
            return Ok(false);
        }
        if step.released > 0 {
            row = get(conn, Scope::Platform, id).await?;
        }
    }
    // what it has stays reserved, and more is not
    if row.missing() == 0 || is_suspended {
        return Ok(false);
    }
    let sku = match offered(conn, search.policy, &row.region_code, &row.sku).await {
        // closed, or not offered any more: nothing is reserved as long as that is so
        Err(Error::Refused { .. } | Error::Invalid { .. }) => return Ok(false),
        other => other?,
    };
    let parts = hold::drop(conn, id, Which::Parts(least(&sku).get())).await?;
    if parts > 0 {
        step.dropped += parts;
        row = get(conn, Scope::Platform, id).await?;
    }
    let own;
    let search = if step.dropped > 0 {
        // what was released just now may be reserved again
        own = search.capacity.for_transaction().await?;
        own.now(conn).await?;
        Search {
            capacity: &own,
            ..search
        }
    } else {
        search
    };
    let missing = row.missing();
    // more may be free on a node than at the last step
    seen.most = u32::MAX;
    match hold::some(conn, search, &row, &sku, missing, seen).await {
        Ok(held) => {
            step.held = held.get();
            Ok(held.get() < missing)
        }
        Err(Error::Refused { .. }) => Ok(false),
        Err(Error::Busy { nodes }) => {
            step.busy = nodes > 0;
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

async fn begin(conn: &mut PgConnection, id: Uuid) -> Result<()> {
    sqlx::query(
        "UPDATE capacity_reservations SET state = 'active', reason = '', updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Says why it does not begin.
async fn hold_back(conn: &mut PgConnection, id: Uuid) -> Result<()> {
    sqlx::query(
        "UPDATE capacity_reservations SET reason = $2, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1 AND reason <> $2",
    )
    .bind(id)
    .bind("The project is suspended, or its organisation is. The reservation begins once it is resumed.")
    .execute(conn)
    .await?;
    Ok(())
}

async fn end(conn: &mut PgConnection, id: Uuid, reason: &str, step: &mut Reconciled) -> Result<()> {
    let before = get(conn, Scope::Platform, id).await?;
    close(conn, id, ReservationState::Ended, reason).await?;
    let detail = json!({ "name": before.name, "reason": reason });
    let what = (id, before.project_id);
    let detail = digested(conn, before, detail).await?;
    record(conn, (SYSTEM, ""), "reservation.end", what, detail).await?;
    step.ended.push(id);
    Ok(())
}

/// Releases what was unused for too long; true when nothing is left and the reservation has ended.
async fn release(
    conn: &mut PgConnection,
    row: &CapacityReservation,
    seconds: i32,
    step: &mut Reconciled,
) -> Result<bool> {
    let gone = hold::drop(conn, row.id, Which::Unused(seconds)).await?;
    if gone == 0 {
        return Ok(false);
    }
    step.released = gone;
    let reason = format!("{gone} GPU(s) were unused for {seconds} seconds and were released.");
    sqlx::query(
        "UPDATE capacity_reservations SET released_gpus = released_gpus + $2, reason = $3,
                updated_at = greatest(clock_timestamp(), updated_at) WHERE id = $1",
    )
    .bind(row.id)
    .bind(gone.cast_signed())
    .bind(&reason)
    .execute(&mut *conn)
    .await?;
    let detail = json!({ "name": row.name, "gpus": gone, "unused_seconds": seconds });
    let detail = digested(conn, row.clone(), detail).await?;
    let what = (row.id, row.project_id);
    record(conn, (SYSTEM, ""), "reservation.release", what, detail).await?;
    let left = row.gpu_count - row.released_gpus - gone;
    if left == 0 {
        end(conn, row.id, &reason, step).await?;
    }
    Ok(left == 0)
}
