//! What this server says of itself (RFC 7644, 4).
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::error::{Result, ScimError};
use super::query::MAX_PAGE;
use super::schema::{self, GROUP, GROUP_ATTRIBUTES, USER, USER_ATTRIBUTES};

/// What of the standard is served.
pub fn config(base: &str) -> Value {
    json!({
        "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"],
        "patch": { "supported": true },
        "bulk": { "supported": false, "maxOperations": 0, "maxPayloadSize": 0 },
        "filter": { "supported": true, "maxResults": MAX_PAGE },
        "changePassword": { "supported": false },
        "sort": { "supported": true },
        "etag": { "supported": true },
        "authenticationSchemes": [{
            "type": "oauthbearertoken",
            "name": "API key",
            "description": "An API key with the scope scim, as Authorization: Bearer.",
            "specUri": "https://www.rfc-editor.org/info/rfc6750",
            "primary": true,
        }],
        "meta": { "resourceType": "ServiceProviderConfig", "location": format!("{base}/ServiceProviderConfig") },
    })
}

/// All kinds of resources, or one.
///
/// # Errors
/// There is no such kind; a filter.
pub fn resource_types(base: &str, id: Option<&str>, query: &str) -> Result<Response> {
    let of = |id: &str, endpoint: &str, schema: &str| {
        json!({
            "schemas": ["urn:ietf:params:scim:schemas:core:2.0:ResourceType"],
            "id": id,
            "name": id,
            "endpoint": endpoint,
            "description": format!("{id}s of the organisation"),
            "schema": schema,
            "meta": { "resourceType": "ResourceType", "location": format!("{base}/ResourceTypes/{id}") },
        })
    };
    let all = vec![of("User", "/Users", USER), of("Group", "/Groups", GROUP)];
    answer(all, id, query, "resource type")
}

/// All schemas, or one.
///
/// # Errors
/// There is no such schema; a filter.
pub fn schemas(base: &str, id: Option<&str>, query: &str) -> Result<Response> {
    let all = vec![
        schema::document(USER, "User", &USER_ATTRIBUTES, base),
        schema::document(GROUP, "Group", &GROUP_ATTRIBUTES, base),
    ];
    answer(all, id, query, "schema")
}

fn answer(all: Vec<Value>, id: Option<&str>, query: &str, what: &str) -> Result<Response> {
    let mut parameters = url::form_urlencoded::parse(query.as_bytes());
    if parameters.any(|(name, _)| name.eq_ignore_ascii_case("filter")) {
        // RFC 7644, 4
        return Err(ScimError::forbidden(
            "What the server says of itself is not filtered.",
        ));
    }
    if let Some(id) = id {
        let found = all.into_iter().find(|one| one["id"] == id);
        let found = found.ok_or_else(|| ScimError::not_found(what))?;
        return Ok(super::call::json(StatusCode::OK, &found));
    }
    let list = json!({
        "schemas": ["urn:ietf:params:scim:api:messages:2.0:ListResponse"],
        "totalResults": all.len(),
        "startIndex": 1,
        "itemsPerPage": all.len(),
        "Resources": all,
    });
    Ok(super::call::json(StatusCode::OK, &list))
}
