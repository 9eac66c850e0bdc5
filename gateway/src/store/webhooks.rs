//! Endpoints that events are delivered to.
use gpuaas_common::select::{Catalog, Field, Kind, Selection, Statement, Wanted};
use jiff_sqlx::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{FromRow, PgConnection, Row as _};
use uuid::Uuid;

use super::members::Group;

/// A webhook. What seals its secrets is not read with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookRow {
    /// Id.
    pub id: Uuid,
    /// Whose events it gets.
    pub group: Group,
    /// Where they go.
    pub url: String,
    /// Sorted; empty: all.
    pub event_types: Vec<String>,
    /// For people.
    pub description: String,
    /// It gets events.
    pub enabled: bool,
    /// Why it does not.
    pub disable_reason: String,
    /// Since when it does not.
    pub disable_time: Option<Timestamp>,
    /// Since when no delivery has succeeded.
    pub failing_time: Option<Timestamp>,
    /// Until when the secret before signs as well; in the past when it does not any more.
    pub previous_expire_time: Option<Timestamp>,
    /// Principal who made it.
    pub creator: String,
    /// When it was made.
    pub create_time: Timestamp,
    /// When somebody changed it last.
    pub update_time: Timestamp,
    /// Grows with every change of a caller.
    pub version: i64,
}

impl FromRow<'_, PgRow> for WebhookRow {
    fn from_row(row: &PgRow) -> sqlx::Result<Self> {
        read(row)
    }
}

fn read(row: &PgRow) -> sqlx::Result<WebhookRow> {
    let project: Option<Uuid> = row.try_get("project_id")?;
    let organisation: Option<Uuid> = row.try_get("organisation_id")?;
    let group = project
        .map(Group::Project)
        .or(organisation.map(Group::Organisation))
        .ok_or(sqlx::Error::RowNotFound)?;
    let state: &str = row.try_get("state")?;
    Ok(WebhookRow {
        id: row.try_get("id")?,
        group,
        url: row.try_get("url")?,
        event_types: row.try_get("event_types")?,
        description: row.try_get("description")?,
        enabled: state == "enabled",
        disable_reason: row.try_get("disable_reason")?,
        disable_time: row.try_get("disable_time")?,
        failing_time: row.try_get("failing_time")?,
        previous_expire_time: row.try_get("previous_expire_time")?,
        creator: row.try_get("creator")?,
        create_time: row.try_get("create_time")?,
        update_time: row.try_get("update_time")?,
        version: row.try_get("version")?,
    })
}

fn columns(group: Group) -> (Option<Uuid>, Option<Uuid>) {
    match group {
        Group::Project(id) => (Some(id), None),
        Group::Organisation(id) => (None, Some(id)),
    }
}

/// A webhook to make.
#[derive(Clone, Copy, Debug)]
pub struct NewWebhook<'a> {
    /// Id.
    pub id: Uuid,
    /// Whose events it gets.
    pub group: Group,
    /// Where they go.
    pub url: &'a str,
    /// Sorted; empty: all.
    pub event_types: &'a [String],
    /// For people.
    pub description: &'a str,
    /// Its secret, sealed.
    pub secret: &'a [u8],
    /// Principal who makes it.
    pub creator: &'a str,
}

/// Adds a webhook.
///
/// # Errors
/// Database errors.
pub async fn insert_webhook(conn: &mut PgConnection, new: &NewWebhook<'_>) -> sqlx::Result<()> {
    let (project, organisation) = columns(new.group);
    sqlx::query(
        "INSERT INTO webhooks (id, project_id, organisation_id, url, event_types, description, secret, creator)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    )
    .bind(new.id)
    .bind(project)
    .bind(organisation)
    .bind(new.url)
    .bind(new.event_types)
    .bind(new.description)
    .bind(new.secret)
    .bind(new.creator)
    .execute(conn)
    .await?;
    Ok(())
}

/// One webhook.
///
/// # Errors
/// Database errors.
pub async fn find_webhook(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<WebhookRow>> {
    let row = sqlx::query("SELECT * FROM webhooks WHERE id = $1")
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// The same, locked.
///
/// # Errors
/// Database errors.
pub async fn lock_webhook(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<Option<WebhookRow>> {
    let row = sqlx::query("SELECT * FROM webhooks WHERE id = $1 FOR NO KEY UPDATE")
        .bind(id)
        .fetch_optional(conn)
        .await?;
    row.as_ref().map(read).transpose()
}

/// What a list of webhooks can be selected by.
pub static WEBHOOKS: Catalog = Catalog {
    fields: &[
        Field::sortable("url", Kind::Text, "listed.url"),
        Field::new("description", Kind::Text, "listed.description"),
        Field::sortable(
            "state",
            Kind::OneOf(&["enabled", "disabled"]),
            "listed.state",
        ),
        Field::sortable("creator", Kind::Text, "listed.creator"),
        Field::sortable("create_time", Kind::Time, "listed.create_time"),
        Field::sortable("update_time", Kind::Time, "listed.update_time"),
        Field::new("disable_time", Kind::Time, "listed.disable_time"),
        Field::new("failing_time", Kind::Time, "listed.failing_time"),
    ],
    // the order in which they were made
    key: Field::new("id", Kind::Id, "listed.id"),
    order: "",
};

/// A page of the webhooks of a project or an organisation that a caller selects, and the token of the next one.
///
/// # Errors
/// `PAGE_TOKEN_INVALID`; database errors.
pub async fn list_webhooks(
    conn: &mut PgConnection,
    group: Group,
    selection: &Selection,
    wanted: Wanted<'_>,
) -> gpuaas_common::Result<(Vec<WebhookRow>, String)> {
    let (project, organisation) = columns(group);
    let statement =
        Statement::new(&["SELECT * FROM webhooks WHERE (project_id = $1 OR organisation_id = $2)"])
            .bind(project)
            .bind(organisation);
    selection.page(conn, statement, wanted).await
}

/// How many a project or an organisation has.
///
/// # Errors
/// Database errors.
pub async fn count_webhooks(conn: &mut PgConnection, group: Group) -> sqlx::Result<i64> {
    let (project, organisation) = columns(group);
    sqlx::query_scalar(
        "SELECT count(*) FROM webhooks WHERE project_id = $1 OR organisation_id = $2",
    )
    .bind(project)
    .bind(organisation)
    .fetch_one(conn)
    .await
}

/// Changes what a caller may change.
///
/// # Errors
/// Database errors.
pub async fn update_webhook(
    conn: &mut PgConnection,
    id: Uuid,
    (url, event_types, description): (&str, &[String], &str),
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE webhooks SET url = $2, event_types = $3, description = $4, version = version + 1,
                update_time = clock_timestamp()
          WHERE id = $1",
    )
    .bind(id)
    .bind(url)
    .bind(event_types)
    .bind(description)
    .execute(conn)
    .await?;
    Ok(())
}

/// Disables a webhook that is enabled, and ends its pending deliveries; `false` when it is disabled already.
///
/// # Errors
/// Database errors.
pub async fn disable_webhook(
    conn: &mut PgConnection,
    id: Uuid,
    reason: &str,
) -> sqlx::Result<bool> {
    let done = sqlx::query(
        "UPDATE webhooks SET state = 'disabled', disable_reason = $2, disable_time = clock_timestamp(),
                version = version + 1, update_time = clock_timestamp()
          WHERE id = $1 AND state = 'enabled'",
    )
    .bind(id)
    .bind(reason)
    .execute(&mut *conn)
    .await?;
    if done.rows_affected() == 0 {
        return Ok(false);
    }
    end_deliveries(conn, id).await?;
    Ok(true)
}

async fn end_deliveries(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE webhook_deliveries d SET state = 'failed', error = 'the webhook was disabled', lease_expire_time = NULL
           FROM webhooks w
          WHERE w.id = $1 AND w.state = 'disabled' AND d.webhook_id = w.id AND d.state = 'pending'",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Disables all webhooks of a project or an organisation, and ends their pending deliveries.
///
/// # Errors
/// Database errors.
pub async fn disable_webhooks_of(
    conn: &mut PgConnection,
    group: Group,
    reason: &str,
) -> sqlx::Result<()> {
    let (project, organisation) = columns(group);
    let enabled: Vec<Uuid> = sqlx::query_scalar(
        "SELECT id FROM webhooks WHERE (project_id = $1 OR organisation_id = $2) AND state = 'enabled' ORDER BY id",
    )
    .bind(project)
    .bind(organisation)
    .fetch_all(&mut *conn)
    .await?;
    for id in enabled {
        disable_webhook(conn, id, reason).await?;
    }
    Ok(())
}

/// Disables all webhooks of an organisation and of its projects, and ends their pending deliveries.
///
/// # Errors
/// Database errors.
pub async fn disable_webhooks_in(
    conn: &mut PgConnection,
    organisation: Uuid,
    reason: &str,
) -> sqlx::Result<()> {
    let enabled: Vec<Uuid> = sqlx::query_scalar(
        "SELECT id FROM webhooks
          WHERE (organisation_id = $1 OR project_id IN (SELECT id FROM projects WHERE organisation_id = $1))
            AND state = 'enabled' ORDER BY id",
    )
    .bind(organisation)
    .fetch_all(&mut *conn)
    .await?;
    for id in enabled {
        disable_webhook(conn, id, reason).await?;
    }
    Ok(())
}

/// Enables a webhook from now on. What was queued while it was being disabled is not for it either.
///
/// # Errors
/// Database errors.
pub async fn enable_webhook(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    end_deliveries(conn, id).await?;
    sqlx::query(
        "UPDATE webhooks SET state = 'enabled', disable_reason = '', disable_time = NULL, failing_time = NULL,
                enable_time = clock_timestamp(), version = version + 1, update_time = clock_timestamp()
          WHERE id = $1 AND state = 'disabled'",
    )
    .bind(id)
    .execute(conn)
    .await?;
    Ok(())
}

/// Puts a new sealed secret in place; the one before signs as well for so many seconds.
///
/// # Errors
/// Database errors.
pub async fn rotate_webhook_secret(
    conn: &mut PgConnection,
    id: Uuid,
    secret: &[u8],
    overlap_seconds: f64,
) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE webhooks SET previous_secret = secret,
                previous_expire_time = clock_timestamp() + make_interval(secs => $3), secret = $2,
                version = version + 1, update_time = clock_timestamp()
          WHERE id = $1",
    )
    .bind(id)
    .bind(secret)
    .bind(overlap_seconds)
    .execute(conn)
    .await?;
    Ok(())
}

/// Removes a webhook with its deliveries.
///
/// # Errors
/// Database errors.
pub async fn delete_webhook(conn: &mut PgConnection, id: Uuid) -> sqlx::Result<()> {
    sqlx::query("DELETE FROM webhooks WHERE id = $1")
        .bind(id)
        .execute(conn)
        .await?;
    Ok(())
}
