//! `InvitationService`: how people who are not registered become members.
use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{
    Begun, Call, INVITE_TO_ORGANISATION, INVITE_TO_PROJECT, Of, Owned, hidden, known_id, unknown,
};
use super::naming::names;
use super::{events, parse, wire};
use crate::policy::{Asked, Resource, who};
use crate::store::{
    self, Group, InvitationRow, InvitationState, NewInvitation, NewUser, Role, TenantState,
};

/// What every token begins with, so that scanners of secrets know one.
const PREFIX: &str = "gpi_";
/// Random bytes of a token.
const TOKEN_BYTES: usize = 32;

pub(super) async fn create_for_organisation(
    call: &Call<'_>,
    request: pb::CreateOrganisationInvitationRequest,
) -> Result<pb::Invitation> {
    let of = Of::Organisation(&request.organisation_id);
    let requested = (
        request.email.as_str(),
        request.role,
        request.expire_time.as_ref(),
    );
    create(call, &request, of, requested).await
}

pub(super) async fn create_for_project(
    call: &Call<'_>,
    request: pb::CreateProjectInvitationRequest,
) -> Result<pb::Invitation> {
    let of = Of::Project(&request.project_id);
    let requested = (
        request.email.as_str(),
        request.role,
        request.expire_time.as_ref(),
    );
    create(call, &request, of, requested).await
}

async fn create(
    call: &Call<'_>,
    request: &impl prost::Message,
    of: Of<'_>,
    (email, role, end): (&str, i32, Option<&prost_types::Timestamp>),
) -> Result<pb::Invitation> {
    let email = parse::email(email)?;
    let role = parse::role(role)?;
    let expire_time = parse::invitation_end(end, Timestamp::now())?;
    let id = call.new_id();
    let (id, token) = match call.begin(request, id).await? {
        // the token is shown once: who has lost it revokes the invitation, and makes another
        Begun::Replay(made) => (made, String::new()),
        Begun::Fresh(mut tx) => {
            let owned = call.owned(&mut tx, of).await?;
            call.may_give(&owned, role)?;
            let Owned {
                group,
                name,
                role: own,
            } = owned;
            let token = new_token()?;
            let new = NewInvitation {
                id,
                group,
                email: &email,
                role,
                token_hash: &hash(&token),
                inviter: &call.principal().name,
                shown_inviter: call.name_for_members(own),
                expire_time: expire_time.to_sqlx(),
            };
            store::insert_invitation(&mut tx, &new).await?;
            let detail =
                json!({ "invitation_id": id, "email": email, "role": role.as_str(), "of": name });
            let made = wire::invitation(stored(&mut tx, id).await?);
            let detail = with_digests(detail, None, Some(&made));
            let actor = call.name_for_members(own);
            let event = events::of_invitation("invitation.created", group, id, made, actor);
            call.emit(&mut tx, event).await?;
            call.commit_in(tx, group, group.id(), detail).await?;
            (id, token)
        }
    };
    let mut invitation = shown(call, id).await?;
    invitation.token = token;
    Ok(invitation)
}

fn new_token() -> Result<String> {
    let mut bytes = [0; TOKEN_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| Error::internal("no random bytes"))?;
    Ok(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

fn hash(token: &str) -> Vec<u8> {
    digest::digest(&digest::SHA256, token.as_bytes())
        .as_ref()
        .to_vec()
}

pub(super) async fn list_of_organisation(
    call: &Call<'_>,
    request: pb::ListOrganisationInvitationsRequest,
) -> Result<pb::ListOrganisationInvitationsResponse> {
    let of = Of::Organisation(&request.organisation_id);
    let listing = Listing {
        state: request.state,
        filter: &request.filter,
        order_by: &request.order_by,
        size: request.page_size,
        token: &request.page_token,
    };
    let (invitations, next_page_token) = list(call, of, listing).await?;
    Ok(pb::ListOrganisationInvitationsResponse {
        invitations,
        next_page_token,
    })
}

pub(super) async fn list_of_project(
    call: &Call<'_>,
    request: pb::ListProjectInvitationsRequest,
) -> Result<pb::ListProjectInvitationsResponse> {
    let of = Of::Project(&request.project_id);
    let listing = Listing {
        state: request.state,
        filter: &request.filter,
        order_by: &request.order_by,
        size: request.page_size,
        token: &request.page_token,
    };
    let (invitations, next_page_token) = list(call, of, listing).await?;
    Ok(pb::ListProjectInvitationsResponse {
        invitations,
        next_page_token,
    })
}

/// Which invitations are listed.
struct Listing<'a> {
    state: i32,
    filter: &'a str,
    order_by: &'a str,
    size: i32,
    token: &'a str,
}

async fn list(
    call: &Call<'_>,
    of: Of<'_>,
    listing: Listing<'_>,
) -> Result<(Vec<pb::Invitation>, String)> {
    let selection = Selection::parse(&store::INVITATIONS, listing.filter, listing.order_by)?;
    let size = page::page_size(listing.size)?;
    let number = listing.state.to_string();
    let state = parse::invitation_state(listing.state)?;
    let mut conn = call.conn().await?;
    let group = call.seen(&mut conn, of).await?;
    let id = group.id().to_string();
    let wanted = Wanted {
        page_token: listing.token,
        size,
        query: &["invitations", &id, &number],
    };
    let (rows, next) = store::list_invitations(&mut conn, group, state, &selection, wanted).await?;
    Ok((rows.into_iter().map(wire::invitation).collect(), next))
}

pub(super) async fn revoke(
    call: &Call<'_>,
    request: pb::RevokeInvitationRequest,
) -> Result<pb::Invitation> {
    let id = known_id(&request.invitation_id, invitation_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let row = stored(&mut tx, id).await?;
        let target = row.group.id().to_string();
        let owned = call.owned(&mut tx, Of::group(row.group, &target)).await;
        let own = owned.map_err(hidden(invitation_unknown))?.role;
        // as it is under the lock
        let row = stored(&mut tx, id).await?;
        match row.state {
            InvitationState::Pending | InvitationState::Expired => {}
            InvitationState::Accepted | InvitationState::Revoked => {
                return Err(Error::new(
                    Code::FailedPrecondition,
                    ErrorReason::StateConflict,
                    "The invitation is accepted or revoked already.",
                ));
            }
        }
        store::revoke_invitation(&mut tx, id).await?;
        let detail = json!({ "email": row.email, "of": row.target });
        let group = row.group;
        let (detail, after) = changes(&mut tx, detail, row).await?;
        let actor = call.name_for_members(own);
        let event = events::of_invitation("invitation.revoked", group, id, after, actor);
        call.emit(&mut tx, event).await?;
        call.commit_in(tx, group, id, detail).await?;
    }
    shown(call, id).await
}

fn invitation_unknown() -> Error {
    unknown("invitation_id", "invitation")
}

/// One refusal for all: who tries tokens learns nothing.
fn invalid() -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::InvitationInvalid,
        "The invitation is not valid: ask for a new one.",
    )
    .field("token", "must be that of a pending invitation for you")
}

/// Whatever the invitation is.
fn unverified() -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::InvitationInvalid,
        "Invitations are accepted by an email address that your identity provider has verified, and your sign-in has none.",
    )
    .field("token", "must be used by who has a verified email address")
}

/// Whoever has the token and the address may know why it is of no use.
fn void() -> Error {
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::InvitationInvalid,
        "The invitation is void: who sent it may no longer give this role. Ask an owner for a new one.",
    )
    .field("token", "must be that of somebody who may still give the role")
}

/// Whether who invited may still give the role: as a member and with the keys of now, under the policies of now.
async fn inviter_may(
    call: &Call<'_>,
    conn: &mut PgConnection,
    row: &InvitationRow,
) -> Result<bool> {
    let Some(inviter) = store::principal_of_name(&mut *conn, &row.inviter).await? else {
        return Ok(false);
    };
    let (resource, role, action) = match row.group {
        Group::Organisation(id) => {
            let found = store::find_organisation(conn, id, inviter.id).await?;
            let role = found.and_then(|found| found.role);
            let resource = Resource::Organisation {
                id,
                role,
                guardrails: inviter.guardrails_of(id),
            };
            (resource, role, INVITE_TO_ORGANISATION)
        }
        Group::Project(id) => {
            let Some(found) = store::find_project(conn, id, inviter.id).await? else {
                return Ok(false);
            };
            let resource = Resource::Project {
                id,
                organisation: found.organisation_id,
                role: found.role,
                has_grant: false,
                guardrails: inviter.guardrails_of(found.organisation_id),
                asked: Asked::default(),
            };
            (resource, found.role, INVITE_TO_PROJECT)
        }
    };
    let owns = role.is_some_and(|role| role >= Role::Owner && role >= row.role);
    let who = who(&inviter);
    let mut routes = call.app.routes.routes().iter();
    let allowed = routes
        .find(|route| route.access.action == action)
        .is_some_and(|route| call.app.policies.on(who, route, resource).is_ok());
    Ok((owns || inviter.is_admin()) && allowed && who.lacks_of(row.role).is_none())
}

pub(super) async fn accept(
    call: &Call<'_>,
    request: pb::AcceptInvitationRequest,
) -> Result<pb::Invitation> {
    let identity = &call.session.identity;
    let display_name = parse::display_name_or(&request.display_name, "")?;
    if call.principal().kind != store::PrincipalKind::User {
        return Err(invalid());
    }
    // said before anything is looked for, so that it tells nothing of the invitation
    if identity.email.is_none() && call.app.verifier.requires_verified_email(&identity.issuer) {
        return Err(unverified());
    }
    let mut tx = call.app.pool.begin().await?;
    let found = store::invitation_of_token(&mut tx, &hash(&request.token)).await?;
    let found = found.ok_or_else(invalid)?;
    // what it is for comes first, as for who revokes it; who invited is an owner, or is none, until the end
    match found.group {
        Group::Organisation(id) => store::lock_organisation(&mut tx, id).await?,
        Group::Project(id) => store::lock_project(&mut tx, id).await?,
    }
    let row = store::lock_invitation(&mut tx, found.id).await?;
    let row = row.ok_or_else(invalid)?;
    // who has accepted it, and repeats that, has
    if let Some((by, _)) = &row.accepted_by {
        return if *by == call.me() {
            Ok(wire::invitation(row))
        } else {
            Err(invalid())
        };
    }
    let for_another = identity
        .email
        .as_ref()
        .is_some_and(|email| email.to_lowercase() != row.email);
    if row.state != InvitationState::Pending
        || row.target_state == TenantState::Closed
        || for_another
    {
        return Err(invalid());
    }
    if !inviter_may(call, &mut tx, &row).await? {
        return Err(void());
    }
    let principal = if call.session.is_registered() {
        call.me()
    } else {
        register(call, &mut tx, &row, &display_name).await?
    };
    let before = join(&mut tx, &row, principal).await?;
    store::accept_invitation(&mut tx, row.id, principal).await?;
    let (id, group) = (row.id, row.group);
    let detail = json!({ "role": row.role.as_str(), "of": row.target, "inviter": row.inviter });
    let (detail, after) = changes(&mut tx, detail, row).await?;
    let actor = after.accepted_by.clone();
    let event = events::of_invitation("invitation.accepted", group, id, after, &actor);
    call.emit(&mut tx, event).await?;
    if let Some(member) = store::find_member(&mut tx, group, principal).await?
        && before != Some(member.role)
    {
        let roles = (before, Some(member.role));
        let event = events::of_member(group, (&member).into(), roles, &actor);
        call.emit(&mut tx, event).await?;
    }
    call.commit_in(tx, group, id, detail).await?;
    let mut conn = call.conn().await?;
    stored(&mut conn, id).await.map(wire::invitation)
}

/// Makes the principal a member, or a stronger one; never a weaker one. Answers which it was.
async fn join(
    conn: &mut PgConnection,
    row: &InvitationRow,
    principal: Uuid,
) -> Result<Option<Role>> {
    if store::insert_member(conn, row.group, principal, row.role).await? {
        return Ok(None);
    }
    let member = store::find_member(conn, row.group, principal).await?;
    let before = member.map(|member| member.role);
    if before.is_some_and(|role| role < row.role) {
        store::set_member_role(conn, row.group, principal, row.role).await?;
    }
    Ok(before)
}

/// Registers the caller's identity.
async fn register(
    call: &Call<'_>,
    conn: &mut PgConnection,
    row: &InvitationRow,
    display_name: &str,
) -> Result<Uuid> {
    let identity = &call.session.identity;
    let email = identity.email.as_deref().map(parse::email);
    let email = email.and_then(Result::ok).unwrap_or_default();
    for name in names(identity) {
        let new = NewUser {
            id: call.new_id(),
            name: &name,
            display_name: if display_name.is_empty() {
                &name
            } else {
                display_name
            },
            email: &email,
            issuer: &identity.issuer,
            subject: &identity.subject,
        };
        if store::insert_user(conn, &new).await? {
            let detail = json!({ "principal": name, "issuer": identity.issuer, "subject": identity.subject, "invitation_id": row.id });
            let made = store::get_principal(conn, new.id).await?;
            let detail = with_digests(detail, None, made.map(wire::principal).as_ref());
            call.record(conn, new.id, detail).await?;
            return Ok(new.id);
        }
        // of two invitations that one identity accepts at once the first registers it
        let made = store::principal_by_identity(conn, &identity.issuer, &identity.subject).await?;
        if let Some(made) = made {
            return Ok(made.id);
        }
    }
    Err(Error::internal("no free name for a new principal"))
}

/// The detail of a change with the digests of what the invitation was and is, and what it is.
async fn changes(
    conn: &mut PgConnection,
    detail: Value,
    before: InvitationRow,
) -> Result<(Value, pb::Invitation)> {
    let after = wire::invitation(stored(conn, before.id).await?);
    let before = wire::invitation(before);
    let detail = with_digests(detail, Some(&before), Some(&after));
    Ok((detail, after))
}

async fn stored(conn: &mut PgConnection, id: Uuid) -> Result<InvitationRow> {
    let row = store::find_invitation(conn, id).await?;
    row.ok_or_else(invitation_unknown)
}

/// An invitation for something that the caller may see. To others there is none.
async fn shown(call: &Call<'_>, id: Uuid) -> Result<pb::Invitation> {
    let mut conn = call.conn().await?;
    let row = stored(&mut conn, id).await?;
    let target = row.group.id().to_string();
    let seen = call.seen(&mut conn, Of::group(row.group, &target)).await;
    seen.map_err(hidden(invitation_unknown))?;
    Ok(wire::invitation(row))
}
