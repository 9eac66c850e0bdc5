//! `/metrics` and `/healthz` on a plain listener of their own.
use std::net::SocketAddr;

use anyhow::Context as _;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use prometheus::{Registry, TextEncoder};
use tokio_util::sync::CancellationToken;

/// Serves metrics until `shutdown`.
///
/// # Errors
/// The address cannot be bound.
pub async fn serve(
    address: SocketAddr,
    registry: Registry,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let app = Router::new()
        .route("/metrics", get(render))
        .route("/healthz", get(|| async { "ok\n" }))
        .with_state(registry);
    let listener = tokio::net::TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))?;
    axum::serve(listener, app)
        .with_graceful_shutdown(shutdown.cancelled_owned())
        .await
        .context("metrics server")
}

async fn render(State(registry): State<Registry>) -> Result<String, StatusCode> {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
}
