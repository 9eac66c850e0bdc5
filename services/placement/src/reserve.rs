//! Reserve: idempotency row, allocations, claims, slot states, workflows, timeline, events and audit rows in one
//! transaction, for one request or for a batch of them.
//!
//! The decision ranks nodes on a snapshot; what counts is decided again under the node's lock. Nodes that are
//! locked by others are skipped at first, and waited for, within a bound, before the request is refused: a node
//! that is merely busy must not look full. Whatever is lost to others leads to the next candidate or another try,
//! until the patience for the request is over. A refusal stores nothing, so its key may be used again.
mod admit;
mod constraints;
mod explain;
mod place;
mod record;
mod wait;
mod whole;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use gpuaas_kit::audit;
use gpuaas_kit::id::IdGen;
use gpuaas_kit::idempotency::{self, Lookup};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use crate::capacity::Capacity;
use crate::catalog::Sku;
use crate::decision::{Filling, telling};
use crate::model::{AllocationState, Image, Scope, Shape};
use crate::{Error, Reason, Result, allocations, outbox, quota, timeline, workflows};

use admit::{check, check_quota, refusal};
use record::{claim, insert_allocation};

pub use constraints::Constraints;
pub(crate) use constraints::rules as constraint_rules;
pub use explain::{NodeVerdict, explain, explain_nodes};
pub use wait::{
    MAX_WAIT_SECONDS, MAX_WAITING, Pass, reserve_all_or_wait, reserve_or_wait, serve_waiting,
    validate_all_or_wait, validate_or_wait,
};

/// Method name in the scope of idempotency keys: callers that answer replays themselves look for it.
pub const METHOD: &str = "Reserve";
/// The same for a batch.
pub const BATCH_METHOD: &str = "ReserveBatch";
/// Most requests of a batch.
pub const MAX_BATCH: usize = 16;

/// What is asked for; validated but for what only the ledger knows.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Who asks.
    pub principal: String,
    /// Key of the caller; unused when only validating.
    pub idempotency_key: String,
    /// SHA-256 of the canonical request.
    pub request_hash: Vec<u8>,
    /// Project that pays.
    pub project_id: Uuid,
    /// DNS label.
    pub name: String,
    /// Region.
    pub region_code: String,
    /// SKU.
    pub sku: String,
    /// GPUs.
    pub gpu_count: u32,
    /// None: the SKU's.
    pub capacity_shape: Option<Shape>,
    /// Resolved image.
    pub image: Image,
    /// Keys of the owner.
    pub ssh_public_keys: Vec<String>,
    /// The caller's labels.
    pub labels: BTreeMap<String, String>,
    /// Of the request.
    pub request_id: String,
    /// The workflow continues this trace.
    pub traceparent: String,
    /// Where it may be placed.
    pub constraints: Constraints,
    /// Its ticket, when it waits in line already.
    pub ticket: Option<Uuid>,
}

/// How the scheduler is set up.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// GPUs of a SKU a project may hold when it has no quota of its own.
    pub default_quota_gpus: u32,
    /// How long one busy node is waited for before the next one is tried.
    pub node_wait: Duration,
    /// How long other candidates are tried and lost races are run again, before the caller is told to come back.
    pub patience: Duration,
    /// How nodes are filled.
    pub filling: Filling,
    /// Something is there that can bring up whole nodes. Without it they are refused.
    pub whole_nodes: bool,
}

impl Policy {
    /// What a site has that sets nothing.
    pub const DEFAULT: Self = Self {
        default_quota_gpus: 64,
        node_wait: Duration::from_secs(2),
        patience: Duration::from_secs(10),
        filling: Filling::Pack,
        whole_nodes: false,
    };
}

/// A reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// Allocation.
    pub allocation_id: Uuid,
    /// The key was seen before with this very request.
    pub replayed: bool,
}

/// Where a request would fit now, and what removes the other nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Nodes of the region.
    pub nodes: u32,
    /// Nodes on which it fits.
    pub nodes_fit: u32,
    /// Per cause, the nodes it removes.
    pub removed: Vec<Reason>,
}

/// One key with all that is reserved under it.
#[derive(Debug, Clone, Copy)]
pub struct Key<'a> {
    /// Who asks.
    pub principal: &'a str,
    /// The caller's key.
    pub idempotency_key: &'a str,
    /// SHA-256 of the canonical request.
    pub request_hash: &'a [u8],
}

/// Reserves capacity. Notify [`workflows::TOPIC`] and [`outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::Invalid`], [`Error::Refused`], [`Error::NameTaken`], [`Error::Busy`], a reused key from the kit; nothing
/// was stored then.
pub async fn reserve(
    pool: &PgPool,
    ids: IdGen,
    policy: Policy,
    request: &Request,
) -> Result<Reserved> {
    let key = Key {
        principal: &request.principal,
        idempotency_key: &request.idempotency_key,
        request_hash: &request.request_hash,
    };
    let call = Call {
        method: METHOD,
        key,
        requests: std::slice::from_ref(request),
    };
    let (made, replayed) = run(pool, ids, policy, &call).await?;
    let allocation_id = made
        .first()
        .copied()
        .ok_or_else(|| Error::Kit(gpuaas_kit::Error::internal("a key that led to nothing")))?;
    Ok(Reserved {
        allocation_id,
        replayed,
    })
}

/// Reserves several allocations of one project, all or none, and returns their ids in the order of the requests, and
/// whether the key was seen before. Principal, key and hash of the single requests are not used.
///
/// # Errors
/// As [`reserve`]; what is about one request is [`Error::InBatch`].
pub async fn reserve_all(
    pool: &PgPool,
    ids: IdGen,
    policy: Policy,
    key: Key<'_>,
    requests: &[Request],
) -> Result<(Vec<Uuid>, bool)> {
    let call = Call {
        method: BATCH_METHOD,
        key,
        requests,
    };
    run(pool, ids, policy, &call).await
}

/// Checks a batch as a whole, by reserving it and taking that back: whether several fit together is only known once
/// they have been placed. Nothing is kept, the key included.
///
/// # Errors
/// As [`reserve_all`].
pub async fn validate_all(
    pool: &PgPool,
    ids: IdGen,
    policy: Policy,
    key: Key<'_>,
    requests: &[Request],
) -> Result<()> {
    let call = Call {
        method: BATCH_METHOD,
        // a key of its own: that of the caller stays free, and is not looked up
        key: Key {
            idempotency_key: &ids.next().to_string(),
            ..key
        },
        requests,
    };
    let until = Instant::now() + policy.patience;
    loop {
        let mut tx = pool.begin().await?;
        let outcome = in_transaction(&mut tx, ids, policy, until, &call).await;
        tx.rollback().await?;
        match outcome {
            Ok(_) => return Ok(()),
            Err(error) if !error.lost_to_others() => return Err(error),
            Err(_) if Instant::now() >= until => return Err(Error::Busy { nodes: 0 }),
            Err(_) => {}
        }
    }
}

/// Checks everything [`reserve`] checks on the ledger as it is now, writes nothing, and tells where it would fit.
///
/// # Errors
/// As [`reserve`].
pub async fn validate(
    conn: &mut PgConnection,
    capacity: &Capacity,
    policy: Policy,
    request: &Request,
) -> Result<Explanation> {
    check(conn, policy, request).await?;
    let taken: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM allocations WHERE project_id = $1 AND name = $2 AND state NOT IN ('released', 'failed'))",
    )
    .bind(request.project_id)
    .bind(&request.name)
    .fetch_one(&mut *conn)
    .await?;
    if taken {
        return Err(Error::NameTaken(request.name.clone()));
    }
    let quota = quota::read(
        conn,
        request.project_id,
        &request.sku,
        i64::from(policy.default_quota_gpus),
    )
    .await?;
    check_quota(request, quota)?;
    let explanation = explain::explain(conn, capacity, policy, request).await?;
    if explanation.nodes_fit == 0 {
        return Err(refusal(telling(
            explanation.removed,
            request.gpu_count as usize,
        )));
    }
    Ok(explanation)
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// What one transaction is to do.
struct Call<'a> {
    method: &'static str,
    key: Key<'a>,
    requests: &'a [Request],
}

async fn run(
    pool: &PgPool,
    ids: IdGen,
    policy: Policy,
    call: &Call<'_>,
) -> Result<(Vec<Uuid>, bool)> {
    let until = Instant::now() + policy.patience;
    loop {
        let mut tx = pool.begin().await?;
        match in_transaction(&mut tx, ids, policy, until, call).await {
            Ok(done) => {
                tx.commit().await?;
                return Ok(done);
            }
            Err(error) => {
                tx.rollback().await?;
                if !error.lost_to_others() {
                    return Err(error);
                }
                // the next try sees what the others did
                if Instant::now() >= until {
                    return Err(Error::Busy { nodes: 0 });
                }
            }
        }
    }
}

async fn in_transaction(
    conn: &mut PgConnection,
    ids: IdGen,
    policy: Policy,
    until: Instant,
    call: &Call<'_>,
) -> Result<(Vec<Uuid>, bool)> {
    let Key {
        principal,
        idempotency_key,
        request_hash,
    } = call.key;
    let scope = idempotency::Scope {
        principal,
        method: call.method,
        key: idempotency_key,
    };
    lock_key(conn, scope).await?;
    if let Lookup::Replay { resource_id } = idempotency::lookup(conn, scope, request_hash).await? {
        return Ok((ids_of(&resource_id)?, true));
    }
    let batch = call.method == BATCH_METHOD;
    let placed = |index: usize, error: Error| if batch { error.in_batch(index) } else { error };
    let mut skus = Vec::with_capacity(call.requests.len());
    for (index, request) in call.requests.iter().enumerate() {
        let sku = check(conn, policy, request).await;
        skus.push(sku.map_err(|error| placed(index, error))?);
    }
    // All quotas first, in one order for everyone: they are the first of all locks.
    let quotas: BTreeSet<(Uuid, &str)> = call
        .requests
        .iter()
        .map(|request| (request.project_id, request.sku.as_str()))
        .collect();
    for (project_id, sku) in quotas {
        quota::lock(conn, project_id, sku).await?;
    }
    let mut made = Vec::with_capacity(call.requests.len());
    for (index, (request, sku)) in call.requests.iter().zip(&skus).enumerate() {
        let one = reserve_one(conn, ids, policy, until, principal, request, sku).await;
        made.push(one.map_err(|error| placed(index, error))?);
    }
    let resource_id: Vec<String> = made.iter().map(Uuid::to_string).collect();
    idempotency::record(conn, scope, request_hash, &resource_id.join(",")).await?;
    Ok((made, false))
}

/// Calls with one key go one after the other, so that the second finds the row of the first.
async fn lock_key(conn: &mut PgConnection, scope: idempotency::Scope<'_>) -> Result<()> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(format!(
            "{}\n{}\n{}",
            scope.principal, scope.method, scope.key
        ))
        .execute(conn)
        .await?;
    Ok(())
}

/// The ids that were recorded with a key.
///
/// # Errors
/// The row is not a list of ids.
pub fn ids_of(resource_id: &str) -> Result<Vec<Uuid>> {
    resource_id
        .split(',')
        .map(|id| {
            Uuid::parse_str(id).map_err(|error| Error::Kit(gpuaas_kit::Error::internal(error)))
        })
        .collect()
}

async fn reserve_one(
    conn: &mut PgConnection,
    ids: IdGen,
    policy: Policy,
    until: Instant,
    principal: &str,
    request: &Request,
    sku: &Sku,
) -> Result<Uuid> {
    // A statement after the lock: it sees what was committed before, and what this batch has reserved already.
    let default_max = i64::from(policy.default_quota_gpus);
    let quota = quota::read(conn, request.project_id, &request.sku, default_max).await?;
    check_quota(request, quota)?;
    let allocation_id = ids.next();
    match sku.capacity_shape {
        Shape::GpuSlice => {
            let (choice, node) =
                place::take(conn, policy, until, request, sku, allocation_id).await?;
            insert_allocation(conn, allocation_id, principal, request, sku, choice.node_id).await?;
            claim(conn, ids, allocation_id, sku, &choice, &node).await?;
        }
        Shape::Baremetal => {
            let node_id = whole::take(conn, policy, until, request, sku).await?;
            insert_allocation(conn, allocation_id, principal, request, sku, node_id).await?;
            whole::claim(conn, ids, allocation_id, sku, node_id).await?;
        }
    }
    begin(conn, allocation_id, request).await?;
    audit::record(conn, entry(principal, request, &allocation_id.to_string())).await?;
    Ok(allocation_id)
}

/// Starts the work on an allocation that has its claims, and tells of it.
async fn begin(conn: &mut PgConnection, allocation_id: Uuid, request: &Request) -> Result<()> {
    let allocation = allocations::get(conn, Scope::Platform, allocation_id).await?;
    outbox::append_allocation(
        conn,
        &format!("allocation.{}", AllocationState::Reserved),
        &allocation,
    )
    .await?;
    let window = workflows::PROVISION_WINDOW_SECONDS;
    workflows::enqueue(
        conn,
        "provision",
        Some(allocation_id),
        None,
        window,
        &request.traceparent,
        &request.request_id,
    )
    .await?;
    let message = format!(
        "Reserved {} GPU of {} in {}.",
        request.gpu_count, request.sku, request.region_code
    );
    timeline::append(
        conn,
        allocation_id,
        "reserve",
        timeline::State::Done,
        &message,
    )
    .await?;
    Ok(())
}

/// Who got what (P10).
fn entry<'a>(principal: &'a str, request: &'a Request, allocation_id: &'a str) -> audit::Entry<'a> {
    audit::Entry {
        principal,
        action: "allocation.create",
        resource: "allocation",
        resource_id: allocation_id,
        request_id: &request.request_id,
        detail: json!({
            "project_id": request.project_id, "name": request.name, "region_code": request.region_code,
            "sku": request.sku, "gpu_count": request.gpu_count, "image": request.image.slug,
        }),
    }
}
