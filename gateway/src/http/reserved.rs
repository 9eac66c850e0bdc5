//! What operators reserve for projects: the organisation's guardrails bind them as they bind its members.
use gpuaas_common::{Error, Result};
use prost_reflect::DynamicMessage;
use uuid::Uuid;

use crate::app::App;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::policy::{Refusal, named_project};
use crate::store::{self, Guardrails, Principal};

/// The action of an operator, and that of a member which guardrails know.
const OF_OPERATORS: &str = "admin.reservation.create";
const OF_MEMBERS: &str = "reservation.create";

/// Decides on a reservation for a project; of another request, and of a project that is unknown here, there is nothing to say.
///
/// # Errors
/// Those of the database.
pub async fn check(
    app: &App,
    principal: &Principal,
    route: &Route,
    message: &DynamicMessage,
) -> std::result::Result<std::result::Result<(), Refusal>, ApiError> {
    let (true, Some(Ok(project))) = (route.action == OF_OPERATORS, named_project(message)) else {
        return Ok(Ok(()));
    };
    let mut routes = app.routes.routes().iter();
    let of_members = routes.find(|route| route.action == OF_MEMBERS);
    // without it nothing could be said, so nothing is reserved
    let of_members = of_members.ok_or_else(ApiError::internal)?;
    let found = guardrails_of(app, principal, project).await;
    let found = found.map_err(|error| ApiError::from_status(&error.into()))?;
    Ok(found.map_or(Ok(()), |guardrails| {
        let of = (project, guardrails.organisation_id);
        app.policies
            .check_reserved(principal, of_members, of, &guardrails, message)
    }))
}

/// What the organisation of a project forbids.
async fn guardrails_of(
    app: &App,
    principal: &Principal,
    project: Uuid,
) -> Result<Option<Guardrails>> {
    let mut conn = app.pool.acquire().await.map_err(Error::from)?;
    let Some(row) = store::find_project(&mut conn, project, principal.id).await? else {
        return Ok(None);
    };
    let set = store::organisation_guardrails(&mut conn, row.organisation_id).await?;
    Ok(Some(set.guardrails))
}
