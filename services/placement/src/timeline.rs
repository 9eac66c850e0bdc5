//! The timeline of an allocation: numbered entries, oldest first, without gaps (C-37..C-40).
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use serde_json::Value;
use sqlx::PgConnection;
use uuid::Uuid;

/// State of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It goes on.
    Running,
    /// It is done, or it is a mere event.
    Done,
    Failed,
}

impl State {
    /// The value in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
        }
    }
}

/// One entry as stored.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Entry {
    /// Number within the allocation, from 1.
    pub sequence: i64,
    /// Step or event, for example `provision.clone`.
    pub step: String,
    /// `running`, `done` or `failed`.
    pub state: String,
    /// 0 to 100.
    pub percent: i16,
    /// A sentence for the user.
    pub message: String,
    /// `{reason, message}` of a failure.
    pub error: Option<Value>,
    /// When it began.
    pub at: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// At whose request: a principal or [`OPERATOR`]; empty: the platform itself.
    pub actor: String,
    /// The operator's reason.
    pub reason: String,
}

/// Whom tenants read of instead of an operator's name.
pub const OPERATOR: &str = "operator";

/// Appends an entry and returns its sequence number.
///
/// # Errors
/// A unique violation when the step is already running; use [`record`] to update a step.
pub async fn append(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    step: &str,
    state: State,
    message: &str,
) -> sqlx::Result<i64> {
    insert(
        conn,
        allocation_id,
        step,
        state,
        if state == State::Done { 100 } else { 0 },
        message,
        None,
    )
    .await
}

/// Notes at whose request the last entry of an allocation came to be, and why.
///
/// # Errors
/// Those of the database.
pub async fn attribute(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    actor: &str,
    reason: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE timeline SET actor = $2, reason = $3
          WHERE allocation_id = $1
            AND sequence = (SELECT last FROM timeline_heads WHERE allocation_id = $1)",
    )
    .bind(allocation_id)
    .bind(actor)
    .bind(reason)
    .execute(conn)
    .await?;
    Ok(())
}

/// Tells of a step: updates its entry when one is running, appends otherwise. Telling the same twice is harmless,
/// so a workflow that is resumed may repeat itself.
///
/// # Errors
/// Those of the database.
pub async fn record(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    step: &str,
    state: State,
    percent: i16,
    message: &str,
    error: Option<&Value>,
) -> sqlx::Result<()> {
    let updated = sqlx::query(
        "UPDATE timeline
            SET state = $3, percent = $4, message = $5, error = $6,
                ended_at = CASE WHEN $3 = 'running' THEN NULL ELSE greatest(clock_timestamp(), at) END
          WHERE allocation_id = $1 AND step = $2 AND state = 'running'",
    )
    .bind(allocation_id)
    .bind(step)
    .bind(state.as_str())
    .bind(percent)
    .bind(message)
    .bind(error)
    .execute(&mut *conn)
    .await?
    .rows_affected();
    if updated == 0 {
        insert(conn, allocation_id, step, state, percent, message, error).await?;
    }
    Ok(())
}

/// Ends every entry that still runs, as failed: the work behind them was given up.
///
/// # Errors
/// Those of the database.
pub async fn end_running(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    message: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE timeline SET state = 'failed', message = $2, ended_at = greatest(clock_timestamp(), at)
          WHERE allocation_id = $1 AND state = 'running'",
    )
    .bind(allocation_id)
    .bind(message)
    .execute(conn)
    .await?;
    Ok(())
}

/// What a timeline can be selected by.
pub static TIMELINE: Catalog = Catalog {
    fields: &[
        Field::sortable("sequence", Kind::Number, "listed.sequence"),
        Field::sortable("time", Kind::Time, "listed.at"),
        Field::new("end_time", Kind::Time, "listed.ended_at"),
        Field::sortable("step", Kind::Text, "listed.step"),
        Field::sortable(
            "state",
            Kind::OneOf(&["running", "done", "failed"]),
            "listed.state",
        ),
        Field::new("message", Kind::Text, "listed.message"),
        Field::new("actor", Kind::Text, "listed.actor"),
        Field::new("reason", Kind::Text, "listed.reason"),
    ],
    key: Field::new("sequence", Kind::Number, "listed.sequence"),
    order: "",
};

/// A page of the entries that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; those of the database.
pub async fn list(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<Entry>, String)> {
    let statement = Statement::new(&[
        "SELECT sequence, step, state, percent, message, error, at, ended_at, actor, reason FROM timeline
          WHERE allocation_id = $1",
    ])
    .bind(allocation_id);
    selection.page(conn, statement, wanted).await
}

/// The latest entries, oldest first, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn latest(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    limit: i64,
) -> sqlx::Result<Vec<Entry>> {
    sqlx::query_as(
        "SELECT * FROM (SELECT sequence, step, state, percent, message, error, at, ended_at, actor, reason FROM timeline
                         WHERE allocation_id = $1 ORDER BY sequence DESC LIMIT $2) latest ORDER BY sequence",
    )
    .bind(allocation_id)
    .bind(limit)
    .fetch_all(conn)
    .await
}

/// An entry with the number of its last change within the allocation.
#[derive(Debug, Clone, sqlx::FromRow)]
pub struct Changed {
    /// Grows with every change of any entry.
    pub change: i64,
    /// The entry as it is now.
    #[sqlx(flatten)]
    pub entry: Entry,
}

/// Entries that were made or changed after a change, in the order of their last change, at most `limit`.
///
/// # Errors
/// Those of the database.
pub async fn changed(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    after_change: i64,
    limit: i64,
) -> sqlx::Result<Vec<Changed>> {
    sqlx::query_as(
        "SELECT change, sequence, step, state, percent, message, error, at, ended_at, actor, reason FROM timeline
          WHERE allocation_id = $1 AND change > $2 ORDER BY change LIMIT $3",
    )
    .bind(allocation_id)
    .bind(after_change)
    .bind(limit)
    .fetch_all(conn)
    .await
}

/// The number of the last change of these allocations' timelines; one without a timeline is left out.
///
/// # Errors
/// Those of the database.
pub async fn last_changes(
    conn: &mut PgConnection,
    allocation_ids: &[Uuid],
) -> sqlx::Result<Vec<(Uuid, i64)>> {
    sqlx::query_as(
        "SELECT allocation_id, changes FROM timeline_heads WHERE allocation_id = ANY ($1)",
    )
    .bind(allocation_ids)
    .fetch_all(conn)
    .await
}

async fn insert(
    conn: &mut PgConnection,
    allocation_id: Uuid,
    step: &str,
    state: State,
    percent: i16,
    message: &str,
    error: Option<&Value>,
) -> sqlx::Result<i64> {
    sqlx::query_scalar(
        "WITH head AS (
             INSERT INTO timeline_heads (allocation_id, last) VALUES ($1, 1)
             ON CONFLICT (allocation_id) DO UPDATE SET last = timeline_heads.last + 1
             RETURNING last)
         INSERT INTO timeline (allocation_id, sequence, step, state, percent, message, error, ended_at)
         SELECT $1, last, $2, $3, $4, $5, $6, CASE WHEN $3 = 'running' THEN NULL ELSE clock_timestamp() END FROM head
         RETURNING sequence",
    )
    .bind(allocation_id)
    .bind(step)
    .bind(state.as_str())
    .bind(percent)
    .bind(message)
    .bind(error)
    .fetch_one(conn)
    .await
}
