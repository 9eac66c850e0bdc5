//! One call of a method that the gateway answers itself: who calls, what that one may see and change, and a change as one
//! transaction with its idempotency key and its audit row (P4, P10).
use gpuaas_common::access::Group as ActionGroup;
use gpuaas_common::id::IdGen;
use gpuaas_common::idempotency::{self, Lookup, Scope};
use gpuaas_common::{Error, Result, audit, id};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use serde_json::Value;
use sqlx::{PgConnection, Postgres, Transaction};
use tonic::Code;
use uuid::Uuid;

use crate::app::App;
use crate::auth::sessions::Session;
use crate::contract::route::Route;
use crate::policy::{Asked, Refusal, Resource, who};
use crate::store::{
    self, Group, OrganisationRow, Principal, ProjectRow, Role, TenantState, find_organisation,
    find_project,
};

/// Whom members read of instead of the name of somebody who runs the platform.
pub const OPERATOR: &str = "operator";

/// The action of who invites into an organisation.
pub(super) const INVITE_TO_ORGANISATION: &str = "organisation_invitation.create";
/// The action of who invites into a project.
pub(super) const INVITE_TO_PROJECT: &str = "invitation.create";
/// The action of who creates webhooks of an organisation.
const CREATE_ORGANISATION_WEBHOOK: &str = "organisation_webhook.create";
/// Actions on a webhook that has to be enabled for them, or becomes it.
const USES_OF_WEBHOOKS: [&str; 4] = [
    "webhook.update",
    "webhook.rotate_secret",
    "webhook.ping",
    "webhook_delivery.redeliver",
];

/// One call.
pub struct Call<'a> {
    /// What every request needs.
    pub app: &'a App,
    /// The method.
    pub route: &'a Route,
    /// Who calls.
    pub session: &'a Session,
    /// Given with every change.
    pub key: Option<&'a str>,
    /// Of the HTTP request.
    pub request_id: &'a str,
}

/// A change that has begun, or that was made before under the same key.
pub(super) enum Begun {
    /// To be made in this transaction.
    Fresh(Transaction<'static, Postgres>),
    /// Made; the id of what it led to. Its caller may have lost access since: it is shown as to who reads it now.
    Replay(Uuid),
}

impl<'a> Call<'a> {
    pub(super) fn principal(&self) -> &'a Principal {
        &self.session.principal
    }

    pub(super) fn me(&self) -> Uuid {
        self.principal().id
    }

    /// Acts as an administrator of the platform.
    pub(super) fn administers(&self) -> bool {
        self.principal().is_admin()
    }

    /// How the members of what the caller has this role in read of the caller: who is none and acts by a role on the platform has
    /// no name there.
    pub(super) fn name_for_members(&self, role: Option<Role>) -> &str {
        match self.principal().platform_role {
            Some(_) if role.is_none() => OPERATOR,
            _ => &self.principal().name,
        }
    }

    /// Every platform role reads what is anybody's.
    pub(super) fn sees_all(&self) -> bool {
        self.principal().platform_role.is_some()
    }

    pub(super) fn new_id(&self) -> Uuid {
        IdGen::new(self.app.cell).next()
    }

    pub(crate) async fn conn(&self) -> Result<sqlx::pool::PoolConnection<Postgres>> {
        Ok(self.app.pool.acquire().await?)
    }

    /// Begins a change that leads to `resource`. Of two calls with one key the second waits here for the first.
    pub(super) async fn begin(
        &self,
        request: &impl prost::Message,
        resource: Uuid,
    ) -> Result<Begun> {
        let scope = self.scope()?;
        let hash = idempotency::hash(request);
        let mut tx = self.app.pool.begin().await?;
        match idempotency::take(&mut tx, scope, &hash, &resource.to_string()).await? {
            Lookup::Fresh => Ok(Begun::Fresh(tx)),
            Lookup::Replay { resource_id } => Ok(Begun::Replay(led_to(&resource_id)?)),
        }
    }

    /// What this very change led to, if it was made before under the same key. To be asked before another service is: what the
    /// change names need not be there any more.
    pub(super) async fn made(&self, request: &impl prost::Message) -> Result<Option<Uuid>> {
        let hash = idempotency::hash(request);
        let mut conn = self.conn().await?;
        match idempotency::lookup(&mut conn, self.scope()?, &hash).await? {
            Lookup::Fresh => Ok(None),
            Lookup::Replay { resource_id } => led_to(&resource_id).map(Some),
        }
    }

    fn scope(&self) -> Result<Scope<'a>> {
        let key = self.key.ok_or_else(|| {
            Error::new(
                Code::InvalidArgument,
                ErrorReason::IdempotencyKeyMissing,
                "every change needs the header X-Idempotency-Key",
            )
        })?;
        Ok(Scope {
            principal: &self.principal().name,
            method: self.route.method.full_name(),
            key,
        })
    }

    /// Ends a change: its audit row, then all of it or nothing.
    pub(super) async fn commit(
        &self,
        mut tx: Transaction<'static, Postgres>,
        resource: Uuid,
        detail: Value,
    ) -> Result<()> {
        self.record(&mut tx, resource, detail).await?;
        Ok(tx.commit().await?)
    }

    /// The same for a change in an organisation or a project: the members of the project read it as an activity.
    pub(super) async fn commit_in(
        &self,
        tx: Transaction<'static, Postgres>,
        group: Group,
        resource: Uuid,
        detail: Value,
    ) -> Result<()> {
        let detail = match group {
            Group::Project(id) => audit::in_project(detail, id),
            Group::Organisation(_) => detail,
        };
        self.commit(tx, resource, detail).await
    }

    /// The audit row of a change.
    pub(super) async fn record(
        &self,
        conn: &mut PgConnection,
        resource: Uuid,
        mut detail: Value,
    ) -> Result<()> {
        let project = detail[audit::PROJECT].as_str();
        let project = project.and_then(|id| id.parse::<Uuid>().ok());
        if let Some(project) = project {
            // in the form that the activity of the project is found by, however the caller wrote it
            detail = audit::in_project(detail, project);
            let principal = self.principal();
            if principal.platform_role.is_some() && principal.role_in(project).is_none() {
                detail[audit::BY_OPERATOR] = true.into();
            }
        }
        let entry = audit::Entry {
            principal: &self.principal().name,
            action: &self.route.access.action,
            resource: &self.route.access.resource,
            resource_id: &resource.to_string(),
            request_id: self.request_id,
            detail,
        };
        audit::record(conn, entry).await
    }

    /// An organisation that the caller may see; to others there is none.
    pub(super) async fn organisation(
        &self,
        conn: &mut PgConnection,
        given: &str,
    ) -> Result<OrganisationRow> {
        let id = known_id(given, organisation_unknown)?;
        let found = find_organisation(conn, id, self.me()).await?;
        let row = found
            .filter(|row| row.role.is_some() || row.has_project || self.sees_all())
            .ok_or_else(organisation_unknown)?;
        let set = store::organisation_guardrails(conn, id).await?;
        self.decide(Resource::Organisation {
            id,
            role: row.role,
            guardrails: &set.guardrails,
        })?;
        Ok(row)
    }

    /// A project that the caller may see; to others there is none.
    pub(crate) async fn project(&self, conn: &mut PgConnection, given: &str) -> Result<ProjectRow> {
        let id = known_id(given, project_unknown)?;
        let found = find_project(conn, id, self.me()).await?;
        let row = found
            .filter(|row| row.role.is_some() || self.sees_all())
            .ok_or_else(project_unknown)?;
        self.decide_in(conn, &row, Asked::default()).await?;
        Ok(row)
    }

    /// Asks the policies about a project and what is asked for in it.
    pub(super) async fn decide_in(
        &self,
        conn: &mut PgConnection,
        row: &ProjectRow,
        asked: Asked<'_>,
    ) -> Result<()> {
        let set = store::organisation_guardrails(conn, row.organisation_id).await?;
        self.decide(Resource::Project {
            id: row.id,
            organisation: row.organisation_id,
            role: row.role,
            has_grant: false,
            guardrails: &set.guardrails,
            asked,
        })
    }

    /// Asks the policies about what was found, with the role that the caller has there now: guardrails of an organisation bind
    /// who has a role on the platform and is no member, too.
    fn decide(&self, resource: Resource<'_>) -> Result<()> {
        let of_organisation = matches!(resource, Resource::Organisation { .. });
        let route = match self.route.group {
            group if group.is_of_a_project() && of_organisation => {
                // of an organisation's webhooks and invitations decides who may make them
                let own = self.route.access.action.as_str();
                let making = match USES_OF_WEBHOOKS.contains(&own) {
                    true => CREATE_ORGANISATION_WEBHOOK,
                    false => INVITE_TO_ORGANISATION,
                };
                let mut routes = self.app.routes.routes().iter();
                let making = routes.find(|route| route.access.action == making);
                making.ok_or_else(|| Error::internal("no route makes these of an organisation"))?
            }
            group if group.is_of_a_project() => self.route,
            ActionGroup::OrganisationRead | ActionGroup::OrganisationManage if of_organisation => {
                self.route
            }
            // what is the platform's was decided before it was looked for
            _ => return Ok(()),
        };
        let decided = self.app.policies.on(who(self.principal()), route, resource);
        decided.map_err(Refusal::into_own_error)
    }

    /// Refuses to give a role that is stronger than the caller's own, or that takes scopes which the caller's key lacks.
    pub(super) fn may_give(&self, owned: &Owned, role: Role) -> Result<()> {
        if !self.administers() && owned.role.is_none_or(|own| own < role) {
            let message = format!("Only an owner gives the role {}.", role.as_str());
            let refused = self.denied(message);
            return Err(refused.field("role", "must not be stronger than your own"));
        }
        match who(self.principal()).lacks_of(role) {
            None => Ok(()),
            Some(scope) => {
                let role = role.as_str();
                let instead = format!("gives nobody the role {role}");
                Err(self.lacks(scope, &instead, "role"))
            }
        }
    }

    /// Refuses a key that would let others do what its own scopes do not let it.
    pub(super) fn has_scope(&self, scope: store::Scope, field: &str) -> Result<()> {
        let scopes = who(self.principal()).scopes;
        if scopes.is_none_or(|own| own.contains(&scope)) {
            return Ok(());
        }
        Err(self.lacks(scope, "lets nobody do what needs it", field))
    }

    fn lacks(&self, scope: store::Scope, instead: &str, field: &str) -> Error {
        let scope = scope.name();
        let message = format!("The API key lacks the scope {scope}, and so {instead}.");
        let refused = self.denied(message);
        refused.field(field, "must need no scope that the key lacks")
    }

    fn denied(&self, message: impl Into<String>) -> Error {
        Error::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            message,
        )
        .meta("action", self.route.access.action.clone())
    }

    /// Refuses who has neither this role, or a stronger one, nor administers the platform.
    pub(super) fn needs(&self, role: Option<Role>, least: Role) -> Result<()> {
        if self.administers() || role.is_some_and(|role| role >= least) {
            return Ok(());
        }
        let who = match least {
            Role::Owner => "This needs an owner.",
            Role::Viewer => "This needs a member with the role viewer, member or owner.",
            _ => "This needs a member with the role member or owner.",
        };
        Err(self.denied(who))
    }

    /// The organisation or project of a request, locked, whose owner calls and that is not closed. The lock comes first: who
    /// owns it, and its state, are as they are then.
    pub(super) async fn owned(&self, conn: &mut PgConnection, of: Of<'_>) -> Result<Owned> {
        match of {
            Of::Organisation(given) => {
                let id = known_id(given, organisation_unknown)?;
                store::lock_organisation(conn, id).await?;
                let row = self.organisation(conn, given).await?;
                self.needs(row.role, Role::Owner)?;
                not_closed(row.state)?;
                Ok(Owned {
                    group: Group::Organisation(id),
                    name: row.slug,
                    role: row.role,
                })
            }
            Of::Project(given) => {
                let id = known_id(given, project_unknown)?;
                store::lock_project(conn, id).await?;
                let row = self.project(conn, given).await?;
                self.needs(row.role, Role::Owner)?;
                not_closed(row.state())?;
                Ok(Owned {
                    group: Group::Project(id),
                    name: format!("{}/{}", row.organisation, row.slug),
                    role: row.role,
                })
            }
        }
    }

    /// The same for who only reads.
    pub(super) async fn seen(&self, conn: &mut PgConnection, of: Of<'_>) -> Result<Group> {
        match of {
            // who is only in a project of it sees that there is an organisation, and not who is in it
            Of::Organisation(given) => {
                let row = self.organisation(conn, given).await?;
                if row.role.is_none() && !self.sees_all() {
                    self.needs(None, Role::Owner)?;
                }
                Ok(Group::Organisation(row.id))
            }
            Of::Project(given) => Ok(Group::Project(self.project(conn, given).await?.id)),
        }
    }
}

/// The id that a key is recorded with.
fn led_to(resource_id: &str) -> Result<Uuid> {
    id::parse("id", resource_id).map_err(Error::internal)
}

/// What a request names.
#[derive(Clone, Copy)]
pub(super) enum Of<'a> {
    /// An organisation, by the text of its id.
    Organisation(&'a str),
    /// A project, by the text of its id.
    Project(&'a str),
}

impl<'a> Of<'a> {
    /// Of what a row belongs to, by the text of its id.
    pub(super) fn group(group: Group, id: &'a str) -> Self {
        match group {
            Group::Organisation(_) => Self::Organisation(id),
            Group::Project(_) => Self::Project(id),
        }
    }
}

/// What the caller owns.
pub(super) struct Owned {
    /// Which.
    pub group: Group,
    /// Its slugs.
    pub name: String,
    /// The caller's role there; an administrator of the platform may have none.
    pub role: Option<Role>,
}

/// An id of a path. A text that is no id names nothing that there is.
pub(super) fn known_id(given: &str, unknown: impl Fn() -> Error) -> Result<Uuid> {
    given.parse().map_err(|_| unknown())
}

/// Of what belongs to something that the caller cannot see there is nothing either.
pub(super) fn hidden(unknown: fn() -> Error) -> impl FnOnce(Error) -> Error {
    move |error| match error.code() {
        Code::NotFound => unknown(),
        _ => error,
    }
}

/// Refuses what is closed.
pub(super) fn not_closed(state: TenantState) -> Result<()> {
    if state == TenantState::Closed {
        return Err(Error::new(
            Code::FailedPrecondition,
            ErrorReason::ProjectClosed,
            "It is closed, for good.",
        ));
    }
    Ok(())
}

pub(super) fn organisation_unknown() -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::NotFound,
        "no such organisation",
    )
    .field("organisation_id", "must be one of your organisations")
}

pub(super) fn project_unknown() -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::ProjectUnknown,
        "no such project",
    )
    .field("project_id", "must be one of your projects")
}

/// Nothing of this kind that the caller may see.
pub(super) fn unknown(field: &'static str, what: &str) -> Error {
    Error::new(
        Code::NotFound,
        ErrorReason::NotFound,
        format!("no such {what}"),
    )
    .field(field, format!("must be an existing {what}"))
}

/// A name is taken.
pub(super) fn taken(field: &'static str, rule: &str) -> Error {
    Error::new(
        Code::AlreadyExists,
        ErrorReason::AlreadyExists,
        format!("{field}: {rule}"),
    )
    .field(field, rule)
}
