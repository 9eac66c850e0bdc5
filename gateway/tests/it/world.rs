//! One gateway with its database, authority, embedded issuer, and a service behind it.
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_common::config::{
    DatabaseSettings, ServerSettings, Settings, TlsSettings, TokenSettings,
};
use gpuaas_common::id::IdGen;
use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::{Authority, Identity};
use gpuaas_dev::ports;
use gpuaas_dev::postgres::TestDb;
use gpuaas_dev::until::until;
use gpuaas_gateway::Config;
use gpuaas_gateway::auth::dev_issuer::{DevIssuer, DevIssuerSettings};
use gpuaas_gateway::store::{NewPrincipal, Seeded, seed};
use gpuaas_proto::gpuaas::allocation::v1::allocation_service_server::AllocationServiceServer;
use gpuaas_proto::gpuaas::internal::billing::v1::usage_event_service_server::UsageEventServiceServer;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventServiceServer;
use gpuaas_proto::gpuaas::internal::scheduler::v1::suspension_service_server::SuspensionServiceServer;
use gpuaas_proto::gpuaas::internal::terminal::v1::terminal_relay_service_server::TerminalRelayServiceServer;
use gpuaas_proto::gpuaas::inventory::v1::region_service_server::RegionServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::capacity_reservation_service_server::CapacityReservationServiceServer;
use gpuaas_proto::gpuaas::scheduler::v1::sku_service_server::SkuServiceServer;
use gpuaas_proto::gpuaas::terminal::v1::terminal_session_service_server::TerminalSessionServiceServer;
use jiff::Timestamp;
use reqwest::{Method, Response};
use serde_json::Value;
use sqlx::PgPool;
use tempfile::TempDir;
use tokio::task::JoinSet;

use crate::catalogue::Catalogue;
use crate::reservations::Reservations;
use crate::stand_in::StandIn;
use crate::tenancy::suspensions::Suspensions;
use crate::terminals::{Relay, Tickets};
use crate::upstream::{Allocations, Log, Record};
use crate::webhooks::usage::UsageLog;

pub const CELL: u16 = 1;
pub const ISSUER: &str = "https://dev.test";
pub const AUDIENCE: &str = "gpuaas";

pub struct World {
    pub db: TestDb,
    pub folder: TempDir,
    pub dev: DevIssuer,
    pub seeded: Seeded,
    pub record: Record,
    /// What the ledger has heard of suspended projects.
    pub suspensions: Suspensions,
    /// The regions and SKUs that there are.
    pub catalogue: Catalogue,
    pub http: reqwest::Client,
    pub base: String,
    pub metrics: String,
    pub shutdown: CancellationToken,
    pub running: JoinSet<anyhow::Result<()>>,
    pub service: Service,
    /// The ledger's log, as the service behind the gateway has it.
    pub log: Log,
    /// Billing's log of usage.
    pub usage_log: UsageLog,
    gateway: (Settings, Config),
}

/// The service behind the gateway, in a runtime of its own: it can end as a killed process does.
pub struct Service(Option<tokio::runtime::Runtime>);

impl Service {
    pub fn run(server: impl Future<Output = anyhow::Result<()>> + Send + 'static) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("runtime");
        runtime.spawn(server);
        Self(Some(runtime))
    }

    /// Ends it at once: its connections break.
    pub fn kill(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.kill();
    }
}

impl World {
    pub async fn start() -> Self {
        Self::start_with(|_, _| {}).await
    }

    /// `change` may add settings; it is given the test's folder for files.
    pub async fn start_with(change: impl FnOnce(&mut Config, &Path)) -> Self {
        Self::start_on(4, change).await
    }

    /// The same with so many connections to the database.
    pub async fn start_on(connections: u32, change: impl FnOnce(&mut Config, &Path)) -> Self {
        Self::build(connections, &[], change).await
    }

    /// The same with a stand-in for each of these services, which says how it was called.
    pub async fn build(
        connections: u32,
        stand_ins: &[&'static str],
        change: impl FnOnce(&mut Config, &Path),
    ) -> Self {
        Self::build_on(connections, stand_ins, None, change).await
    }

    /// The same with a Redis.
    pub async fn build_on(
        connections: u32,
        stand_ins: &[&'static str],
        redis: Option<String>,
        change: impl FnOnce(&mut Config, &Path),
    ) -> Self {
        let db = TestDb::create().await;
        let folder = tempfile::tempdir().expect("temp dir");
        let ca = Authority::open(&folder.path().join("ca"), CELL).expect("authority");
        let keys = ca.signing_key("internal-token").expect("key");
        let dev_settings = dev_settings(folder.path());
        let dev = DevIssuer::open_or_create(dev_settings.clone()).expect("embedded issuer");
        let principals = [
            NewPrincipal {
                name: "user:admin",
                subject: "admin",
                admin: true,
            },
            NewPrincipal {
                name: "user:demo",
                subject: "demo",
                admin: false,
            },
        ];
        let seeded = seed(
            &db.pool("gpuaas_edge").await,
            &IdGen::new(CELL),
            ISSUER,
            "lab",
            "demo",
            &principals,
        )
        .await
        .expect("seeded");

        let service_port = ports::free().expect("port");
        let shutdown = CancellationToken::new();
        let mut running = JoinSet::new();
        let record = Record::default();
        let context = behind("allocation", &ca, service_port, &keys.public);
        let log = Log::default();
        let server = Server::new(&context)
            .add(AllocationServiceServer::new(Allocations(record.clone())))
            .add(EventServiceServer::new(log.clone()));
        let service = Service::run(server.run(shutdown.clone()));
        let scheduler_port = ports::free().expect("port");
        let context = behind("scheduler", &ca, scheduler_port, &keys.public);
        let reservations = CapacityReservationServiceServer::new(Reservations(record.clone()));
        let suspensions = Suspensions::default();
        let catalogue = Catalogue::default();
        running.spawn(
            Server::new(&context)
                .add(reservations)
                .add(SuspensionServiceServer::new(suspensions.clone()))
                .add(SkuServiceServer::new(catalogue.clone()))
                .run(shutdown.clone()),
        );
        let inventory_port = ports::free().expect("port");
        let context = behind("inventory", &ca, inventory_port, &keys.public);
        let regions = RegionServiceServer::new(catalogue.clone());
        let regions = Server::new(&context).add(regions);
        running.spawn(regions.run(shutdown.clone()));
        let relay_port = ports::free().expect("port");
        let context = behind("terminal-gateway", &ca, relay_port, &keys.public);
        let relay = Server::new(&context)
            .add(TerminalRelayServiceServer::new(Relay))
            .add(TerminalSessionServiceServer::new(Tickets));
        running.spawn(relay.run(shutdown.clone()));

        // a service with a database shows its audit records
        let billing_port = ports::free().expect("port");
        let identity = ca.service("billing", &[]).expect("identity");
        let mut billing = settings(&identity, &ca, billing_port);
        billing.database = Some(DatabaseSettings {
            user: "gpuaas_billing".to_owned(),
            ..database(&db)
        });
        let context = Context::new("billing", billing).expect("context");
        let usage_log = UsageLog::default();
        let billing = Server::new(&context).add(UsageEventServiceServer::new(usage_log.clone()));
        running.spawn(billing.run(shutdown.clone()));

        let port = ports::free().expect("port");
        let mut gateway = settings(&ca.service("gateway", &[]).expect("identity"), &ca, port);
        let metrics = format!("http://{}", gateway.server.metrics_listen);
        gateway.database = Some(DatabaseSettings {
            max_connections: connections,
            ..database(&db)
        });
        gateway.redis.url = redis;
        gateway.peers = [
            ("allocation", service_port),
            ("inventory", inventory_port),
            ("scheduler", scheduler_port),
            ("terminal-gateway", relay_port),
            ("billing", billing_port),
        ]
        .map(|(name, port)| (name.to_owned(), format!("https://127.0.0.1:{port}")))
        .into();
        for name in stand_ins {
            let port = ports::free().expect("port");
            let context = behind(name, &ca, port, &keys.public);
            let server = Server::new(&context).add(StandIn);
            running.spawn(server.run(shutdown.clone()));
            let address = format!("https://127.0.0.1:{port}");
            gateway.peers.insert((*name).to_owned(), address);
        }
        let mut config = Config {
            internal_key_file: keys.private,
            dev_issuer: Some(dev_settings),
            request_timeout_seconds: 5,
            ..Config::default()
        };
        change(&mut config, folder.path());
        let scheme = if config.tls.is_some() {
            "https"
        } else {
            "http"
        };
        let http = reqwest::Client::builder().tls_danger_accept_invalid_certs(true);
        let own = (gateway.clone(), config.clone());
        let context = Context::new("gateway", gateway).expect("context");
        running.spawn(gpuaas_gateway::run(context, config, shutdown.clone()));

        let world = Self {
            db,
            folder,
            dev,
            seeded,
            record,
            suspensions,
            catalogue,
            http: http.build().expect("client"),
            base: format!("{scheme}://127.0.0.1:{port}"),
            metrics,
            shutdown,
            running,
            service,
            log,
            usage_log,
            gateway: own,
        };
        world.until_ready().await;
        world
    }

    /// One more gateway on the same database, in a runtime of its own, and where it answers.
    pub fn another_gateway(&self) -> (Service, String) {
        self.another_gateway_with(|_| {})
    }

    /// The same, for which a service is away.
    pub fn another_gateway_without(&self, service: &str) -> (Service, String) {
        let closed = format!("https://127.0.0.1:{}", ports::free().expect("port"));
        self.another_gateway_with(|settings| {
            settings.peers.insert(service.to_owned(), closed);
        })
    }

    /// The same with other settings.
    pub fn another_gateway_with(&self, change: impl FnOnce(&mut Settings)) -> (Service, String) {
        let (mut settings, config) = self.gateway.clone();
        change(&mut settings);
        let port = ports::free().expect("port");
        settings.server.listen = vec![([127, 0, 0, 1], port).into()];
        settings.server.metrics_listen = ([127, 0, 0, 1], ports::free().expect("port")).into();
        let context = Context::new("gateway", settings).expect("context");
        let served = gpuaas_gateway::run(context, config, self.shutdown.clone());
        (Service::run(served), format!("http://127.0.0.1:{port}"))
    }

    /// Until another gateway answers there.
    pub async fn until_answers(&self, base: &str) {
        until("the other gateway", Duration::from_secs(60), async || {
            let answer = self.http.get(format!("{base}/readyz")).send().await;
            answer
                .is_ok_and(|answer| answer.status().is_success())
                .then_some(())
        })
        .await;
    }

    async fn until_ready(&self) {
        until("the gateway", Duration::from_secs(20), async || {
            let ready = self
                .http
                .get(format!("{}/readyz", self.base))
                .send()
                .await
                .is_ok_and(|r| r.status().is_success());
            // the service behind it is up when it refuses a caller without a certificate, which a call would see
            if !ready {
                return None;
            }
            let (status, _) = self.call(Method::GET, "/api/v1/allocations", "demo").await;
            matches!(status, 200 | 400).then_some(())
        })
        .await;
        self.record.clear();
    }

    pub async fn pool(&self) -> PgPool {
        self.db.pool("gpuaas_edge").await
    }

    /// A token of the embedded issuer.
    pub fn token(&self, subject: &str) -> String {
        self.dev
            .sign(subject, Timestamp::now(), 600)
            .expect("signed")
    }

    /// The same with more claims.
    pub fn token_with(&self, subject: &str, more: &Value) -> String {
        let pem = std::fs::read(self.folder.path().join("dev.key")).expect("the issuer's key");
        let key = jsonwebtoken::EncodingKey::from_ed_pem(&pem).expect("a key");
        let mut header = jsonwebtoken::Header::new(jsonwebtoken::Algorithm::EdDSA);
        let keys = self.dev.key_set().keys;
        header.kid.clone_from(&keys[0].common.key_id);
        let now = Timestamp::now().as_second();
        let mut claims = serde_json::json!({
            "iss": ISSUER, "aud": AUDIENCE, "sub": subject, "iat": now, "nbf": now, "exp": now + 600,
        });
        for (name, value) in more.as_object().expect("claims") {
            claims[name] = value.clone();
        }
        jsonwebtoken::encode(&header, &claims, &key).expect("signed")
    }

    pub fn url(&self, target: &str) -> String {
        format!("{}{target}", self.base)
    }

    /// A call without body.
    pub async fn call(&self, method: Method, target: &str, subject: &str) -> (u16, Value) {
        answer(
            self.http
                .request(method, self.url(target))
                .bearer_auth(self.token(subject))
                .send()
                .await
                .expect("answer"),
        )
        .await
    }

    /// A change with its key.
    pub async fn post(&self, target: &str, body: &Value, key: &str) -> (u16, Value) {
        let request = self
            .http
            .post(self.url(target))
            .bearer_auth(self.token("demo"))
            .header("x-idempotency-key", key)
            .json(body);
        answer(request.send().await.expect("answer")).await
    }
}

pub async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let header = response
        .headers()
        .get("x-request-id")
        .and_then(|v| v.to_str().ok())
        .map(str::to_owned)
        .expect("a request id");
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
    ] {
        assert_eq!(response.headers()[name], value);
    }
    let text = response.text().await.expect("text");
    let body: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    if status != 200 {
        assert_eq!(body["error"]["code"], status, "{body}");
        assert_eq!(
            detail(&body, "RequestInfo")["request_id"],
            *header,
            "every error names its request: {body}"
        );
        assert_eq!(detail(&body, "ErrorInfo")["domain"], "gpuaas");
    }
    (status, body)
}

/// A detail of an error by its type.
pub fn detail<'a>(body: &'a Value, kind: &str) -> &'a Value {
    let details = body["error"]["details"].as_array().expect("details");
    details
        .iter()
        .find(|d| d["@type"] == format!("type.googleapis.com/google.rpc.{kind}"))
        .unwrap_or(&Value::Null)
}

pub fn reason(body: &Value) -> &str {
    detail(body, "ErrorInfo")["reason"]
        .as_str()
        .unwrap_or_default()
}

/// The first field of a refusal.
pub fn field(body: &Value) -> &str {
    detail(body, "BadRequest")["field_violations"][0]["field"]
        .as_str()
        .unwrap_or_default()
}

pub fn dev_settings(folder: &Path) -> DevIssuerSettings {
    DevIssuerSettings {
        key_file: folder.join("dev.key"),
        issuer: ISSUER.to_owned(),
        audience: AUDIENCE.to_owned(),
        ..DevIssuerSettings::default()
    }
}

pub fn database(db: &TestDb) -> DatabaseSettings {
    DatabaseSettings {
        host: db.server().folder().display().to_string(),
        port: db.port(),
        name: db.name().to_owned(),
        user: "gpuaas_edge".to_owned(),
        password_file: Some(db.password_file().to_owned()),
        max_connections: 4,
    }
}

/// A service that trusts the gateway's tokens.
fn behind(name: &'static str, ca: &Authority, port: u16, token_key: &Path) -> Context {
    let mut own = settings(&ca.service(name, &[]).expect("identity"), ca, port);
    own.token = TokenSettings {
        public_key_file: Some(token_key.to_owned()),
    };
    Context::new(name, own).expect("context")
}

pub fn settings(identity: &Identity, ca: &Authority, port: u16) -> Settings {
    Settings {
        cell: CELL,
        server: ServerSettings {
            listen: vec![([127, 0, 0, 1], port).into()],
            metrics_listen: ([127, 0, 0, 1], ports::free().expect("port")).into(),
            request_timeout_seconds: 30,
            concurrency_per_connection: 64,
            shutdown_grace_seconds: 5,
        },
        tls: TlsSettings {
            ca_file: ca.authority().certificate,
            host_ca_file: None,
            cert_file: PathBuf::from(&identity.certificate),
            key_file: PathBuf::from(&identity.key),
        },
        token: TokenSettings::default(),
        database: None,
        redis: gpuaas_common::config::RedisSettings::default(),
        telemetry: gpuaas_common::config::TelemetrySettings::default(),
        audit: Default::default(),
        peers: std::collections::BTreeMap::new(),
    }
}
