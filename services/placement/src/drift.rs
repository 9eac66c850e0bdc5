//! Drift (D-80): every report of a host is compared with what was approved for its slots, under the lock of the node.
//!
//! A slot that drifts is not healthier than degraded, so a free one is not offered from then on; an occupied one is marked, and
//! so is its allocation, by the condition `device_drift`. Drift that ends, ends by itself. The exception is a free slot's
//! disk:
//!
//! - Somebody used or wrote to it: the slot goes to `cleanup_blocked`, and only a repair, with its wipe, brings it back. It
//!   is an operator's decision, since what is on the disk may be somebody's data.
//! - It was out of sight and is back, empty and unused: it is wiped before it is offered again, by the workflow that also
//!   does the first wipe.
//! - The report was made before the last wipe: what it says of the disk keeps the slot from being offered until the next
//!   report, and no longer, unless that one cannot prove the wipe either. Then it takes a repair as above.
//!
//! The disk of a slot that is reserved must not be in doubt at any time before the VM gets it: such a slot goes to
//! `cleanup_blocked`, and its launch fails before its host hears of it.
//!
//! The host of a bare metal tenant is the tenant's, and nothing of it is compared.
use std::collections::{BTreeMap, BTreeSet};

use gpuaas_common::drift::{self, Approved, Content, Drift, Kind};
use gpuaas_proto::gpuaas::agent::v1::HostDevices;
use gpuaas_proto::gpuaas::common::v1::{SlotBindings, SlotDrift};
use jiff_sqlx::Timestamp;
use prost::Message as _;
use serde_json::json;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Scope, Slot, SlotStatus};
use crate::outbox::{self, NewEvent};
use crate::repair::{self, Origin};
use crate::timeline::{self, State};
use crate::{allocations, lock, slots};

pub use crate::model::CurrentDrift;

/// Name of the condition, and of the event and timeline entry when it begins or becomes another.
pub const DEVICE_DRIFT: &str = "device_drift";
/// Name of the event and timeline entry when it ends.
pub const DEVICE_DRIFT_ENDED: &str = "device_drift_ended";
const ENDED: &str = "The devices of the allocation are as they were approved again.";

/// What came of a comparison.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Noted {
    /// Slots whose drift is another than before.
    pub changed: usize,
    /// Wipes that were started: notify [`crate::workflows::TOPIC`] after the commit.
    pub wipes: usize,
}

/// Compares the slots of a node with what its host has now, and stores that for slots that are approved later. None: the
/// host does not report it, and nothing is known of drift.
///
/// # Errors
/// [`Error::NotFound`] for the node; those of the database.
pub async fn note(
    conn: &mut PgConnection,
    node_id: Uuid,
    devices: Option<&HostDevices>,
) -> Result<Noted> {
    lock::node(conn, node_id).await?;
    sqlx::query(
        "UPDATE nodes SET host_devices = $2 WHERE id = $1 AND host_devices IS DISTINCT FROM $2",
    )
    .bind(node_id)
    .bind(devices.map(prost::Message::encode_to_vec))
    .execute(&mut *conn)
    .await?;
    judge(conn, node_id, devices).await
}

/// Compares the slots of a locked node with what its host reported last.
pub(crate) async fn compare_again(conn: &mut PgConnection, node_id: Uuid) -> Result<Noted> {
    let stored: Option<Vec<u8>> =
        sqlx::query_scalar("SELECT host_devices FROM nodes WHERE id = $1")
            .bind(node_id)
            .fetch_one(&mut *conn)
            .await?;
    let devices = stored
        .map(|bytes| HostDevices::decode(bytes.as_slice()))
        .transpose()
        .map_err(gpuaas_common::Error::internal)
        .map_err(Error::from)?;
    judge(conn, node_id, devices.as_ref()).await
}

async fn judge(
    conn: &mut PgConnection,
    node_id: Uuid,
    devices: Option<&HostDevices>,
) -> Result<Noted> {
    // what differed stands until a report says otherwise: a disk that was out of sight is wiped when it is back
    let Some(devices) = devices else {
        return Ok(Noted::default());
    };
    let is_a_tenants: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims WHERE node_id = $1 AND kind = 'node_exclusive' AND state <> 'released')",
    )
    .bind(node_id)
    .fetch_one(&mut *conn)
    .await?;
    if is_a_tenants {
        return Ok(Noted::default());
    }
    let facts = Facts::read(conn, node_id, devices).await?;
    let mut noted = Noted::default();
    for slot in slots::lock_all(conn, node_id).await? {
        let found = facts.compare(&slot, devices);
        let since_wipe = facts.proves_wipe(&slot, devices);
        noted.changed += usize::from(note_slot(conn, &slot, &found).await?);
        noted.wipes += usize::from(handle_disk_drift(conn, &slot, &found, since_wipe).await?);
    }
    if noted.changed > 0 {
        note_allocations(conn, node_id).await?;
    }
    Ok(noted)
}

/// What a comparison needs beside the slots.
struct Facts {
    /// Allocations that are seen on the host, by a slot that they have or had.
    allocations: BTreeMap<Uuid, BTreeSet<String>>,
    /// Generation of each slot's last wipe.
    wiped: BTreeMap<Uuid, i64>,
}

impl Facts {
    async fn read(conn: &mut PgConnection, node_id: Uuid, devices: &HostDevices) -> Result<Self> {
        let seen: Vec<Uuid> = devices
            .addresses
            .iter()
            .filter_map(|one| one.allocation_id.parse().ok())
            .collect();
        let pairs: Vec<(Uuid, Uuid)> = sqlx::query_as(
            "SELECT DISTINCT slot_id, allocation_id FROM claims
              WHERE node_id = $1 AND slot_id IS NOT NULL AND allocation_id = ANY ($2)",
        )
        .bind(node_id)
        .bind(seen)
        .fetch_all(&mut *conn)
        .await?;
        let mut allocations: BTreeMap<Uuid, BTreeSet<String>> = BTreeMap::new();
        for (slot, allocation) in pairs {
            allocations
                .entry(slot)
                .or_default()
                .insert(allocation.to_string());
        }
        let wiped: Vec<(Uuid, i64)> = sqlx::query_as(
            "SELECT s.id, last.generation FROM slots s CROSS JOIN LATERAL (
                 SELECT e.generation FROM clean_evidence e WHERE e.slot_id = s.id AND e.kind = 'wiped'
                  ORDER BY e.generation DESC LIMIT 1) last
              WHERE s.node_id = $1",
        )
        .bind(node_id)
        .fetch_all(&mut *conn)
        .await?;
        Ok(Self {
            allocations,
            wiped: wiped.into_iter().collect(),
        })
    }

    fn compare(&self, slot: &Slot, devices: &HostDevices) -> Vec<Drift> {
        let bindings: SlotBindings = slot.bindings.clone().into();
        let (id, none) = (slot.id.to_string(), BTreeSet::new());
        let content = match self.wiped.get(&slot.id) {
            Some(generation) if is_untouched(slot) => Content::EmptySince {
                slot_id: &id,
                generation: generation.unsigned_abs(),
            },
            _ => Content::Ignored,
        };
        let approved = Approved {
            bindings: &bindings,
            content,
            allocations: self.allocations.get(&slot.id).unwrap_or(&none),
        };
        let mut found = drift::compare(&approved, devices);
        if let Some(allocation) = slot.allocation_id {
            found.extend(drift::rules_missing(
                &allocation.to_string(),
                &bindings,
                devices,
            ));
        }
        found
    }

    /// Whether what a host says of the slot's disk was observed after its last wipe.
    fn proves_wipe(&self, slot: &Slot, devices: &HostDevices) -> bool {
        let Some(wiped) = self.wiped.get(&slot.id) else {
            return true;
        };
        let id = slot.id.to_string();
        devices.disks.iter().any(|disk| {
            disk.identity == slot.bindings.nvme_device
                && disk.slot_id == id
                && disk.proven_generation >= wiped.unsigned_abs()
        })
    }
}

/// Nobody has written to the disk since it was proven empty: nobody has the slot, or no host has heard of who has it.
fn is_untouched(slot: &Slot) -> bool {
    is_clean(slot) || slot.status == SlotStatus::Reserved
}

/// Nobody has the slot, and its disk is proven empty.
fn is_clean(slot: &Slot) -> bool {
    matches!(slot.status, SlotStatus::Available | SlotStatus::Disabled)
        && slot.clean_generation == Some(slot.generation)
}

/// Stores a slot's drift. Returns whether it is another than before.
async fn note_slot(conn: &mut PgConnection, slot: &Slot, found: &[Drift]) -> Result<bool> {
    let before = &slot.drift.0;
    if before.iter().map(|known| &known.drift).eq(found) {
        return Ok(false);
    }
    let now: jiff_sqlx::Timestamp = sqlx::query_scalar("SELECT clock_timestamp()")
        .fetch_one(&mut *conn)
        .await?;
    let current: Vec<CurrentDrift> = found
        .iter()
        .map(|drift| {
            let same = |one: &&CurrentDrift| {
                (one.drift.kind, &one.drift.field) == (drift.kind, &drift.field)
            };
            let earlier = before.iter().find(same);
            CurrentDrift {
                drift: drift.clone(),
                since: earlier.map_or(now.to_jiff(), |one| one.since),
            }
        })
        .collect();
    let (revision, at): (i64, Timestamp) = sqlx::query_as(
        "UPDATE slots s SET drift = $2, revision = s.revision + 1,
                host_health = CASE WHEN $3 THEN greatest(n.host_health, 'degraded') ELSE n.host_health END,
                updated_at = greatest(clock_timestamp(), s.updated_at)
           FROM nodes n WHERE s.id = $1 AND n.id = s.node_id RETURNING s.revision, s.updated_at",
    )
    .bind(slot.id)
    .bind(Json(&current))
    .bind(!found.is_empty())
    .fetch_one(&mut *conn)
    .await?;
    let kind = if found.is_empty() {
        "slot.drift_ended"
    } else {
        "slot.drift"
    };
    let reported: Vec<SlotDrift> = current.iter().map(CurrentDrift::to_proto).collect();
    let reported: Vec<serde_json::Value> = reported
        .iter()
        .map(|one| {
            json!({
                "kind": one.kind, "field": one.field, "approved": one.approved, "observed": one.observed,
                "message": one.message, "remediation": one.remediation,
            })
        })
        .collect();
    let event = NewEvent {
        kind,
        aggregate_id: slot.id,
        revision,
        at,
        project_id: None,
        data: json!({
            "node_id": slot.node_id, "slot_index": slot.slot_index, "slot_class": slot.class.to_string(),
            "generation": slot.generation.to_string(), "allocation_id": slot.allocation_id, "drift": reported,
        }),
        traceparent: "",
    };
    outbox::append(conn, event).await?;
    Ok(true)
}

/// What operators read of a slot whose disk was away for a while.
const WAS_AWAY: &str =
    "The disk was out of sight while the slot was reserved. Repair the slot: its disk is wiped.";

/// Takes a slot whose disk is in doubt out of service, and wipes one that is back. Returns whether a wipe was started.
/// `since_wipe`: the disk was observed after the last wipe of its slot.
async fn handle_disk_drift(
    conn: &mut PgConnection,
    slot: &Slot,
    found: &[Drift],
    since_wipe: bool,
) -> Result<bool> {
    if !is_untouched(slot) {
        return Ok(false);
    }
    let now = |test: fn(Kind) -> bool| found.iter().find(|one| test(one.kind));
    let before = |test: fn(Kind) -> bool| {
        let mut known = slot.drift.iter().map(|one| &one.drift);
        known.find(|one| test(one.kind))
    };
    let is_back = before(out_of_sight).is_some() && now(out_of_sight).is_none();
    let doubt = match (now(Kind::needs_repair), before(Kind::needs_repair)) {
        (Some(doubt), _) if since_wipe || before(out_of_sight).is_some() => Some(doubt),
        // it has ended, and the host cannot prove that the wipe came after it
        (None, Some(doubt)) if !since_wipe => Some(doubt),
        _ => None,
    };
    if slot.status == SlotStatus::Reserved {
        let why = match doubt.or(now(out_of_sight)) {
            Some(drift) => drift.message(),
            None if is_back => WAS_AWAY.to_owned(),
            None => return Ok(false),
        };
        block_reserved(conn, slot, &why).await?;
        return Ok(false);
    }
    let free = [SlotStatus::Available, SlotStatus::Disabled];
    if let Some(doubt) = doubt {
        let _ = slots::block(conn, &[slot.id], &free, &doubt.message()).await?;
        return Ok(false);
    }
    if !is_back {
        return Ok(false);
    }
    let _ = slots::transition(conn, &[slot.id], &free, SlotStatus::Disabled, true).await?;
    repair::first_wipe(conn, slot.id, Origin::default()).await?;
    Ok(true)
}

fn out_of_sight(kind: Kind) -> bool {
    kind.needs_wipe() && !kind.needs_repair()
}

/// Nobody gets a slot whose disk was in doubt while it was reserved: its claim waits for a repair, and its launch fails.
async fn block_reserved(conn: &mut PgConnection, slot: &Slot, why: &str) -> Result<()> {
    let reserved = [SlotStatus::Reserved];
    let _ = slots::block(conn, &[slot.id], &reserved, why).await?;
    sqlx::query(
        "UPDATE claims SET state = 'cleanup_blocked', updated_at = greatest(clock_timestamp(), updated_at)
          WHERE slot_id = $1 AND state = 'reserved'",
    )
    .bind(slot.id)
    .execute(conn)
    .await?;
    Ok(())
}

/// An allocation with the drift of its slots.
#[derive(sqlx::FromRow)]
struct Marked {
    id: Uuid,
    device_drift: String,
    drift: Json<Vec<CurrentDrift>>,
}

/// Notes the condition of every allocation on a locked node, each with its event and its timeline entry.
async fn note_allocations(conn: &mut PgConnection, node_id: Uuid) -> Result<()> {
    let all: Vec<Marked> = sqlx::query_as(
        "SELECT a.id, a.device_drift,
                coalesce(jsonb_agg(d.one) FILTER (WHERE d.one IS NOT NULL), '[]') AS drift
           FROM allocations a
                JOIN claims c ON c.allocation_id = a.id AND c.state <> 'released'
                JOIN slots s ON s.id = c.slot_id
                LEFT JOIN LATERAL jsonb_array_elements(s.drift) AS d (one) ON true
          WHERE a.node_id = $1 AND a.state IN ('provisioning', 'active', 'releasing')
          GROUP BY a.id ORDER BY a.id",
    )
    .bind(node_id)
    .fetch_all(&mut *conn)
    .await?;
    for marked in all {
        let current = &marked.drift.0;
        let text = if current.is_empty() {
            String::new()
        } else {
            drift::for_owner(current.iter().map(|one| &one.drift))
        };
        if text != marked.device_drift {
            note_allocation(conn, marked.id, &text).await?;
        }
    }
    Ok(())
}

async fn note_allocation(conn: &mut PgConnection, id: Uuid, text: &str) -> Result<()> {
    allocations::lock(conn, id).await?;
    sqlx::query(
        "UPDATE allocations SET device_drift = $2,
                device_drift_since = CASE WHEN $2 <> '' THEN coalesce(device_drift_since, clock_timestamp()) END,
                revision = revision + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(id)
    .bind(text)
    .execute(&mut *conn)
    .await?;
    let (kind, reported) = if text.is_empty() {
        (DEVICE_DRIFT_ENDED, ENDED)
    } else {
        (DEVICE_DRIFT, text)
    };
    timeline::append(conn, id, kind, State::Done, reported).await?;
    let allocation = allocations::get(conn, Scope::Platform, id).await?;
    outbox::append_allocation(conn, &format!("allocation.{kind}"), &allocation).await
}

/// How many slots drift.
#[derive(Debug, Clone, PartialEq, Eq, sqlx::FromRow)]
pub struct Count {
    /// Kind of drift.
    pub kind: String,
    /// Somebody has the slot.
    pub occupied: bool,
    pub slots: i64,
}

/// How many slots drift now, by kind, free and occupied.
///
/// # Errors
/// Those of the database.
pub async fn counts(conn: &mut PgConnection) -> Result<Vec<Count>> {
    let rows = sqlx::query_as(
        "SELECT d.one ->> 'kind' AS kind,
                EXISTS (SELECT FROM claims c WHERE c.slot_id = s.id AND c.state <> 'released') AS occupied,
                count(DISTINCT s.id) AS slots
           FROM slots s CROSS JOIN LATERAL jsonb_array_elements(s.drift) AS d (one)
          WHERE s.drift <> '[]' AND s.status <> 'retired' GROUP BY 1, 2 ORDER BY 1, 2",
    )
    .fetch_all(conn)
    .await?;
    Ok(rows)
}
