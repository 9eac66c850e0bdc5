//! `OrganisationService` and `OrganisationAdminService`.
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, known_id, not_closed, organisation_unknown, taken};
use super::{events, parse, suspensions, wire};
use crate::store::{self, Group, Role, TenantState};

/// Most projects that a refusal names.
const NAMED: i64 = 20;

pub(super) async fn get(
    call: &Call<'_>,
    request: pb::GetOrganisationRequest,
) -> Result<pb::Organisation> {
    let mut conn = call.conn().await?;
    let row = call
        .organisation(&mut conn, &request.organisation_id)
        .await?;
    Ok(wire::organisation(row))
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListOrganisationsRequest,
) -> Result<pb::ListOrganisationsResponse> {
    let (organisations, next_page_token) = listed(call, Some(call.me()), request).await?;
    Ok(pb::ListOrganisationsResponse {
        organisations,
        next_page_token,
    })
}

pub(super) async fn list_all(
    call: &Call<'_>,
    request: pb::ListAllOrganisationsRequest,
) -> Result<pb::ListAllOrganisationsResponse> {
    let request = pb::ListOrganisationsRequest {
        page_size: request.page_size,
        page_token: request.page_token,
        state: request.state,
        filter: request.filter,
        order_by: request.order_by,
    };
    let (organisations, next_page_token) = listed(call, None, request).await?;
    Ok(pb::ListAllOrganisationsResponse {
        organisations,
        next_page_token,
    })
}

async fn listed(
    call: &Call<'_>,
    member: Option<Uuid>,
    request: pb::ListOrganisationsRequest,
) -> Result<(Vec<pb::Organisation>, String)> {
    let selection = Selection::parse(&store::ORGANISATIONS, &request.filter, &request.order_by)?;
    let state = parse::state(request.state)?;
    let who = member.map(|id| id.to_string()).unwrap_or_default();
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &["organisations", &who, state.map_or("", TenantState::as_str)],
    };
    let mut conn = call.conn().await?;
    let (rows, next) =
        store::list_organisations(&mut conn, member, state, &selection, wanted).await?;
    Ok((rows.into_iter().map(wire::organisation).collect(), next))
}

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateOrganisationRequest,
) -> Result<pb::Organisation> {
    let slug = parse::slug(&request.slug)?;
    let display_name = parse::display_name_or(&request.display_name, slug.as_str())?;
    let id = call.new_id();
    let id = match call.begin(&request, id).await? {
        Begun::Replay(made) => made,
        Begun::Fresh(mut tx) => {
            if !store::insert_organisation(&mut tx, id, slug.as_str(), &display_name).await? {
                return Err(taken("slug", "is the slug of another organisation"));
            }
            if !request.owner.is_empty() {
                let owner = registered(&mut tx, "owner", &request.owner).await?;
                store::insert_member(&mut tx, Group::Organisation(id), owner, Role::Owner).await?;
            }
            let detail = json!({ "slug": slug.as_str(), "owner": request.owner });
            let detail = with_digests(detail, None, Some(&stored(&mut tx, id).await?));
            call.commit(tx, id, detail).await?;
            id
        }
    };
    shown(call, id).await
}

/// A principal that a request names.
pub(super) async fn registered(
    conn: &mut PgConnection,
    field: &'static str,
    name: &str,
) -> Result<Uuid> {
    let found = store::principal_by_name(conn, name).await?;
    found.map(|row| row.id).ok_or_else(|| {
        Error::invalid(
            field,
            "must be the name of a registered principal; invite others",
        )
    })
}

pub(super) async fn update(
    call: &Call<'_>,
    request: pb::UpdateOrganisationRequest,
) -> Result<pb::Organisation> {
    let id = known_id(&request.organisation_id, organisation_unknown)?;
    let display_name = parse::display_name(&request.display_name)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        store::lock_organisation(&mut tx, id).await?;
        let row = call.organisation(&mut tx, &request.organisation_id).await?;
        call.needs(row.role, Role::Owner)?;
        not_closed(row.state)?;
        etag::check(&request.etag, &row.version.to_string())?;
        let before = stored(&mut tx, id).await?;
        store::rename_organisation(&mut tx, id, &display_name).await?;
        let after = stored(&mut tx, id).await?;
        let detail = json!({ "display_name": display_name, "before": row.display_name });
        let detail = with_digests(detail, Some(&before), Some(&after));
        let event = events::of_organisation("organisation.updated", id, after);
        call.emit(&mut tx, event).await?;
        call.commit(tx, id, detail).await?;
    }
    shown(call, id).await
}

pub(super) async fn suspend(
    call: &Call<'_>,
    request: pb::SuspendOrganisationRequest,
) -> Result<pb::Organisation> {
    let reason = parse::required_reason(&request.reason)?;
    let to = (TenantState::Suspended, reason.as_str());
    change_state(
        call,
        &request,
        (&request.organisation_id, &request.etag),
        to,
    )
    .await
}

pub(super) async fn resume(
    call: &Call<'_>,
    request: pb::ResumeOrganisationRequest,
) -> Result<pb::Organisation> {
    let to = (TenantState::Active, "");
    change_state(
        call,
        &request,
        (&request.organisation_id, &request.etag),
        to,
    )
    .await
}

pub(super) async fn close(
    call: &Call<'_>,
    request: pb::CloseOrganisationRequest,
) -> Result<pb::Organisation> {
    let reason = parse::reason(&request.reason)?;
    let to = (TenantState::Closed, reason.as_str());
    change_state(
        call,
        &request,
        (&request.organisation_id, &request.etag),
        to,
    )
    .await
}

async fn change_state(
    call: &Call<'_>,
    request: &impl prost::Message,
    (given, etag): (&str, &str),
    (state, reason): (TenantState, &str),
) -> Result<pb::Organisation> {
    let id = known_id(given, organisation_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(request, id).await? {
        store::lock_organisation(&mut tx, id).await?;
        let row = call.organisation(&mut tx, given).await?;
        not_closed(row.state)?;
        etag::check(etag, &row.version.to_string())?;
        if state == TenantState::Closed {
            // a project that is created meanwhile waits for the lock, and then finds the organisation closed
            let left = store::open_projects(&mut tx, id, NAMED).await?;
            if !left.is_empty() {
                return Err(in_use("projects that are not closed", &left));
            }
        }
        let before = stored(&mut tx, id).await?;
        store::set_organisation_state(&mut tx, id, state, reason).await?;
        if state == TenantState::Closed {
            let whose = Group::Organisation(id);
            store::disable_webhooks_of(&mut tx, whose, "The organisation was closed.").await?;
        }
        let detail =
            json!({ "state": state.as_str(), "before": row.state.as_str(), "reason": reason });
        let after = stored(&mut tx, id).await?;
        let detail = with_digests(detail, Some(&before), Some(&after));
        let event_type = match state {
            _ if row.state == state && row.state_reason == reason => None,
            TenantState::Active => Some("organisation.resumed"),
            TenantState::Suspended => Some("organisation.suspended"),
            // its webhooks have ended with it
            TenantState::Closed => None,
        };
        if let Some(event_type) = event_type {
            let event = events::of_organisation(event_type, id, after);
            call.emit(&mut tx, event).await?;
        }
        call.commit(tx, id, detail).await?;
    }
    suspensions::changed(call).await;
    shown(call, id).await
}

/// Something is still there, by name.
pub(super) fn in_use(what: &str, names: &[String]) -> Error {
    let message = format!("It still has {what}: {}.", names.join(", "));
    let error = Error::new(Code::FailedPrecondition, ErrorReason::ProjectInUse, message);
    names.iter().fold(error, |error, name| {
        error.field(name.clone(), "must be released, cancelled or closed first")
    })
}

/// As digests are of it, whoever calls: without a role.
async fn stored(conn: &mut PgConnection, id: Uuid) -> Result<pb::Organisation> {
    let found = store::find_organisation(conn, id, Uuid::nil()).await?;
    found
        .map(wire::organisation)
        .ok_or_else(organisation_unknown)
}

async fn shown(call: &Call<'_>, id: Uuid) -> Result<pb::Organisation> {
    let mut conn = call.conn().await?;
    let row = call.organisation(&mut conn, &id.to_string()).await?;
    Ok(wire::organisation(row))
}
