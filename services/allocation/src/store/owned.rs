//! Which of the caller's projects owns an allocation.

use gpuaas_common::Error;
use gpuaas_common::identity::{Caller, ProjectScope};
use gpuaas_placement::model::Allocation;
use gpuaas_placement::{Scope, allocations};
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use sqlx::PgConnection;
use tonic::Code;
use uuid::Uuid;

/// The allocation, if one of the caller's projects owns it. A foreign one does not exist.
pub(crate) async fn owned(
    conn: &mut PgConnection,
    caller: &Caller,
    id: Uuid,
) -> Result<(Allocation, ProjectScope), Error> {
    for project in caller.scopes() {
        match allocations::get(conn, Scope::Project(project.id()), id).await {
            Ok(row) => return Ok((row, project)),
            Err(gpuaas_placement::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::new(
        Code::NotFound,
        ErrorReason::AllocationNotFound,
        "Your projects have no such allocation.",
    ))
}
