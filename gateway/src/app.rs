//! What every request needs, and the id it goes by.
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gpuaas_common::client::Peers;
use gpuaas_common::identity::TokenMinter;
use http::HeaderValue;
use sqlx::PgPool;

use crate::auth::provider::Provider;
use crate::auth::sessions::Sessions;
use crate::auth::short_tokens::ShortTokens;
use crate::auth::verify::Verifier;
use crate::contract::route::RouteTable;
use crate::instance_identity::keys::Keys;
use crate::limits::admission::Admission;
use crate::limits::rates::Rates;
use crate::limits::terminals::Terminals;
use crate::metrics::Metrics;
use crate::page_origin::PageOrigin;
use crate::policy::Policies;
use crate::readiness::Readiness;
use crate::streams::Streams;
use crate::webhooks::Webhooks;

/// Everything a request needs.
pub struct App {
    /// What is served.
    pub routes: RouteTable,
    /// Checks tokens.
    pub verifier: Verifier,
    /// Callers of the last seconds.
    pub sessions: Sessions,
    /// Who may do what.
    pub policies: Arc<Policies>,
    /// Makes and checks short tokens for API keys.
    pub short_tokens: ShortTokens,
    /// The number of this cell.
    pub cell: u16,
    /// Of the addresses by which clients reach it.
    pub scheme: &'static str,
    /// What browsers are told about https; none where it is not spoken.
    pub hsts: Option<HeaderValue>,
    /// Makes internal tokens.
    pub minter: TokenMinter,
    /// Schema `edge`.
    pub pool: PgPool,
    /// Whether that answers, for load balancers.
    pub readiness: Readiness,
    /// The services.
    pub peers: Peers,
    /// Instruments.
    pub metrics: Metrics,
    /// Which requests and streams are taken.
    pub admission: Admission,
    /// How much a caller may ask for.
    pub rates: Rates,
    /// Longest time of a body on its way.
    pub body_timeout: Duration,
    /// Longest time a service may take.
    pub request_timeout: Duration,
    /// Open streams.
    pub streams: Streams,
    /// WebSockets of terminals.
    pub terminals: Terminals,
    /// Webhooks.
    pub webhooks: Arc<Webhooks>,
    /// Projects that an organisation may have; 0 is no limit.
    pub max_projects: usize,
    /// Pages that may call the API from a browser.
    pub cors_origins: Vec<PageOrigin>,
    /// Region of this gateway, for audit records.
    pub region: String,
    /// `/api/openapi.json`.
    pub openapi: Bytes,
    /// `/api/asyncapi.json`.
    pub asyncapi: Bytes,
    /// Keys that verify identity tokens of VMs.
    pub instance_identity: Keys,
    /// `/.well-known/jwks.json`, when the embedded issuer is on.
    pub key_set: Option<Bytes>,
    /// The embedded issuer, when it is on.
    pub provider: Option<Provider>,
    /// `/.well-known/gpuaas-configuration`.
    pub configuration: Bytes,
    /// Content policy of the console.
    pub console_policy: HeaderValue,
}

/// The request's id, for everything inside the router.
#[derive(Clone, Debug)]
pub(crate) struct Id(pub(crate) String);
