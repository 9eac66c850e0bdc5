//! A world for tests of the allocation service: a real PostgreSQL with its roles, real certificates, the
//! scripted host, a catalog with one image. Runners and servers are those of the product.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gpuaas_common::config::{
    DatabaseSettings, RedisSettings, ServerSettings, Settings, TelemetrySettings, TlsSettings,
    TokenSettings,
};
use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::Authority;
use gpuaas_dev::ports;
use gpuaas_dev::postgres::TestDb;
use gpuaas_placement::model::Slot;
use gpuaas_placement::{allocations, slots};
use gpuaas_proto::gpuaas::agent::v1 as host;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogServiceServer;
use sqlx::PgPool;
use uuid::Uuid;

use crate::agent::Agent;
use crate::catalog::Catalog;

pub const CELL: u16 = 1;
pub const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5RIRSWuoMeRQ4lzYiAGnlZlrscLnqIWDRZpUAXh5Bl";

pub struct World {
    pub db: TestDb,
    /// The allocation service's own role.
    pub pool: PgPool,
    pub scheduler: PgPool,
    /// Looks at everything, and arranges what no service may.
    pub owner: PgPool,
    pub agent: Agent,
    pub node_id: Uuid,
    pub slot_ids: Vec<Uuid>,
    pub project: Uuid,
    pub authority: Authority,
    pub peers: BTreeMap<String, String>,
    pub instance_id: Uuid,
    pub host_address: SocketAddr,
    host_down: CancellationToken,
    _folder: tempfile::TempDir,
    _catalog: tokio_util::sync::DropGuard,
}

pub fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl World {
    pub async fn start() -> Self {
        let db = TestDb::create().await;
        let folder = tempfile::tempdir().expect("a folder");
        let authority = Authority::open(folder.path(), CELL).expect("an authority");
        let (node_id, instance_id) = (Uuid::now_v7(), Uuid::now_v7());
        let host_address = loopback(ports::free().expect("a port"));
        let catalog_address = loopback(ports::free().expect("a port"));
        let catalog_down = CancellationToken::new();
        let mut world = Self {
            pool: db.pool("gpuaas_allocation").await,
            scheduler: db.pool("gpuaas_scheduler").await,
            owner: db.owner_pool().await,
            db,
            agent: Agent::new(),
            node_id,
            slot_ids: Vec::new(),
            project: Uuid::now_v7(),
            authority,
            peers: [(
                "image-catalog".to_owned(),
                format!("https://{catalog_address}"),
            )]
            .into(),
            instance_id,
            host_address,
            host_down: CancellationToken::new(),
            _folder: folder,
            _catalog: catalog_down.clone().drop_guard(),
        };
        let context = world.context("image-catalog", "image-catalog", catalog_address);
        let server = Server::new(&context).add(ImageCatalogServiceServer::new(Catalog));
        tokio::spawn(server.run(catalog_down));
        world.host_up().await;
        answers(catalog_address).await;
        world.fill_ledger().await;
        world
    }

    /// Starts the host's server.
    pub async fn host_up(&mut self) {
        self.host_down = CancellationToken::new();
        self.agent.up(self.host_down.clone());
        let context = self.host_context();
        let server = Server::new(&context)
            .add(host::node_scheduler_server::NodeSchedulerServer::new(
                self.agent.clone(),
            ))
            .add(host::virtual_machines_server::VirtualMachinesServer::new(
                self.agent.clone(),
            ));
        tokio::spawn(server.run(self.host_down.clone()));
        answers(self.host_address).await;
    }

    /// Takes the host's server away; its operations run on.
    pub async fn host_gone(&self) {
        self.host_down.cancel();
        let gone = async {
            while tokio::net::TcpStream::connect(self.host_address)
                .await
                .is_ok()
            {}
        };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .expect("the server ends");
    }

    fn host_context(&self) -> Context {
        let identity = self
            .authority
            .host(self.node_id, self.instance_id)
            .expect("an identity");
        self.context_of("agent", &identity, self.host_address)
    }

    pub fn context(&self, service: &'static str, name: &str, address: SocketAddr) -> Context {
        let identity = self.authority.service(name, &[]).expect("an identity");
        self.context_of(service, &identity, address)
    }

    fn context_of(
        &self,
        service: &'static str,
        identity: &gpuaas_dev::ca::Identity,
        address: SocketAddr,
    ) -> Context {
        let role = format!("gpuaas_{service}");
        let settings = Settings {
            cell: CELL,
            server: ServerSettings {
                listen: vec![address],
                metrics_listen: loopback(0),
                request_timeout_seconds: 60,
                concurrency_per_connection: 256,
                shutdown_grace_seconds: 0,
            },
            tls: TlsSettings {
                ca_file: self.authority.authority().certificate,
                cert_file: identity.certificate.clone(),
                key_file: identity.key.clone(),
            },
            token: TokenSettings {
                public_key_file: Some(self.authority.signing_key("token").expect("a key").public),
            },
            database: Some(DatabaseSettings {
                host: "127.0.0.1".into(),
                port: self.db.port(),
                name: self.db.name().into(),
                user: role,
                password_file: Some(self.db.password_file().into()),
                max_connections: 8,
            }),
            redis: RedisSettings::default(),
            telemetry: TelemetrySettings::default(),
            peers: self.peers.clone(),
        };
        Context::new(service, settings).expect("a context")
    }

    pub async fn allocation(&self, id: Uuid) -> gpuaas_placement::model::Allocation {
        let mut conn = self.pool.acquire().await.expect("a connection");
        allocations::get(&mut conn, gpuaas_placement::Scope::Platform, id)
            .await
            .expect("the allocation")
    }

    pub async fn slot_of(&self, id: Uuid) -> Slot {
        let mut conn = self.pool.acquire().await.expect("a connection");
        let slot_id: Uuid =
            sqlx::query_scalar("SELECT slot_id FROM claims WHERE allocation_id = $1")
                .bind(id)
                .fetch_one(&mut *conn)
                .await
                .expect("a claim");
        slots::get(&mut conn, self.node_id, slot_id)
            .await
            .expect("the slot")
    }

    /// Accepts a release as the API does.
    pub async fn release(&self, id: Uuid) {
        let mut tx = self.pool.begin().await.expect("a transaction");
        let scope = gpuaas_placement::Scope::Platform;
        gpuaas_placement::release::begin(&mut tx, scope, id, "", "req")
            .await
            .expect("a release");
        tx.commit().await.expect("commit");
    }

    /// Accepts a change of power as the API does.
    pub async fn power(&self, id: Uuid, kind: &str) {
        let actions = gpuaas_placement::power::Action::ALL;
        let action = actions.into_iter().find(|action| action.as_str() == kind);
        let mut tx = self.pool.begin().await.expect("a transaction");
        let scope = gpuaas_placement::Scope::Platform;
        gpuaas_placement::power::begin(&mut tx, scope, id, action.expect("one"), "", "req")
            .await
            .expect("accepted");
        tx.commit().await.expect("commit");
    }

    /// Accepts a repair as the API does.
    pub async fn repair(&self, slot_id: Uuid) {
        let mut tx = self.pool.begin().await.expect("a transaction");
        gpuaas_placement::repair::begin(&mut tx, self.node_id, slot_id, "", "req")
            .await
            .expect("a repair");
        tx.commit().await.expect("commit");
    }
}

pub fn digest() -> String {
    format!("sha256:{}", "a".repeat(64))
}

pub async fn answers(address: SocketAddr) {
    let wait = async { while tokio::net::TcpStream::connect(address).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("a server that answers");
}
