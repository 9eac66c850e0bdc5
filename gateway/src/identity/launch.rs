//! What a call of another service needs of projects: that the one it begins something in is not suspended, and the SSH keys
//! that a launch names.
use gpuaas_common::launch::{MAX_BATCH, MAX_SSH_KEYS};
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_client::AllocationServiceClient;
use gpuaas_proto::gpuaas::allocation::v1::{
    BatchCreateAllocationsRequest, CreateAllocationRequest, GetAllocationRequest,
};
use http::Method;
use prost_reflect::{DynamicMessage, Value};
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::Call;
use super::projects::{closed, closing, suspended_project};
use super::{parse, replace, running, ssh_keys};
use crate::app::App;
use crate::auth::sessions::MAX_PROJECTS;
use crate::contract::access::Audience;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::policy::Grant;
use crate::store::{self, Begun};
use crate::transcode::request::validate_only;

/// Changes that are allowed in a suspended project: they end something, or lift the protection from that.
const ENDING: [&str; 6] = [
    "allocation.stop",
    "allocation.release",
    "allocation.update",
    "ingress_mapping.delete",
    "reservation.cancel",
    "terminal.end",
];

/// What begins something that keeps a project from being closed.
const LAUNCHING: [&str; 2] = ["allocation.create", "reservation.create"];
/// The field of a launch that names keys.
const KEY_NAMES: &str = "ssh_key_names";
/// A service has ended a call that it no longer answers so many seconds after the gateway stopped to wait.
const MARGIN_SECONDS: f64 = 30.0;

/// A launch that is noted as under way.
#[derive(Clone, Copy, Debug)]
pub struct Launch(Uuid);

/// Notes a launch with the project that it is for, until a service has answered it. The project is asked as it is now, not as
/// it was when the caller was last looked up.
///
/// # Errors
/// `PROJECT_SUSPENDED`, `PROJECT_CLOSING`, `PROJECT_CLOSED`; a database that does not answer.
pub async fn begin(
    call: &Call<'_>,
    grant: &Grant,
    message: &DynamicMessage,
) -> Result<Option<Launch>, ApiError> {
    let access = &call.route.access;
    if !LAUNCHING.contains(&access.action.as_str())
        || call.route.http_method == Method::GET
        || validate_only(message)
    {
        return Ok(None);
    }
    let of_user = access.audience == Audience::User;
    // of what is not the caller's the service says that there is none
    let named = grant.project_of(message);
    let Some(project) = named.filter(|id| !of_user || grant.projects.contains(id)) else {
        return Ok(None);
    };
    let launch = call.new_id();
    let seconds = call.app.request_timeout.as_secs_f64() + MARGIN_SECONDS;
    let begun = store::begin_launch(&call.app.pool, launch, project, seconds, !of_user).await;
    let refusal = match begun.map_err(Error::from) {
        Ok(Begun::Noted) => return Ok(Some(Launch(launch))),
        Ok(Begun::Unknown) => return Ok(None),
        Ok(Begun::Suspended) => suspended_project(&call.app.pool, project).await,
        Ok(Begun::Closing) => closing(),
        Ok(Begun::Closed) => closed(),
        Err(error) => {
            tracing::error!("note a launch: {}", error.chain());
            error
        }
    };
    Err(ApiError::from_status(&refusal.into()))
}

/// Forgets a launch that has been answered.
pub async fn end(app: &App, launch: Launch) {
    // it is over by itself after its time
    if let Err(error) = store::end_launch(&app.pool, launch.0).await {
        tracing::warn!(launch = %launch.0, "forget a launch: {error}");
    }
}

/// Refuses a launch of more allocations, or by more names of keys, than there may be. What is done for each of them comes
/// after this: policies, and a connection to the database.
///
/// # Errors
/// `FIELD_INVALID`.
pub fn check_counts(route: &Route, message: &DynamicMessage) -> Result<(), ApiError> {
    let checked = match route.method.name() {
        "CreateAllocation" => check_names(KEY_NAMES, message),
        "BatchCreateAllocations" => check_batch(message),
        _ => Ok(()),
    };
    checked.map_err(|error| ApiError::from_status(&error.into()))
}

fn check_batch(message: &DynamicMessage) -> Result<()> {
    let batch = message.get_field_by_name("allocations");
    let batch = batch.as_deref().and_then(Value::as_list);
    let batch = batch.unwrap_or_default();
    if batch.len() > MAX_BATCH {
        let rule = format!("must be one to {MAX_BATCH} allocations");
        return Err(Error::invalid("allocations", rule));
    }
    let mut launches = batch.iter().filter_map(Value::as_message).enumerate();
    launches.try_for_each(|(index, one)| check_names(&of_batch(index), one))
}

fn check_names(field: &str, launch: &DynamicMessage) -> Result<()> {
    let names = launch.get_field_by_name(KEY_NAMES);
    let names = names.as_deref().and_then(Value::as_list);
    if names.unwrap_or_default().len() > MAX_SSH_KEYS {
        let rule = format!("must be at most {MAX_SSH_KEYS} names");
        return Err(Error::invalid(field, rule));
    }
    Ok(())
}

/// The names of keys of one allocation of a batch.
fn of_batch(index: usize) -> String {
    format!("allocations[{index}].{KEY_NAMES}")
}

/// Checks the project of a call, and puts the keys that a launch names into it.
///
/// # Errors
/// `PROJECT_SUSPENDED`; a name of a key that neither the caller nor the project has; a database or service that does not
/// answer.
pub async fn prepare(
    call: &Call<'_>,
    grant: &Grant,
    message: &mut DynamicMessage,
) -> Result<(), ApiError> {
    let prepared = async {
        refuse_suspended(call, grant, message).await?;
        name_keys(call, grant, message).await
    };
    prepared.await.map_err(|error: Error| {
        tracing::debug!("refuse before the service: {}", error.chain());
        ApiError::from_status(&error.into())
    })
}

async fn refuse_suspended(call: &Call<'_>, grant: &Grant, message: &DynamicMessage) -> Result<()> {
    let principal = call.principal();
    let access = &call.route.access;
    let begins = call.route.http_method != Method::GET
        && access.audience == Audience::User
        && !ENDING.contains(&access.action.as_str());
    if !begins || principal.suspended.is_empty() {
        return Ok(());
    }
    let project = match text(message, "allocation_id") {
        Some(allocation) => project_of(call, &allocation).await?,
        None => grant.project_of(message),
    };
    match project.filter(|project| principal.suspended.contains(project)) {
        Some(project) => Err(suspended_project(&call.app.pool, project).await),
        None => Ok(()),
    }
}

fn text(message: &DynamicMessage, field: &str) -> Option<String> {
    let value = message.get_field_by_name(field)?;
    value.as_str().map(str::to_owned)
}

/// The project of an allocation of the caller; none when it has no such allocation, which the service says then.
async fn project_of(call: &Call<'_>, allocation: &str) -> Result<Option<Uuid>> {
    let mut client = AllocationServiceClient::new(call.app.peers.channel("allocation")?);
    for projects in call.principal().projects().chunks(MAX_PROJECTS) {
        let request = GetAllocationRequest {
            allocation_id: allocation.to_owned(),
        };
        let request = running::signed(call, "allocation", projects, request)?;
        match client.get_allocation(request).await {
            Ok(found) => {
                let config = found.into_inner().config;
                return Ok(config.and_then(|config| config.project_id.parse().ok()));
            }
            Err(status) if status.code() == Code::NotFound => {}
            // whether its project is suspended is not known: nothing starts on a guess
            Err(status) => return Err(Error::from(status)),
        }
    }
    Ok(None)
}

/// Puts the keys that a launch names behind those that it has.
async fn name_keys(call: &Call<'_>, grant: &Grant, message: &mut DynamicMessage) -> Result<()> {
    match call.route.method.name() {
        "CreateAllocation" => {
            let mut request: CreateAllocationRequest =
                message.transcode_to().map_err(Error::internal)?;
            if request.ssh_key_names.is_empty() {
                return Ok(());
            }
            let mut conn = call.conn().await?;
            let project = project_for_keys(grant, &request.project_id);
            add_keys(call, &mut conn, project, (KEY_NAMES, &mut request)).await?;
            replace(message, &request).map_err(Error::internal)
        }
        "BatchCreateAllocations" => {
            let mut request: BatchCreateAllocationsRequest =
                message.transcode_to().map_err(Error::internal)?;
            let named = |one: &CreateAllocationRequest| !one.ssh_key_names.is_empty();
            if !request.allocations.iter().any(named) {
                return Ok(());
            }
            let mut conn = call.conn().await?;
            let project = project_for_keys(grant, &request.project_id);
            for (index, one) in request.allocations.iter_mut().enumerate() {
                add_keys(call, &mut conn, project, (&of_batch(index), one)).await?;
            }
            replace(message, &request).map_err(Error::internal)
        }
        _ => Ok(()),
    }
}

/// A project of the caller. Without one the service refuses the launch, whatever its keys.
fn project_for_keys(grant: &Grant, given: &str) -> Option<Uuid> {
    if given.is_empty() {
        return grant.only_project();
    }
    let id = given.parse().ok()?;
    grant.projects.contains(&id).then_some(id)
}

async fn add_keys(
    call: &Call<'_>,
    conn: &mut PgConnection,
    project: Option<Uuid>,
    (field, request): (&str, &mut CreateAllocationRequest),
) -> Result<()> {
    let Some(project) = project else {
        return Ok(());
    };
    let names = &request.ssh_key_names;
    for (index, name) in names.iter().enumerate() {
        let at = format!("{field}[{index}]");
        if parse::key_name(name).is_err() {
            return Err(Error::invalid(at, "must be the name of an SSH key"));
        }
        if names[..index].contains(name) {
            return Err(Error::invalid(at, "must not repeat another name"));
        }
    }
    let lines = ssh_keys::resolve(conn, call.me(), project, (field, names)).await?;
    request.ssh_public_keys.extend(lines);
    Ok(())
}
