//! What anyone needs to verify identity tokens of VMs: the document of their issuer (OpenID Connect Discovery 1.0) and its
//! keys (RFC 7517). Inventory signs the tokens and says both.
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_client::HostServiceClient;
use gpuaas_proto::gpuaas::internal::inventory::v1::{
    GetInstanceIdentityKeysRequest, GetInstanceIdentityKeysResponse,
};
use serde_json::json;
use tokio::sync::Mutex;
use tonic::{Request, Status};

use crate::app::{App, Id};
use crate::error::ApiError;
use crate::router::document;

/// How long inventory's answer counts, and a failure: nobody has to prove who he is, and each must not cost a call.
const FRESH: Duration = Duration::from_secs(30);
const FAILED: Duration = Duration::from_secs(2);
/// Longest wait for inventory.
const ANSWER: Duration = Duration::from_secs(5);

type Answer = Result<GetInstanceIdentityKeysResponse, Status>;

/// Inventory's latest answer.
#[derive(Default)]
pub struct Keys(Mutex<Option<(Instant, Answer)>>);

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
    match keys(app).await {
        Ok(keys) => document(text(&keys)).into_response(),
        Err(status) => ApiError::from_status(&status).into_response(&id.0),
    }
}

async fn keys(app: &App) -> Answer {
    let mut known = app.instance_identity.0.lock().await;
    if let Some((since, answer)) = known.as_ref()
        && since.elapsed() < if answer.is_ok() { FRESH } else { FAILED }
    {
        return answer.clone();
    }
    let answer = ask(app).await;
    *known = Some((Instant::now(), answer.clone()));
    answer
}

async fn ask(app: &App) -> Answer {
    let channel = app.peers.channel("inventory")?;
    let mut request = Request::new(GetInstanceIdentityKeysRequest {});
    request.set_timeout(ANSWER);
    let answer = HostServiceClient::new(channel)
        .get_instance_identity_keys(request)
        .await?;
    Ok(answer.into_inner())
}
