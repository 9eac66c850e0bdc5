//! Approval: slots come into the ledger complete, one device each, and each is wiped before it is available.
use std::collections::BTreeMap;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Bindings, Intent, Slot, SlotClass, SlotStatus, StoredHealth, missing};
use crate::repair::{self, Origin};
use crate::{drift, lock, slots};

/// A slot an operator approved.
#[derive(Debug, Clone)]
pub struct Definition {
    /// Index on the node.
    pub slot_index: i32,
    pub class: SlotClass,
    /// Devices and addresses.
    pub bindings: Bindings,
    /// Path on the host of the record of how its disk was taken over; empty: it was raw.
    pub storage_transition_manifest: String,
}

/// The inspection of a host that slots are approved from.
#[derive(Debug, Clone, Default)]
pub struct Inspection {
    /// Host instance that was inspected; none: any.
    pub instance_id: Option<Uuid>,
    /// Generations of the node's slots before the inspection, by index. A slot not among them is unknown, or there was no such
    /// slot.
    pub generations: BTreeMap<i32, i64>,
}

/// Approves slots of a node, all or none, and starts the wipe of each in the same transaction: an inspection finds neither
/// partitions nor signatures on a disk that holds every byte of somebody's data, so a slot is in `cleanup` until the host has
/// wiped its disk and read it back (P2, A-132). A slot that exists with the same bindings and waits to be revalidated (after a
/// reinstall of its host, or a bare metal allocation) is wiped the same way; one that is approved already stays as it
/// is. Returns all slots of the node. Notify [`crate::workflows::TOPIC`] after the commit.
///
/// # Errors
/// [`Error::Invalid`] for an incomplete candidate or one that shares a device with another slot;
/// [`Error::NotFound`] for the node; [`Error::Conflict`] when the node is in use as bare metal; `DISCOVERY_STALE` when the node's instance is another by now, or when what is approved may
/// have had a tenant since (P2): the slot has another generation, or the ledger has no such slot and others of a node
/// that was allocated as bare metal have another one.
pub async fn approve(
    conn: &mut PgConnection,
    node_id: Uuid,
    look: &Inspection,
    definitions: &[Definition],
    origin: Origin<'_>,
    mut new_id: impl FnMut() -> Uuid,
) -> Result<Vec<Slot>> {
    lock::node(conn, node_id).await?;
    let (host_health, current, admin_state): (StoredHealth, Uuid, String) =
        sqlx::query_as("SELECT host_health, instance_id, admin_state FROM nodes WHERE id = $1")
            .bind(node_id)
            .fetch_one(&mut *conn)
            .await?;
    if admin_state == Intent::Retired.as_str() {
        return Err(Error::Conflict {
            what: "node",
            id: node_id,
            state: admin_state,
        });
    }
    if look
        .instance_id
        .is_some_and(|looked_at| looked_at != current)
    {
        return Err(stale(
            "The host was reinstalled after the discovery. Run another discovery.",
        ));
    }
    let has_tenant: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims WHERE node_id = $1 AND kind = 'node_exclusive' AND state <> 'released')",
    )
    .bind(node_id)
    .fetch_one(&mut *conn)
    .await?;
    let had_tenants = had_tenants_since(conn, node_id, look).await?;
    for definition in definitions {
        let seen = InspectedSlot {
            generation: look.generations.get(&definition.slot_index).copied(),
            has_tenant,
            had_tenants,
            origin,
        };
        approve_one(conn, node_id, definition, seen, host_health, &mut new_id).await?;
    }
    // of the moment of the approval, not of the inspection
    let _ = drift::compare_again(conn, node_id).await?;
    slots::list(conn, node_id).await
}

fn stale(message: impl Into<String>) -> Error {
    let code = Code::FailedPrecondition;
    gpuaas_common::Error::new(code, ErrorReason::DiscoveryStale, message).into()
}

fn stale_slot(definition: &Definition) -> Error {
    stale(format!(
        "Slot {} may have had a tenant after the discovery. Run another discovery.",
        definition.slot_index
    ))
}

/// Somebody may have had the bare-metal node since the inspection, with the disks of slots that are not in the ledger.
async fn had_tenants_since(
    conn: &mut PgConnection,
    node_id: Uuid,
    look: &Inspection,
) -> Result<bool> {
    let was_allocated: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM claims WHERE node_id = $1 AND kind = 'node_exclusive')",
    )
    .bind(node_id)
    .fetch_one(&mut *conn)
    .await?;
    let slots = if was_allocated {
        slots::list(conn, node_id).await?
    } else {
        Vec::new()
    };
    let seen = |slot: &Slot| {
        slot.status == SlotStatus::Retired
            || look.generations.get(&slot.slot_index) == Some(&slot.generation)
    };
    Ok(!slots.iter().all(seen))
}

/// What an inspection reports of one slot.
#[derive(Clone, Copy)]
struct InspectedSlot<'a> {
    /// Before the inspection.
    generation: Option<i64>,
    /// The node is in use as bare metal: its disks are the tenant's.
    has_tenant: bool,
    /// The node may have had a tenant since.
    had_tenants: bool,
    /// Who requested it.
    origin: Origin<'a>,
}

async fn approve_one(
    conn: &mut PgConnection,
    node_id: Uuid,
    definition: &Definition,
    seen: InspectedSlot<'_>,
    host_health: StoredHealth,
    new_id: &mut impl FnMut() -> Uuid,
) -> Result<()> {
    let lacking = missing(definition.class, &definition.bindings);
    if !lacking.is_empty() {
        return Err(Error::Invalid {
            reason: ErrorReason::CandidateIncomplete,
            field: "slots",
            rule: format!(
                "slot {} is incomplete: {}",
                definition.slot_index,
                lacking.join(", ")
            ),
        });
    }
    let existing = slots::lock_at(conn, node_id, definition.slot_index).await?;
    if existing.is_none() && is_destroyed(conn, node_id, &definition.bindings.nvme_device).await? {
        // its slot stays retired: what was attested to be destroyed is not allocated, whatever a host still shows
        return Ok(());
    }
    let slot_id = match existing {
        Some(slot) if slot.class != definition.class || slot.bindings != definition.bindings => {
            return Err(Error::Invalid {
                reason: ErrorReason::AlreadyExists,
                field: "slots",
                rule: format!("slot {} exists with other bindings", definition.slot_index),
            });
        }
        Some(slot)
            if slot.status != SlotStatus::Disabled
                || slot.clean_generation == Some(slot.generation) =>
        {
            return Ok(());
        }
        _ if seen.has_tenant => {
            return Err(Error::Conflict {
                what: "node",
                id: node_id,
                state: "in use as bare metal".to_owned(),
            });
        }
        Some(slot) if seen.generation != Some(slot.generation) => {
            return Err(stale_slot(definition));
        }
        Some(slot) => slot.id,
        None if seen.had_tenants => return Err(stale_slot(definition)),
        None => insert(conn, node_id, definition, host_health, new_id()).await?,
    };
    repair::first_wipe(conn, slot_id, seen.origin).await
}

/// Whether the disk was a slot's that was retired because it was destroyed.
async fn is_destroyed(conn: &mut PgConnection, node_id: Uuid, disk: &str) -> Result<bool> {
    Ok(sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM slots s JOIN clean_evidence e ON e.slot_id = s.id AND e.kind = 'destroyed'
                         WHERE s.node_id = $1 AND s.nvme_device = $2 AND s.retired)",
    )
    .bind(node_id)
    .bind(disk)
    .fetch_one(conn)
    .await?)
}

async fn insert(
    conn: &mut PgConnection,
    node_id: Uuid,
    definition: &Definition,
    host_health: StoredHealth,
    id: Uuid,
) -> Result<Uuid> {
    let bindings = &definition.bindings;
    sqlx::query(
        "INSERT INTO slots (id, node_id, slot_index, class, host_health, gpu_pci_address, gpu_module_id, numa_node,
                            nvme_device, storage_identity_kind, nvme_bytes, management_mac, private_ip, fabric_device,
                            fabric_vf_pci_address, fabric_claim_mode, destructive_wipe_policy,
                            storage_transition_manifest)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)",
    )
    .bind(id)
    .bind(node_id)
    .bind(definition.slot_index)
    .bind(definition.class.as_str())
    .bind(host_health)
    .bind(&bindings.gpu_pci_address)
    .bind(bindings.gpu_module_id)
    .bind(bindings.numa_node)
    .bind(&bindings.nvme_device)
    .bind(&bindings.storage_identity_kind)
    .bind(bindings.nvme_bytes)
    .bind(&bindings.management_mac)
    .bind(&bindings.private_ip)
    .bind(&bindings.fabric_device)
    .bind(&bindings.fabric_vf_pci_address)
    .bind(&bindings.fabric_claim_mode)
    .bind(&bindings.destructive_wipe_policy)
    .bind(&definition.storage_transition_manifest)
    .execute(conn)
    .await
    .map_err(|error| refused_definition(error, definition.slot_index))?;
    Ok(id)
}

/// A definition the schema refuses, reported as a broken rule of the request.
fn refused_definition(error: sqlx::Error, slot_index: i32) -> Error {
    let Some(database) = error.as_database_error() else {
        return error.into();
    };
    let constraint = database.constraint().unwrap_or_default().to_owned();
    match database.code().as_deref() {
        Some("23505") => Error::Invalid {
            reason: ErrorReason::CandidateBlocked,
            field: "slots",
            rule: format!(
                "slot {slot_index} shares a device or address with another slot ({constraint})"
            ),
        },
        Some("23514" | "22P02") => Error::Invalid {
            reason: ErrorReason::CandidateIncomplete,
            field: "slots",
            rule: format!("slot {slot_index} has a malformed binding ({constraint})"),
        },
        _ => error.into(),
    }
}
