//! What is delivered to webhooks, and which gateway has it in hand.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, PgPool, Row as _};
use uuid::Uuid;

use super::webhooks::disable_webhook;

/// Deliveries that may be in hand for one webhook at once, by all gateways; for one that fails it is 1.
const PER_WEBHOOK: i64 = 4;
/// Deliveries that are removed in one statement.
const SWEEP: u64 = 10_000;

/// A delivery, without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Id.
    pub id: Uuid,
    /// To which webhook.
    pub webhook: Uuid,
    /// For example "allocation.active".
    pub event_type: String,
    /// What the event is about.
    pub object: Uuid,
    /// "pending", "delivered" or "failed".
    pub state: String,
    /// So far.
    pub attempts: i32,
    /// HTTP status of the last answer; 0: none.
    pub response_status: i32,
    /// Why the last attempt failed.
    pub error: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// When it was attempted last.
    pub last_attempt_time: Option<Timestamp>,
    /// When it is attempted next, while it is pending.
    pub next_attempt_time: Timestamp,
    /// When it succeeded.
    pub deliver_time: Option<Timestamp>,
}

const COLUMNS: &str = "id, webhook_id, event_type, object_id, state, attempts, response_status, error, create_time, \
     last_attempt_time, next_attempt_time, deliver_time";

impl FromRow<'_, PgRow> for DeliveryRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<DeliveryRow> {
    Ok(DeliveryRow {
        id: row.try_get("id")?,
        webhook: row.try_get("webhook_id")?,
        event_type: row.try_get("event_type")?,
        object: row.try_get("object_id")?,
        state: row.try_get("state")?,
        attempts: row.try_get("attempts")?,
        response_status: row.try_get("response_status")?,
        error: row.try_get("error")?,
        create_time: row.try_get("create_time")?,
        last_attempt_time: row.try_get("last_attempt_time")?,
        next_attempt_time: row.try_get("next_attempt_time")?,
        deliver_time: row.try_get("deliver_time")?,
    })
}

/// Queues one delivery that is no event of the log.
///
/// # Errors
/// Database errors.
pub async fn insert_ping(
    conn: &mut PgConnection,
    id: Uuid,
    webhook: Uuid,
    event_type: &str,
    body: &str,
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO webhook_deliveries (id, webhook_id, event_type, object_id, body) VALUES ($1, $2, $3, $2, $4)",
    )
    .bind(id)
    .bind(webhook)
    .bind(event_type)
    .bind(body)
    .execute(conn)
    .await?;
    Ok(())
}

/// One delivery of a webhook.
///
/// # Errors
/// Database errors.
pub async fn find_delivery(
    conn: &mut PgConnection,
    webhook: Uuid,
    id: Uuid,
) -> sqlx::Result<Option<DeliveryRow>> {
    let row = sqlx::query(sqlx::AssertSqlSafe(format!(
        "SELECT {COLUMNS} FROM webhook_deliveries WHERE webhook_id = $1 AND id = $2"
    )))
    .bind(webhook)
    .bind(id)
    .fetch_optional(conn)
    .await?;
    row.as_ref().map(read).transpose()
}

/// What the list of a webhook's deliveries can be selected by.
pub static DELIVERIES: Catalog = Catalog {
    fields: &[
        ID,
        Field::sortable("event_type", Kind::Text, "listed.event_type"),
        Field::new("object_id", Kind::Id, "listed.object_id"),
        Field::sortable(
            "state",
            Kind::OneOf(&["pending", "delivered", "failed"]),
            "listed.state",
        ),
        Field::sortable("attempts", Kind::Number, "listed.attempts"),
        Field::sortable("response_status", Kind::Number, "listed.response_status"),
        Field::new("error", Kind::Text, "listed.error"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::new("last_attempt_time", Kind::Time, "listed.last_attempt_time"),
        Field::new("deliver_time", Kind::Time, "listed.deliver_time"),
    ],
    key: ID,
    // newest first, by an index: there are many
    order: "id desc",
};

const ID: Field = Field::sortable("id", Kind::Id, "listed.id");

/// A page of the deliveries of a webhook that a caller selects, of one state when it is given, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_deliveries(
    conn: &mut PgConnection,
    webhook: Uuid,
    state: Option<&str>,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<DeliveryRow>, String)> {
    let statement = Statement::new(&[
        "SELECT ",
        COLUMNS,
        " FROM webhook_deliveries WHERE webhook_id = $1 AND ($2::text IS NULL OR state = $2)",
    ])
    .bind(webhook)
    .bind(state);
    selection.page(conn, statement, wanted).await
}

/// Queues a delivery that has ended again; `false` when it is pending still.
///
/// # Errors
/// Database errors.
pub async fn requeue_delivery(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE webhook_deliveries SET state = 'pending', tries = 0, queue_time = clock_timestamp(),
                next_attempt_time = clock_timestamp(), deliver_time = NULL, lease_expire_time = NULL
          WHERE id = $1 AND state <> 'pending'",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(done.rows_affected() > 0)
}

/// A delivery in hand.
#[derive(Clone)]
pub struct Taken {
    /// Id.
    pub id: Uuid,
    /// To which webhook.
    pub webhook: Uuid,
    /// This attempt's number: a result counts for it alone.
    pub attempt: i32,
    /// Attempts since it was queued, with this one.
    pub tries: i32,
    /// Where it goes.
    pub url: String,
    /// What goes.
    pub body: String,
    /// The sealed secrets that sign now, the newest first.
    pub secrets: Vec<Vec<u8>>,
    /// Since when it is pending.
    pub queue_time: Timestamp,
    /// Since when no delivery of the webhook has succeeded.
    pub failing_time: Option<Timestamp>,
}

/// How many deliveries a gateway can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeliveryLimits {
    /// In all.
    pub all: i64,
    /// Of webhooks that fail.
    pub failing: i64,
}

/// Takes deliveries that are due, for so many seconds. Of one object the first pending one goes alone, so that they arrive in
/// order; what another gateway takes just now is passed over. Webhooks that answer come before those that fail, and
/// organisations take turns, so that nobody waits for the endpoints of others.
///
/// # Errors
/// Database errors.
pub async fn take_deliveries(
    pool: &PgPool,
    limits: DeliveryLimits,
    lease_seconds: f64,
) -> sqlx::Result<Vec<Taken>> {
    let rows = sqlx::query(
        "WITH busy AS (
             SELECT l.webhook_id, count(*) AS deliveries FROM webhook_deliveries l
              WHERE l.state = 'pending' AND l.lease_expire_time >= clock_timestamp() GROUP BY l.webhook_id),
         takers AS (
             SELECT w.id, coalesce(w.organisation_id, p.organisation_id) AS organisation, w.failing_time IS NOT NULL AS failing,
                    coalesce(b.deliveries, 0) AS busy,
                    sum(coalesce(b.deliveries, 0)) OVER (PARTITION BY coalesce(w.organisation_id, p.organisation_id))
                        AS organisation_busy
               FROM webhooks w
               LEFT JOIN projects p ON p.id = w.project_id
               LEFT JOIN busy b ON b.webhook_id = w.id
              WHERE w.state = 'enabled'),
         candidates AS (
             SELECT d.id, d.next_attempt_time, t.failing,
                    t.organisation_busy + row_number() OVER (PARTITION BY t.organisation ORDER BY t.failing, d.next_attempt_time)
                        AS turn
               FROM takers t
              CROSS JOIN LATERAL (
                    SELECT c.id, c.next_attempt_time FROM webhook_deliveries c
                     WHERE c.webhook_id = t.id AND c.state = 'pending' AND c.next_attempt_time <= clock_timestamp()
                       AND (c.lease_expire_time IS NULL OR c.lease_expire_time < clock_timestamp())
                       AND NOT EXISTS (SELECT FROM webhook_deliveries p
                                        WHERE p.webhook_id = c.webhook_id AND p.object_id = c.object_id
                                          AND p.state = 'pending' AND p.seq < c.seq)
                     ORDER BY c.next_attempt_time
                     LIMIT greatest(0, CASE WHEN t.failing THEN 1 ELSE $3 END - t.busy)
                       FOR UPDATE SKIP LOCKED) d),
         ranked AS (
             SELECT id, failing, turn, next_attempt_time,
                    row_number() OVER (PARTITION BY failing ORDER BY turn, next_attempt_time) AS place
               FROM candidates),
         due AS (
             SELECT id FROM ranked WHERE NOT failing OR place <= $4
              ORDER BY failing, turn, next_attempt_time LIMIT $1)
         UPDATE webhook_deliveries d
            SET attempts = d.attempts + 1, tries = d.tries + 1, last_attempt_time = clock_timestamp(),
                lease_expire_time = clock_timestamp() + make_interval(secs => $2)
           FROM due, webhooks w
          WHERE d.id = due.id AND w.id = d.webhook_id
         RETURNING d.id, d.webhook_id, d.attempts, d.tries, d.body, d.queue_time, w.url, w.secret, w.failing_time,
                   CASE WHEN w.previous_expire_time > clock_timestamp() THEN w.previous_secret END AS previous",
    )
    .bind(limits.all)
    .bind(lease_seconds)
    .bind(PER_WEBHOOK)
    .bind(limits.failing)
    .fetch_all(pool)
    .await?;
    rows.iter()
        .map(|row| {
            let previous: Option<Vec<u8>> = row.try_get("previous")?;
            let secret: Vec<u8> = row.try_get("secret")?;
            Ok(Taken {
                id: row.try_get("id")?,
                webhook: row.try_get("webhook_id")?,
                attempt: row.try_get("attempts")?,
                tries: row.try_get("tries")?,
                url: row.try_get("url")?,
                body: row.try_get("body")?,
                secrets: std::iter::once(secret).chain(previous).collect(),
                queue_time: row.try_get("queue_time")?,
                failing_time: row.try_get("failing_time")?,
            })
        })
        .collect()
}

/// What became of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempted {
    /// HTTP status of the answer; 0: none.
    pub status: u16,
    /// Why it failed; empty when it did not.
    pub error: String,
    /// What comes next.
    pub next: Next,
}

/// What comes after an attempt.
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// Nothing: it succeeded.
    Done,
    /// Another attempt after so many seconds.
    Again(f64),
    /// Nothing: it is too old.
    Never,
    /// Nothing for the whole webhook, for this reason.
    Disable(String),
}

/// Notes what became of an attempt, unless somebody else has the delivery by now. `true` when the webhook was disabled.
///
/// # Errors
/// Database errors.
pub async fn note_attempt(
    conn: &mut PgConnection,
    taken: &Taken,
    outcome: &Attempted,
) -> sqlx::Result<bool> {
    // first, as who disables it does
    sqlx::query("SELECT FROM webhooks WHERE id = $1 FOR NO KEY UPDATE")
        .bind(taken.webhook)
        .execute(&mut *conn)
        .await?;
    let (state, pause) = match &outcome.next {
        Next::Done => ("delivered", 0.0),
        Next::Again(seconds) => ("pending", *seconds),
        Next::Never | Next::Disable(_) => ("failed", 0.0),
    };
    let done = sqlx::query(
        "UPDATE webhook_deliveries SET state = $3, response_status = $4, error = $5, lease_expire_time = NULL,
                next_attempt_time = clock_timestamp() + make_interval(secs => $6),
                deliver_time = CASE WHEN $3 = 'delivered' THEN clock_timestamp() END
          WHERE id = $1 AND attempts = $2 AND state = 'pending'",
    )
    .bind(taken.id)
    .bind(taken.attempt)
    .bind(state)
    .bind(i32::from(outcome.status))
    .bind(&outcome.error)
    .bind(pause)
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    move_followers(conn, taken.id, state == "pending").await?;
    match &outcome.next {
        Next::Done => {
            sqlx::query(
                "UPDATE webhooks SET failing_time = NULL WHERE id = $1 AND failing_time IS NOT NULL",
            )
            .bind(taken.webhook)
            .execute(conn)
            .await?;
            Ok(false)
        }
        Next::Disable(reason) => disable_webhook(conn, taken.webhook, reason).await,
        Next::Again(_) | Next::Never => {
            sqlx::query(
                "UPDATE webhooks SET failing_time = clock_timestamp() WHERE id = $1 AND failing_time IS NULL",
            )
            .bind(taken.webhook)
            .execute(conn)
            .await?;
            Ok(false)
        }
    }
}

/// Those of the same object that wait for a delivery are due when it is, so that the many that wait for an endpoint which does not
/// answer are not looked at in vain; once it has ended they are due now.
async fn move_followers(conn: &mut PgConnection, id: Uuid, waits: bool) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE webhook_deliveries f
            SET next_attempt_time = CASE WHEN $2 THEN greatest(f.next_attempt_time, d.next_attempt_time)
                                         ELSE least(f.next_attempt_time, clock_timestamp()) END
           FROM webhook_deliveries d
          WHERE d.id = $1 AND f.webhook_id = d.webhook_id AND f.object_id = d.object_id AND f.state = 'pending'
            AND f.seq > d.seq",
    )
    .bind(id)
    .bind(waits)
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes deliveries that are older than so many days and have ended.
///
/// # Errors
/// Database errors.
pub async fn sweep_deliveries(pool: &PgPool, days: u32) -> sqlx::Result<u64> {
    let mut removed = 0;
    loop {
        let done = sqlx::query(
            "DELETE FROM webhook_deliveries WHERE id IN (
                 SELECT id FROM webhook_deliveries
                  WHERE state <> 'pending' AND create_time < clock_timestamp() - make_interval(days => $1)
                  ORDER BY create_time LIMIT $2 FOR UPDATE SKIP LOCKED)",
        )
        .bind(i32::try_from(days).unwrap_or(i32::MAX))
        .bind(SWEEP as i64)
        .execute(pool)
        .await?;
        removed += done.rows_affected();
        if done.rows_affected() < SWEEP {
            return Ok(removed);
        }
    }
}
