//! Events on their way to webhooks: those of the logs of other services, with how far each is read, and those of what this schema
//! holds, in the transaction of the change.
use gpuaas_common::id::IdGen;
use jiff_sqlx::Timestamp;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// Whose webhooks may know of an event: those who could read the same by the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Audience {
    /// Those of a project and of its organisation.
    Project(Uuid),
    /// Those of an organisation alone.
    Organisation(Uuid),
    /// Those of an organisation and of all of its projects.
    WholeOrganisation(Uuid),
}

/// The webhooks that take an event now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Takers {
    /// Their ids; at least one.
    pub webhooks: Vec<Uuid>,
    /// The time of the database.
    pub now: Timestamp,
}

/// The webhooks that take an event of a type now; `None` for none. They stay until the end of the transaction: one that is
/// being deleted is waited for.
///
/// # Errors
/// Database errors.
pub async fn takers(
    conn: &mut PgConnection,
    audience: Audience,
    event_type: &str,
) -> sqlx::Result<Option<Takers>> {
    let (sql, of) = match audience {
        Audience::Project(id) => (
            "SELECT w.id, clock_timestamp() FROM webhooks w
              WHERE w.state = 'enabled' AND (w.event_types = '{}' OR $2 = ANY (w.event_types))
                AND (w.project_id = $1 OR w.organisation_id = (SELECT organisation_id FROM projects WHERE id = $1))
              ORDER BY w.id FOR KEY SHARE OF w",
            id,
        ),
        Audience::Organisation(id) => (
            "SELECT w.id, clock_timestamp() FROM webhooks w
              WHERE w.state = 'enabled' AND (w.event_types = '{}' OR $2 = ANY (w.event_types))
                AND w.organisation_id = $1
              ORDER BY w.id FOR KEY SHARE OF w",
            id,
        ),
        Audience::WholeOrganisation(id) => (
            "SELECT w.id, clock_timestamp() FROM webhooks w
              WHERE w.state = 'enabled' AND (w.event_types = '{}' OR $2 = ANY (w.event_types))
                AND (w.organisation_id = $1 OR w.project_id IN (SELECT id FROM projects WHERE organisation_id = $1))
              ORDER BY w.id FOR KEY SHARE OF w",
            id,
        ),
    };
    let rows: Vec<(Uuid, Timestamp)> = sqlx::query_as(sql)
        .bind(of)
        .bind(event_type)
        .fetch_all(conn)
        .await?;
    let Some((_, now)) = rows.last() else {
        return Ok(None);
    };
    let now = *now;
    let webhooks = rows.into_iter().map(|(id, _)| id).collect();
    Ok(Some(Takers { webhooks, now }))
}

/// An event for one webhook.
#[derive(Clone, Debug)]
pub struct NewDelivery {
    /// To which webhook.
    pub webhook: Uuid,
    /// For example "project.updated".
    pub event_type: &'static str,
    /// What the event is about.
    pub object: Uuid,
    /// What goes.
    pub body: String,
}

/// Queues events, in their order.
///
/// # Errors
/// Database errors.
pub async fn insert_deliveries(
    conn: &mut PgConnection,
    ids: &IdGen,
    new: &[NewDelivery],
) -> sqlx::Result<()> {
    if new.is_empty() {
        return Ok(());
    }
    let fresh: Vec<Uuid> = new.iter().map(|_| ids.next()).collect();
    let webhooks: Vec<Uuid> = new.iter().map(|one| one.webhook).collect();
    let types: Vec<&str> = new.iter().map(|one| one.event_type).collect();
    let objects: Vec<Uuid> = new.iter().map(|one| one.object).collect();
    let bodies: Vec<&str> = new.iter().map(|one| one.body.as_str()).collect();
    sqlx::query(
        "INSERT INTO webhook_deliveries (id, webhook_id, event_type, object_id, body)
         SELECT n.id, n.webhook, n.type, n.object, n.body
           FROM unnest($1::uuid[], $2::uuid[], $3::text[], $4::uuid[], $5::text[])
                WITH ORDINALITY AS n (id, webhook, type, object, body, place)
          ORDER BY n.place",
    )
    .bind(fresh)
    .bind(webhooks)
    .bind(types)
    .bind(objects)
    .bind(bodies)
    .execute(conn)
    .await?;
    Ok(())
}

/// A log of another service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// That of the ledger.
    Ledger,
    /// That of usage, which billing has.
    Usage,
}

/// An event of a log, as it is delivered.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// In the ledger's log; none for one of another log.
    pub position: Option<i64>,
    /// For example "allocation.active".
    pub event_type: String,
    /// What it is about, for example an allocation.
    pub object: Uuid,
    /// Its project.
    pub project: Uuid,
    /// When it happened, by the log.
    pub at: Timestamp,
    /// The body.
    pub body: String,
}

/// How far a log is read.
///
/// # Errors
/// Database errors.
pub async fn webhook_position(pool: &PgPool, source: Source) -> sqlx::Result<i64> {
    let sql = match source {
        Source::Ledger => "SELECT position FROM webhook_head",
        Source::Usage => "SELECT position FROM webhook_usage_head",
    };
    sqlx::query_scalar(sql).fetch_one(pool).await
}

/// Queues events for the webhooks that take them and moves on to `to`, unless another gateway has moved on from `from`
/// already. Returns how many deliveries were made.
///
/// # Errors
/// Database errors.
pub async fn queue_deliveries(
    pool: &PgPool,
    ids: &IdGen,
    (source, from, to): (Source, i64, i64),
    events: &[Outgoing],
) -> sqlx::Result<u64> {
    let mut tx = pool.begin().await?;
    let sql = match source {
        Source::Ledger => "UPDATE webhook_head SET position = $2 WHERE position = $1",
        Source::Usage => "UPDATE webhook_usage_head SET position = $2 WHERE position = $1",
    };
    let moved = sqlx::query(sql)
        .bind(from)
        .bind(to)
        .execute(&mut *tx)
        .await?;
    if moved.rows_affected() == 0 {
        return Ok(0);
    }
    let mut made = 0;
    for event in events {
        let takers: Vec<Uuid> = sqlx::query_scalar(
            "SELECT w.id FROM projects p
               JOIN webhooks w ON w.project_id = p.id OR w.organisation_id = p.organisation_id
              WHERE p.id = $1 AND w.state = 'enabled' AND w.enable_time <= $2
                AND (w.event_types = '{}' OR $3 = ANY (w.event_types))",
        )
        .bind(event.project)
        .bind(event.at)
        .bind(&event.event_type)
        .fetch_all(&mut *tx)
        .await?;
        if takers.is_empty() {
            continue;
        }
        let new: Vec<Uuid> = takers.iter().map(|_| ids.next()).collect();
        let done = sqlx::query(
            "INSERT INTO webhook_deliveries (id, webhook_id, event_type, object_id, position, body)
             SELECT n.id, n.webhook, $3, $4, $5, $6 FROM unnest($1::uuid[], $2::uuid[]) AS n (id, webhook)
             ON CONFLICT DO NOTHING",
        )
        .bind(new)
        .bind(takers)
        .bind(&event.event_type)
        .bind(event.object)
        .bind(event.position)
        .bind(&event.body)
        .execute(&mut *tx)
        .await?;
        made += done.rows_affected();
    }
    tx.commit().await?;
    Ok(made)
}

/// Moves back to the end of a ledger's log that is shorter than what was read of it: one that was restored. The log of usage has
/// the ledger's positions, and is restored with it: what it has after that end is new, too.
///
/// # Errors
/// Database errors.
pub async fn rewind_webhooks(pool: &PgPool, from: i64, head: i64) -> sqlx::Result<()> {
    let mut tx = pool.begin().await?;
    let moved = sqlx::query("UPDATE webhook_head SET position = $2 WHERE position = $1")
        .bind(from)
        .bind(head)
        .execute(&mut *tx)
        .await?;
    if moved.rows_affected() > 0 {
        // other events will have these positions
        sqlx::query("UPDATE webhook_deliveries SET position = NULL WHERE position > $1")
            .bind(head)
            .execute(&mut *tx)
            .await?;
        sqlx::query("UPDATE webhook_usage_head SET position = $1 WHERE position > $1")
            .bind(head)
            .execute(&mut *tx)
            .await?;
    }
    tx.commit().await
}

/// Moves back to the end of a log of usage that is shorter than what was read of it: billing was restored, and puts on record once
/// more, as other intervals, what it reads of the ledger after that end.
///
/// # Errors
/// Database errors.
pub async fn rewind_usage(pool: &PgPool, from: i64, head: i64) -> sqlx::Result<()> {
    sqlx::query("UPDATE webhook_usage_head SET position = $2 WHERE position = $1")
        .bind(from)
        .bind(head)
        .execute(pool)
        .await?;
    Ok(())
}
