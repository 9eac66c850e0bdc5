//! SQL of the schema `edge`: who may call, and the record of denials.
mod access;
mod allocation_grants;
mod api_keys;
mod bootstrap;
mod column;
mod guardrails;
mod invitations;
mod launches;
mod logouts;
mod members;
mod organisations;
mod principal;
mod principals;
mod projects;
mod role;
mod scim;
mod scim_groups;
mod scim_people;
mod scim_select;
mod scope;
mod service_accounts;
mod ssh_keys;
mod suspensions;
mod tenant;
mod terminals;
mod webhook_deliveries;
mod webhook_events;
mod webhooks;

use std::time::Duration;

use gpuaas_common::db;
use sqlx::{PgPool, Row as _};
use uuid::Uuid;

use crate::auth::verify::Identity;

pub use access::{Actor, actors, find_principal, principal_of_name};
pub use allocation_grants::{
    ALLOCATION_GRANTS, AllocationGrantRow, AllocationPermission, NewAllocationGrant,
    count_allocation_grants, delete_allocation_grant, find_allocation_grant,
    insert_allocation_grant, list_allocation_grants,
};
pub use api_keys::{
    API_KEYS, ApiKeyRow, NewApiKey, SCIM_KEYS, ScimKeyRow, StoredKey, disable_api_key,
    expire_api_key, find_api_key, insert_api_key, known_key, list_api_keys, list_scim_keys,
    note_use,
};
pub use bootstrap::{NewPrincipal, Seeded, own_organisation, seed};
pub use guardrails::{
    Guardrails, GuardrailsRow, NO_GUARDRAILS, organisation_guardrails, put_organisation_guardrails,
};
pub use invitations::{
    INVITATIONS, InvitationRow, InvitationState, NewInvitation, accept_invitation, find_invitation,
    insert_invitation, invitation_of_token, list_invitations, lock_invitation, revoke_invitation,
};
pub use launches::{
    Begun, begin_closing, begin_launch, end_closing, end_launch, launches_under_way,
};
pub use logouts::{Logout, end_sign_in, has_signed_out, signed_out_within};
pub use members::{
    Group, MEMBERS, MemberRow, delete_member, find_member, has_other_owner, insert_member,
    is_in_organisation, list_members, set_member_role,
};
pub use organisations::{
    ORGANISATIONS, OrganisationRow, count_open_projects, find_organisation, hold_projects_of,
    insert_organisation, list_organisations, lock_organisation, lock_organisation_of,
    open_projects, rename_organisation, set_organisation_state,
};
pub use principal::{
    GrantedAllocation, PlatformRole, Principal, PrincipalKind, Role, parse_platform_role,
    platform_role_name,
};
pub use principals::{
    Disabled, NewUser, PRINCIPALS, PrincipalFilter, PrincipalRow, get_principal, insert_user,
    lock_other_admins, lock_principal, principal_by_identity, principal_by_name,
    principals_by_name, select_principals, set_disabled, set_platform_role, set_verified_email,
};
pub use projects::{
    PROJECTS, ProjectFilter, ProjectRow, find_project, find_projects, insert_project,
    list_projects, lock_project, projects_of, rename_project, set_project_state,
};
pub use scim::{
    MembershipChange, NewScimUser, ScimHome, ScimSettings, ScimUserRow, SubjectAttribute,
    changes_of, count_scim, delete_scim_user, find_scim_user, insert_scim_user, leave_organisation,
    put_scim_settings, scim_home, scim_settings, sync_member, sync_scim, update_scim_user,
};
pub use scim_groups::{
    CountedGroup, MappingRow, SCIM_GROUPS, ScimGroupRow, add_scim_members, delete_mapping,
    delete_scim_group, find_scim_group, insert_mapping, insert_scim_group, known_scim_users,
    list_mappings, list_scim_groups_of, principals_of_users, remove_scim_members, scim_members,
    update_scim_group,
};
pub use scim_people::{
    Person, has_rights_by_hand, is_member_elsewhere, person_by_id, person_by_identity,
    register_person, update_person,
};
pub use scim_select::{Page, list_groups as select_scim_groups, list_users as select_scim_users};
pub use scope::Scope;
pub use service_accounts::{
    NewServiceAccount, SERVICE_ACCOUNTS, ServiceAccountRow, delete_service_account,
    find_service_account, insert_service_account, list_service_accounts,
};
pub use ssh_keys::{
    KeyOwner, SSH_KEYS, SshKeyRow, count_ssh_keys, delete_ssh_key, find_ssh_key, insert_ssh_key,
    list_ssh_keys, named_ssh_keys, people_with_ssh_key,
};
pub use suspensions::{SuspensionRow, suspended_projects, suspensions_of};
pub use tenant::TenantState;
pub use terminals::{note_terminal, terminal_opener};
pub use webhook_deliveries::{
    Attempted, DELIVERIES, DeliveryLimits, DeliveryRow, Next, Taken, find_delivery, insert_ping,
    list_deliveries, note_attempt, requeue_delivery, sweep_deliveries, take_deliveries,
};
pub use webhook_events::{
    Audience, NewDelivery, Outgoing, Source, Takers, insert_deliveries, queue_deliveries,
    rewind_usage, rewind_webhooks, takers, webhook_position,
};
pub use webhooks::{
    NewWebhook, WEBHOOKS, WebhookRow, count_webhooks, delete_webhook, disable_webhook,
    disable_webhooks_in, disable_webhooks_of, enable_webhook, find_webhook, insert_webhook,
    list_webhooks, lock_webhook, rotate_webhook_secret, update_webhook,
};

/// Whether an identity is registered, disabled or not.
///
/// # Errors
/// Database errors.
pub async fn is_registered(pool: &PgPool, identity: &Identity) -> sqlx::Result<bool> {
    sqlx::query_scalar("SELECT EXISTS (SELECT FROM principals WHERE issuer = $1 AND subject = $2)")
        .bind(&identity.issuer)
        .bind(&identity.subject)
        .fetch_one(pool)
        .await
}

/// The issuer's subject of a registered principal, by name; `None` when there is none.
///
/// # Errors
/// Database errors.
pub async fn subject_of(pool: &PgPool, issuer: &str, name: &str) -> sqlx::Result<Option<String>> {
    sqlx::query_scalar(
        "SELECT subject FROM principals WHERE issuer = $1 AND name = $2 AND disable_time IS NULL",
    )
    .bind(issuer)
    .bind(name)
    .fetch_optional(pool)
    .await
}

/// An organisation of a principal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnOrganisation {
    /// Id.
    pub id: Uuid,
    /// Unique.
    pub slug: String,
    /// For people.
    pub display_name: String,
    /// Active or suspended.
    pub state: TenantState,
    /// The principal's role in it.
    pub role: Role,
}

/// Display name and address of a principal, and its organisations that are not closed, by slug.
///
/// # Errors
/// Database errors; also when there is no such principal.
pub async fn find_profile(
    pool: &PgPool,
    principal: Uuid,
) -> sqlx::Result<(String, String, Vec<OwnOrganisation>)> {
    let (display_name, email) =
        sqlx::query_as("SELECT display_name, email FROM principals WHERE id = $1")
            .bind(principal)
            .fetch_one(pool)
            .await?;
    let rows = sqlx::query(
        "SELECT o.id, o.slug, o.display_name, o.state, m.role
           FROM organisation_memberships m JOIN organisations o ON o.id = m.organisation_id
          WHERE m.principal_id = $1 AND o.state <> 'closed' ORDER BY o.slug",
    )
    .bind(principal)
    .fetch_all(pool)
    .await?;
    let read = |row: &sqlx::postgres::PgRow| {
        Ok(OwnOrganisation {
            id: row.try_get("id")?,
            slug: row.try_get("slug")?,
            display_name: row.try_get("display_name")?,
            state: principal::decode(row, "state", TenantState::parse)?,
            role: principal::decode(row, "role", Role::parse)?,
        })
    };
    Ok((
        display_name,
        email,
        rows.iter().map(read).collect::<sqlx::Result<_>>()?,
    ))
}

/// A principal of one issuer, as the development sign-in lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPrincipal {
    /// Stable name, for example "user:alice".
    pub name: String,
    /// Whether it administers the platform.
    pub admin: bool,
    /// Ids and slugs of its projects.
    pub projects: Vec<(Uuid, String)>,
}

/// The principals of an issuer that are not disabled, users before administrators.
///
/// # Errors
/// Database errors.
pub async fn list_principals(pool: &PgPool, issuer: &str) -> sqlx::Result<Vec<ListedPrincipal>> {
    let rows = sqlx::query(
        "SELECT p.name, p.platform_role IS NOT DISTINCT FROM 'admin' AS admin,
                coalesce(array_agg(j.id ORDER BY j.slug, j.id) FILTER (WHERE j.id IS NOT NULL), '{}') AS ids,
                coalesce(array_agg(j.slug ORDER BY j.slug, j.id) FILTER (WHERE j.id IS NOT NULL), '{}') AS slugs
         FROM principals p
         LEFT JOIN LATERAL access_of(p.id) a ON a.state <> 'closed'
         LEFT JOIN projects j ON j.id = a.project_id
         WHERE p.issuer = $1 AND p.disable_time IS NULL
         GROUP BY p.id ORDER BY p.platform_role IS NOT DISTINCT FROM 'admin', p.name LIMIT 100",
    )
    .bind(issuer)
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            let ids: Vec<Uuid> = row.try_get("ids")?;
            let slugs: Vec<String> = row.try_get("slugs")?;
            Ok(ListedPrincipal {
                name: row.try_get("name")?,
                admin: row.try_get("admin")?,
                projects: ids.into_iter().zip(slugs).collect(),
            })
        })
        .collect()
}

/// True when the database answers within a moment.
pub async fn is_reachable(pool: &PgPool) -> bool {
    let asked = sqlx::query("SELECT 1 FROM principals LIMIT 1").fetch_optional(pool);
    db::within(MOMENT, asked).await.is_ok()
}

/// Longest wait for the answer whether the database answers: everybody who asks meanwhile waits for the same.
const MOMENT: Duration = Duration::from_secs(2);
