//! Taking a node under its lock: the next candidate when one is lost, waiting for busy ones within a bound.
use std::time::{Duration, Instant};

use sqlx::{Acquire as _, PgConnection};
use uuid::Uuid;

use super::admit::refusal;
use super::{Policy, Request, constraints};
use crate::availability::decision_request;
use crate::catalog::Sku;
use crate::decision::{self, CandidateNode, Choice, decide_by};
use crate::waiting::Ahead;
use crate::{Error, Result, candidates};

/// Takes the best node that can be had, and returns it locked.
///
/// # Errors
/// [`Error::Refused`] when nothing fits; [`Error::Busy`] when something fits and others had it locked until the end.
pub(super) async fn take(
    conn: &mut PgConnection,
    policy: Policy,
    until: Instant,
    request: &Request,
    sku: &Sku,
    allocation_id: Uuid,
) -> Result<(Choice, CandidateNode)> {
    let asked = decision_request(sku, request.gpu_count);
    // the last bytes of an id are random
    let [.., a, b, c, d] = *allocation_id.as_bytes();
    let place = i32::from_be_bytes([a, b, c, d]);
    loop {
        let rules = constraints::rules(conn, policy.filling, request).await?;
        let ahead = Ahead::of(conn, policy, request, sku.slot_class).await?;
        let region = &request.region_code;
        let few = match rules.only {
            Some(node_id) => candidates::load(conn, region, Some(node_id)).await?,
            None => {
                candidates::likely(conn, region, asked.slot_class, asked.gpu_count, place).await?
            }
        };
        let mut decision = decide_by(&ahead.keep(&rules, &few), &asked, &few);
        if decision.choices.is_empty() {
            // none of the likely ones fits: the others, which also say why not
            let nodes = candidates::load(conn, region, None).await?;
            decision = decide_by(&ahead.keep(&rules, &nodes), &asked, &nodes);
        }
        if decision.choices.is_empty() {
            return Err(refusal(decision.reasons));
        }
        let sought = Sought {
            request,
            asked: &asked,
            ahead,
        };
        // the best of those that nobody has locked, and the next as long as one was lost meanwhile
        let mut left: Vec<Uuid> = decision
            .choices
            .iter()
            .map(|choice| choice.node_id)
            .collect();
        let mut busy = Vec::new();
        loop {
            match try_nodes(conn, policy, &sought, &left, None).await? {
                Attempt::Taken(choice, node) => return Ok((choice, node)),
                Attempt::Lost(node_id) => left.retain(|id| *id != node_id),
                Attempt::SlotsBusy(node_id) => {
                    left.retain(|id| *id != node_id);
                    busy.push(node_id);
                }
                Attempt::Busy => break,
            }
        }
        left.extend(busy);
        for node_id in left {
            let Some(wait) = bound(policy, until) else {
                break;
            };
            if let Attempt::Taken(choice, node) =
                try_nodes(conn, policy, &sought, &[node_id], Some(wait)).await?
            {
                return Ok((choice, node));
            }
        }
        // Every node that looked good was lost to others meanwhile, or is still busy: look again, while there is time.
        if Instant::now() >= until {
            return Err(Error::Busy {
                nodes: decision.choices.len(),
            });
        }
    }
}

/// How long the next busy node may be waited for; none when the time is over.
pub(super) fn bound(policy: Policy, until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then(|| policy.node_wait.min(left))
}

/// What is to be placed.
struct Sought<'a> {
    request: &'a Request,
    asked: &'a decision::Request,
    /// As it was before any node was locked.
    ahead: Ahead,
}

/// How trying nodes went.
enum Attempt {
    Taken(Choice, CandidateNode),
    /// Others have locked all of them.
    Busy,
    /// Others have locked slots of this one.
    SlotsBusy(Uuid),
    /// This one does not fit any more (B-42).
    Lost(Uuid),
}

/// Locks the first node that can be had within a savepoint, so that the lock of one that does not fit is given back at
/// once. With `wait` there is one node, which is waited for.
async fn try_nodes(
    conn: &mut PgConnection,
    policy: Policy,
    sought: &Sought<'_>,
    ids: &[Uuid],
    wait: Option<Duration>,
) -> Result<Attempt> {
    let Sought { request, asked, .. } = sought;
    let mut savepoint = conn.begin().await?;
    let Some(node_id) = lock_first(&mut savepoint, ids, wait).await? else {
        savepoint.rollback().await?;
        return Ok(Attempt::Busy);
    };
    // Statements after the lock: what they see cannot change before the commit.
    let rules = constraints::rules(&mut savepoint, policy.filling, request).await?;
    let found = candidates::load(&mut savepoint, &request.region_code, Some(node_id)).await?;
    let class = asked.slot_class;
    let ahead = sought
        .ahead
        .again(&mut savepoint, policy, request, class)
        .await?;
    let rules = ahead.keep(&rules, &found);
    let choice = decide_by(&rules, asked, &found).choices.into_iter().next();
    let (Some(choice), Some(node)) = (choice, found.into_iter().next()) else {
        savepoint.rollback().await?;
        return Ok(Attempt::Lost(node_id));
    };
    if !lock_slots(&mut savepoint, &choice.slot_ids, wait.is_some()).await? {
        savepoint.rollback().await?;
        return Ok(Attempt::SlotsBusy(node_id));
    }
    unbound(&mut savepoint, wait).await?;
    savepoint.commit().await?;
    Ok(Attempt::Taken(choice, node))
}

/// Locks the first of some nodes that nobody has locked, in one statement however many are; with `wait` the first.
async fn lock_first(
    conn: &mut PgConnection,
    ids: &[Uuid],
    wait: Option<Duration>,
) -> Result<Option<Uuid>> {
    if let Some(first) = ids.first().filter(|_| wait.is_some()) {
        let locked = lock_node(conn, *first, wait).await?;
        return Ok(locked.then_some(*first));
    }
    let locked = sqlx::query_scalar(
        "SELECT n.id FROM unnest($1::uuid[]) WITH ORDINALITY AS c (id, place) JOIN nodes n ON n.id = c.id
          ORDER BY c.place LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED",
    )
    .bind(ids)
    .fetch_optional(conn)
    .await?;
    Ok(locked)
}

/// Locks a node's row; without `wait` only when nobody else has it. False: others have it, and the savepoint that
/// this runs in is to be rolled back.
pub(super) async fn lock_node(
    conn: &mut PgConnection,
    node_id: Uuid,
    wait: Option<Duration>,
) -> Result<bool> {
    let Some(wait) = wait else {
        let locked: Option<Uuid> =
            sqlx::query_scalar("SELECT id FROM nodes WHERE id = $1 FOR NO KEY UPDATE SKIP LOCKED")
                .bind(node_id)
                .fetch_optional(conn)
                .await?;
        return Ok(locked.is_some());
    };
    sqlx::query("SELECT set_config('lock_timeout', $1, true)")
        .bind(format!("{}ms", wait.as_millis().max(1)))
        .execute(&mut *conn)
        .await?;
    let locked =
        sqlx::query_scalar::<_, Uuid>("SELECT id FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
            .bind(node_id)
            .fetch_optional(conn)
            .await
            .map_err(Error::from);
    match locked {
        Ok(found) => Ok(found.is_some()),
        // one busy node is no reason to fail: the next may be free
        Err(error) if error.sqlstate().as_deref() == Some("55P03") => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends the bound of [`lock_node`]. Releasing the savepoint keeps the locks, and would keep the bound too.
pub(super) async fn unbound(conn: &mut PgConnection, wait: Option<Duration>) -> Result<()> {
    if wait.is_some() {
        sqlx::query("SELECT set_config('lock_timeout', reset_val, true) FROM pg_settings WHERE name = 'lock_timeout'")
            .execute(conn)
            .await?;
    }
    Ok(())
}

/// Locks exactly these slots (B-39); false when one of them is locked by others, and with `wait` stays so.
async fn lock_slots(conn: &mut PgConnection, ids: &[Uuid], wait: bool) -> Result<bool> {
    let statement = if wait {
        "SELECT id FROM slots WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE"
    } else {
        "SELECT id FROM slots WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED"
    };
    let locked = sqlx::query_scalar::<_, Uuid>(statement)
        .bind(ids)
        .fetch_all(conn)
        .await
        .map_err(Error::from);
    match locked {
        Ok(locked) => Ok(locked.len() == ids.len()),
        Err(error) if error.sqlstate().as_deref() == Some("55P03") => Ok(false),
        Err(error) => Err(error),
    }
}
