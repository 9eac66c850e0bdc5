//! Serves queued requests, queue by queue in their order.
//!
//! Any number of replicas may serve: a worker on a batch holds its lock, and a placement is decided again under the
//! node's lock as every other is. A batch is served in one transaction, so a process that dies leaves it in the queue or
//! served, never both and never neither.
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use gpuaas_common::error::reason_name;
use gpuaas_common::id::IdGen;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::types::Json;
use sqlx::{Acquire as _, PgConnection, PgPool};
use uuid::Uuid;

use super::passes::Pass;
use crate::capacity::Ledger;
use crate::catalog::Sku;
use crate::error::{Error, Reason, Result};
use crate::model::{
    Allocation, AllocationState, Constraints, Failure, Policy, Request, Scope, Shape, SlotClass,
};
use crate::queue::{self, QueuedRequest, QueuedSpec, Walk};
use crate::reserve::admit::{check, check_quota, refusal};
use crate::reserve::baremetal;
use crate::reserve::place::{self, Search};
use crate::reserve::record::{begin, claims};
use crate::{allocations, outbox, quota, suspensions, timeline, workflows};

/// Step of the timeline while an allocation is queued.
pub(super) const STEP: &str = "wait";

/// The result for one batch.
enum Served {
    Placed(Vec<Uuid>),
    Queued(ErrorReason),
    Ended(Vec<Uuid>),
    /// Others work on it, or it has left.
    Passed,
}

/// Serves one queue: what is over ends, and then what can be placed is served. What was served and ended is in `pass`, also when
/// it fails or is cut.
pub(super) async fn serve_one(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    (region_code, slot_class): (&str, SlotClass),
    pass: &mut Pass,
) -> Result<()> {
    let mut conn = ledger.acquire().await?;
    let mut walk = Walk::along(queue::load(&mut conn, region_code, slot_class).await?);
    drop(conn);
    // first, wherever they are: whatever those before them take, no request stays queued beyond its deadline
    while let Some(entry) = walk.next_over() {
        match end(ledger, &entry, &expired(&entry)).await {
            Ok(Served::Ended(ended)) => {
                pass.ended.extend(ended);
                walk.left(&entry, false);
                continue;
            }
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(batch = %entry.batch.id, "leave a request queued: {error:?}");
            }
        }
        pass.busy = true;
        walk.stays(entry);
    }
    let mut specs = queue::specs(&mut *ledger.acquire().await?, policy, walk.ahead()).await?;
    // what did not fit does not fit for those behind either, who may use no more than the ones before
    let mut refused: HashMap<(String, QueuedSpec), ErrorReason> = HashMap::new();
    while let Some(entry) = walk.next() {
        let class = equivalence_class(&entry, &specs);
        let known = class.as_ref().and_then(|ask| refused.get(ask)).copied();
        let served = if entry.suspended {
            Ok(Served::Queued(ErrorReason::ProjectSuspended))
        } else if let Some(reason) = known {
            out_of_quota(ledger, policy, &entry)
                .await
                .map(|out| Served::Queued(if out { ErrorReason::Quota } else { reason }))
        } else {
            serve(ledger, ids, policy, &entry).await
        };
        let noted = match &served {
            Ok(Served::Queued(reason)) if entry.reason != reason_name(*reason) => {
                note(ledger, &entry, *reason).await
            }
            _ => Ok(()),
        };
        let is_served = match noted.and(served) {
            Ok(Served::Placed(made)) => {
                pass.served.extend(made);
                Some(true)
            }
            Ok(Served::Ended(ended)) => {
                pass.ended.extend(ended);
                Some(false)
            }
            Ok(Served::Queued(reason)) => {
                if let Some(ask) = class.filter(|_| !is_of_its_project(reason)) {
                    refused.insert(ask, reason);
                }
                None
            }
            Ok(Served::Passed) => {
                pass.busy = true;
                None
            }
            Err(error) => {
                tracing::warn!(batch = %entry.batch.id, "leave a request queued: {error:?}");
                pass.busy = true;
                None
            }
        };
        if let Some(is_served) = is_served {
            walk.left(&entry, is_served);
            // its backfill reservation may be free for others now, and where it is may be excluded for others
            refused.clear();
            specs = queue::specs(&mut *ledger.acquire().await?, policy, walk.ahead()).await?;
        } else {
            walk.stays(entry);
        }
    }
    let mut tx = ledger.begin().await?;
    queue::plan_backfill(&mut tx, &ledger.capacity, policy, region_code, slot_class).await?;
    tx.commit().await?;
    Ok(())
}

/// The spec of a request, when others may have the very same: a batch has none, nor does one that cannot be placed any
/// more.
fn equivalence_class(
    entry: &QueuedRequest,
    specs: &HashMap<Uuid, QueuedSpec>,
) -> Option<(String, QueuedSpec)> {
    match entry.members.as_slice() {
        [one] => Some((one.sku.clone(), specs.get(&one.allocation_id)?.clone())),
        _ => None,
    }
}

/// Only its own project is not served: the very same request of another one may be.
fn is_of_its_project(reason: ErrorReason) -> bool {
    matches!(reason, ErrorReason::Quota | ErrorReason::ProjectSuspended)
}

/// Its project may not hold it now, whatever is free.
async fn out_of_quota(pool: &PgPool, policy: Policy, entry: &QueuedRequest) -> Result<bool> {
    let mut conn = pool.acquire().await?;
    for member in &entry.members {
        let project_id = entry.batch.project_id;
        let quota = quota::read(&mut conn, project_id, &member.sku, policy).await?;
        if quota.exceeded_by(member.gpu_count).is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn serve(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    entry: &QueuedRequest,
) -> Result<Served> {
    let search = Search {
        capacity: &ledger.capacity,
        policy,
        until: Instant::now() + policy.placement_timeout,
        savepoints: true,
    };
    let mut conn = ledger.acquire().await?;
    ledger.capacity.refresh(&mut conn).await?;
    let mut tx = conn.begin().await?;
    match place_all(&mut tx, ids, search, entry).await {
        Ok(made) if made.is_empty() => {
            tx.rollback().await?;
            Ok(Served::Passed)
        }
        Ok(made) => {
            tx.commit().await?;
            Ok(Served::Placed(made))
        }
        Err(error) => {
            tx.rollback().await?;
            drop(conn);
            match error {
                Error::Refused { reason, .. } => Ok(Served::Queued(reason)),
                Error::Invalid { reason, rule, .. } => {
                    end(ledger, entry, &impossible(reason, &rule)).await
                }
                Error::Busy { .. } | Error::Conflict { .. } => Ok(Served::Passed),
                error if error.is_contention() => Ok(Served::Passed),
                error => Err(error),
            }
        }
    }
}

/// Keeps others off a batch until the end of the transaction; false: others have it.
async fn lock_batch(conn: &mut PgConnection, entry: &QueuedRequest) -> Result<bool> {
    Ok(
        sqlx::query_scalar("SELECT pg_try_advisory_xact_lock(hashtextextended($1, 2))")
            .bind(entry.batch.id.to_string())
            .fetch_one(conn)
            .await?,
    )
}

/// Places every allocation of a batch, and returns them; none when others work on it or it is over.
async fn place_all(
    conn: &mut PgConnection,
    ids: IdGen,
    search: Search<'_>,
    entry: &QueuedRequest,
) -> Result<Vec<Uuid>> {
    let policy = search.policy;
    if !lock_batch(conn, entry).await? {
        return Ok(Vec::new());
    }
    let mut members: Vec<(Allocation, Request, Sku)> = Vec::new();
    for member in &entry.members {
        let row = allocations::get(conn, Scope::Platform, member.allocation_id).await?;
        if row.state != AllocationState::Requested {
            // it was served by others, or its owner released it and the next pass serves the rest
            return Ok(Vec::new());
        }
        if row.capacity_shape == Shape::Baremetal && !policy.baremetal {
            // replicas are switched over one by one: it is left for one that offers bare-metal nodes
            return Err(refusal(Vec::<Reason>::new()));
        }
        let request = request_of(&row, entry.batch.id, member.constraints.clone());
        let sku = check(conn, policy, &request).await?;
        // the price at the time of the request
        let sku = Sku {
            price: row.price.as_ref().map(|price| price.0.clone()),
            ..sku
        };
        members.push((row, request, sku));
    }
    let quotas: BTreeSet<(Uuid, &str)> = members
        .iter()
        .map(|(row, ..)| (row.project_id, row.sku.as_str()))
        .collect();
    for (project_id, sku) in quotas {
        quota::lock(conn, project_id, sku).await?;
    }
    suspensions::check(conn, entry.batch.project_id).await?;
    let mut made = Vec::new();
    for (row, request, sku) in &members {
        let quota = quota::read(conn, row.project_id, &row.sku, policy).await?;
        check_quota(request, quota)?;
        let claims = match sku.capacity_shape {
            Shape::GpuSlice => {
                let taken = place::take(conn, search, request, sku, None, true).await?;
                leave(conn, row, Leaving::For(taken.host.id)).await?;
                claims(ids, sku, taken)
            }
            Shape::Baremetal => {
                let host =
                    baremetal::take(conn, search, request, sku, &mut VecDeque::new()).await?;
                leave(conn, row, Leaving::For(host.id)).await?;
                baremetal::claim(conn, ids, sku, host).await?
            }
        };
        let message = "Capacity is available.";
        timeline::record(
            conn,
            row.id,
            STEP,
            timeline::State::Done,
            100,
            message,
            None,
        )
        .await?;
        let placed = allocations::get(conn, Scope::Platform, row.id).await?;
        begin(conn, &placed, claims, request, None).await?;
        made.push(row.id);
    }
    let batch = &entry.batch;
    // served: the project moves to the end of the round robin
    sqlx::query(
        "UPDATE fair_share t SET last_served = nextval('fair_share_sequence') FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id
          WHERE a.id = $1 AND t.region_code = a.region_code AND t.slot_class = w.slot_class AND t.project_id = $2",
    )
    .bind(made.first())
    .bind(batch.project_id)
    .execute(conn)
    .await?;
    Ok(made)
}

/// The request as it was made.
fn request_of(row: &Allocation, batch_id: Uuid, constraints: Constraints) -> Request {
    Request {
        principal: row.principal.clone(),
        project_id: row.project_id,
        name: row.name.clone(),
        region_code: row.region_code.clone(),
        sku: row.sku.clone(),
        gpu_count: row.gpu_count,
        capacity_shape: Some(row.capacity_shape),
        image: row.image.0.clone(),
        ssh_public_keys: row.ssh_public_keys.clone(),
        ssh_key_names: row.ssh_key_names.clone(),
        termination_protection: row.termination_protection,
        auto_release_at: row.auto_release_at.map(jiff_sqlx::Timestamp::to_jiff),
        labels: row.labels.0.clone(),
        request_id: row.request_id.clone(),
        traceparent: row.traceparent.clone(),
        constraints,
        batch_id: Some(batch_id),
        ..Request::default()
    }
}

/// How an allocation leaves its queue.
enum Leaving<'a> {
    /// Placed on this node.
    For(Uuid),
    /// Failed.
    Because(&'a Failure),
}

/// Takes an allocation out of its queue.
///
/// # Errors
/// [`Error::Conflict`] when it has left it already: its owner released it, or its deadline is over.
async fn leave(conn: &mut PgConnection, row: &Allocation, leaving: Leaving<'_>) -> Result<()> {
    let (state, node_id, failure) = match leaving {
        Leaving::For(node_id) => (AllocationState::Reserved, Some(node_id), None),
        Leaving::Because(failure) => (AllocationState::Failed, None, Some(failure)),
    };
    let left: bool = sqlx::query_scalar("SELECT dequeue($1, $2, $3, $4, $5)")
        .bind(row.id)
        .bind(state.as_str())
        .bind(node_id)
        .bind(failure.map(Json))
        .bind(workflows::PROVISION_WINDOW_SECONDS as f64)
        .fetch_one(conn)
        .await?;
    if left {
        return Ok(());
    }
    Err(Error::Conflict {
        what: "allocation",
        id: row.id,
        state: "not queued any more".to_owned(),
    })
}

/// Records why a batch is queued, where its owner finds it.
async fn note(pool: &PgPool, entry: &QueuedRequest, reason: ErrorReason) -> Result<()> {
    let reason = reason_name(reason);
    let ids: Vec<Uuid> = entry.members.iter().map(|one| one.allocation_id).collect();
    let mut tx = pool.begin().await?;
    // rows are locked by id, as in every transaction on a batch: no two of them deadlock
    sqlx::query(
        "WITH noted AS (SELECT allocation_id FROM queued_allocations WHERE allocation_id = ANY ($1)
                         ORDER BY allocation_id FOR NO KEY UPDATE)
         UPDATE queued_allocations w SET reason = $2 FROM noted WHERE w.allocation_id = noted.allocation_id",
    )
    .bind(&ids)
    .bind(reason)
    .execute(&mut *tx)
    .await?;
    // an entry that left the queue meanwhile has no such running step, and is not reported any more
    sqlx::query(
        "WITH noted AS (SELECT allocation_id FROM timeline
                         WHERE allocation_id = ANY ($1) AND step = $2 AND state = 'running'
                         ORDER BY allocation_id FOR NO KEY UPDATE)
         UPDATE timeline t SET message = $3 FROM noted WHERE t.allocation_id = noted.allocation_id AND t.step = $2",
    )
    .bind(ids)
    .bind(STEP)
    .bind(format!("Queued: {}", queue::sentence(reason)))
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(())
}

/// Ends queued allocations as failed (C-05).
async fn end(pool: &PgPool, entry: &QueuedRequest, failure: &Failure) -> Result<Served> {
    let mut tx = pool.begin().await?;
    if !lock_batch(&mut tx, entry).await? {
        tx.rollback().await?;
        return Ok(Served::Passed);
    }
    let mut ended = Vec::new();
    for member in &entry.members {
        let row = allocations::get(&mut tx, Scope::Platform, member.allocation_id).await?;
        match leave(&mut tx, &row, Leaving::Because(failure)).await {
            Err(Error::Conflict { .. }) => continue,
            other => other?,
        }
        let failed = allocations::get(&mut tx, Scope::Platform, row.id).await?;
        let kind = format!("allocation.{}", AllocationState::Failed);
        outbox::append_allocation(&mut tx, &kind, &failed).await?;
        timeline::record(
            &mut tx,
            row.id,
            STEP,
            timeline::State::Failed,
            0,
            &failure.message,
            Some(&serde_json::json!({ "reason": failure.reason, "message": failure.message })),
        )
        .await?;
        ended.push(row.id);
    }
    tx.commit().await?;
    Ok(Served::Ended(ended))
}

fn expired(entry: &QueuedRequest) -> Failure {
    Failure {
        reason: reason_name(ErrorReason::WaitExpired).to_owned(),
        message: format!(
            "No capacity became free before the deadline. Last reason: {}",
            queue::sentence(&entry.reason)
        ),
        advice: "Launch again with a later deadline, with fewer GPUs or in another region. You are not billed for the \
                 wait."
            .to_owned(),
        step: STEP.to_owned(),
    }
}

fn impossible(reason: ErrorReason, rule: &str) -> Failure {
    Failure {
        reason: reason_name(reason).to_owned(),
        message: format!("The request can no longer be placed: {rule}."),
        advice:
            "Launch again with valid constraints. You are not billed for the time in the queue."
                .to_owned(),
        step: STEP.to_owned(),
    }
}
