//! Loads the input of the placement decision.
use std::collections::HashMap;

use gpuaas_placement_decision::{
    BaremetalCandidate, CandidateNode, CandidateSlot, ImageKey, ReservedFor,
};
use sqlx::types::Json;
use sqlx::{FromRow as _, PgConnection, Row as _};
use uuid::Uuid;

use crate::error::Result;
use crate::model::{Bindings, Health, SlotClass, SlotStatus, StoredHealth, missing};

#[derive(sqlx::FromRow)]
struct NodeRow {
    #[sqlx(rename = "node")]
    id: Uuid,
    region_code: String,
    admin_state: String,
    schedulable: bool,
    hugepages_1g_free: i32,
    hugepages_1g_owed: i64,
    max_vms: i32,
    legal_groups: Json<Vec<Vec<u32>>>,
    version: String,
    image_keys: Vec<i64>,
    live_vms: i64,
    exclusively_held: bool,
}

#[derive(sqlx::FromRow)]
struct SlotRow {
    id: Uuid,
    node_id: Uuid,
    slot_index: i32,
    #[sqlx(try_from = "String")]
    class: SlotClass,
    #[sqlx(try_from = "String")]
    status: SlotStatus,
    #[sqlx(try_from = "StoredHealth")]
    health_state: Health,
    held: bool,
    reserved_for: Option<Uuid>,
    reserved_hugepages_1g: Option<i32>,
    #[sqlx(flatten)]
    bindings: Bindings,
}

/// Which transactions last changed what placement sees of a node `n`: while this is the same, so is all of that. Each part
/// is compared by itself, for a part may be changed last by a transaction that began first.
macro_rules! version {
    () => {
        "(ARRAY[n.changed_by] || ARRAY(SELECT c.changed_by FROM node_slot_changes c WHERE c.node_id = n.id))::text"
    };
}
pub(crate) use version;

/// Hugepages of 1 GiB that live claims on a node `n` need of those that it reported free: of every allocation whose VM it does
/// not say had its own by then, because the VM does not run yet, or is stopped and may be started again (B-11).
macro_rules! hugepages_owed {
    () => {
        "CASE WHEN n.hugepages_1g_free = 0 THEN 0 ELSE
           (SELECT coalesce(sum(need.pages), 0)::bigint FROM
              (SELECT ceil(sum((c.snapshot -> 'profile' ->> 'memory_mib_per_gpu')::numeric) / 1024) AS pages FROM claims c
                WHERE c.node_id = n.id AND c.kind = 'slot' AND c.state <> 'released'
                  AND c.allocation_id <> ALL (n.hugepages_allocated_to) AND (c.snapshot -> 'profile' ->> 'hugepages')::boolean
                GROUP BY c.allocation_id) need) END"
    };
}

/// Columns of a node `n` except whether it is held.
macro_rules! node_columns {
    () => {
        concat!(
            "n.id AS node, n.region_code, n.admin_state, n.schedulable, n.hugepages_1g_free, n.max_vms, n.legal_groups,
         n.image_keys, ",
            hugepages_owed!(),
            " AS hugepages_1g_owed, ",
            version!(),
            " AS version,
         (SELECT count(DISTINCT c.allocation_id) FROM claims c
           WHERE c.node_id = n.id AND c.kind = 'slot' AND c.state NOT IN ('released', 'cleanup_blocked')) AS live_vms"
        )
    };
}

/// Columns of a slot `s`, which `h` may hold for a project, but whether it is claimed.
macro_rules! slot_columns {
    () => {
        "s.id, s.node_id, s.slot_index, s.class, s.status, s.health_state, s.gpu_pci_address, s.gpu_module_id,
         s.numa_node, s.nvme_device, s.storage_identity_kind, s.nvme_bytes, s.management_mac, s.private_ip,
         s.fabric_device, s.fabric_vf_pci_address, s.fabric_claim_mode, s.destructive_wipe_policy,
         h.project_id AS reserved_for, h.hugepages_1g AS reserved_hugepages_1g"
    };
}

/// Few nodes with their slots in one statement, a row per slot. What belongs to a node is read by that node's key,
/// whatever the statistics are: `LATERAL` with `OFFSET 0` leaves the planner no join to choose, and there is no `EXISTS` to
/// hash. A join of the tables was planned well or badly by the moment of the last ANALYZE, and cached for as long as the
/// connection. `OFFSET 0` also prevents counting per slot what is counted per node.
macro_rules! few {
    () => {
        concat!(
            "SELECT n.*, s.* FROM (SELECT ",
            node_columns!(),
            ", (SELECT count(*) FROM claims c
                 WHERE c.node_id = n.id AND c.kind = 'node_exclusive' AND c.state <> 'released') > 0 AS exclusively_held
                       FROM nodes n WHERE n.mode = 'slice' AND n.id = ANY ($1) OFFSET 0) n
               LEFT JOIN LATERAL (SELECT ",
            slot_columns!(),
            ", (SELECT count(*) FROM claims c WHERE c.slot_id = s.id AND c.state <> 'released') > 0 AS held
                       FROM slots s
                       LEFT JOIN LATERAL (SELECT r.slot_id, r.project_id, r.hugepages_1g FROM reserved_slots r
                                           WHERE r.node_id = n.node OFFSET 0) h ON h.slot_id = s.id
                      WHERE s.node_id = n.node AND s.status <> 'retired' OFFSET 0) s ON true
              ORDER BY n.node, s.slot_index"
        )
    };
}

/// More nodes than these are read as if they were all.
const SOME: usize = 500;

/// Those of the nodes that are slice nodes, by id, with their regions.
pub(crate) async fn of_all_regions(
    conn: &mut PgConnection,
    ids: &[Uuid],
) -> Result<Vec<(String, CandidateNode)>> {
    if ids.len() <= SOME {
        return few(conn, ids).await;
    }
    let nodes: Vec<NodeRow> = sqlx::query_as(concat!(
        "SELECT ",
        node_columns!(),
        ", EXISTS (SELECT FROM claims c
                    WHERE c.node_id = n.id AND c.kind = 'node_exclusive' AND c.state <> 'released') AS exclusively_held
           FROM nodes n WHERE n.mode = 'slice' AND n.id = ANY ($1) ORDER BY n.id"
    ))
    .bind(ids)
    .fetch_all(&mut *conn)
    .await?;
    let mut by_node = slots_of(
        conn,
        nodes.iter().map(|node| node.id).collect(),
        Extent::All,
    )
    .await?;
    Ok(nodes
        .into_iter()
        .map(|node| {
            let slots = by_node.remove(&node.id).unwrap_or_default();
            (node.region_code.clone(), node.with(slots))
        })
        .collect())
}

/// Those of these nodes that are slice nodes of a region, by id, with their slots (B-35).
///
/// # Errors
/// Those of the database.
pub async fn load(
    conn: &mut PgConnection,
    region_code: &str,
    ids: &[Uuid],
) -> Result<Vec<CandidateNode>> {
    let mut nodes = few(conn, ids).await?;
    nodes.retain(|(region, _)| region == region_code);
    Ok(nodes.into_iter().map(|(_, node)| node).collect())
}

/// These nodes by id, with their regions.
async fn few(conn: &mut PgConnection, ids: &[Uuid]) -> Result<Vec<(String, CandidateNode)>> {
    let rows = sqlx::query(few!()).bind(ids).fetch_all(conn).await?;
    let mut nodes: Vec<(String, CandidateNode)> = Vec::new();
    for row in &rows {
        let id: Uuid = row.try_get("node")?;
        if nodes.last().is_none_or(|(_, node)| node.id != id) {
            let node = NodeRow::from_row(row)?;
            nodes.push((node.region_code.clone(), node.with(Vec::new())));
        }
        // a node without slots has one row without one
        if row.try_get::<Option<Uuid>, _>("id")?.is_some() {
            let slot = SlotRow::from_row(row)?;
            if let Some((_, node)) = nodes.last_mut() {
                node.slots.push(slot.into());
            }
        }
    }
    Ok(nodes)
}

impl NodeRow {
    fn with(self, slots: Vec<CandidateSlot>) -> CandidateNode {
        CandidateNode {
            slots,
            id: self.id,
            enabled: self.admin_state == "enabled",
            schedulable: self.schedulable,
            hugepages_1g_free: u32::try_from(
                i64::from(self.hugepages_1g_free) - self.hugepages_1g_owed,
            )
            .unwrap_or_default(),
            max_vms: self.max_vms.unsigned_abs(),
            live_vms: u32::try_from(self.live_vms).unwrap_or(u32::MAX),
            exclusively_held: self.exclusively_held,
            images: self
                .image_keys
                .into_iter()
                .map(ImageKey::from_bits)
                .collect(),
            legal_groups: self.legal_groups.0,
            version: self.version.into(),
        }
    }
}

#[derive(sqlx::FromRow)]
struct BaremetalRow {
    id: Uuid,
    mode: String,
    admin_state: String,
    schedulable: bool,
    held: bool,
}

/// `$held` is the expression for whether a live claim of the node exists.
macro_rules! baremetal {
    ($held:literal, $which:literal) => {
        concat!(
            "SELECT n.id, n.mode, n.admin_state, n.schedulable, ",
            $held,
            " AS held FROM nodes n WHERE n.region_code = $1",
            $which,
            " ORDER BY n.id"
        )
    };
}

/// All nodes of a region as bare metal, in any mode; only `node_id` when given. One node is read by a
/// statement of its own: a plan that serves both would read the region for it.
pub(crate) async fn load_baremetal(
    conn: &mut PgConnection,
    region_code: &str,
    node_id: Option<Uuid>,
) -> Result<Vec<BaremetalCandidate>> {
    let (statement, extent) = match node_id {
        None => (
            baremetal!(
                "EXISTS (SELECT FROM claims c WHERE c.node_id = n.id AND c.state <> 'released')",
                ""
            ),
            Extent::All,
        ),
        Some(_) => (
            baremetal!(
                "(SELECT count(*) FROM claims c WHERE c.node_id = n.id AND c.state <> 'released') > 0",
                " AND n.id = $2"
            ),
            Extent::Some,
        ),
    };
    let mut query = sqlx::query_as(statement).bind(region_code);
    if let Some(node_id) = node_id {
        query = query.bind(node_id);
    }
    let nodes: Vec<BaremetalRow> = query.fetch_all(&mut *conn).await?;
    let mut by_node = slots_of(conn, nodes.iter().map(|node| node.id).collect(), extent).await?;
    Ok(nodes
        .into_iter()
        .map(|node| BaremetalCandidate {
            slots: by_node.remove(&node.id).unwrap_or_default(),
            id: node.id,
            baremetal: node.mode == "baremetal",
            enabled: node.admin_state == "enabled",
            schedulable: node.schedulable,
            held: node.held,
        })
        .collect())
}

macro_rules! slots {
    ($held:literal) => {
        concat!(
            "SELECT ",
            slot_columns!(),
            ", ",
            $held,
            " AS held FROM slots s LEFT JOIN reserved_slots h ON h.slot_id = s.id
              WHERE s.node_id = ANY ($1) AND s.status <> 'retired' ORDER BY s.node_id, s.slot_index"
        )
    };
}

/// How much of a region is read: it decides whether claims are better hashed or found by key.
#[derive(Clone, Copy)]
enum Extent {
    All,
    Some,
}

/// The slots of nodes but retired ones, by index.
async fn slots_of(
    conn: &mut PgConnection,
    ids: Vec<Uuid>,
    extent: Extent,
) -> Result<HashMap<Uuid, Vec<CandidateSlot>>> {
    let statement = match extent {
        Extent::All => {
            slots!("EXISTS (SELECT FROM claims c WHERE c.slot_id = s.id AND c.state <> 'released')")
        }
        Extent::Some => slots!(
            "(SELECT count(*) FROM claims c WHERE c.slot_id = s.id AND c.state <> 'released') > 0"
        ),
    };
    let slots: Vec<SlotRow> = sqlx::query_as(statement).bind(ids).fetch_all(conn).await?;
    let mut by_node: HashMap<Uuid, Vec<CandidateSlot>> = HashMap::new();
    for row in slots {
        by_node.entry(row.node_id).or_default().push(row.into());
    }
    Ok(by_node)
}

impl From<SlotRow> for CandidateSlot {
    fn from(row: SlotRow) -> Self {
        Self {
            id: row.id,
            index: row.slot_index,
            class: row.class,
            status: row.status,
            health: row.health_state,
            held: row.held,
            // checked again here, so that a row the approval never saw is not allocated (B-44, INC-40)
            complete: missing(row.class, &row.bindings).is_empty(),
            module_id: row
                .bindings
                .gpu_module_id
                .and_then(|id| u32::try_from(id).ok()),
            numa_node: row.bindings.numa_node,
            own_fabric_vf: row.bindings.fabric_claim_mode == "per_slot_vf"
                && !row.bindings.fabric_vf_pci_address.is_empty(),
            fabric_device: row.bindings.fabric_device,
            reserved: row.reserved_for.map(|project_id| ReservedFor {
                project_id,
                hugepages_1g: row.reserved_hugepages_1g.unwrap_or_default().unsigned_abs(),
            }),
        }
    }
}
