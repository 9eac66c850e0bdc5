//! What a call of another service needs of projects: that the one it begins something in is not suspended, and the SSH keys
//! that a launch names.
use gpuaas_common::{Error, Result};
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_client::AllocationServiceClient;
use gpuaas_proto::gpuaas::allocation::v1::{
    BatchCreateAllocationsRequest, CreateAllocationRequest, GetAllocationRequest,
};
use http::Method;
use prost_reflect::DynamicMessage;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::Call;
use super::projects::suspended;
use super::{parse, replace, running, ssh_keys};
use crate::contract::access::Audience;
use crate::error::ApiError;
use crate::store::Principal;

/// Changes that are allowed in a suspended project: they end something, or lift the protection from that.
const ENDING: [&str; 4] = [
    "allocation.stop",
    "allocation.release",
    "allocation.update",
    "reservation.cancel",
];

/// Checks the project of a call, and puts the keys that a launch names into it.
///
/// # Errors
/// `PROJECT_SUSPENDED`; a name of a key that neither the caller nor the project has; a database or service that does not
/// answer.
pub async fn prepare(call: &Call<'_>, message: &mut DynamicMessage) -> Result<(), ApiError> {
    let prepared = async {
        refuse_suspended(call, message).await?;
        name_keys(call, message).await
    };
    prepared.await.map_err(|error: Error| {
        tracing::debug!("refuse before the service: {}", error.chain());
        ApiError::from_status(&error.into())
    })
}

async fn refuse_suspended(call: &Call<'_>, message: &DynamicMessage) -> Result<()> {
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
        None => named_project(principal, message),
    };
    if project.is_some_and(|project| principal.suspended.contains(&project)) {
        return Err(suspended());
    }
    Ok(())
}

/// The project that a request names, or the caller's only one, as the services take it.
fn named_project(principal: &Principal, message: &DynamicMessage) -> Option<Uuid> {
    let of_config = || {
        let config = message.get_field_by_name("config")?;
        text(config.as_message()?, "project_id")
    };
    match text(message, "project_id").or_else(of_config) {
        Some(given) if !given.is_empty() => given.parse().ok(),
        _ => only_project(principal),
    }
}

fn only_project(principal: &Principal) -> Option<Uuid> {
    match principal.roles.as_slice() {
        [(only, _)] => Some(*only),
        _ => None,
    }
}

fn text(message: &DynamicMessage, field: &str) -> Option<String> {
    let value = message.get_field_by_name(field)?;
    value.as_str().map(str::to_owned)
}

/// The project of an allocation of the caller; none when it has no such allocation, which the service says then.
async fn project_of(call: &Call<'_>, allocation: &str) -> Result<Option<Uuid>> {
    let mut client = AllocationServiceClient::new(call.app.peers.channel("allocation")?);
    let request = GetAllocationRequest {
        allocation_id: allocation.to_owned(),
    };
    let projects = call.principal().projects();
    let request = running::signed(call, "allocation", &projects, request)?;
    let found = match client.get_allocation(request).await {
        Ok(found) => found.into_inner(),
        Err(status) if status.code() == Code::NotFound => return Ok(None),
        // whether its project is suspended is not known: nothing starts on a guess
        Err(status) => return Err(Error::from(status)),
    };
    let config = found.config;
    Ok(config.and_then(|config| config.project_id.parse().ok()))
}

/// Puts the keys that a launch names behind those that it has.
async fn name_keys(call: &Call<'_>, message: &mut DynamicMessage) -> Result<()> {
    match call.route.method.name() {
        "CreateAllocation" => {
            let mut request: CreateAllocationRequest =
                message.transcode_to().map_err(Error::internal)?;
            if request.ssh_key_names.is_empty() {
                return Ok(());
            }
            let mut conn = call.conn().await?;
            let project = project_for_keys(call.principal(), &request.project_id);
            add_keys(call, &mut conn, project, ("ssh_key_names", &mut request)).await?;
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
            let project = project_for_keys(call.principal(), &request.project_id);
            for (index, one) in request.allocations.iter_mut().enumerate() {
                let field = format!("allocations[{index}].ssh_key_names");
                add_keys(call, &mut conn, project, (&field, one)).await?;
            }
            replace(message, &request).map_err(Error::internal)
        }
        _ => Ok(()),
    }
}

/// A project of the caller. Without one the service refuses the launch, whatever its keys.
fn project_for_keys(principal: &Principal, given: &str) -> Option<Uuid> {
    if given.is_empty() {
        return only_project(principal);
    }
    let id = given.parse().ok()?;
    principal.role_in(id).map(|_| id)
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
