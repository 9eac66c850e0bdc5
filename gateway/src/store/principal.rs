//! A registered principal and what it may use.
pub use gpuaas_common::identity::PlatformRole;
use sqlx::Row as _;
use sqlx::postgres::PgRow;
use sqlx::types::Json;
use uuid::Uuid;

use super::allocation_grants::AllocationPermission;
use super::api_keys::scopes;
use super::column::unknown;
pub(super) use super::column::{decode, decode_optional};
use super::guardrails::{Guardrails, NO_GUARDRAILS};
pub use super::role::Role;
use super::scope::Scope;

/// What a principal is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum PrincipalKind {
    /// A person.
    #[default]
    User,
    /// A program.
    ServiceAccount,
}

impl PrincipalKind {
    /// From the column.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "user" => Some(Self::User),
            "service" => Some(Self::ServiceAccount),
            _ => None,
        }
    }

    /// For the column.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ServiceAccount => "service",
        }
    }
}

/// A role on the whole platform, from its column.
pub fn parse_platform_role(text: &str) -> Option<PlatformRole> {
    match text {
        "admin" => Some(PlatformRole::Admin),
        "operator" => Some(PlatformRole::Operator),
        "auditor" => Some(PlatformRole::Auditor),
        _ => None,
    }
}

/// A role on the whole platform, for its column.
pub fn platform_role_name(role: PlatformRole) -> &'static str {
    match role {
        PlatformRole::Admin => "admin",
        PlatformRole::Operator => "operator",
        PlatformRole::Auditor => "auditor",
    }
}

/// One allocation that a principal has a grant for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrantedAllocation {
    /// The allocation.
    pub allocation: Uuid,
    /// Its project. Worth nothing to who is not in it.
    pub project: Uuid,
    /// To do what.
    pub permission: AllocationPermission,
}

/// A registered principal with what it may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Principal {
    /// Id.
    pub id: Uuid,
    /// Stable name, for example "user:alice".
    pub name: String,
    /// User or service account.
    pub kind: PrincipalKind,
    /// Its address, as its issuer has verified it; empty otherwise.
    pub email: String,
    /// When the token was issued that had the address, in seconds since 1970; 0 when none has said it.
    pub email_issued: i64,
    /// On the whole platform.
    pub platform_role: Option<PlatformRole>,
    /// One on the whole platform that gives nothing: the sign-in lacks the second factor that it takes.
    pub unproven_role: Option<PlatformRole>,
    /// Projects that are not closed, oldest membership first, each with the strongest role that the principal has there, by the
    /// project or by its organisation.
    pub roles: Vec<(Uuid, Role)>,
    /// The organisations of these projects, in the same order.
    pub owners: Vec<Uuid>,
    /// Those of them that are suspended, by themselves or with their organisation.
    pub suspended: Vec<Uuid>,
    /// Organisations that are not closed, with the role in each.
    pub organisations: Vec<(Uuid, Role)>,
    /// What of these, and of those of its projects, has guardrails.
    pub guardrails: Vec<Guardrails>,
    /// Allocations that owners have granted it, whatever its role.
    pub granted: Vec<GrantedAllocation>,
    /// Of a service account that calls with API keys: what they are good for.
    pub scopes: Option<Vec<Scope>>,
}

impl Principal {
    /// Whether it administers the platform.
    pub fn is_admin(&self) -> bool {
        self.platform_role == Some(PlatformRole::Admin)
    }

    /// Its role on the whole platform, whether or not the sign-in proves what it takes.
    pub fn given_platform_role(&self) -> Option<PlatformRole> {
        self.platform_role.or(self.unproven_role)
    }

    /// The same by a sign-in without the second factor that a role on the platform takes.
    #[must_use]
    pub fn without_second_factor(self) -> Self {
        Self {
            platform_role: None,
            unproven_role: self.given_platform_role(),
            ..self
        }
    }

    /// The same by a sign-in with it.
    #[must_use]
    pub fn with_second_factor(self) -> Self {
        Self {
            platform_role: self.given_platform_role(),
            unproven_role: None,
            ..self
        }
    }

    /// Its projects, oldest membership first.
    pub fn projects(&self) -> Vec<Uuid> {
        self.roles.iter().map(|(project, _)| *project).collect()
    }

    /// Its role in a project.
    pub fn role_in(&self, project: Uuid) -> Option<Role> {
        find(&self.roles, project)
    }

    /// Its role in an organisation itself.
    pub fn role_in_organisation(&self, organisation: Uuid) -> Option<Role> {
        find(&self.organisations, organisation)
    }

    /// What an organisation of its own, or of its projects, forbids.
    pub fn guardrails_of(&self, organisation: Uuid) -> &Guardrails {
        let mut all = self.guardrails.iter();
        let found = all.find(|one| one.organisation_id == organisation);
        found.unwrap_or(&NO_GUARDRAILS)
    }
}

fn find(roles: &[(Uuid, Role)], id: Uuid) -> Option<Role> {
    let found = roles.iter().find(|(of, _)| *of == id);
    found.map(|(_, role)| *role)
}

fn roles(row: &PgRow, ids: &str, roles: &str) -> sqlx::Result<Vec<(Uuid, Role)>> {
    let ids: Vec<Uuid> = row.try_get(ids)?;
    let texts: Vec<String> = row.try_get(roles)?;
    let parsed = texts
        .iter()
        .map(|text| Role::parse(text).ok_or_else(|| unknown(roles, text)));
    let parsed: Vec<Role> = parsed.collect::<sqlx::Result<_>>()?;
    Ok(ids.into_iter().zip(parsed).collect())
}

fn granted(row: &PgRow) -> sqlx::Result<Vec<GrantedAllocation>> {
    const PERMISSIONS: &str = "granted_permissions";
    let allocations: Vec<Uuid> = row.try_get("granted_allocations")?;
    let projects: Vec<Uuid> = row.try_get("granted_projects")?;
    let permissions: Vec<String> = row.try_get(PERMISSIONS)?;
    let granted = allocations.into_iter().zip(projects).zip(permissions);
    granted
        .map(|((allocation, project), permission)| {
            let parsed = AllocationPermission::parse(&permission);
            Ok(GrantedAllocation {
                allocation,
                project,
                permission: parsed.ok_or_else(|| unknown(PERMISSIONS, &permission))?,
            })
        })
        .collect()
}

pub(super) fn read(row: &PgRow) -> sqlx::Result<Principal> {
    Ok(Principal {
        id: row.try_get("id")?,
        name: row.try_get("name")?,
        kind: decode(row, "kind", PrincipalKind::parse)?,
        email: row.try_get("email")?,
        email_issued: row.try_get("email_issued")?,
        platform_role: decode_optional(row, "platform_role", parse_platform_role)?,
        unproven_role: None,
        roles: roles(row, "projects", "roles")?,
        owners: row.try_get("owners")?,
        suspended: row.try_get("suspended")?,
        organisations: roles(row, "organisations", "organisation_roles")?,
        guardrails: row.try_get::<Json<_>, _>("guardrails")?.0,
        granted: granted(row)?,
        scopes: match row.try_get("has_keys")? {
            true => Some(scopes(row, "scopes")?),
            false => None,
        },
    })
}
