//! Heartbeats of hosts, taken in with what they report.
use gpuaas_proto::gpuaas::agent::v1::ReadinessReport;
use jiff_sqlx::Timestamp;
use prost::Message as _;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::domain::report_digest;

/// A host's heartbeat.
#[derive(Debug, Clone, Copy)]
pub struct Heartbeat<'a> {
    pub node_id: Uuid,
    /// Instance that sends it.
    pub instance_id: Uuid,
    /// Boot of the running kernel.
    pub boot_id: &'a str,
    /// Build of the agent.
    pub agent_version: &'a str,
    /// When it was built; `None`: the agent does not tell.
    pub agent_built_time: Option<jiff::Timestamp>,
    /// Where the agent answers.
    pub agent_address: &'a str,
    /// How the host is, if it was inspected.
    pub readiness: Option<&'a ReadinessReport>,
    /// When it was inspected, by its own clock.
    pub observed_time: Option<jiff::Timestamp>,
    /// The same since the start of the host, in nanoseconds; `None`: the agent does not tell.
    pub observed_uptime: Option<i64>,
}

/// What came of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Taken {
    /// It counts.
    In,
    /// Its instance is not the node's current one.
    NotCurrent,
    /// Its report was observed before the last one of the same boot.
    Outdated,
}

/// Takes in a heartbeat in full; locks the node's row. Unless it is taken in, nothing changes. What is as it was is not
/// written; [`super::heartbeats::note`] notes the time.
///
/// # Errors
/// Database errors.
pub async fn heartbeat(conn: &mut PgConnection, heartbeat: Heartbeat<'_>) -> sqlx::Result<Taken> {
    let found: Option<(String, bool)> = sqlx::query_as(
        "SELECT n.state, EXISTS (SELECT FROM host_beats b
                                  WHERE b.node_id = n.id AND b.instance_id = n.current_instance_id
                                    AND b.boot_id = $3 AND b.observed_uptime > $4)
         FROM nodes n WHERE n.id = $1 AND n.current_instance_id = $2 AND n.removed IS NULL FOR NO KEY UPDATE OF n",
    )
    .bind(heartbeat.node_id)
    .bind(heartbeat.instance_id)
    .bind(heartbeat.boot_id)
    .bind(heartbeat.observed_uptime)
    .fetch_optional(&mut *conn)
    .await?;
    let Some((state, outdated)) = found else {
        return Ok(Taken::NotCurrent);
    };
    if outdated {
        return Ok(Taken::Outdated);
    }
    if state == "lost" {
        sqlx::query(
            "UPDATE nodes SET state = 'enrolled', revision = revision + 1, update_time = greatest(clock_timestamp(), update_time),
                 last_heartbeat_time = greatest(clock_timestamp(), last_heartbeat_time)
             WHERE id = $1",
        )
        .bind(heartbeat.node_id)
        .execute(&mut *conn)
        .await?;
    }
    sqlx::query(
        "UPDATE host_instances SET boot_id = $2, agent_version = $3, agent_address = $4,
             -- one from before this was told says nothing of its build: what another version told is not its own
             agent_built_time = coalesce($5, CASE WHEN agent_version = $3 THEN agent_built_time END)
         WHERE id = $1 AND (boot_id, agent_version, agent_address, agent_built_time)
               IS DISTINCT FROM ($2, $3, $4, coalesce($5, CASE WHEN agent_version = $3 THEN agent_built_time END))",
    )
    .bind(heartbeat.instance_id)
    .bind(heartbeat.boot_id)
    .bind(heartbeat.agent_version)
    .bind(heartbeat.agent_address)
    .bind(heartbeat.agent_built_time.map(Timestamp::from))
    .execute(&mut *conn)
    .await?;
    let Some(report) = heartbeat.readiness else {
        return Ok(Taken::In);
    };
    sqlx::query(
        "UPDATE host_instances SET host_profile = $2, lab = $3, hypervisor = $4
         WHERE id = $1 AND (host_profile, lab, hypervisor) IS DISTINCT FROM ($2, $3, $4)",
    )
    .bind(heartbeat.instance_id)
    .bind(&report.host_profile)
    .bind(report.lab)
    .bind(&report.hypervisor)
    .execute(&mut *conn)
    .await?;
    // An inspection "in the future" is one of now: the host's clock cannot make evidence live longer.
    sqlx::query(
        "INSERT INTO node_evidence AS e (node_id, instance_id, observed_time, report)
         VALUES ($1, $2, least(coalesce($3, clock_timestamp()), clock_timestamp()), $4)
         ON CONFLICT (node_id) DO UPDATE SET
             instance_id = EXCLUDED.instance_id, observed_time = EXCLUDED.observed_time, report = EXCLUDED.report
         WHERE e.instance_id <> EXCLUDED.instance_id OR e.report <> EXCLUDED.report
            OR e.observed_time > EXCLUDED.observed_time",
    )
    .bind(heartbeat.node_id)
    .bind(heartbeat.instance_id)
    .bind(heartbeat.observed_time.map(Timestamp::from))
    .bind(report_digest::timeless(report).encode_to_vec())
    .execute(conn)
    .await?;
    Ok(Taken::In)
}
