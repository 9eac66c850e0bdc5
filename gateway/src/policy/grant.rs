//! What one caller may do of one action: in which of its projects, and what it lacks in the others.
use gpuaas_common::access::Group;
use prost_reflect::DynamicMessage;
use uuid::Uuid;

use super::decision::{Asked, Policies, Resource, Verdict, Who};
use super::refusal::{Refusal, any_of, broken, needs};
use super::request::{NAMED_BY, asked_for, named, named_by, named_project};
use crate::contract::route::GATEWAY;
use crate::contract::route::Route;
use crate::store::{
    Guardrails, NO_GUARDRAILS, PlatformRole, Principal, PrincipalKind, Role, Scope,
    platform_role_name,
};

const ALLOCATION: &str = "allocation_id";
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
    /// The caller may do it by a role on the platform, in projects that are not its own.
    by_platform: bool,
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
            Some(Ok(id)) => {
                let of_it = || self.refusal_in_organisation(id);
                self.refusal_for(id).or_else(of_it)
            }
            // the service says what is wrong with it
            Some(Err(_)) => None,
            None if self.granted_project(message).is_some() => None,
            None => self.refusal_everywhere(),
        };
        refusal.map_or(Ok(()), Err)
    }

    /// The refusal for an organisation of the caller's projects whose guardrail forbids the action in all of them.
    fn refusal_in_organisation(&self, id: Uuid) -> Option<Refusal> {
        let is_of_it = |refusal: &Refusal| {
            let broken = refusal.guardrail.as_ref();
            broken.is_some_and(|broken| broken.organisation == id)
        };
        let mut refusals = self.withheld.iter().map(|(_, refusal)| refusal);
        refusals.find(|refusal| is_of_it(refusal)).cloned()
    }

    /// The refusal when the action is allowed nowhere, though the caller has projects.
    fn refusal_everywhere(&self) -> Option<Refusal> {
        let (_, first) = self.withheld.first()?;
        self.projects.is_empty().then(|| first.clone())
    }

    /// The project that a request names, or the only one in which the caller may do this: the services are told of no other,
    /// and take that one.
    pub fn project_of(&self, message: &DynamicMessage) -> Option<Uuid> {
        match named_project(message) {
            Some(named) => named.ok(),
            None => self.only_project(),
        }
    }

    /// The project for whose rates a request counts: that of its allocation grant, the one that it names or, on something of a
    /// project, the only one in which the caller may do this. What somebody with a role on the platform finds by its id may be
    /// of any project, and counts for none.
    pub fn counted_project(&self, route: &Route, message: &DynamicMessage) -> Option<Uuid> {
        let granted = self.granted_project(message);
        granted.or_else(|| match named_project(message) {
            None if self.by_platform => None,
            None if route.group.is_of_a_project() => self.only_project(),
            named => named.and_then(Result::ok),
        })
    }

    /// The project, when there is only one.
    pub fn only_project(&self) -> Option<Uuid> {
        match self.projects.as_slice() {
            [only] => Some(*only),
            _ => None,
        }
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
        by_key: principal.scopes.is_some(),
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
                let mut grant = self.in_projects(who, principal, route);
                let named = named_by(route);
                // who has a role on the platform may read and manage projects without being a member: what is decided then
                // is decided on the project that is found
                grant.by_platform = route.service == GATEWAY && who.platform_role.is_some();
                match grant.refusal_everywhere() {
                    // on which allocation it is done, the request says
                    Some(refusal)
                        if !named && !grant.by_platform && grant.allocations.is_empty() =>
                    {
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

    /// Decides on what a request asks for, where the organisation of its project allows only some of it.
    ///
    /// # Errors
    /// The refusal.
    pub fn check_asked(
        &self,
        principal: &Principal,
        route: &Route,
        grant: &Grant,
        message: &DynamicMessage,
    ) -> Result<(), Refusal> {
        let limits =
            |one: &Guardrails| !one.allowed_regions.is_empty() || !one.allowed_skus.is_empty();
        if !route.group.is_of_a_project() || !principal.guardrails.iter().any(limits) {
            return Ok(());
        }
        let project = grant.project_of(message);
        let mut projects = principal.roles.iter().zip(&principal.owners);
        let found = projects.find(|((of, _), _)| Some(*of) == project);
        let Some(((id, role), owner)) = found else {
            // of what is not the caller's the service says that there is none
            return Ok(());
        };
        for (part, region, sku) in asked_for(message) {
            let resource = Resource::Project {
                id: *id,
                organisation: *owner,
                role: Some(*role),
                has_grant: false,
                guardrails: principal.guardrails_of(*owner),
                asked: Asked {
                    region: region.as_deref(),
                    sku: sku.as_deref(),
                    api_key_seconds: None,
                },
            };
            let decided = self.on(who(principal), route, resource);
            decided.map_err(|refusal| refusal.within(&part))?;
        }
        Ok(())
    }

    /// Decides on what an operator reserves for a project, of which it is no member, by what binds the project's own members.
    ///
    /// # Errors
    /// The refusal, when a guardrail of the organisation forbids it.
    pub fn check_reserved(
        &self,
        principal: &Principal,
        route: &Route,
        (project, organisation): (Uuid, Uuid),
        guardrails: &Guardrails,
        message: &DynamicMessage,
    ) -> Result<(), Refusal> {
        for (part, region, sku) in asked_for(message) {
            let resource = Resource::Project {
                id: project,
                organisation,
                role: None,
                has_grant: false,
                guardrails,
                asked: Asked {
                    region: region.as_deref(),
                    sku: sku.as_deref(),
                    api_key_seconds: None,
                },
            };
            // that it is no member is no reason: the platform's role was decided on
            match self.on(who(principal), route, resource) {
                Err(refusal) if refusal.guardrail.is_some() => return Err(refusal.within(&part)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Decides on one resource.
    ///
    /// # Errors
    /// The refusal.
    pub fn on(&self, who: Who<'_>, route: &Route, resource: Resource<'_>) -> Result<(), Refusal> {
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
                guardrails: principal.guardrails_of(*owner),
                asked: Asked::default(),
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
            guardrails: principal.guardrails_of(*owner),
            asked: Asked::default(),
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
            guardrails: &NO_GUARDRAILS,
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
                guardrails: principal.guardrails_of(*id),
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
        resource: Resource<'_>,
        verdict: &Verdict,
    ) -> Refusal {
        let refusal = |message: String, roles| Refusal {
            action: route.access.action.clone(),
            message,
            roles,
            guardrail: None,
        };
        if let Verdict::Forbidden(policies) = verdict {
            if let Some((name, broken)) = broken(policies, resource.guardrails()) {
                let organisation = &resource.guardrails().organisation;
                let message = format!(
                    "The guardrail {name} of the organisation {organisation} forbids this. Its owners can change that."
                );
                return Refusal {
                    guardrail: Some(Box::new(broken)),
                    ..refusal(message, Vec::new())
                };
            }
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
            Resource::Organisation {
                id,
                role,
                guardrails,
            } => {
                let with = |role| Resource::Organisation {
                    id,
                    role,
                    guardrails,
                };
                let roles = self.roles_for(who, route, with);
                let message = needs(&roles, "organisation", role);
                (roles, message)
            }
            Resource::Project {
                id,
                organisation,
                role,
                guardrails,
                asked,
                ..
            } => {
                let with = |role| Resource::Project {
                    id,
                    organisation,
                    role,
                    has_grant: false,
                    guardrails,
                    asked,
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

    fn roles_for<'a>(
        &self,
        who: Who<'_>,
        route: &Route,
        with: impl Fn(Option<Role>) -> Resource<'a>,
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
