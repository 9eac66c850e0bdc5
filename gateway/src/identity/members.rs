//! `MemberService`: members of organisations and projects are managed alike.
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, Of, Owned, known_id, project_unknown, taken, unknown};
use super::organisations::registered;
use super::{events, parse, wire};
use crate::store::{self, Group, MemberRow, PrincipalKind, Role};

struct Listing<'a> {
    of: Of<'a>,
    size: i32,
    token: &'a str,
    principal: &'a str,
    role: i32,
    filter: &'a str,
    order_by: &'a str,
}

pub(super) async fn list_of_organisation(
    call: &Call<'_>,
    request: pb::ListOrganisationMembersRequest,
) -> Result<pb::ListOrganisationMembersResponse> {
    let (members, next_page_token) = list(
        call,
        Listing {
            of: Of::Organisation(&request.organisation_id),
            size: request.page_size,
            token: &request.page_token,
            principal: &request.principal,
            role: request.role,
            filter: &request.filter,
            order_by: &request.order_by,
        },
    )
    .await?;
    Ok(pb::ListOrganisationMembersResponse {
        members,
        next_page_token,
    })
}

pub(super) async fn list_of_project(
    call: &Call<'_>,
    request: pb::ListProjectMembersRequest,
) -> Result<pb::ListProjectMembersResponse> {
    let (members, next_page_token) = list(
        call,
        Listing {
            of: Of::Project(&request.project_id),
            size: request.page_size,
            token: &request.page_token,
            principal: &request.principal,
            role: request.role,
            filter: &request.filter,
            order_by: &request.order_by,
        },
    )
    .await?;
    Ok(pb::ListProjectMembersResponse {
        members,
        next_page_token,
    })
}

async fn list(call: &Call<'_>, listing: Listing<'_>) -> Result<(Vec<pb::Member>, String)> {
    let selection = Selection::parse(&store::MEMBERS, listing.filter, listing.order_by)?;
    let size = page::page_size(listing.size)?;
    let role = parse::optional_role(listing.role)?;
    let mut conn = call.conn().await?;
    let group = call.seen(&mut conn, listing.of).await?;
    let id = group.id().to_string();
    let query = [
        "members",
        &id,
        listing.principal,
        role.map_or("", Role::as_str),
    ];
    let wanted = Wanted {
        page_token: listing.token,
        size,
        query: &query,
    };
    let principal = Some(listing.principal).filter(|name| !name.is_empty());
    let (rows, next) =
        store::list_members(&mut conn, group, (principal, role), &selection, wanted).await?;
    Ok((rows.into_iter().map(wire::member).collect(), next))
}

pub(super) async fn add_to_organisation(
    call: &Call<'_>,
    request: pb::AddOrganisationMemberRequest,
) -> Result<pb::Member> {
    let of = Of::Organisation(&request.organisation_id);
    add(call, &request, of, (&request.principal, request.role)).await
}

pub(super) async fn add_to_project(
    call: &Call<'_>,
    request: pb::AddProjectMemberRequest,
) -> Result<pb::Member> {
    let of = Of::Project(&request.project_id);
    add(call, &request, of, (&request.principal, request.role)).await
}

async fn add(
    call: &Call<'_>,
    request: &impl prost::Message,
    of: Of<'_>,
    (principal, role): (&str, i32),
) -> Result<pb::Member> {
    let role = parse::role(role)?;
    let (member, group) = {
        // who may see it is looked at first: to others the answer is the same whoever is named
        let mut conn = call.conn().await?;
        let group = call.seen(&mut conn, of).await?;
        match addable(call, &mut conn, group, principal).await {
            Ok(member) => (member, group),
            Err(refused) => {
                call.owned(&mut conn, of).await?;
                return Err(refused);
            }
        }
    };
    if let Begun::Fresh(mut tx) = call.begin(request, member).await? {
        let owned = call.owned(&mut tx, of).await?;
        call.may_give(&owned, role)?;
        let actor = call.name_for_members(owned.role);
        let Owned { group, name, .. } = owned;
        if !store::insert_member(&mut tx, group, member, role).await? {
            return Err(taken(
                "principal",
                "is a member already; change its role instead",
            ));
        }
        let detail = json!({ "member": principal, "role": role.as_str(), "of": name });
        let made = found(&mut tx, group, member).await?;
        let event = events::of_member(group, (&made).into(), (None, Some(made.role)), actor);
        call.emit(&mut tx, event).await?;
        let detail = with_digests(detail, None, Some(&wire::member(made)));
        call.commit_in(tx, group, group.id(), detail).await?;
    }
    shown(call, group, member).await
}

/// A principal that may be made a member without being asked. Who is in the organisation has agreed to that; everybody else is
/// invited, whether registered or not, which the refusal does not tell apart. The platform's administrators add whom they like.
async fn addable(
    call: &Call<'_>,
    conn: &mut PgConnection,
    group: Group,
    name: &str,
) -> Result<Uuid> {
    const FIELD: &str = "principal";
    if call.administers() {
        return registered(conn, FIELD, name).await;
    }
    let found = store::principal_by_name(conn, name).await?;
    if let Some(row) = found
        && store::is_in_organisation(conn, group, row.id).await?
    {
        return Ok(row.id);
    }
    let rule = "must be the name of somebody who is in the organisation; invite others";
    Err(Error::invalid(FIELD, rule))
}

pub(super) async fn update_of_organisation(
    call: &Call<'_>,
    request: pb::UpdateOrganisationMemberRequest,
) -> Result<pb::Member> {
    let of = Of::Organisation(&request.organisation_id);
    let change = (
        request.member_id.as_str(),
        request.role,
        request.etag.as_str(),
    );
    update(call, &request, of, change).await
}

pub(super) async fn update_of_project(
    call: &Call<'_>,
    request: pb::UpdateProjectMemberRequest,
) -> Result<pb::Member> {
    let of = Of::Project(&request.project_id);
    let change = (
        request.member_id.as_str(),
        request.role,
        request.etag.as_str(),
    );
    update(call, &request, of, change).await
}

async fn update(
    call: &Call<'_>,
    request: &impl prost::Message,
    of: Of<'_>,
    (given, role, etag): (&str, i32, &str),
) -> Result<pb::Member> {
    let role = parse::role(role)?;
    let member = known_id(given, member_unknown)?;
    let group = {
        let mut conn = call.conn().await?;
        call.seen(&mut conn, of).await?
    };
    if let Begun::Fresh(mut tx) = call.begin(request, member).await? {
        let owned = call.owned(&mut tx, of).await?;
        call.may_give(&owned, role)?;
        let actor = call.name_for_members(owned.role);
        let Owned { group, name, .. } = owned;
        let row = found(&mut tx, group, member).await?;
        given_by_hand(&row)?;
        etag::check(etag, &row.version.to_string())?;
        if row.role == Role::Owner && role != Role::Owner {
            may_take_owner(call)?;
            keep_an_owner(&mut tx, group, member).await?;
        }
        store::set_member_role(&mut tx, group, member, role).await?;
        let detail = json!({ "member": row.name, "role": role.as_str(), "before": row.role.as_str(), "of": name });
        if row.role != role {
            let roles = (Some(row.role), Some(role));
            let event = events::of_member(group, (&row).into(), roles, actor);
            call.emit(&mut tx, event).await?;
        }
        let before = wire::member(row);
        let after = wire::member(found(&mut tx, group, member).await?);
        let detail = with_digests(detail, Some(&before), Some(&after));
        call.commit_in(tx, group, group.id(), detail).await?;
    }
    shown(call, group, member).await
}

pub(super) async fn remove_from_organisation(
    call: &Call<'_>,
    request: pb::RemoveOrganisationMemberRequest,
) -> Result<pb::RemoveOrganisationMemberResponse> {
    let of = Of::Organisation(&request.organisation_id);
    remove(call, &request, of, (&request.member_id, &request.etag)).await?;
    Ok(pb::RemoveOrganisationMemberResponse {})
}

pub(super) async fn remove_from_project(
    call: &Call<'_>,
    request: pb::RemoveProjectMemberRequest,
) -> Result<pb::RemoveProjectMemberResponse> {
    let of = Of::Project(&request.project_id);
    remove(call, &request, of, (&request.member_id, &request.etag)).await?;
    Ok(pb::RemoveProjectMemberResponse {})
}

async fn remove(
    call: &Call<'_>,
    request: &impl prost::Message,
    of: Of<'_>,
    (given, etag): (&str, &str),
) -> Result<()> {
    let member = known_id(given, member_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(request, member).await? {
        if let Of::Project(given) = of {
            // what a group gives may come in its place
            store::lock_organisation_of(&mut tx, known_id(given, project_unknown)?).await?;
        }
        let owned = call.owned(&mut tx, of).await?;
        let actor = call.name_for_members(owned.role);
        let Owned { group, name, .. } = owned;
        let row = found(&mut tx, group, member).await?;
        given_by_hand(&row)?;
        etag::check(etag, &row.version.to_string())?;
        if row.role == Role::Owner {
            may_take_owner(call)?;
            keep_an_owner(&mut tx, group, member).await?;
        }
        store::delete_member(&mut tx, group, member).await?;
        let event = events::of_member(group, (&row).into(), (Some(row.role), None), actor);
        call.emit(&mut tx, event).await?;
        // what a group of the identity provider gives counts where no hand gave something else
        let (organisation, given) = match group {
            Group::Project(id) => store::sync_member(&mut tx, id, member).await?,
            Group::Organisation(id) => (id, Vec::new()),
        };
        call.emit_memberships(&mut tx, organisation, &given).await?;
        let detail = json!({
            "member": row.name, "before": row.role.as_str(), "of": name, "scim": store::changes_of(&given),
        });
        let after = store::find_member(&mut tx, group, member).await?;
        let (before, after) = (wire::member(row), after.map(wire::member));
        let detail = with_digests(detail, Some(&before), after.as_ref());
        call.commit_in(tx, group, group.id(), detail).await?;
    }
    Ok(())
}

/// Refuses to change by hand what the identity provider says: it would say it again.
fn given_by_hand(row: &MemberRow) -> Result<()> {
    if !row.scim {
        return Ok(());
    }
    Err(Error::new(
        Code::FailedPrecondition,
        ErrorReason::StateConflict,
        "The membership comes from a group of the organisation's identity provider: change the group there, or what it is mapped on.",
    )
    .field("member_id", "must not be a member by SCIM")
    .meta("given_by", "scim"))
}

fn member_unknown() -> Error {
    unknown("member_id", "member")
}

async fn found(conn: &mut PgConnection, group: Group, member: Uuid) -> Result<MemberRow> {
    store::find_member(conn, group, member)
        .await?
        .ok_or_else(member_unknown)
}

/// Refuses to take an owner to everybody but a person: a key that leaked must not put the owners out. That the person is an
/// owner, or administers the platform, is known here.
fn may_take_owner(call: &Call<'_>) -> Result<()> {
    if call.principal().kind == PrincipalKind::User {
        return Ok(());
    }
    Err(Error::new(
        Code::PermissionDenied,
        ErrorReason::PermissionDenied,
        "Only a person who is an owner removes an owner, or gives one a weaker role; an API key does not.",
    )
    .field("member_id", "must not be an owner")
    .meta("action", call.route.access.action.clone()))
}

/// Refuses to take the last owner. The lock on what is owned makes two that go at once one after the other.
async fn keep_an_owner(conn: &mut PgConnection, group: Group, than: Uuid) -> Result<()> {
    if store::has_other_owner(conn, group, than).await? {
        return Ok(());
    }
    Err(Error::new(
        Code::FailedPrecondition,
        ErrorReason::LastOwner,
        "This is the last owner: make somebody else an owner first.",
    ))
}

async fn shown(call: &Call<'_>, group: Group, member: Uuid) -> Result<pb::Member> {
    let mut conn = call.conn().await?;
    Ok(wire::member(found(&mut conn, group, member).await?))
}
