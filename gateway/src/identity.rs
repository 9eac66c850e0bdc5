//! The methods that the gateway answers itself: who calls, and which projects there are.
use gpuaas_common::page;
use gpuaas_proto::gpuaas::identity::v1::{
    Caller, ListProjectsRequest, ListProjectsResponse, Project, Role,
};
use prost_reflect::DynamicMessage;

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
