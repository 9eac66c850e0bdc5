//! `AllocationGrantService`: members of a project who have a grant for one allocation, whatever their role.
use gpuaas_common::audit::with_digests;
use gpuaas_common::select::{Selection, Wanted};
use gpuaas_common::{Error, Result, id, page};
use gpuaas_proto::gpuaas::allocation::v1 as allocation;
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_client::AllocationServiceClient;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use gpuaas_proto::gpuaas::identity::v1 as pb;
use jiff::Timestamp;
use jiff_sqlx::ToSqlx as _;
use serde_json::json;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

use super::call::{Begun, Call, Of, Owned, known_id, project_unknown, taken, unknown};
use super::running::signed;
use super::{parse, wire};
use crate::store::{self, Group, NewAllocationGrant, Role, Scope};

/// Most grants of one project.
const MAX_GRANTS: i64 = 500;

pub(super) async fn create(
    call: &Call<'_>,
    request: pb::CreateAllocationGrantRequest,
) -> Result<pb::AllocationGrant> {
    let project = {
        // who may not do it learns nothing of the allocation
        let mut conn = call.conn().await?;
        let row = call.project(&mut conn, &request.project_id).await?;
        call.needs(row.role, Role::Owner)?;
        call.has_scope(Scope::Terminal, "permission")?;
        row.id
    };
    let id = match call.made(&request).await? {
        // whatever has become of the allocation, and of the end
        Some(made) => made,
        None => make(call, &request, project).await?,
    };
    let mut conn = call.conn().await?;
    let found = store::find_allocation_grant(&mut conn, project, id).await?;
    found.map(wire::allocation_grant).ok_or_else(grant_unknown)
}

/// Makes a grant, and answers its id.
async fn make(
    call: &Call<'_>,
    request: &pb::CreateAllocationGrantRequest,
    project: Uuid,
) -> Result<Uuid> {
    let permission = parse::allocation_permission(request.permission)?;
    let expire_time = parse::allocation_grant_end(request.expire_time.as_ref(), Timestamp::now())?;
    let allocation = id::parse("allocation_id", &request.allocation_id)?;
    exists(call, project, allocation).await?;
    let id = call.new_id();
    match call.begin(request, id).await? {
        Begun::Replay(made) => Ok(made),
        Begun::Fresh(mut tx) => {
            let Owned { name, role, .. } = call
                .owned(&mut tx, Of::Project(&request.project_id))
                .await?;
            let principal = member(&mut tx, project, &request.principal).await?;
            if store::count_allocation_grants(&mut tx, project).await? >= MAX_GRANTS {
                return Err(Error::new(
                    Code::FailedPrecondition,
                    ErrorReason::StateConflict,
                    format!(
                        "The project has {MAX_GRANTS} grants already: delete one that nobody needs."
                    ),
                ));
            }
            let new = NewAllocationGrant {
                id,
                project,
                allocation,
                principal,
                permission,
                creator: call.name_for_members(role),
                expire_time: expire_time.to_sqlx(),
            };
            if !store::insert_allocation_grant(&mut tx, &new).await? {
                return Err(taken("principal", "has this permission already"));
            }
            let detail = json!({
                "grant_id": id, "allocation_id": allocation, "principal": request.principal,
                "permission": permission.as_str(), "expire_time": expire_time.to_string(), "of": name,
            });
            let made = store::find_allocation_grant(&mut tx, project, id).await?;
            let made = made.map(wire::allocation_grant);
            let detail = with_digests(detail, None, made.as_ref());
            call.commit_in(tx, Group::Project(project), project, detail)
                .await?;
            Ok(id)
        }
    }
}

/// Refuses an allocation that the project does not have.
async fn exists(call: &Call<'_>, project: Uuid, allocation: Uuid) -> Result<()> {
    let mut allocations = AllocationServiceClient::new(call.app.peers.channel("allocation")?);
    let request = allocation::GetAllocationRequest {
        allocation_id: allocation.to_string(),
    };
    let request = signed(call, "allocation", &[project], request)?;
    allocations.get_allocation(request).await?;
    Ok(())
}

/// Somebody who is in the project now. Who is not, and who is not registered, are refused alike.
async fn member(conn: &mut PgConnection, project: Uuid, name: &str) -> Result<Uuid> {
    let found = store::principal_of_name(&mut *conn, name).await?;
    let member = found.filter(|principal| principal.role_in(project).is_some());
    let member = member.map(|principal| principal.id);
    member.ok_or_else(|| {
        Error::invalid(
            "principal",
            "must be the name of somebody who is in the project",
        )
    })
}

pub(super) async fn list(
    call: &Call<'_>,
    request: pb::ListAllocationGrantsRequest,
) -> Result<pb::ListAllocationGrantsResponse> {
    let selection = Selection::parse(
        &store::ALLOCATION_GRANTS,
        &request.filter,
        &request.order_by,
    )?;
    let size = page::page_size(request.page_size)?;
    let allocation = match request.allocation_id.as_str() {
        "" => None,
        given => Some(id::parse("allocation_id", given)?),
    };
    let mut conn = call.conn().await?;
    let row = call.project(&mut conn, &request.project_id).await?;
    let project = row.id.to_string();
    // who reads no allocations of the project reads which ones it has a grant for
    let own_alone = row.role == Some(Role::Billing) && !call.sees_all();
    let grantee = own_alone.then(|| call.me());
    let wanted = Wanted {
        page_token: &request.page_token,
        size,
        query: &["allocation grants", &project, &request.allocation_id],
    };
    let which = (allocation, grantee);
    let (rows, next_page_token) =
        store::list_allocation_grants(&mut conn, row.id, which, &selection, wanted).await?;
    Ok(pb::ListAllocationGrantsResponse {
        grants: rows.into_iter().map(wire::allocation_grant).collect(),
        next_page_token,
    })
}

pub(super) async fn delete(
    call: &Call<'_>,
    request: pb::DeleteAllocationGrantRequest,
) -> Result<pb::DeleteAllocationGrantResponse> {
    let id = known_id(&request.grant_id, grant_unknown)?;
    let project = known_id(&request.project_id, project_unknown)?;
    if let Begun::Fresh(mut tx) = call.begin(&request, id).await? {
        let Owned { name, .. } = call
            .owned(&mut tx, Of::Project(&request.project_id))
            .await?;
        let row = store::find_allocation_grant(&mut tx, project, id).await?;
        let row = row.ok_or_else(grant_unknown)?;
        store::delete_allocation_grant(&mut tx, id).await?;
        let detail = json!({
            "grant_id": id, "allocation_id": row.allocation, "principal": row.principal,
            "permission": row.permission.as_str(), "of": name,
        });
        let detail = with_digests(detail, Some(&wire::allocation_grant(row)), None);
        call.commit_in(tx, Group::Project(project), project, detail)
            .await?;
    }
    Ok(pb::DeleteAllocationGrantResponse {})
}

fn grant_unknown() -> Error {
    unknown("grant_id", "grant")
}
