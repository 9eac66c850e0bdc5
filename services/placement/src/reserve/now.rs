//! Reserving capacity now: for all requests of a call or for none.
use std::collections::{BTreeSet, VecDeque};
use std::time::Instant;

use gpuaas_common::id::IdGen;
use gpuaas_placement_decision::{Fleet, Rules, refusal_reasons};
use sqlx::PgConnection;
use uuid::Uuid;

use super::admit::{check, check_quota, refusal};
use super::call::{Call, METHOD, Taking, in_transaction, retry};
use super::explanation::Explanation;
use super::place::Search;
use super::record::{Beginning, begin, claims, entry, insert_allocation};
use super::{baremetal, explain, place};
use crate::capacity::{Ledger, Regions};
use crate::catalog::Sku;
use crate::decision_input::launch_request;
use crate::error::{Error, Result};
use crate::model::{Policy, Request, Shape};
use crate::quota;

/// Checks a call on the ledger as it is now. One request is read alone; a batch is reserved and rolled back, because
/// whether several fit together is only known once they have been placed.
pub(super) async fn validate(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: &Call<'_>,
) -> Result<Option<Explanation>> {
    let (METHOD, [request]) = (call.method, call.requests) else {
        return run(ledger, ids, policy, call).await.map(|_| None);
    };
    let conn = &mut *ledger.acquire().await?;
    check(conn, policy, request).await?;
    check_name(conn, request.project_id, &request.name).await?;
    let quota = quota::read(conn, request.project_id, &request.sku, policy).await?;
    check_quota(request, quota)?;
    let explanation = explain::explain(conn, &ledger.capacity, policy, request).await?;
    if explanation.nodes_fit == 0 {
        let causes = refusal_reasons(explanation.removed, request.gpu_count);
        return Err(refusal(causes));
    }
    Ok(Some(explanation))
}

/// Whether a name is free now in a project; the insert decides.
///
/// # Errors
/// [`Error::NameTaken`].
pub async fn check_name(conn: &mut PgConnection, project_id: Uuid, name: &str) -> Result<()> {
    let taken: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM allocations WHERE project_id = $1 AND name = $2 AND state NOT IN ('released', 'failed'))",
    )
    .bind(project_id)
    .bind(name)
    .fetch_one(conn)
    .await?;
    if taken {
        return Err(Error::NameTaken(name.to_owned()));
    }
    Ok(())
}

pub(super) async fn run(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: &Call<'_>,
) -> Result<(Vec<Uuid>, bool)> {
    let until = Instant::now() + policy.placement_timeout;
    let mut search = Search {
        capacity: &ledger.capacity,
        policy,
        until,
        // the second of a batch often needs a node that the first has changed
        savepoints: call.requests.len() > 1,
    };
    loop {
        let mut conn = ledger.acquire().await?;
        let made: Vec<Uuid> = call.requests.iter().map(|_| ids.next()).collect();
        // the transaction reports what is wrong, after the key was read
        let scouted = scout(&mut conn, search, call, &made).await;
        let body = async |conn: &mut PgConnection| {
            reserve_batch(conn, ids, search, call, made, scouted).await
        };
        match in_transaction(&mut conn, call.mode, body).await {
            // nothing but the best node was tried: the others are, however late it is
            Err(Error::Contention) if !search.savepoints => {}
            Err(error) => retry(error, until)?,
            done => return done,
        }
        search.savepoints = true;
    }
}

/// The snapshot before the transaction, for one request: its SKU, and for a slice the shortlist.
type Scouted = (Sku, Option<Fleet>);

/// Reads the catalog and the copy of the nodes, by a connection that has written nothing.
async fn scout(
    conn: &mut PgConnection,
    search: Search<'_>,
    call: &Call<'_>,
    made: &[Uuid],
) -> Result<Vec<Scouted>> {
    let mut skus = Vec::with_capacity(made.len());
    for request in call.requests {
        skus.push(check(conn, search.policy, request).await?);
    }
    let anywhere = |(request, sku): &(&Request, &Sku)| {
        sku.capacity_shape == Shape::GpuSlice && !request.constraints.has_affinity()
    };
    if !call.requests.iter().zip(&skus).any(|one| anywhere(&one)) {
        return Ok(skus.into_iter().map(|sku| (sku, None)).collect());
    }
    let shortlist = |regions: &Regions, request: &Request, sku: &Sku, id: &Uuid| {
        let Some(fleet) = regions.get(&request.region_code) else {
            return Fleet::default();
        };
        // the last bytes of an id are random
        let [.., a, b, c, d] = *id.as_bytes();
        let rules = Rules {
            packing_strategy: search.policy.packing_strategy,
            project: Some(request.project_id),
            ..Rules::default()
        };
        let requested = launch_request(sku, request);
        fleet.shortlist(&rules, &requested, u32::from_be_bytes([a, b, c, d]))
    };
    let read = |regions: &Regions| {
        let all = call.requests.iter().zip(skus).zip(made);
        let scouted = all.map(|((request, sku), id)| {
            let shortlist =
                anywhere(&(request, &sku)).then(|| shortlist(regions, request, &sku, id));
            (sku, shortlist)
        });
        scouted.collect()
    };
    search.capacity.with_current(conn, read).await
}

async fn reserve_batch(
    conn: &mut PgConnection,
    ids: IdGen,
    search: Search<'_>,
    call: &Call<'_>,
    made: Vec<Uuid>,
    scouted: Result<Vec<Scouted>>,
) -> Result<(Vec<Uuid>, bool)> {
    let made = match call.take_key(conn, made).await? {
        Taking::Fresh(made) => made,
        Taking::Replay(made) => return Ok((made, true)),
    };
    let scouted = match scouted {
        Ok(scouted) => scouted,
        // it would wait once more for what blocked the read
        Err(error) if error.is_contention() => return Err(error),
        Err(_) => {
            let mut all = Vec::with_capacity(call.requests.len());
            for (index, request) in call.requests.iter().enumerate() {
                let sku = check(conn, search.policy, request).await;
                all.push((sku.map_err(|error| call.about(index, error))?, None));
            }
            all
        }
    };
    // All quotas first, in one order for everyone: they are the first of all locks.
    let quotas: BTreeSet<(Uuid, &str)> = call
        .requests
        .iter()
        .map(|request| (request.project_id, request.sku.as_str()))
        .collect();
    for (project_id, sku) in quotas {
        quota::lock(conn, project_id, sku).await?;
    }
    let making = Making {
        ids,
        search,
        principal: call.key.principal,
    };
    for (index, (request, scouted)) in call.requests.iter().zip(scouted).enumerate() {
        reserve_one(conn, making, request, scouted, made[index])
            .await
            .map_err(|error| call.about(index, error))?;
    }
    Ok((made, false))
}

/// How reservations of one transaction are made.
#[derive(Clone, Copy)]
struct Making<'a> {
    ids: IdGen,
    search: Search<'a>,
    principal: &'a str,
}

async fn reserve_one(
    conn: &mut PgConnection,
    making: Making<'_>,
    request: &Request,
    (sku, shortlist): Scouted,
    allocation_id: Uuid,
) -> Result<()> {
    let Making {
        ids,
        search,
        principal,
    } = making;
    let policy = search.policy;
    let sku = &sku;
    // A statement after the lock: it sees what was committed before, and what this batch has reserved already.
    let requested = (request.project_id, request.sku.as_str(), policy);
    let (region, class) = (&request.region_code, sku.slot_class);
    let (quota, has_queue) = quota::read_with_queue(conn, requested, region, class).await?;
    check_quota(request, quota)?;
    let store = async |conn: &mut PgConnection, node_id| {
        let on = Beginning::On(node_id);
        insert_allocation(conn, allocation_id, principal, request, sku, on).await
    };
    let (allocation, claims) = match sku.capacity_shape {
        Shape::GpuSlice => {
            let taken = place::take(conn, search, request, sku, shortlist, has_queue).await?;
            let allocation = store(conn, taken.host.id).await?;
            (allocation, claims(ids, sku, taken))
        }
        Shape::Baremetal => {
            let host = baremetal::take(conn, search, request, sku, &mut VecDeque::new()).await?;
            let allocation = store(conn, host.id).await?;
            (allocation, baremetal::claim(conn, ids, sku, host).await?)
        }
    };
    let resource_id = allocation_id.to_string();
    let audited = Some(entry(principal, request, &allocation, &resource_id));
    begin(conn, &allocation, claims, request, audited).await
}
