//! The whole chain around one guest, in this process.
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpuaas_agent::guest::RelayKey;
use gpuaas_agent::terminal::TerminalApi;
use gpuaas_common::config::{
    DatabaseSettings, ServerSettings, Settings, TlsSettings, TokenSettings,
};
use gpuaas_common::id::IdGen;
use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::{Authority, Identity};
use gpuaas_dev::ports;
use gpuaas_dev::postgres::TestDb;
use gpuaas_gateway::auth::dev_issuer::{DevIssuer, DevIssuerSettings};
use gpuaas_gateway::limits::terminals::TerminalSettings;
use gpuaas_gateway::store::{NewPrincipal, seed};
use gpuaas_proto::gpuaas::agent::v1::terminal_server::TerminalServer;
use gpuaas_proto::gpuaas::common::v1::CapacityShape;
use gpuaas_proto::gpuaas::internal::allocation::v1::access_service_server::AccessServiceServer;
use gpuaas_proto::gpuaas::internal::events::v1::event_service_server::EventServiceServer;
use gpuaas_terminal_gateway::Config;
use serde_json::Value;
use tempfile::TempDir;
use uuid::Uuid;

use crate::client::{Client, Upgrade};
use crate::guest::{Guest, Manner};
use crate::ledger::{Ledger, Shared};

/// Origin of the console in these tests.
pub const CONSOLE: &str = "https://console.test";
/// Another page that may open terminals.
pub const OTHER: &str = "https://other.test";
const ISSUER: &str = "https://dev.test";

pub struct World {
    pub db: TestDb,
    pub ledger: Shared,
    pub guest: Guest,
    pub http: reqwest::Client,
    base: String,
    /// A gateway that calls another terminal gateway beside.
    beside: String,
    dev: DevIssuer,
    stop: CancellationToken,
    _folder: TempDir,
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

struct Ports {
    ca: Authority,
}

impl Ports {
    fn settings(&self, identity: &Identity, port: u16) -> Settings {
        Settings {
            cell: 1,
            server: ServerSettings {
                listen: vec![([127, 0, 0, 1], port).into()],
                metrics_listen: ([127, 0, 0, 1], ports::free().expect("port")).into(),
                request_timeout_seconds: 60,
                concurrency_per_connection: 256,
                shutdown_grace_seconds: 2,
            },
            tls: TlsSettings {
                ca_file: self.ca.authority().certificate,
                host_ca_file: Some(self.ca.host_root()),
                cert_file: PathBuf::from(&identity.certificate),
                key_file: PathBuf::from(&identity.key),
            },
            token: TokenSettings::default(),
            database: None,
            redis: Default::default(),
            telemetry: Default::default(),
            audit: Default::default(),
            peers: BTreeMap::new(),
        }
    }
}

fn database(db: &TestDb, user: &str) -> DatabaseSettings {
    DatabaseSettings {
        host: db.server().folder().display().to_string(),
        port: db.port(),
        name: db.name().to_owned(),
        user: user.to_owned(),
        password_file: Some(db.password_file().to_owned()),
        max_connections: 4,
    }
}

impl World {
    pub async fn start() -> Self {
        Self::with(Manner::Well, |_, _| {}).await
    }

    pub async fn with(manner: Manner, change: impl FnOnce(&mut Config, Uuid)) -> Self {
        let db = TestDb::create().await;
        let folder = tempfile::tempdir().expect("folder");
        let ca = Authority::open(&folder.path().join("ca"), 1).expect("authority");
        let keys = ca.signing_key("internal-token").expect("key");
        let relay =
            RelayKey::load_or_create(&folder.path().join("relay/id_ed25519")).expect("relay key");
        let guest = Guest::start(manner, relay.public()).await;
        let dev_settings = DevIssuerSettings {
            key_file: folder.path().join("dev.key"),
            issuer: ISSUER.to_owned(),
            audience: "gpuaas".to_owned(),
            ..DevIssuerSettings::default()
        };
        let dev = DevIssuer::open_or_create(dev_settings.clone()).expect("issuer");
        let principal = |subject, name| NewPrincipal {
            name,
            subject,
            admin: false,
        };
        let principals = [
            principal("alice", "user:alice"),
            principal("bob", "user:bob"),
        ];
        let edge = db.pool("gpuaas_edge").await;
        seed(&edge, &IdGen::new(1), ISSUER, "lab", "demo", &principals)
            .await
            .expect("seeded");
        let project_id: Uuid = sqlx::query_scalar("SELECT id FROM projects")
            .fetch_one(&edge)
            .await
            .expect("project");

        let [
            agent,
            allocation,
            terminal,
            gateway,
            terminal_beside,
            gateway_beside,
        ] = std::array::from_fn(|_| ports::free().expect("port"));
        let ids = IdGen::new(1);
        let ledger = Shared(Arc::new(Mutex::new(Ledger {
            project_id,
            allocation_id: ids.next(),
            node_id: ids.next(),
            instance_id: ids.next(),
            agent_address: format!("127.0.0.1:{agent}"),
            target_host: guest.address.ip().to_string(),
            target_port: guest.address.port().into(),
            ssh_port: None,
            host_key: guest.host_key.clone(),
            shape: CapacityShape::GpuSlice,
            state: "active".to_owned(),
            events: vec![("allocation.active".to_owned(), Uuid::now_v7())],
            reserved: Some(Ipv4Addr::LOCALHOST),
        })));
        let stop = CancellationToken::new();
        let at = Ports { ca };
        let (node_id, instance_id) = {
            let ledger = ledger.0.lock().expect("lock");
            (ledger.node_id, ledger.instance_id)
        };

        let identity = at.ca.host(node_id, instance_id).expect("identity");
        let context = Context::new("agent", at.settings(&identity, agent)).expect("context");
        // a login on a busy machine takes its time; one that never comes is not waited for longer than needed
        let never = matches!(manner, Manner::Silent | Manner::EndlessBanner);
        let limit = Duration::from_secs(if never { 2 } else { 25 });
        let service = TerminalServer::new(
            TerminalApi::new(Arc::new(ledger.clone()), relay).with_login_limit(limit),
        );
        tokio::spawn(Server::new(&context).add(service).run(stop.clone()));

        let identity = at.ca.service("allocation", &[]).expect("identity");
        let context =
            Context::new("allocation", at.settings(&identity, allocation)).expect("context");
        let server = Server::new(&context)
            .add(AccessServiceServer::new(ledger.clone()))
            .add(EventServiceServer::new(ledger.clone()));
        tokio::spawn(server.run(stop.clone()));

        let url = |name: &str, port: u16| (name.to_owned(), format!("https://127.0.0.1:{port}"));
        let mut config = Config {
            poll_seconds: 0.02,
            ..Config::default()
        };
        change(&mut config, project_id);
        let identity = at.ca.service("terminal-gateway", &[]).expect("identity");
        for port in [terminal, terminal_beside] {
            let mut settings = at.settings(&identity, port);
            settings.token.public_key_file = Some(keys.public.clone());
            settings.database = Some(database(&db, "gpuaas_terminal"));
            settings.peers = [url("allocation", allocation)].into();
            let context = Context::new("terminal-gateway", settings).expect("context");
            let config = config.clone();
            tokio::spawn(gpuaas_terminal_gateway::run(context, config, stop.clone()));
        }

        let config = gpuaas_gateway::Config {
            internal_key_file: keys.private,
            dev_issuer: Some(dev_settings),
            terminal: TerminalSettings {
                origins: vec![CONSOLE.to_owned(), OTHER.to_owned()],
                access_seconds: 0.1,
                ..TerminalSettings::default()
            },
            ..gpuaas_gateway::Config::default()
        };
        let identity = at.ca.service("gateway", &[]).expect("identity");
        for (port, calls) in [(gateway, terminal), (gateway_beside, terminal_beside)] {
            let mut settings = at.settings(&identity, port);
            settings.database = Some(database(&db, "gpuaas_edge"));
            settings.peers = [
                url("terminal-gateway", calls),
                url("allocation", allocation),
            ]
            .into();
            let context = Context::new("gateway", settings).expect("context");
            tokio::spawn(gpuaas_gateway::run(context, config.clone(), stop.clone()));
        }

        let world = Self {
            db,
            ledger,
            guest,
            http: reqwest::Client::new(),
            base: format!("127.0.0.1:{gateway}"),
            beside: format!("127.0.0.1:{gateway_beside}"),
            dev,
            stop,
            _folder: folder,
        };
        let nobody = format!("/api/v1/allocations/{}/terminal-sessions", Uuid::now_v7());
        for base in [&world.base, &world.beside] {
            until("the chain to answer", async || {
                let url = format!("http://{base}{nobody}");
                let requested = world
                    .http
                    .get(url)
                    .bearer_auth(world.token("alice"))
                    .send()
                    .await;
                // the last of the chain says that there is no such allocation
                requested
                    .is_ok_and(|answer| answer.status().as_u16() == 404)
                    .then_some(())
            })
            .await;
        }
        world
    }

    /// A change that the other gateway takes, and the other terminal gateway.
    pub async fn post_beside(&self, path: &str, subject: &str, body: &Value) -> (u16, Value) {
        let key = Uuid::now_v7().to_string();
        self.post_with_key(path, subject, body, &key).await
    }

    /// The same with this idempotency key.
    pub async fn post_with_key(
        &self,
        path: &str,
        subject: &str,
        body: &Value,
        key: &str,
    ) -> (u16, Value) {
        let answer = self
            .http
            .post(format!("http://{}/api/v1/{path}", self.beside))
            .bearer_auth(self.token(subject))
            .header("x-idempotency-key", key)
            .json(body)
            .send()
            .await
            .expect("answer");
        (answer.status().as_u16(), answer.json().await.expect("json"))
    }

    pub fn allocation_id(&self) -> String {
        self.ledger
            .0
            .lock()
            .expect("lock")
            .allocation_id
            .to_string()
    }

    pub fn token(&self, subject: &str) -> String {
        self.dev
            .sign(subject, jiff::Timestamp::now(), 600)
            .expect("signed")
    }

    pub async fn get(&self, path: &str, subject: &str) -> (u16, Value) {
        self.get_of(&self.base, path, subject).await
    }

    /// The same of the other gateway.
    pub async fn get_beside(&self, path: &str, subject: &str) -> (u16, Value) {
        self.get_of(&self.beside, path, subject).await
    }

    async fn get_of(
        &self,
        base: &impl std::fmt::Display,
        path: &str,
        subject: &str,
    ) -> (u16, Value) {
        let url = format!("http://{base}/api/v1/{path}");
        let answer = self
            .http
            .get(url)
            .bearer_auth(self.token(subject))
            .send()
            .await
            .expect("answer");
        (answer.status().as_u16(), answer.json().await.expect("json"))
    }

    /// Asks for a ticket of a shell.
    pub async fn ask(&self, origin: Option<&str>, key: &str) -> (u16, Value) {
        self.ask_for(origin, key, &serde_json::json!({})).await
    }

    /// Asks for a ticket.
    pub async fn ask_for(&self, origin: Option<&str>, key: &str, body: &Value) -> (u16, Value) {
        let url = format!(
            "http://{}/api/v1/allocations/{}/terminal-sessions",
            self.base,
            self.allocation_id()
        );
        let mut request = self
            .http
            .post(url)
            .bearer_auth(self.token("alice"))
            .header("x-idempotency-key", key);
        if let Some(origin) = origin {
            request = request.header("origin", origin);
        }
        let answer = request.json(body).send().await.expect("answer");
        (answer.status().as_u16(), answer.json().await.expect("json"))
    }

    /// A fresh ticket for a program.
    pub async fn ticket(&self) -> String {
        self.ticket_for(None).await
    }

    pub async fn ticket_for(&self, origin: Option<&str>) -> String {
        let (status, answer) = self.ask(origin, &Uuid::now_v7().to_string()).await;
        assert_eq!(status, 200, "{answer}");
        answer["ticket"].as_str().expect("ticket").to_owned()
    }

    pub async fn connect(&self, upgrade: &Upgrade) -> Result<Client, u16> {
        Client::connect(&format!("ws://{}/api/v1/terminal", self.base), upgrade).await
    }

    /// A connection of a program that has said nothing yet.
    pub async fn program(&self) -> Client {
        self.connect(&Upgrade::default()).await.expect("connected")
    }

    /// A session that is ready.
    pub async fn session(&self) -> (Client, Value) {
        let ticket = self.ticket().await;
        let mut client = self.program().await;
        client.attach(&ticket, &self.allocation_id()).await;
        let ready = client.text("session_ready").await;
        (client, ready)
    }

    /// Releases the allocation, as its service would tell.
    pub fn release(&self) {
        self.ledger.0.lock().expect("lock").state = "releasing".to_owned();
        self.tell("allocation.releasing");
    }

    /// Puts an event about the allocation into the ledger's log.
    pub fn tell(&self, event: &str) {
        let mut ledger = self.ledger.0.lock().expect("lock");
        let id = ledger.allocation_id;
        ledger.events.push((event.to_owned(), id));
    }

    /// Audit rows: action and reason of closing.
    pub async fn audit(&self) -> Vec<(String, String)> {
        sqlx::query_as(
            "SELECT action, coalesce(detail->>'reason', '') FROM terminal.audit ORDER BY seq",
        )
        .fetch_all(&self.db.owner_pool().await)
        .await
        .expect("audit")
    }

    /// Waits until a session's row is closed; returns why.
    pub async fn closed(&self, session_id: &Value) -> String {
        let id: Uuid = session_id.as_str().expect("id").parse().expect("uuid");
        let pool = self.db.owner_pool().await;
        until("the session to close", async || {
            sqlx::query_scalar("SELECT close_reason FROM terminal.sessions WHERE id = $1 AND close_time IS NOT NULL")
                .bind(id)
                .fetch_optional(&pool)
                .await
                .expect("sessions")
        })
        .await
    }

    /// Waits until no shell runs in the guest.
    pub async fn no_shells(&self) {
        until("the guest's shells to end", async || {
            (self
                .guest
                .seen
                .shells
                .load(std::sync::atomic::Ordering::SeqCst)
                == 0)
                .then_some(())
        })
        .await;
    }
}

/// Waits for a condition.
pub async fn until<T>(what: &str, poll: impl AsyncFnMut() -> Option<T>) -> T {
    gpuaas_dev::until::until(what, Duration::from_secs(30), poll).await
}
