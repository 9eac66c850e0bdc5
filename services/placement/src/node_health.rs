//! Health of nodes: break-fix records, and the findings of outside health agents (DCGM, NVSentinel).
//!
//! A node with an open record is `broken` and takes nothing new; when the last one is closed it is cordoned, and an operator
//! uncordons it. A finding of severity `critical` takes its slot, or its node, out of service; resolving it makes nothing schedulable
//! again, because that is an operator's decision.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::model::Attribution;
use crate::node_placement::{self, Intent};
use crate::{lock, slots};

/// A break-fix record: work on a broken host by hand.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct BreakFix {
    pub id: Uuid,
    pub node_id: Uuid,
    /// None: the host as a whole.
    pub slot_id: Option<Uuid>,
    /// What broke.
    pub fault: String,
    pub opened_by: String,
    pub opened_at: Timestamp,
    pub closed_by: Option<String>,
    pub closed_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<String>,
}

/// Something that was done for a break-fix record.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Action {
    pub at: Timestamp,
    pub principal: String,
    pub action: String,
}

const BREAK_FIX: &str = "SELECT id, node_id, slot_id, fault, opened_by, opened_at, closed_by, closed_at, outcome FROM break_fixes";

/// One record of a node.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn break_fix(conn: &mut PgConnection, node_id: Uuid, id: Uuid) -> Result<BreakFix> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{BREAK_FIX} WHERE node_id = $1 AND id = $2"
    )))
    .bind(node_id)
    .bind(id)
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| Error::not_found("break-fix record", id))
}

/// What the list of a node's records can be selected by.
pub static BREAK_FIXES: Catalog = Catalog {
    fields: &[
        Field::new("slot_id", Kind::Id, "listed.slot_id"),
        Field::new("fault", Kind::Text, "listed.fault"),
        Field::sortable("opened_by", Kind::Text, "listed.opened_by"),
        Field::sortable("open_time", Kind::Time, "listed.opened_at"),
        Field::new("closed_by", Kind::Text, "listed.closed_by"),
        Field::new("close_time", Kind::Time, "listed.closed_at"),
        Field::new("outcome", Kind::Text, "listed.outcome"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "open_time desc",
};

/// A page of the records of a node that a caller selects, and the token of the next one.
///
/// # Errors
/// [`Error::NotFound`] for the node; `PAGE_TOKEN_INVALID`.
pub async fn break_fixes(
    conn: &mut PgConnection,
    node_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<BreakFix>, String)> {
    node_placement::get(conn, node_id).await?;
    let statement = Statement::new(&[BREAK_FIX, " WHERE node_id = $1"]).bind(node_id);
    Ok(selection.page(conn, statement, wanted).await?)
}

/// What was done, in order.
///
/// # Errors
/// Those of the database.
pub async fn actions(conn: &mut PgConnection, id: Uuid) -> Result<Vec<Action>> {
    Ok(sqlx::query_as(
        "SELECT at, principal, action FROM break_fix_actions WHERE break_fix_id = $1 ORDER BY seq",
    )
    .bind(id)
    .fetch_all(conn)
    .await?)
}

/// Opens a record: the node is broken from now on. Notify [`crate::outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::NotFound`] for the node or slot; [`Error::Conflict`] for a retired node.
pub async fn open(
    conn: &mut PgConnection,
    id: Uuid,
    node_id: Uuid,
    slot_id: Option<Uuid>,
    by: Attribution<'_>,
) -> Result<BreakFix> {
    lock::node(conn, node_id).await?;
    let node = node_placement::get(conn, node_id).await?;
    not_retired(&node)?;
    if let Some(slot_id) = slot_id {
        slots::get(conn, node_id, slot_id).await?;
    }
    sqlx::query("INSERT INTO break_fixes (id, node_id, slot_id, fault, opened_by) VALUES ($1, $2, $3, $4, $5)")
        .bind(id)
        .bind(node_id)
        .bind(slot_id)
        .bind(by.reason)
        .bind(by.principal)
        .execute(&mut *conn)
        .await?;
    if node.admin_state != Intent::Broken.as_str() {
        node_placement::become_locked(conn, node_id, Intent::Broken, by).await?;
    }
    break_fix(conn, node_id, id).await
}

/// Adds what was done to an open record.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for a closed record.
pub async fn act(
    conn: &mut PgConnection,
    node_id: Uuid,
    id: Uuid,
    by: Attribution<'_>,
) -> Result<BreakFix> {
    lock::node(conn, node_id).await?;
    let record = still_open(break_fix(conn, node_id, id).await?)?;
    sqlx::query(
        "INSERT INTO break_fix_actions (break_fix_id, principal, action) VALUES ($1, $2, $3)",
    )
    .bind(id)
    .bind(by.principal)
    .bind(by.reason)
    .execute(conn)
    .await?;
    Ok(record)
}

/// Closes a record. With the last one the node is cordoned: whoever has looked at what its host proves now uncordons it.
/// Notify [`crate::outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::NotFound`]; [`Error::Conflict`] for a closed record.
pub async fn close(
    conn: &mut PgConnection,
    node_id: Uuid,
    id: Uuid,
    by: Attribution<'_>,
) -> Result<BreakFix> {
    lock::node(conn, node_id).await?;
    still_open(break_fix(conn, node_id, id).await?)?;
    sqlx::query(
        "UPDATE break_fixes SET closed_by = $2, closed_at = greatest(clock_timestamp(), opened_at), outcome = $3 WHERE id = $1",
    )
    .bind(id)
    .bind(by.principal)
    .bind(by.reason)
    .execute(&mut *conn)
    .await?;
    let others: bool = sqlx::query_scalar(
        "SELECT EXISTS (SELECT FROM break_fixes WHERE node_id = $1 AND closed_at IS NULL)",
    )
    .bind(node_id)
    .fetch_one(&mut *conn)
    .await?;
    if !others {
        node_placement::become_locked(conn, node_id, Intent::Cordoned, by).await?;
    }
    break_fix(conn, node_id, id).await
}

fn still_open(record: BreakFix) -> Result<BreakFix> {
    if record.closed_at.is_none() {
        return Ok(record);
    }
    Err(Error::Conflict {
        what: "break-fix record",
        id: record.id,
        state: "closed".to_owned(),
    })
}

fn not_retired(node: &node_placement::NodePlacement) -> Result<()> {
    if node.admin_state != Intent::Retired.as_str() {
        return Ok(());
    }
    Err(Error::Conflict {
        what: "node",
        id: node.id,
        state: node.admin_state.clone(),
    })
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Good to know.
    Info,
    /// To be looked at; nothing changes.
    Warning,
    /// The slot, or the node, is taken out of service.
    Critical,
}

impl Severity {
    /// The value in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// What an outside health agent reports.
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    pub node_id: Uuid,
    /// None: the host as a whole.
    pub slot_id: Option<Uuid>,
    /// Which agent: "dcgm", "nvsentinel".
    pub source: &'a str,
    /// The agent's own name of the fault.
    pub code: &'a str,
    /// The device; empty: the host.
    pub device: &'a str,
    pub severity: Severity,
    /// For operators.
    pub message: &'a str,
    /// Who reports.
    pub principal: &'a str,
}

/// A finding as stored.
#[derive(Debug, Clone, PartialEq, sqlx::FromRow)]
pub struct Finding {
    pub id: Uuid,
    pub node_id: Uuid,
    pub slot_id: Option<Uuid>,
    pub source: String,
    pub code: String,
    pub device: String,
    pub severity: String,
    pub message: String,
    pub reported_by: String,
    pub first_at: Timestamp,
    pub last_at: Timestamp,
    /// How often it was reported.
    pub seen: i64,
    pub resolved_by: Option<String>,
    pub resolved_at: Option<Timestamp>,
    pub resolution: Option<String>,
}

const FINDING: &str = "SELECT id, node_id, slot_id, source, code, device, severity, message, reported_by, first_at, last_at,
        seen, resolved_by, resolved_at, resolution FROM node_findings";

/// One finding of a node.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn finding(conn: &mut PgConnection, node_id: Uuid, id: Uuid) -> Result<Finding> {
    sqlx::query_as(sqlx::AssertSqlSafe(format!(
        "{FINDING} WHERE node_id = $1 AND id = $2"
    )))
    .bind(node_id)
    .bind(id)
    .fetch_optional(conn)
    .await?
    .ok_or_else(|| Error::not_found("finding", id))
}

/// What the list of a node's findings can be selected by.
pub static FINDINGS: Catalog = Catalog {
    fields: &[
        Field::new("slot_id", Kind::Id, "listed.slot_id"),
        Field::sortable("source", Kind::Text, "listed.source"),
        Field::sortable("code", Kind::Text, "listed.code"),
        Field::sortable("device", Kind::Text, "listed.device"),
        Field::new(
            "severity",
            Kind::OneOf(&["info", "warning", "critical"]),
            "listed.severity",
        ),
        Field::new("message", Kind::Text, "listed.message"),
        Field::sortable("reported_by", Kind::Text, "listed.reported_by"),
        Field::sortable("first_time", Kind::Time, "listed.first_at"),
        Field::sortable("last_time", Kind::Time, "listed.last_at"),
        Field::sortable("count", Kind::Number, "listed.seen"),
        Field::new("resolved_by", Kind::Text, "listed.resolved_by"),
        Field::new("resolve_time", Kind::Time, "listed.resolved_at"),
        Field::new("resolution", Kind::Text, "listed.resolution"),
    ],
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "last_time desc",
};

/// A page of the findings of a node that a caller selects, and the token of the next one; with `open` of those that nobody
/// has resolved.
///
/// # Errors
/// [`Error::NotFound`] for the node; `PAGE_TOKEN_INVALID`.
pub async fn findings(
    conn: &mut PgConnection,
    node_id: Uuid,
    open: bool,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<Finding>, String)> {
    node_placement::get(conn, node_id).await?;
    let statement = Statement::new(&[
        FINDING,
        " WHERE node_id = $1 AND (NOT $2 OR resolved_at IS NULL)",
    ])
    .bind(node_id)
    .bind(open);
    Ok(selection.page(conn, statement, wanted).await?)
}

/// Takes a finding in: a new one, or the open one of the same source, code and device, seen once more. A critical one takes
/// its slot, or its node, out of service. Notify [`crate::outbox::TOPIC`] afterwards.
///
/// # Errors
/// [`Error::NotFound`] for the node or slot; [`Error::Conflict`] for a retired node or slot.
pub async fn report(conn: &mut PgConnection, id: Uuid, report: &Report<'_>) -> Result<Finding> {
    let node_id = report.node_id;
    lock::node(conn, node_id).await?;
    let node = node_placement::get(conn, node_id).await?;
    not_retired(&node)?;
    if let Some(slot_id) = report.slot_id {
        slots::get(conn, node_id, slot_id).await?;
    }
    let stored: Uuid = sqlx::query_scalar(
        "INSERT INTO node_findings AS f (id, node_id, slot_id, source, code, device, severity, message, reported_by)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (node_id, source, code, device) WHERE resolved_at IS NULL DO UPDATE SET
             slot_id = excluded.slot_id, severity = excluded.severity, message = excluded.message,
             reported_by = excluded.reported_by, seen = f.seen + 1, last_at = greatest(clock_timestamp(), f.last_at)
         RETURNING id",
    )
    .bind(id)
    .bind(node_id)
    .bind(report.slot_id)
    .bind(report.source)
    .bind(report.code)
    .bind(report.device)
    .bind(report.severity.as_str())
    .bind(report.message)
    .bind(report.principal)
    .fetch_one(&mut *conn)
    .await?;
    if report.severity == Severity::Critical {
        let reason = format!("{}: {} {}", report.source, report.code, report.device);
        let by = Attribution::of(report.principal, reason.trim_end());
        match report.slot_id {
            Some(slot_id) => {
                node_placement::set_slot_admin_state(conn, node_id, slot_id, true, by).await?;
            }
            None if node.admin_state == Intent::Enabled.as_str() => {
                node_placement::become_locked(conn, node_id, Intent::Cordoned, by).await?;
            }
            // an operator has it in hand
            None => {}
        }
    }
    finding(conn, node_id, stored).await
}

/// The open finding that a report is about, if there is one.
///
/// # Errors
/// Database errors.
pub async fn reported(conn: &mut PgConnection, report: &Report<'_>) -> Result<Option<Finding>> {
    let found: Option<Uuid> = sqlx::query_scalar(
        "SELECT id FROM node_findings
          WHERE node_id = $1 AND source = $2 AND code = $3 AND device = $4 AND resolved_at IS NULL",
    )
    .bind(report.node_id)
    .bind(report.source)
    .bind(report.code)
    .bind(report.device)
    .fetch_optional(&mut *conn)
    .await?;
    match found {
        Some(id) => finding(conn, report.node_id, id).await.map(Some),
        None => Ok(None),
    }
}

/// Notes that a finding is over. What it took out of service stays out until an operator puts it back. Resolved again, it changes
/// nothing.
///
/// # Errors
/// [`Error::NotFound`].
pub async fn resolve(
    conn: &mut PgConnection,
    node_id: Uuid,
    id: Uuid,
    by: Attribution<'_>,
) -> Result<Finding> {
    lock::node(conn, node_id).await?;
    sqlx::query(
        "UPDATE node_findings SET resolved_by = $3, resolved_at = greatest(clock_timestamp(), last_at), resolution = $4
          WHERE node_id = $1 AND id = $2 AND resolved_at IS NULL",
    )
    .bind(node_id)
    .bind(id)
    .bind(by.principal)
    .bind(by.reason)
    .execute(&mut *conn)
    .await?;
    finding(conn, node_id, id).await
}
