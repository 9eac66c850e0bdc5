//! The first rows of an empty `edge`: one organisation, one project, its principals. Safe to repeat.
use gpuaas_common::id::IdGen;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

/// A principal to register.
#[derive(Clone, Debug)]
pub struct NewPrincipal<'a> {
    /// Stable name, for example "user:admin".
    pub name: &'a str,
    /// The issuer's name for it.
    pub subject: &'a str,
    /// Whether it administers the platform.
    pub admin: bool,
}

/// What is there afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seeded {
    /// The organisation.
    pub organisation_id: Uuid,
    /// The project.
    pub project_id: Uuid,
    /// Rows that were missing.
    pub created: u64,
}

/// Creates what is missing and changes nothing that exists.
///
/// # Errors
/// Database errors, also when a name or subject is taken by another principal.
pub async fn seed(
    pool: &PgPool,
    ids: &IdGen,
    issuer: &str,
    organisation: &str,
    project: &str,
    principals: &[NewPrincipal<'_>],
) -> sqlx::Result<Seeded> {
    let mut tx = pool.begin().await?;
    let mut created = 0;
    created += sqlx::query("INSERT INTO organisations (id, slug, display_name) VALUES ($1, $2, $2) ON CONFLICT (slug) DO NOTHING")
        .bind(ids.next())
        .bind(organisation)
        .execute(&mut *tx)
        .await?
        .rows_affected();
    let organisation_id: Uuid = sqlx::query_scalar("SELECT id FROM organisations WHERE slug = $1")
        .bind(organisation)
        .fetch_one(&mut *tx)
        .await?;
    created += sqlx::query(
        "INSERT INTO projects (id, organisation_id, slug, display_name) VALUES ($1, $2, $3, $3) ON CONFLICT (organisation_id, slug) DO NOTHING",
    )
    .bind(ids.next())
    .bind(organisation_id)
    .bind(project)
    .execute(&mut *tx)
    .await?
    .rows_affected();
    let project_id: Uuid =
        sqlx::query_scalar("SELECT id FROM projects WHERE organisation_id = $1 AND slug = $2")
            .bind(organisation_id)
            .bind(project)
            .fetch_one(&mut *tx)
            .await?;
    for principal in principals {
        created += register(&mut tx, ids, issuer, project_id, principal).await?;
    }
    tx.commit().await?;
    Ok(Seeded {
        organisation_id,
        project_id,
        created,
    })
}

async fn register(
    conn: &mut PgConnection,
    ids: &IdGen,
    issuer: &str,
    project: Uuid,
    principal: &NewPrincipal<'_>,
) -> sqlx::Result<u64> {
    let mut created = sqlx::query(
        "INSERT INTO principals (id, name, issuer, subject, display_name, kind, platform_role)
         VALUES ($1, $2, $3, $4, $2, split_part($2, ':', 1), CASE WHEN $5 THEN 'admin' END)
         ON CONFLICT (issuer, subject) DO NOTHING",
    )
    .bind(ids.next())
    .bind(principal.name)
    .bind(issuer)
    .bind(principal.subject)
    .bind(principal.admin)
    .execute(&mut *conn)
    .await?
    .rows_affected();
    created += sqlx::query(
        "INSERT INTO memberships (principal_id, project_id, role)
         SELECT id, $3, 'owner' FROM principals WHERE issuer = $1 AND subject = $2 ON CONFLICT DO NOTHING",
    )
    .bind(issuer)
    .bind(principal.subject)
    .bind(project)
    .execute(conn)
    .await?
    .rows_affected();
    Ok(created)
}

/// Makes a registered principal an owner of an organisation, and answers how many rows were missing.
///
/// # Errors
/// Database errors.
pub async fn own_organisation(
    pool: &PgPool,
    organisation_id: Uuid,
    principal: &str,
) -> sqlx::Result<u64> {
    let done = sqlx::query(
        "INSERT INTO organisation_memberships (organisation_id, principal_id, role)
         SELECT $1, id, 'owner' FROM principals WHERE name = $2 ON CONFLICT DO NOTHING",
    )
    .bind(organisation_id)
    .bind(principal)
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}
