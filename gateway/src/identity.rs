//! The methods that the gateway answers itself: who calls, and which projects there are.
use std::collections::{BTreeSet, HashMap};

use gpuaas_common::page;
use gpuaas_proto::gpuaas::identity::v1::{
    Caller, ListProjectsRequest, ListProjectsResponse, Project, Role,
};
use gpuaas_proto::gpuaas::scheduler::v1::{FleetOccupant, ListFleetNodesResponse};
use prost_reflect::DynamicMessage;
use uuid::Uuid;

use crate::app::App;
use crate::auth::sessions::Session;
use crate::auth::verify::LEEWAY_SECONDS;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::store::{self, ProjectRow};

/// The name that the route table has for this process.
pub const SERVICE: &str = "gateway";
/// What a page token of the list of projects belongs to.
const PROJECTS: [&str; 1] = ["projects"];

/// Answers a call of one of these methods.
///
/// # Errors
/// A bad page, or a database that does not answer.
pub async fn answer(
    app: &App,
    route: &Route,
    session: &Session,
    message: &DynamicMessage,
) -> Result<DynamicMessage, ApiError> {
    let mut answer = DynamicMessage::new(route.method.output());
    let filled = match route.method.name() {
        "GetCaller" => answer.transcode_from(&caller(app, session).await?),
        "ListProjects" => {
            let request = message.transcode_to().map_err(|_| ApiError::internal())?;
            answer.transcode_from(&projects(app, &request).await?)
        }
        _ => return Err(ApiError::internal()),
    };
    filled.map_err(|error| {
        tracing::error!(method = route.method.full_name(), "write answer: {error}");
        ApiError::internal()
    })?;
    Ok(answer)
}

async fn caller(app: &App, session: &Session) -> Result<Caller, ApiError> {
    let principal = &session.principal;
    let identity = &session.identity;
    let (display_name, projects) = store::find_profile(&app.pool, &principal.name)
        .await
        .map_err(|error| unreachable(&error))?;
    let role = principal.admin.then_some(Role::PlatformAdmin);
    Ok(Caller {
        principal: principal.name.clone(),
        display_name,
        issuer: identity.issuer.clone(),
        subject: identity.subject.clone(),
        roles: role.into_iter().map(i32::from).collect(),
        projects: projects.into_iter().map(to_wire).collect(),
        expire_time: Some(prost_types::Timestamp {
            seconds: identity.expires.saturating_sub_unsigned(LEEWAY_SECONDS),
            nanos: 0,
        }),
    })
}

async fn projects(
    app: &App,
    request: &ListProjectsRequest,
) -> Result<ListProjectsResponse, ApiError> {
    let refused = |error: gpuaas_common::Error| ApiError::from_status(&error.into());
    let size = page::page_size(request.page_size).map_err(refused)?;
    let after: Option<(String, String)> =
        page::decode(&request.page_token, &PROJECTS).map_err(refused)?;
    let mut rows = store::list_projects(&app.pool, &after.unwrap_or_default(), size + 1)
        .await
        .map_err(|error| unreachable(&error))?;
    let more = rows.len() as i64 > size;
    rows.truncate(size as usize);
    let next_page_token = match rows.last() {
        Some(last) if more => page::encode(&(&last.organisation, &last.slug), &PROJECTS),
        _ => String::new(),
    };
    Ok(ListProjectsResponse {
        projects: rows.into_iter().map(to_wire).collect(),
        next_page_token,
    })
}

/// The answer that has projects by their ids alone.
const WITHOUT_NAMES: &str = "gpuaas.scheduler.v1.FleetAdminService.ListFleetNodes";

/// Names the projects and organisations in an answer of the fleet record: no service but this one knows them. A project
/// that there is not keeps its id alone.
///
/// # Errors
/// A database that does not answer.
pub async fn name_projects(
    app: &App,
    route: &Route,
    answer: &mut DynamicMessage,
) -> Result<(), ApiError> {
    if route.method.full_name() != WITHOUT_NAMES {
        return Ok(());
    }
    let mut record: ListFleetNodesResponse =
        answer.transcode_to().map_err(|_| ApiError::internal())?;
    let ids: BTreeSet<Uuid> = occupants(&mut record)
        .filter_map(|one| one.project_id.parse().ok())
        .collect();
    let ids: Vec<Uuid> = ids.into_iter().collect();
    let found = store::find_projects(&app.pool, &ids)
        .await
        .map_err(|error| unreachable(&error))?;
    name(&mut record, found);
    answer
        .transcode_from(&record)
        .map_err(|_| ApiError::internal())
}

fn occupants(record: &mut ListFleetNodesResponse) -> impl Iterator<Item = &mut FleetOccupant> {
    record.nodes.iter_mut().flat_map(|node| &mut node.occupants)
}

fn name(record: &mut ListFleetNodesResponse, projects: Vec<ProjectRow>) {
    let by_id: HashMap<String, ProjectRow> = projects
        .into_iter()
        .map(|row| (row.id.to_string(), row))
        .collect();
    for one in occupants(record) {
        if let Some(row) = by_id.get(&one.project_id) {
            one.project.clone_from(&row.slug);
            one.organisation.clone_from(&row.organisation);
        }
    }
}

fn to_wire(row: ProjectRow) -> Project {
    Project {
        id: row.id.to_string(),
        slug: row.slug,
        display_name: row.display_name,
        organisation: row.organisation,
    }
}

fn unreachable(error: &sqlx::Error) -> ApiError {
    tracing::error!("read projects: {error}");
    ApiError::unavailable()
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::scheduler::v1::FleetNode;

    use super::*;

    #[test]
    fn the_fleet_record_names_projects_that_there_are() {
        let occupant = |id: u128| FleetOccupant {
            project_id: Uuid::from_u128(id).to_string(),
            ..FleetOccupant::default()
        };
        let node = FleetNode {
            occupants: vec![occupant(1), occupant(2)],
            ..FleetNode::default()
        };
        let mut record = ListFleetNodesResponse {
            nodes: vec![node.clone(), node],
            ..ListFleetNodesResponse::default()
        };
        let row = ProjectRow {
            id: Uuid::from_u128(2),
            slug: "training".into(),
            display_name: "Training".into(),
            organisation: "acme".into(),
        };
        name(&mut record, vec![row]);
        let named: Vec<_> = occupants(&mut record)
            .map(|one| (one.project.clone(), one.organisation.clone()))
            .collect();
        let (unknown, known) = (Default::default(), ("training".into(), "acme".into()));
        assert_eq!(
            named,
            [&unknown, &known, &unknown, &known].map(Clone::clone)
        );
    }

    #[test]
    fn the_answer_to_complete_is_one_of_the_contract() {
        let routes = crate::routes().expect("served");
        let mut methods = routes.routes().iter().map(|route| &route.method);
        assert!(methods.any(|method| method.full_name() == WITHOUT_NAMES));
    }
}
