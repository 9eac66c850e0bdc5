//! `PrincipalAdminService`: who may call at all, and who runs the platform.
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::{Value, json};
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, known_id, taken, unknown};
use super::{events, parse, wire};
use crate::store::{
    self, Disabled, NewUser, PlatformRole, PrincipalFilter, PrincipalKind, PrincipalRow,
};

fn principal_unknown() -> Error {
    unknown("principal_id", "principal")
}

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreatePrincipalRequest,
) -> Result<pb::Principal> {
    let name = parse::user_name(&request.name)?;
    let display_name = parse::display_name_or(&request.display_name, &name)?;
    let issuer = parse::claim("issuer", &request.issuer)?;
    let subject = parse::claim("subject", &request.subject)?;
    let email = match request.email.as_str() {
        "" => String::new(),
        given => parse::email(given)?,
    };
    let id = call.new_id();
    let id = match call.begin(&request, id).await? {
        Begun::Replay(made) => made,
        Begun::Fresh(mut tx) => {
            let new = NewUser {
                id,
                name: &name,
                display_name: &display_name,
                email: &email,
                issuer: &issuer,
                subject: &subject,
            };
            if !store::insert_user(&mut tx, &new).await? {
                let named = store::principal_by_name(&mut tx, &name).await?;
                return Err(match named {
                    Some(_) => taken("name", "is the name of another principal"),
                    None => taken("subject", "is registered for this issuer"),
                });
            }
            let detail = json!({ "name": name, "issuer": issuer, "subject": subject });
            let made = store::get_principal(&mut tx, id).await?;
            let detail = with_digests(detail, None, made.map(wire::principal).as_ref());
            call.commit(tx, id, detail).await?;
            id
        }
    };
    shown(call, id).await
}

pub(super) async fn get(
    call: &Call<'_>,
    request: pb::GetPrincipalRequest,
) -> Result<pb::Principal> {
    shown(call, known_id(&request.principal_id, principal_unknown)?).await
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListPrincipalsRequest,
) -> Result<pb::ListPrincipalsResponse> {
    let selection = Selection::parse(&store::PRINCIPALS, &request.filter, &request.order_by)?;
    let size = page::page_size(request.page_size)?;
    let filter = PrincipalFilter {
        name: Some(request.name.clone()).filter(|name| !name.is_empty()),
        kind: parse::kind(request.kind)?,
        platform_role: parse::platform_role(request.platform_role)?,
        disabled: request.disabled,
    };
    let selected = format!(
        "{} {} {:?}",
        request.kind, request.platform_role, request.disabled
    );
    let query = ["principals", request.name.as_str(), selected.as_str()];
    let wanted = Wanted {
        page_token: &request.page_token,
        size,
        query: &query,
    };
    let mut conn = call.conn().await?;
    let (rows, next_page_token) =
        store::select_principals(&mut conn, filter, &selection, wanted).await?;
    Ok(pb::ListPrincipalsResponse {
        principals: rows.into_iter().map(wire::principal).collect(),
        next_page_token,
    })
}

pub(super) async fn disable(
    call: &Call<'_>,
    request: pb::DisablePrincipalRequest,
) -> Result<pb::Principal> {
    let id = known_id(&request.principal_id, principal_unknown)?;
    let reason = parse::reason(&request.reason)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        // of two administrators who disable each other one comes second, and is refused
        store::lock_other_admins(&mut tx, id).await?;
        let row = changed(call, &mut tx, id, &request.etag).await?;
        if id == call.me() {
            return Err(Error::invalid("principal_id", "must not be your own"));
        }
        let account = of_project(&mut tx, id).await?;
        // also what the owners of its project disabled: from now on only the platform enables it
        store::set_disabled(&mut tx, id, Disabled::ByPlatform).await?;
        let detail = json!({ "principal": row.name, "reason": reason });
        let detail = changes(&mut tx, detail, row).await?;
        tell_its_project(call, &mut tx, "service_account.disabled", (id, account)).await?;
        call.commit(tx, id, detail).await?;
    }
    shown(call, id).await
}

pub(super) async fn enable(
    call: &Call<'_>,
    request: pb::EnablePrincipalRequest,
) -> Result<pb::Principal> {
    let id = known_id(&request.principal_id, principal_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let row = changed(call, &mut tx, id, &request.etag).await?;
        let account = of_project(&mut tx, id).await?;
        if row.disable_time.is_some() {
            store::set_disabled(&mut tx, id, Disabled::No).await?;
        }
        let detail = json!({ "principal": row.name });
        let detail = changes(&mut tx, detail, row).await?;
        tell_its_project(call, &mut tx, "service_account.enabled", (id, account)).await?;
        call.commit(tx, id, detail).await?;
    }
    shown(call, id).await
}

pub(super) async fn set_platform_role(
    call: &Call<'_>,
    request: pb::SetPlatformRoleRequest,
) -> Result<pb::Principal> {
    let id = known_id(&request.principal_id, principal_unknown)?;
    let role = parse::platform_role(request.platform_role)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        // before anybody's row: of two administrators who take each other's role one comes second, and is refused
        let another = store::lock_other_admins(&mut tx, id).await?;
        let row = changed(call, &mut tx, id, &request.etag).await?;
        // the owners of its project make its keys: they would have the role, too
        if row.kind == PrincipalKind::ServiceAccount && role.is_some() {
            let rule = "must be none for a service account";
            return Err(Error::invalid("platform_role", rule));
        }
        let was_admin = row.platform_role == Some(PlatformRole::Admin);
        if was_admin && role != Some(PlatformRole::Admin) && !another {
            return Err(Error::new(
                Code::FailedPrecondition,
                ErrorReason::LastOwner,
                "This is the last administrator: make somebody else one first.",
            ));
        }
        store::set_platform_role(&mut tx, id, role).await?;
        let name = |role: Option<PlatformRole>| role.map_or("", store::platform_role_name);
        let detail = json!({
            "principal": row.name, "platform_role": name(role), "before": name(row.platform_role),
        });
        let detail = changes(&mut tx, detail, row).await?;
        call.commit(tx, id, detail).await?;
    }
    shown(call, id).await
}

/// A service account as its project reads it, and the project; people are in none of their own.
async fn of_project(
    conn: &mut PgConnection,
    id: Uuid,
) -> Result<Option<(Uuid, pb::ServiceAccount)>> {
    let Some(home) = store::scim_home(conn, id).await? else {
        return Ok(None);
    };
    let row = store::find_service_account(conn, home.project, id).await?;
    Ok(row.map(|row| (home.project, wire::service_account(row))))
}

/// Queues an event of a service account for the webhooks of its project, unless it is there as it was before.
async fn tell_its_project(
    call: &Call<'_>,
    conn: &mut PgConnection,
    event_type: &'static str,
    (id, before): (Uuid, Option<(Uuid, pb::ServiceAccount)>),
) -> Result<()> {
    let after = of_project(conn, id).await?;
    if after == before {
        return Ok(());
    }
    let Some((project, account)) = after else {
        return Ok(());
    };
    let actor = call.name_for_members(call.principal().role_in(project));
    let event = events::of_service_account(event_type, (project, id), account, actor);
    call.emit(conn, event).await
}

/// A principal, locked, that an administrator who still is one changes.
async fn changed(
    call: &Call<'_>,
    conn: &mut PgConnection,
    id: Uuid,
    etag: &str,
) -> Result<PrincipalRow> {
    let me = store::get_principal(conn, call.me()).await?;
    let still = me.is_some_and(|me| {
        me.disable_time.is_none() && me.platform_role == Some(PlatformRole::Admin)
    });
    if !still {
        return Err(Error::new(
            Code::PermissionDenied,
            ErrorReason::PermissionDenied,
            "This needs a platform administrator.",
        ));
    }
    store::lock_principal(conn, id).await?;
    let row = store::get_principal(conn, id).await?;
    let row = row.ok_or_else(principal_unknown)?;
    etag::check(etag, &row.version.to_string())?;
    Ok(row)
}

/// The detail of a change with the digests of what the principal was and is.
async fn changes(conn: &mut PgConnection, detail: Value, before: PrincipalRow) -> Result<Value> {
    let after = store::get_principal(conn, before.id).await?;
    let (before, after) = (wire::principal(before), after.map(wire::principal));
    Ok(with_digests(detail, Some(&before), after.as_ref()))
}

async fn shown(call: &Call<'_>, id: Uuid) -> Result<pb::Principal> {
    let mut conn = call.conn().await?;
    let found = store::get_principal(&mut conn, id).await?;
    found.map(wire::principal).ok_or_else(principal_unknown)
}
