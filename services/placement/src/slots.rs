//! Slots: reading, the operator's intent, and the moves between statuses.
pub(crate) mod take;

use std::collections::BTreeMap;

use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::lock;
use crate::model::{Attribution, EvidenceKind, Outcome, Slot, SlotClass, SlotEvidence, SlotStatus};
use crate::outbox::{self, NewEvent};

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT s.id, s.node_id, s.slot_index, s.class, s.status, s.generation, s.clean_generation,
                    s.admin_state = 'disabled' AS disabled, s.health_state, s.health_detail, s.updated_at, s.revision,
                    s.gpu_pci_address, s.gpu_module_id, s.numa_node, s.nvme_device, s.storage_identity_kind,
                    s.nvme_bytes, s.management_mac, s.private_ip, s.fabric_device, s.fabric_vf_pci_address,
                    s.fabric_claim_mode, s.destructive_wipe_policy, s.storage_ownership, s.storage_mode,
                    s.storage_transition_manifest, s.drift, s.host_holder, s.host_held_since,
                    (SELECT c.allocation_id FROM claims c WHERE c.slot_id = s.id AND c.state <> 'released') AS allocation_id,
                    (SELECT a.project_id FROM claims c JOIN allocations a ON a.id = c.allocation_id
                      WHERE c.slot_id = s.id AND c.state <> 'released') AS project_id,
                    (SELECT e.kind || ': ' || e.method FROM clean_evidence e
                      WHERE e.slot_id = s.id AND e.generation = s.clean_generation) AS clean_evidence
               FROM slots s ",
            $tail
        )
    };
}

/// The slots of a node by index.
///
/// # Errors
/// Those of the database.
pub async fn list(conn: &mut PgConnection, node_id: Uuid) -> Result<Vec<Slot>> {
    Ok(
        sqlx::query_as(select!("WHERE s.node_id = $1 ORDER BY s.slot_index"))
            .bind(node_id)
            .fetch_all(conn)
            .await?,
    )
}

/// What the slots of a node can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[
        Field::new("id", Kind::Id, "listed.id"),
        Field::sortable("slot_index", Kind::Number, "listed.slot_index::bigint"),
        Field::sortable(
            "slot_class",
            Kind::OneOf(SlotClass::WORDS),
            "listed.class::text",
        ),
        Field::sortable(
            "status",
            Kind::OneOf(SlotStatus::WORDS),
            "listed.status::text",
        ),
        Field::sortable(
            "health_state",
            Kind::OneOf(&["healthy", "unknown", "degraded", "failed"]),
            "listed.health_state::text",
        ),
        Field::new("health_detail", Kind::Text, "listed.health_detail"),
        Field::new("disabled", Kind::Flag, "listed.disabled"),
        Field::sortable("generation", Kind::Number, "listed.generation::bigint"),
        Field::new("allocation_id", Kind::Id, "listed.allocation_id"),
        Field::sortable("update_time", Kind::Time, "listed.updated_at"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "slot_index",
};

/// A page of the slots of a node that are selected, by index unless it says otherwise, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn select(
    conn: &mut PgConnection,
    node_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Slot>, String)> {
    let statement = Statement::new(&[select!("WHERE s.node_id = $1")]).bind(node_id);
    selection.page(conn, statement, wanted).await
}

/// One slot of a node.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn get(conn: &mut PgConnection, node_id: Uuid, slot_id: Uuid) -> Result<Slot> {
    sqlx::query_as(select!("WHERE s.node_id = $1 AND s.id = $2"))
        .bind(node_id)
        .bind(slot_id)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| Error::not_found("slot", slot_id))
}

/// The slots an allocation holds, by index.
pub(crate) async fn held_by(conn: &mut PgConnection, allocation_id: Uuid) -> Result<Vec<Slot>> {
    let rows = sqlx::query_as(select!(
        "WHERE s.id IN (SELECT slot_id FROM claims WHERE allocation_id = $1 AND state <> 'released') ORDER BY s.slot_index"
    ))
    .bind(allocation_id)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// The slot under its row lock, node first.
pub(crate) async fn lock_one(
    conn: &mut PgConnection,
    node_id: Uuid,
    slot_id: Uuid,
) -> Result<Slot> {
    lock::node(conn, node_id).await?;
    sqlx::query_scalar::<_, Uuid>(
        "SELECT id FROM slots WHERE id = $1 AND node_id = $2 FOR NO KEY UPDATE",
    )
    .bind(slot_id)
    .bind(node_id)
    .fetch_optional(&mut *conn)
    .await?;
    get(conn, node_id, slot_id).await
}

/// The slot with this index that is not retired, if there is one, under its row lock; the node is locked already.
pub(crate) async fn lock_at(
    conn: &mut PgConnection,
    node_id: Uuid,
    slot_index: i32,
) -> Result<Option<Slot>> {
    let row = sqlx::query_as(select!(
        "WHERE s.node_id = $1 AND s.slot_index = $2 AND NOT s.retired FOR NO KEY UPDATE OF s"
    ))
    .bind(node_id)
    .bind(slot_index)
    .fetch_optional(conn)
    .await?;
    Ok(row)
}

/// For each of these slots the retired slots of its node that had one of its devices, the latest first, at most 64.
///
/// # Errors
/// Those of the database.
pub async fn replaced(conn: &mut PgConnection, ids: &[Uuid]) -> Result<BTreeMap<Uuid, Vec<Uuid>>> {
    let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "SELECT s.id, o.id FROM slots s CROSS JOIN LATERAL
           (SELECT r.id FROM slots r
             WHERE r.node_id = s.node_id AND r.status = 'retired' AND r.id <> s.id
               AND (r.nvme_device = s.nvme_device AND s.nvme_device <> ''
                    OR r.gpu_pci_address = s.gpu_pci_address AND s.gpu_pci_address <> ''
                    OR r.fabric_vf_pci_address = s.fabric_vf_pci_address AND s.fabric_vf_pci_address <> '')
             ORDER BY r.updated_at DESC, r.id LIMIT 64) o
          WHERE s.id = ANY ($1) ORDER BY s.id",
    )
    .bind(ids)
    .fetch_all(conn)
    .await?;
    let mut replaced: BTreeMap<Uuid, Vec<Uuid>> = BTreeMap::new();
    for (slot, retired) in rows {
        replaced.entry(slot).or_default().push(retired);
    }
    Ok(replaced)
}

/// The slots of a locked node but retired ones, by id, under their row locks.
pub(crate) async fn lock_all(conn: &mut PgConnection, node_id: Uuid) -> Result<Vec<Slot>> {
    let rows = sqlx::query_as(select!(
        "WHERE s.node_id = $1 AND s.status <> 'retired' ORDER BY s.id FOR NO KEY UPDATE OF s"
    ))
    .bind(node_id)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Locks a slot, and refuses a caller who has read it before its last change. An empty etag is not checked.
///
/// # Errors
/// [`Error::NotFound`]; `ETAG_STALE`.
pub async fn expect(
    conn: &mut PgConnection,
    node_id: Uuid,
    slot_id: Uuid,
    etag: &str,
) -> Result<()> {
    let slot = lock_one(conn, node_id, slot_id).await?;
    Ok(gpuaas_common::etag::check(etag, &slot.etag())?)
}

/// Retires a slot that nobody has: it is never allocated again, and its devices and its index are free for another slot, which
/// is wiped before its first use like any other. Retired again, it changes nothing. Notify [`outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for a slot in use or being wiped, or one whose last tenant's data nobody has
/// proven to be gone.
pub async fn retire(
    conn: &mut PgConnection,
    node_id: Uuid,
    slot_id: Uuid,
    by: Attribution<'_>,
) -> Result<(Slot, Outcome)> {
    let slot = lock_one(conn, node_id, slot_id).await?;
    match slot.status {
        SlotStatus::Retired => return Ok((slot, Outcome::Unchanged)),
        SlotStatus::Available | SlotStatus::Disabled | SlotStatus::CleanupBlocked
            if slot.allocation_id.is_none() => {}
        _ => return Err(conflict(&slot)),
    }
    let ids = [slot_id];
    say(conn, &ids, by).await?;
    let (free, out) = ([SlotStatus::Available], SlotStatus::Disabled);
    let _ = transition(conn, &ids, &free, out, false).await?;
    let out_of_service = [SlotStatus::Disabled, SlotStatus::CleanupBlocked];
    let outcome = transition(conn, &ids, &out_of_service, SlotStatus::Retired, false).await?;
    Ok((get(conn, node_id, slot_id).await?, outcome))
}

/// Notes on locked slots who wants the next change of them, and why.
pub(crate) async fn say(conn: &mut PgConnection, ids: &[Uuid], by: Attribution<'_>) -> Result<()> {
    sqlx::query("UPDATE slots SET admin_reason = $2, admin_by = $3 WHERE id = ANY ($1)")
        .bind(ids)
        .bind(by.reason)
        .bind(by.principal)
        .execute(conn)
        .await?;
    Ok(())
}

pub(crate) fn conflict(slot: &Slot) -> Error {
    Error::Conflict {
        what: "slot",
        id: slot.id,
        state: match slot.allocation_id {
            Some(allocation) => format!("{} for allocation {allocation}", slot.status),
            None => slot.status.to_string(),
        },
    }
}

/// A slot after a move.
#[derive(Debug, sqlx::FromRow)]
struct Moved {
    id: Uuid,
    node_id: Uuid,
    slot_index: i32,
    class: String,
    generation: i64,
    revision: i64,
    updated_at: Timestamp,
    health_detail: String,
}

/// Moves those of the locked slots that are in one of `from`; `raise` raises the generation.
pub(crate) async fn transition(
    conn: &mut PgConnection,
    ids: &[Uuid],
    from: &[SlotStatus],
    to: SlotStatus,
    raise: bool,
) -> Result<Outcome> {
    let from: Vec<&str> = from.iter().map(|status| status.as_str()).collect();
    let moved: Vec<Moved> = sqlx::query_as(
        "UPDATE slots SET status = $3, generation = generation + $4, revision = revision + 1,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = ANY ($1) AND status = ANY ($2)
          RETURNING id, node_id, slot_index, class, generation, revision, updated_at, health_detail",
    )
    .bind(ids)
    .bind(from)
    .bind(to.as_str())
    .bind(i64::from(raise))
    .fetch_all(&mut *conn)
    .await?;
    announce(conn, to, moved).await
}

/// Moves those of the locked slots that are in one of `from` to `cleanup_blocked`, health `failed` (INC-13, INC-14).
pub(crate) async fn block(
    conn: &mut PgConnection,
    ids: &[Uuid],
    from: &[SlotStatus],
    detail: &str,
) -> Result<Outcome> {
    let from: Vec<&str> = from.iter().map(|status| status.as_str()).collect();
    let moved: Vec<Moved> = sqlx::query_as(
        "UPDATE slots SET status = 'cleanup_blocked', cleanup_health = 'failed', health_detail = $3,
                revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = ANY ($1) AND status = ANY ($2)
          RETURNING id, node_id, slot_index, class, generation, revision, updated_at, health_detail",
    )
    .bind(ids)
    .bind(from)
    .bind(detail)
    .fetch_all(&mut *conn)
    .await?;
    announce(conn, SlotStatus::CleanupBlocked, moved).await
}

/// Records the proof and makes the slot schedulable, or disabled by the operator's intent, or retired when
/// its device was destroyed. The slot is `cleanup` or `reserved`, and no live claim is left on it. Of a wipe the database itself
/// finds the call that the host has answered, and refuses without one.
pub(crate) async fn make_clean(conn: &mut PgConnection, proof: &SlotEvidence) -> Result<()> {
    sqlx::query("INSERT INTO clean_evidence (slot_id, generation, kind, method, detail) VALUES ($1, $2, $3, $4, $5)")
        .bind(proof.slot_id)
        .bind(proof.generation)
        .bind(proof.kind.as_str())
        .bind(&proof.method)
        .bind(&proof.detail)
        .execute(&mut *conn)
        .await?;
    if proof.kind == EvidenceKind::Destroyed {
        let _ = transition(
            conn,
            &[proof.slot_id],
            &[SlotStatus::Cleanup],
            SlotStatus::Retired,
            false,
        )
        .await?;
        return Ok(());
    }
    sqlx::query(
        "UPDATE slots SET clean_generation = generation, cleanup_health = 'healthy', health_detail = '',
                host_holder = NULL, host_held_since = NULL,
                revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(proof.slot_id)
    .execute(&mut *conn)
    .await?;
    let back = [SlotStatus::Cleanup, SlotStatus::Reserved];
    let _ = transition(conn, &[proof.slot_id], &back, SlotStatus::Available, false).await?;
    let wanted_out: bool =
        sqlx::query_scalar("SELECT admin_state = 'disabled' FROM slots WHERE id = $1")
            .bind(proof.slot_id)
            .fetch_one(&mut *conn)
            .await?;
    if wanted_out {
        let _ = transition(
            conn,
            &[proof.slot_id],
            &[SlotStatus::Available],
            SlotStatus::Disabled,
            false,
        )
        .await?;
    }
    Ok(())
}

/// Writes the events of statuses that others act on.
async fn announce(conn: &mut PgConnection, to: SlotStatus, moved: Vec<Moved>) -> Result<Outcome> {
    let reported = matches!(
        to,
        SlotStatus::Available
            | SlotStatus::CleanupBlocked
            | SlotStatus::Disabled
            | SlotStatus::Retired
    );
    let outcome = if moved.is_empty() {
        Outcome::Unchanged
    } else {
        Outcome::Changed
    };
    for slot in moved.into_iter().filter(|_| reported) {
        let event = NewEvent {
            kind: &format!("slot.{to}"),
            aggregate_id: slot.id,
            revision: slot.revision,
            at: slot.updated_at,
            project_id: None,
            data: json!({
                "node_id": slot.node_id, "slot_index": slot.slot_index, "slot_class": slot.class,
                "generation": slot.generation.to_string(), "detail": slot.health_detail,
            }),
            traceparent: "",
        };
        outbox::append(conn, event).await?;
    }
    Ok(outcome)
}
