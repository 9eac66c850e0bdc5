//! `ServiceAccountService`: programs of a project that call the API.
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, Of, Owned, known_id, taken, unknown};
use super::{events, parse, wire};
use crate::auth::short_tokens::issuer_of;
use crate::store::{self, Disabled, NewServiceAccount, ServiceAccountRow};

/// Most characters of a description.
const MAX_DESCRIPTION: usize = 500;

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateServiceAccountRequest,
) -> Result<pb::ServiceAccount> {
    let slug = parse::slug(&request.slug)?;
    let role = parse::role(request.role)?;
    let description = parse::text("description", &request.description, MAX_DESCRIPTION)?;
    let id = call.new_id();
    let of = Of::Project(&request.project_id);
    let id = match call.begin(&request, id).await? {
        Begun::Replay(made) => made,
        Begun::Fresh(mut tx) => {
            let owned = call.owned(&mut tx, of).await?;
            call.may_give(&owned, role)?;
            let creator = call.name_for_members(owned.role);
            let Owned {
                group, name: owner, ..
            } = owned;
            // the last part is random: two accounts of one slug are told apart in the audit trail
            let hex = id.simple().to_string();
            let name = format!("service:{slug}.{}", &hex[hex.len() - 12..]);
            let new = NewServiceAccount {
                id,
                project: group.id(),
                slug: slug.as_str(),
                name: &name,
                issuer: &issuer_of(call.app.cell),
                description: &description,
                role,
                creator,
            };
            if !store::insert_service_account(&mut tx, &new).await? {
                return Err(taken(
                    "slug",
                    "must be unique among the project's service accounts",
                ));
            }
            let detail = json!({ "service_account": name, "role": role.as_str(), "of": owner });
            let made = wire::service_account(found(&mut tx, group.id(), id).await?);
            let detail = with_digests(detail, None, Some(&made));
            let ids = (group.id(), id);
            let event = events::of_service_account("service_account.created", ids, made, creator);
            call.emit(&mut tx, event).await?;
            call.commit_in(tx, group, group.id(), detail).await?;
            id
        }
    };
    shown(call, of, id).await
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListServiceAccountsRequest,
) -> Result<pb::ListServiceAccountsResponse> {
    let selection = Selection::parse(&store::SERVICE_ACCOUNTS, &request.filter, &request.order_by)?;
    let size = page::page_size(request.page_size)?;
    let mut conn = call.conn().await?;
    let group = call
        .seen(&mut conn, Of::Project(&request.project_id))
        .await?;
    let id = group.id().to_string();
    let wanted = Wanted {
        page_token: &request.page_token,
        size,
        query: &["service accounts", &id],
    };
    let (rows, next_page_token) =
        store::list_service_accounts(&mut conn, group.id(), &selection, wanted).await?;
    Ok(pb::ListServiceAccountsResponse {
        service_accounts: rows.into_iter().map(wire::service_account).collect(),
        next_page_token,
    })
}

pub(super) async fn disable(
    call: &Call<'_>,
    request: pb::DisableServiceAccountRequest,
) -> Result<pb::ServiceAccount> {
    let ids = (
        request.project_id.as_str(),
        request.service_account_id.as_str(),
    );
    set_disabled(call, &request, (ids, &request.etag), true).await
}

pub(super) async fn enable(
    call: &Call<'_>,
    request: pb::EnableServiceAccountRequest,
) -> Result<pb::ServiceAccount> {
    let ids = (
        request.project_id.as_str(),
        request.service_account_id.as_str(),
    );
    set_disabled(call, &request, (ids, &request.etag), false).await
}

async fn set_disabled(
    call: &Call<'_>,
    request: &impl prost::Message,
    ((project, account), etag): ((&str, &str), &str),
    disabled: bool,
) -> Result<pb::ServiceAccount> {
    let id = known_id(account, account_unknown)?;
    let of = Of::Project(project);
    if let Begun::Fresh(mut tx) = call.begin(request, id).await? {
        let Owned {
            group,
            name: owner,
            role: own,
        } = call.owned(&mut tx, of).await?;
        // whether it is of the project, before anything of it is locked
        found(&mut tx, group.id(), id).await?;
        // as it is then: an administrator of the platform disables it without the lock on the project
        store::lock_principal(&mut tx, id).await?;
        let row = found(&mut tx, group.id(), id).await?;
        let before = wire::service_account(row.clone());
        etag::check(etag, &before.etag)?;
        let by_platform = call.administers();
        if row.disabled_by_platform && !by_platform && !disabled {
            return Err(Error::new(
                Code::PermissionDenied,
                ErrorReason::PermissionDenied,
                "An administrator of the platform disabled it, and only one can enable it again.",
            )
            .field("service_account_id", "must not be disabled by the platform")
            .meta("action", call.route.access.action.clone())
            .meta("disabled_by", "platform"));
        }
        let to = match disabled {
            false => Disabled::No,
            // an owner takes nothing back from the platform
            true if by_platform || row.disabled_by_platform => Disabled::ByPlatform,
            true => Disabled::ByProject,
        };
        store::set_disabled(&mut tx, id, to).await?;
        let detail =
            json!({ "service_account": row.name, "of": owner, "by_platform": by_platform });
        let after = wire::service_account(found(&mut tx, group.id(), id).await?);
        let detail = with_digests(detail, Some(&before), Some(&after));
        let event_type = match disabled {
            true => "service_account.disabled",
            false => "service_account.enabled",
        };
        if before != after {
            let actor = call.name_for_members(own);
            let event = events::of_service_account(event_type, (group.id(), id), after, actor);
            call.emit(&mut tx, event).await?;
        }
        call.commit_in(tx, group, group.id(), detail).await?;
    }
    shown(call, of, id).await
}

pub(super) async fn delete(
    call: &Call<'_>,
    request: pb::DeleteServiceAccountRequest,
) -> Result<pb::DeleteServiceAccountResponse> {
    let id = known_id(&request.service_account_id, account_unknown)?;
    let of = Of::Project(&request.project_id);
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let Owned {
            group,
            name: owner,
            role: own,
        } = call.owned(&mut tx, of).await?;
        let row = found(&mut tx, group.id(), id).await?;
        let detail = json!({ "service_account": row.name, "of": owner });
        let before = wire::service_account(row);
        etag::check(&request.etag, &before.etag)?;
        store::delete_service_account(&mut tx, id).await?;
        let detail = with_digests(detail, Some(&before), None);
        let (ids, actor) = ((group.id(), id), call.name_for_members(own));
        let event = events::of_service_account("service_account.deleted", ids, before, actor);
        call.emit(&mut tx, event).await?;
        call.commit_in(tx, group, group.id(), detail).await?;
    }
    Ok(pb::DeleteServiceAccountResponse {})
}

pub(super) fn account_unknown() -> Error {
    unknown("service_account_id", "service account")
}

pub(super) async fn found(
    conn: &mut PgConnection,
    project: Uuid,
    id: Uuid,
) -> Result<ServiceAccountRow> {
    store::find_service_account(conn, project, id)
        .await?
        .ok_or_else(account_unknown)
}

/// An account of a project that the caller may see.
async fn shown(call: &Call<'_>, of: Of<'_>, id: Uuid) -> Result<pb::ServiceAccount> {
    let mut conn = call.conn().await?;
    let project = call.seen(&mut conn, of).await?.id();
    Ok(wire::service_account(found(&mut conn, project, id).await?))
}
