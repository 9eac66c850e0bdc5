//! Nodes with their current host instance and evidence, and what a heartbeat changes.
use std::collections::BTreeMap;

use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use jiff_sqlx::Timestamp;
use prost::Message as _;
use sqlx::types::Json;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use super::heartbeats;
use crate::config::Freshness;
use crate::domain::lifecycle::{self, Removed};
use crate::domain::names::{Hostname, NodeMode, RackName, RegionCode};
use crate::domain::readiness::{self, EvidenceFacts, Facts, Readiness};
use crate::domain::report_digest;

/// A node, its current instance and its latest evidence, read in one statement.
#[derive(Debug, Clone, FromRow)]
pub struct NodeRow {
    /// Node.
    pub id: Uuid,
    /// Its name.
    pub hostname: String,
    /// Where it is.
    pub region_code: String,
    /// `slice` or `baremetal`.
    pub mode: String,
    /// 0: no limit.
    pub max_vms_per_node: i32,
    /// Rack or failure domain; empty: unknown.
    pub rack: String,
    /// `pending`, `enrolled` or `lost`.
    pub state: String,
    /// Last sign of life of the current instance.
    pub last_heartbeat_time: Option<Timestamp>,
    /// Grows with every change of the node.
    pub revision: i64,
    /// When it was registered.
    pub create_time: Timestamp,
    /// When it last changed.
    pub update_time: Timestamp,
    /// The operators' own labels.
    pub labels: Json<BTreeMap<String, String>>,
    /// `retired` or `deleted`: it is gone for good.
    pub removed: Option<String>,
    /// When it went.
    pub remove_time: Option<Timestamp>,
    /// The topology of the current instance was discovered.
    pub discovered: bool,
    /// Candidates of it were reviewed and approved.
    pub reviewed: bool,
    /// Current host instance; the columns below are all of it or all absent.
    pub instance_id: Option<Uuid>,
    /// Boot of the running kernel.
    pub boot_id: Option<String>,
    /// Build of the agent.
    pub agent_version: Option<String>,
    /// When the agent was built.
    pub agent_built_time: Option<Timestamp>,
    /// Where the agent answers.
    pub agent_address: Option<String>,
    pub host_profile: Option<String>,
    /// An emulated host.
    pub lab: Option<bool>,
    /// `kvm` or `qemu`.
    pub hypervisor: Option<String>,
    /// When it enrolled.
    pub enrol_time: Option<Timestamp>,
    /// The last heartbeat is recent.
    pub heartbeat_fresh: bool,
    /// Encoded report of the current instance.
    pub report: Option<Vec<u8>>,
    /// That report is recent.
    pub evidence_fresh: bool,
    /// When the host observed what it reported, as of its last repetition.
    pub observed_time: Option<Timestamp>,
}

impl NodeRow {
    /// Differs after every change of the node.
    #[must_use]
    pub fn etag(&self) -> String {
        self.revision.to_string()
    }

    /// Whether anybody is shown it: not when it was registered by mistake.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.removed.as_deref() != Some(Removed::Deleted.as_str())
    }

    /// The latest report of the current instance.
    ///
    /// # Errors
    /// Bytes in the row that are not a report.
    pub fn report(&self) -> sqlx::Result<Option<ReadinessReport>> {
        let decode = |bytes: &Vec<u8>| ReadinessReport::decode(bytes.as_slice());
        let report = self.report.as_ref().map(decode).transpose();
        let report = report.map_err(|error| sqlx::Error::Decode(error.into()))?;
        let at = self.observed_time.map(|at| proto_time(at.to_jiff()));
        Ok(report.map(|report| report_digest::observed(report, at)))
    }

    /// It was judged silent, and has not been heard since. Silence alone is no loss: nobody may have listened.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.state == "lost" && !self.heartbeat_fresh
    }

    /// Whether the host is schedulable, by its current evidence.
    #[must_use]
    pub fn readiness(&self, report: Option<&ReadinessReport>) -> Readiness {
        let failed = report.map(failed_checks).unwrap_or_default();
        let mut readiness = readiness::assess(Facts {
            enrolled: self.instance_id.is_some(),
            heartbeat_fresh: !self.is_lost(),
            evidence: report.map(|report| EvidenceFacts {
                fresh: self.evidence_fresh,
                any_check: !report.evidence.is_empty(),
                failed_checks: &failed,
                // a host that reports its devices is compared slot by slot
                drifted: report.devices.is_none() && !report.drifted_disks.is_empty(),
            }),
        });
        // what its host proves is of another mode
        let mode = NodeMode::parse(&self.mode).unwrap_or(NodeMode::Slice);
        let profile = self.host_profile.as_deref().unwrap_or_default();
        if self.instance_id.is_some() && !lifecycle::profile_fits(mode, profile) {
            readiness
                .blockers
                .push(lifecycle::PROFILE_MISMATCH.to_owned());
            readiness.blockers.sort_unstable();
        }
        readiness
    }
}

/// What the host reports as blockers, and every check that it reports as failed: one list must not hide what the other
/// shows. One that names devices is of their slots, and not of the host.
fn failed_checks(report: &ReadinessReport) -> Vec<String> {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
    let failed = report
        .evidence
        .iter()
        .filter(|evidence| evidence.status() == EvidenceStatus::Fail)
        // the slots of the devices are told from the devices of the same report
        .filter(|evidence| evidence.devices.is_empty() || report.devices.is_none())
        .map(|evidence| evidence.check.clone());
    report.blockers.iter().cloned().chain(failed).collect()
}

const SELECT: &str = "SELECT n.id, n.hostname, n.region_code, n.mode, n.max_vms_per_node, n.rack, n.state,
        greatest(n.last_heartbeat_time, b.beat_time) AS last_heartbeat_time, n.revision, n.create_time, n.update_time,
        n.labels, n.removed, n.remove_time,
        EXISTS (SELECT FROM node_tasks t WHERE t.node_id = n.id AND t.task_type = 'slice.topology_discover'
                   AND t.state = 'completed' AND t.instance_id = n.current_instance_id) AS discovered,
        EXISTS (SELECT FROM slot_approvals a JOIN node_tasks t ON t.id = a.discovery_id
                 WHERE a.node_id = n.id AND t.instance_id = n.current_instance_id) AS reviewed,
        i.id AS instance_id, i.boot_id, i.agent_version, i.agent_built_time, i.agent_address, i.host_profile,
        i.lab, i.hypervisor, i.enrol_time,
        coalesce(greatest(n.last_heartbeat_time, b.beat_time) > clock_timestamp() - make_interval(secs => $1), false)
            AS heartbeat_fresh,
        e.report, greatest(e.observed_time, b.observed_time) AS observed_time,
        coalesce(greatest(e.observed_time, b.observed_time) > clock_timestamp() - make_interval(secs => $2)
                 AND e.node_id IS NOT NULL, false) AS evidence_fresh
    FROM nodes n
    LEFT JOIN host_instances i ON i.id = n.current_instance_id
    LEFT JOIN node_evidence e ON e.node_id = n.id AND e.instance_id = n.current_instance_id
    LEFT JOIN host_beats b ON b.node_id = n.id AND b.instance_id = n.current_instance_id";

/// Enrolled nodes whose host was silent for $1 seconds, or whose evidence has aged beyond $2 since it made them
/// schedulable. Without `judge_silence` silence is none.
fn aged(judge_silence: bool) -> String {
    format!(
        "FROM nodes n
    LEFT JOIN host_beats b ON b.node_id = n.id AND b.instance_id = n.current_instance_id
    WHERE n.state = 'enrolled' AND n.removed IS NULL
      AND ({judge_silence} AND greatest(n.last_heartbeat_time, b.beat_time) <= clock_timestamp() - make_interval(secs => $1)
           OR n.schedulable AND NOT EXISTS (
               SELECT FROM node_evidence e
               WHERE e.node_id = n.id AND e.instance_id = n.current_instance_id
                 AND greatest(e.observed_time, b.observed_time) > clock_timestamp() - make_interval(secs => $2)))"
    )
}

/// One node.
///
/// # Errors
/// Database errors.
pub async fn find(
    conn: &mut PgConnection,
    id: Uuid,
    freshness: Freshness,
) -> sqlx::Result<Option<NodeRow>> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!("{SELECT} WHERE n.id = $3")))
        .bind(freshness.heartbeat_seconds)
        .bind(freshness.evidence_seconds)
        .bind(id)
        .fetch_optional(conn)
        .await
}

/// Which nodes are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// Those that are not gone.
    InService,
    /// Retired ones too.
    Retired,
    /// Deleted ones too.
    All,
}

impl Which {
    /// The name in the statement.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InService => "in_service",
            Self::Retired => "retired",
            Self::All => "all",
        }
    }
}

/// Nodes after a hostname and id, in that order, at most `limit`.
///
/// # Errors
/// Database errors.
pub async fn list(
    pool: &PgPool,
    which: Which,
    after: &(String, Uuid),
    limit: i64,
    freshness: Freshness,
) -> sqlx::Result<Vec<NodeRow>> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{SELECT} WHERE (n.hostname, n.id) > ($3, $4)
            AND (n.removed IS NULL OR $6 = 'all' OR $6 = 'retired' AND n.removed = 'retired')
          ORDER BY n.hostname, n.id LIMIT $5"
    )))
    .bind(freshness.heartbeat_seconds)
    .bind(freshness.evidence_seconds)
    .bind(&after.0)
    .bind(after.1)
    .bind(limit)
    .bind(which.as_str())
    .fetch_all(pool)
    .await
}

/// What the list of nodes can be selected by.
pub static CATALOG: Catalog = Catalog {
    fields: &[
        Field::new("id", Kind::Id, "listed.id"),
        Field::sortable("hostname", Kind::Text, "listed.hostname"),
        Field::sortable("region_code", Kind::Text, "listed.region_code"),
        Field::sortable("mode", Kind::OneOf(&["slice", "baremetal"]), "listed.mode"),
        Field::sortable("rack", Kind::Text, "listed.rack"),
        Field::sortable(
            "state",
            Kind::OneOf(&["pending", "enrolled", "lost"]),
            "listed.state",
        ),
        Field::new(
            "max_vms_per_node",
            Kind::Number,
            "listed.max_vms_per_node::bigint",
        ),
        Field::new("hypervisor", Kind::Text, "coalesce(listed.hypervisor, '')"),
        Field::new("lab", Kind::Flag, "coalesce(listed.lab, false)"),
        Field::new(
            "host_profile",
            Kind::Text,
            "coalesce(listed.host_profile, '')",
        ),
        Field::new(
            "agent_version",
            Kind::Text,
            "coalesce(listed.agent_version, '')",
        ),
        Field::new(
            "last_heartbeat_time",
            Kind::Time,
            "listed.last_heartbeat_time",
        ),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
        Field::new("labels", Kind::Labels, "listed.labels"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "hostname",
};

/// A page of the nodes that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn select(
    conn: &mut PgConnection,
    which: Which,
    selection: &Selection,
    wanted: Wanted<'_>,
    freshness: Freshness,
) -> gpuaas_common::Result<(Vec<NodeRow>, String)> {
    let statement = Statement::new(&[
        SELECT,
        " WHERE n.removed IS NULL OR $3 = 'all' OR $3 = 'retired' AND n.removed = 'retired'",
    ])
    .bind(freshness.heartbeat_seconds)
    .bind(freshness.evidence_seconds)
    .bind(which.as_str());
    selection.page(conn, statement, wanted).await
}

/// A node to be.
#[derive(Debug, Clone)]
pub struct NewNode<'a> {
    pub id: Uuid,
    /// Its name.
    pub hostname: &'a Hostname,
    /// Where it is.
    pub region: &'a RegionCode,
    /// What it is used for.
    pub mode: NodeMode,
    /// 0: no limit.
    pub max_vms_per_node: i32,
    /// Where it stands.
    pub rack: &'a RackName,
}

/// Registers a node. `false` when the name is taken.
///
/// # Errors
/// Database errors.
pub async fn insert(conn: &mut PgConnection, node: &NewNode<'_>) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO nodes (id, hostname, region_code, mode, max_vms_per_node, rack) VALUES ($1, $2, $3, $4, $5, $6)
         ON CONFLICT (hostname) WHERE removed IS NULL DO NOTHING",
    )
    .bind(node.id)
    .bind(node.hostname.as_str())
    .bind(node.region.as_str())
    .bind(node.mode.as_str())
    .bind(node.max_vms_per_node)
    .bind(node.rack.as_str())
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Nodes whose host or evidence has aged since it was last judged; their rows are locked, hosts that missed their heartbeats
/// are marked lost, if silence is judged. Rows that others hold are left for the next sweep.
///
/// # Errors
/// Database errors.
pub async fn sweep_aged(
    conn: &mut PgConnection,
    freshness: Freshness,
    judge_silence: bool,
) -> sqlx::Result<Vec<(Uuid, bool)>> {
    let aged = aged(judge_silence);
    let suspects: Vec<Uuid> = sqlx::query_scalar(sqlx::AssertSqlSafe(format!(
        "SELECT n.id {aged} ORDER BY n.id LIMIT 100 FOR NO KEY UPDATE OF n SKIP LOCKED"
    )))
    .bind(freshness.heartbeat_seconds)
    .bind(freshness.evidence_seconds)
    .fetch_all(&mut *conn)
    .await?;
    if suspects.is_empty() {
        return Ok(Vec::new());
    }
    // from here on no report of theirs is taken in; one that was taken in before counts
    heartbeats::forget(&mut *conn, &suspects).await?;
    let found: Vec<(Uuid, bool)> = sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "SELECT n.id, {judge_silence} AND greatest(n.last_heartbeat_time, b.beat_time) <= clock_timestamp() - make_interval(secs => $1) AS lost
         {aged} AND n.id = ANY ($3) ORDER BY n.id"
    )))
    .bind(freshness.heartbeat_seconds)
    .bind(freshness.evidence_seconds)
    .bind(suspects)
    .fetch_all(&mut *conn)
    .await?;
    let lost: Vec<Uuid> = found
        .iter()
        .filter(|(_, lost)| *lost)
        .map(|(id, _)| *id)
        .collect();
    sqlx::query(
        "UPDATE nodes n SET state = 'lost', revision = revision + 1,
             update_time = greatest(clock_timestamp(), update_time),
             last_heartbeat_time = greatest(last_heartbeat_time,
                 (SELECT beat_time FROM host_beats b WHERE b.node_id = n.id AND b.instance_id = n.current_instance_id))
         WHERE id = ANY ($1)",
    )
    .bind(lost)
    .execute(conn)
    .await?;
    Ok(found)
}

/// What a node is offered as. It is there.
///
/// # Errors
/// Database errors.
pub async fn mode(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<String> {
    sqlx::query_scalar("SELECT mode FROM nodes WHERE id = $1")
        .bind(id)
        .fetch_one(conn)
        .await
}

/// The region of a node, while this is its current instance.
///
/// # Errors
/// Database errors.
pub async fn region_of_current(
    pool: &sqlx::PgPool,
    id: Uuid,
    instance_id: Uuid,
) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar(
        "SELECT region_code FROM nodes WHERE id = $1 AND current_instance_id = $2 AND removed IS NULL",
    )
    .bind(id)
    .bind(instance_id)
    .fetch_optional(pool)
    .await
}

/// Locks a node's row against heartbeats, enrolments and sweeps. `false` when there is none.
///
/// # Errors
/// Database errors.
pub async fn lock(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<bool> {
    let found: Option<Uuid> =
        sqlx::query_scalar("SELECT id FROM nodes WHERE id = $1 FOR NO KEY UPDATE")
            .bind(id)
            .fetch_optional(conn)
            .await?;
    Ok(found.is_some())
}

/// Notes what is sent to the ledger of a node's readiness. The row is locked by the caller.
///
/// # Errors
/// Database errors.
pub async fn set_schedulable(
    conn: &mut PgConnection,
    id: Uuid,
    schedulable: bool,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE nodes SET schedulable = $2 WHERE id = $1 AND schedulable IS DISTINCT FROM $2",
    )
    .bind(id)
    .bind(schedulable)
    .execute(conn)
    .await?;
    Ok(())
}
