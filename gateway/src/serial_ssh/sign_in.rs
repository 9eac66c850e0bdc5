//! From a login name and a key that has signed to the serial log: who that may be, and whether that one may read it.
use std::sync::Arc;

use gpuaas_common::id;
use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{Method, StatusCode};
use russh::keys::{HashAlg, PublicKey};

use crate::app::App;
use crate::auth::sessions::Session;
use crate::auth::verify::{Identity, NEVER};
use crate::contract::route::{Lookup, Route};
use crate::contract::template::PathVariables;
use crate::error::{ApiError, reason_name};
use crate::http::authorize::{Attempt, permit, refuse, refuse_unregistered};
use crate::http::reach::{Outgoing, reach};
use crate::http::subscribe::{self, StreamRequest};
use crate::limits::peer::Peer;
use crate::limits::rates::class_of;
use crate::limits::tenant::Tenant;
use crate::store;
use crate::streams::Subscription;
use crate::transcode::request::bind;
use crate::upstream::Envelope;

/// What a reader sees first is the end of what was printed before, in lines.
const QUERY: &str = "follow=true&tail_lines=1000";
/// People with the same key who are asked, those first who registered it first.
const MAX_PEOPLE: i64 = 16;

/// A client that tries to sign in.
pub struct Client<'a> {
    /// What every request needs.
    pub app: &'a App,
    /// From where.
    pub peer: &'a Peer,
    /// Names the try in records.
    pub request_id: &'a str,
}

/// Why there is no log for one of the people with a key.
enum Refusal {
    /// The one refusal that everybody gets.
    Refused,
    /// What the owner of the key is told.
    Told(ApiError),
}

impl From<ApiError> for Refusal {
    fn from(error: ApiError) -> Self {
        match error.http_status() {
            // foreign or absent
            StatusCode::NOT_FOUND => Self::Refused,
            _ => Self::Told(error),
        }
    }
}

impl Client<'_> {
    /// The log of the allocation that `name` names for who owns the key, or what that one is told; nothing for everybody else.
    /// The key must have signed.
    pub async fn sign_in(
        &self,
        name: &str,
        key: &PublicKey,
    ) -> Option<Result<Subscription, ApiError>> {
        let allocation = id::parse("allocation_id", name).ok()?;
        let fingerprint = key.fingerprint(HashAlg::Sha256).to_string();
        let path = format!("/api/v1/allocations/{allocation}/serial-log");
        let Lookup::Found(route, path) = self.app.routes.lookup(&Method::GET, &path) else {
            tracing::error!("the contract has no serial log");
            return None;
        };
        let people = store::people_with_ssh_key(&self.app.pool, &fingerprint, MAX_PEOPLE).await;
        let people = people
            .inspect_err(|error| tracing::error!("find owners of an SSH key: {error}"))
            .ok()?;
        let mut told = None;
        for (issuer, subject) in people {
            let identity = Identity {
                issuer,
                subject,
                expires: NEVER,
                ssh_key: Some(fingerprint.clone()),
                ..Identity::default()
            };
            match self.open(identity, route, &path).await {
                Ok(log) => return Some(Ok(log)),
                Err(Refusal::Refused) => {}
                Err(Refusal::Told(error)) => {
                    told.get_or_insert(error);
                }
            }
        }
        told.map(Err)
    }

    /// The same steps as a request over HTTP takes.
    async fn open(
        &self,
        identity: Identity,
        route: &Route,
        path: &PathVariables,
    ) -> Result<Subscription, Refusal> {
        let (app, request_id) = (self.app, self.request_id);
        let attempt = Attempt::of(route, path, request_id);
        let _of_peer = app.admission.arrive(self.peer)?;
        let found = store::find_principal(&app.pool, &identity).await;
        let found = found.map_err(|error| {
            tracing::error!("find caller: {error}");
            ApiError::unavailable()
        })?;
        let Some(principal) = found else {
            // a disabled one has proven who it is, and is told nothing
            refuse_unregistered(app, &identity, attempt).await;
            return Err(Refusal::Refused);
        };
        let session = Arc::new(Session::new(identity, principal));
        let grant = permit(app, &session, route, attempt).await?;
        let _place = app.admission.run(&session.principal.name)?;
        let message = bind(route, path, Some(QUERY), &[])?;
        if let Err(refusal) = grant.check(&message) {
            return Err(refuse(app, &session, attempt, refusal).await.into());
        }
        let project = grant.counted_project(route, &message);
        let tenant = Tenant::of(&session.principal, project, &message);
        let cost = class_of(route, &message);
        app.rates
            .count(cost, &session.principal.name, tenant)
            .await?;
        let outgoing = Outgoing {
            app,
            route,
            session: &session,
            reach: reach(route, &grant, &message),
            envelope: Envelope {
                request_id: request_id.to_owned(),
                idempotency_key: None,
                origin: None,
                timeout: app.request_timeout,
            },
        };
        let asked = StreamRequest {
            peer: self.peer,
            path,
            session: &session,
            grant: &grant,
        };
        Ok(subscribe::open(&outgoing, &asked, &message).await?)
    }
}

/// An error as a reader gets it, who repeats nothing with a key.
pub fn told(error: &ApiError) -> &str {
    let is = |reason| error.reason() == reason_name(reason);
    if is(ErrorReason::DependencyUnavailable) || is(ErrorReason::DeadlineExceeded) {
        return "A part of the platform does not answer right now. Connect again in a moment.";
    }
    error.message()
}
