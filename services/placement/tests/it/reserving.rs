//! Calls of the one entry point, as tests write them.
use gpuaas_common::id::IdGen;
use gpuaas_placement::Result;
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::reserve::{self, Call, Explanation, Key, Policy, Request, WhenFull};
use jiff::Timestamp;
use uuid::Uuid;

/// What one request led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    pub allocation_id: Uuid,
    /// The key was used before with this very request.
    pub replayed: bool,
}

/// Reserves one request or refuses it.
pub async fn one(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    request: &Request,
) -> Result<Reserved> {
    of_one(ledger, ids, policy, Call::one(request)).await
}

/// Reserves one request or queues it.
pub async fn one_or_queue(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    request: &Request,
    deadline: Timestamp,
) -> Result<Reserved> {
    let call = Call::one(request).when_full(WhenFull::Queue(deadline));
    of_one(ledger, ids, policy, call).await
}

async fn of_one(ledger: &Ledger, ids: IdGen, policy: Policy, call: Call<'_>) -> Result<Reserved> {
    let reserved = reserve::reserve(ledger, ids, policy, call).await?;
    let [allocation_id] = reserved.allocation_ids[..] else {
        panic!("one allocation: {reserved:?}");
    };
    Ok(Reserved {
        allocation_id,
        replayed: reserved.replayed,
    })
}

/// Reserves a batch or refuses it. Returns its allocations, and whether the key was used before.
pub async fn all(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    key: Key<'_>,
    requests: &[Request],
) -> Result<(Vec<Uuid>, bool)> {
    of_batch(ledger, ids, policy, Call::batch(key, requests)).await
}

/// Reserves a batch or queues it.
pub async fn all_or_queue(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    key: Key<'_>,
    requests: &[Request],
    deadline: Timestamp,
) -> Result<(Vec<Uuid>, bool)> {
    let call = Call::batch(key, requests).when_full(WhenFull::Queue(deadline));
    of_batch(ledger, ids, policy, call).await
}

async fn of_batch(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: Call<'_>,
) -> Result<(Vec<Uuid>, bool)> {
    let reserved = reserve::reserve(ledger, ids, policy, call).await?;
    Ok((reserved.allocation_ids, reserved.replayed))
}

/// Where one request would fit.
pub async fn dry_run(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    call: Call<'_>,
) -> Result<Explanation> {
    let reserved = reserve::reserve(ledger, ids, policy, call.dry_run()).await?;
    Ok(reserved.explanation.expect("of one request"))
}

/// Whether a batch would fit.
pub async fn dry_run_of_all(
    ledger: &Ledger,
    ids: IdGen,
    policy: Policy,
    key: Key<'_>,
    requests: &[Request],
) -> Result<()> {
    let call = Call::batch(key, requests).dry_run();
    reserve::reserve(ledger, ids, policy, call).await.map(drop)
}
