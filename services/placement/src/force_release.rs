//! Forced release: the way out for what is on a host that is lost (B-28, C-12, C-13).
//!
//! An administrator attests what became of the host. The claims end, and with them what the allocation counts for; its
//! billable time ends at the last proof of life of the host, or when the administrator says; that of bare metal, whose tenant
//! may silence the agent, at the release, or when the administrator says. No slot becomes available by
//! it: each is `disabled`, of a generation that no evidence is of, until a wipe on its host is proven (P2), or `retired`
//! for good where the disks were destroyed. A host that comes back late changes nothing: the workflows that it worked for are over, and every token it knows is behind.
use jiff_sqlx::Timestamp;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;

use crate::allocations::{Change, advance};
use crate::error::{Error, Result};
use crate::model::{
    Allocation, AllocationState, Attribution, ClaimState, EvidenceKind, Scope, Shape, SlotEvidence,
    SlotStatus,
};
use crate::provision::{conflict, free_node};
use crate::{allocations, claims, lock, node_tasks, nodes, slots, timeline, workflows};

/// What operators read of a slot whose disk nobody has wiped.
const NOT_WIPED: &str = "Its allocation was released by force: the disk is not wiped. Repair the slot when its host is back.";

/// What operators read of a slot whose disk is destroyed.
const DESTROYED: &str = "Its disk was destroyed, as an administrator attests. The slot is retired; discover and approve another one for a new disk.";

/// What became of the host, as an administrator attests it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is powered off and will stay off.
    PoweredOff,
    /// Its disks are destroyed.
    DisksDestroyed,
    /// It was reinstalled.
    Reinstalled,
    /// Nobody can reach it; it is given up as it is.
    WrittenOff,
}

impl Fate {
    /// The value in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PoweredOff => "powered_off",
            Self::DisksDestroyed => "disks_destroyed",
            Self::Reinstalled => "reinstalled",
            Self::WrittenOff => "written_off",
        }
    }

    /// The value from the database.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        [
            Self::PoweredOff,
            Self::DisksDestroyed,
            Self::Reinstalled,
            Self::WrittenOff,
        ]
        .into_iter()
        .find(|fate| fate.as_str() == word)
    }
}

/// What the administrator attests.
#[derive(Debug, Clone)]
pub struct Attestation<'a> {
    /// Who.
    pub principal: &'a str,
    /// What became of the host.
    pub fate: Fate,
    /// Why.
    pub reason: &'a str,
    /// When the billable time ended; none: at the last proof of life, of bare metal now.
    pub billing_end: Option<Timestamp>,
}

impl<'a> Attestation<'a> {
    /// Who and why, for the history.
    fn attribution(&self) -> Attribution<'a> {
        Attribution {
            principal: self.principal,
            reason: self.reason,
        }
    }
}

/// A forced release as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct ForceRelease {
    pub allocation_id: Uuid,
    pub node_id: Uuid,
    /// Who attested.
    pub principal: String,
    host_fate: String,
    /// Why.
    pub reason: String,
    /// The last proof of life of the host, as far as it is known.
    pub last_seen_at: Option<Timestamp>,
    /// When it was accepted.
    pub at: Timestamp,
    /// Slots that the allocation had, by index.
    pub slot_ids: Vec<Uuid>,
}

impl ForceRelease {
    /// What became of the host.
    #[must_use]
    pub fn fate(&self) -> Option<Fate> {
        Fate::parse(&self.host_fate)
    }
}

/// The forced release of an allocation, if there was one.
///
/// # Errors
/// Those of the database.
pub async fn find(conn: &mut PgConnection, id: Uuid) -> Result<Option<ForceRelease>> {
    Ok(sqlx::query_as(
        "SELECT f.allocation_id, f.node_id, f.principal, f.host_fate::text AS host_fate, f.reason, f.last_seen_at, f.at,
                ARRAY (SELECT c.slot_id FROM claims c JOIN slots s ON s.id = c.slot_id
                        WHERE c.allocation_id = f.allocation_id ORDER BY s.slot_index) AS slot_ids
           FROM force_releases f WHERE f.allocation_id = $1",
    )
    .bind(id)
    .fetch_optional(conn)
    .await?)
}

/// Whose VM may still be on a slot that nothing holds: the slot's last allocation was released by force, and no wipe was
/// proven since. The host knows the slot by that allocation.
pub(crate) async fn last_holder(conn: &mut PgConnection, slot_id: Uuid) -> Result<Option<Uuid>> {
    Ok(sqlx::query_scalar(
        "SELECT c.allocation_id FROM claims c JOIN force_releases f ON f.allocation_id = c.allocation_id
                JOIN slots s ON s.id = c.slot_id
          WHERE c.slot_id = $1 AND c.state = 'released' AND c.slot_generation > coalesce(s.clean_generation, -1)
          ORDER BY c.slot_generation DESC LIMIT 1",
    )
    .bind(slot_id)
    .fetch_optional(conn)
    .await?)
}

/// Ends what an allocation holds on a lost host.
///
/// # Errors
/// [`Error::NotFound`]; a conflict with a sentence for the administrator when it holds nothing, or when its host is there;
/// [`Error::Invalid`] for an end of the billable time that is not in the time it was active.
pub async fn force(
    conn: &mut PgConnection,
    id: Uuid,
    word: &Attestation<'_>,
) -> Result<Allocation> {
    let allocation = lock::allocation(conn, Scope::Platform, id).await?;
    let held = claims::of_allocation(conn, id).await?;
    let live = held
        .iter()
        .find(|claim| claim.state != ClaimState::Released);
    let Some(claim) = live else {
        return Err(refuse(&allocation, "it holds nothing"));
    };
    let (node_id, instance_id) = (claim.node_id, claim.snapshot.instance_id);
    let node = nodes::get(conn, node_id).await?;
    let replaced = node.instance_id != instance_id;
    check_host(
        &allocation,
        word.fate,
        replaced,
        node.host_lost_since.is_some(),
    )?;
    let last_seen = if replaced {
        // what the node says is of the other instance
        allocation.host_lost_since.or(node.host_lost_since)
    } else {
        allocation.host_lost_since.max(node.host_lost_since)
    };
    let proof = match allocation.capacity_shape {
        // its tenant may have silenced the agent: that says nothing of whether the machine runs
        Shape::Baremetal => allocation.host_lost_since,
        Shape::GpuSlice => last_seen,
    };
    let billed_until = billed_until(conn, &allocation, word, proof).await?;

    workflows::cancel(conn, id).await?;
    let slot_ids: Vec<Uuid> = slots::held_by(conn, id)
        .await?
        .iter()
        .map(|slot| slot.id)
        .collect();
    workflows::cancel_repairs(conn, &slot_ids).await?;
    node_tasks::abandon(conn, Some(id), None).await?;
    timeline::end_running(conn, id, "Stopped: an operator ended the allocation.").await?;
    out_of_service(conn, &slot_ids, word).await?;
    let ended = end(conn, &allocation, billed_until).await?;
    if let (Shape::Baremetal, Some(node_id)) = (allocation.capacity_shape, allocation.node_id) {
        nodes::retire_evidence(conn, node_id).await?;
        if word.fate == Fate::DisksDestroyed {
            // every disk of the node was the tenant's
            retire(conn, node_id, word).await?;
        }
    }
    free_node(conn, &allocation).await?;
    sqlx::query(
        "INSERT INTO force_releases (allocation_id, node_id, instance_id, principal, host_fate, reason, last_seen_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(id)
    .bind(node_id)
    .bind(instance_id)
    .bind(word.principal)
    .bind(word.fate.as_str())
    .bind(word.reason)
    .bind(last_seen)
    .execute(&mut *conn)
    .await?;
    Ok(ended)
}

/// A host that answers releases what is on it itself, and proves it.
fn check_host(allocation: &Allocation, fate: Fate, replaced: bool, silent: bool) -> Result<()> {
    let baremetal = allocation.capacity_shape == Shape::Baremetal;
    // what is left of it is a disk that cannot be wiped any more
    let only_a_disk = fate == Fate::DisksDestroyed && over(allocation);
    if !(replaced || silent || baremetal || only_a_disk) {
        return Err(refuse(allocation, "its host answers; release it instead"));
    }
    if fate == Fate::Reinstalled && !(replaced || baremetal) {
        return Err(refuse(
            allocation,
            "its host has not enrolled again; attest what else became of it, or enrol it first",
        ));
    }
    Ok(())
}

/// When the billable time ends; none when none is open.
async fn billed_until(
    conn: &mut PgConnection,
    allocation: &Allocation,
    word: &Attestation<'_>,
    last_seen: Option<Timestamp>,
) -> Result<Option<Timestamp>> {
    if allocation.state != AllocationState::Active {
        return match word.billing_end {
            Some(_) => Err(bad_end("can be set for an active allocation only")),
            None => Ok(None),
        };
    }
    let (at, fits): (Option<Timestamp>, Option<bool>) = sqlx::query_as(
        "SELECT coalesce($2, greatest(active_at, least($3, auto_release_at, clock_timestamp()))),
                $2 BETWEEN active_at AND clock_timestamp() FROM allocations WHERE id = $1",
    )
    .bind(allocation.id)
    .bind(word.billing_end)
    .bind(last_seen)
    .fetch_one(conn)
    .await?;
    if fits == Some(false) {
        return Err(bad_end(
            "must be in the time since the allocation became active",
        ));
    }
    Ok(at)
}

fn over(allocation: &Allocation) -> bool {
    matches!(
        allocation.state,
        AllocationState::Released | AllocationState::Failed
    )
}

/// From any status to `disabled`, by the way that the tables know: the generation rises, so that evidence of the allocation
/// fits no more, nor does any token that its host knows. A slot whose disk is destroyed goes on to `retired`, with that as
/// its evidence.
async fn out_of_service(
    conn: &mut PgConnection,
    slot_ids: &[Uuid],
    word: &Attestation<'_>,
) -> Result<()> {
    let held = [
        SlotStatus::Reserved,
        SlotStatus::Provisioning,
        SlotStatus::Active,
        SlotStatus::Releasing,
        SlotStatus::Cleanup,
    ];
    let _ = slots::block(conn, slot_ids, &held, NOT_WIPED).await?;
    sqlx::query("UPDATE slots SET health_detail = $2 WHERE id = ANY ($1)")
        .bind(slot_ids)
        .bind(NOT_WIPED)
        .execute(&mut *conn)
        .await?;
    let (blocked, cleanup) = ([SlotStatus::CleanupBlocked], [SlotStatus::Cleanup]);
    let _ = slots::transition(conn, slot_ids, &blocked, SlotStatus::Cleanup, true).await?;
    if word.fate != Fate::DisksDestroyed {
        let _ = slots::transition(conn, slot_ids, &cleanup, SlotStatus::Disabled, false).await?;
        return Ok(());
    }
    prove_destroyed(conn, slot_ids, word).await
}

/// From `cleanup` to `retired`, with the administrator's word as evidence.
async fn prove_destroyed(
    conn: &mut PgConnection,
    slot_ids: &[Uuid],
    word: &Attestation<'_>,
) -> Result<()> {
    sqlx::query("UPDATE slots SET health_detail = $2 WHERE id = ANY ($1)")
        .bind(slot_ids)
        .bind(DESTROYED)
        .execute(&mut *conn)
        .await?;
    slots::say(conn, slot_ids, word.attribution()).await?;
    let now: Vec<(Uuid, i64)> =
        sqlx::query_as("SELECT id, generation FROM slots WHERE id = ANY ($1) ORDER BY id")
            .bind(slot_ids)
            .fetch_all(&mut *conn)
            .await?;
    for (slot_id, generation) in now {
        let proof = SlotEvidence {
            slot_id,
            generation,
            kind: EvidenceKind::Destroyed,
            method: "attested".to_owned(),
            detail: json!({ "principal": word.principal, "reason": word.reason }),
        };
        slots::make_clean(conn, &proof).await?;
    }
    Ok(())
}

/// Retires the slots of a node whose disks were destroyed with a tenant of the bare-metal node on it, each with that as its
/// evidence. Nobody holds the node any more.
async fn retire(conn: &mut PgConnection, node_id: Uuid, word: &Attestation<'_>) -> Result<()> {
    let slot_ids: Vec<Uuid> = slots::lock_all(conn, node_id)
        .await?
        .iter()
        .map(|slot| slot.id)
        .collect();
    // those that were free have a generation of their own since the tenant was on them
    let (out, blocked) = ([SlotStatus::Disabled], [SlotStatus::CleanupBlocked]);
    let _ = slots::transition(conn, &slot_ids, &blocked, SlotStatus::Cleanup, true).await?;
    let _ = slots::transition(conn, &slot_ids, &out, SlotStatus::Cleanup, false).await?;
    prove_destroyed(conn, &slot_ids, word).await
}

/// Ends claims, billable time and the allocation, which may be over already and have left a claim that waits for a repair.
async fn end(
    conn: &mut PgConnection,
    allocation: &Allocation,
    billed_until: Option<Timestamp>,
) -> Result<Allocation> {
    let id = allocation.id;
    let over = over(allocation);
    if !over && allocation.state != AllocationState::Releasing {
        let change = Change {
            billed_until,
            ..Change::default()
        };
        advance(conn, id, AllocationState::Releasing, change).await?;
        sqlx::query("UPDATE allocation_periods SET ended_at = greatest($2, started_at) WHERE allocation_id = $1 AND ended_at IS NULL")
            .bind(id)
            .bind(billed_until)
            .execute(&mut *conn)
            .await?;
    }
    let live = [ClaimState::Provisioning, ClaimState::Active];
    claims::transition(conn, id, &live, ClaimState::Releasing).await?;
    let last = [
        ClaimState::Reserved,
        ClaimState::Releasing,
        ClaimState::CleanupBlocked,
    ];
    claims::transition(conn, id, &last, ClaimState::Released).await?;
    if over {
        return allocations::get(conn, Scope::Platform, id).await;
    }
    let reported = match (billed_until, allocation.capacity_shape) {
        (Some(_), Shape::GpuSlice) => {
            "Its host is lost, so an operator ended the allocation. Billing ended when the host was last heard, or at the time that the operator stated."
        }
        (Some(_), Shape::Baremetal) => {
            "Its host is lost, so an operator ended the allocation. Billing ended then, or at the time that the operator stated."
        }
        (None, _) => "Its host is lost, so an operator ended the allocation.",
    };
    timeline::append(conn, id, "released", timeline::State::Done, reported).await?;
    advance(conn, id, AllocationState::Released, Change::default()).await
}

fn refuse(allocation: &Allocation, why: &str) -> Error {
    let sentence = format!("The allocation cannot be released by force: {why}.");
    match conflict(allocation) {
        Error::Conflict { state, .. } => gpuaas_common::Error::new(
            Code::FailedPrecondition,
            ErrorReason::StateConflict,
            sentence,
        )
        .meta("state", state)
        .into(),
        other => other,
    }
}

fn bad_end(rule: &str) -> Error {
    Error::Invalid {
        reason: ErrorReason::FieldInvalid,
        field: "billing_end_time",
        rule: rule.to_owned(),
    }
}
