//! Requests that may be queued: what does not fit joins its queue instead of being refused.
//!
//! A request is first reserved as any other. Refused for capacity or for the quota in use, it is stored as allocations
//! in state `requested` under the same key, so that a replay finds them. The quota must allow it at all when it joins,
//! and counts when it is served. The price is that of the moment of the request.
mod passes;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use gpuaas_common::error::reason_name;
use gpuaas_common::id::IdGen;
use gpuaas_common::{audit, idempotency};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use idempotency::Lookup;
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use sqlx::PgConnection;
use uuid::Uuid;

use super::admit::{check, over_quota};
use super::call::{Call, METHOD, Mode, Taking, ids_of, in_transaction, retry};
use super::explain;
use super::explanation::Explanation;
use super::now::{run, validate};
use super::record::{Beginning, entry, insert_allocation};
use crate::capacity::Ledger;
use crate::catalog::Sku;
use crate::error::{Error, Exceeded, Result};
use crate::model::{AllocationState, Policy, Request, SlotClass};
use crate::quota::{self, Quota};
use crate::{constraints, outbox, queue, timeline};

pub use passes::{Limits, Pass, Passes, serve_queue};
use serve::STEP;

/// Longest time a request may be queued.
pub const MAX_WAIT_SECONDS: i64 = 7 * 24 * 3600;
/// How far the clock of a caller that asks for the longest wait may be ahead.
const CLOCK_SKEW_SECONDS: i64 = 60;
/// Most allocations of a project that may be queued at once.
pub const MAX_QUEUED: i64 = 100;

/// Checks everything that [`or_queue`] checks, and takes joining the queue back.
pub(super) async fn validate_or_queue(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: &Call<'_>,
    deadline: Timestamp,
) -> Result<Option<Explanation>> {
    check_deadline(&mut *ledger.acquire().await?, deadline).await?;
    let refusal = match validate(ledger, ids, policy, call).await {
        Err(refusal) if may_be_queued(&refusal) => refusal,
        other => return other,
    };
    let conn = &mut *ledger.acquire().await?;
    let body =
        async |conn: &mut PgConnection| join(conn, ids, policy, call, deadline, refusal).await;
    in_transaction(conn, Mode::DryRun, body).await?;
    match (call.method, call.requests) {
        (METHOD, [request]) => explain(conn, &ledger.capacity, policy, request)
            .await
            .map(Some),
        _ => Ok(None),
    }
}

/// Reserves, or queues what does not fit.
pub(super) async fn or_queue(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: &Call<'_>,
    deadline: Timestamp,
) -> Result<(Vec<Uuid>, bool)> {
    {
        let mut conn = ledger.acquire().await?;
        // before the deadline is checked, which may be over by now
        let found = idempotency::lookup(&mut conn, call.scope(), call.key.request_hash).await?;
        if let Lookup::Replay { resource_id } = found {
            return Ok((ids_of(&resource_id)?, true));
        }
        check_deadline(&mut conn, deadline).await?;
    }
    let until = Instant::now() + policy.placement_timeout;
    loop {
        let refusal = match run(ledger, ids, policy, call).await {
            Err(refusal) if may_be_queued(&refusal) => refusal,
            other => return other,
        };
        let body =
            async |conn: &mut PgConnection| join(conn, ids, policy, call, deadline, refusal).await;
        let outcome = in_transaction(&mut *ledger.acquire().await?, Mode::Commit, body).await;
        match outcome {
            Err(error) => retry(error, until)?,
            done => return done,
        }
    }
}

/// Whether queueing can help.
fn may_be_queued(error: &Error) -> bool {
    match error {
        Error::Refused { reason, .. } => *reason != ErrorReason::RegionDisabled,
        Error::InBatch { source, .. } => may_be_queued(source),
        _ => false,
    }
}

fn leading_reason(refusal: &Error) -> ErrorReason {
    match refusal {
        Error::Refused { reason, .. } => *reason,
        Error::InBatch { source, .. } => leading_reason(source),
        _ => ErrorReason::NoCapacity,
    }
}

async fn check_deadline(conn: &mut PgConnection, deadline: Timestamp) -> Result<()> {
    let legal: bool = sqlx::query_scalar(
        "SELECT $1 > clock_timestamp() AND $1 <= clock_timestamp() + make_interval(secs => $2)",
    )
    .bind(deadline.to_sqlx())
    .bind((MAX_WAIT_SECONDS + CLOCK_SKEW_SECONDS) as f64)
    .fetch_one(conn)
    .await?;
    if legal {
        return Ok(());
    }
    Err(Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field: "wait.deadline",
        rule: "must be in the future, at most seven days from now".to_owned(),
    })
}

/// Stores refused requests as queued allocations.
async fn join(
    conn: &mut PgConnection,
    ids: IdGen,
    policy: Policy,
    call: &Call<'_>,
    deadline: Timestamp,
    refusal: Error,
) -> Result<(Vec<Uuid>, bool)> {
    let made = call.requests.iter().map(|_| ids.next()).collect();
    let made = match call.take_key(conn, made).await? {
        Taking::Fresh(made) => made,
        Taking::Replay(made) => return Ok((made, true)),
    };
    let mut skus = Vec::with_capacity(call.requests.len());
    for (index, request) in call.requests.iter().enumerate() {
        let sku = check(conn, policy, request).await;
        skus.push(sku.map_err(|error| call.about(index, error))?);
    }
    let (region_code, slot_class) = one_queue(call.requests, &skus)?;
    let reason = leading_reason(&refusal);
    possible_at_all(conn, policy, call.requests, refusal).await?;
    // a refusal for the quota came before anything was evaluated
    for (index, (request, sku)) in call.requests.iter().zip(&skus).enumerate() {
        let rules = constraints::rules(conn, policy.packing_strategy, request, sku).await;
        rules.map_err(|error| call.about(index, error))?;
    }
    let project_id = call.requests[0].project_id;
    check_queue_limit(conn, project_id, call.requests.len()).await?;
    join_fair_share(conn, region_code, slot_class, project_id).await?;
    let batch_id = ids.next();
    let principal = call.key.principal;
    for ((index, allocation_id), (request, sku)) in made
        .iter()
        .copied()
        .enumerate()
        .zip(call.requests.iter().zip(&skus))
    {
        let queued = Beginning::Queued(deadline);
        let allocation = insert_allocation(conn, allocation_id, principal, request, sku, queued)
            .await
            .map_err(|error| call.about(index, error))?;
        sqlx::query(
            "INSERT INTO queued_allocations (allocation_id, batch_id, slot_class, reason) VALUES ($1, $2, $3, $4)",
        )
        .bind(allocation_id)
        .bind(batch_id)
        .bind(slot_class.as_str())
        .bind(reason_name(reason))
        .execute(&mut *conn)
        .await?;
        let kind = format!("allocation.{}", AllocationState::Requested);
        outbox::append_holding(conn, &kind, &allocation, &[]).await?;
        let message = queue::sentence(reason_name(reason));
        timeline::append(
            conn,
            allocation_id,
            STEP,
            timeline::State::Running,
            &format!("Queued: {message}"),
        )
        .await?;
        timeline::attribute(conn, allocation_id, call.key.principal, "").await?;
        let resource_id = allocation_id.to_string();
        let mut entry = entry(call.key.principal, request, &allocation, &resource_id);
        entry.detail["wait_until"] = deadline.to_string().into();
        audit::record(conn, entry).await?;
    }
    Ok((made, false))
}

/// The queue of requests that compete for the same slots.
fn one_queue<'a>(requests: &'a [Request], skus: &[Sku]) -> Result<(&'a str, SlotClass)> {
    let invalid = |field, rule: &str| Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field,
        rule: rule.to_owned(),
    };
    let queues: BTreeSet<(&str, SlotClass)> = requests
        .iter()
        .zip(skus)
        .map(|(request, sku)| (request.region_code.as_str(), sku.slot_class))
        .collect();
    match (queues.first(), queues.len()) {
        (Some(queue), 1) => Ok(*queue),
        _ => Err(invalid(
            "allocations",
            "must be of one region and one class of slots when they are queued",
        )),
    }
}

/// What the quota forbids even when the project holds nothing would be queued in vain.
async fn possible_at_all(
    conn: &mut PgConnection,
    policy: Policy,
    requests: &[Request],
    refusal: Error,
) -> Result<()> {
    let allocations = i64::try_from(requests.len()).unwrap_or(i64::MAX);
    let mut requested: BTreeMap<(Uuid, &str), i64> = BTreeMap::new();
    for request in requests {
        *requested
            .entry((request.project_id, &request.sku))
            .or_default() += i64::from(request.gpu_count.get());
    }
    for ((project_id, sku), gpus) in requested {
        let quota = quota::read(conn, project_id, sku, policy).await?;
        let empty = Quota {
            used_gpus: 0,
            used_allocations: 0,
            ..quota
        };
        let Some(over) = empty.exceeded_by_all(allocations, gpus) else {
            continue;
        };
        if leading_reason(&refusal) == ErrorReason::Quota {
            return Err(refusal);
        }
        let what = match over.quota {
            quota::GPUS => format!("GPU of {sku}"),
            _ => "allocations".to_owned(),
        };
        let message = format!(
            "The quota of the project is {} {what}, so the request would never fit.",
            over.limit
        );
        return Err(over_quota(message, Some(over)));
    }
    Ok(())
}

/// Those of a project join one after the other: each counts those that joined before it.
async fn check_queue_limit(
    conn: &mut PgConnection,
    project_id: Uuid,
    joining: usize,
) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 3))")
        .bind(project_id.to_string())
        .execute(&mut *conn)
        .await?;
    let queued: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM allocations WHERE project_id = $1 AND state = 'requested'",
    )
    .bind(project_id)
    .fetch_one(conn)
    .await?;
    let over = Exceeded {
        quota: "waiting_allocations",
        limit: MAX_QUEUED,
        used: queued,
        requested: i64::try_from(joining).unwrap_or(i64::MAX),
    };
    if over.used + over.requested <= over.limit {
        return Ok(());
    }
    let message = format!(
        "A project can have at most {MAX_QUEUED} queued allocations and has {queued}. Release some of them."
    );
    Err(over_quota(message, Some(over)))
}

/// A project without queued requests joins the round robin at its end.
async fn join_fair_share(
    conn: &mut PgConnection,
    region_code: &str,
    slot_class: SlotClass,
    project_id: Uuid,
) -> Result<()> {
    sqlx::query(
        "INSERT INTO fair_share (region_code, slot_class, project_id, last_served) VALUES ($1, $2, $3, nextval('fair_share_sequence'))
         ON CONFLICT (region_code, slot_class, project_id) DO UPDATE SET last_served = nextval('fair_share_sequence')
          WHERE NOT EXISTS (SELECT FROM allocations a JOIN queued_allocations w ON w.allocation_id = a.id
                             WHERE a.state = 'requested' AND a.region_code = $1 AND w.slot_class = $2
                               AND a.project_id = $3)",
    )
    .bind(region_code)
    .bind(slot_class.as_str())
    .bind(project_id)
    .execute(conn)
    .await?;
    Ok(())
}
