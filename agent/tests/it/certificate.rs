//! Enrolment, renewal and heartbeat of an agent against an inventory that the test plays.
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use gpuaas_agent::enrol;
use gpuaas_agent::node::Node;
use gpuaas_common::client::Peers;
use gpuaas_common::config::{ServerSettings, Settings, TlsSettings};
use gpuaas_common::identity::{Peer, host_dns, host_uri};
use gpuaas_common::server::{Clients, Server};
use gpuaas_common::{CancellationToken, Context};
use gpuaas_dev::ca::Authority;
use gpuaas_dev::until::until;
use gpuaas_proto::gpuaas::agent::v1::topology_client::TopologyClient;
use gpuaas_proto::gpuaas::agent::v1::topology_server::{Topology, TopologyServer};
use gpuaas_proto::gpuaas::agent::v1::{
    CheckReadinessRequest, DiscoverRequest, ReadinessReport, TopologyReport,
};
use gpuaas_proto::gpuaas::internal::inventory::v1 as pb;
use gpuaas_proto::gpuaas::internal::inventory::v1::host_service_server::{
    HostService, HostServiceServer,
};
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateParams, CertificateSigningRequestParams, Issuer, KeyPair, SanType};
use tonic::{Request, Response, Status};
use uuid::Uuid;

const CELL: u16 = 1;
/// Longest wait for something.
const LONG: Duration = Duration::from_secs(30);

/// What inventory was asked, oldest first.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Requested {
    Enrol { csr: String },
    Renew { by: Peer },
    RenewByKey { instance: String },
    Heartbeat,
}

/// How inventory answers.
#[derive(Clone)]
struct Manner {
    /// Lifetime of the certificates it issues, in seconds.
    lifetime: i64,
    /// Enrolments that are answered with "try again" first.
    aborts: usize,
    /// Whether a renewal by key is refused.
    refuses_keys: bool,
}

#[derive(Clone)]
struct Inventory {
    node: Uuid,
    instance: Uuid,
    authority: Authority,
    manner: Arc<Mutex<Manner>>,
    requested: Arc<Mutex<Vec<Requested>>>,
}

impl Inventory {
    fn manner(&self) -> Manner {
        self.manner.lock().expect("manner").clone()
    }

    fn requested(&self) -> Vec<Requested> {
        self.requested.lock().expect("asked").clone()
    }

    fn note(&self, requested: Requested) {
        self.requested.lock().expect("asked").push(requested);
    }

    fn issue(&self, csr: &str) -> String {
        let own = self.authority.host_authority();
        let key = KeyPair::from_pem(&read(&own.key)).expect("key");
        let issuer = Issuer::from_ca_cert_pem(&read(&own.certificate), key).expect("issuer");
        let request = CertificateSigningRequestParams::from_pem(csr).expect("request");
        let mut params = CertificateParams::default();
        let uri = host_uri(CELL, &self.node, &self.instance);
        let dns = host_dns(&self.node, &self.instance);
        params.subject_alt_names = vec![
            SanType::URI(uri.try_into().expect("uri")),
            SanType::DnsName(dns.try_into().expect("dns")),
        ];
        let epoch = rcgen::date_time_ymd(1970, 1, 1);
        let now = Timestamp::now();
        let at = |time: Timestamp| epoch + Duration::from_secs(time.as_second().unsigned_abs());
        params.not_before = at(now);
        params.not_after = at(now + SignedDuration::from_secs(self.manner().lifetime));
        let signed = params.signed_by(&request.public_key, &issuer);
        let signed = signed.expect("signed").pem();
        format!("{signed}{}", read(&own.certificate))
    }

    fn renewed(&self, csr: &str) -> Response<pb::RenewResponse> {
        Response::new(pb::RenewResponse {
            certificate_pem: self.issue(csr),
            ..pb::RenewResponse::default()
        })
    }
}

#[tonic::async_trait]
impl HostService for Inventory {
    async fn enrol(
        &self,
        request: Request<pb::EnrolRequest>,
    ) -> Result<Response<pb::EnrolResponse>, Status> {
        let csr = request.into_inner().csr_pem;
        self.note(Requested::Enrol { csr: csr.clone() });
        let mut manner = self.manner.lock().expect("manner");
        if manner.aborts > 0 {
            manner.aborts -= 1;
            return Err(Status::aborted("two transactions met"));
        }
        drop(manner);
        Ok(Response::new(pb::EnrolResponse {
            node_id: self.node.to_string(),
            instance_id: self.instance.to_string(),
            certificate_pem: self.issue(&csr),
            ..pb::EnrolResponse::default()
        }))
    }

    async fn renew(
        &self,
        request: Request<pb::RenewRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let by = Peer::of(&request)?;
        self.note(Requested::Renew { by });
        Ok(self.renewed(&request.into_inner().csr_pem))
    }

    async fn renew_by_key(
        &self,
        request: Request<pb::RenewByKeyRequest>,
    ) -> Result<Response<pb::RenewResponse>, Status> {
        let request = request.into_inner();
        self.note(Requested::RenewByKey {
            instance: request.instance_id,
        });
        if self.manner().refuses_keys {
            return Err(Status::unauthenticated("expired too long ago"));
        }
        Ok(self.renewed(&request.csr_pem))
    }

    async fn issue_instance_identity(
        &self,
        _: Request<pb::IssueInstanceIdentityRequest>,
    ) -> Result<Response<pb::IssueInstanceIdentityResponse>, Status> {
        Err(Status::unimplemented("no VM runs here"))
    }

    async fn get_instance_identity_keys(
        &self,
        _: Request<pb::GetInstanceIdentityKeysRequest>,
    ) -> Result<Response<pb::GetInstanceIdentityKeysResponse>, Status> {
        Err(Status::unimplemented("not a host's"))
    }

    async fn heartbeat(
        &self,
        _: Request<pb::HeartbeatRequest>,
    ) -> Result<Response<pb::HeartbeatResponse>, Status> {
        self.note(Requested::Heartbeat);
        std::future::pending().await
    }
}

/// What the agent serves here.
struct Serves;

#[tonic::async_trait]
impl Topology for Serves {
    async fn discover(
        &self,
        _: Request<DiscoverRequest>,
    ) -> Result<Response<TopologyReport>, Status> {
        Ok(Response::new(Default::default()))
    }

    async fn check_readiness(
        &self,
        _: Request<CheckReadinessRequest>,
    ) -> Result<Response<ReadinessReport>, Status> {
        Ok(Response::new(Default::default()))
    }
}

struct World {
    folder: tempfile::TempDir,
    inventory: Inventory,
    node: Node,
    common: Settings,
    agent_port: u16,
    shutdown: CancellationToken,
}

impl Drop for World {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

impl World {
    fn start(manner: Manner) -> Self {
        let folder = tempfile::tempdir().expect("folder");
        let authority = Authority::open(&folder.path().join("ca"), CELL).expect("authority");
        let inventory = Inventory {
            node: Uuid::now_v7(),
            instance: Uuid::now_v7(),
            authority: authority.clone(),
            manner: Arc::new(Mutex::new(manner)),
            requested: Arc::default(),
        };
        let shutdown = CancellationToken::new();
        let port = gpuaas_dev::ports::free().expect("port");
        let own = authority.service("inventory", &[]).expect("identity");
        let tls = TlsSettings {
            ca_file: authority.authority().certificate,
            host_ca_file: Some(authority.host_root()),
            cert_file: own.certificate,
            key_file: own.key,
        };
        let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let enrolment_port = gpuaas_dev::ports::free().expect("port");
        let services_port = gpuaas_dev::ports::free().expect("port");
        let context = Context::new("inventory", settings(services_port, tls)).expect("context");
        let server = Server::new(&context)
            .add(HostServiceServer::new(inventory.clone()))
            .also_at(&[at(port)], Clients::Hosts)
            .also_at(&[at(enrolment_port)], Clients::Enrolling);
        tokio::spawn(server.run(shutdown.clone()));

        let state = folder.path().join("agent");
        let agent_port = gpuaas_dev::ports::free().expect("port");
        let tls = TlsSettings {
            ca_file: authority.authority().certificate,
            host_ca_file: None,
            cert_file: state.join("tls/cert.pem"),
            key_file: state.join("tls/key.pem"),
        };
        let mut common = settings(agent_port, tls);
        let url = format!("https://127.0.0.1:{port}");
        common.peers.insert("inventory".to_owned(), url);
        let url = format!("https://127.0.0.1:{enrolment_port}");
        common.peers.insert("inventory-enrolment".to_owned(), url);
        let world = Self {
            node: node(&state),
            folder,
            inventory,
            common,
            agent_port,
            shutdown,
        };
        std::fs::write(world.token_file(), "token").expect("token");
        world
    }

    fn token_file(&self) -> PathBuf {
        self.folder.path().join("agent/token")
    }

    async fn ensure(&self) -> anyhow::Result<()> {
        enrol::ensure(&self.node, &self.common, &self.shutdown).await
    }

    fn certificate(&self) -> String {
        read(&self.common.tls.cert_file)
    }

    /// When the stored certificate ends, in seconds since 1970.
    fn ends(&self) -> i64 {
        let text = self.certificate();
        let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).expect("pem");
        let parsed = pem.parse_x509().expect("certificate");
        parsed.validity().not_after.timestamp()
    }

    async fn wait_past(&self, second: i64) {
        until("the certificate's end", LONG, async || {
            (Timestamp::now().as_second() > second).then_some(())
        })
        .await;
    }

    /// Whether a new connection to the agent finds the very instance.
    async fn reachable(&self) -> bool {
        let caller = self.inventory.authority.service("inventory", &[]);
        let caller = caller.expect("identity");
        let peers = Peers::new(
            [],
            tonic::transport::Certificate::from_pem(read(&self.common.tls.ca_file)),
            tonic::transport::Identity::from_pem(read(&caller.certificate), read(&caller.key)),
        );
        let hosts = read(&self.inventory.authority.host_root());
        let peers = peers.and_hosts(tonic::transport::Certificate::from_pem(hosts));
        let address = format!("127.0.0.1:{}", self.agent_port);
        let channel = peers
            .host_channel(&address, &self.inventory.node, &self.inventory.instance)
            .expect("channel");
        TopologyClient::new(channel)
            .discover(DiscoverRequest::default())
            .await
            .is_ok()
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).expect("readable file")
}

fn settings(port: u16, tls: TlsSettings) -> Settings {
    Settings {
        cell: CELL,
        server: ServerSettings {
            listen: vec![([127, 0, 0, 1], port).into()],
            metrics_listen: ([127, 0, 0, 1], gpuaas_dev::ports::free().expect("port")).into(),
            request_timeout_seconds: 30,
            concurrency_per_connection: 64,
            shutdown_grace_seconds: 5,
        },
        tls,
        token: Default::default(),
        database: None,
        redis: Default::default(),
        telemetry: Default::default(),
        audit: Default::default(),
        peers: Default::default(),
    }
}

/// An agent's parts on libvirt's test driver.
fn node(state: &Path) -> Node {
    let text = format!(
        "state_dir = {state:?}\nlibvirt_uri = \"test:///default\"\nadvertised_address = \"127.0.0.1:1\"\n\
         [profile]\nname = \"lab\"\nlab = true\nhypervisor = \"qemu\"\ncpu_model = \"qemu64\"\n\
         [images]\ncache_dir = {cache:?}\n[relay]\nkey_file = {relay:?}\n\
         [enrolment]\ntoken_file = {token:?}\n",
        cache = state.join("cache"),
        relay = state.join("relay/id"),
        token = state.join("token"),
    );
    Node::open(toml::from_str(&text).expect("settings"), b"").expect("node")
}

fn manner(lifetime: i64) -> Manner {
    Manner {
        lifetime,
        aborts: 0,
        refuses_keys: false,
    }
}

#[tokio::test]
async fn a_08_a_serving_agent_renews_its_certificate_before_it_ends() {
    let world = World::start(manner(15));
    world.ensure().await.expect("enrolled");
    let (first, ends) = (world.certificate(), world.ends());
    let context = Context::new("agent", world.common.clone()).expect("context");
    let server = Server::new(&context).add(TopologyServer::new(Serves));
    tokio::spawn(server.run(world.shutdown.clone()));
    until("the agent to serve", LONG, async || {
        world.reachable().await.then_some(())
    })
    .await;
    let keep = enrol::keep_certificate(&world.node, &context, world.shutdown.clone());
    let watch = async {
        until("the renewed certificate", LONG, async || {
            (world.certificate() != first).then_some(())
        })
        .await;
        let by = Peer::Host {
            node_id: world.inventory.node,
            instance_id: world.inventory.instance,
        };
        assert_eq!(world.inventory.requested()[1..], [Requested::Renew { by }]);
        assert!(Timestamp::now().as_second() <= ends, "in time");
        world.wait_past(ends).await;
        assert!(
            world.reachable().await,
            "what the agent shows is not the certificate that has ended"
        );
        world.shutdown.cancel();
    };
    let (kept, ()) = tokio::join!(keep, watch);
    kept.expect("ends with the agent");
}

#[tokio::test]
async fn a_host_that_was_away_past_the_end_of_its_certificate_stays_the_instance_it_is() {
    let world = World::start(manner(1));
    world.ensure().await.expect("enrolled");
    assert!(!world.token_file().exists(), "a used token is not kept");
    world.wait_past(world.ends()).await;
    world.inventory.manner.lock().expect("manner").lifetime = 600;
    world.ensure().await.expect("renewed without a token");
    let instance = world.inventory.instance.to_string();
    assert_eq!(
        world.inventory.requested()[1..],
        [Requested::RenewByKey { instance }]
    );
    assert!(world.ends() > Timestamp::now().as_second() + 60);
    world.ensure().await.expect("kept");
    assert_eq!(
        world.inventory.requested().len(),
        2,
        "a valid certificate asks nothing"
    );
}

#[tokio::test]
async fn a_host_that_may_not_come_back_says_why_and_what_to_do() {
    let world = World::start(manner(1));
    world.ensure().await.expect("enrolled");
    world.wait_past(world.ends()).await;
    world.inventory.manner.lock().expect("manner").refuses_keys = true;
    let error = format!("{:#}", world.ensure().await.expect_err("refused"));
    for part in ["expired too long ago", "agent.enrolment.token_file"] {
        assert!(error.contains(part), "{error}");
    }
    // with a token it becomes another instance
    std::fs::write(world.token_file(), "token").expect("token");
    world.ensure().await.expect("enrolled anew");
    assert!(matches!(
        world.inventory.requested().last(),
        Some(Requested::Enrol { .. })
    ));
}

#[tokio::test]
async fn a_06_an_enrolment_that_met_a_passing_fault_is_tried_again_with_the_same_key() {
    let world = World::start(Manner {
        aborts: 1,
        ..manner(600)
    });
    world.ensure().await.expect("enrolled");
    let requested = world.inventory.requested();
    let [
        Requested::Enrol { csr: first },
        Requested::Enrol { csr: second },
    ] = requested.as_slice()
    else {
        panic!("{requested:?}");
    };
    assert_eq!(first, second, "the same request, so the same instance");
}

#[tokio::test]
async fn a_heartbeat_that_hangs_does_not_hold_up_the_end() {
    let world = World::start(manner(600));
    world.ensure().await.expect("enrolled");
    let context = Context::new("agent", world.common.clone()).expect("context");
    let heartbeat = enrol::heartbeat(&world.node, &context, world.shutdown.clone());
    let end = async {
        until("the heartbeat", LONG, async || {
            let requested = world.inventory.requested();
            requested.contains(&Requested::Heartbeat).then_some(())
        })
        .await;
        world.shutdown.cancel();
    };
    let both = async { tokio::join!(heartbeat, end).0 };
    tokio::time::timeout(Duration::from_secs(20), both)
        .await
        .expect("the heartbeat ends")
        .expect("without an error");
}
