//! The operator's hand on a node: cordon, drain, and what placement makes of it (B-48, B-50).
use jiff_sqlx::Timestamp;
use serde_json::json;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::outbox::{self, NewEvent};
use crate::{Error, Outcome, Result, lock};

/// An operator's intent for a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// Take allocations.
    Enabled,
    /// Take nothing new; what is there stays.
    Cordoned,
    /// Take nothing new until it is empty; nothing is stopped.
    Draining,
}

impl Intent {
    /// The value in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Enabled => "enabled",
            Self::Cordoned => "cordoned",
            Self::Draining => "draining",
        }
    }
}

/// A node from placement's point of view.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct NodePlacement {
    pub id: Uuid,
    /// Host name.
    pub hostname: String,
    pub region_code: String,
    /// "slice" or "baremetal", as it is now.
    pub mode: String,
    /// "enabled", "cordoned" or "draining".
    pub admin_state: String,
    /// The operator's reason.
    pub admin_reason: String,
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
}

macro_rules! select {
    ($tail:literal) => {
        concat!(
            "SELECT n.id, n.hostname, n.region_code, n.mode, n.admin_state, n.admin_reason, n.admin_at, n.schedulable,
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

/// Nodes by id after `after`, of one region when given, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn list(
    conn: &mut PgConnection,
    region_code: Option<&str>,
    after: Option<Uuid>,
    limit: i64,
) -> Result<Vec<NodePlacement>> {
    let rows = sqlx::query_as(select!(
        "WHERE ($1::text IS NULL OR n.region_code = $1) AND ($2::uuid IS NULL OR n.id > $2) ORDER BY n.id LIMIT $3"
    ))
    .bind(region_code)
    .bind(after)
    .bind(limit)
    .fetch_all(conn)
    .await?;
    Ok(rows)
}

/// Sets an operator's intent for a node, under the node's lock: a running placement is finished before or observes it.
/// Repeated with the same reason, it changes nothing. Notify [`outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn set_intent(
    conn: &mut PgConnection,
    node_id: Uuid,
    intent: Intent,
    reason: &str,
) -> Result<(NodePlacement, Outcome)> {
    lock::node(conn, node_id).await?;
    let before = get(conn, node_id).await?;
    if before.admin_state == intent.as_str() && before.admin_reason == reason {
        return Ok((before, Outcome::Unchanged));
    }
    sqlx::query(
        "UPDATE nodes SET admin_state = $2, admin_reason = $3, admin_at = greatest(clock_timestamp(), updated_at),
                generation = generation + 1, updated_at = greatest(clock_timestamp(), updated_at)
          WHERE id = $1",
    )
    .bind(node_id)
    .bind(intent.as_str())
    .bind(reason)
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
                "hostname": node.hostname, "region_code": node.region_code, "reason": reason,
                "live_claims": node.live_claims,
            }),
            traceparent: "",
        },
    )
    .await?;
    Ok((node, Outcome::Changed))
}
