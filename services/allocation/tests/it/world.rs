//! A world for tests of the allocation service: a real PostgreSQL with its roles, real certificates, a
//! host, a catalog with one image. Runners and servers are those of the product.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gpuaas_common::client::GrpcChannel;
use gpuaas_common::config::{
    DatabaseSettings, RedisSettings, ServerSettings, Settings, TelemetrySettings, TlsSettings,
    TokenSettings,
};
use gpuaas_common::server::Server;
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::Authority;
use gpuaas_dev::ports;
use gpuaas_dev::postgres::TestDb;
use gpuaas_placement::model::{Image, Slot};
use gpuaas_placement::{allocations, slots};
use gpuaas_proto::gpuaas::agent::v1 as host;
use gpuaas_proto::gpuaas::agent::v1::node_scheduler_client::NodeSchedulerClient;
use gpuaas_proto::gpuaas::internal::images::v1::image_catalog_service_server::ImageCatalogServiceServer;
use sqlx::PgPool;
use uuid::Uuid;

use crate::catalog::Catalog;
use crate::host::{Host, rescue_digest, rescue_image};

pub const CELL: u16 = 1;
/// Slots of a host, unless a test says otherwise.
const SLOTS: usize = 2;
pub const KEY: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ5RIRSWuoMeRQ4lzYiAGnlZlrscLnqIWDRZpUAXh5Bl";

pub struct World {
    pub db: TestDb,
    /// The allocation service's own role.
    pub pool: PgPool,
    pub scheduler: PgPool,
    /// Looks at everything, and arranges what no service may.
    pub owner: PgPool,
    pub host: Host,
    pub node_id: Uuid,
    pub slot_ids: Vec<Uuid>,
    pub project: Uuid,
    pub authority: Authority,
    pub peers: BTreeMap<String, String>,
    pub instance_id: Uuid,
    pub host_address: SocketAddr,
    _folder: tempfile::TempDir,
    _catalog: tokio_util::sync::DropGuard,
}

pub fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

impl World {
    pub async fn start() -> Self {
        Self::with_slots(SLOTS).await
    }

    /// A world whose host has so many slots.
    pub async fn with_slots(slots: usize) -> Self {
        Self::of(Host::new(slots).await).await
    }

    /// A world whose host has GPUs that Fabric Manager connects.
    pub async fn with_board() -> Self {
        Self::of(Host::new(SLOTS).await.with_board()).await
    }

    /// A world whose slots have virtual functions that are bound to VFIO.
    pub async fn with_functions() -> Self {
        Self::of(Host::new(SLOTS).await.with_functions()).await
    }

    /// A world whose host has two processors, with every other slot at the second.
    pub async fn with_sockets() -> Self {
        Self::of(Host::new(SLOTS).await.with_sockets()).await
    }

    async fn of(host: Host) -> Self {
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
            host,
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
            _folder: folder,
            _catalog: catalog_down.clone().drop_guard(),
        };
        let context = world.context("image-catalog", "image-catalog", catalog_address);
        let server = Server::new(&context).add(ImageCatalogServiceServer::new(Catalog));
        tokio::spawn(server.run(catalog_down));
        world.host_up().await;
        answers(catalog_address).await;
        world.fill_ledger().await;
        world.host.name_slots(&world.slot_ids);
        world
    }

    /// Starts the host's agent, which goes on with what its journal says.
    pub async fn host_up(&self) {
        self.host
            .up(self.node_id, self.instance_id, || self.host_context());
        answers(self.host_address).await;
    }

    /// Takes the host's agent away, in the middle of whatever it does.
    pub async fn host_gone(&self) {
        self.host.down();
        let gone = async {
            while tokio::net::TcpStream::connect(self.host_address)
                .await
                .is_ok()
            {}
        };
        tokio::time::timeout(Duration::from_secs(10), gone)
            .await
            .expect("the agent ends");
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
        // the others have no schema of their own here
        let database = matches!(service, "allocation" | "scheduler").then(|| DatabaseSettings {
            host: self.db.server().folder().display().to_string(),
            port: self.db.port(),
            name: self.db.name().into(),
            user: format!("gpuaas_{service}"),
            password_file: Some(self.db.password_file().into()),
            max_connections: 4,
        });
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
                host_ca_file: Some(self.authority.host_root()),
                cert_file: identity.certificate.clone(),
                key_file: identity.key.clone(),
            },
            token: TokenSettings {
                public_key_file: Some(self.authority.signing_key("token").expect("a key").public),
            },
            database,
            redis: RedisSettings::default(),
            telemetry: TelemetrySettings::default(),
            audit: Default::default(),
            peers: self.peers.clone(),
        };
        Context::new(service, settings).expect("a context")
    }

    /// The host's leases, as the allocation service calls them.
    fn host_leases(&self) -> NodeSchedulerClient<GrpcChannel> {
        let context = self.context("allocation", "allocation", loopback(0));
        let address = self.host_address.to_string();
        let channel = context
            .peers
            .host_channel(&address, &self.node_id, &self.instance_id);
        NodeSchedulerClient::new(channel.expect("a channel"))
    }

    /// Asks the host for the first slot, for a release, with a token: cell epoch, slot generation, workflow epoch.
    /// Returns the lease's id.
    pub async fn acquire_on_host(
        &self,
        allocation: Uuid,
        token: (u64, u64, u64),
    ) -> Result<String, tonic::Status> {
        let mut conn = self.pool.acquire().await.expect("a connection");
        let slot = slots::get(&mut conn, self.node_id, self.slot_ids[0]).await;
        let slot = slot.expect("the slot");
        let request = host::AcquireLeaseRequest {
            allocation_id: allocation.to_string(),
            slots: vec![host::SlotGrant {
                slot_id: self.slot_ids[0].to_string(),
                token: Some(host::FencingToken {
                    cell_epoch: token.0,
                    slot_generation: token.1,
                    workflow_epoch: token.2,
                }),
                bindings: Some(slot.bindings.into()),
                ..host::SlotGrant::default()
            }],
            purpose: host::LeasePurpose::Release.into(),
            ..host::AcquireLeaseRequest::default()
        };
        let granted = self.host_leases().acquire_lease(request).await?;
        Ok(granted.into_inner().lease.expect("a lease").lease_id)
    }

    /// Has the host remove what is left over of an allocation.
    pub async fn remove_leftovers(
        &self,
        request: host::RemoveLeftoversRequest,
    ) -> Result<Vec<String>, gpuaas_common::Error> {
        let removed = self.host_leases().remove_leftovers(request).await;
        Ok(removed?.into_inner().removed)
    }

    /// What the host says that it holds.
    pub async fn holds(&self) -> host::ListHoldsResponse {
        let held = self
            .host_leases()
            .list_holds(host::ListHoldsRequest {})
            .await;
        held.expect("holds").into_inner()
    }

    /// Has the host replace the ingress mappings of an allocation.
    pub async fn set_ingress(
        &self,
        request: host::SetIngressRequest,
    ) -> Result<(), gpuaas_common::Error> {
        Ok(self.host_leases().set_ingress(request).await.map(drop)?)
    }

    /// Ends a lease of the host.
    pub async fn end_on_host(&self, allocation: Uuid, lease_id: String, token: (u64, u64, u64)) {
        let request = host::ReleaseLeaseRequest {
            lease_id,
            allocation_id: allocation.to_string(),
            tokens: vec![host::SlotToken {
                slot_id: self.slot_ids[0].to_string(),
                token: Some(host::FencingToken {
                    cell_epoch: token.0,
                    slot_generation: token.1,
                    workflow_epoch: token.2,
                }),
            }],
        };
        let ended = self.host_leases().release_lease(request).await;
        ended.expect("ended");
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
        let image = (kind == "rescue").then(|| Image {
            slug: "rescue-mini".into(),
            digest: rescue_digest(),
            source_uri: format!("oci://registry.test/guests/rescue-mini@{}", rescue_digest()),
            size_bytes: rescue_image().len() as u64,
            boot_timeout_seconds: 30,
            ..Image::default()
        });
        let action = action.expect("one");
        gpuaas_placement::power::begin_with(&mut tx, scope, id, action, image, false, "", "req")
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

pub async fn answers(address: SocketAddr) {
    let wait = async { while tokio::net::TcpStream::connect(address).await.is_err() {} };
    tokio::time::timeout(Duration::from_secs(20), wait)
        .await
        .expect("a server that answers");
}

/// The audit row of everything that was done to an allocation names its project, by which its members find it.
pub async fn assert_of_projects(owner: &PgPool) {
    let lost: Vec<String> = sqlx::query_scalar(
        "SELECT action FROM placement.audit a JOIN placement.allocations o ON o.id::text = a.resource_id
          WHERE a.resource = 'allocation' AND a.detail->>'project_id' IS DISTINCT FROM o.project_id::text",
    )
    .fetch_all(owner)
    .await
    .expect("audit rows");
    assert_eq!(lost, Vec::<String>::new());
}
