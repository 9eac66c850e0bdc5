//! Takes a node under its lock: the next candidate under contention, waiting for busy ones within a bound.
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use gpuaas_placement_decision::{
    self as decision, Choice, Fleet, Ranking, decide_by, refusal_reasons,
};
use sqlx::{Acquire as _, PgConnection};
use uuid::Uuid;

use super::admit::refusal;
use crate::capacity::Capacity;
use crate::catalog::Sku;
use crate::decision_input::launch_request;
use crate::error::{Error, Result};
use crate::model::{Policy, Request};
use crate::queue::Ahead;
use crate::slots::take;
use crate::{candidates, constraints};

/// What was taken: slots of a locked node, reserved; for a capacity reservation only locked.
pub(crate) struct Taken {
    pub(crate) host: Host,
    /// By index.
    pub(crate) slots: Vec<take::Reserved>,
    /// Those of them that hold their fabric device alone.
    pub(crate) alone: Vec<Uuid>,
}

/// Where the agent of a locked node is.
#[derive(Debug, Clone, sqlx::FromRow)]
pub(crate) struct Host {
    pub(crate) id: Uuid,
    pub(crate) hostname: String,
    /// Host instance that is enrolled now.
    pub(crate) instance_id: Uuid,
    pub(crate) agent_address: String,
}

/// How to search.
#[derive(Clone, Copy)]
pub(crate) struct Search<'a> {
    pub(crate) capacity: &'a Capacity,
    pub(crate) policy: Policy,
    /// Until when candidates under contention are retried.
    pub(crate) until: Instant,
    /// Each try of a node is in a savepoint, so that the lock of one that was taken meanwhile is released at once. Without,
    /// such a node ends the transaction: cheaper where most tries succeed.
    pub(crate) savepoints: bool,
}

/// Takes slots on the best node that can be had: first of the shortlist, then of all. `has_queue`: its queue is not
/// empty.
///
/// # Errors
/// [`Error::Refused`] when nothing fits; [`Error::Busy`] when something fits and others had it locked until the end.
pub(crate) async fn take(
    conn: &mut PgConnection,
    search: Search<'_>,
    request: &Request,
    sku: &Sku,
    mut shortlist: Option<Fleet>,
    mut has_queue: bool,
) -> Result<Taken> {
    let Search {
        capacity,
        policy,
        until,
        savepoints,
    } = search;
    let requested = launch_request(sku, request);
    'look: loop {
        let rules = constraints::rules(conn, policy.packing_strategy, request, sku).await?;
        let ahead = if has_queue {
            Ahead::of(conn, policy, request, sku.slot_class).await?
        } else {
            Ahead::default()
        };
        // allocations that the decision depends on may end meanwhile, or others come before it
        let for_itself =
            !has_queue && !request.bypasses_queue && !request.constraints.depend_on_others();
        // nothing that is known only now removes the best of the shortlist
        let as_shortlisted = !has_queue && !request.constraints.depend_on_others();
        // the snapshot is old after a round
        has_queue = true;
        let region = &request.region_code;
        let few = match &rules.only {
            Some(nodes) => {
                let ids: Vec<Uuid> = nodes.iter().copied().collect();
                Some(Fleet::of(&candidates::load(conn, region, &ids).await?))
            }
            None => shortlist.take(),
        };
        let mut seen = few.map(|fleet| RankedFleet {
            ranking: fleet.rank(&ahead.exclude_compiled(&rules, &fleet), &requested),
            fleet,
        });
        // those that it must be on were read just now, and it may be on no others
        let as_shortlisted = as_shortlisted || rules.only.is_some();
        seen = seen.filter(|seen| as_shortlisted || seen.ranking.fits() == seen.fleet.len());
        let mut left = seen
            .as_ref()
            .map_or_else(Vec::new, |seen| seen.fleet.nodes(&seen.ranking).collect());
        let mut own = seen.as_ref().map_or(0, |seen| seen.ranking.own());
        seen = seen.filter(|_| for_itself);
        let from_shortlist = !left.is_empty();
        if left.is_empty() {
            // none of the shortlist fits: all, which also give the reasons
            let nodes = capacity.now(conn).await?.fleet(region);
            let ranking = nodes.rank(&ahead.exclude_compiled(&rules, &nodes), &requested);
            if ranking.fits() == 0 {
                let causes = refusal_reasons(ranking.removed(), requested.gpu_count);
                return Err(refusal(causes));
            }
            left = nodes.nodes(&ranking).take(MOST_TRIED).collect();
            own = ranking.own();
        }
        let fit = left.len();
        let sought = Sought {
            request,
            sku,
            requested: &requested,
            ahead,
            seen,
            own: left.iter().take(own).copied().collect(),
        };
        // the best unlocked one, and the next as long as one was taken meanwhile
        let mut busy = Vec::new();
        loop {
            let tried = if savepoints {
                try_nodes(conn, policy, &sought, &left, None).await?
            } else {
                attempt(conn, policy, &sought, &left, None).await?
            };
            match tried {
                Attempt::Taken(taken) => return Ok(*taken),
                Attempt::Lost(_) | Attempt::SlotsBusy(_) if !savepoints => {
                    return Err(Error::Contention);
                }
                Attempt::Lost(node_id) => {
                    left.retain(|id| *id != node_id);
                    let own = |id: &Uuid| sought.own.contains(id);
                    if from_shortlist && own(&node_id) && !left.iter().any(own) {
                        // more may be reserved for the project outside the shortlist, and comes before open capacity
                        continue 'look;
                    }
                }
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
            if let Attempt::Taken(taken) =
                try_nodes(conn, policy, &sought, &[node_id], Some(wait)).await?
            {
                return Ok(*taken);
            }
        }
        // Every candidate was taken by others meanwhile, or is still busy: retry while there is time. All
        // are evaluated at once, however late it is: otherwise others who work on a few of many nodes could block a request.
        let all = !from_shortlist || rules.only.is_some();
        if all && Instant::now() >= until {
            return Err(Error::Busy { nodes: fit });
        }
    }
}

/// Nodes that are tried in one round, the best first.
const MOST_TRIED: usize = 256;

/// How long the next busy node may be waited for; none when the time is over.
pub(super) fn bound(policy: Policy, until: Instant) -> Option<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    (!left.is_zero()).then(|| policy.node_lock_timeout.min(left))
}

/// What is to be placed.
struct Sought<'a> {
    request: &'a Request,
    sku: &'a Sku,
    requested: &'a decision::Request,
    /// As it was before any node was locked.
    ahead: Ahead,
    /// What holds for a node that has not changed since.
    seen: Option<RankedFleet>,
    /// Nodes that are evaluated for slots reserved for the project.
    own: BTreeSet<Uuid>,
}

/// The snapshot of the nodes, and the choice that was made on each.
struct RankedFleet {
    fleet: Fleet,
    ranking: Ranking,
}

/// The result of trying nodes.
enum Attempt {
    Taken(Box<Taken>),
    /// Others have locked all of them.
    Busy,
    /// Others have locked slots of this one.
    SlotsBusy(Uuid),
    /// This one does not fit any more (B-42).
    Lost(Uuid),
}

/// Locks the first node that can be had within a savepoint, so that the lock of one that does not fit is released at
/// once. With `wait` there is one node, which is waited for.
async fn try_nodes(
    conn: &mut PgConnection,
    policy: Policy,
    sought: &Sought<'_>,
    ids: &[Uuid],
    wait: Option<Duration>,
) -> Result<Attempt> {
    let mut savepoint = conn.begin().await?;
    let attempt = attempt(&mut savepoint, policy, sought, ids, wait).await?;
    if matches!(attempt, Attempt::Taken(_)) {
        unbound(&mut savepoint, wait).await?;
        savepoint.commit().await?;
    } else {
        savepoint.rollback().await?;
    }
    Ok(attempt)
}

/// Locks the first node that can be had, and takes what the request needs of it.
async fn attempt(
    conn: &mut PgConnection,
    policy: Policy,
    sought: &Sought<'_>,
    ids: &[Uuid],
    wait: Option<Duration>,
) -> Result<Attempt> {
    let Sought {
        request,
        sku,
        requested,
        ..
    } = sought;
    let Some(host) = lock_first(conn, ids, wait).await? else {
        return Ok(Attempt::Busy);
    };
    let node_id = host.id;
    // Statements after the lock: what they see cannot change before the commit.
    let seen = sought.seen.as_ref();
    if let Some((choice, version)) = seen.and_then(|it| it.fleet.choice_on(&it.ranking, node_id))
        && let Some(slots) =
            take::reserve_unchanged(conn, &choice.slot_ids, (node_id, version)).await?
    {
        let alone = choice.alone;
        return Ok(Attempt::Taken(Box::new(Taken { host, slots, alone })));
    }
    let rules = constraints::rules(conn, policy.packing_strategy, request, sku).await?;
    let found = candidates::load(conn, &request.region_code, &[node_id]).await?;
    let class = requested.slot_class;
    let ahead = sought.ahead.again(conn, policy, request, class).await?;
    let rules = ahead.exclude(&rules, &found);
    let choice = decide_by(&rules, requested, &found)
        .choices
        .into_iter()
        .next();
    let Some(Choice {
        slot_ids: ids,
        alone,
        own,
        ..
    }) = choice
    else {
        return Ok(Attempt::Lost(node_id));
    };
    if sought.own.contains(&node_id) && !own {
        // others drew on it, or this batch did: another node may have what is reserved, which comes first
        return Ok(Attempt::Lost(node_id));
    }
    let slots = if request.bypasses_queue {
        take::lock_free(conn, &ids, wait.is_some()).await?
    } else {
        take::reserve(conn, &ids, wait.is_some()).await?
    };
    Ok(match slots {
        Some(slots) => Attempt::Taken(Box::new(Taken { host, slots, alone })),
        None => Attempt::SlotsBusy(node_id),
    })
}

/// Locks the first of some nodes that are not locked, in one statement however many are; with `wait` the first one,
/// which is waited for: then it runs in a savepoint, which is to be rolled back when there is none. None: others have them.
pub(super) async fn lock_first(
    conn: &mut PgConnection,
    ids: &[Uuid],
    wait: Option<Duration>,
) -> Result<Option<Host>> {
    let Some(wait) = wait else {
        let locked = sqlx::query_as(
            "SELECT n.id, n.hostname, n.instance_id, n.agent_address
               FROM unnest($1::uuid[]) WITH ORDINALITY AS c (id, place) JOIN nodes n ON n.id = c.id
              ORDER BY c.place LIMIT 1 FOR NO KEY UPDATE OF n SKIP LOCKED",
        )
        .bind(ids)
        .fetch_optional(conn)
        .await?;
        return Ok(locked);
    };
    sqlx::query("SELECT set_config('lock_timeout', $1, true)")
        .bind(format!("{}ms", wait.as_millis().max(1)))
        .execute(&mut *conn)
        .await?;
    let locked: sqlx::Result<Option<Host>> = sqlx::query_as(
        "SELECT id, hostname, instance_id, agent_address FROM nodes WHERE id = $1 FOR NO KEY UPDATE",
    )
    .bind(ids.first())
    .fetch_optional(conn)
    .await;
    match locked.map_err(Error::from) {
        // one busy node is no reason to fail: the next may be free
        Err(error) if error.sqlstate().as_deref() == Some("55P03") => Ok(None),
        found => found,
    }
}

/// Ends the bound of [`lock_first`]. Releasing the savepoint preserves the locks, and would preserve the bound too.
pub(super) async fn unbound(conn: &mut PgConnection, wait: Option<Duration>) -> Result<()> {
    if wait.is_some() {
        sqlx::query("SELECT set_config('lock_timeout', reset_val, true) FROM pg_settings WHERE name = 'lock_timeout'")
            .execute(conn)
            .await?;
    }
    Ok(())
}
