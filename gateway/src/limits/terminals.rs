//! Who may open terminals and how many: origins, places, and the times between checks.
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gpuaas_proto::gpuaas::errors::v1::ErrorReason;
use http::{HeaderMap, header};
use serde::Deserialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Code;

use super::shares::{Share, Shares};
use crate::error::ApiError;

/// Section `[gateway.terminal]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TerminalSettings {
    /// Origins of pages that may open terminals, exactly as browsers send them, for example
    /// `["https://console.example.com"]`. Empty: the addresses the gateway listens on, where it serves the console.
    pub origins: Vec<String>,
    /// WebSockets that may be open at once; more are answered with 503.
    pub max_connections: usize,
    /// WebSockets of one peer address that may be open at once; more are answered with 429. 0 is no limit.
    pub max_connections_per_peer: usize,
    /// WebSockets of one principal that may use terminals at once; one more is closed as soon as it says whose it is. 0 is no
    /// limit.
    pub max_connections_per_principal: usize,
    /// Seconds between two pings; a client that answers none of three, or takes nothing for as long, is let go.
    pub ping_seconds: u64,
    /// Seconds between two checks that the user may still use the project.
    pub access_seconds: f64,
}

impl Default for TerminalSettings {
    fn default() -> Self {
        Self {
            origins: Vec::new(),
            max_connections: 4096,
            max_connections_per_peer: 256,
            max_connections_per_principal: 64,
            ping_seconds: 15,
            access_seconds: 2.0,
        }
    }
}

/// What the WebSockets of this process share.
pub struct Terminals {
    origins: BTreeSet<String>,
    places: Arc<Semaphore>,
    by_principal: Shares<String>,
    ping: Duration,
    access: Duration,
}

impl Terminals {
    /// From the settings; `listen` is where the gateway serves the console, by `scheme`.
    pub fn new(settings: &TerminalSettings, listen: &[SocketAddr], scheme: &str) -> Self {
        let own = listen.iter().flat_map(|address| {
            [
                format!("{scheme}://{address}"),
                format!("{scheme}://localhost:{}", address.port()),
            ]
        });
        let origins = if settings.origins.is_empty() {
            own.collect()
        } else {
            settings.origins.iter().cloned().collect()
        };
        Self {
            origins,
            places: Arc::new(Semaphore::new(settings.max_connections)),
            by_principal: Shares::new(settings.max_connections_per_principal),
            ping: Duration::from_secs(settings.ping_seconds.max(1)),
            access: Duration::from_secs_f64(settings.access_seconds.max(0.05)),
        }
    }

    /// The origin of a request: on the list, or none at all, since browsers always send one.
    pub(crate) fn origin(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        let mut given = headers.get_all(header::ORIGIN).iter();
        let Some(origin) = given.next() else {
            return Ok(String::new());
        };
        let listed = origin
            .to_str()
            .ok()
            .filter(|origin| self.origins.contains(*origin));
        match (listed, given.next()) {
            (Some(origin), None) => Ok(origin.to_owned()),
            _ => Err(ApiError::new(
                Code::PermissionDenied,
                ErrorReason::PermissionDenied,
                "Pages of this origin may not open terminals.",
            )),
        }
    }

    /// Time between two pings.
    pub(crate) fn ping(&self) -> Duration {
        self.ping
    }

    /// Time between two checks of access.
    pub(crate) fn access(&self) -> Duration {
        self.access
    }

    /// One more connection of a principal; none when it has all of its share.
    pub(crate) fn share(&self, principal: &str) -> Option<Share<String>> {
        self.by_principal.take(&principal.to_owned())
    }

    /// A place for one more connection, while there is one.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        self.places.clone().try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn with(origins: &[&'static str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for origin in origins {
            headers.append(header::ORIGIN, HeaderValue::from_static(origin));
        }
        headers
    }

    #[test]
    fn f_09_only_listed_origins_open_terminals() {
        let listen = ["127.0.0.1:7080".parse().expect("address")];
        let own = Terminals::new(&TerminalSettings::default(), &listen, "http");
        let listed = TerminalSettings {
            origins: vec!["https://console.example.com".to_owned()],
            ..TerminalSettings::default()
        };
        let listed = Terminals::new(&listed, &listen, "http");
        let cases: [(&[&'static str], bool, bool); 12] = [
            (&[], true, true),
            (&["http://127.0.0.1:7080"], true, false),
            (&["http://localhost:7080"], true, false),
            (&["https://console.example.com"], false, true),
            (&["https://console.example.com/"], false, false),
            (&["HTTPS://console.example.com"], false, false),
            (&["https://console.example.com.evil.example"], false, false),
            (&["https://console.example.com:443"], false, false),
            (&["http://console.example.com"], false, false),
            (&["null"], false, false),
            (&[""], false, false),
            (
                &["https://console.example.com", "http://127.0.0.1:7080"],
                false,
                false,
            ),
        ];
        for (origins, by_own, by_list) in cases {
            assert_eq!(own.origin(&with(origins)).is_ok(), by_own, "{origins:?}");
            assert_eq!(
                listed.origin(&with(origins)).is_ok(),
                by_list,
                "{origins:?}"
            );
        }
    }
}
