//! Events of organisations, projects and who may do what in them. They are queued for webhooks in the transaction of the change:
//! what is rolled back was never told, and what is committed is delivered whatever becomes of this gateway.
//!
//! An event tells no more than the API answers those who own the webhook, and nothing that anybody signs in or calls with.
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use gpuaas_common::Result;
use gpuaas_common::id::IdGen;
use gpuaas_common::time::proto_time;
use gpuaas_proto::gpuaas::events::v1 as pb;
use gpuaas_proto::gpuaas::identity::v1::{
    ApiKey, Invitation, Organisation, Project, ServiceAccount,
};
use jiff_sqlx::Timestamp;
use sqlx::PgConnection;
use uuid::Uuid;

use super::call::Call;
use super::wire;
use crate::store::{
    self, Audience, Group, MemberRow, MembershipChange, NewDelivery, PrincipalKind, Role, Takers,
};
use crate::webhooks::{event_types, events};

/// Who changes the memberships that groups of an identity provider give.
const SCIM: &str = "scim";
/// Changes of memberships that are queued in one statement.
const AT_ONCE: usize = 500;

/// What an event is about, as it was just after it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Data {
    Organisation(pb::OrganisationEventData),
    Project(pb::ProjectEventData),
    Member(pb::MemberEventData),
    Invitation(pb::InvitationEventData),
    ServiceAccount(pb::ServiceAccountEventData),
    ApiKey(pb::ApiKeyEventData),
}

impl Data {
    fn body(self, event_type: &str, at: Timestamp) -> String {
        let timestamp = Some(proto_time(at.to_jiff()));
        macro_rules! written {
            ($message:ident, $data:expr) => {
                events::written(
                    &pb::$message {
                        r#type: event_type.to_owned(),
                        timestamp,
                        data: Some($data),
                    },
                    concat!("gpuaas.events.v1.", stringify!($message)),
                )
            };
        }
        match self {
            Self::Organisation(data) => written!(OrganisationEvent, data),
            Self::Project(data) => written!(ProjectEvent, data),
            Self::Member(data) => written!(MemberEvent, data),
            Self::Invitation(data) => written!(InvitationEvent, data),
            Self::ServiceAccount(data) => written!(ServiceAccountEvent, data),
            Self::ApiKey(data) => written!(ApiKeyEvent, data),
        }
    }
}

/// An event to queue.
#[derive(Clone, Debug)]
pub(super) struct NewEvent {
    /// For example "project.updated".
    pub(super) event_type: &'static str,
    /// Who may know of it.
    pub(super) audience: Audience,
    /// What it is about.
    pub(super) object: Uuid,
    /// The same in words.
    pub(super) data: Data,
}

impl Call<'_> {
    /// Queues an event in the transaction of its change, before the audit row.
    pub(super) async fn emit(&self, conn: &mut PgConnection, event: NewEvent) -> Result<()> {
        debug_assert!(
            event_types::find(event.event_type).is_some(),
            "{}",
            event.event_type
        );
        let Some(takers) = store::takers(conn, event.audience, event.event_type).await? else {
            return Ok(());
        };
        let body = event.data.body(event.event_type, takers.now);
        let deliveries: Vec<NewDelivery> =
            for_each(&takers, event.event_type, event.object, &body).collect();
        store::insert_deliveries(conn, &IdGen::new(self.app.cell), &deliveries).await?;
        Ok(())
    }

    /// Queues what the groups of an identity provider made of memberships.
    pub(super) async fn emit_memberships(
        &self,
        conn: &mut PgConnection,
        organisation: Uuid,
        changes: &[MembershipChange],
    ) -> Result<()> {
        let ids = IdGen::new(self.app.cell);
        Ok(memberships(conn, &ids, organisation, changes).await?)
    }
}

fn for_each<'a>(
    takers: &'a Takers,
    event_type: &'static str,
    object: Uuid,
    body: &'a str,
) -> impl Iterator<Item = NewDelivery> + 'a {
    takers.webhooks.iter().map(move |webhook| NewDelivery {
        webhook: *webhook,
        event_type,
        object,
        body: body.to_owned(),
    })
}

/// Who may know of something in an organisation itself, or in a project.
pub(super) fn audience(group: Group) -> Audience {
    match group {
        Group::Organisation(id) => Audience::Organisation(id),
        Group::Project(id) => Audience::Project(id),
    }
}

/// Queues what the groups of an identity provider made of memberships in an organisation and its projects, in the order of the
/// changes.
///
/// # Errors
/// Database errors.
pub(crate) async fn memberships(
    conn: &mut PgConnection,
    ids: &IdGen,
    organisation: Uuid,
    changes: &[MembershipChange],
) -> sqlx::Result<()> {
    // they are many at times, of few projects
    let mut known: HashMap<(Option<Uuid>, &'static str), Option<Takers>> = HashMap::new();
    for part in changes.chunks(AT_ONCE) {
        let mut taken = Vec::new();
        for change in part {
            let Some(event_type) = type_of(change) else {
                continue;
            };
            let key = (change.project, event_type);
            if let Entry::Vacant(place) = known.entry(key) {
                let group = group_of(change, organisation);
                place.insert(store::takers(conn, audience(group), event_type).await?);
            }
            if matches!(known.get(&key), Some(Some(_))) {
                taken.push((change, key));
            }
        }
        if taken.is_empty() {
            continue;
        }
        let names: Vec<&str> = taken
            .iter()
            .map(|(change, _)| change.principal.as_str())
            .collect();
        let principals = store::principals_by_name(conn, &names).await?;
        let mut deliveries = Vec::new();
        for (change, key) in taken {
            let takers = known.get(&key).and_then(Option::as_ref);
            let principal = principals.get(&change.principal);
            let (Some(takers), Some((id, kind))) = (takers, principal) else {
                continue;
            };
            let role = |text: &Option<String>| text.as_deref().and_then(Role::parse);
            let who = Who {
                id: *id,
                name: &change.principal,
                kind: *kind,
            };
            let roles = (role(&change.before), role(&change.after));
            let data = member(group_of(change, organisation), who, roles, SCIM);
            let body = data.body(key.1, takers.now);
            deliveries.extend(for_each(takers, key.1, *id, &body));
        }
        store::insert_deliveries(conn, ids, &deliveries).await?;
    }
    Ok(())
}

fn group_of(change: &MembershipChange, organisation: Uuid) -> Group {
    change
        .project
        .map_or(Group::Organisation(organisation), Group::Project)
}

/// The type of the event of a change; `None` when the role is the same.
fn type_of(change: &MembershipChange) -> Option<&'static str> {
    let of_project = change.project.is_some();
    let either = |project: &'static str, organisation: &'static str| match of_project {
        true => project,
        false => organisation,
    };
    match (&change.before, &change.after) {
        (None, Some(_)) => Some(either("project_member.added", "organisation_member.added")),
        (Some(_), None) => Some(either(
            "project_member.removed",
            "organisation_member.removed",
        )),
        (Some(before), Some(after)) if before != after => Some(either(
            "project_member.updated",
            "organisation_member.updated",
        )),
        _ => None,
    }
}

/// A principal that is a member, or was one.
#[derive(Clone, Copy)]
pub(super) struct Who<'a> {
    id: Uuid,
    name: &'a str,
    kind: PrincipalKind,
}

impl<'a> From<&'a MemberRow> for Who<'a> {
    fn from(row: &'a MemberRow) -> Self {
        Self {
            id: row.id,
            name: &row.name,
            kind: row.kind,
        }
    }
}

/// What an event of a membership tells, with the roles before and after it.
fn member(
    group: Group,
    who: Who<'_>,
    (before, after): (Option<Role>, Option<Role>),
    actor: &str,
) -> Data {
    let (project_id, organisation_id) = match group {
        Group::Project(id) => (id.to_string(), String::new()),
        Group::Organisation(id) => (String::new(), id.to_string()),
    };
    Data::Member(pb::MemberEventData {
        project_id,
        organisation_id,
        member_id: who.id.to_string(),
        principal: who.name.to_owned(),
        kind: wire::kind(who.kind).into(),
        role: wire::role(after).into(),
        previous_role: wire::role(before).into(),
        actor: actor.to_owned(),
    })
}

/// An event of a membership that somebody changed.
pub(super) fn of_member(
    group: Group,
    who: Who<'_>,
    (before, after): (Option<Role>, Option<Role>),
    actor: &str,
) -> NewEvent {
    let verb = match (before, after) {
        (None, _) => ("project_member.added", "organisation_member.added"),
        (Some(_), Some(_)) => ("project_member.updated", "organisation_member.updated"),
        (Some(_), None) => ("project_member.removed", "organisation_member.removed"),
    };
    NewEvent {
        event_type: match group {
            Group::Project(_) => verb.0,
            Group::Organisation(_) => verb.1,
        },
        audience: audience(group),
        object: who.id,
        data: member(group, who, (before, after), actor),
    }
}

/// An event of an organisation, which everybody in its projects reads, too. Who changed it is not among that.
pub(super) fn of_organisation(event_type: &'static str, id: Uuid, row: Organisation) -> NewEvent {
    NewEvent {
        event_type,
        audience: Audience::WholeOrganisation(id),
        object: id,
        data: Data::Organisation(pb::OrganisationEventData {
            organisation_id: row.id,
            slug: row.slug,
            display_name: row.display_name,
            state: row.state,
            state_reason: row.state_reason,
        }),
    }
}

/// An event of a project.
pub(super) fn of_project(
    event_type: &'static str,
    id: Uuid,
    row: Project,
    actor: &str,
) -> NewEvent {
    NewEvent {
        event_type,
        audience: Audience::Project(id),
        object: id,
        data: Data::Project(pb::ProjectEventData {
            project_id: row.id,
            organisation_id: row.organisation_id,
            slug: row.slug,
            display_name: row.display_name,
            state: row.state,
            state_reason: row.state_reason,
            suspended_by_platform: row.suspended_by_platform,
            actor: actor.to_owned(),
        }),
    }
}

/// An event of an invitation.
pub(super) fn of_invitation(
    event_type: &'static str,
    group: Group,
    id: Uuid,
    row: Invitation,
    actor: &str,
) -> NewEvent {
    NewEvent {
        event_type,
        audience: audience(group),
        object: id,
        data: Data::Invitation(pb::InvitationEventData {
            invitation_id: row.id,
            project_id: row.project_id,
            organisation_id: row.organisation_id,
            email: row.email,
            role: row.role,
            state: row.state,
            expire_time: row.expire_time,
            accepted_by: row.accepted_by,
            actor: actor.to_owned(),
        }),
    }
}

/// An event of a service account.
pub(super) fn of_service_account(
    event_type: &'static str,
    (project, id): (Uuid, Uuid),
    row: ServiceAccount,
    actor: &str,
) -> NewEvent {
    NewEvent {
        event_type,
        audience: Audience::Project(project),
        object: id,
        data: Data::ServiceAccount(pb::ServiceAccountEventData {
            service_account_id: row.id,
            project_id: row.project_id,
            slug: row.slug,
            principal: row.principal,
            role: row.role,
            disabled: row.disable_time.is_some(),
            disabled_by_platform: row.disabled_by_platform,
            actor: actor.to_owned(),
        }),
    }
}

/// An event of an API key of a project.
pub(super) fn of_api_key(
    event_type: &'static str,
    (project, id): (Uuid, Uuid),
    row: ApiKey,
    actor: &str,
) -> NewEvent {
    NewEvent {
        event_type,
        audience: Audience::Project(project),
        object: id,
        data: Data::ApiKey(pb::ApiKeyEventData {
            api_key_id: row.id,
            service_account_id: row.service_account_id,
            project_id: project.to_string(),
            display_name: row.display_name,
            scopes: row.scopes,
            expire_time: row.expire_time,
            disable_time: row.disable_time,
            replaces: row.replaces,
            actor: actor.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use jiff_sqlx::ToSqlx as _;

    use super::*;

    fn change(project: Option<u128>, before: &str, after: &str) -> MembershipChange {
        let role = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        MembershipChange {
            principal: "user:a".to_owned(),
            project: project.map(Uuid::from_u128),
            before: role(before),
            after: role(after),
        }
    }

    #[test]
    fn a_change_of_a_membership_has_the_type_of_what_became_of_it() {
        for (project, before, after, expected) in [
            (Some(1), "", "viewer", Some("project_member.added")),
            (Some(1), "viewer", "owner", Some("project_member.updated")),
            (Some(1), "viewer", "", Some("project_member.removed")),
            (None, "", "owner", Some("organisation_member.added")),
            (None, "member", "owner", Some("organisation_member.updated")),
            (None, "member", "", Some("organisation_member.removed")),
            (Some(1), "viewer", "viewer", None),
            (None, "", "", None),
        ] {
            let found = type_of(&change(project, before, after));
            assert_eq!(found, expected, "{before} {after}");
            assert!(found.is_none_or(|found| event_types::find(found).is_some()));
        }
    }

    #[test]
    fn a_body_is_as_the_api_writes_it_and_has_the_keys_secret_nowhere() {
        let key = ApiKey {
            id: "k".to_owned(),
            key: "gpuaas_secret".to_owned(),
            prefix: "gpuaas_pre".to_owned(),
            ..ApiKey::default()
        };
        let event = of_api_key("api_key.created", (Uuid::nil(), Uuid::nil()), key, "user:a");
        let at = jiff::Timestamp::UNIX_EPOCH.to_sqlx();
        let body = event.data.body(event.event_type, at);
        let read: serde_json::Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!(read["type"], "api_key.created");
        assert_eq!(read["timestamp"], "1970-01-01T00:00:00Z");
        assert_eq!(read["data"]["api_key_id"], "k");
        assert_eq!(read["data"]["actor"], "user:a");
        assert!(
            !body.contains("secret") && !body.contains("gpuaas_pre"),
            "{body}"
        );
    }
}
