//! Who calls: a principal with all that decides what it may do.
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, PgExecutor, PgPool, Row as _};
use uuid::Uuid;

use super::principal::{self, Principal, PrincipalKind};
use crate::auth::verify::Identity;

/// A principal that is not disabled, with its projects, its organisations and what those forbid, the allocations that it has a
/// grant for and the scopes of its keys: of the one key it calls with ($3), or of all that are good when no key is named. One that
/// calls by keys and has no good one is not found.
macro_rules! select {
    ($by:literal) => {
        concat!(
            "SELECT p.id, p.name, p.kind, p.email, coalesce(extract(epoch FROM p.email_issue_time), 0)::bigint AS email_issued,
                    p.platform_role, a.projects, a.roles, a.owners, a.suspended,
                    o.organisations, o.organisation_roles,
                    r.guardrails, g.granted_allocations, g.granted_projects, g.granted_permissions, s.principal_id IS NOT NULL AS has_keys,
                    coalesce(k.scopes, '{}') AS scopes
               FROM principals p
               CROSS JOIN LATERAL (
                    SELECT coalesce(array_agg(project_id ORDER BY since, project_id), '{}') AS projects,
                           coalesce(array_agg(role ORDER BY since, project_id), '{}') AS roles,
                           coalesce(array_agg(organisation_id ORDER BY since, project_id), '{}') AS owners,
                           coalesce(array_agg(project_id) FILTER (WHERE g.state = 'suspended'), '{}') AS suspended
                      FROM access_of(p.id) g JOIN projects j ON j.id = g.project_id
                     WHERE g.state <> 'closed') a
               CROSS JOIN LATERAL (
                    SELECT coalesce(array_agg(m.organisation_id ORDER BY m.organisation_id), '{}') AS organisations,
                           coalesce(array_agg(m.role ORDER BY m.organisation_id), '{}') AS organisation_roles
                      FROM organisation_memberships m JOIN organisations o ON o.id = m.organisation_id
                     WHERE m.principal_id = p.id AND o.state <> 'closed') o
               CROSS JOIN LATERAL (
                    SELECT coalesce(jsonb_agg(to_jsonb(f) || jsonb_build_object('organisation', n.slug)), '[]') AS guardrails
                      FROM organisation_guardrails f JOIN organisations n ON n.id = f.organisation_id
                     WHERE f.organisation_id = ANY (a.owners || o.organisations)) r
               CROSS JOIN LATERAL (
                    SELECT coalesce(array_agg(allocation_id ORDER BY id), '{}') AS granted_allocations,
                           coalesce(array_agg(project_id ORDER BY id), '{}') AS granted_projects,
                           coalesce(array_agg(permission ORDER BY id), '{}') AS granted_permissions
                      FROM allocation_grants
                     WHERE principal_id = p.id AND expire_time > clock_timestamp()) g
               LEFT JOIN service_accounts s ON s.principal_id = p.id
               LEFT JOIN LATERAL (
                    SELECT array_agg(DISTINCT scope) AS scopes
                      FROM api_keys k CROSS JOIN LATERAL unnest(k.scopes) scope
                     WHERE k.principal_id = s.principal_id AND k.disable_time IS NULL
                       AND (k.expire_time IS NULL OR k.expire_time > clock_timestamp())
                       AND ($3::uuid IS NULL OR k.id = $3)) k ON true
              WHERE p.disable_time IS NULL AND (s.principal_id IS NULL OR k.scopes IS NOT NULL) AND ",
            $by
        )
    };
}

/// The principal behind a checked token; `None` when it is not registered or disabled, or when the API key or the SSH
/// key that it came with is no longer good. A role on the platform gives it nothing without the second factor.
///
/// # Errors
/// Database errors.
pub async fn find_principal(pool: &PgPool, identity: &Identity) -> sqlx::Result<Option<Principal>> {
    let row = sqlx::query(select!(
        "p.issuer = $1 AND p.subject = $2
         AND ($4::text IS NULL OR EXISTS (SELECT FROM ssh_keys h WHERE h.principal_id = p.id AND h.fingerprint = $4))"
    ))
        .bind(&identity.issuer)
        .bind(&identity.subject)
        .bind(identity.key)
        .bind(&identity.ssh_key)
        .fetch_optional(pool)
        .await?;
    let found = row.map(|row| principal::read(&row)).transpose()?;
    Ok(match identity.second_factor {
        true => found,
        false => found.map(Principal::without_second_factor),
    })
}

/// The principal of a name, for what it began before; `None` when it is disabled, or has no API key that is good and calls
/// by keys.
///
/// # Errors
/// Database errors.
pub async fn principal_of_name(
    conn: impl PgExecutor<'_>,
    name: &str,
) -> sqlx::Result<Option<Principal>> {
    let row = sqlx::query(select!("p.name = $1 AND $2::text IS NULL"))
        .bind(name)
        .bind(None::<&str>)
        .bind(None::<Uuid>)
        .fetch_optional(conn)
        .await?;
    row.map(|row| principal::read(&row)).transpose()
}

/// What an activity shows of a principal.
pub struct Actor {
    /// Its stable name.
    pub name: String,
    /// User or service account.
    pub kind: PrincipalKind,
    /// It has a role on the platform.
    pub on_platform: bool,
}

/// Those of these names that principals have.
///
/// # Errors
/// Database errors.
pub async fn actors(conn: &mut PgConnection, names: &[&str]) -> sqlx::Result<Vec<Actor>> {
    let rows = sqlx::query(
        "SELECT name, kind, platform_role IS NOT NULL AS on_platform FROM principals WHERE name = ANY ($1)",
    )
    .bind(names)
    .fetch_all(conn)
    .await?;
    let read = |row: &PgRow| -> sqlx::Result<Actor> {
        Ok(Actor {
            name: row.try_get("name")?,
            kind: principal::decode(row, "kind", PrincipalKind::parse)?,
            on_platform: row.try_get("on_platform")?,
        })
    };
    rows.iter().map(read).collect()
}
