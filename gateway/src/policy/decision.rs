//! What the policies say of an action: who asks, on what, and the verdict.
use std::collections::{HashMap, HashSet};
use std::path::Path;

use cedar_policy::{
    Authorizer, Context, Decision, Entities, Entity, EntityId, EntityTypeName, EntityUid,
    PolicySet, Request, RestrictedExpression,
};
use gpuaas_common::identity::PlatformRole;
use uuid::Uuid;

use super::error::PolicyError;
use super::load::{self, Source};
use super::schema;
use crate::contract::route::RouteTable;
use crate::store::{Guardrails, NO_GUARDRAILS, Role, Scope, platform_role_name};

/// Who asks, as far as policies are concerned.
#[derive(Clone, Copy, Debug)]
pub struct Who<'a> {
    /// Stable name, for example "user:alice".
    pub name: &'a str,
    /// Its role on the whole platform.
    pub platform_role: Option<PlatformRole>,
    /// The scopes of the key it came with; `None` for a person.
    pub scopes: Option<&'a [Scope]>,
    /// It is a service account that calls with API keys.
    pub by_key: bool,
}

impl Who<'_> {
    /// A scope of a role that the key lacks, so that it gives nobody the role; none for a person.
    pub fn lacks_of(&self, role: Role) -> Option<Scope> {
        let own = self.scopes?;
        let mut needed = Scope::of_role(role).iter().copied();
        needed.find(|scope| !own.contains(scope))
    }
}

/// What a request asks for, as far as guardrails are concerned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Region of a launch or a reservation.
    pub region: Option<&'a str>,
    /// Its SKU.
    pub sku: Option<&'a str>,
    /// How long an API key is good; the greatest number: for ever.
    pub api_key_seconds: Option<i64>,
}

/// What an action is on.
#[derive(Clone, Copy, Debug)]
pub enum Resource<'a> {
    /// What is of no organisation.
    Platform,
    /// An organisation.
    Organisation {
        /// Which.
        id: Uuid,
        /// The role of who asks.
        role: Option<Role>,
        /// What its owners forbid.
        guardrails: &'a Guardrails,
    },
    /// A project.
    Project {
        /// Which.
        id: Uuid,
        /// Whose.
        organisation: Uuid,
        /// The role of who asks, its own or that in the organisation.
        role: Option<Role>,
        /// Who asks has a grant for the one allocation that the action is on.
        has_grant: bool,
        /// What the owners of its organisation forbid.
        guardrails: &'a Guardrails,
        /// What is asked for.
        asked: Asked<'a>,
    },
}

impl<'a> Resource<'a> {
    /// The organisation whose guardrails count, with them.
    pub(super) fn guardrails(self) -> &'a Guardrails {
        match self {
            Self::Platform => &NO_GUARDRAILS,
            Self::Organisation { guardrails, .. } | Self::Project { guardrails, .. } => guardrails,
        }
    }
}

/// What policies say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Some permit it, none forbids it.
    Allowed,
    /// None permits it.
    NotPermitted,
    /// Policies of these ids forbid it, whatever others permit.
    Forbidden(Vec<String>),
}

impl Verdict {
    /// Whether it is allowed.
    pub fn is_allowed(&self) -> bool {
        *self == Self::Allowed
    }
}

/// The policies of this process.
pub struct Policies {
    authorizer: Authorizer,
    policies: PolicySet,
    kinds: Kinds,
    /// Each action with its group, by name.
    actions: HashMap<String, (EntityUid, Entities)>,
}

struct Kinds {
    user: EntityTypeName,
    service_account: EntityTypeName,
    organisation: EntityTypeName,
    project: EntityTypeName,
    platform: EntityUid,
    role: EntityTypeName,
    platform_role: EntityTypeName,
    scope: EntityTypeName,
}

impl Policies {
    /// The embedded policies, or those of a folder in their place, for the actions of these routes.
    ///
    /// # Errors
    /// Policies that cannot be read or are wrong.
    pub fn open(folder: Option<&Path>, routes: &RouteTable) -> Result<Self, PolicyError> {
        Self::new(&load::sources(folder)?, routes)
    }

    /// From these sources.
    ///
    /// # Errors
    /// Policies that are wrong.
    pub fn new(sources: &[Source], routes: &RouteTable) -> Result<Self, PolicyError> {
        let actions = schema::actions(routes);
        let schema = schema::schema(&actions)?;
        let policies = load::policies(sources, &schema)?;
        let kind = |name: &str| name.parse().map_err(engine);
        let kinds = Kinds {
            user: kind("User")?,
            service_account: kind("ServiceAccount")?,
            organisation: kind("Organisation")?,
            project: kind("Project")?,
            platform: uid(&kind("Platform")?, "gpuaas"),
            role: kind("Role")?,
            platform_role: kind("PlatformRole")?,
            scope: kind("Scope")?,
        };
        let action_kind = kind("Action")?;
        let mut known = HashMap::new();
        for (action, group) in actions {
            let (own, group) = (uid(&action_kind, &action), uid(&action_kind, group.name()));
            let entities = [
                Entity::new_no_attrs(own.clone(), HashSet::from([group.clone()])),
                Entity::new_no_attrs(group, HashSet::new()),
            ];
            let entities = Entities::from_entities(entities, None).map_err(engine)?;
            known.insert(action, (own, entities));
        }
        Ok(Self {
            authorizer: Authorizer::new(),
            policies,
            kinds,
            actions: known,
        })
    }

    /// Decides. What the engine cannot decide is not permitted.
    pub fn decide(&self, who: Who<'_>, action: &str, resource: Resource<'_>) -> Verdict {
        self.try_decide(who, action, resource)
            .unwrap_or_else(|error| {
                tracing::error!(action, "decide: {error}");
                Verdict::NotPermitted
            })
    }

    fn try_decide(
        &self,
        who: Who<'_>,
        action: &str,
        resource: Resource<'_>,
    ) -> Result<Verdict, PolicyError> {
        let Some((action, known)) = self.actions.get(action) else {
            return Err(PolicyError::Engine("the action is unknown".to_owned()));
        };
        let (principal, who) = self.principal(who)?;
        let context = self.context(resource)?;
        let (resource, mut entities) = self.resource(resource)?;
        entities.push(who);
        let entities = known.clone().add_entities(entities, None).map_err(engine)?;
        let request =
            Request::new(principal, action.clone(), resource, context, None).map_err(engine)?;
        let response = self
            .authorizer
            .is_authorized(&request, &self.policies, &entities);
        let diagnostics = response.diagnostics();
        // the engine leaves out a policy that fails, be it one that forbids
        if let Some(error) = diagnostics.errors().next() {
            return Err(engine(error));
        }
        let mut reasons: Vec<String> = diagnostics.reason().map(ToString::to_string).collect();
        Ok(match response.decision() {
            Decision::Allow => Verdict::Allowed,
            Decision::Deny if reasons.is_empty() => Verdict::NotPermitted,
            Decision::Deny => {
                reasons.sort();
                Verdict::Forbidden(reasons)
            }
        })
    }

    fn principal(&self, who: Who<'_>) -> Result<(EntityUid, Entity), PolicyError> {
        let mut attributes = HashMap::new();
        if let Some(role) = who.platform_role {
            let role = uid(&self.kinds.platform_role, platform_role_name(role));
            let role = RestrictedExpression::new_entity_uid(role);
            attributes.insert("platform_role".to_owned(), role);
        }
        let kind = match who.scopes {
            None => &self.kinds.user,
            Some(scopes) => {
                let scopes = scopes.iter().map(|scope| {
                    RestrictedExpression::new_entity_uid(uid(&self.kinds.scope, scope.name()))
                });
                let scopes = RestrictedExpression::new_set(scopes);
                attributes.insert("scopes".to_owned(), scopes);
                let by_key = RestrictedExpression::new_bool(who.by_key);
                attributes.insert("by_key".to_owned(), by_key);
                &self.kinds.service_account
            }
        };
        let own = uid(kind, who.name);
        let entity = Entity::new(own.clone(), attributes, HashSet::new()).map_err(engine)?;
        Ok((own, entity))
    }

    /// What there is between who asks and the resource.
    fn context(&self, resource: Resource<'_>) -> Result<Context, PolicyError> {
        let (role, has_grant, asked) = match resource {
            Resource::Platform => (None, false, Asked::default()),
            Resource::Organisation { role, .. } => (role, false, Asked::default()),
            Resource::Project {
                role,
                has_grant,
                asked,
                ..
            } => (role, has_grant, asked),
        };
        let role = role.map(|role| {
            let role = RestrictedExpression::new_entity_uid(uid(&self.kinds.role, role.as_str()));
            ("role".to_owned(), role)
        });
        let granted =
            has_grant.then(|| ("granted".to_owned(), RestrictedExpression::new_bool(true)));
        let text = |name: &str, value: Option<&str>| {
            value.map(|value| {
                let value = RestrictedExpression::new_string(value.to_owned());
                (name.to_owned(), value)
            })
        };
        let lifetime = asked.api_key_seconds.map(|seconds| {
            let seconds = RestrictedExpression::new_long(seconds);
            ("api_key_seconds".to_owned(), seconds)
        });
        let asked = [
            text("region", asked.region),
            text("sku", asked.sku),
            lifetime,
        ];
        let pairs = role.into_iter().chain(granted);
        Context::from_pairs(pairs.chain(asked.into_iter().flatten())).map_err(engine)
    }

    fn resource(&self, resource: Resource<'_>) -> Result<(EntityUid, Vec<Entity>), PolicyError> {
        let organisation_of = |id: Uuid| {
            let own = uid(&self.kinds.organisation, &id.to_string());
            let attributes = attributes(resource.guardrails());
            let entity = Entity::new(own.clone(), attributes, HashSet::new()).map_err(engine)?;
            Ok::<_, PolicyError>((own, entity))
        };
        Ok(match resource {
            Resource::Platform => (self.kinds.platform.clone(), Vec::new()),
            Resource::Organisation { id, .. } => {
                let (own, entity) = organisation_of(id)?;
                (own, vec![entity])
            }
            Resource::Project {
                id, organisation, ..
            } => {
                let own = uid(&self.kinds.project, &id.to_string());
                let (owner, entity) = organisation_of(organisation)?;
                let of = RestrictedExpression::new_entity_uid(owner.clone());
                let attributes = HashMap::from([("organisation".to_owned(), of)]);
                let parents = HashSet::from([owner]);
                let project = Entity::new(own.clone(), attributes, parents).map_err(engine)?;
                (own, vec![project, entity])
            }
        })
    }
}

/// Guardrails as policies see them: what limits nothing is absent.
fn attributes(guardrails: &Guardrails) -> HashMap<String, RestrictedExpression> {
    let switches = [
        ("terminals_disabled", guardrails.terminals_disabled),
        ("serial_logs_disabled", guardrails.serial_logs_disabled),
        (
            "ingress_mappings_disabled",
            guardrails.ingress_mappings_disabled,
        ),
        ("webhooks_disabled", guardrails.webhooks_disabled),
        ("api_keys_disabled", guardrails.api_keys_disabled),
    ];
    let switches = switches
        .into_iter()
        .map(|(name, on)| (name.to_owned(), RestrictedExpression::new_bool(on)));
    let days = (guardrails.max_api_key_days > 0).then(|| {
        let days = RestrictedExpression::new_long(guardrails.max_api_key_days.into());
        ("max_api_key_days".to_owned(), days)
    });
    let lists = [
        ("allowed_regions", &guardrails.allowed_regions),
        ("allowed_skus", &guardrails.allowed_skus),
    ];
    let lists = lists.into_iter().filter(|(_, names)| !names.is_empty());
    let lists = lists.map(|(name, names)| {
        let names = names.iter().cloned().map(RestrictedExpression::new_string);
        (name.to_owned(), RestrictedExpression::new_set(names))
    });
    switches.chain(days).chain(lists).collect()
}

fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
}

fn engine(error: impl std::fmt::Display) -> PolicyError {
    PolicyError::Engine(error.to_string())
}
