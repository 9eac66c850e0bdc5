//! Rows of terminal sessions.
use gpuaas_common::Result;
use gpuaas_common::select::{Catalog, Field, Kind as Of, Selection, Statement, Wanted};
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::terminal::v1::{TerminalKind, TerminalSession};
use jiff_sqlx::Timestamp;
use sqlx::{FromRow, PgConnection, PgPool};
use uuid::Uuid;

use crate::domain::kind::Kind;

/// One terminal into one allocation.
#[derive(Debug, Clone, FromRow)]
pub(crate) struct SessionRow {
    pub(crate) id: Uuid,
    pub(crate) allocation_id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) principal: String,
    pub(crate) open_time: Timestamp,
    pub(crate) close_time: Option<Timestamp>,
    pub(crate) close_reason: String,
    pub(crate) recording: String,
    pub(crate) recording_bytes: i64,
    pub(crate) kind: String,
    pub(crate) end_request_time: Option<Timestamp>,
    /// Of an operator.
    pub(crate) end_reason: String,
}

/// As the API shows it, and as digests of audit rows are of it.
impl From<SessionRow> for TerminalSession {
    fn from(row: SessionRow) -> Self {
        Self {
            id: row.id.to_string(),
            allocation_id: row.allocation_id.to_string(),
            project_id: row.project_id.to_string(),
            principal: row.principal,
            open_time: Some(proto_time(row.open_time.to_jiff())),
            close_time: row.close_time.map(|at| proto_time(at.to_jiff())),
            close_reason: row.close_reason,
            recorded: row.recording == "kept",
            recording_bytes: u64::try_from(row.recording_bytes).unwrap_or(0),
            kind: Kind::named(&row.kind)
                .map_or(TerminalKind::Unspecified, Kind::wire)
                .into(),
            end_request_time: row.end_request_time.map(|at| proto_time(at.to_jiff())),
            end_reason: row.end_reason,
        }
    }
}

/// What a list is limited to.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filter {
    /// One allocation.
    pub(crate) allocation_id: Option<Uuid>,
    /// Projects of the caller; `None` for administrators.
    pub(crate) projects: Option<Vec<Uuid>>,
}

/// A session to write.
#[derive(Debug, Clone)]
pub(crate) struct NewSession<'a> {
    pub(crate) id: Uuid,
    pub(crate) allocation_id: Uuid,
    pub(crate) project_id: Uuid,
    pub(crate) principal: &'a str,
    pub(crate) origin: &'a str,
    pub(crate) replica: &'a str,
    pub(crate) recorded: bool,
    pub(crate) kind: Kind,
}

/// What the lists of sessions can be selected by.
pub(crate) static SESSIONS: Catalog = Catalog {
    fields: &[
        Field::sortable("allocation_id", Of::Id, "listed.allocation_id"),
        Field::sortable("project_id", Of::Id, "listed.project_id"),
        Field::sortable("principal", Of::Text, "listed.principal"),
        Field::sortable("kind", Of::OneOf(&["shell", "ssh_tunnel"]), "listed.kind"),
        Field::sortable("open_time", Of::Time, "listed.open_time"),
        Field::new("close_time", Of::Time, "listed.close_time"),
        Field::new("close_reason", Of::Text, "listed.close_reason"),
        Field::new("recorded", Of::Flag, "(listed.recording = 'kept')"),
        Field::new("end_request_time", Of::Time, "listed.end_request_time"),
        Field::sortable("recording_bytes", Of::Number, "listed.recording_bytes"),
    ],
    key: Field::new("id", Of::Id, "listed.id"),
    order: "open_time desc",
};

/// A page of the sessions that a caller selects, and the token of the next one.
pub(crate) async fn list(
    pool: &PgPool,
    filter: &Filter,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> Result<(Vec<SessionRow>, String)> {
    let statement = Statement::new(&[
        "SELECT id, allocation_id, project_id, principal, open_time, close_time, close_reason, recording, recording_bytes, kind,
                end_request_time, end_reason
           FROM sessions
          WHERE ($1::uuid IS NULL OR allocation_id = $1)
            AND ($2::uuid[] IS NULL OR project_id = ANY ($2))",
    ])
    .bind(filter.allocation_id)
    .bind(filter.projects.as_deref());
    let mut conn = pool.acquire().await?;
    selection.page(&mut conn, statement, wanted).await
}

/// One session of these projects.
pub(crate) async fn find(
    pool: &PgPool,
    projects: &[Uuid],
    id: Uuid,
) -> sqlx::Result<Option<SessionRow>> {
    let mut conn = pool.acquire().await?;
    let found = get(&mut conn, id).await?;
    Ok(found.filter(|row| projects.contains(&row.project_id)))
}

/// One session of any project.
pub(crate) async fn get(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query_as(
        "SELECT id, allocation_id, project_id, principal, open_time, close_time, close_reason, recording, recording_bytes, kind,
                end_request_time, end_reason
           FROM sessions WHERE id = $1",
    )
    .bind(id)
    .fetch_optional(conn)
    .await
}

/// The same, locked until the transaction ends.
pub(crate) async fn lock(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query("SELECT FROM sessions WHERE id = $1 FOR UPDATE")
        .bind(id)
        .execute(&mut *conn)
        .await?;
    get(conn, id).await
}

/// How many sessions a principal has open. Until the transaction ends, nobody else counts the same principal.
pub(crate) async fn count_open(conn: &mut PgConnection, principal: &str) -> sqlx::Result<i64> {
    sqlx::query("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))")
        .bind(principal)
        .execute(&mut *conn)
        .await?;
    sqlx::query_scalar("SELECT count(*) FROM sessions WHERE principal = $1 AND close_time IS NULL")
        .bind(principal)
        .fetch_one(conn)
        .await
}

/// Writes an open session; returns when it was opened.
pub(crate) async fn insert(
    conn: &mut PgConnection,
    session: &NewSession<'_>,
) -> sqlx::Result<Timestamp> {
    sqlx::query_scalar(
        "INSERT INTO sessions (id, allocation_id, project_id, principal, origin, replica, recording, kind)
         VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $7 THEN 'kept' ELSE 'off' END, $8) RETURNING open_time",
    )
    .bind(session.id)
    .bind(session.allocation_id)
    .bind(session.project_id)
    .bind(session.principal)
    .bind(session.origin)
    .bind(session.replica)
    .bind(session.recorded)
    .bind(session.kind.name())
    .fetch_one(conn)
    .await
}

/// Closes a session and returns it; none when it is closed already.
pub(crate) async fn close(
    conn: &mut PgConnection,
    id: Uuid,
    reason: &str,
) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query_as(
        "UPDATE sessions SET close_time = greatest(clock_timestamp(), open_time), close_reason = $2
          WHERE id = $1 AND close_time IS NULL
          RETURNING id, allocation_id, project_id, principal, open_time, close_time, close_reason, recording, recording_bytes, kind,
                    end_request_time, end_reason",
    )
    .bind(id)
    .bind(reason)
    .fetch_optional(conn)
    .await
}

/// Notes that a session that is open is to end, once, for an operator with the reason; returns what it is then. `None` when it has ended, or its end was requested before.
pub(crate) async fn request_end(
    conn: &mut PgConnection,
    id: Uuid,
    reason: &str,
) -> sqlx::Result<Option<SessionRow>> {
    sqlx::query_as(
        "UPDATE sessions SET end_request_time = clock_timestamp(), end_reason = $2
          WHERE id = $1 AND close_time IS NULL AND end_request_time IS NULL
          RETURNING id, allocation_id, project_id, principal, open_time, close_time, close_reason, recording, recording_bytes, kind,
                    end_request_time, end_reason",
    )
    .bind(id)
    .bind(reason)
    .fetch_optional(conn)
    .await
}

/// Why a session is to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ToEnd {
    ByUser,
    /// With the operator's reason.
    ByOperator(String),
    /// Its row is closed, and nobody had requested that.
    Closed,
}

/// Which of these sessions are to end, and why. One without a row yet is not among them.
pub(crate) async fn to_end(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<Vec<(Uuid, ToEnd)>> {
    let rows: Vec<(Uuid, bool, String)> = sqlx::query_as(
        "SELECT id, end_request_time IS NOT NULL, end_reason FROM sessions
          WHERE id = ANY ($1) AND (close_time IS NOT NULL OR end_request_time IS NOT NULL)",
    )
    .bind(ids)
    .fetch_all(pool)
    .await?;
    let why = |(id, is_requested, reason): (Uuid, bool, String)| match (is_requested, &*reason) {
        (false, _) => (id, ToEnd::Closed),
        (true, "") => (id, ToEnd::ByUser),
        (true, _) => (id, ToEnd::ByOperator(reason)),
    };
    Ok(rows.into_iter().map(why).collect())
}

/// Says that these sessions still run.
pub(crate) async fn record_running(pool: &PgPool, ids: &[Uuid]) -> sqlx::Result<()> {
    sqlx::query("UPDATE sessions SET seen_time = clock_timestamp() WHERE id = ANY ($1) AND close_time IS NULL")
        .bind(ids)
        .execute(pool)
        .await
        .map(drop)
}

/// Open sessions that no process has run for `seconds`, locked: id, principal, allocation.
pub(crate) async fn lost(
    conn: &mut PgConnection,
    seconds: f64,
) -> sqlx::Result<Vec<(Uuid, String, Uuid)>> {
    sqlx::query_as(
        "SELECT id, principal, allocation_id FROM sessions
          WHERE close_time IS NULL AND seen_time < clock_timestamp() - make_interval(secs => $1)
          ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED",
    )
    .bind(seconds)
    .fetch_all(conn)
    .await
}
