//! The activity of a project: what its members may see of the audit records of what was done in it (P10). There is no second
//! store: a record that is of a project says so in its detail.
mod summaries;

use std::collections::HashMap;
use std::time::Duration;

use futures::future::join_all;
use gpuaas_common::audit::read::Filter;
use gpuaas_common::audit::{BY_OPERATOR, PROJECT};
use gpuaas_common::select::{Catalog, Field, Kind, Selection};
use gpuaas_common::{Error, Result, page};
use gpuaas_proto::gpuaas::audit::v1::{
    Activity, ActorKind, AuditOutcome, AuditRecord, ListActivitiesRequest, ListActivitiesResponse,
    ListAuditRecordsRequest,
};
use serde_json::Value;
use tonic::Status;
use uuid::Uuid;

use crate::audit;
use crate::identity::call::{Call, OPERATOR};
use crate::store::{self, PrincipalKind};

/// What only the methods of administrators do. Whoever calls them acts as an operator, also one who is a member.
const BY_OPERATORS: [&str; 7] = [
    "allocation.operator_stop",
    "allocation.operator_release",
    "allocation.force_release",
    "quota.put",
    "queue.prioritise",
    "reservation.limit",
    "terminal.operator_end",
];
/// Of operators the actions whose reason is for the members; of others it is for the audit trail alone.
const REASON_FOR_MEMBERS: [&str; 6] = [
    "allocation.operator_stop",
    "allocation.operator_release",
    "project.suspend",
    "project.close",
    "reservation.cancel",
    "terminal.operator_end",
];
/// What the activities of a project can be selected by. The services select by more, of which members read nothing: who is an
/// operator, and from where somebody called.
static ACTIVITIES: Catalog = Catalog {
    fields: &[
        Field::new("action", Kind::Text, "action"),
        Field::new("resource", Kind::Text, "resource"),
        Field::new("resource_id", Kind::Text, "resource_id"),
        Field::new("outcome", Kind::OneOf(&["allowed", "denied"]), "outcome"),
        Field::sortable("create_time", Kind::Time, "at"),
    ],
    key: Field::new("id", Kind::Id, "id"),
    order: "create_time desc",
};
/// Schemas that have records of projects.
const SOURCES: [&str; 3] = ["placement", "terminal", audit::OWN];
/// How long a page waits for one of them before it goes without.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(5);
/// Most characters of a kind.
const MAX_KIND: usize = 50;

/// Answers `ListActivities`.
///
/// # Errors
/// A project that the caller does not see, a bad request, a database that does not answer.
pub async fn list(
    call: &Call<'_>,
    request: ListActivitiesRequest,
) -> Result<ListActivitiesResponse> {
    let mut conn = call.conn().await?;
    let project = call.project(&mut conn, &request.project_id).await?.id;
    drop(conn);
    let size = page::page_size(request.page_size)?;
    let kind = parse_kind(&request.kind)?;
    Selection::parse(&ACTIVITIES, &request.filter, &request.order_by)?;
    let wanted = ListAuditRecordsRequest {
        // checked by its rule alone: what a page and its token are never depends on a name that may be an operator's
        principal: request.actor.clone(),
        outcome: request.outcome,
        start_time: request.start_time,
        end_time: request.end_time,
        filter: request.filter.clone(),
        order_by: request.order_by.clone(),
        ..ListAuditRecordsRequest::default()
    };
    Filter::parse(&wanted).map_err(|error| match error.fields().first() {
        Some((field, rule)) if field == "principal" => Error::invalid("actor", rule.clone()),
        _ => error,
    })?;
    let wanted = ListAuditRecordsRequest {
        principal: String::new(),
        ..wanted
    };
    let filter = Filter::parse(&wanted)?.in_project(project, kind);
    let text = format!("{:?}", (&filter, &request.actor));
    let query = ["activities", text.as_str()];
    let after: Option<Uuid> = page::decode(&request.page_token, &query)?;
    let answers = join_all(SOURCES.map(|source| {
        let (wanted, filter) = (&wanted, &filter);
        async move {
            let of = audit::Wanted {
                request: wanted,
                filter,
                project: Some((project, kind)),
            };
            let read = audit::records(call.app, source, of, after, size + 1);
            let in_time = tokio::time::timeout(SOURCE_TIMEOUT, read).await;
            let late = || Err(Status::deadline_exceeded("it does not answer in time"));
            (source, in_time.unwrap_or_else(|_| late()))
        }
    }))
    .await;
    let mut found = ListActivitiesResponse::default();
    let mut records = Vec::new();
    for (source, answer) in answers {
        match answer {
            // a service of the release before does not know this filter, and answers with what is of others
            Ok(some) => records.extend(some.into_iter().filter(|one| is_of(one, project))),
            Err(status) => {
                tracing::warn!(source, "list activities without it: {}", status.message());
                found.incomplete = true;
            }
        }
    }
    // ids begin with the time
    records.sort_by(|one, other| other.id.cmp(&one.id));
    if filter.is_ascending() {
        records.reverse();
    }
    let more = records.len() as i64 > size;
    records.truncate(size as usize);
    if let Some(last) = records.last().filter(|_| more) {
        let id: Uuid = last.id.parse().map_err(Error::internal)?;
        found.next_page_token = page::encode(&id, &query);
    }
    let actors = Actors::of(call, project, &records).await?;
    let shown = records.into_iter().map(|record| show(record, &actors));
    // an operator is not found by name
    let requested = |one: &Activity| request.actor.is_empty() || one.actor == request.actor;
    found.activities = shown.filter(requested).collect();
    Ok(found)
}

/// Whether a record says that it is of a project.
fn is_of(record: &AuditRecord, project: Uuid) -> bool {
    let detail: Value = serde_json::from_str(&record.detail).unwrap_or_default();
    detail[PROJECT] == project.to_string()
}

fn parse_kind(kind: &str) -> Result<&str> {
    let is_word = |one: char| one.is_ascii_lowercase() || one == '_';
    if kind.len() > MAX_KIND || !kind.chars().all(is_word) {
        let rule = "must be a kind of resource, for example allocation";
        return Err(Error::invalid("kind", rule));
    }
    Ok(kind)
}

/// What is known of who did something.
struct Actors {
    known: HashMap<String, ActorKind>,
}

impl Actors {
    async fn of(call: &Call<'_>, project: Uuid, records: &[AuditRecord]) -> Result<Self> {
        let mut names: Vec<&str> = records.iter().map(|one| one.principal.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let mut conn = call.conn().await?;
        let mut known = HashMap::new();
        for actor in store::actors(&mut conn, &names).await? {
            let kind = match actor.kind {
                PrincipalKind::User => ActorKind::User,
                PrincipalKind::ServiceAccount => ActorKind::ServiceAccount,
            };
            let is_foreign = actor.on_platform && {
                let found = store::principal_of_name(&mut *conn, &actor.name).await?;
                found.is_none_or(|principal| principal.role_in(project).is_none())
            };
            let kind = if is_foreign {
                ActorKind::Operator
            } else {
                kind
            };
            known.insert(actor.name, kind);
        }
        Ok(Self { known })
    }

    /// How the members of the project read of who caused a record.
    fn shown(&self, record: &AuditRecord, detail: &Value) -> (String, ActorKind) {
        let by_operator = detail[BY_OPERATOR] == true;
        // who was denied it may be anybody
        let is_denied = record.outcome == i32::from(AuditOutcome::Denied);
        let is_operators = !is_denied && BY_OPERATORS.contains(&record.action.as_str());
        if by_operator || is_operators {
            return (OPERATOR.to_owned(), ActorKind::Operator);
        }
        match self.known.get(&record.principal) {
            Some(ActorKind::Operator) => (OPERATOR.to_owned(), ActorKind::Operator),
            Some(kind) => (record.principal.clone(), *kind),
            // a service of the platform has no principal
            None => (String::new(), ActorKind::Platform),
        }
    }
}

/// A record as members see it: who, what and when; not from where.
fn show(record: AuditRecord, actors: &Actors) -> Activity {
    let detail: Value = serde_json::from_str(&record.detail).unwrap_or_default();
    let (actor, actor_kind) = actors.shown(&record, &detail);
    let text = |name: &str| detail[name].as_str().unwrap_or_default().to_owned();
    let names = [
        "name",
        "service_account",
        "slug",
        "principal",
        "email",
        "host",
        "member",
        "display_name",
    ];
    let name = names.into_iter().map(text).find(|name| !name.is_empty());
    let allocation_id = match record.resource.as_str() {
        "allocation" => record.resource_id.clone(),
        _ => text("allocation_id"),
    };
    let by_operator = actor_kind == ActorKind::Operator;
    let reason = match by_operator && !REASON_FOR_MEMBERS.contains(&record.action.as_str()) {
        true => String::new(),
        false => text("reason"),
    };
    let denied = record.outcome == i32::from(AuditOutcome::Denied);
    let (kind, _) = record.action.split_once('.').unwrap_or_default();
    Activity {
        id: record.id,
        create_time: record.create_time,
        actor,
        actor_kind: actor_kind.into(),
        summary: summaries::summary(&record.action, denied),
        kind: kind.to_owned(),
        name: name.unwrap_or_default(),
        reason,
        action: record.action,
        resource: record.resource,
        resource_id: record.resource_id,
        allocation_id,
        outcome: record.outcome,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(principal: &str, action: &str, detail: &Value) -> AuditRecord {
        AuditRecord {
            principal: principal.to_owned(),
            action: action.to_owned(),
            detail: detail.to_string(),
            address: "192.0.2.1".to_owned(),
            user_agent: "curl/8".to_owned(),
            ..AuditRecord::default()
        }
    }

    #[test]
    fn an_operator_has_no_name_here_and_the_platform_is_none() {
        let known = HashMap::from([
            ("user:alice".to_owned(), ActorKind::User),
            ("user:root".to_owned(), ActorKind::Operator),
        ]);
        let actors = Actors { known };
        let cases = [
            ("user:alice", "allocation.stop", json!({}), "user:alice"),
            ("user:root", "reservation.create", json!({}), OPERATOR),
            (
                "user:alice",
                "allocation.operator_stop",
                json!({}),
                OPERATOR,
            ),
            (
                "user:alice",
                "project.suspend",
                json!({ BY_OPERATOR: true }),
                OPERATOR,
            ),
            (
                "service:allocation",
                "allocation.auto_release",
                json!({}),
                "",
            ),
        ];
        for (principal, action, detail, expected) in cases {
            let shown = show(record(principal, action, &detail), &actors);
            assert_eq!(shown.actor, expected, "{action}");
            let whole = format!("{shown:?}");
            assert!(
                !whole.contains("192.0.2.1") && !whole.contains("curl"),
                "{whole}"
            );
            assert!(!whole.contains("user:root"), "{whole}");
        }
    }

    /// Who was refused a method of operators is a member like any other.
    #[test]
    fn what_was_denied_is_nobodys_but_the_callers() {
        let known = HashMap::from([("user:mallory".to_owned(), ActorKind::User)]);
        let denied = AuditRecord {
            outcome: AuditOutcome::Denied.into(),
            ..record("user:mallory", "quota.put", &json!({}))
        };
        assert_eq!(show(denied, &Actors { known }).actor, "user:mallory");
    }

    #[test]
    fn an_operators_reason_is_shown_where_it_is_for_the_members() {
        let actors = Actors {
            known: HashMap::new(),
        };
        let detail = json!({ "reason": "the rack burns" });
        for (action, expected) in [
            ("allocation.operator_stop", "the rack burns"),
            ("allocation.force_release", ""),
        ] {
            assert_eq!(
                show(record("user:root", action, &detail), &actors).reason,
                expected
            );
        }
    }

    #[test]
    fn what_a_thing_is_called_and_which_allocation_it_is_about() {
        let actors = Actors {
            known: HashMap::new(),
        };
        let detail = json!({ "allocation_id": "a1", "principal": "user:bob" });
        let shown = show(
            record("user:x", "allocation_grant.create", &detail),
            &actors,
        );
        assert_eq!(
            (shown.name.as_str(), shown.allocation_id.as_str()),
            ("user:bob", "a1")
        );
        assert_eq!(shown.kind, "allocation_grant");
    }

    #[test]
    fn what_a_service_gives_of_other_projects_is_not_shown() {
        let project = Uuid::from_u128(1);
        for (detail, expected) in [
            (json!({ "project_id": project }), true),
            (json!({ "project_id": Uuid::from_u128(2) }), false),
            (json!({}), false),
            (json!("x"), false),
        ] {
            assert_eq!(
                is_of(&record("user:x", "a.b", &detail), project),
                expected,
                "{detail}"
            );
        }
    }

    #[test]
    fn a_kind_is_a_word() {
        assert!(parse_kind("api_key").is_ok() && parse_kind("").is_ok());
        for bad in ["Allocation", "a.b", "a b", "x\0", &"a".repeat(51)] {
            let error = parse_kind(bad).expect_err("refused");
            assert_eq!(error.fields()[0].0, "kind", "{bad}");
        }
    }
}
