//! The operator's hand on a node: cordon, drain, maintenance, retirement, and what placement makes of it (B-48, B-50).
//!
//! A node is `broken` exactly as long as it has an open break-fix record, see [`crate::node_health`].
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Attribution, Outcome, Slot, SlotStatus};
use crate::outbox::{self, NewEvent};
use crate::{lock, repair, slots};

pub use crate::model::Intent;

/// A node from placement's point of view.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct NodePlacement {
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    pub region_code: String,
    /// "slice" or "baremetal", as it is now.
    pub mode: String,
    /// The value of an [`Intent`].
    pub admin_state: String,
    /// The operator's reason.
    pub admin_reason: String,
    /// Who said it; empty: never, or a release before this one.
    pub admin_by: String,
    /// When the operator's intent last changed.
    pub admin_at: Option<Timestamp>,
    /// The host is ready.
    pub schedulable: bool,
    /// Why it is not.
    pub not_schedulable_reason: String,
    /// Grows with every change.
    pub generation: i64,
    /// Live claims on the node: what a drain waits for.
    pub live_claims: i64,
    /// Allocations on it that have not ended.
    pub live_allocations: i64,
    /// Schedulable slots.
    pub available_slots: i64,
    updated_at: Timestamp,
}

impl NodePlacement {
    /// Draining, and nothing is left on it.
    #[must_use]
    pub fn drained(&self) -> bool {
        self.admin_state == "draining" && self.live_claims == 0 && self.live_allocations == 0
    }

    /// Differs after every change of the operator's intent, and after nothing else.
    #[must_use]
    pub fn etag(&self) -> String {
        let at = self.admin_at.map_or(0, |at| at.to_jiff().as_microsecond());
        format!("{}-{at}", self.admin_state)
    }

    fn conflict(&self, state: &str) -> Error {
        Error::Conflict {
            what: "node",
            id: self.id,
            state: state.to_owned(),
        }
    }
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT n.id, n.hostname, n.region_code, n.mode, n.admin_state, n.admin_reason, n.admin_by, n.admin_at, n.schedulable,
                    n.not_schedulable_reason, n.generation, n.updated_at,
                    (SELECT count(*) FROM claims c WHERE c.node_id = n.id AND c.state <> 'released') AS live_claims,
                    (SELECT count(DISTINCT c.allocation_id) FROM claims c JOIN allocations a ON a.id = c.allocation_id
                      WHERE c.node_id = n.id AND c.state <> 'released'
                        AND a.state NOT IN ('released', 'failed')) AS live_allocations,
                    (SELECT count(*) FROM slots s WHERE s.node_id = n.id AND s.status = 'available'
                        AND NOT EXISTS (SELECT FROM reserved_slots h WHERE h.slot_id = s.id)) AS available_slots
               FROM nodes n ",
            $tail
        )
    };
}

/// One node.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn get(conn: &mut PgConnection, node_id: Uuid) -> Result<NodePlacement> {
    sqlx::query_as(select!("WHERE n.id = $1"))
        .bind(node_id)
        .fetch_optional(conn)
        .await?
        .ok_or_else(|| Error::not_found("node", node_id))
}

/// What the list of nodes can be selected by.
pub static NODES: Catalog = Catalog {
    fields: &[
        Field::sortable("hostname", Kind::Text, "listed.hostname"),
        Field::sortable("region_code", Kind::Text, "listed.region_code"),
        Field::sortable("mode", Kind::OneOf(&["slice", "baremetal"]), "listed.mode"),
        Field::sortable(
            "admin_state",
            Kind::OneOf(Intent::WORDS),
            "listed.admin_state",
        ),
        Field::new("admin_reason", Kind::Text, "listed.admin_reason"),
        Field::new("admin_principal", Kind::Text, "listed.admin_by"),
        Field::new("admin_time", Kind::Time, "listed.admin_at"),
        Field::new("schedulable", Kind::Flag, "listed.schedulable"),
        Field::new(
            "not_schedulable_reason",
            Kind::Text,
            "listed.not_schedulable_reason",
        ),
        Field::sortable("live_claims", Kind::Number, "listed.live_claims"),
        Field::sortable("live_allocations", Kind::Number, "listed.live_allocations"),
        Field::sortable("available_slots", Kind::Number, "listed.available_slots"),
    ],
    // the order in which they were enrolled
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the nodes that a caller selects, of one region when given, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn list(
    conn: &mut PgConnection,
    region_code: Option<&str>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<NodePlacement>, String)> {
    let statement = Statement::new(&[select!("WHERE ($1::text IS NULL OR n.region_code = $1)")])
        .bind(region_code);
    selection.page(conn, statement, wanted).await
}

/// Locks a node until the transaction ends, as every change of it, its slots, findings and break-fix records does: what is read then is
/// what the change finds.
///
/// # Errors
/// [`Error::NotFound`] when the ledger has no such node.
pub async fn lock(conn: &mut PgConnection, node_id: Uuid) -> Result<()> {
    lock::node(conn, node_id).await
}

/// Locks a node, and refuses a caller who has read it before its last change. An empty etag is not checked.
///
/// # Errors
/// [`Error::NotFound`]; `ETAG_STALE`.
pub async fn expect(conn: &mut PgConnection, node_id: Uuid, etag: &str) -> Result<()> {
    lock::node(conn, node_id).await?;
    if !etag.is_empty() {
        gpuaas_common::etag::check(etag, &get(conn, node_id).await?.etag())?;
    }
    Ok(())
}

/// Sets an operator's intent for a node, under the node's lock: a running placement is finished before or observes it.
/// Repeated with the same reason, it changes nothing. Notify [`outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] when the node is retired, has an open break-fix record, or is in use and the
/// intent needs it empty.
pub async fn set_intent(
    conn: &mut PgConnection,
    node_id: Uuid,
    intent: Intent,
    by: Attribution<'_>,
) -> Result<(NodePlacement, Outcome)> {
    lock::node(conn, node_id).await?;
    let before = get(conn, node_id).await?;
    if before.admin_state == intent.as_str() && before.admin_reason == by.reason {
        return Ok((before, Outcome::Unchanged));
    }
    may_become(conn, &before, intent).await?;
    let node = become_locked(conn, node_id, intent, by).await?;
    Ok((node, Outcome::Changed))
}

/// Whether the node may become this on an operator's word. The rules that the database itself has, with a reason for people.
async fn may_become(conn: &mut PgConnection, node: &NodePlacement, intent: Intent) -> Result<()> {
    if node.admin_state == Intent::Retired.as_str() {
        return Err(node.conflict("retired"));
    }
    let open: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM break_fixes WHERE node_id = $1 AND closed_at IS NULL)",
    )
    .bind(node.id)
    .fetch_one(conn)
    .await?;
    match intent {
        Intent::Broken if open => Ok(()),
        Intent::Broken => Err(node.conflict("without a break-fix record")),
        _ if open => Err(node.conflict("broken; close its break-fix records first")),
        Intent::Maintenance if node.live_allocations > 0 => {
            Err(node.conflict("in use; drain it first"))
        }
        Intent::Retired if node.admin_state == Intent::Enabled.as_str() => {
            Err(node.conflict("in service; drain it first"))
        }
        Intent::Retired if node.live_claims > 0 => Err(node.conflict(
            "holding claims; wait for their release, repair its blocked slots, or attest that their disks are destroyed",
        )),
        _ => Ok(()),
    }
}

/// Writes an intent that was checked, and its event. The node's row is locked.
pub(crate) async fn become_locked(
    conn: &mut PgConnection,
    node_id: Uuid,
    intent: Intent,
    by: Attribution<'_>,
) -> Result<NodePlacement> {
    if intent == Intent::Retired {
        retire_slots(conn, node_id, by).await?;
    }
    sqlx::query(
        "UPDATE nodes SET admin_state = $2, admin_reason = $3, admin_by = $4, admin_at = greatest(clock_timestamp(), updated_at),
                generation = generation + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(node_id)
    .bind(intent.as_str())
    .bind(by.reason)
    .bind(by.principal)
    .execute(&mut *conn)
    .await?;
    let node = get(conn, node_id).await?;
    outbox::append(
        conn,
        NewEvent {
            kind: &format!("node.{intent}", intent = intent.as_str()),
            aggregate_id: node_id,
            revision: node.generation,
            at: node.updated_at,
            project_id: None,
            data: json!({
                "hostname": node.hostname, "region_code": node.region_code, "reason": by.reason,
                "live_claims": node.live_claims,
            }),
            traceparent: "",
        },
    )
    .await?;
    Ok(node)
}

async fn retire_slots(conn: &mut PgConnection, node_id: Uuid, by: Attribution<'_>) -> Result<()> {
    for slot in slots::list(conn, node_id).await? {
        if slot.status != SlotStatus::Retired {
            let _ = slots::retire(conn, node_id, slot.id, by).await?;
        }
    }
    Ok(())
}

/// Takes a node out of service for good, with all its slots; [`Outcome::Unchanged`] when it was retired before. With
/// `never_used` only when nobody ever had anything of it. Notify [`outbox::TOPIC`] afterwards.
///
/// # Errors
/// As [`set_intent`]; [`Error::Conflict`] for a slot that is being wiped.
pub async fn retire(
    conn: &mut PgConnection,
    node_id: Uuid,
    by: Attribution<'_>,
    never_used: bool,
) -> Result<(NodePlacement, Outcome)> {
    lock::node(conn, node_id).await?;
    let before = get(conn, node_id).await?;
    let is_retired = before.admin_state == Intent::Retired.as_str();
    if never_used {
        let used: bool =
            sqlx::query_scalar("SELECT EXISTS (SELECT FROM claims WHERE node_id = $1)")
                .bind(node_id)
                .fetch_one(&mut *conn)
                .await?;
        if used {
            return Err(before.conflict("one that had tenants; retire it instead"));
        }
        if !is_retired && before.admin_state == Intent::Enabled.as_str() {
            // nobody has it, and under its lock nobody gets it
            become_locked(conn, node_id, Intent::Cordoned, by).await?;
        }
    }
    if is_retired {
        return Ok((before, Outcome::Unchanged));
    }
    set_intent(conn, node_id, Intent::Retired, by).await
}

/// Makes a slot unschedulable or schedulable. A free slot follows at once, a held one after its cleanup, and one that a
/// release before this one offered without a wipe after its first wipe (P2). Notify [`crate::workflows::TOPIC`] after the
/// commit.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for a retired slot, and for one that would become available on a node that is held as
/// bare metal.
pub async fn set_slot_admin_state(
    conn: &mut PgConnection,
    node_id: Uuid,
    slot_id: Uuid,
    disabled: bool,
    by: Attribution<'_>,
) -> Result<Slot> {
    let slot = slots::lock_one(conn, node_id, slot_id).await?;
    if slot.status == SlotStatus::Retired {
        return Err(slots::conflict(&slot));
    }
    let is_clean = slot.clean_generation == Some(slot.generation);
    // its disk may be the tenant's
    if !disabled
        && is_clean
        && slot.status == SlotStatus::Disabled
        && repair::has_bare_metal_tenant(conn, node_id).await?
    {
        return Err(Error::Conflict {
            what: "node",
            id: node_id,
            state: "held as bare metal".to_owned(),
        });
    }
    if slot.disabled != disabled {
        sqlx::query(
            "UPDATE slots SET admin_state = $2, admin_reason = $3, admin_by = $4, revision = revision + 1,
                    updated_at = greatest(clock_timestamp(), updated_at) WHERE id = $1",
        )
        .bind(slot_id)
        .bind(if disabled { "disabled" } else { "enabled" })
        .bind(by.reason)
        .bind(by.principal)
        .execute(&mut *conn)
        .await?;
    }
    if disabled {
        let _ = slots::transition(
            conn,
            &[slot_id],
            &[SlotStatus::Available],
            SlotStatus::Disabled,
            false,
        )
        .await?;
    } else if is_clean && !repair::wipe_at_enabling(conn, &slot).await? {
        let _ = slots::transition(
            conn,
            &[slot_id],
            &[SlotStatus::Disabled],
            SlotStatus::Available,
            false,
        )
        .await?;
    }
    slots::get(conn, node_id, slot_id).await
}
