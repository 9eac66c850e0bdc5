//! By which sign-in or API key a terminal is opened: it ends with that one, whatever else its owner still has.
use prost_reflect::DynamicMessage;
use uuid::Uuid;

use crate::app::App;
use crate::auth::sessions::Session;
use crate::contract::route::Route;
use crate::error::ApiError;
use crate::store;

/// The method whose answer has the ticket of a terminal.
const OPENS: &str = "gpuaas.terminal.v1.TerminalSessionService.CreateTerminalSession";
const SESSION: &str = "session_id";

/// Notes who gets the ticket in an answer, before that one has it. A WebSocket carries the ticket alone.
///
/// # Errors
/// A database that does not answer: then nobody gets the ticket.
pub async fn note(
    app: &App,
    route: &Route,
    session: &Session,
    answer: &DynamicMessage,
) -> Result<(), ApiError> {
    if route.method.full_name() != OPENS {
        return Ok(());
    }
    let id = answer.get_field_by_name(SESSION);
    let id: Option<Uuid> = id.and_then(|id| id.as_str()?.parse().ok());
    let Some(id) = id else {
        tracing::error!("a terminal without a session");
        return Err(ApiError::internal());
    };
    let noted = store::note_terminal(&app.pool, id, &session.identity).await;
    noted.map_err(|error| {
        tracing::error!(session = %id, "note who opens a terminal: {error}");
        ApiError::unavailable()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_method_that_opens_terminals_is_one_of_the_contract() {
        let routes = crate::routes().expect("served");
        let mut all = routes.routes().iter();
        let route = all.find(|route| route.method.full_name() == OPENS);
        let answer = route.expect("served").method.output();
        assert!(answer.get_field_by_name(SESSION).is_some());
    }
}
