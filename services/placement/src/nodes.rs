//! The ledger's own row per node.
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::{Health, Intent, SlotStatus, StoredHealth};
use crate::{lock, lost, slots};

/// A node as inventory hands it over.
#[derive(Debug, Clone)]
pub struct NodeSpec {
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    pub region_code: String,
    /// "slice" or "baremetal".
    pub mode: String,
    /// Where the agent answers.
    pub agent_address: String,
    /// Current host instance; nil before the first one has enrolled.
    pub instance_id: Uuid,
    /// The host is ready and nothing forbids placement.
    pub schedulable: bool,
    /// Why not.
    pub not_schedulable_reason: String,
    /// Free hugepages of 1 GiB.
    pub hugepages_1g_free: i32,
    /// 0: no limit.
    pub max_vms: i32,
    /// Sets of GPU module ids that may be allocated together.
    pub legal_groups: Vec<Vec<u32>>,
    /// Emulated.
    pub lab: bool,
    /// Images verified in the host's cache: digests, "sha256:…", in order.
    pub image_digests: Vec<String>,
    /// Allocations whose VM had its hugepages when the free ones were counted, in order.
    pub hugepages_allocated_to: Vec<Uuid>,
    /// Health of the host; every slot of it is at most this healthy.
    pub host_health: Health,
    /// The host was installed anew since the last call.
    pub new_instance: bool,
    /// Last proof of life of a host that is silent; none: it is heard.
    pub host_lost_since: Option<Timestamp>,
    /// Rack or failure domain, as an operator named it; empty: unknown.
    pub rack: String,
}

/// A node as stored.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Node {
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    pub region_code: String,
    /// "slice" or "baremetal": what its live claims make of it.
    pub mode: String,
    /// The mode that inventory desires; an empty node is in it.
    pub intended_mode: String,
    /// "enabled", "cordoned" or "draining".
    pub admin_state: String,
    /// Grows with every change.
    pub generation: i64,
    /// Where the agent answers.
    pub agent_address: String,
    /// Current host instance; nil before the first one has enrolled.
    pub instance_id: Uuid,
    /// The host is ready and nothing forbids placement.
    pub schedulable: bool,
    /// Why not.
    pub not_schedulable_reason: String,
    /// Free hugepages of 1 GiB.
    pub hugepages_1g_free: i32,
    /// 0: no limit.
    pub max_vms: i32,
    /// Sets of GPU module ids that may be allocated together.
    pub legal_groups: Json<Vec<Vec<u32>>>,
    /// Emulated.
    pub lab: bool,
    /// Images verified in the host's cache: digests, "sha256:…".
    pub image_digests: Vec<String>,
    /// Allocations whose VM had its hugepages when the free ones were counted.
    pub hugepages_allocated_to: Vec<Uuid>,
    /// Health of the host.
    #[sqlx(try_from = "StoredHealth")]
    pub host_health: Health,
    /// Last proof of life of a host that is silent; none: it is heard.
    pub host_lost_since: Option<Timestamp>,
    /// Rack or failure domain, as an operator named it; empty: unknown.
    pub rack: String,
}

/// One node.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn get(conn: &mut PgConnection, id: Uuid) -> Result<Node> {
    find(conn, id)
        .await?
        .ok_or_else(|| Error::not_found("node", id))
}

async fn find(conn: &mut PgConnection, id: Uuid) -> Result<Option<Node>> {
    let row = sqlx::query_as(
        "SELECT id, hostname, region_code, mode, coalesce(intended_mode, mode) AS intended_mode, admin_state, generation, agent_address, instance_id, schedulable,
                not_schedulable_reason, hugepages_1g_free, max_vms, legal_groups, lab, image_digests, hugepages_allocated_to, host_health, host_lost_since, rack
           FROM nodes WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(conn)
    .await?;
    Ok(row)
}

/// Creates or replaces a node. Idempotent. A host that was reinstalled has lost its
/// state: its held slots go to `cleanup_blocked`, its free ones are disabled until they are approved again.
///
/// # Errors
/// [`Error::NotFound`] for the region; [`Error::Conflict`] when mode or limit change although the node is schedulable or in
/// use, see [`may_configure`].
pub async fn put(conn: &mut PgConnection, spec: &NodeSpec) -> Result<Node> {
    let known: bool = sqlx::query_scalar("SELECT EXISTS (SELECT FROM regions WHERE code = $1)")
        .bind(&spec.region_code)
        .fetch_one(&mut *conn)
        .await?;
    if !known {
        return Err(Error::not_found("region", &spec.region_code));
    }
    sqlx::query(
        "INSERT INTO nodes (id, hostname, region_code, mode, agent_address, instance_id, schedulable, lab, host_health)
         VALUES ($1, $2, $3, $4, $5, $6, false, $7, $8) ON CONFLICT DO NOTHING",
    )
    .bind(spec.id)
    .bind(&spec.hostname)
    .bind(&spec.region_code)
    .bind(&spec.mode)
    .bind(&spec.agent_address)
    .bind(spec.instance_id)
    .bind(spec.lab)
    .bind(StoredHealth::from(spec.host_health))
    .execute(&mut *conn)
    .await?;
    lock::node(conn, spec.id).await?;
    let before = get(conn, spec.id).await?;
    // said late: it is as it was at its end
    if before.admin_state == Intent::Retired.as_str() {
        return Ok(before);
    }
    if reconfigures(&before, spec) {
        may_configure(conn, &before).await?;
    }
    if !matches_spec(&before, spec) {
        replace(conn, spec, &before).await?;
    }
    sqlx::query(
        "UPDATE slots s SET host_health = now.health, revision = s.revision + 1,
                updated_at = greatest(clock_timestamp(), s.updated_at)
           FROM (SELECT id, CASE WHEN drift = '[]' THEN $2 ELSE greatest($2, 'degraded') END AS health
                   FROM slots WHERE node_id = $1 AND status <> 'retired') now
          WHERE s.id = now.id AND s.host_health <> now.health",
    )
    .bind(spec.id)
    .bind(StoredHealth::from(spec.host_health))
    .execute(&mut *conn)
    .await?;
    let replaced = spec.new_instance && before.instance_id != spec.instance_id;
    if replaced {
        distrust_slots(conn, spec.id).await?;
    }
    lost::note(conn, spec.id, replaced).await?;
    get(conn, spec.id).await
}

fn reconfigures(node: &Node, spec: &NodeSpec) -> bool {
    node.intended_mode != spec.mode || node.max_vms != spec.max_vms
}

/// Takes a node in with the mode and limit that it has, not schedulable: what [`put`] refuses because the node is schedulable
/// or in use. Everything else that its host tells counts at once.
///
/// # Errors
/// As of [`put`].
pub async fn put_held_back(conn: &mut PgConnection, spec: &NodeSpec) -> Result<Node> {
    lock::node(conn, spec.id).await?;
    let now = get(conn, spec.id).await?;
    let held_back = NodeSpec {
        mode: now.intended_mode,
        max_vms: now.max_vms,
        schedulable: false,
        not_schedulable_reason: CONFIG_WAITS.to_owned(),
        ..spec.clone()
    };
    put(conn, &held_back).await
}

/// Why a node is not schedulable whose new mode or limit has to wait until it is out of service and empty.
pub const CONFIG_WAITS: &str = "configuration_waits";

/// Whether mode and limit of a locked node may change: nothing of it is schedulable, and nobody has anything of it.
///
/// # Errors
/// [`Error::Conflict`] with what stands in the way.
pub async fn may_configure(conn: &mut PgConnection, node: &Node) -> Result<()> {
    let (in_use, schedulable): (bool, bool) = sqlx::query_as(
        "SELECT EXISTS (SELECT FROM claims WHERE node_id = $1 AND state <> 'released'),
                EXISTS (SELECT FROM slots WHERE node_id = $1 AND status = 'available')",
    )
    .bind(node.id)
    .fetch_one(conn)
    .await?;
    let state = match (in_use, schedulable && node.admin_state == "enabled") {
        (false, false) => return Ok(()),
        (true, _) => format!("in use in mode {}", node.mode),
        (false, true) => "schedulable; cordon it first".to_owned(),
    };
    Err(Error::Conflict {
        what: "node",
        id: node.id,
        state,
    })
}

fn matches_spec(node: &Node, spec: &NodeSpec) -> bool {
    let same_place = node.hostname == spec.hostname
        && node.region_code == spec.region_code
        && node.intended_mode == spec.mode;
    let same_instance =
        node.agent_address == spec.agent_address && node.instance_id == spec.instance_id;
    let same_gate = node.schedulable == spec.schedulable
        && node.not_schedulable_reason == spec.not_schedulable_reason;
    let same_facts = node.hugepages_1g_free == spec.hugepages_1g_free
        && node.max_vms == spec.max_vms
        && node.legal_groups.0 == spec.legal_groups
        && node.lab == spec.lab
        && node.image_digests == spec.image_digests
        && node.hugepages_allocated_to == spec.hugepages_allocated_to
        && node.host_health == spec.host_health
        && node.host_lost_since == spec.host_lost_since
        && node.rack == spec.rack;
    same_place && same_instance && same_gate && same_facts
}

async fn replace(conn: &mut PgConnection, spec: &NodeSpec, before: &Node) -> Result<()> {
    let done = sqlx::query(
        "UPDATE nodes SET hostname = $2, region_code = $3, mode = $4, agent_address = $5, instance_id = $6,
                schedulable = $7, not_schedulable_reason = $8, hugepages_1g_free = $9, max_vms = $10,
                legal_groups = $11, lab = $12, host_health = $13, intended_mode = $14, image_digests = $15,
                hugepages_allocated_to = $16, host_lost_since = $17, rack = $18,
                generation = generation + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(spec.id)
    .bind(&spec.hostname)
    .bind(&spec.region_code)
    // repeated, the desired mode leaves the node what its claims make of it
    .bind(if before.intended_mode == spec.mode {
        &before.mode
    } else {
        &spec.mode
    })
    .bind(&spec.agent_address)
    .bind(spec.instance_id)
    .bind(spec.schedulable)
    .bind(&spec.not_schedulable_reason)
    .bind(spec.hugepages_1g_free)
    .bind(spec.max_vms)
    .bind(Json(&spec.legal_groups))
    .bind(spec.lab)
    .bind(StoredHealth::from(spec.host_health))
    .bind(&spec.mode)
    .bind(&spec.image_digests)
    .bind(&spec.hugepages_allocated_to)
    .bind(spec.host_lost_since)
    .bind(&spec.rack)
    .execute(conn)
    .await;
    match done {
        Ok(_) => Ok(()),
        // the mode is what live claims refer to
        Err(error)
            if error
                .as_database_error()
                .is_some_and(sqlx::error::DatabaseError::is_foreign_key_violation) =>
        {
            Err(Error::Conflict {
                what: "node",
                id: spec.id,
                state: format!("in use in mode {}", before.mode),
            })
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes an empty node what it is meant to be; its row is locked. A node that something holds stays as it is.
pub(crate) async fn apply_intended_mode(conn: &mut PgConnection, node_id: Uuid) -> Result<()> {
    sqlx::query(
        "UPDATE nodes SET mode = intended_mode, generation = generation + 1,
                updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1 AND intended_mode IS NOT NULL AND mode <> intended_mode
            AND NOT EXISTS (SELECT FROM claims WHERE node_id = $1 AND state <> 'released')",
    )
    .bind(node_id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Makes every slot of a locked node unschedulable, because a tenant of the bare-metal node may write to any disk. Raising the
/// generation makes their evidence stale, also that of slots that an operator had disabled: only a new approval brings
/// them back (P2).
pub(crate) async fn retire_evidence(conn: &mut PgConnection, node_id: Uuid) -> Result<()> {
    let ids: Vec<Uuid> = sqlx::query_scalar(
        "SELECT id FROM slots WHERE node_id = $1 AND status IN ('available', 'disabled') ORDER BY id FOR NO KEY UPDATE",
    )
    .bind(node_id)
    .fetch_all(&mut *conn)
    .await?;
    let free = [SlotStatus::Available, SlotStatus::Disabled];
    let _ = slots::transition(conn, &ids, &free, SlotStatus::Disabled, true).await?;
    Ok(())
}

/// A new host instance knows nothing of holds and may have written to any disk.
async fn distrust_slots(conn: &mut PgConnection, node_id: Uuid) -> Result<()> {
    let ids: Vec<Uuid> =
        sqlx::query_scalar("SELECT id FROM slots WHERE node_id = $1 AND status <> 'retired' ORDER BY id FOR NO KEY UPDATE")
            .bind(node_id)
            .fetch_all(&mut *conn)
            .await?;
    let held = [
        SlotStatus::Reserved,
        SlotStatus::Provisioning,
        SlotStatus::Active,
        SlotStatus::Releasing,
        SlotStatus::Cleanup,
    ];
    let _ = slots::block(
        conn,
        &ids,
        &held,
        "the host was installed anew while the slot was held",
    )
    .await?;
    sqlx::query(
        "UPDATE claims SET state = 'cleanup_blocked', updated_at = greatest(clock_timestamp(), updated_at)
          WHERE node_id = $1 AND kind = 'slot' AND state IN ('reserved', 'provisioning', 'active', 'releasing')",
    )
    .bind(node_id)
    .execute(&mut *conn)
    .await?;
    // Of a blocked allocation of the bare-metal node a reinstall leaves nothing; the disks are proven by the next approval.
    sqlx::query(
        "UPDATE claims SET state = 'released', updated_at = greatest(clock_timestamp(), updated_at),
                released_at = greatest(clock_timestamp(), updated_at)
          WHERE node_id = $1 AND kind = 'node_exclusive' AND state = 'cleanup_blocked'",
    )
    .bind(node_id)
    .execute(&mut *conn)
    .await?;
    apply_intended_mode(conn, node_id).await?;
    // Raising the generation makes their evidence stale: only a new approval brings them back.
    let free = [SlotStatus::Available, SlotStatus::Disabled];
    let _ = slots::transition(conn, &ids, &free, SlotStatus::Disabled, true).await?;
    Ok(())
}
