//! Events of what this schema holds: queued for webhooks in the transaction of the change.
use gpuaas_common::id::IdGen;
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
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
