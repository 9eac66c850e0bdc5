//! `ProjectService`, and the list of all projects for administrators.
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, etag, page};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use serde_json::json;
use sqlx::{PgConnection, PgPool};
use tonic::Code;
use uuid::Uuid;

use super::call::{
    Begun, Call, known_id, not_closed, organisation_unknown, project_unknown, taken,
};
use super::organisations::in_use;
use super::{events, parse, running, suspensions, wire};
use crate::store::{self, Group, ProjectFilter, Role, TenantState};

pub(super) async fn get(call: &Call<'_>, request: pb::GetProjectRequest) -> Result<pb::Project> {
    let mut conn = call.conn().await?;
    Ok(wire::project(
        call.project(&mut conn, &request.project_id).await?,
    ))
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListProjectsRequest,
) -> Result<pb::ListProjectsResponse> {
    listed(call, Some(call.me()), &request).await
}

pub(super) async fn list_all(
    call: &Call<'_>,
    request: pb::ListProjectsRequest,
) -> Result<pb::ListProjectsResponse> {
    listed(call, None, &request).await
}

async fn listed(
    call: &Call<'_>,
    member: Option<Uuid>,
    request: &pb::ListProjectsRequest,
) -> Result<pb::ListProjectsResponse> {
    let selection = Selection::parse(&store::PROJECTS, &request.filter, &request.order_by)?;
    let state = parse::state(request.state)?;
    let who = member.map(|id| id.to_string()).unwrap_or_default();
    let wanted = Wanted {
        page_token: &request.page_token,
        size: page::page_size(request.page_size)?,
        query: &[
            "projects",
            &who,
            &request.organisation_id,
            state.map_or("", TenantState::as_str),
        ],
    };
    let organisation = match request.organisation_id.as_str() {
        "" => None,
        given => Some(gpuaas_common::id::parse("organisation_id", given)?),
    };
    let filter = ProjectFilter {
        member,
        organisation,
        state,
    };
    let mut conn = call.conn().await?;
    let (rows, next_page_token) =
        store::list_projects(&mut conn, &filter, &selection, wanted).await?;
    Ok(pb::ListProjectsResponse {
        projects: rows.into_iter().map(wire::project).collect(),
        next_page_token,
    })
}

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateProjectRequest,
) -> Result<pb::Project> {
    let organisation = known_id(&request.organisation_id, organisation_unknown)?;
    let slug = parse::slug(&request.slug)?;
    let display_name = parse::display_name_or(&request.display_name, slug.as_str())?;
    let id = call.new_id();
    let id = match call.begin(&request, id).await? {
        Begun::Replay(made) => made,
        Begun::Fresh(mut tx) => {
            store::lock_organisation(&mut tx, organisation).await?;
            let row = call.organisation(&mut tx, &request.organisation_id).await?;
            call.needs(row.role, Role::Owner)?;
            not_closed(row.state)?;
            if row.state == TenantState::Suspended {
                return Err(suspended(&row.state_reason));
            }
            refuse_more(call, &mut tx, organisation).await?;
            if !store::insert_project(&mut tx, id, organisation, slug.as_str(), &display_name)
                .await?
            {
                return Err(taken(
                    "slug",
                    "is the slug of another project of the organisation",
                ));
            }
            // who creates it for others, as an administrator does, is no part of it
            if row.role.is_some() {
                store::insert_member(&mut tx, Group::Project(id), call.me(), Role::Owner).await?;
            }
            let detail =
                json!({ "slug": slug.as_str(), "organisation": row.slug, "project_id": id });
            let made = stored(&mut tx, id).await?;
            let detail = with_digests(detail, None, Some(&made));
            let actor = call.name_for_members(row.role);
            let event = events::of_project("project.created", id, made, actor);
            call.emit(&mut tx, event).await?;
            call.commit(tx, organisation, detail).await?;
            id
        }
    };
    shown(call, id).await
}

/// Refuses a project more than an organisation may have: quotas are by project, and would bound nothing. The organisation is
/// locked, so of two that are created at once one is counted.
async fn refuse_more(call: &Call<'_>, conn: &mut PgConnection, organisation: Uuid) -> Result<()> {
    let most = call.app.max_projects;
    if most == 0 || call.administers() {
        return Ok(());
    }
    let open = store::count_open_projects(conn, organisation).await?;
    if usize::try_from(open).unwrap_or(usize::MAX) < most {
        return Ok(());
    }
    Err(Error::new(
        Code::ResourceExhausted,
        ErrorReason::Quota,
        format!(
            "The organisation has {open} projects that are not closed, and may have {most}. Close one, or ask an administrator."
        ),
    )
    .field("organisation_id", format!("must have fewer than {most} projects that are not closed"))
    .meta("max_projects", most.to_string()))
}

pub(super) async fn update(
    call: &Call<'_>,
    request: pb::UpdateProjectRequest,
) -> Result<pb::Project> {
    let id = known_id(&request.project_id, project_unknown)?;
    let display_name = parse::display_name(&request.display_name)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        store::lock_project(&mut tx, id).await?;
        let row = call.project(&mut tx, &request.project_id).await?;
        call.needs(row.role, Role::Owner)?;
        not_closed(row.state())?;
        etag::check(&request.etag, &row.version.to_string())?;
        let before = stored(&mut tx, id).await?;
        store::rename_project(&mut tx, id, &display_name).await?;
        let after = stored(&mut tx, id).await?;
        let detail = json!({ "display_name": display_name, "before": row.display_name });
        let detail = with_digests(detail, Some(&before), Some(&after));
        let actor = call.name_for_members(row.role);
        let event = events::of_project("project.updated", id, after, actor);
        call.emit(&mut tx, event).await?;
        call.commit_in(tx, Group::Project(id), id, detail).await?;
    }
    shown(call, id).await
}

pub(super) async fn suspend(
    call: &Call<'_>,
    request: pb::SuspendProjectRequest,
) -> Result<pb::Project> {
    let reason = parse::reason(&request.reason)?;
    let to = (TenantState::Suspended, reason.as_str());
    change_state(call, &request, (&request.project_id, &request.etag), to).await
}

pub(super) async fn resume(
    call: &Call<'_>,
    request: pb::ResumeProjectRequest,
) -> Result<pb::Project> {
    let to = (TenantState::Active, "");
    change_state(call, &request, (&request.project_id, &request.etag), to).await
}

async fn change_state(
    call: &Call<'_>,
    request: &impl prost::Message,
    (given, etag): (&str, &str),
    (state, reason): (TenantState, &str),
) -> Result<pb::Project> {
    let id = known_id(given, project_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(request, id).await? {
        store::lock_project(&mut tx, id).await?;
        let row = call.project(&mut tx, given).await?;
        call.needs(row.role, Role::Owner)?;
        not_closed(row.state())?;
        etag::check(etag, &row.version.to_string())?;
        let admin = call.administers();
        if row.suspended_by_platform && !admin {
            return Err(Error::new(
                Code::PermissionDenied,
                ErrorReason::PermissionDenied,
                "An administrator of the platform suspended it, and only one can change that.",
            ));
        }
        let by_platform = admin && state == TenantState::Suspended;
        let before = stored(&mut tx, id).await?;
        store::set_project_state(&mut tx, id, state, reason, by_platform).await?;
        let after = stored(&mut tx, id).await?;
        let detail =
            json!({ "state": state.as_str(), "before": row.own_state.as_str(), "reason": reason });
        let detail = with_digests(detail, Some(&before), Some(&after));
        let event_type = match state {
            TenantState::Active => "project.resumed",
            TenantState::Suspended => "project.suspended",
            TenantState::Closed => "project.closed",
        };
        let says = |row: &pb::Project| (row.state_reason.clone(), row.suspended_by_platform);
        if row.own_state != state || says(&before) != says(&after) {
            let actor = call.name_for_members(row.role);
            let event = events::of_project(event_type, id, after, actor);
            call.emit(&mut tx, event).await?;
        }
        call.commit_in(tx, Group::Project(id), id, detail).await?;
    }
    suspensions::changed(call).await;
    shown(call, id).await
}

/// Closes a project in which nothing runs. Nothing begins in it from the last look until its end: a launch that a gateway has
/// taken before keeps it open, and one that comes later is refused. Its state is touched by nothing but the end, so that a
/// refusal leaves it as it was, suspended or not.
pub(super) async fn close(
    call: &Call<'_>,
    request: pb::CloseProjectRequest,
) -> Result<pb::Project> {
    let id = known_id(&request.project_id, project_unknown)?;
    let reason = parse::reason(&request.reason)?;
    let before = {
        let mut conn = call.conn().await?;
        call.project(&mut conn, &request.project_id).await?
    };
    call.needs(before.role, Role::Owner)?;
    if before.own_state == TenantState::Closed {
        // the same call again, or one more
        if let Begun::Fresh(_) = call.begin(&request, id).await? {
            not_closed(before.own_state)?;
        }
        return shown(call, id).await;
    }
    etag::check(&request.etag, &before.version.to_string())?;
    refuse_running(call, id).await?;
    let closing = call.new_id();
    let under_way = Closing(Some((call.app.pool.clone(), closing)));
    let version = begin_closing(call, &request, closing).await?;
    let closed = end_if_empty(call, &request, (id, closing, version), &reason).await;
    under_way.end().await;
    closed?;
    shown(call, id).await
}

/// A closing that is under way. However the call ends, also when its client goes away and nobody waits for it any more, the
/// project takes launches again at once: its state is what it was, unless it was closed.
struct Closing(Option<(PgPool, Uuid)>);

impl Closing {
    /// Ends it, and waits for that.
    async fn end(mut self) {
        if let Some((pool, closing)) = &self.0 {
            end_closing(pool.clone(), *closing).await;
        }
        self.0 = None;
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some((pool, closing)) = self.0.take() {
            tokio::spawn(end_closing(pool, closing));
        }
    }
}

/// Without this the project takes launches again when the time of the call is over.
async fn end_closing(pool: PgPool, closing: Uuid) {
    let ended = async {
        let mut conn = pool.acquire().await?;
        store::end_closing(&mut conn, closing).await
    };
    if let Err(error) = ended.await {
        tracing::warn!(%closing, "end the closing of a project: {error}");
    }
}

/// From now on nothing begins in the project. Answers its version.
async fn begin_closing(
    call: &Call<'_>,
    request: &pb::CloseProjectRequest,
    closing: Uuid,
) -> Result<i64> {
    let id = known_id(&request.project_id, project_unknown)?;
    let mut tx = call.app.pool.begin().await?;
    store::lock_project(&mut tx, id).await?;
    let row = call.project(&mut tx, &request.project_id).await?;
    call.needs(row.role, Role::Owner)?;
    not_closed(row.own_state)?;
    etag::check(&request.etag, &row.version.to_string())?;
    // longer than the look at two services takes
    let seconds = call.app.request_timeout.as_secs_f64() * 4.0 + 30.0;
    store::begin_closing(&mut tx, closing, id, seconds).await?;
    tx.commit().await?;
    Ok(row.version)
}

async fn end_if_empty(
    call: &Call<'_>,
    request: &pb::CloseProjectRequest,
    (id, closing, version): (Uuid, Uuid, i64),
    reason: &str,
) -> Result<()> {
    if store::launches_under_way(&mut *call.conn().await?, id).await? > 0 {
        let launch = "a launch that is under way".to_owned();
        return Err(in_use("launches", &[launch]));
    }
    refuse_running(call, id).await?;
    if let Begun::Fresh(mut tx) = call.begin(request, id).await? {
        store::lock_project(&mut tx, id).await?;
        let row = call.project(&mut tx, &request.project_id).await?;
        call.needs(row.role, Role::Owner)?;
        not_closed(row.own_state)?;
        etag::check(&version.to_string(), &row.version.to_string())?;
        if !store::end_closing(&mut tx, closing).await? {
            return Err(Error::new(
                Code::Aborted,
                ErrorReason::StateConflict,
                "It took too long to see what runs in the project. Close it again.",
            ));
        }
        let before = stored(&mut tx, id).await?;
        let state = TenantState::Closed;
        store::set_project_state(&mut tx, id, state, reason, row.suspended_by_platform).await?;
        let whose = Group::Project(id);
        store::disable_webhooks_of(&mut tx, whose, "The project was closed.").await?;
        let detail =
            json!({ "state": "closed", "before": row.own_state.as_str(), "reason": reason });
        let after = stored(&mut tx, id).await?;
        let detail = with_digests(detail, Some(&before), Some(&after));
        // its own webhooks have ended with it
        let actor = call.name_for_members(row.role);
        let event = events::of_project("project.closed", id, after, actor);
        call.emit(&mut tx, event).await?;
        call.commit_in(tx, Group::Project(id), id, detail).await?;
    }
    Ok(())
}

async fn refuse_running(call: &Call<'_>, project: Uuid) -> Result<()> {
    let left = running::names(call, project).await?;
    if left.is_empty() {
        return Ok(());
    }
    Err(in_use("allocations or capacity reservations", &left))
}

/// Nothing new in a suspended project or organisation; `why` as whoever suspended it wrote.
pub(super) fn suspended(why: &str) -> Error {
    let rule = "It is suspended: what runs can be read, stopped and released.";
    let message = match why {
        "" => rule.to_owned(),
        why => format!("{rule} Reason: {why}"),
    };
    Error::new(
        Code::FailedPrecondition,
        ErrorReason::ProjectSuspended,
        message,
    )
}

/// The same of a project, with the reason that its members see.
pub(super) async fn suspended_project(pool: &PgPool, project: Uuid) -> Error {
    let found = store::find_projects(pool, &[project]).await;
    match found.as_deref() {
        Ok([row, ..]) => suspended(&row.state_reason),
        _ => suspended(""),
    }
}

/// Nothing new in a closed project.
pub(super) fn closed() -> Error {
    not_closed(TenantState::Closed).expect_err("closed")
}

/// Nothing new in a project while it is being closed, which may be refused yet: who tries again is answered by what it is then.
pub(super) fn closing() -> Error {
    Error::new(
        Code::Unavailable,
        ErrorReason::ProjectClosing,
        "The project is being closed: nothing begins in it meanwhile. Try again with the same idempotency key.",
    )
}

/// As digests are of it, whoever calls: without a role.
async fn stored(conn: &mut PgConnection, id: Uuid) -> Result<pb::Project> {
    let found = store::find_project(conn, id, Uuid::nil()).await?;
    found.map(wire::project).ok_or_else(project_unknown)
}

async fn shown(call: &Call<'_>, id: Uuid) -> Result<pb::Project> {
    let mut conn = call.conn().await?;
    let row = call.project(&mut conn, &id.to_string()).await?;
    Ok(wire::project(row))
}
