//! What anyone needs to verify identity tokens of VMs: the document of their issuer (OpenID Connect Discovery 1.0) and its
//! keys (RFC 7517). Inventory signs the tokens and says both.
pub mod keys;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use gpuaas_proto::gpuaas::internal::inventory::v1::GetInstanceIdentityKeysResponse;
use serde_json::json;

use crate::app::{App, Id};
use crate::error::ApiError;
use crate::http::document::document;

/// The two documents.
pub fn router() -> Router<Arc<App>> {
    Router::new()
        .route(
            "/instance-identity/.well-known/openid-configuration",
            get(configuration),
        )
        .route("/instance-identity/jwks.json", get(key_set))
}

async fn configuration(State(app): State<Arc<App>>, id: axum::Extension<Id>) -> Response {
    answer(&app, &id.0, |keys| {
        json!({
            "issuer": keys.issuer,
            "jwks_uri": format!("{}/jwks.json", keys.issuer),
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["ES256"],
            "claims_supported": [
                "iss", "sub", "aud", "iat", "nbf", "exp", "jti", "allocation_id", "project_id", "region"
            ],
        })
        .to_string()
    })
    .await
}

async fn key_set(State(app): State<Arc<App>>, id: axum::Extension<Id>) -> Response {
    answer(&app, &id.0, |keys| keys.key_set_json.clone()).await
}

async fn answer(
    app: &App,
    id: &Id,
    text: impl FnOnce(&GetInstanceIdentityKeysResponse) -> String,
) -> Response {
    match app.instance_identity.get(&app.peers).await {
        Ok(keys) => document(text(&keys)).into_response(),
        Err(status) => ApiError::from_status(&status).into_response(&id.0),
    }
}
