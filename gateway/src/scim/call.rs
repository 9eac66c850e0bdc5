//! One request that may be made: its change, its audit row, its version and its answer.
use axum::body::Body;
use axum::response::Response;
use gpuaas_common::audit;
use gpuaas_common::id::IdGen;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::{Map, Value};
use sqlx::{PgConnection, Postgres, Transaction};
use uuid::Uuid;

use super::error::{CONTENT_TYPE, Result, ScimError};
use crate::app::App;
use crate::auth::sessions::Session;
use crate::identity::events::memberships;
use crate::store::{self, MembershipChange, ScimSettings, TenantState};

/// One request of a provider that may make it.
pub(super) struct Scim<'a> {
    pub(super) app: &'a App,
    pub(super) session: &'a Session,
    pub(super) request_id: &'a str,
    pub(super) headers: &'a HeaderMap,
    /// Whose people and groups.
    pub(super) organisation: Uuid,
    /// How they sign in.
    pub(super) settings: ScimSettings,
    /// The address of SCIM as the client knows it.
    pub(super) base: &'a str,
}

/// The detail of a change with the digests of the resource before and after it, as a client would send it.
pub(super) fn with_digests(
    detail: Value,
    before: Option<Map<String, Value>>,
    after: Option<Map<String, Value>>,
) -> Value {
    audit::with_digests_of_json(detail, before.map(Value::Object), after.map(Value::Object))
}

impl Scim<'_> {
    /// Of what is created.
    pub(super) fn new_id(&self) -> Uuid {
        IdGen::new(self.app.cell).next()
    }

    /// Begins a change. Changes of one organisation are one after the other.
    pub(super) async fn begin(&self) -> Result<Transaction<'static, Postgres>> {
        let mut tx = self.app.pool.begin().await?;
        store::lock_organisation(&mut tx, self.organisation).await?;
        store::hold_projects_of(&mut tx, self.organisation).await?;
        let me = self.session.principal.id;
        let row = store::find_organisation(&mut tx, self.organisation, me).await?;
        match row {
            Some(row) if row.state != TenantState::Closed => Ok(tx),
            _ => Err(ScimError::forbidden(
                "The organisation is closed, for good.",
            )),
        }
    }

    /// Queues what a change made of memberships for webhooks, before the audit row.
    pub(super) async fn emit(
        &self,
        conn: &mut PgConnection,
        changes: &[MembershipChange],
    ) -> Result<()> {
        let ids = IdGen::new(self.app.cell);
        memberships(conn, &ids, self.organisation, changes).await?;
        Ok(())
    }

    /// The audit row of a change.
    pub(super) async fn record(
        &self,
        conn: &mut PgConnection,
        (action, resource): (&str, &str),
        id: Uuid,
        mut detail: Value,
    ) -> Result<()> {
        detail["organisation_id"] = self.organisation.to_string().into();
        let entry = audit::Entry {
            principal: &self.session.principal.name,
            action,
            resource,
            resource_id: &id.to_string(),
            request_id: self.request_id,
            detail,
        };
        Ok(audit::record(conn, entry).await?)
    }

    /// Refuses a change of another version than the one that the client has seen.
    pub(super) fn check_version(&self, version: i64) -> Result<()> {
        let Some(given) = self.headers.get(header::IF_MATCH) else {
            return Ok(());
        };
        if names_version(given, version) {
            return Ok(());
        }
        Err(ScimError::new(
            StatusCode::PRECONDITION_FAILED,
            "The resource has changed since: read it again.",
        ))
    }

    /// A resource as the answer.
    pub(super) fn answer(
        &self,
        status: StatusCode,
        version: i64,
        resource: Map<String, Value>,
    ) -> Response {
        let unchanged = self.headers.get(header::IF_NONE_MATCH);
        if status == StatusCode::OK && unchanged.is_some_and(|given| names_version(given, version))
        {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::NOT_MODIFIED;
            return response;
        }
        let location = resource
            .get("meta")
            .and_then(|meta| meta["location"].as_str());
        let location = location.and_then(|text| HeaderValue::from_str(text).ok());
        let mut response = json(status, &Value::Object(resource));
        if let Ok(etag) = HeaderValue::from_str(&etag(version)) {
            response.headers_mut().insert(header::ETAG, etag);
        }
        if let Some(location) = location {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

/// The version of a resource, for clients.
pub(super) fn etag(version: i64) -> String {
    format!("W/\"{version}\"")
}

fn names_version(given: &HeaderValue, version: i64) -> bool {
    let Ok(given) = given.to_str() else {
        return false;
    };
    let mut tags = given.split(',').map(str::trim);
    tags.any(|tag| tag == "*" || tag.trim_start_matches("W/") == format!("\"{version}\""))
}

/// An answer with a body.
pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, CONTENT_TYPE);
    response
}

/// An answer without one.
pub(super) fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
