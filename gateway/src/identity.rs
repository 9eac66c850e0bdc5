//! The methods that the gateway answers itself: who calls, organisations and projects with their members, invitations and SSH
//! keys. What each change needs is in [`call`].
mod addresses;
mod allocation_grants;
mod api_keys;
pub mod call;
mod catalogue;
pub(crate) mod events;
mod guardrails;
mod invitations;
pub mod launch;
mod members;
mod naming;
mod organisations;
mod parse;
mod principals;
mod projects;
mod running;
mod scim;
mod service_accounts;
mod ssh_keys;
pub(crate) mod suspensions;
mod webhooks;
mod wire;

pub(crate) use addresses::note_address;
pub(crate) use naming::names;
pub(crate) use parse::display_name;

use std::collections::{BTreeSet, HashMap};

use gpuaas_proto::gpuaas::identity::v1::{self as pb, Caller};
use gpuaas_proto::gpuaas::scheduler::v1::{FleetOccupant, ListFleetNodesResponse};
use prost_reflect::{DynamicMessage, ReflectMessage as _};
use tonic::Code;
use uuid::Uuid;

use crate::app::App;
use crate::audit;
use crate::auth::verify::{LEEWAY_SECONDS, NEVER};
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::identity::call::Call;
use crate::store::{self, PlatformRole, ProjectRow};

/// Answers a call of one of these methods.
///
/// # Errors
/// What the method refuses; a database or service that does not answer.
pub async fn answer(call: &Call<'_>, message: &DynamicMessage) -> Result<DynamicMessage, ApiError> {
    let method = &call.route.method;
    if method.parent_service().full_name() == audit::SERVICE {
        return audit::answer(call.app, call.route, message).await;
    }
    let name = format!("{}.{}", method.parent_service().name(), method.name());
    // each method of the contract with the function that answers it
    macro_rules! serve {
        ($($served:literal => $function:path,)*) => {
            match name.as_str() {
                $($served => encode(call, $function(call, decode(message)?).await),)*
                _ => Err(ApiError::internal()),
            }
        };
    }
    serve! {
        "ActivityService.ListActivities" => crate::activity::list,
        "IdentityService.GetCaller" => caller,
        "IdentityAdminService.ListProjects" => projects::list_all,
        "OrganisationService.GetOrganisation" => organisations::get,
        "OrganisationService.ListOrganisations" => organisations::list,
        "OrganisationService.UpdateOrganisation" => organisations::update,
        "OrganisationService.GetOrganisationGuardrails" => guardrails::get,
        "OrganisationService.UpdateOrganisationGuardrails" => guardrails::update,
        "OrganisationAdminService.CreateOrganisation" => organisations::create,
        "OrganisationAdminService.ListAllOrganisations" => organisations::list_all,
        "OrganisationAdminService.SuspendOrganisation" => organisations::suspend,
        "OrganisationAdminService.ResumeOrganisation" => organisations::resume,
        "OrganisationAdminService.CloseOrganisation" => organisations::close,
        "ProjectService.CreateProject" => projects::create,
        "ProjectService.GetProject" => projects::get,
        "ProjectService.ListProjects" => projects::list,
        "ProjectService.UpdateProject" => projects::update,
        "ProjectService.SuspendProject" => projects::suspend,
        "ProjectService.ResumeProject" => projects::resume,
        "ProjectService.CloseProject" => projects::close,
        "MemberService.ListOrganisationMembers" => members::list_of_organisation,
        "MemberService.AddOrganisationMember" => members::add_to_organisation,
        "MemberService.UpdateOrganisationMember" => members::update_of_organisation,
        "MemberService.RemoveOrganisationMember" => members::remove_from_organisation,
        "MemberService.ListProjectMembers" => members::list_of_project,
        "MemberService.AddProjectMember" => members::add_to_project,
        "MemberService.UpdateProjectMember" => members::update_of_project,
        "MemberService.RemoveProjectMember" => members::remove_from_project,
        "InvitationService.CreateOrganisationInvitation" => invitations::create_for_organisation,
        "InvitationService.ListOrganisationInvitations" => invitations::list_of_organisation,
        "InvitationService.CreateProjectInvitation" => invitations::create_for_project,
        "InvitationService.ListProjectInvitations" => invitations::list_of_project,
        "InvitationService.RevokeInvitation" => invitations::revoke,
        "InvitationService.AcceptInvitation" => invitations::accept,
        "SshKeyService.CreateSshKey" => ssh_keys::create,
        "SshKeyService.ListSshKeys" => ssh_keys::list,
        "SshKeyService.DeleteSshKey" => ssh_keys::delete,
        "SshKeyService.CreateProjectSshKey" => ssh_keys::create_for_project,
        "SshKeyService.ListProjectSshKeys" => ssh_keys::list_of_project,
        "SshKeyService.DeleteProjectSshKey" => ssh_keys::delete_of_project,
        "ScimService.GetScimSettings" => scim::get,
        "ScimService.ListScimGroups" => scim::list,
        "ScimService.ListScimKeys" => scim::keys,
        "ScimService.CreateScimGroupMapping" => scim::create,
        "ScimService.DeleteScimGroupMapping" => scim::delete,
        "ScimAdminService.PutScimSettings" => scim::put,
        "AllocationGrantService.CreateAllocationGrant" => allocation_grants::create,
        "AllocationGrantService.ListAllocationGrants" => allocation_grants::list,
        "AllocationGrantService.DeleteAllocationGrant" => allocation_grants::delete,
        "ServiceAccountService.CreateServiceAccount" => service_accounts::create,
        "ServiceAccountService.ListServiceAccounts" => service_accounts::list,
        "ServiceAccountService.DisableServiceAccount" => service_accounts::disable,
        "ServiceAccountService.EnableServiceAccount" => service_accounts::enable,
        "ServiceAccountService.DeleteServiceAccount" => service_accounts::delete,
        "ApiKeyService.CreateApiKey" => api_keys::create,
        "ApiKeyService.ListApiKeys" => api_keys::list,
        "ApiKeyService.RotateApiKey" => api_keys::rotate,
        "ApiKeyService.DisableApiKey" => api_keys::disable,
        "TokenService.ExchangeApiKey" => api_keys::exchange,
        "WebhookService.CreateProjectWebhook" => webhooks::create_for_project,
        "WebhookService.ListProjectWebhooks" => webhooks::list_of_project,
        "WebhookService.CreateOrganisationWebhook" => webhooks::create_for_organisation,
        "WebhookService.ListOrganisationWebhooks" => webhooks::list_of_organisation,
        "WebhookService.GetWebhook" => webhooks::get,
        "WebhookService.UpdateWebhook" => webhooks::update,
        "WebhookService.DeleteWebhook" => webhooks::delete,
        "WebhookService.RotateWebhookSecret" => webhooks::rotate_secret,
        "WebhookService.PingWebhook" => webhooks::ping,
        "WebhookService.ListWebhookDeliveries" => webhooks::list_deliveries,
        "WebhookService.RedeliverWebhookDelivery" => webhooks::redeliver,
        "PrincipalAdminService.CreatePrincipal" => principals::create,
        "PrincipalAdminService.GetPrincipal" => principals::get,
        "PrincipalAdminService.ListPrincipals" => principals::list,
        "PrincipalAdminService.DisablePrincipal" => principals::disable,
        "PrincipalAdminService.EnablePrincipal" => principals::enable,
        "PrincipalAdminService.SetPlatformRole" => principals::set_platform_role,
    }
}

fn decode<M: prost::Message + Default>(message: &DynamicMessage) -> Result<M, ApiError> {
    message.transcode_to().map_err(|_| ApiError::internal())
}

fn encode(
    call: &Call<'_>,
    outcome: gpuaas_common::Result<impl prost::Message>,
) -> Result<DynamicMessage, ApiError> {
    let method = &call.route.method;
    let filled = outcome.map_err(|error| {
        if matches!(error.code(), Code::Internal | Code::Unavailable) {
            tracing::error!(method = method.full_name(), "answer: {}", error.chain());
        }
        ApiError::from_status(&error.into())
    })?;
    let mut answer = DynamicMessage::new(method.output());
    answer.transcode_from(&filled).map_err(|error| {
        tracing::error!(method = method.full_name(), "write answer: {error}");
        ApiError::internal()
    })?;
    Ok(answer)
}

async fn caller(call: &Call<'_>, _: pb::GetCallerRequest) -> gpuaas_common::Result<Caller> {
    let (app, session) = (call.app, call.session);
    let principal = &session.principal;
    let identity = &session.identity;
    let seconds = match identity.key {
        // its own clock says when
        Some(_) => identity.expires,
        None => identity.expires.saturating_sub_unsigned(LEEWAY_SECONDS),
    };
    let expire_time =
        (identity.expires != NEVER).then_some(prost_types::Timestamp { seconds, nanos: 0 });
    if !session.is_registered() {
        return Ok(Caller {
            issuer: identity.issuer.clone(),
            subject: identity.subject.clone(),
            email: identity.email.clone().unwrap_or_default(),
            expire_time,
            ..Caller::default()
        });
    }
    let (display_name, email, organisations) = store::find_profile(&app.pool, principal.id).await?;
    let projects = store::projects_of(&app.pool, principal.id).await?;
    // as registered: who lacks the second factor for it learns so, and signs in with one
    let platform_role = principal.given_platform_role();
    let role = (platform_role == Some(PlatformRole::Admin)).then_some(pb::Role::PlatformAdmin);
    Ok(Caller {
        principal: principal.name.clone(),
        display_name,
        issuer: identity.issuer.clone(),
        subject: identity.subject.clone(),
        roles: role.into_iter().map(i32::from).collect(),
        projects: projects.into_iter().map(wire::project).collect(),
        expire_time,
        kind: wire::kind(principal.kind).into(),
        platform_role: wire::platform_role(platform_role).into(),
        organisations: organisations
            .into_iter()
            .map(wire::own_organisation)
            .collect(),
        principal_id: principal.id.to_string(),
        email,
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
    replace(answer, &record).map_err(|_| ApiError::internal())
}

/// Puts a message in place of what was there; written over it, it would be merged into it and its lists would be twice as long.
fn replace(
    message: &mut DynamicMessage,
    with: &impl prost::Message,
) -> Result<(), prost::DecodeError> {
    let mut replaced = DynamicMessage::new(message.descriptor());
    replaced.transcode_from(with)?;
    *message = replaced;
    Ok(())
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

fn unreachable(error: &sqlx::Error) -> ApiError {
    tracing::error!("read projects: {error}");
    ApiError::unavailable()
}

#[cfg(test)]
mod tests {
    use gpuaas_proto::gpuaas::scheduler::v1::FleetNode;

    use jiff_sqlx::ToSqlx as _;

    use super::*;
    use crate::store::TenantState;

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
            organisation_id: Uuid::nil(),
            own_state: TenantState::Active,
            organisation_state: TenantState::Active,
            state_reason: String::new(),
            suspended_by_platform: false,
            create_time: jiff::Timestamp::UNIX_EPOCH.to_sqlx(),
            update_time: jiff::Timestamp::UNIX_EPOCH.to_sqlx(),
            version: 1,
            role: None,
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
    fn a_completed_answer_has_each_node_once() {
        let routes = crate::routes().expect("served");
        let mut all = routes.routes().iter();
        let route = all.find(|route| route.method.full_name() == WITHOUT_NAMES);
        let mut answer = DynamicMessage::new(route.expect("served").method.output());
        let record = ListFleetNodesResponse {
            nodes: vec![FleetNode::default()],
            ..ListFleetNodesResponse::default()
        };
        for _ in 0..2 {
            replace(&mut answer, &record).expect("replaced");
        }
        let shown: ListFleetNodesResponse = answer.transcode_to().expect("shown");
        assert_eq!(shown, record);
    }

    #[test]
    fn the_answer_to_complete_is_one_of_the_contract() {
        let routes = crate::routes().expect("served");
        let mut methods = routes.routes().iter().map(|route| &route.method);
        assert!(methods.any(|method| method.full_name() == WITHOUT_NAMES));
    }
}
