//! The HTTP client of this program.
use std::time::Duration;

use crate::failure::Failure;

/// Longest time of one request.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A client.
///
/// # Errors
/// TLS cannot be set up on this machine.
pub fn client() -> Result<reqwest::Client, Failure> {
    built(settings())
}

/// A client for an upgrade to WebSockets, which only HTTP/1.1 has.
///
/// # Errors
/// Those of [`client`].
pub fn upgrading_client() -> Result<reqwest::Client, Failure> {
    built(settings().http1_only())
}

fn settings() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .timeout(TIMEOUT)
        .connect_timeout(Duration::from_secs(5))
        .redirect(reqwest::redirect::Policy::none())
        .user_agent(concat!("gpuaas/", env!("CARGO_PKG_VERSION")))
}

fn built(settings: reqwest::ClientBuilder) -> Result<reqwest::Client, Failure> {
    let client = settings.build();
    client.map_err(|error| Failure::Local(format!("cannot set up HTTPS: {error}")))
}

/// The innermost cause is the one that helps a person ("Connection refused").
pub fn root_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
