//! One inventory with its database, its ledger and an authority, and clients that call it as the gateway does.
use std::path::{Path, PathBuf};
use std::time::Duration;

use gpuaas_common::client::{GrpcChannel, Peers};
use gpuaas_common::config::{
    DatabaseSettings, ServerSettings, Settings, TlsSettings, TokenSettings,
};
use gpuaas_common::identity::TokenMinter;
use gpuaas_common::{CancellationToken, Context, Error};
use gpuaas_dev::ca::{Authority, Identity};
use gpuaas_dev::postgres::TestDb;
use gpuaas_inventory::{Config, InstanceIdentityConfig};
use gpuaas_proto::gpuaas::inventory::v1::node_admin_service_client::NodeAdminServiceClient;
use gpuaas_proto::gpuaas::inventory::v1::region_admin_service_client::RegionAdminServiceClient;
use gpuaas_proto::gpuaas::inventory::v1::region_service_client::RegionServiceClient;
use gpuaas_proto::gpuaas::inventory::v1::{self as api, Region};
use sqlx::PgPool;
use tokio::task::JoinSet;
use tonic::{Request, Response, Status};

use crate::ledger::Ledger;

pub(crate) const CELL: u16 = 1;
pub(crate) const REGION: &str = "region-maas-1";
/// Of identity tokens of VMs.
pub(crate) const ISSUER: &str = "https://api.test/instance-identity";

pub(crate) struct World {
    pub(crate) db: TestDb,
    pub(crate) ledger: Ledger,
    pub(crate) folder: tempfile::TempDir,
    pub(crate) ca: Authority,
    pub(crate) port: u16,
    /// Where enrolled hosts call.
    pub(crate) host_port: u16,
    /// Where hosts enrol.
    pub(crate) enrolment_port: u16,
    config: Config,
    minter: TokenMinter,
    token_key: PathBuf,
    gateway: Peers,
    /// Of the inventory that was started last.
    metrics: Option<prometheus::Registry>,
    shutdown: CancellationToken,
    running: JoinSet<anyhow::Result<()>>,
}

impl World {
    /// An inventory that runs, with one enabled region.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut Config)) -> Self {
        let mut world = Self::prepare(change).await;
        world.run_inventory();
        let region = Region {
            code: REGION.into(),
            display_name: "Test region".into(),
            enabled: true,
            ..Region::default()
        };
        let put = api::PutRegionRequest {
            region: Some(region),
        };
        world
            .region_admin()
            .put_region(world.admin("region", put))
            .await
            .expect("region is put");
        world
    }

    async fn prepare(change: impl FnOnce(&mut Config)) -> Self {
        let db = TestDb::create().await;
        let folder = tempfile::tempdir().expect("temporary folder");
        let ca = Authority::open(folder.path(), CELL).expect("authority");
        let authority = ca.authority();
        let hosts = ca.host_authority();
        let [host_port, enrolment_port] =
            [(); 2].map(|()| gpuaas_dev::ports::free().expect("port"));
        let mut config = Config {
            host_listen: vec![([127, 0, 0, 1], host_port).into()],
            enrolment_listen: vec![([127, 0, 0, 1], enrolment_port).into()],
            host_ca_cert_file: hosts.certificate,
            host_ca_key_file: hosts.key,
            instance_identity: InstanceIdentityConfig {
                issuer: ISSUER.to_owned(),
                key_files: vec![ca.instance_identity_key("instance-identity").expect("key")],
            },
            poll_interval_milliseconds: 100,
            watch_interval_milliseconds: 50,
            watch_heartbeat_milliseconds: 300,
            ..Config::default()
        };
        change(&mut config);
        let keys = ca.signing_key("token").expect("token key");
        let minter = TokenMinter::from_pem(&read(&keys.private)).expect("private key");
        let port = gpuaas_dev::ports::free().expect("port");
        let gateway = ca.service("gateway", &[]).expect("identity");
        let gateway = peers(
            &gateway,
            &authority.certificate,
            [("inventory".to_owned(), url(port))],
        );
        let ledger = Ledger::start(&ca, &db).await;
        Self {
            db,
            ledger,
            folder,
            ca,
            port,
            host_port,
            enrolment_port,
            config,
            minter,
            token_key: keys.public,
            gateway,
            metrics: None,
            shutdown: CancellationToken::new(),
            running: JoinSet::new(),
        }
    }

    /// Another inventory with these settings, until it ends.
    pub(crate) async fn run_with(&self, config: Config) -> anyhow::Result<()> {
        gpuaas_inventory::run(self.context(), config, CancellationToken::new()).await
    }

    fn run_inventory(&mut self) {
        let context = self.context();
        self.metrics = Some(context.registry.clone());
        self.running.spawn(gpuaas_inventory::run(
            context,
            self.config.clone(),
            self.shutdown.clone(),
        ));
    }

    fn context(&self) -> Context {
        let identity = self.ca.service("inventory", &[]).expect("identity");
        let mut settings = settings(&identity, &self.ca.authority().certificate, self.port);
        settings.tls.host_ca_file = Some(self.ca.host_root());
        settings.token = TokenSettings {
            public_key_file: Some(self.token_key.clone()),
        };
        settings.database = Some(database(&self.db, "gpuaas_inventory"));
        settings.peers = [("scheduler".to_owned(), url(self.ledger.port))].into();
        Context::new("inventory", settings).expect("context")
    }

    /// Ends inventory.
    pub(crate) async fn stop(&mut self) {
        self.shutdown.cancel();
        while let Some(ended) = self.running.join_next().await {
            ended.expect("no panic").expect("inventory ended well");
        }
    }

    /// Starts it again on the same database.
    pub(crate) fn start_again(&mut self) {
        self.shutdown = CancellationToken::new();
        self.run_inventory();
    }

    /// Ends inventory and starts it again.
    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.start_again();
    }

    /// Another inventory beside the first, on the same database.
    pub(crate) fn run_replica(&mut self) {
        let first = (self.port, self.config.clone());
        self.port = gpuaas_dev::ports::free().expect("port");
        // hosts call the first one
        self.config.host_listen.clear();
        self.config.enrolment_listen.clear();
        self.run_inventory();
        (self.port, self.config) = first;
    }

    pub(crate) async fn owner(&self) -> PgPool {
        self.db.owner_pool().await
    }

    /// The gateway's way to inventory.
    pub(crate) fn gateway_channel(&self) -> GrpcChannel {
        self.gateway.channel("inventory").expect("channel")
    }

    pub(crate) fn regions(&self) -> RegionServiceClient<GrpcChannel> {
        RegionServiceClient::new(self.gateway_channel())
    }

    pub(crate) fn region_admin(&self) -> RegionAdminServiceClient<GrpcChannel> {
        RegionAdminServiceClient::new(self.gateway_channel())
    }

    pub(crate) fn nodes(&self) -> NodeAdminServiceClient<GrpcChannel> {
        NodeAdminServiceClient::new(self.gateway_channel())
    }

    /// A request of an administrator with an idempotency key.
    pub(crate) fn admin<T>(&self, key: &str, message: T) -> Request<T> {
        self.request("user:root", true, key, message)
    }

    pub(crate) fn request<T>(
        &self,
        principal: &str,
        admin: bool,
        key: &str,
        message: T,
    ) -> Request<T> {
        let now = jiff::Timestamp::now().as_second();
        let token = self
            .minter
            .mint("inventory", principal, &[], admin, now)
            .expect("token");
        let mut request = Request::new(message);
        let metadata = request.metadata_mut();
        metadata.insert(
            "authorization",
            format!("Bearer {token}").parse().expect("ascii"),
        );
        metadata.insert("x-request-id", "req-1".parse().expect("ascii"));
        if !key.is_empty() {
            metadata.insert("x-idempotency-key", key.parse().expect("ascii"));
        }
        request
    }

    pub(crate) async fn create_node(&self, hostname: &str) -> api::Node {
        let node = api::CreateNodeRequest {
            hostname: hostname.into(),
            region_code: REGION.into(),
            mode: "slice".into(),
            max_vms_per_node: 0,
            ..Default::default()
        };
        self.nodes()
            .create_node(self.admin(hostname, node))
            .await
            .expect("node is created")
            .into_inner()
    }

    pub(crate) async fn get_node(&self, node_id: &str) -> api::Node {
        let get = api::GetNodeRequest {
            node_id: node_id.into(),
        };
        self.nodes()
            .get_node(self.admin("", get))
            .await
            .expect("node is there")
            .into_inner()
    }

    pub(crate) async fn status(&self, node_id: &str) -> api::NodeStatus {
        self.get_node(node_id).await.status.expect("status")
    }

    /// How often a method was refused for a reason.
    pub(crate) fn refusals(&self, method: &str, reason: &str) -> u64 {
        let registry = self.metrics.as_ref().expect("inventory runs");
        let text = prometheus::TextEncoder::new()
            .encode_to_string(&registry.gather())
            .expect("metrics");
        let reason = reason.trim_start_matches("ERROR_REASON_");
        let labels = [
            format!("method=\"{method}\""),
            format!("reason=\"{reason}\""),
        ];
        let counted = text.lines().filter(|line| {
            line.starts_with("inventory_refusals_total")
                && labels.iter().all(|label| line.contains(label.as_str()))
        });
        counted
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok())
            .sum()
    }

    /// Nothing is left to push to the ledger.
    pub(crate) async fn all_pushed(&self) {
        let owner = self.owner().await;
        until("the ledger knows all", || async {
            let due: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM inventory.ledger_sync WHERE pushed_version < version OR lease_until IS NOT NULL",
            )
            .fetch_one(&owner)
            .await
            .expect("pushes");
            due == 0
        })
        .await;
    }

    /// Actions in the audit, oldest first.
    pub(crate) async fn audited(&self) -> Vec<String> {
        sqlx::query_scalar("SELECT action FROM inventory.audit ORDER BY seq")
            .fetch_all(&self.owner().await)
            .await
            .expect("audit")
    }
}

pub(crate) fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable file")
}

pub(crate) fn url(port: u16) -> String {
    format!("https://127.0.0.1:{port}")
}

pub(crate) fn peers(
    identity: &Identity,
    authority: &Path,
    urls: impl IntoIterator<Item = (String, String)>,
) -> Peers {
    let own =
        tonic::transport::Identity::from_pem(read(&identity.certificate), read(&identity.key));
    Peers::new(
        urls,
        tonic::transport::Certificate::from_pem(read(authority)),
        own,
    )
}

pub(crate) fn settings(identity: &Identity, authority: &Path, port: u16) -> Settings {
    Settings {
        cell: CELL,
        server: ServerSettings {
            listen: vec![([127, 0, 0, 1], port).into()],
            metrics_listen: ([127, 0, 0, 1], gpuaas_dev::ports::free().expect("port")).into(),
            request_timeout_seconds: 30,
            concurrency_per_connection: 64,
            shutdown_grace_seconds: 5,
        },
        tls: TlsSettings {
            ca_file: authority.to_owned(),
            host_ca_file: None,
            cert_file: identity.certificate.clone(),
            key_file: identity.key.clone(),
        },
        token: TokenSettings::default(),
        database: None,
        redis: Default::default(),
        telemetry: Default::default(),
        audit: Default::default(),
        peers: Default::default(),
    }
}

pub(crate) fn database(db: &TestDb, role: &str) -> DatabaseSettings {
    DatabaseSettings {
        host: db.server().folder().display().to_string(),
        port: db.port(),
        name: db.name().into(),
        user: role.into(),
        password_file: Some(db.password_file().to_owned()),
        max_connections: 8,
    }
}

/// Waits until something holds, at most 20 s.
pub(crate) async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    gpuaas_dev::until::until(what, Duration::from_secs(20), async || {
        holds().await.then_some(())
    })
    .await;
}

/// The error of a refused call.
pub(crate) fn refused<T: std::fmt::Debug>(answer: Result<Response<T>, Status>) -> Error {
    Error::from(answer.expect_err("the call is refused"))
}
