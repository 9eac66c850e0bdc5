//! What one caller may do of one action: in which of its projects, and what it lacks in the others.
use gpuaas_common::Error;
use gpuaas_common::access::Group;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use tonic::Code;
use uuid::Uuid;

use super::{PlatformRole, Policies, Resource, Scope, Verdict, Who};
use crate::contract::route::GATEWAY;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::store::{Principal, PrincipalKind, Role, platform_role_name};

const PROJECT: &str = "project_id";
const ORGANISATION: &str = "organisation_id";
const ALLOCATION: &str = "allocation_id";
/// The fields by which a request says what it is about.
const NAMED_BY: [&str; 2] = [PROJECT, ORGANISATION];
/// Where a resource that is created may say it.
const CONFIG: &str = "config";
const ROLES: [Role; 4] = [Role::Owner, Role::Member, Role::Viewer, Role::Billing];
const PLATFORM_ROLES: [PlatformRole; 3] = [
    PlatformRole::Admin,
    PlatformRole::Operator,
    PlatformRole::Auditor,
];

/// Where an action is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The projects of the caller in which it is.
    pub projects: Vec<Uuid>,
    /// Single allocations of its other projects that it has a grant for, each with its project.
    allocations: Vec<(Uuid, Uuid)>,
    /// Its other projects, or organisations, and why not there.
    withheld: Vec<(Uuid, Refusal)>,
}

/// Why an action is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    action: String,
    message: String,
    roles: Vec<&'static str>,
}

impl Refusal {
    /// As the caller gets it.
    pub fn into_error(self) -> ApiError {
        let error = ApiError::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            self.message,
        )
        .meta("action", self.action);
        if self.roles.is_empty() {
            return error;
        }
        error.meta("roles", self.roles.join(","))
    }

    /// The same where the gateway answers itself.
    pub fn into_own_error(self) -> Error {
        let error = Error::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            self.message,
        )
        .meta("action", self.action);
        if self.roles.is_empty() {
            return error;
        }
        error.meta("roles", self.roles.join(","))
    }
}

impl Grant {
    /// What is allowed in these projects and withheld nowhere.
    #[cfg(test)]
    pub fn of(projects: Vec<Uuid>) -> Self {
        Self {
            projects,
            ..Self::default()
        }
    }

    /// The project of the request's allocation, where the action is allowed on that allocation and not in the project.
    pub fn granted_project(&self, message: &DynamicMessage) -> Option<Uuid> {
        let allocation = named(message, &[ALLOCATION])?.ok()?;
        let mut all = self.allocations.iter();
        let found = all.find(|(of, _)| *of == allocation);
        found.map(|(_, project)| *project)
    }

    /// What of it the request needs: of single allocations its own alone.
    #[must_use]
    pub fn for_request(&self, message: &DynamicMessage) -> Self {
        let allocation = named(message, &[ALLOCATION]).and_then(Result::ok);
        let mut own = self.clone();
        own.allocations.retain(|(of, _)| Some(*of) == allocation);
        if !own.allocations.is_empty() {
            // what is read by the grant is read by no role
            own.projects.clear();
        }
        own
    }

    /// Whether it lacks something that the caller has.
    pub fn is_partial(&self) -> bool {
        !self.withheld.is_empty()
    }

    /// Whether it is still all that another one was.
    pub fn covers(&self, other: &Self) -> bool {
        let has = |project: &Uuid| self.projects.contains(project);
        let has_grant = |(allocation, project): &(Uuid, Uuid)| {
            self.allocations.contains(&(*allocation, *project)) || has(project)
        };
        other.projects.iter().all(has) && other.allocations.iter().all(has_grant)
    }

    /// The refusal for a project or organisation that is the caller's and where the action is not allowed.
    fn refusal_for(&self, id: Uuid) -> Option<Refusal> {
        let found = self.withheld.iter().find(|(of, _)| *of == id);
        found.map(|(_, refusal)| refusal.clone())
    }

    /// Decides on what the request is about, when it says so. Of what is not the caller's the service says that there is
    /// none, as it does of what does not exist.
    ///
    /// # Errors
    /// The refusal.
    pub fn check(&self, message: &DynamicMessage) -> Result<(), Refusal> {
        let refusal = match named(message, &NAMED_BY) {
            Some(Ok(id)) => self.refusal_for(id),
            // the service says what is wrong with it
            Some(Err(_)) => None,
            None if self.granted_project(message).is_some() => None,
            None => self.refusal_everywhere(),
        };
        refusal.map_or(Ok(()), Err)
    }

    /// The refusal when the action is allowed nowhere, though the caller has projects.
    fn refusal_everywhere(&self) -> Option<Refusal> {
        let (_, first) = self.withheld.first()?;
        self.projects.is_empty().then(|| first.clone())
    }

    /// The refusal that stands for all of them.
    pub fn refusal(&self) -> Option<Refusal> {
        self.withheld.first().map(|(_, refusal)| refusal.clone())
    }
}

/// A principal as policies see it.
pub fn who(principal: &Principal) -> Who<'_> {
    Who {
        name: &principal.name,
        platform_role: principal.platform_role,
        scopes: match principal.kind {
            PrincipalKind::User => None,
            // one of an issuer has no keys that could narrow what it may do
            PrincipalKind::ServiceAccount => {
                Some(principal.scopes.as_deref().unwrap_or(&Scope::ALL))
            }
        },
    }
}

impl Policies {
    /// Decides on an action in all projects of a caller, or on the platform.
    ///
    /// # Errors
    /// The refusal, when no request could be allowed.
    pub fn grant(&self, principal: &Principal, route: &Route) -> Result<Grant, Refusal> {
        let who = who(principal);
        match route.group {
            group if group.is_of_a_project() => {
                let grant = self.in_projects(who, principal, route);
                let named = named_by(route);
                // who has a role on the platform may read and manage projects without being a member: what is decided then
                // is decided on the project that is found
                let by_platform = route.service == GATEWAY && who.platform_role.is_some();
                match grant.refusal_everywhere() {
                    // on which allocation it is done, the request says
                    Some(refusal) if !named && !by_platform && grant.allocations.is_empty() => {
                        Err(refusal)
                    }
                    _ => Ok(grant),
                }
            }
            Group::OrganisationRead | Group::OrganisationManage => {
                self.in_organisations(who, principal, route)
            }
            _ => {
                self.on(who, route, Resource::Platform)?;
                Ok(Grant {
                    projects: principal.projects(),
                    ..Grant::default()
                })
            }
        }
    }

    /// Decides on one resource.
    ///
    /// # Errors
    /// The refusal.
    pub fn on(&self, who: Who<'_>, route: &Route, resource: Resource) -> Result<(), Refusal> {
        match self.decide(who, &route.action, resource) {
            Verdict::Allowed => Ok(()),
            verdict => Err(self.refusal(who, route, resource, &verdict)),
        }
    }

    fn in_projects(&self, who: Who<'_>, principal: &Principal, route: &Route) -> Grant {
        let mut grant = Grant::default();
        for ((id, role), owner) in principal.roles.iter().zip(&principal.owners) {
            let in_project = |has_grant| Resource::Project {
                id: *id,
                organisation: *owner,
                role: Some(*role),
                has_grant,
            };
            match self.on(who, route, in_project(false)) {
                Ok(()) => grant.projects.push(*id),
                Err(refusal) => {
                    grant.withheld.push((*id, refusal));
                    let into = allocations(principal, *id, &route.access.action);
                    if !into.is_empty() && self.on(who, route, in_project(true)).is_ok() {
                        grant.allocations.extend(into);
                    }
                }
            }
        }
        grant
    }

    /// Whether somebody may do something to an allocation of a project: by the role there, or by a grant of an owner. What a
    /// project has granted is worth nothing to who is not in it.
    pub fn allows_in(
        &self,
        principal: &Principal,
        action: &str,
        (project, allocation): (Uuid, Option<Uuid>),
    ) -> bool {
        let mut projects = principal.roles.iter().zip(&principal.owners);
        let found = projects.find(|((of, _), _)| *of == project);
        let Some(((id, role), owner)) = found else {
            return false;
        };
        let mut into = allocations(principal, project, action).into_iter();
        let has_grant = into.any(|(of, _)| Some(of) == allocation);
        let resource = Resource::Project {
            id: *id,
            organisation: *owner,
            role: Some(*role),
            has_grant,
        };
        self.decide(who(principal), action, resource).is_allowed()
    }

    fn in_organisations(
        &self,
        who: Who<'_>,
        principal: &Principal,
        route: &Route,
    ) -> Result<Grant, Refusal> {
        // what forbids it whatever the role
        let nowhere = Resource::Organisation {
            id: Uuid::nil(),
            role: None,
        };
        let verdict = self.decide(who, &route.action, nowhere);
        if matches!(verdict, Verdict::Forbidden(_)) {
            return Err(self.refusal(who, route, nowhere, &verdict));
        }
        let mut grant = Grant {
            projects: principal.projects(),
            ..Grant::default()
        };
        for (id, role) in &principal.organisations {
            let resource = Resource::Organisation {
                id: *id,
                role: Some(*role),
            };
            if let Err(refusal) = self.on(who, route, resource) {
                grant.withheld.push((*id, refusal));
            }
        }
        Ok(grant)
    }

    fn refusal(
        &self,
        who: Who<'_>,
        route: &Route,
        resource: Resource,
        verdict: &Verdict,
    ) -> Refusal {
        let refusal = |message: String, roles| Refusal {
            action: route.access.action.clone(),
            message,
            roles,
        };
        if let Verdict::Forbidden(policies) = verdict {
            let scope = policies
                .iter()
                .find_map(|policy| policy.strip_prefix("scope-"));
            let message = match scope {
                Some(scope) => format!("The API key lacks the scope {scope}."),
                None => format!("A guardrail forbids this: {}.", policies.join(", ")),
            };
            return refusal(message, Vec::new());
        }
        let (roles, message) = match resource {
            Resource::Platform => {
                let may = |role: &PlatformRole| {
                    let other = Who {
                        platform_role: Some(*role),
                        ..who
                    };
                    self.decide(other, &route.action, resource).is_allowed()
                };
                let roles: Vec<_> = PLATFORM_ROLES
                    .into_iter()
                    .filter(may)
                    .map(platform_role_name)
                    .collect();
                let message = format!("This needs the platform role {}.", any_of(&roles));
                (roles, message)
            }
            Resource::Organisation { id, role } => {
                let with = |role| Resource::Organisation { id, role };
                let roles = self.roles_for(who, route, with);
                let message = needs(&roles, "organisation", role);
                (roles, message)
            }
            Resource::Project {
                id,
                organisation,
                role,
                ..
            } => {
                let with = |role| Resource::Project {
                    id,
                    organisation,
                    role,
                    has_grant: false,
                };
                let roles = self.roles_for(who, route, with);
                let message = needs(&roles, "project", role);
                (roles, message)
            }
        };
        if roles.is_empty() {
            return refusal("No role may do this.".to_owned(), roles);
        }
        refusal(message, roles)
    }

    fn roles_for(
        &self,
        who: Who<'_>,
        route: &Route,
        with: impl Fn(Option<Role>) -> Resource,
    ) -> Vec<&'static str> {
        let may = |role: &Role| {
            self.decide(who, &route.action, with(Some(*role)))
                .is_allowed()
        };
        ROLES.into_iter().filter(may).map(Role::as_str).collect()
    }
}

/// Allocations of a project that a principal has a grant of an action for, each with the project.
fn allocations(principal: &Principal, project: Uuid, action: &str) -> Vec<(Uuid, Uuid)> {
    let granted = principal.granted.iter();
    granted
        .filter(|one| one.project == project && one.permission.lets(action))
        .map(|one| (one.allocation, one.project))
        .collect()
}

/// Whether requests of the route may say which project or organisation they are about.
fn named_by(route: &Route) -> bool {
    has(route, &NAMED_BY)
}

fn has(route: &Route, fields: &[&str]) -> bool {
    let input = route.method.input();
    let config = input
        .get_field_by_name(CONFIG)
        .and_then(|field| field.kind().as_message().cloned());
    let names = |message: &MessageDescriptor| {
        fields
            .iter()
            .any(|field| message.get_field_by_name(field).is_some())
    };
    names(&input) || config.is_some_and(|config| names(&config))
}

/// Whether requests of the route may say which project they are about.
pub fn names_a_project(route: &Route) -> bool {
    has(route, &[PROJECT])
}

/// The project that a request says that it is about; an error for what is no id.
pub fn named_project(message: &DynamicMessage) -> Option<Result<Uuid, uuid::Error>> {
    named(message, &[PROJECT])
}

/// The organisation that a request says that it is about; an error for what is no id.
pub fn named_organisation(message: &DynamicMessage) -> Option<Result<Uuid, uuid::Error>> {
    named(message, &[ORGANISATION])
}

/// What a message says that it is about.
fn named(message: &DynamicMessage, by: &[&str]) -> Option<Result<Uuid, uuid::Error>> {
    let of_config = || {
        let config = message.get_field_by_name(CONFIG)?;
        named_in(config.as_message()?, by)
    };
    named_in(message, by).or_else(of_config)
}

fn named_in(message: &DynamicMessage, by: &[&str]) -> Option<Result<Uuid, uuid::Error>> {
    by.iter().find_map(|field| {
        let value = message.get_field_by_name(field)?;
        let text = value.as_str()?;
        (!text.is_empty()).then(|| text.parse())
    })
}

fn needs(roles: &[&str], what: &str, role: Option<Role>) -> String {
    let own = match role {
        Some(role) => format!("; yours is {}", role.as_str()),
        None => String::new(),
    };
    format!("This needs the role {} in the {what}{own}.", any_of(roles))
}

fn any_of(roles: &[&str]) -> String {
    match roles {
        [] => "of nobody".to_owned(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}
