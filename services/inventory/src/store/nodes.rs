//! Nodes with their current host instance and evidence, and what a heartbeat changes.
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use jiff_sqlx::Timestamp;
use prost::Message as _;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::config::Freshness;
use crate::domain::names::{Hostname, NodeMode, RegionCode};
use crate::domain::readiness::{self, EvidenceFacts, Facts, Readiness};

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
}

impl NodeRow {
    /// The latest report of the current instance.
    ///
    /// # Errors
    /// Bytes in the row that are not a report.
    pub fn report(&self) -> sqlx::Result<Option<ReadinessReport>> {
        let decode = |bytes: &Vec<u8>| ReadinessReport::decode(bytes.as_slice());
        self.report
            .as_ref()
            .map(decode)
            .transpose()
            .map_err(|error| sqlx::Error::Decode(error.into()))
    }

    /// Whether the host is schedulable, by its current evidence.
    #[must_use]
    pub fn readiness(&self, report: Option<&ReadinessReport>) -> Readiness {
        let failed = report.map(failed_checks).unwrap_or_default();
        readiness::assess(Facts {
            enrolled: self.instance_id.is_some(),
            heartbeat_fresh: self.heartbeat_fresh,
            evidence: report.map(|report| EvidenceFacts {
                fresh: self.evidence_fresh,
                any_check: !report.evidence.is_empty(),
                failed_checks: &failed,
                drifted: !report.drifted_disks.is_empty(),
            }),
        })
    }
}

/// What the host reports as blockers, and every check that it reports as failed: one list must not hide what the other shows.
fn failed_checks(report: &ReadinessReport) -> Vec<String> {
    use gpuaas_proto::gpuaas::common::v1::EvidenceStatus;
    let failed = report
        .evidence
        .iter()
        .filter(|evidence| evidence.status() == EvidenceStatus::Fail)
        .map(|evidence| evidence.check.clone());
    report.blockers.iter().cloned().chain(failed).collect()
}

const SELECT: &str = "SELECT n.id, n.hostname, n.region_code, n.mode, n.max_vms_per_node, n.state,
        n.last_heartbeat_time, n.revision, n.create_time, n.update_time,
        i.id AS instance_id, i.boot_id, i.agent_version, i.agent_built_time, i.agent_address, i.host_profile,
        i.lab, i.hypervisor, i.enrol_time,
        coalesce(n.last_heartbeat_time > clock_timestamp() - make_interval(secs => $1), false) AS heartbeat_fresh,
        e.report,
        coalesce(e.observed_time > clock_timestamp() - make_interval(secs => $2), false) AS evidence_fresh
    FROM nodes n
    LEFT JOIN host_instances i ON i.id = n.current_instance_id
    LEFT JOIN node_evidence e ON e.node_id = n.id AND e.instance_id = n.current_instance_id";

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

/// Nodes after a hostname, by hostname, at most `limit`.
///
/// # Errors
/// Database errors.
pub async fn list(
    pool: &PgPool,
    after: &str,
    limit: i64,
    freshness: Freshness,
) -> sqlx::Result<Vec<NodeRow>> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{SELECT} WHERE n.hostname > $3 ORDER BY n.hostname LIMIT $4"
    )))
    .bind(freshness.heartbeat_seconds)
    .bind(freshness.evidence_seconds)
    .bind(after)
    .bind(limit)
    .fetch_all(pool)
    .await
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
}

/// Registers a node. `false` when the name is taken.
///
/// # Errors
/// Database errors.
pub async fn insert(conn: &mut PgConnection, node: &NewNode<'_>) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "INSERT INTO nodes (id, hostname, region_code, mode, max_vms_per_node) VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (hostname) DO NOTHING",
    )
    .bind(node.id)
    .bind(node.hostname.as_str())
    .bind(node.region.as_str())
    .bind(node.mode.as_str())
    .bind(node.max_vms_per_node)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// A host's heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct Beat<'a> {
    pub node_id: Uuid,
    /// Instance that sends it.
    pub instance_id: Uuid,
    /// Boot of the running kernel.
    pub boot_id: &'a str,
    /// Build of the agent.
    pub agent_version: &'a str,
    /// Where the agent answers.
    pub agent_address: &'a str,
    /// How the host is, if it was inspected.
    pub readiness: Option<&'a ReadinessReport>,
    /// When it was inspected, by its own clock.
    pub observed_time: Option<jiff::Timestamp>,
}

/// Takes in a heartbeat; locks the node's row. `false`, and nothing changed, when the instance is not the current
/// one.
///
/// # Errors
/// Database errors.
pub async fn heartbeat(conn: &mut PgConnection, beat: Beat<'_>) -> sqlx::Result<bool> {
    let current = sqlx::query(
        "UPDATE nodes SET
             last_heartbeat_time = greatest(clock_timestamp(), last_heartbeat_time),
             revision = CASE WHEN state = 'enrolled' THEN revision ELSE revision + 1 END,
             update_time = CASE WHEN state = 'enrolled' THEN update_time ELSE clock_timestamp() END,
             state = 'enrolled'
         WHERE id = $1 AND current_instance_id = $2",
    )
    .bind(beat.node_id)
    .bind(beat.instance_id)
    .execute(&mut *conn)
    .await?;
    if current.rows_affected() == 0 {
        return Ok(false);
    }
    sqlx::query(
        "UPDATE host_instances SET boot_id = $2, agent_version = $3, agent_address = $4
         WHERE id = $1 AND (boot_id, agent_version, agent_address) IS DISTINCT FROM ($2, $3, $4)",
    )
    .bind(beat.instance_id)
    .bind(beat.boot_id)
    .bind(beat.agent_version)
    .bind(beat.agent_address)
    .execute(&mut *conn)
    .await?;
    let Some(report) = beat.readiness else {
        return Ok(true);
    };
    sqlx::query(
        "UPDATE host_instances SET host_profile = $2, lab = $3, hypervisor = $4
         WHERE id = $1 AND (host_profile, lab, hypervisor) IS DISTINCT FROM ($2, $3, $4)",
    )
    .bind(beat.instance_id)
    .bind(&report.host_profile)
    .bind(report.lab)
    .bind(&report.hypervisor)
    .execute(&mut *conn)
    .await?;
    // An inspection "in the future" is one of now: the host's clock cannot make evidence live longer.
    sqlx::query(
        "INSERT INTO node_evidence (node_id, instance_id, observed_time, report)
         VALUES ($1, $2, least(coalesce($3, clock_timestamp()), clock_timestamp()), $4)
         ON CONFLICT (node_id) DO UPDATE SET
             instance_id = EXCLUDED.instance_id, observed_time = EXCLUDED.observed_time, report = EXCLUDED.report",
    )
    .bind(beat.node_id)
    .bind(beat.instance_id)
    .bind(beat.observed_time.map(Timestamp::from))
    .bind(report.encode_to_vec())
    .execute(conn)
    .await?;
    Ok(true)
}

/// Nodes whose host or evidence has aged since it was last judged; their rows are locked, hosts that missed their heartbeats
/// are marked lost. Rows that others hold are left for the next sweep.
///
/// # Errors
/// Database errors.
pub async fn sweep_aged(
    conn: &mut PgConnection,
    freshness: Freshness,
) -> sqlx::Result<Vec<(Uuid, bool)>> {
    let aged: Vec<(Uuid, bool)> = sqlx::query_as(
        "SELECT n.id, n.last_heartbeat_time <= clock_timestamp() - make_interval(secs => $1) AS lost
         FROM nodes n
         WHERE n.state = 'enrolled'
           AND (n.last_heartbeat_time <= clock_timestamp() - make_interval(secs => $1)
                OR n.schedulable AND NOT EXISTS (
                    SELECT FROM node_evidence e
                    WHERE e.node_id = n.id AND e.instance_id = n.current_instance_id
                      AND e.observed_time > clock_timestamp() - make_interval(secs => $2)))
         ORDER BY n.id LIMIT 100
         FOR NO KEY UPDATE OF n SKIP LOCKED",
    )
    .bind(freshness.heartbeat_seconds)
    .bind(freshness.evidence_seconds)
    .fetch_all(&mut *conn)
    .await?;
    let lost: Vec<Uuid> = aged
        .iter()
        .filter(|(_, lost)| *lost)
        .map(|(id, _)| *id)
        .collect();
    sqlx::query(
        "UPDATE nodes SET state = 'lost', revision = revision + 1,
             update_time = greatest(clock_timestamp(), update_time)
         WHERE id = ANY ($1)",
    )
    .bind(lost)
    .execute(conn)
    .await?;
    Ok(aged)
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
