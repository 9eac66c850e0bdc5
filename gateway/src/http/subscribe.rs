//! Opens a service's stream for its reader, however it is shown: with a place of the reader's share, and bound to what the reader
//! may do.
use std::sync::Arc;

use http::StatusCode;
use prost_reflect::DynamicMessage;

use super::authorize::{Attempt, record_refusal};
use super::reach::Outgoing;
use crate::app::App;
use crate::auth::sessions::{MAX_PROJECTS, Session};
use crate::contract::route::Route;
use crate::contract::template::PathVariables;
use crate::error::ApiError;
use crate::limits::peer::Peer;
use crate::policy::Grant;
use crate::streams::{Subscriber, Subscription};
use crate::transcode::request::bind;
use crate::upstream::{self, Envelope, authorization};

/// Who asks for a stream, and by what.
pub struct StreamRequest<'a> {
    /// From where.
    pub peer: &'a Peer,
    /// What the path names.
    pub path: &'a PathVariables,
    /// Who.
    pub session: &'a Arc<Session>,
    /// What policies allow.
    pub grant: &'a Grant,
}

/// Opens the stream of a request that policies have been asked about.
///
/// # Errors
/// `RATE_LIMITED`, `OVERLOADED`; what the service answers.
pub async fn open(
    outgoing: &Outgoing<'_>,
    asked: &StreamRequest<'_>,
    message: &DynamicMessage,
) -> Result<Subscription, ApiError> {
    let (app, route) = (outgoing.app, outgoing.route);
    let (session, grant) = (asked.session, asked.grant);
    let request_id = &outgoing.envelope.request_id;
    let place = app.admission.stream(asked.peer, &session.principal.name)?;
    let messages = match outgoing.open(message).await {
        Ok(messages) => messages,
        Err(error) => {
            let requested = (route, asked.path, &**session, grant);
            return Err(own_or_absent(app, requested, request_id, error).await);
        }
    };
    let subscriber = Subscriber {
        changes: app.sessions.changes(),
        session: session.clone(),
        grant: grant.for_request(message),
        route: route.clone(),
        policies: app.policies.clone(),
    };
    let opened = (place, messages, subscriber);
    Ok(Subscription::begin(
        &app.streams,
        app.pool.clone(),
        opened,
        request_id,
    ))
}

/// What a service does not find for the projects in which the action is allowed may be in another one of the caller's: then
/// the caller is told what it lacks there. What is in nobody's project, or in a foreign one, stays not found.
pub(super) async fn own_or_absent(
    app: &App,
    (route, path, session, grant): (&Route, &PathVariables, &Session, &Grant),
    request_id: &str,
    error: ApiError,
) -> ApiError {
    let reader = (error.http_status() == StatusCode::NOT_FOUND && grant.is_partial())
        .then(|| app.routes.reader_of(route))
        .flatten();
    let (Some(reader), Some(refusal)) = (reader, grant.refusal()) else {
        return error;
    };
    let known: PathVariables = path
        .iter()
        .filter(|(field, _)| reader.template.variables().any(|name| name == field))
        .cloned()
        .collect();
    let Ok(message) = bind(reader, &known, None, &[]) else {
        return error;
    };
    let now = jiff::Timestamp::now().as_second();
    for projects in session.principal.projects().chunks(MAX_PROJECTS) {
        let bearer = session.bearer(reader, projects);
        let Ok(token) = app.minter.mint_for(reader.service, &bearer, now) else {
            return error;
        };
        let Ok(token) = authorization(&token) else {
            return error;
        };
        let envelope = Envelope {
            request_id: request_id.to_owned(),
            idempotency_key: None,
            origin: None,
            timeout: app.request_timeout,
        };
        // only whether it is there: nothing of the answer goes on
        let found = upstream::call(&app.peers, reader, &message, &envelope, token).await;
        if found.is_ok() {
            let attempt = Attempt::of(route, path, request_id);
            record_refusal(app, session, attempt).await;
            return refusal.into_error();
        }
    }
    error
}
