//! Calls as the services make them: one transaction each, over pools that may be cut.
use gpuaas_placement::approval::{self, Inspection};
use gpuaas_placement::capacity::Ledger;
use gpuaas_placement::model::Attribution;
use gpuaas_placement::model::{EvidenceKind, Failure, Scope, SlotEvidence};
use gpuaas_placement::nodes::{self, NodeSpec};
use gpuaas_placement::provision::{self, HostState};
use gpuaas_placement::repair::Origin;
use gpuaas_placement::reserve::{self, Key, Pass};
use gpuaas_placement::{
    Error, Fence, Result, node_placement, power, queue, quota, release, repair, reservations,
    sequencer,
};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::calls::Call;
use super::fleet::{Fleet, MODEL_POLICY, NODE_SKU, Requested, SKU};
use super::predict::No;
use super::view::View;
use crate::reserving;
use crate::world::{REGION, World, access, wiped};

/// Pools of the two roles, direct or over the wire.
pub struct Pools<'a> {
    pub scheduler: &'a Ledger,
    pub allocation: &'a PgPool,
}

/// Runs in a transaction that is committed, or rolled back when `$body` fails.
macro_rules! within {
    ($pool:expr, |$tx:ident| $body:expr) => {{
        let mut $tx = $pool.begin().await?;
        let outcome: Result<()> = async { $body }.await;
        match outcome {
            Ok(()) => $tx.commit().await?,
            Err(error) => {
                // the first error counts; a dead connection has rolled back by itself
                let _dead = $tx.rollback().await;
                return Err(error);
            }
        }
    }};
}

/// What a call answers.
#[derive(Debug, PartialEq)]
pub enum Answer {
    Nothing,
    /// Allocations, and whether the key was seen before.
    Made(Vec<Uuid>, bool),
    Pass(Pass),
    /// A reservation, and whether the key was seen before.
    Held(Uuid, bool),
}

/// Asks for one allocation or for a batch; the key is that of the first request.
async fn ask(pool: &Ledger, world: &World, requested: &Requested) -> Result<Answer> {
    let (ids, policy, requests) = (world.ids, MODEL_POLICY, &requested.requests);
    let deadline = Timestamp::now() + SignedDuration::from_hours(1);
    let key = Key {
        principal: &requests[0].principal,
        idempotency_key: &requests[0].idempotency_key,
        request_hash: &requests[0].request_hash,
    };
    let (made, replayed) = match (requests.as_slice(), requested.wait) {
        ([one], wait) => {
            let reserved = if wait {
                reserving::one_or_queue(pool, ids, policy, one, deadline).await?
            } else {
                reserving::one(pool, ids, policy, one).await?
            };
            (vec![reserved.allocation_id], reserved.replayed)
        }
        (all, true) => reserving::all_or_queue(pool, ids, policy, key, all, deadline).await?,
        (all, false) => reserving::all(pool, ids, policy, key, all).await?,
    };
    Ok(Answer::Made(made, replayed))
}

/// Makes a call; `asked` is of a request or its repetition.
pub async fn perform(
    call: &Call,
    requested: Option<&Requested>,
    world: &World,
    pools: &Pools<'_>,
    fleet: &Fleet,
    view: &View,
) -> Result<Answer> {
    match call {
        Call::Ask(_) | Call::Again { .. } => {
            return ask(pools.scheduler, world, requested.expect("of a request")).await;
        }
        Call::Hold(hold) => {
            let key = format!("r-{}", hold.key);
            let ask = reservations::ReservationSpec {
                principal: "user:root".into(),
                idempotency_key: key.clone(),
                request_hash: vec![7; 32],
                request_id: String::new(),
                made_by_project: false,
                project_id: fleet.projects[hold.project],
                name: key,
                region_code: REGION.into(),
                sku: if hold.bare_metal { NODE_SKU } else { SKU }.into(),
                gpu_count: hold.gpus,
                starts_at: None,
                ends_at: Timestamp::now() + SignedDuration::from_hours(24),
                release_unused_after: None,
                gather: hold.gather,
            };
            let made = reservations::create(pools.scheduler, world.ids, MODEL_POLICY, &ask).await;
            let (row, replayed) = made?;
            return Ok(Answer::Held(row.id, replayed));
        }
        Call::Reconcile => {
            let mut rounds = 0;
            while reservations::reconcile(pools.scheduler, MODEL_POLICY)
                .await?
                .changed()
            {
                rounds += 1;
                assert!(rounds < 10, "reservations never come to rest");
            }
        }
        Call::Cancel(id) => {
            let cancellation = reservations::Cancellation {
                principal: "user:root",
                idempotency_key: &id.to_string(),
                request_hash: &[8; 32],
                request_id: "",
                scope: Scope::Platform,
                id: *id,
                reason: "",
            };
            reservations::cancel(pools.scheduler, MODEL_POLICY, &cancellation).await?;
        }
        Call::Over(id) => {
            world
                .run_past_guards(&format!(
                    "UPDATE capacity_reservations SET starts_at = starts_at - interval '1 day',
                            ends_at = clock_timestamp() WHERE id = '{id}'"
                ))
                .await;
        }
        Call::Serve => {
            let pass = reserve::serve_queue(pools.scheduler, world.ids, MODEL_POLICY).await?;
            return Ok(Answer::Pass(pass));
        }
        Call::Expire(batch_id) => {
            // past the guard of the table, as time passes
            world
                .run_past_guards(&format!(
                    "UPDATE allocations SET deadline_at = clock_timestamp()
                      WHERE id IN (SELECT allocation_id FROM queued_allocations WHERE batch_id = '{batch_id}')"
                ))
                .await;
        }
        Call::Priority { project, class } => within!(pools.scheduler, |tx| {
            queue::priority::put(&mut tx, fleet.projects[*project], *class).await
        }),
        Call::Start(id) => {
            let fence = world.take(*id).await;
            within!(pools.allocation, |tx| {
                let _ = provision::start(&mut tx, fence, *id).await?;
                Ok(())
            });
        }
        Call::Activate { of, finish } => {
            let fence = world.take(*of).await;
            within!(pools.allocation, |tx| {
                let _ = provision::activate(&mut tx, fence, *of, Some(&access()), None).await?;
                if *finish {
                    ended(&mut tx, fence).await?;
                }
                Ok(())
            });
        }
        Call::Fail { of, dirty } => {
            let fence = world.take(*of).await;
            let detail = json!({"refused_at": "acquire_lease"});
            let host = if *dirty {
                HostState::Dirty {
                    health_detail: "no answer",
                }
            } else {
                HostState::Untouched { detail }
            };
            within!(pools.allocation, |tx| {
                let _ = provision::fail(&mut tx, fence, *of, &failure(), host).await?;
                ended(&mut tx, fence).await
            });
        }
        Call::Release(id) => within!(pools.allocation, |tx| {
            release::begin(&mut tx, Scope::Platform, *id, "", "")
                .await
                .map(|_| ())
        }),
        Call::Complete { of, proven } => {
            let fence = world.take(*of).await;
            let proofs = if *proven {
                world.wiped(*of).await
            } else {
                Vec::new()
            };
            within!(pools.allocation, |tx| {
                let _ = release::complete(&mut tx, fence, *of, &proofs).await?;
                ended(&mut tx, fence).await
            });
        }
        Call::Block(id) => {
            let fence = world.take(*id).await;
            within!(pools.allocation, |tx| {
                let _ = release::block(&mut tx, fence, *id, "not proven").await?;
                ended(&mut tx, fence).await
            });
        }
        Call::Power { of, action } => within!(pools.allocation, |tx| {
            power::begin(&mut tx, Scope::Platform, *of, *action, false, "", "")
                .await
                .map(|_| ())
        }),
        Call::PowerOutcome { of, power } => {
            let fence = world.take(*of).await;
            within!(pools.allocation, |tx| {
                let _ = power::record_outcome(&mut tx, fence, *of, power, None).await?;
                ended(&mut tx, fence).await
            });
        }
        Call::Stale(id) => {
            let stale = world.take(*id).await;
            world.take(*id).await;
            within!(pools.allocation, |tx| {
                let _ = release::complete(&mut tx, stale, *id, &[]).await?;
                Ok(())
            });
        }
        Call::Repair(slot) => {
            let node = view.slots[slot].node;
            within!(pools.allocation, |tx| {
                repair::begin(&mut tx, node, *slot, "", "")
                    .await
                    .map(|_| ())
            });
        }
        Call::Repaired { slot, destroyed } => {
            let fence = world.take(*slot).await;
            let mut proof = wiped(*slot, view.slots[slot].generation);
            if *destroyed {
                proof = SlotEvidence {
                    kind: EvidenceKind::Destroyed,
                    ..proof
                };
            }
            within!(pools.allocation, |tx| {
                let _ = repair::complete(&mut tx, fence, *slot, &proof).await?;
                ended(&mut tx, fence).await
            });
        }
        Call::NotRepaired(slot) => {
            let fence = world.take(*slot).await;
            within!(pools.allocation, |tx| {
                let _ = repair::fail(&mut tx, fence, *slot, "still not proven").await?;
                ended(&mut tx, fence).await
            });
        }
        Call::Intent { slot, disabled } => {
            let node = view.slots[slot].node;
            within!(pools.scheduler, |tx| {
                node_placement::set_slot_admin_state(
                    &mut tx,
                    node,
                    *slot,
                    *disabled,
                    Attribution::of("user:test", "by the test"),
                )
                .await
                .map(|_| ())
            });
        }
        Call::Approve { node, upto } => {
            let all = &fleet.nodes[*node].definitions[..upto.unsigned_abs() as usize];
            let node_id = fleet.nodes[*node].id;
            let known = view.slots.values().filter(|slot| slot.node == node_id);
            let generations = known.map(|slot| (slot.index, slot.generation));
            let look = Inspection {
                instance_id: None,
                generations: generations.collect(),
            };
            let mut fresh = (0..*upto)
                .map(|index| fleet.slot_id(*node, index))
                .filter(|id| !view.slots.contains_key(id));
            let id = fleet.nodes[*node].id;
            within!(pools.scheduler, |tx| {
                let next = || fresh.next().expect("an id per new slot");
                approval::approve(&mut tx, id, &look, all, Origin::default(), next)
                    .await
                    .map(|_| ())
            });
        }
        Call::Reinstall(node) => {
            let spec = NodeSpec {
                instance_id: Uuid::now_v7(),
                new_instance: true,
                ..fleet.spec(*node, meant_baremetal(view, fleet, *node))
            };
            within!(pools.scheduler, |tx| nodes::put(&mut tx, &spec)
                .await
                .map(|_| ()));
        }
        Call::Gate { node, .. } => {
            let spec = fleet.spec(*node, meant_baremetal(view, fleet, *node));
            within!(pools.scheduler, |tx| nodes::put(&mut tx, &spec)
                .await
                .map(|_| ()));
        }
        Call::Mode { node, baremetal } => {
            let spec = fleet.spec(*node, *baremetal);
            within!(pools.scheduler, |tx| nodes::put(&mut tx, &spec)
                .await
                .map(|_| ()));
        }
        Call::Operator { node, intent } => {
            let id = fleet.nodes[*node].id;
            within!(pools.scheduler, |tx| {
                node_placement::set_intent(
                    &mut tx,
                    id,
                    *intent,
                    Attribution::of("user:test", "by the test"),
                )
                .await
                .map(|_| ())
            });
        }
        Call::Quota { project, max } => within!(pools.scheduler, |tx| {
            quota::put(&mut tx, fleet.projects[*project], SKU, *max)
                .await
                .map(|_| ())
        }),
        Call::Sequence => {
            sequencer::run_once(pools.allocation).await?;
        }
    }
    Ok(Answer::Nothing)
}

fn meant_baremetal(view: &View, fleet: &Fleet, node: usize) -> bool {
    view.nodes[&fleet.nodes[node].id].meant_baremetal
}

/// What a runner writes last.
async fn ended(conn: &mut PgConnection, fence: Fence) -> Result<()> {
    sqlx::query("UPDATE workflows SET state = 'done', ended_at = clock_timestamp() WHERE id = $1 AND lease_epoch = $2")
        .bind(fence.workflow_id)
        .bind(fence.lease_epoch)
        .execute(conn)
        .await?;
    Ok(())
}

fn failure() -> Failure {
    Failure {
        reason: "GUEST_NO_LOGIN".into(),
        message: "The machine did not answer.".into(),
        advice: String::new(),
        step: "provision.wait_login".into(),
    }
}

/// A refusal as the model knows it; none for an error that no call may ever show.
pub fn refusal(error: &Error) -> Option<No> {
    Some(match error {
        Error::Conflict { .. } => No::Conflict,
        Error::EvidenceMissing(_) => No::Evidence,
        Error::StaleLease => No::Stale,
        Error::Refused {
            reason: ErrorReason::Quota,
            ..
        } => No::Quota,
        Error::Refused { .. } => No::Capacity,
        Error::Invalid { .. } => No::Invalid,
        Error::InBatch { source, .. } => return refusal(source),
        Error::NameTaken(_) => No::Name,
        Error::Common(error) if error.reason() == ErrorReason::IdempotencyKeyReused => No::Key,
        Error::Common(error) if error.reason() == ErrorReason::StateConflict => No::Conflict,
        _ => return None,
    })
}
